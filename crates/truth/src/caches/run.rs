//! Runs the suite on a disk: its own steps, the real worker, a Record, the detectors.

use qd1_engine::run::{IoJob, Outcome, run_on};
use qd1_engine::sim::Disk;
use qd1_model::environment::{Device as BlockDevice, Environment, Filesystem, ThreadCost};
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, Stop, Sync, Work,
};
use qd1_model::record::Prepare;
use qd1_model::spec::{Effort, Job};
use qd1_model::{Bytes, Finding, Record, Subject};

use super::scenario::{FILE, Scenario};
use crate::suite;

/// Whose steps look for caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Steps {
    /// The suite `caches`.
    Caches,
    /// The suite `check`, by what it does before its visits.
    Check,
}

impl Steps {
    /// All of its steps at this effort, from the suite's own file.
    fn jobs(self) -> Vec<Job> {
        let text = match self {
            Self::Caches => include_str!("../../../suites/src/caches.toml"),
            Self::Check => include_str!("../../../suites/src/check.toml"),
        };
        let mut jobs = suite::jobs(&suite::table(text));
        jobs.retain(|job| job.runs_at(EFFORT));
        let visited = jobs.iter().position(|job| job.visits.is_some()).unwrap_or(jobs.len());
        jobs.truncate(visited);
        jobs
    }
}

/// Longest time for writing the test file, as in a suite that names none.
const PREPARE_NS: u64 = 12_000_000_000;
/// Time between the steps of a run, ns: opening files and an engine.
const BETWEEN_NS: u64 = 20_000_000;
/// Times are those of a run without flags.
const EFFORT: Effort = Effort::Default;

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
            interval_ns: stop.interval_ns(),
            kind: EngineKind::Sim,
            files: &[],
            offset,
            seed: self.seed,
            sim: None,
            batch_min: 1,
            thread_cost: ThreadCost::default,
            thread_time: None,
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
pub(super) fn findings(scenario: &Scenario, steps: Steps) -> Vec<Finding> {
    let mut disk =
        InUse { disk: Some(Disk::new(scenario.device.clone())), free: 2 * FILE, seed: scenario.device.seed ^ 0x5EED };
    let file = disk.prepare();
    let mut record = empty(file);
    for job in steps.jobs() {
        let plan = suite::step(&job, EFFORT, file);
        let Work::Io(work) = &plan.work else { continue };
        let offset = if work.file == FileUse::Shared { 0 } else { disk.free };
        disk.free += if work.file == FileUse::Shared { 0 } else { work.size.0 };
        let outcome = disk.run_work(work, &plan.stop, offset);
        record.steps.push(suite::measured(&plan.name, outcome));
        record.plan.steps.push(plan);
    }
    let summary = qd1_analysis::summarize(&record);
    qd1_analysis::findings(&record, &summary)
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
