//! What a real program reports about itself and its loads.

use crate::environment::DeviceCounters;
use crate::plan::program::Program;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// etcd's name for the histogram of its log's syncs.
pub const ETCD_WAL_FSYNC: &str = "etcd_disk_wal_fsync_duration_seconds";

/// The program of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppRecord {
    /// Which program.
    pub program: Program,
    /// Its version, as it reports it.
    pub version: String,
    /// Settings that differ from its defaults or affect what is measured.
    pub settings: Vec<Setting>,
    /// Time taken to create its data, ns; not part of a load.
    pub prepare_ns: u64,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// The program's name for it.
    pub name: String,
    /// Its value.
    pub value: String,
}

/// Results of one load besides what qd1 timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppStep {
    /// What the program counted over the load, its warm-up included.
    pub counters: Vec<Counter>,
    /// Figures that the program reports itself; without intervals, since it gives none.
    pub reported: Vec<Counter>,
    /// Its own histograms over the load.
    pub buckets: Vec<Buckets>,
    /// The kernel's counters of the disk over the load, its warm-up included; absent if there is not exactly one disk.
    pub device: Option<DeviceCounters>,
    /// What was due, if operations come at a rate and qd1 sends them itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due: Option<Due>,
}

/// Operations that come at a rate, whether or not earlier ones have been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Due {
    /// How many were due in the measured time.
    pub count: u64,
    /// How long answers were still awaited after that time, ns: those without an answer took at least this long.
    pub drain_ns: u64,
}

impl AppStep {
    /// Returns the counter called `name`.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }

    /// Returns the figure called `name` that the program reports.
    pub fn reported(&self, name: &str) -> Option<f64> {
        self.reported.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppUnit {
    /// A count.
    Count,
    /// A rate per second.
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// A count for each operation of the load.
    PerOperation,
    /// Bytes for each operation of the load.
    BytesPerOperation,
}

/// A figure with its name and unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The program's name for it, if it has one.
    pub name: String,
    /// The unit.
    pub unit: AppUnit,
    /// The figure.
    pub value: f64,
}

impl Counter {
    /// Returns a figure.
    pub fn new(name: impl Into<String>, unit: AppUnit, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}

/// A program's own histogram, with its bounds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// The program's name for it.
    pub name: String,
    /// Upper bound of each bucket, ns, ascending; values above the last have their own count.
    pub bounds_ns: Vec<u64>,
    /// Values in each bucket, and above the last bound: one more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of the values, ns.
    pub sum_ns: u64,
}
