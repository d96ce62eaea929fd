//! What makes a plan a sweep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a sweep is besides its steps; in the Plan, so that a stored sweep is judged as it was asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPlan {
    /// How often each cell is measured.
    pub passes: u32,
    /// Longest p99 that the user can accept, ns.
    pub max_p99_ns: Option<u64>,
}
