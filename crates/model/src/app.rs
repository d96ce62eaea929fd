//! A real program on the disk: what was run, what it said of itself, and what the analysis makes of that.
//!
//! Operations that qd1 timed one by one (a transaction of pgbench's log, a commit of SQLite's) are streams and intervals of
//! the step, as any others. What only the program knows stands here: its counters, its own histograms, its own words.

use crate::record::program::{AppUnit, Counter};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::verdict::Grade;

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
