//! Filesystems beside each other: which were to be compared and how, how each was made and mounted, and the table that
//! the analysis makes of it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::app::AppRecord;
use crate::environment::{Device, DeviceCounters, Filesystem};
use crate::figure::Estimate;
use crate::record::{OpClass, Prepare};
use crate::units::Bytes;

/// What makes a run a comparison of filesystems; in the Plan, so that a stored one is judged as it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FilesystemsPlan {
    /// How often each filesystem is made and measured.
    pub rounds: u32,
    /// The filesystems by name, in the order asked; one that was asked twice has a number behind its name.
    pub names: Vec<String>,
    /// The order in each round, as positions in `names`.
    pub order: Vec<Vec<u32>>,
    /// Whether each was tuned for databases (`--fair`) or left as its tools make it.
    pub fair: bool,
    /// Size of each filesystem's disk.
    pub disk: Bytes,
    /// Whether that disk is a file with a loop device over it; else it is the block device named.
    pub on_loop: bool,
}

/// One filesystem in one round: how it was made, what the kernel says of it, and which steps ran on it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MountRecord {
    /// Its name in the plan.
    pub name: String,
    /// Round, from 1.
    pub round: u32,
    /// What the program that makes it says it is: `mkfs.xfs version 6.1.0`.
    pub tool: String,
    /// The commands that made it, as they ran; the device is `DEVICE`, the mount point `DIR`.
    pub commands: Vec<String>,
    /// Options it was mounted with, as asked for beyond the filesystem's own defaults.
    pub asked_options: String,
    /// Type, and all mount options, as mountinfo has them.
    pub filesystem: Filesystem,
    /// Properties that mountinfo does not show (zfs), as `name=value`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub properties: Vec<String>,
    /// Block devices below it, the topmost first.
    pub devices: Vec<Device>,
    /// Whether the loop device reads and writes its file past the page cache; absent without a loop device.
    pub loop_direct: Option<bool>,
    /// Whether programs can read and write past this filesystem's page cache.
    pub direct: bool,
    /// What the kernel counted on its device while its steps ran; absent where it counts nothing there.
    pub counted: Option<DeviceCounters>,
    /// How its test file was made; absent where no step wants one.
    pub prepare: Option<Prepare>,
    /// The real program that was run on it as well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
    /// The names of its steps in the Record: `NAME/rROUND/STEP`.
    pub steps: Vec<String>,
    /// What kept it from being measured; mostly empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
}

impl MountRecord {
    /// The name of `step` on this mount, as the Record has it.
    pub fn step_name(&self, step: &str) -> String {
        format!("{}/r{}/{step}", self.name, self.round)
    }

    /// The name of a step of this mount as its suite has it.
    pub fn plain_name<'a>(&self, step: &'a str) -> &'a str {
        step.strip_prefix(&self.step_name("")).unwrap_or(step)
    }
}

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
