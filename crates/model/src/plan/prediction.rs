//! What predictions assume, and the names of steps that are measured again for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a prediction assumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PredictionPlan {
    /// pgbench's scale.
    pub scale: u32,
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
