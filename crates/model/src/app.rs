//! A real program on the disk: what was run, what it reported, and what the analysis makes of that.
//!
//! Operations that qd1 timed individually (a transaction in pgbench's log, a SQLite commit) are streams and intervals
//! of the step, like any others. What only the program knows is here: its counters, its own histograms, its own
//! messages.

use crate::record::program::{AppUnit, Counter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Grade;

/// The analysis of a program's run.
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
    /// Computed from the counters over the whole load, so nothing is estimated.
    pub facts: Vec<Counter>,
    /// Percentiles from the program's own histograms.
    pub quantiles: Vec<BucketQuantile>,
    /// Requirements from the program's own rules or its documentation.
    pub checks: Vec<AppCheck>,
}

/// A percentile from buckets: only the bucket it lies in is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BucketQuantile {
    /// The histogram.
    pub name: String,
    /// Quantile, 0..1.
    pub q: f64,
    /// Above this, ns, with 95 % confidence.
    pub above_ns: Option<u64>,
    /// At most this, ns, with 95 % confidence; absent if it may lie above the last bound.
    pub at_most_ns: Option<u64>,
    /// Number of values it is based on.
    pub n: u64,
}

/// One requirement, and its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AppCheck {
    /// What is judged: `throughput`, `slowest`, `stddev`, `wal_fsync_p99`.
    pub name: String,
    /// Its unit.
    pub unit: AppUnit,
    /// The figure; absent if it is unknown or only its bounds are known.
    pub value: Option<f64>,
    /// It lies above this.
    pub low: Option<f64>,
    /// It is at most this.
    pub high: Option<f64>,
    /// The required bound.
    pub bound: f64,
    /// Whether the figure must be above the bound rather than at most equal to it.
    pub at_least: bool,
    /// The outcome.
    pub grade: Grade,
    /// The source of the bound.
    pub source: String,
}
