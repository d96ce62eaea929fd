//! What charts show about a run beyond its figures: how latencies are distributed, and how each step developed over
//! time.
//!
//! The analysis makes it from a Record when a report with charts is requested; it is not stored.

use crate::figure::Estimate;
use crate::op::OpClass;

/// The data of all charts of one run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ChartData {
    /// One for each kind of operation of each step, and for the parts of commits.
    pub distributions: Vec<Distribution>,
    /// One for each kind of operation of each step that has intervals.
    pub timelines: Vec<Timeline>,
}

/// Which part of an operation's latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// All of it.
    Whole,
    /// The write of a commit.
    Write,
    /// The sync of a commit.
    Sync,
}

/// Latencies of one kind of operation of one step.
#[derive(Clone, Debug, PartialEq)]
pub struct Distribution {
    /// Name of the step.
    pub step: String,
    /// Kind of operation.
    pub class: OpClass,
    /// Which part of each was timed.
    pub part: Part,
    /// Number of operations.
    pub count: u64,
    /// Latency at increasing shares of the operations, the last one being the slowest: (share 0..=1, ns).
    pub points: Vec<(f64, f64)>,
    /// Percentiles with their intervals, ns, as in the tables: (share 0..1, figure). Only for whole operations.
    pub figures: Vec<(f64, Estimate)>,
}

/// How one kind of operation of a step developed over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Timeline {
    /// Name of the step.
    pub step: String,
    /// Kind of operation.
    pub class: OpClass,
    /// In time order; between visits of the step there are gaps.
    pub moments: Vec<Moment>,
    /// Events found at a certain time: changes of level, and stalls.
    pub events: Vec<Event>,
}

/// An event.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// When, ns since the run began.
    pub at_ns: u64,
    /// The latency of the operation that stalled, ns; absent for a change of level.
    pub lat_ns: Option<f64>,
    /// What, in a few words.
    pub text: String,
}

/// A stretch of a step: one interval, or several of the same visit.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment {
    /// When it began, ns since the run began.
    pub start_ns: u64,
    /// How long it was, ns.
    pub length_ns: u64,
    /// Whether it continues the one before without a gap.
    pub goes_on: bool,
    /// Operations that completed in it.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Median latency, ns, to the resolution of the coarse bins (6.25 %); absent without operations.
    pub p50_ns: Option<f64>,
    /// 99th percentile, ns, likewise; absent with fewer than a hundred operations, since it would be the slowest one.
    pub p99_ns: Option<f64>,
    /// The slowest, ns; absent without operations.
    pub max_ns: Option<f64>,
    /// Operations by latency: (bin, count), rising; edges of the bins are [`crate::hist::coarse_low_ns`].
    pub bins: Vec<(u16, u32)>,
}
