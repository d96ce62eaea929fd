//! The table of `qd1 meta`: a row for each kind of operation on files, in the order measured.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::figure::Estimate;
use crate::files::{FileOp, FileOrder};
use crate::op::Ended;

/// bonnie++'s unit for the number of files.
pub const BONNIE_UNIT: u64 = 1024;
/// Number of random reads that bonnie++ makes.
pub const BONNIE_SEEKS: u64 = 8192;
/// Number of processes among which they are divided.
pub const BONNIE_SEEKERS: u32 = 5;

/// Results of file operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Meta {
    /// A row for each step that does one thing with files.
    pub rows: Vec<MetaRow>,
}

/// One operation on files, in one order.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MetaRow {
    /// The step it was measured in.
    pub step: String,
    /// What was done.
    pub op: FileOp,
    /// In which order.
    pub order: FileOrder,
    /// Operations that succeeded.
    pub ios: u64,
    /// How many were planned; 0 if only the time decides.
    pub wanted: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Why it ended.
    pub ended: Ended,
    /// Time taken, ns, including the final sync.
    pub elapsed_ns: u64,
    /// Operations divided by the time taken: an observation, not an estimate of what another run would give.
    pub seen_per_second: f64,
    /// The same for bytes.
    pub seen_bytes_per_second: f64,
    /// Operations per second of all workers together.
    pub per_second: Estimate,
    /// Bytes per second; absent where no bytes move.
    pub bytes_per_second: Option<Estimate>,
    /// Median latency, ns.
    pub lat_p50_ns: Estimate,
    /// 99th percentile, ns.
    pub lat_p99_ns: Estimate,
    /// Slowest seen, ns: an observation, not an estimate.
    pub lat_max_ns: u64,
    /// Median of the syncs within the operations, ns; absent if they have none.
    pub sync_p50_ns: Option<Estimate>,
    /// 99th percentile of them, ns.
    pub sync_p99_ns: Option<Estimate>,
    /// Processor time of the workers divided by the time taken: 1 is one processor all the time.
    pub cpu_share: f64,
}
