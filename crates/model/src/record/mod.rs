//! Everything measured in one run. It is raw data without any judgement, so that later versions of the analysis can
//! read it.
//!
//! All times are nanoseconds. Times inside a step count from the start of its measurement.

mod check;
pub mod long_check;
pub mod machine;
pub mod mounts;
mod other_user;
pub(crate) mod packed;
pub mod program;
mod visits;
pub mod watched;

use crate::op::{Ended, OpClass};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use other_user::{OTHERS_MAX, OtherUser};

use crate::environment::{DeviceCounters, Environment, Pressure, ThreadCost};
use crate::hist::Hist;
use crate::history::is_false;
use crate::plan::{EngineKind, Pace, Plan};
use crate::record::long_check::LongCheckRecord;
use crate::record::machine::MachineInterval;
use crate::record::mounts::MountRecord;
use crate::record::program::{AppRecord, AppStep};
use crate::record::watched::WatchRecord;
use crate::units::Bytes;

/// One run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// Version of this layout: [`crate::SCHEMA_VERSION`].
    pub schema_version: u32,
    /// Random identifier, 12 hexadecimal digits.
    pub id: String,
    /// qd1's version.
    pub version: String,
    /// The command as typed.
    pub command: Vec<String>,
    /// Wall clock at the start, ns since the Unix epoch.
    pub started_unix_ns: u64,
    /// Duration of the whole run, ns, including preparation.
    pub elapsed_ns: u64,
    /// Whether the user (or a signal) ended it early.
    pub interrupted: bool,
    /// What was decided.
    pub plan: Plan,
    /// The machine and the path to the disk.
    pub environment: Environment,
    /// How the shared file was created; absent for devices and given files.
    pub prepare: Option<Prepare>,
    /// The real program that was run, if the run is of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppRecord>,
    /// The programs that were run in addition to the suite's own steps, to verify predictions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<AppRecord>,
    /// What each step measured.
    pub steps: Vec<StepRecord>,
    /// The filesystems that were created for a comparison, one after another; the environment is then that of the place
    /// below them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub mounts: Vec<MountRecord>,
    /// The rounds of a check over hours; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<LongCheckRecord>,
    /// What a watch saw; absent in other runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub watched: Option<WatchRecord>,
}

impl Record {
    /// Returns the record of a run that is just beginning, without measurements. `command` repeats it.
    pub fn begin(id: String, command: Vec<String>, started_unix_ns: u64, plan: Plan, environment: Environment) -> Self {
        Self {
            schema_version: crate::SCHEMA_VERSION,
            id,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command,
            started_unix_ns,
            elapsed_ns: 0,
            interrupted: false,
            plan,
            environment,
            prepare: None,
            app: None,
            programs: Vec::new(),
            steps: Vec::new(),
            mounts: Vec::new(),
            over: None,
            watched: None,
        }
    }
}

/// Creation of the shared test file: also the cost of first writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Prepare {
    /// Bytes written.
    pub bytes: Bytes,
    /// Time taken, ns, including the final fsync.
    pub elapsed_ns: u64,
    /// Time of the final fsync, ns.
    pub fsync_ns: u64,
    /// Latency of each first write (1 MiB).
    pub lat: Hist,
    /// Whether the file is smaller than planned because writing was slow.
    pub shortened: bool,
    /// The size that was planned; 0 in records of earlier versions.
    #[serde(default)]
    pub planned: Bytes,
    /// Extents of the file afterwards, from FIEMAP; absent if the filesystem does not support it.
    pub extents: Option<Extents>,
}

/// Extents of a file by kind, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Extents {
    /// Written to the device.
    pub written: Bytes,
    /// Allocated but unwritten: reads return zeros without touching the disk.
    pub unwritten: Bytes,
    /// Not yet allocated (delayed allocation).
    pub delayed: Bytes,
    /// Compressed or otherwise encoded by the filesystem.
    pub encoded: Bytes,
    /// Not mapped at all: a hole.
    pub hole: Bytes,
    /// Number of extents.
    pub count: u64,
}

/// What one step measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepRecord {
    /// The step's name in the plan.
    pub name: String,
    /// The engine that ran; absent for file operations.
    pub engine: Option<EngineKind>,
    /// Why that engine, when `auto` chose it.
    pub engine_why: String,
    /// Whether O_DIRECT was in force.
    pub direct: bool,
    /// When measurement began, ns since the run began.
    pub started_ns: u64,
    /// Measured time, of all visits together, ns.
    pub runtime_ns: u64,
    /// Time of the final fsync if the step has one (`end_fsync`), ns; part of `runtime_ns`.
    pub end_fsync_ns: u64,
    /// Why it ended.
    pub ended: Ended,
    /// For paced requests: the pace that was used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pace: Option<Pace>,
    /// Whether it was measured again without its ramp, which used up most of its `io_size`.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_without_ramp: bool,
    /// What prevented it from running, or stopped it before its end; usually empty.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fault: String,
    /// One entry per kind of operation that took place.
    pub streams: Vec<Stream>,
    /// Other programs that used the disk meanwhile, busiest first, at most [`OTHERS_MAX`]. Empty also where it was not
    /// possible to see them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub others: Vec<OtherUser>,
    /// What its background load did, in the order of the plan.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<Background>,
    /// Intervals of at most about 100 ms in time order, with all workers merged: consecutive within a visit, with a gap
    /// between one visit and the next. Packed in JSON (docs/usage.md), like `slowest` and `looked_at`; NDJSON has a
    /// line for each.
    #[serde(with = "packed")]
    #[schemars(with = "String")]
    pub intervals: Vec<Interval>,
    /// Requests that failed, by error name.
    pub errors: Vec<IoErrors>,
    /// Counters of the device under the target over the step; absent if there is no block device.
    pub device: Option<DeviceDelta>,
    /// Cost of the workers: processor time, waits for a processor, context switches.
    pub cost: ThreadCost,
    /// Share of the machine's processor time stolen by the hypervisor during the step, 0..1.
    pub steal: f64,
    /// Share of the machine's processor time that any process used during the step, 0..1; 0 if unknown.
    #[serde(default)]
    pub busy: f64,
    /// Share of time some task waited for I/O, memory or processor (PSI `some`), 0..1; absent without PSI.
    pub pressure: Option<Pressure>,
    /// What the machine and the device did in each second or less of it, in time order, with gaps between visits; empty
    /// for loads of other programs and in checks over hours. Packed like `intervals`.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "packed")]
    #[schemars(with = "String")]
    pub machine: Vec<MachineInterval>,
    /// What a real program reported about its load; absent if the step is our own I/O.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub app: Option<AppStep>,
    /// Time of a sort right after the step, like `environment.sort_ns`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_ns: Option<f64>,
}

impl StepRecord {
    /// Returns the record of a step that could not run.
    pub fn failed(name: &str, fault: String, started_ns: u64) -> Self {
        Self { name: name.to_owned(), started_ns, ended: Ended::Failed, fault, ..Self::default() }
    }
}

/// What one job of a step's background load did, from before the step's measurement until after it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Background {
    /// How long it ran, ns.
    pub runtime_ns: u64,
    /// One entry per kind of operation that took place.
    pub streams: Vec<Stream>,
    /// Requests that failed, by error name.
    pub errors: Vec<IoErrors>,
}

/// One kind of operation in one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Kind of operation.
    pub class: OpClass,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Total latency: from issue (or from when it was due, under open loop) to completion. For a commit,
    /// write and sync together.
    pub lat: Hist,
    /// Submission part, like the next two to 0.45 % (0.1 % in earlier records); absent for engines that complete within
    /// submit, and with an open loop.
    pub slat: Option<Hist>,
    /// Completion part; absent if it equals `lat`. With an open loop, from issue to completion, without a `slat`.
    pub clat: Option<Hist>,
    /// Write part of commits.
    pub write_part: Option<Hist>,
    /// Sync part of commits, to 0.1 %.
    pub sync_part: Option<Hist>,
    /// The slowest operations, slowest first, at most [`SLOWEST_MAX`].
    #[serde(with = "packed")]
    #[schemars(with = "String")]
    pub slowest: Vec<Slow>,
    /// How long slow operations waited for a processor; absent if that was not examined.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<ProcessorWaits>,
    /// How long the device had the requests of the slowest operations; absent if that was not seen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub in_device: Option<InDevice>,
}

/// The slowest operations of each visit that took at least 2 ms, and how much of that time the device had requests of
/// their kind that began and ended within them and took at least 0.2 ms; only where one operation is under way at a time.
/// The rest of the time they waited for something else (the scheduler, a limit, a lock, a processor) or for short
/// requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct InDevice {
    /// Operations.
    pub operations: u64,
    /// Their latencies together, ns.
    pub lat_ns: u64,
    /// Time in the device, ns.
    pub device_ns: u64,
}

impl InDevice {
    /// Returns both together.
    #[must_use]
    pub const fn plus(&self, other: &Self) -> Self {
        Self {
            operations: self.operations.saturating_add(other.operations),
            lat_ns: self.lat_ns.saturating_add(other.lat_ns),
            device_ns: self.device_ns.saturating_add(other.device_ns),
        }
    }
}

/// What the operations of a stream spent their time on, individually: from the thread's clock and `schedstat`, read
/// after each slow operation and after one in each millisecond.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProcessorWaits {
    /// All latencies without waits for a processor, to 0.45 %; absent if no slow operation waited.
    pub lat: Option<Hist>,
    /// The sync parts of all commits without these waits; absent if there were none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sync: Option<Hist>,
    /// The operations that were examined, by latency, the fastest first.
    #[serde(default, with = "packed")]
    #[schemars(with = "String")]
    pub looked_at: Vec<TimeSpent>,
}

/// What operations of about the same latency spent their time on. For the rest they slept until the disk had answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TimeSpent {
    /// Lowest latency of this bin, ns; bins are those of [`crate::hist::coarse_index`].
    pub from_ns: u64,
    /// Number of operations examined.
    pub ios: u64,
    /// Sum of their latencies, ns.
    pub lat_ns: u64,
    /// The part in which their threads were running, nearly all of it in the kernel, ns.
    pub worked_ns: u64,
    /// The part in which they were ready and waiting for a processor, ns.
    pub waited_ns: u64,
}

impl TimeSpent {
    fn add(&mut self, other: &Self) {
        self.ios = self.ios.saturating_add(other.ios);
        self.lat_ns = self.lat_ns.saturating_add(other.lat_ns);
        self.worked_ns = self.worked_ns.saturating_add(other.worked_ns);
        self.waited_ns = self.waited_ns.saturating_add(other.waited_ns);
    }
}

/// How many of the slowest operations of each kind are recorded with their time.
pub const SLOWEST_MAX: usize = 32;

/// One slow operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Slow {
    /// When it was issued, ns since the step's measurement began.
    pub at_ns: u64,
    /// Its latency.
    pub lat_ns: u64,
}

/// What happened in one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// Start, ns since the step's measurement began.
    pub start_ns: u64,
    /// Length, ns.
    pub length_ns: u64,
    /// One entry per kind of operation that completed in it.
    pub streams: Vec<IntervalStream>,
}

impl Interval {
    /// Whether `next` begins where it ends. After a gap in the intervals of a step, another visit begins.
    pub fn goes_on(&self, next: &Self) -> bool {
        self.start_ns.saturating_add(self.length_ns) >= next.start_ns
    }
}

/// One kind of operation in one interval.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IntervalStream {
    /// Kind of operation.
    pub class: OpClass,
    /// Operations completed.
    pub ios: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Sum of latencies, ns.
    pub lat_sum_ns: u64,
    /// Largest latency, ns.
    pub lat_max_ns: u64,
    /// Coarse latency histogram: (bin, count); bin edges are [`crate::hist::coarse_low_ns`].
    pub bins: Vec<(u16, u32)>,
}

/// Failed requests of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct IoErrors {
    /// Error name, such as `EIO`, or `short` for a short transfer.
    pub error: String,
    /// How many.
    pub count: u64,
    /// Offset of the first one.
    pub first_offset: u64,
}

impl IoErrors {
    /// Returns one failure.
    pub fn once(error: impl Into<String>, offset: u64) -> Self {
        Self { error: error.into(), count: 1, first_offset: offset }
    }

    /// Adds the failures to those of the same kind in `errors`.
    pub fn add_to(self, errors: &mut Vec<Self>) {
        match errors.iter_mut().find(|known| known.error == self.error) {
            Some(known) => known.count += self.count,
            None => errors.push(self),
        }
    }
}

/// Device counters over a step, and the requests that the step made in the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceDelta {
    /// What the kernel counted.
    pub counted: DeviceCounters,
    /// Reads the step made, ramp included.
    pub asked_reads: u64,
    /// Bytes read.
    pub asked_read_bytes: Bytes,
    /// Writes.
    pub asked_writes: u64,
    /// Bytes written.
    pub asked_write_bytes: Bytes,
    /// Syncs: fsync, fdatasync, and writes to O_SYNC or O_DSYNC files.
    pub asked_syncs: u64,
}

impl StepRecord {
    /// Returns the stream of `class`, if that kind of operation took place.
    pub fn stream(&self, class: OpClass) -> Option<&Stream> {
        self.streams.iter().find(|stream| stream.class == class)
    }
}

impl Record {
    /// Returns the step called `name`, if it ran.
    pub fn step(&self, name: &str) -> Option<&StepRecord> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Returns how many bytes the run wrote: its test file, and what its steps and their loads counted, excluding
    /// writes before a step's measurement and those that filesystems and programs made for themselves.
    pub fn written(&self) -> Bytes {
        let streams = self
            .steps
            .iter()
            .flat_map(|step| step.streams.iter().chain(step.background.iter().flat_map(|load| &load.streams)));
        let writing = streams.filter(|stream| {
            matches!(stream.class, OpClass::Write | OpClass::Commit | OpClass::Create | OpClass::Rewrite)
        });
        let prepared = self.prepare.as_ref().map_or(0, |prepare| prepare.bytes.0);
        Bytes(writing.map(|stream| stream.bytes.0).fold(prepared, u64::saturating_add))
    }
}
