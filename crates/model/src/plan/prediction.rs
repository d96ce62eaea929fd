//! What predictions assume, and the names of steps that are measured again for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::prediction::Predicts;

/// What a prediction assumes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionPlan {
    /// pgbench's scale.
    pub scale: u32,
    /// What predictions were off by on this machine, of the runs that were kept when this one was planned.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub experience: Vec<Experience>,
}

/// What predictions of one figure were off by where its program ran on this machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Experience {
    /// Of what.
    pub what: Predicts,
    /// Clients at once.
    pub clients: u32,
    /// Of predictions without experience, one for each disk.
    pub errors: Vec<DiskError>,
}

/// What a prediction was off by on one disk.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DiskError {
    /// ln(predicted / measured).
    pub error: f64,
    /// Standard deviation of it that the measured commits explain: they are known within their interval.
    pub sd: f64,
}

/// Returns the name of a step that is measured again; `round` is 2 for the second time.
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
