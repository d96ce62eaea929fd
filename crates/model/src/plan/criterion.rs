//! Thresholds for the figures of a step.

use crate::op::OpClass;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One threshold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Criterion {
    /// Step whose figure is judged.
    pub step: String,
    /// Kind of operation.
    pub op: OpClass,
    /// Name of the metric, a row of [`crate::metric::METRICS`].
    pub metric: String,
    /// Passes at or below this (or above, for metrics where higher is better). In the metric's unit.
    pub pass: f64,
    /// Fails beyond this. Equal to `pass` if the source has only one bound.
    pub fail: f64,
    /// The bound as published, if `pass` is more lenient by a tolerance ("about 10,000 IOPS").
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub published: Option<f64>,
    /// What passing means, such as `standard droplet`; may be empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub label: String,
    /// Where the figures come from.
    pub source: String,
}
