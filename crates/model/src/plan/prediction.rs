//! What predictions assume, and the names of steps that are repeated for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prediction::Predicts;

/// What a prediction assumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionPlan {
    /// pgbench's scale.
    pub scale: u32,
    /// The errors of earlier predictions on this machine, from the runs stored when this one was planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experience: Vec<Experience>,
}

/// The errors of predictions for one figure when its program ran on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experience {
    /// The predicted figure.
    pub what: Predicts,
    /// Number of concurrent clients.
    pub clients: u32,
    /// The errors of predictions without experience, one for each disk.
    pub errors: Vec<DiskError>,
}

/// The error of a prediction on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskError {
    /// ln(predicted / measured).
    pub error: f64,
    /// The part of its standard deviation that is due to the uncertainty of the measured commits.
    pub sd: f64,
}

/// Returns the name of a repeated step; `round` is 2 for the second time.
pub fn name_in_round(step: &str, round: usize) -> String {
    format!("{step}-r{round}")
}

/// Returns the name of a step in its suite, without a round.
pub fn plain_name(step: &str) -> &str {
    match step.rsplit_once("-r") {
        Some((plain, round)) if round.parse::<usize>().is_ok() => plain,
        _ => step,
    }
}
