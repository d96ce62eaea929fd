//! Filesystems side by side: which ones to compare and how, how each was created and mounted, and the table that the
//! analysis makes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::op::OpClass;
use crate::record::program::AppRecord;

/// The table: a row for each figure, a cell for each filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The filesystems, in the order requested.
    pub filesystems: Vec<Candidate>,
    /// Rounds in which each of them was measured.
    pub rounds: u32,
    /// Figures.
    pub rows: Vec<Row>,
    /// Number of pairwise comparisons made for the ranks: each is tested at 0.05 divided by their number (Holm).
    pub comparisons: u32,
    /// What the detectors found, and on which filesystems.
    pub notes: Vec<Note>,
}

/// One filesystem of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its name in the plan.
    pub name: String,
    /// Type as mounted: `ext4`, `fuse.zfs`; empty if it was never mounted.
    pub kind: String,
    /// How it was created and mounted, from the first round in which it was.
    pub tool: String,
    /// Commands.
    pub commands: Vec<String>,
    /// Options requested beyond its own defaults.
    pub asked_options: String,
    /// Mount options as reported by the kernel.
    pub options: Vec<String>,
    /// Properties that mountinfo does not show.
    pub properties: Vec<String>,
    /// The real program that was run on it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
    /// Whether its loop device bypasses the page cache; absent without a loop device.
    pub loop_direct: Option<bool>,
    /// Whether programs can bypass its page cache.
    pub direct: bool,
    /// Rounds in which it was measured.
    pub rounds: u32,
    /// What prevented it from being measured in some round; usually empty.
    pub fault: String,
}

/// One figure of one step, on every filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The step's name in the suite.
    pub step: String,
    /// One line for people.
    pub title: String,
    /// Kind of operation.
    pub op: OpClass,
    /// Name of the metric, with its unit: see the table of metrics.
    pub metric: String,
    /// Whether it is the one figure of this step that the short table shows and that ranks are based on.
    pub leads: bool,
    /// One for each filesystem, in their order.
    pub cells: Vec<CellOf>,
}

/// One figure of one filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellOf {
    /// Geometric mean over the rounds, with a 95 % interval that covers both the differences between rounds and the
    /// uncertainty within each; `n` counts operations, `n_effective` rounds.
    pub over_rounds: Estimate,
    /// The figures of the individual rounds, each with its own interval; in the order of rounds.
    pub rounds: Vec<RoundFigure>,
    /// Rank from 1; equal if no difference between two is significant. Absent if it cannot be ranked.
    pub rank: Option<u32>,
    /// How many times the best filesystem's figure it is, round by round, with a 95 % interval; absent for the best.
    pub to_best: Option<Estimate>,
}

/// The figure of one round.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RoundFigure {
    /// Round, from 1.
    pub round: u32,
    /// The figure.
    pub figure: Estimate,
}

/// What a detector found on some of the filesystems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Their names.
    pub filesystems: Vec<String>,
    /// How many of their mounts it was seen in.
    pub seen: u32,
    /// Number of their mounts.
    pub of: u32,
    /// The clearest one.
    pub finding: crate::Finding,
}
