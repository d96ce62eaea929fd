//! A check over hours: the grade of each of its hours, beside the one of the whole time.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::plan::criterion::Criterion;
use crate::verdict::Grade;

/// What a check over hours found about its hours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongCheckSummary {
    /// Time that the figures speak for, as planned, ns.
    pub duration_ns: u64,
    /// Rounds that were planned.
    pub rounds_planned: u32,
    /// Rounds that were measured.
    pub rounds: u32,
    /// Hours of the time so far without a round: nothing is known of them.
    pub unseen_hours: u32,
    /// Share of the time in which the disk was used, preparation included, 0..1.
    pub busy_share: f64,
    /// Bytes written, preparation included.
    pub written_bytes: u64,
    /// How often it was resumed and went on to measure.
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
    /// The figure of that hour; absent where there is none.
    pub figure: Option<Estimate>,
    /// Its grade, by the same rule as the whole time's.
    pub grade: Grade,
}

impl Hours {
    /// Returns how many hours have this grade.
    pub fn count(&self, grade: Grade) -> usize {
        self.hours.iter().filter(|hour| hour.grade == grade).count()
    }
}
