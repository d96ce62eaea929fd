//! What a watch amounts to: its disks, the programs that used them, and what took long.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::op::OpClass;
use crate::record::watched::{DiskLimits, LongWait, WatchedProgram};
use crate::units::Bytes;

/// A watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Watched {
    /// What was watched, ns.
    pub watched_ns: u64,
    /// Why there are no latencies, syncs or waits; empty if there are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unseen: String,
    /// A row for each disk in use and each kind of its operations, the busiest disk first.
    pub rows: Vec<WatchedRow>,
    /// For how long demand was above the limits of each disk that counts this, the busiest disk first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub limits: Vec<WatchedLimits>,
    /// Programs that used them: first those that waited longest for their syncs, then those that moved most bytes.
    pub programs: Vec<WatchedProgram>,
    /// Requests and syncs that took 0.5 s or longer, longest first, as far as they are recorded.
    pub waits: Vec<LongWait>,
    /// How many there were.
    pub waits_seen: u64,
}

/// The limits of a cloud's disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedLimits {
    /// The disk.
    pub disk: String,
    /// For how long demand was above them.
    #[serde(flatten)]
    pub limits: DiskLimits,
}

/// One kind of operation of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedRow {
    /// The disk.
    pub disk: String,
    /// Kind of operation.
    pub class: OpClass,
    /// Requests per second.
    pub per_second: f64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Mean time of one in queue and device, ns.
    pub await_ns: f64,
    /// Median latency of all requests, ns, at most 3 % off; absent, like the next three, if there were too few or
    /// latencies were not recorded.
    pub lat_p50_ns: Option<u64>,
    /// 99th percentile.
    pub lat_p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub lat_p999_ns: Option<u64>,
    /// Longest latency.
    pub lat_max_ns: Option<u64>,
    /// Share of the time in which the disk had any request in flight, 0..1.
    pub busy: f64,
}
