//! A check over hours: the grade of each hour, in addition to that of the whole time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::plan::criterion::Criterion;
use crate::verdict::Grade;

/// What a check over hours found about its hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongCheckSummary {
    /// Time that the figures represent, as planned, ns.
    pub duration_ns: u64,
    /// Rounds that were planned.
    pub rounds_planned: u32,
    /// Rounds that were measured.
    pub rounds: u32,
    /// Hours so far without a round: nothing is known about them.
    pub unseen_hours: u32,
    /// Share of the time in which the disk was used, including preparation, 0..1.
    pub busy_share: f64,
    /// Bytes written, including preparation.
    pub written_bytes: u64,
    /// How many times it was resumed and measured more.
    pub resumed: u32,
    /// Each criterion of each class, in the order of the verdicts.
    pub criteria: Vec<Hours>,
}

/// One criterion over the hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hours {
    /// Key of the class of workload.
    pub class: String,
    /// The threshold.
    pub criterion: Criterion,
    /// The hours that were measured, in order; the last may be shorter.
    pub hours: Vec<Hour>,
}

/// A criterion in one hour.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hour {
    /// When it began, ns since the Unix epoch.
    pub from_unix_ns: u64,
    /// Rounds measured in it.
    pub rounds: u32,
    /// The figure for that hour; absent if there is none.
    pub figure: Option<Estimate>,
    /// Its grade, by the same rule as for the whole time.
    pub grade: Grade,
}

impl Hours {
    /// Returns how many hours have this grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.hours.iter().filter(|hour| hour.grade == grade).count()
    }
}
