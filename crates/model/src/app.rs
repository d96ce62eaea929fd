//! A real program on the disk: what was run, what it said of itself, and what the analysis makes of that.
//!
//! Operations that qd1 timed one by one (a transaction of pgbench's log, a commit of SQLite's) are streams and intervals of
//! the step, as any others. What only the program knows stands here: its counters, its own histograms, its own words.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::DeviceCounters;
use crate::verdict::Grade;

/// A program that is run for its own sake.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Program {
    /// PostgreSQL, under pgbench.
    Postgres,
    /// etcd, under `etcdctl check perf`.
    Etcd,
    /// SQLite, inside qd1.
    Sqlite,
    /// RocksDB's db_bench.
    Rocksdb,
    /// sysbench fileio.
    Sysbench,
}

impl Program {
    /// For the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Etcd => "etcd",
            Self::Sqlite => "sqlite",
            Self::Rocksdb => "rocksdb",
            Self::Sysbench => "sysbench",
        }
    }

    /// For people.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Etcd => "etcd",
            Self::Sqlite => "SQLite",
            Self::Rocksdb => "RocksDB db_bench",
            Self::Sysbench => "sysbench fileio",
        }
    }
}

/// What a load is, as planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AppWork {
    /// Which program.
    pub program: Program,
    /// Clients that work side by side.
    pub clients: u32,
    /// Requests per second that come whether or not those before them are answered; absent where each client waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
}

/// The program of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppRecord {
    /// Which.
    pub program: Program,
    /// Its version, as it says.
    pub version: String,
    /// How it was set up, where that differs from its own defaults or decides what is measured.
    pub settings: Vec<Setting>,
    /// How long making its data took, ns; not measured as a load.
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

/// What one load brought besides what qd1 timed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppStep {
    /// What the program counted over the load, its warm-up included.
    pub counters: Vec<Counter>,
    /// Figures that the program states itself; without intervals, since it gives none.
    pub reported: Vec<Counter>,
    /// Its own histograms over the load.
    pub buckets: Vec<Buckets>,
    /// What the kernel counted on the disk over the load, its warm-up included; absent where there is no one disk.
    pub device: Option<DeviceCounters>,
}

impl AppStep {
    /// The counter called `name`.
    pub fn counter(&self, name: &str) -> Option<f64> {
        self.counters.iter().find(|counter| counter.name == name).map(|counter| counter.value)
    }

    /// The figure called `name` that the program states.
    pub fn reported(&self, name: &str) -> Option<f64> {
        self.reported.iter().find(|figure| figure.name == name).map(|figure| figure.value)
    }
}

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum AppUnit {
    /// A number of things.
    Count,
    /// Things per second.
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Things for each operation of the load.
    PerOperation,
    /// Bytes for each operation of the load.
    BytesPerOperation,
}

/// A figure with its name and unit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Counter {
    /// The program's name for it where it has one.
    pub name: String,
    /// In this unit.
    pub unit: AppUnit,
    /// The figure.
    pub value: f64,
}

impl Counter {
    /// A figure.
    pub fn new(name: impl Into<String>, unit: AppUnit, value: f64) -> Self {
        Self { name: name.into(), unit, value }
    }
}

/// A histogram of a program's own, with the bounds it chose.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Buckets {
    /// The program's name for it.
    pub name: String,
    /// Upper bound of each bucket, ns, rising; what lies above the last is counted last.
    pub bounds_ns: Vec<u64>,
    /// Values in each bucket, and above the last bound: one more than there are bounds.
    pub counts: Vec<u64>,
    /// Sum of the values, ns.
    pub sum_ns: u64,
}

/// What the analysis makes of a program's run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppSummary {
    /// One for each load.
    pub loads: Vec<AppLoad>,
}

/// One load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppLoad {
    /// The step's name.
    pub step: String,
    /// Worked out from the counters: of the whole load, so that there is nothing to estimate.
    pub facts: Vec<Counter>,
    /// Percentiles of the program's own histograms.
    pub quantiles: Vec<BucketQuantile>,
    /// What the program's own rules, or its documentation, ask for.
    pub checks: Vec<AppCheck>,
}

/// A percentile from buckets: no more is known than the bucket it lies in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketQuantile {
    /// The histogram.
    pub name: String,
    /// Quantile, 0..1.
    pub q: f64,
    /// Above this, ns, with 95 % confidence.
    pub above_ns: Option<u64>,
    /// At most this, ns, with 95 % confidence; absent where it may lie above the last bound.
    pub at_most_ns: Option<u64>,
    /// Values it rests on.
    pub n: u64,
}

/// One thing asked for, and how it came out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppCheck {
    /// What is looked at: `throughput`, `slowest`, `stddev`, `wal_fsync_p99`.
    pub name: String,
    /// Its unit.
    pub unit: AppUnit,
    /// The figure; absent where it is not known or only its bounds are.
    pub value: Option<f64>,
    /// It lies above this.
    pub low: Option<f64>,
    /// It is at most this.
    pub high: Option<f64>,
    /// What is asked for.
    pub bound: f64,
    /// Whether the figure has to be above the bound rather than at most as high.
    pub at_least: bool,
    /// How it came out.
    pub grade: Grade,
    /// Where the bound is from.
    pub source: String,
}
