//! Ways to make writes durable: what `qd1 sync` measured of each, and what programs should be set to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::files::FileSync;
use crate::plan::Sync;
use crate::units::Bytes;

/// A way to make writes durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SyncMethod {
    /// The call or the flag.
    pub sync: Sync,
    /// Whether the file is opened O_DIRECT.
    pub direct: bool,
}

impl SyncMethod {
    /// What programs name it by.
    pub const fn name(self) -> &'static str {
        match self.sync {
            Sync::Fdatasync => "fdatasync",
            Sync::Fsync => "fsync",
            Sync::ODsync => "O_DSYNC",
            Sync::OSync => "O_SYNC",
            Sync::RwfDsync => "RWF_DSYNC",
            Sync::SyncFileRange => "sync_file_range",
            Sync::None => "none",
            Sync::EndFsync => "end_fsync",
        }
    }
}

/// Whether a step of `qd1 sync` is about sizes or committers, and therefore uses the best of the methods measured
/// before it.
pub fn uses_best_method(step: &str) -> bool {
    ["size-", "own-", "shared-"].iter().any(|stem| step.starts_with(stem))
}

/// Where a commit's data goes in its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncLayout {
    /// Over existing data: a recycled log segment.
    Overwrite,
    /// At the end of a growing file.
    Append,
    /// Into space that was allocated and never written: a new log segment.
    Preallocated,
}

/// Everything that was measured about it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncTable {
    /// Size of the writes by which methods are compared, bytes.
    pub block: u32,
    /// Every combination measured, in the order it was planned.
    pub rows: Vec<SyncRow>,
    /// New files made durable.
    pub files: Vec<SyncFiles>,
    /// The durable method with the most commits per second: one committer, one write of `block` a commit, over written
    /// data. Absent if none was measured.
    pub best: Option<SyncMethod>,
    /// Durable methods that cannot be distinguished from it: their intervals overlap.
    pub tied: Vec<SyncMethod>,
    /// What programs can be set to, in the order of the programs.
    pub settings: Vec<SyncSetting>,
}

/// One combination, all its passes together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncRow {
    /// The method.
    #[serde(flatten)]
    pub method: SyncMethod,
    /// Whether it makes anything durable; sync_file_range does not.
    pub durable: bool,
    /// Writes in one commit.
    pub writes_per_sync: u32,
    /// Size of each, bytes.
    pub block: u32,
    /// Committers at the same time.
    pub committers: u32,
    /// Whether they share one file.
    pub shared: bool,
    /// Where the data goes.
    pub layout: SyncLayout,
    /// The steps it was measured in.
    pub steps: Vec<String>,
    /// Commits per second, of all committers together.
    pub commits_per_second: Estimate,
    /// Mean of a commit: its writes and its sync, ns.
    pub lat_mean_ns: Estimate,
    /// Its median, ns.
    pub lat_p50_ns: Estimate,
    /// Its 99th percentile, ns.
    pub lat_p99_ns: Estimate,
    /// Median of the sync alone, ns; absent where it is part of the write.
    pub sync_p50_ns: Option<Estimate>,
    /// 99th percentile of the sync alone, ns.
    pub sync_p99_ns: Option<Estimate>,
}

/// New files: created, written, synced, closed and removed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncFiles {
    /// How each was made durable.
    pub sync: FileSync,
    /// Size of each.
    pub size: Bytes,
    /// The step it was measured in.
    pub step: String,
    /// Files per second, including removal.
    pub files_per_second: Estimate,
    /// Median from open to close, ns.
    pub create_p50_ns: Estimate,
    /// 99th percentile of the same, ns.
    pub create_p99_ns: Estimate,
    /// Median of its syncs alone, ns.
    pub sync_p50_ns: Option<Estimate>,
    /// Median of the removal, ns.
    pub delete_p50_ns: Option<Estimate>,
}

/// A setting of a program, and what the program would wait for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SyncSetting {
    /// The program.
    pub program: String,
    /// As its documentation writes it.
    pub setting: String,
    /// What it means.
    pub note: String,
    /// How it commits.
    pub method: SyncMethod,
    /// Median of such a commit, ns; absent if this method was not measured.
    pub lat_p50_ns: Option<Estimate>,
    /// Commits per second of one committer with this method.
    pub commits_per_second: Option<Estimate>,
    /// Whether an acknowledged commit survives a power cut.
    pub durable: bool,
    /// The advice.
    pub advice: SyncAdvice,
}

/// Advice about a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SyncAdvice {
    /// It is the program's default, and nothing else is significantly better.
    Keep,
    /// It is significantly better than the program's default.
    Choose,
    /// Possible; no better than another, or slower.
    Possible,
    /// Durable where the program's default is not: a decision about what a power cut may lose, not about speed.
    Decide,
    /// There is no choice.
    Only,
    /// Faster because it gives up durability.
    Unsafe,
    /// Not measured here.
    Unknown,
}
