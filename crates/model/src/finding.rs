//! A conclusion of the analysis from a Record, with its evidence and confidence.

use crate::finding_id::FindingId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know.
    Info,
    /// Costs performance or durability, or limits what the figures mean.
    Warning,
    /// The figures, or the data's safety, cannot be relied on.
    Critical,
}

/// One conclusion.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Which detector and which of its conclusions: `flush_ignored`, `cache_answered`. Stable.
    pub id: FindingId,
    /// How much it matters.
    pub severity: Severity,
    /// Confidence, 0..1.
    pub confidence: f64,
    /// The step it was seen in; empty for the whole run.
    pub step: String,
    /// Other steps it was seen in as well, to a lesser degree.
    #[serde(default)]
    pub also_in: Vec<String>,
    /// The conclusion in one sentence.
    pub title: String,
    /// The figures it is based on.
    pub evidence: String,
    /// What the reader can do about it; empty if nothing.
    pub advice: String,
}
