//! Filesystems beside each other: which were to be compared and how, how each was made and mounted, and the table that
//! the analysis makes of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::op::OpClass;
use crate::record::program::AppRecord;

/// The table: a row for each figure, a cell for each filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The filesystems, in the order asked.
    pub filesystems: Vec<Candidate>,
    /// Rounds in which each of them was measured.
    pub rounds: u32,
    /// Figures.
    pub rows: Vec<Row>,
    /// Comparisons of two filesystems that were made for the ranks: each is held to 0.05 over their number (Holm).
    pub comparisons: u32,
    /// What the detectors say, and of which filesystems.
    pub notes: Vec<Note>,
}

/// One filesystem of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Candidate {
    /// Its name in the plan.
    pub name: String,
    /// Type as mounted: `ext4`, `fuse.zfs`; empty where it was never mounted.
    pub kind: String,
    /// How it was made and mounted; of the first round in which it was.
    pub tool: String,
    /// Commands.
    pub commands: Vec<String>,
    /// Options asked for beyond its own defaults.
    pub asked_options: String,
    /// Mount options as the kernel has them.
    pub options: Vec<String>,
    /// Properties that mountinfo does not show.
    pub properties: Vec<String>,
    /// The real program that was run on it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
    /// Whether its loop device goes past the page cache; absent without a loop device.
    pub loop_direct: Option<bool>,
    /// Whether programs can go past its page cache.
    pub direct: bool,
    /// Rounds in which it was measured.
    pub rounds: u32,
    /// What kept it from being measured in some round; mostly empty.
    pub fault: String,
}

/// One figure of one step, of every filesystem.
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
    /// Whether it is the one figure of this step that the short table shows and ranks rest on.
    pub leads: bool,
    /// One for each filesystem, in their order.
    pub cells: Vec<CellOf>,
}

/// One figure of one filesystem.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CellOf {
    /// Geometric mean over the rounds, with a 95 % interval that holds both what rounds differ by and what is not known
    /// within each; `n` counts operations, `n_effective` rounds.
    pub over_rounds: Estimate,
    /// The rounds' own figures, each with the interval from within it; in the order of rounds.
    pub rounds: Vec<RoundFigure>,
    /// Rank from 1; equal where nothing sure lies between two. Absent where it cannot be ranked.
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

/// What a detector says of some of the filesystems.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Note {
    /// Their names.
    pub filesystems: Vec<String>,
    /// In how many mounts, of all of theirs, it was seen.
    pub seen: u32,
    /// Mounts of theirs.
    pub of: u32,
    /// The clearest one.
    pub finding: crate::Finding,
}
