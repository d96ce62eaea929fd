//! Grades per class of workload, and the thresholds they are based on (data, from TOML).

use crate::plan::criterion::Criterion;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;

/// A grade.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// The figure meets the healthy threshold, and its interval meets the ceiling.
    Pass,
    /// Between healthy and the ceiling.
    Marginal,
    /// The figure is beyond the ceiling, and its interval is beyond the healthy threshold.
    Fail,
    /// The samples do not resolve it.
    NotResolved,
}

impl Grade {
    /// For tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Pass => "pass",
            Self::Marginal => "marginal",
            Self::Fail => "fail",
            Self::NotResolved => "not resolved",
        }
    }
}

/// All thresholds: `app/thresholds.toml`, or the user's own file of the same form.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Thresholds {
    /// Classes of workload, in the order shown.
    pub class: Vec<ThresholdClass>,
}

/// A class of workload.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThresholdClass {
    /// Key: `etcd`, `database`, `web`, `bulk`.
    pub name: String,
    /// For people: `etcd / Kubernetes`.
    pub title: String,
    /// The criteria; the class's grade is the worst of theirs.
    pub criterion: Vec<Criterion>,
}

/// A description of one kind of request: a word that its whole interval supports, or the best and worst possible ones.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Impression {
    /// `commits` or `reads`.
    pub requests: String,
    /// The word; absent if not resolved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub word: Option<String>,
    /// Why it is not resolved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// What is judged: a name from [`crate::metric::METRICS`], and its figure if it was measured.
    pub metric: String,
    /// The figure, without the time its slow operations waited for a processor, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub figure: Option<Estimate>,
    /// The figure with these waits, if there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub with_waits: Option<Estimate>,
    /// The median latency of the same requests, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<Estimate>,
    /// The words and the upper limit of each, in the metric's unit; the last word has no limit.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub bounds: Vec<WordBound>,
    /// The source of the limits between the words.
    pub source: String,
}

/// A word, and its upper limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WordBound {
    /// The word.
    pub word: String,
    /// Largest figure it applies to.
    pub up_to: f64,
}

/// Whether flushes were seen to write out what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Durability {
    /// They were. Only a power cut can show what happens to the data after that.
    pub is_seen: bool,
    /// What was seen, or why it is unknown.
    pub why: String,
}

/// One criterion, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// The threshold.
    pub criterion: Criterion,
    /// The figure; absent when the step did not run.
    pub figure: Option<Estimate>,
    /// The grade.
    pub grade: Grade,
    /// Why it is not resolved, if so: too few samples, step not run, figures spoiled.
    pub why: String,
}

/// A class of workload, judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Key of the class.
    pub class: String,
    /// For people.
    pub title: String,
    /// The worst grade of its criteria; not resolved only if nothing failed.
    pub grade: Grade,
    /// Its criteria.
    pub judged: Vec<Judged>,
}
