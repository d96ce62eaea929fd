//! What a recorded trace was: its operations, sizes, order, depth and programs, and the load that resembles it.

use serde::Serialize;

use crate::units::Bytes;

/// A summary of a recorded trace.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct TraceSummary {
    /// From the first arrival to the last completion, ns.
    pub span_ns: u64,
    /// Whether it is known how long requests waited before the device got them.
    pub sees_queue: bool,
    /// Whether it is known how long the device took.
    pub sees_device: bool,
    /// Whether it is known which programs made files durable.
    pub sees_syncs: bool,
    /// All requests.
    pub all: LoadSummary,
    /// Operations, in the order of the kernel's: reads, writes, flushes, discards, others.
    pub operations: Vec<OperationSummary>,
    /// Calls that made files durable, by name.
    pub syncs: Vec<SyncSummary>,
    /// Programs, busiest first.
    pub programs: Vec<ProgramSummary>,
    /// Files of an iolog, busiest first.
    pub files: Vec<FileSummary>,
    /// A fio job file that resembles it; empty if there are neither reads nor writes.
    pub fio_job: String,
    /// The steps of built-in suites that are closest to it, closest first.
    pub resembles: Vec<Resemblance>,
}

/// Requests, taken together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct LoadSummary {
    /// Requests of all kinds.
    pub requests: u64,
    /// Bytes read and written.
    pub bytes: u64,
    /// Share of reads among reads and writes; 0 if there are neither.
    pub read_share: f64,
    /// Share of reads and writes that begin where an earlier one of the same process and kind ended.
    pub sequential_share: f64,
    /// Share of the read bytes that were read before, in blocks of 4 KiB.
    pub reread_share: f64,
    /// Share of the written bytes that were written before, in blocks of 4 KiB.
    pub rewritten_share: f64,
    /// Distinct bytes that were read or written, in blocks of 4 KiB.
    pub touched_bytes: u64,
    /// Whether `touched_bytes` and the shares of repeated bytes cover only a part: the disk is too large.
    pub touched_is_partial: bool,
    /// Requests in the device, when a request is issued.
    pub depth: Option<Depth>,
    /// Time between arrivals.
    pub arrivals: Option<Arrivals>,
}

/// How many requests were in the device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Depth {
    /// Mean over time.
    pub mean: f64,
    /// Median when a request is issued, itself included.
    pub p50: u64,
    /// 99th percentile when a request is issued.
    pub p99: u64,
    /// Most.
    pub max: u64,
}

/// The time from one arrival to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Arrivals {
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// Standard deviation over mean: 0 for a clock, 1 for independent arrivals (Poisson), more for bursts.
    pub variation: f64,
}

/// Requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct OperationSummary {
    /// Name of the operation.
    pub op: String,
    /// Requests.
    pub requests: u64,
    /// Bytes.
    pub bytes: u64,
    /// Requests that failed.
    pub errors: u64,
    /// Share of requests that are sequential.
    pub sequential_share: f64,
    /// Most frequent sizes, most frequent first: bytes and requests.
    pub sizes: Vec<(u32, u64)>,
    /// Time in the scheduler and the queue.
    pub queue: Option<Times>,
    /// Time in the device.
    pub device: Option<Times>,
}

/// Percentiles of a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Times {
    /// Median, ns.
    pub p50_ns: u64,
    /// 99th percentile, ns.
    pub p99_ns: u64,
    /// 99.9th percentile, ns.
    pub p999_ns: u64,
    /// Longest, ns.
    pub max_ns: u64,
}

/// Syncs of one call.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct SyncSummary {
    /// Name of the call.
    pub call: String,
    /// Syncs.
    pub syncs: u64,
    /// Different files.
    pub files: u64,
    /// How long they took.
    pub took: Times,
}

/// Requests and syncs of the threads of one name.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct ProgramSummary {
    /// Name of the threads.
    pub name: String,
    /// Different processes.
    pub processes: u64,
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Share of its reads and writes that are sequential.
    pub sequential_share: f64,
    /// Syncs.
    pub syncs: u64,
    /// Time of its syncs, ns.
    pub sync_ns: u64,
    /// 99th percentile of its requests' time, queue and device together, ns.
    pub p99_ns: Option<u64>,
}

/// Requests of one file of an iolog.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct FileSummary {
    /// Its name.
    pub name: String,
    /// Requests.
    pub requests: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
}

/// The shape of a load: what is compared.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// Share of reads.
    pub read_share: f64,
    /// Share of random positions.
    pub random_share: f64,
    /// Usual size of a request.
    pub bs: Bytes,
    /// Requests in flight.
    pub depth: f64,
    /// Writes for each sync; `None` without syncs.
    pub writes_per_sync: Option<f64>,
}

/// A step of a suite, and how close it is.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Resemblance {
    /// Name of the suite.
    pub suite: String,
    /// Name of the step.
    pub step: String,
    /// Its title.
    pub title: String,
    /// Its shape.
    pub shape: Shape,
    /// Distance: 0 is the same; a doubling of size or depth, or a quarter of the shares, count 1 each.
    pub distance: f64,
}
