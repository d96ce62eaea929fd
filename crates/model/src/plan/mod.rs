//! The plan of a run, with every default filled in and every check passed. Computes its duration, bytes written and
//! space.

mod arrival;
pub mod criterion;
mod engine;
mod files;
pub mod filesystems;
mod long_check;
pub mod prediction;
pub mod program;
mod schedule;
mod skipped;
pub mod sweep;
pub mod time;

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use arrival::{Arrival, Pace};
pub use engine::{EngineChoice, EngineKind};
pub use long_check::LongCheckPlan;
pub use schedule::{InTurn, Visit};
pub use skipped::Skipped;

pub use crate::files::{FileOp, FileOrder, FileSync, FilesSync, FilesWork};
use crate::plan::criterion::Criterion;
use crate::plan::filesystems::FilesystemsPlan;
use crate::plan::prediction::PredictionPlan;
use crate::plan::program::AppWork;
use crate::plan::sweep::SweepPlan;
use crate::subject::Subject;
use crate::units::Bytes;

/// Direction and order of the requests: fio's `rw`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Rw {
    /// Sequential reads.
    Read,
    /// Sequential writes.
    Write,
    /// Random reads.
    Randread,
    /// Random writes.
    Randwrite,
    /// Sequential, mixed.
    Rw,
    /// Random, mixed.
    Randrw,
}

impl Rw {
    /// Returns fio's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Randread => "randread",
            Self::Randwrite => "randwrite",
            Self::Rw => "rw",
            Self::Randrw => "randrw",
        }
    }

    /// Returns true if offsets are random.
    pub const fn is_random(self) -> bool {
        matches!(self, Self::Randread | Self::Randwrite | Self::Randrw)
    }
    /// Returns true if it writes.
    pub const fn writes(self) -> bool {
        !matches!(self, Self::Read | Self::Randread)
    }
    /// Returns true if it reads.
    pub const fn reads(self) -> bool {
        !matches!(self, Self::Write | Self::Randwrite)
    }
}

/// How a write is made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Not at all.
    #[default]
    None,
    /// fsync after each write: a commit.
    Fsync,
    /// fdatasync after each write: a commit.
    Fdatasync,
    /// The file is opened O_SYNC: the write is the commit.
    OSync,
    /// The file is opened O_DSYNC: the write is the commit.
    ODsync,
    /// Each write carries the flag RWF_DSYNC (pwritev2): the write is the commit. Only psync issues it.
    RwfDsync,
    /// sync_file_range after each write, timed like a commit; but it makes nothing durable: it neither writes metadata
    /// nor flushes the device's cache.
    SyncFileRange,
    /// One fsync when the job's writes are done, inside its runtime.
    EndFsync,
}

impl Sync {
    /// Returns true if each write, or each few, is timed together with its sync.
    pub const fn commits(self) -> bool {
        self.is_durable() || matches!(self, Self::SyncFileRange)
    }

    /// Returns true if the writes are durable once it returns, as far as the kernel can ensure it.
    pub const fn is_durable(self) -> bool {
        self.has_call() && !matches!(self, Self::SyncFileRange) || self.is_in_the_write()
    }

    /// Returns true if a separate call follows the write.
    pub const fn has_call(self) -> bool {
        matches!(self, Self::Fsync | Self::Fdatasync | Self::SyncFileRange)
    }

    /// Returns true if the write itself is the commit.
    pub const fn is_in_the_write(self) -> bool {
        matches!(self, Self::OSync | Self::ODsync | Self::RwfDsync)
    }
}

/// Which file a job uses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FileUse {
    /// The test file or device shared by all jobs, fully written beforehand.
    #[default]
    Shared,
    /// A separate file for each worker, fully written beforehand (a recycled log segment).
    Own,
    /// A new file for each worker, space allocated but never written (a new log segment, as in etcd).
    Allocated,
    /// A new, empty file for each worker, growing as it is written (as with dd).
    Empty,
}

/// Order of random or sequential offsets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Order {
    /// One after another, restarting at the end.
    #[default]
    Sequential,
    /// Uniform; blocks may repeat (fio's `norandommap`).
    Random,
    /// Uniform, each block once before any repeats.
    RandomFull,
    /// Zipf with this exponent; popular blocks scattered over the file.
    Zipf {
        /// Exponent, above 0.
        theta: f64,
    },
}

/// The content of writes, with fio's option for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Data {
    /// Neither compresses nor repeats; every 4 KiB block is unique.
    #[default]
    Random,
    /// Every 4 KiB block is unique and ends in this share of zeros (`buffer_compress_percentage`).
    Compressible {
        /// Percent of the bytes.
        percent: u8,
    },
    /// Zeros only (`zero_buffers`).
    Zeros,
    /// The same random block of 4 KiB repeated (`dedupe_percentage=100`).
    Repeated,
}

impl Data {
    /// Returns true if it is the default content.
    pub fn is_random(&self) -> bool {
        *self == Self::Random
    }
}

/// One weighted block size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BlockShare {
    /// Block size in bytes.
    pub bytes: u32,
    /// Weight relative to the others.
    pub weight: u32,
}

/// A job of block I/O, complete.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct IoWork {
    /// Requested engine.
    pub ioengine: EngineChoice,
    /// Direction.
    pub rw: Rw,
    /// Share of reads, percent; 100 or 0 for pure jobs.
    pub rwmixread: u8,
    /// Offsets.
    pub order: Order,
    /// Block sizes; one entry when fixed.
    pub blocks: Vec<BlockShare>,
    /// Requests in flight per worker.
    pub iodepth: u32,
    /// Workers.
    pub numjobs: u32,
    /// O_DIRECT.
    pub direct: bool,
    /// Durability.
    pub sync: Sync,
    /// Writes that one sync covers, if there is one after writes; they make one commit.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub writes_per_sync: u32,
    /// File.
    pub file: FileUse,
    /// Size of the region or file each worker uses, bytes. Regions of the shared file all begin at its start.
    pub size: Bytes,
    /// Stop after this many bytes in all, if not zero.
    pub io_size: Bytes,
    /// Arrival of requests.
    pub arrival: Arrival,
    /// What is written.
    #[serde(default, skip_serializing_if = "Data::is_random")]
    pub data: Data,
}

impl IoWork {
    /// Returns the largest block size in bytes.
    pub fn block_max(&self) -> u32 {
        self.blocks.iter().map(|share| share.bytes).max().unwrap_or(4096)
    }

    /// Returns the maximum number of requests in flight, over all workers.
    pub fn in_flight(&self) -> u32 {
        self.iodepth.max(1) * self.numjobs.max(1)
    }
}

fn one() -> u32 {
    1
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature is serde's")]
fn is_one(number: &u32) -> bool {
    *number == 1
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Work {
    /// Block I/O.
    Io(IoWork),
    /// File operations.
    Files(FilesWork),
    /// A real program's load.
    App(AppWork),
}

/// When a step ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stop {
    /// Shortest measured time, ns.
    pub min_ns: u64,
    /// Longest measured time, of all visits together, ns.
    pub max_ns: u64,
    /// Time at the start that is not measured, of each visit, ns.
    pub ramp_ns: u64,
    /// End early when the 95 % interval of this quantile (0..1) is within `tolerance`; never if 0.
    pub quantile: f64,
    /// Largest half-width of that interval, relative to the value.
    pub tolerance: f64,
}

impl Stop {
    /// Length of an interval for a step of this length: a hundredth of it, 10 to 100 ms.
    pub fn interval_ns(&self) -> u64 {
        (self.max_ns / 100).clamp(10_000_000, 100_000_000)
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StepPlan {
    /// Short name, unique in the plan.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What it does.
    pub work: Work,
    /// Background load during the step, which is not part of the measurement; usually none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub background: Vec<IoWork>,
    /// When it ends.
    pub stop: Stop,
    /// Number of parts in which it is measured, at times spread over the run; 1 if it is measured in one go.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub visits: u32,
    /// Maximum bytes it can write: limited by size, or estimated from the run time at 4 GB/s.
    pub writes_max: Bytes,
}

/// The kind of place measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TargetKind {
    /// Test files are created in this directory, and removed at the end of the run.
    Directory,
    /// This existing file is only read.
    File,
    /// This block device is only read.
    BlockReadOnly,
    /// This block device is overwritten, as `--destroy` allowed.
    BlockDestroy,
}

/// The place measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPlan {
    /// The resolved path (symbolic links followed).
    pub path: PathBuf,
    /// Kind.
    pub kind: TargetKind,
    /// Filesystem type, as the kernel names it; empty for a block device.
    pub filesystem: String,
    /// Size of the shared test file or of the device region used.
    pub size: Bytes,
    /// Whether O_DIRECT works there.
    pub direct: bool,
    /// Offset and length alignment of direct I/O, bytes.
    pub align: u32,
    /// Longest time for writing the test file, ns.
    pub prepare_max_ns: u64,
}

/// The plan of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Name of the suite, for people.
    pub suite: String,
    /// What kind of run it is.
    #[serde(default)]
    pub subject: Subject,
    /// Where.
    pub target: TargetPlan,
    /// Steps in order.
    pub steps: Vec<StepPlan>,
    /// Steps left out.
    pub skipped: Vec<Skipped>,
    /// Seed of offsets, data and arrivals.
    pub seed: u64,
    /// The suite's own thresholds for its steps; part of the plan, so that a saved run is judged as it was requested.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub criteria: Vec<Criterion>,
    /// What makes it a sweep, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep: Option<SweepPlan>,
    /// What makes it a comparison of filesystems, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub filesystems: Option<FilesystemsPlan>,
    /// What predictions for databases assume, if they are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prediction: Option<PredictionPlan>,
    /// What makes it a check over hours, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub over: Option<LongCheckPlan>,
}

impl Plan {
    /// Returns a plan without steps.
    pub fn new(suite: impl Into<String>, subject: Subject, target: TargetPlan, seed: u64) -> Self {
        Self {
            suite: suite.into(),
            subject,
            target,
            steps: Vec::new(),
            skipped: Vec::new(),
            seed,
            criteria: Vec::new(),
            sweep: None,
            filesystems: None,
            prediction: None,
            over: None,
        }
    }

    /// Returns the step called `name`.
    pub fn step(&self, name: &str) -> Option<&StepPlan> {
        self.steps.iter().find(|step| step.name == name)
    }

    /// Returns the step that does the same as a step with a background load, but without the load; `None` if there is
    /// no load, or no such step.
    pub fn without_load(&self, name: &str) -> Option<&StepPlan> {
        let loaded = self.step(name).filter(|step| !step.background.is_empty())?;
        self.steps.iter().find(|step| step.background.is_empty() && step.work == loaded.work)
    }

    /// Returns the longest duration of all steps and the preparation, ns; for a check over hours, including the time
    /// between its rounds.
    pub fn duration_max_ns(&self) -> u64 {
        if let Some(over) = &self.over {
            return over.duration_ns;
        }
        let steps: u64 = self.steps.iter().map(StepPlan::duration_max_ns).sum();
        steps + if self.needs_shared_file() { self.target.prepare_max_ns } else { 0 }
    }

    /// Returns true if steps end when all their work is done, however long that takes.
    pub fn is_until_done(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.work, Work::Files(_)) && step.stop.max_ns >= UNTIL_DONE_NS)
    }

    /// Returns true if any step uses the shared, fully written file, which must then be created.
    pub fn needs_shared_file(&self) -> bool {
        self.target.kind == TargetKind::Directory
            && self.steps.iter().any(|step| step.works().any(|io| io.file == FileUse::Shared))
    }

    /// Returns the maximum space in use at one time, bytes: the shared file, the files that steps keep from one visit
    /// to the next, and those of the largest other step.
    pub fn space_max(&self) -> Bytes {
        let shared = if self.needs_shared_file() { self.target.size.0 } else { 0 };
        let (kept, others): (Vec<_>, Vec<_>) = self.steps.iter().partition(|step| step.visits > 1);
        let kept = kept.into_iter().map(StepPlan::space).fold(0, u64::saturating_add);
        let own = others.into_iter().map(StepPlan::space).max().unwrap_or(0).saturating_add(kept);
        Bytes(shared.saturating_add(if self.target.kind == TargetKind::Directory { own } else { 0 }))
    }

    /// Returns the maximum bytes written, including preparation.
    pub fn writes_max(&self) -> Bytes {
        let shared = if self.needs_shared_file() { self.target.size.0 } else { 0 };
        Bytes(self.steps.iter().fold(shared, |sum, step| sum.saturating_add(step.writes_max.0)))
    }
}

/// Time of a step on files that ends when all its work is done, ns: nobody waits longer.
pub const UNTIL_DONE_NS: u64 = 3_600_000_000_000;

impl StepPlan {
    /// Whether its requests are due at their own times ([`Arrival::is_open`], or a program's load at a rate).
    pub fn is_open(&self) -> bool {
        match &self.work {
            Work::Io(io) => io.arrival.is_open(),
            Work::App(app) => app.rate.is_some(),
            Work::Files(_) => false,
        }
    }

    /// Returns the longest time of all its visits, ns.
    pub fn duration_max_ns(&self) -> u64 {
        self.stop.ramp_ns.saturating_mul(u64::from(self.visits.max(1))).saturating_add(self.stop.max_ns)
    }

    /// Returns all its block I/O: what is measured, and the background load.
    pub fn works(&self) -> impl Iterator<Item = &IoWork> {
        let measured = match &self.work {
            Work::Io(io) => Some(io),
            Work::Files(_) | Work::App(_) => None,
        };
        measured.into_iter().chain(&self.background)
    }

    /// Returns all its block I/O, mutably.
    pub fn works_mut(&mut self) -> impl Iterator<Item = &mut IoWork> {
        let measured = match &mut self.work {
            Work::Io(io) => Some(io),
            Work::Files(_) | Work::App(_) => None,
        };
        measured.into_iter().chain(&mut self.background)
    }

    /// Returns the space of the files that belong to this step alone, bytes.
    pub fn space(&self) -> u64 {
        let files = match &self.work {
            // If each is synced, there is one at a time.
            Work::Files(files) if !files.sync.is_none() => files.size.0.saturating_add(4095) / 4096 * 4096,
            Work::Files(files) => files.space(),
            Work::Io(_) | Work::App(_) => 0,
        };
        let own = self.works().filter(|io| io.file != FileUse::Shared);
        own.fold(files, |sum, io| sum.saturating_add(io.size.0.saturating_mul(u64::from(io.numjobs))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_record_is_read_with_one_write_per_sync() {
        let old = r#"{"ioengine":"auto","rw":"write","rwmixread":0,"order":"sequential","blocks":[],"iodepth":1,
            "numjobs":1,"direct":false,"sync":"fdatasync","file":"own","size":1,"io_size":0,"arrival":"closed"}"#;
        let io: IoWork = serde_json::from_str(old).unwrap();
        assert_eq!(io.writes_per_sync, 1);
        assert!(!serde_json::to_string(&io).unwrap().contains("writes_per_sync"), "and written as it was");
        let files: FilesWork = serde_json::from_str(r#"{"size":1,"count":2}"#).unwrap();
        assert_eq!(files.sync, FileSync::None);
    }

    #[test]
    fn a_sync_is_a_call_or_in_the_write_and_never_both() {
        let all = [Sync::None, Sync::Fsync, Sync::Fdatasync, Sync::OSync, Sync::ODsync, Sync::RwfDsync];
        for sync in all.into_iter().chain([Sync::SyncFileRange, Sync::EndFsync]) {
            assert!(!(sync.has_call() && sync.is_in_the_write()), "{sync:?}");
            assert_eq!(sync.commits(), sync.has_call() || sync.is_in_the_write(), "{sync:?}");
            assert_eq!(sync.is_durable(), sync.commits() && sync != Sync::SyncFileRange, "{sync:?}");
        }
    }
}
