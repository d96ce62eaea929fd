//! What `compare` found: runs set side by side.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::measured::Aspect;
use crate::metric::Better;
use crate::op::OpClass;

/// Groups of runs, of which each is compared with the first.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// Version of this layout: [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// What is compared; the first is the one that the others are compared with.
    pub sides: Vec<Side>,
    /// What they differ in besides their figures.
    pub differences: Vec<Difference>,
    /// What was measured, in the order of the first side's steps.
    pub rows: Vec<Row>,
    /// Each other side over the first in everything: how many times as long operations take, in the geometric mean over the
    /// kinds of operation of all steps, each by its mean latency or, where that is not known, its first figure. Empty where
    /// there is only one of them.
    pub overall: Vec<Effect>,
    /// Chance that any of the primary figures, the whole among them, is said to be better or worse where nothing differs.
    pub family_wise_error: f64,
    /// Share of the other figures said to be better or worse that are so by chance, on average at most.
    pub false_discovery_rate: f64,
    /// Steps that are in no row, and why.
    pub left_out: Vec<LeftOut>,
    /// Where the intervals of the effects come from.
    pub basis: Basis,
    /// About how many runs of each side would find a difference of [`FOUND`]; absent where no figure could tell.
    pub runs_needed: Option<u32>,
    /// Limits of `--fail-if`, in the order given.
    pub limits: Vec<Limit>,
}

/// The difference that [`Comparison::runs_needed`] is about.
pub const FOUND: f64 = 0.1;

/// One or more runs of the same thing.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Side {
    /// Its name.
    pub name: String,
    /// Its runs.
    pub runs: Vec<RunName>,
    /// What its sources do not have and a comparison would need.
    pub missing: Vec<String>,
}

/// A run of a side.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunName {
    /// Its id, or its file.
    pub label: String,
    /// Tool and version.
    pub tool: String,
    /// Wall clock at the start, ns since the Unix epoch, where it is known.
    pub started_unix_ns: Option<u64>,
}

/// Something that the sides differ in besides their figures.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Difference {
    /// What.
    pub aspect: Aspect,
    /// Its step, where only that differs; empty for the whole run.
    pub step: String,
    /// Its value on each side; empty where it is not known. What spoils runs is a line each.
    pub values: Vec<String>,
    /// Why that may mislead; empty where it is mostly what is compared.
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
    /// Whether it is among the first that users of the step notice.
    pub leads: bool,
    /// Whether it is one of the figures that decide, which are tested first; all others are exploratory.
    pub is_primary: bool,
    /// The figure of each side, over its runs.
    pub figures: Vec<Estimate>,
    /// Each other side over the first.
    pub effects: Vec<Effect>,
}

/// How a figure of one side compares with that of the first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Effect {
    /// The ratio; `n` is the number of runs. The intervals of the primary figures hold together, in 95 % of comparisons; of
    /// the others that are said to be better or worse 95 % hold.
    pub ratio: Estimate,
    /// Chance that equal sides would be so far apart, for this figure alone and without any allowance for the others; absent
    /// where nobody knows.
    pub chance: Option<f64>,
    /// The conclusion.
    pub word: Word,
    /// Of `same`: by how much they differ at most, as a share of the first.
    pub within: Option<f64>,
    /// Whether nothing is concluded because a finding says that a run of either side is not the disk alone.
    pub is_spoiled: bool,
    /// The factor that what spoiled a run of either side explains at most, which the interval allows for; absent where
    /// nothing did, or nobody knows.
    pub explained: Option<f64>,
}

/// What an effect comes to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Word {
    /// Better than the first.
    Better,
    /// Worse than the first.
    Worse,
    /// The same within [`Effect::within`].
    Same,
    /// Neither is known.
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

    /// Returns the word for a ratio that is surely above or below 1.
    pub const fn of(is_above: bool, better: Better) -> Self {
        match (is_above, better) {
            (true, Better::Higher) | (false, Better::Lower) => Self::Better,
            _ => Self::Worse,
        }
    }
}

/// A step that is in no row.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub struct LeftOut {
    /// The side's name.
    pub side: String,
    /// The step's name there.
    pub step: String,
    /// Why; empty where the sides that it would be compared with have none like it.
    pub why: String,
}

/// Where intervals of effects come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// From how runs of a side differ from each other.
    Runs,
    /// From the intervals within single runs: how runs differ from each other is not known.
    #[default]
    Visits,
    /// From neighbouring visits of two runs that were measured in turn: what moves both cancels.
    Pairs,
}

/// A limit of `--fail-if`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Limit {
    /// As it was written.
    pub text: String,
    /// The side that is held to it.
    pub side: String,
    /// The ratio to the first side; its interval holds together with those of the other limits.
    pub ratio: Estimate,
    /// Whether the whole interval is beyond the limit.
    pub is_beyond: bool,
    /// Whether it is known to be within the limit; neither where it cannot be told.
    pub is_within: bool,
    /// Whether it is exceeded by an improvement.
    pub is_of_better: bool,
}
