//! The part of a plan that makes it a sweep.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The settings of a sweep besides its steps; in the Plan, so that a saved sweep is analysed as it was requested.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SweepPlan {
    /// How many times each cell is measured.
    pub passes: u32,
    /// Longest p99 that the user can accept, ns.
    pub max_p99_ns: Option<u64>,
}
