//! Runs the suite on a disk: its own steps, the real worker, a Record, the detectors.

use qd1_engine::run::{IoJob, Outcome, run_on};
use qd1_engine::sim::Disk;
use qd1_model::environment::{Device as BlockDevice, Environment, Filesystem, ThreadCost};
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, StepPlan, Stop, Sync, Work,
};
use qd1_model::record::{Prepare, StepRecord};
use qd1_model::spec::{Effort, Job};
use qd1_model::{Bytes, Finding, Record, Subject};

use super::scenario::{FILE, Scenario};
use crate::suite;

/// The suite as it comes with qd1.
const SUITE: &str = include_str!("../../../suites/src/caches.toml");
/// Longest time for writing the test file, as in a suite that names none.
const PREPARE_NS: u64 = 12_000_000_000;
/// Time between the steps of a run, ns: opening files and an engine.
const BETWEEN_NS: u64 = 20_000_000;
/// Times are those of a run without flags.
const EFFORT: Effort = Effort::Default;

/// One job as the planner makes it a step; what the suite does not use is left out.
fn step(job: &Job, file: u64) -> StepPlan {
    let rw = job.rw.expect("the suite has no jobs of files");
    let data = match (job.zero_buffers, job.buffer_compress_percentage, job.dedupe_percentage) {
        (Some(true), ..) => Data::Zeros,
        (_, Some(percent), _) => Data::Compressible { percent },
        (_, _, Some(_)) => Data::Repeated,
        _ => Data::Random,
    };
    let place = job.file.unwrap_or_default();
    let own = job.size.unwrap_or(Bytes::mib(16)).0;
    let work = IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw,
        rwmixread: if rw.writes() { 0 } else { 100 },
        order: if job.full_coverage == Some(true) { Order::RandomFull } else { Order::Random },
        blocks: vec![BlockShare { bytes: job.bs.unwrap_or(Bytes::kib(4)).0 as u32, weight: 1 }],
        iodepth: job.iodepth.unwrap_or(1),
        numjobs: 1,
        direct: true,
        sync: job.sync.unwrap_or_default(),
        file: place,
        size: Bytes(if place == FileUse::Shared { job.size.map_or(file, |size| size.0.min(file)) } else { own }),
        io_size: job.io_size.unwrap_or_default(),
        arrival: job.rate_iops.map_or(Arrival::Closed, |iops| Arrival::Fixed { iops }),
        data,
        writes_per_sync: 1,
    };
    let max_ns = job.runtime.expect("each job of the suite names its time").get(EFFORT).0;
    let ramp_ns = job.ramp_time.map_or(max_ns / 20, |ramp| ramp.0);
    let stop = Stop { min_ns: 0, max_ns, ramp_ns, quantile: 0.0, tolerance: 0.0 };
    let (name, work) = (job.name.clone(), Work::Io(work));
    StepPlan { name, title: String::new(), work, background: Vec::new(), stop, writes_max: Bytes(0) }
}

/// A disk in use: its state, and where the next file begins.
struct InUse {
    disk: Option<Disk>,
    free: u64,
    seed: u64,
}

impl InUse {
    fn run_work(&mut self, work: &IoWork, stop: &Stop, offset: u64) -> Outcome {
        self.seed = self.seed.wrapping_add(1);
        let job = IoJob {
            work,
            stop,
            kind: EngineKind::Sim,
            files: &[],
            offset,
            seed: self.seed,
            sim: None,
            batch_min: 1,
            thread_cost: ThreadCost::default,
        };
        let mut disk = self.disk.take().expect("it is put back after each step");
        disk.idle(BETWEEN_NS);
        let (disk, outcome) = run_on(disk, &job).expect("the simulated engine needs nothing but memory");
        self.disk = Some(disk);
        outcome
    }

    /// Writes the test file; its length, which is less on a slow disk.
    fn prepare(&mut self) -> u64 {
        let work = IoWork {
            rw: Rw::Write,
            order: Order::Sequential,
            blocks: vec![BlockShare { bytes: 1 << 20, weight: 1 }],
            iodepth: 4,
            ..blank()
        };
        let stop = Stop { min_ns: 0, max_ns: PREPARE_NS, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
        self.run_work(&work, &stop, 0).requests.write_bytes.min(FILE)
    }
}

fn blank() -> IoWork {
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw: Rw::Read,
        rwmixread: 0,
        order: Order::Random,
        blocks: Vec::new(),
        iodepth: 1,
        numjobs: 1,
        direct: true,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes(FILE),
        io_size: Bytes(FILE),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}

/// What the detectors conclude of a run of the suite on the disk.
pub(super) fn findings(scenario: &Scenario) -> Vec<Finding> {
    let mut disk =
        InUse { disk: Some(Disk::new(scenario.device.clone())), free: 2 * FILE, seed: scenario.device.seed ^ 0x5EED };
    let file = disk.prepare();
    let mut record = empty(file);
    for job in suite::jobs(&suite::table(SUITE)).iter().filter(|job| job.runs_at(EFFORT)) {
        let plan = step(job, file);
        let Work::Io(work) = &plan.work else { continue };
        let offset = if work.file == FileUse::Shared { 0 } else { disk.free };
        disk.free += if work.file == FileUse::Shared { 0 } else { work.size.0 };
        let outcome = disk.run_work(work, &plan.stop, offset);
        record.steps.push(measured(&plan.name, outcome));
        record.plan.steps.push(plan);
    }
    let summary = qd1_analysis::summarize(&record);
    qd1_analysis::findings(&record, &summary)
}

fn measured(name: &str, outcome: Outcome) -> StepRecord {
    StepRecord {
        name: name.to_owned(),
        // The simulated device stands for one that a real engine would be used on.
        engine: Some(EngineKind::Psync),
        direct: true,
        started_ns: outcome.started_ns,
        runtime_ns: outcome.runtime_ns,
        ended: outcome.ended,
        streams: outcome.streams,
        intervals: outcome.intervals,
        errors: outcome.errors,
        ..StepRecord::default()
    }
}

/// A Record without steps, on a virtual disk of which the kernel knows nothing but its name.
fn empty(file: u64) -> Record {
    let device = BlockDevice {
        name: "vda".to_owned(),
        kind: "disk".to_owned(),
        transport: "virtio".to_owned(),
        write_cache: "write back".to_owned(),
        ..BlockDevice::default()
    };
    let filesystem = Filesystem { kind: "ext4".to_owned(), ..Filesystem::default() };
    let environment =
        Environment { kernel: "6.8.0".to_owned(), filesystem, devices: vec![device], ..Environment::default() };
    let mut record = suite::record("caches", Subject::Suite, Bytes(file), environment);
    record.plan.target.prepare_max_ns = PREPARE_NS;
    record.prepare = Some(Prepare { bytes: Bytes(file), ..Prepare::default() });
    record
}

/// Whether a stated size, `at least 64 MiB` or `about 97 MiB (64 MiB to 256 MiB)`, holds the true one.
pub(super) fn holds(title: &str, size: u64) -> bool {
    let stated = |text: &str| text.trim().parse::<Bytes>().map_or(0.0, |bytes| bytes.0 as f64);
    let said = title.rsplit(": ").next().unwrap_or_default();
    if let Some(least) = said.strip_prefix("at least ") {
        return size as f64 >= 0.9 * stated(least);
    }
    let range = said.split('(').nth(1).and_then(|rest| rest.trim_end_matches(')').split_once(" to "));
    range.is_some_and(|(low, high)| (stated(low)..=stated(high)).contains(&(size as f64)))
}
