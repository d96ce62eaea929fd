//! What `compare` found: runs side by side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::measured::Aspect;
use crate::metric::Better;
use crate::op::OpClass;

/// Groups of runs, each compared with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this layout: [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// The sides; the others are compared with the first.
    pub sides: Vec<Side>,
    /// Differences other than their figures.
    pub differences: Vec<Difference>,
    /// What was measured, in the order of the first side's steps.
    pub rows: Vec<Row>,
    /// Each other side relative to the first overall: how many times as long operations take, as the geometric mean
    /// over the kinds of operation of all steps, each by its mean latency or, if that is unknown, its first figure.
    /// Empty if there is only one kind.
    pub overall: Vec<Effect>,
    /// Probability that any of the primary figures, including the overall one, is reported as better or worse although
    /// nothing differs.
    pub family_wise_error: f64,
    /// Maximum average share of the other figures reported as better or worse that are so only by chance.
    pub false_discovery_rate: f64,
    /// Steps that are not in any row, and why.
    pub left_out: Vec<LeftOut>,
    /// What the intervals of the effects are based on.
    pub basis: Basis,
    /// Approximate number of runs per side needed to detect a difference of [`FOUND`]; absent if no figure could show
    /// it.
    pub runs_needed: Option<u32>,
    /// Limits of `--fail-if`, in the order given.
    pub limits: Vec<Limit>,
}

/// The difference that [`Comparison::runs_needed`] refers to.
pub const FOUND: f64 = 0.1;

/// One or more runs of the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<RunName>,
    /// What a comparison would need but its sources do not contain.
    pub missing: Vec<String>,
}

/// A run of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunName {
    /// Its id, or its file.
    pub label: String,
    /// Tool and version.
    pub tool: String,
    /// Wall clock at the start, ns since the Unix epoch, if known.
    pub started_unix_ns: Option<u64>,
}

/// A difference between the sides other than their figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What.
    pub aspect: Aspect,
    /// Its step, if only that differs; empty for the whole run.
    pub step: String,
    /// Its value on each side; empty if unknown. Things that spoil runs have one line each.
    pub values: Vec<String>,
    /// Why that may mislead; empty if it is usually what the user wants to compare.
    pub warning: String,
}

/// One figure on all sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The step's name on the first side.
    pub step: String,
    /// Its other names, on the other sides.
    pub also: Vec<String>,
    /// What it does, for people.
    pub title: String,
    /// Kind of operation.
    pub op: OpClass,
    /// Which figure: the name of a [`crate::metric::Metric`].
    pub metric: String,
    /// Whether it is among the figures that users of the step notice first.
    pub leads: bool,
    /// Whether it is one of the deciding figures, which are tested first; all others are exploratory.
    pub is_primary: bool,
    /// The figure of each side, over its runs.
    pub figures: Vec<Estimate>,
    /// Each other side relative to the first.
    pub effects: Vec<Effect>,
}

/// How a figure of one side compares with that of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The ratio; `n` is the number of runs. In 95 % of comparisons, all intervals of the primary figures hold; of the
    /// others reported as better or worse, 95 % hold.
    pub ratio: Estimate,
    /// Probability that equal sides would be this far apart, for this figure alone and not adjusted for the others;
    /// absent if unknown.
    pub chance: Option<f64>,
    /// The conclusion.
    pub word: Word,
    /// For `same`: the maximum difference, as a share of the first.
    pub within: Option<f64>,
    /// Whether nothing is concluded because a finding says that a run on either side measured more than the disk.
    pub is_spoiled: bool,
    /// The largest factor that disturbances of a run on either side can explain, which the interval allows for; absent
    /// if there were none, or it is unknown.
    pub explained: Option<f64>,
}

/// The conclusion about an effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Better than the first.
    Better,
    /// Worse than the first.
    Worse,
    /// The same within [`Effect::within`].
    Same,
    /// None of these is certain.
    #[default]
    CannotTell,
}

impl Word {
    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Better => "better",
            Self::Worse => "worse",
            Self::Same => "same",
            Self::CannotTell => "cannot tell",
        }
    }

    /// Returns the word for a ratio that is significantly above or below 1.
    pub const fn of(is_above: bool, better: Better) -> Self {
        match (is_above, better) {
            (true, Better::Higher) | (false, Better::Lower) => Self::Better,
            _ => Self::Worse,
        }
    }
}

/// A step that is not in any row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The side's name.
    pub side: String,
    /// The step's name there.
    pub step: String,
    /// Why; empty if the sides it would be compared with have no such step.
    pub why: String,
}

/// What intervals of effects are based on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// On how the runs of a side differ from each other.
    Runs,
    /// On the intervals within single runs: how runs differ from each other is unknown.
    #[default]
    Visits,
    /// On neighbouring visits of two runs that were measured in turn: what affects both cancels.
    Pairs,
}

/// A limit of `--fail-if`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    /// The side to which it applies.
    pub side: String,
    /// The ratio to the first side; its interval holds jointly with those of the other limits.
    pub ratio: Estimate,
    /// Whether the whole interval is beyond the limit.
    pub is_beyond: bool,
    /// Whether it is known to be within the limit; if unknown, neither this nor the above is true.
    pub is_within: bool,
    /// Whether it is exceeded by an improvement.
    pub is_of_better: bool,
}
