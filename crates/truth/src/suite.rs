//! What all procedures on virtual disks start from: the jobs of a suite as steps, a step's result, and a Record without
//! steps.

use qd1_engine::run::Outcome;
use qd1_model::environment::Environment;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Plan, StepPlan, Stop, TargetKind,
    TargetPlan, Work,
};
use qd1_model::record::StepRecord;
use qd1_model::spec::{Effort, Job};
use qd1_model::{Bytes, Record, Subject, Thresholds};

/// The TOML table of a built-in suite.
pub(crate) fn table(text: &str) -> toml::Table {
    text.parse().expect("the suite is TOML, or the application's tests fail")
}

/// The jobs of a suite, except for those that would have to be expanded.
pub(crate) fn jobs(suite: &toml::Table) -> Vec<Job> {
    let all = suite["job"].as_array().expect("a suite has a list of jobs");
    let plain = all.iter().filter(|job| job.get("sweep").is_none());
    plain.map(|job| job.clone().try_into().expect("the suite's keys are those of a job")).collect()
}

/// The step that the planner makes from one job, in a directory with a test file of `file` bytes; features that the
/// suites measured here do not use are left out.
pub(crate) fn step(job: &Job, effort: Effort, file: u64) -> StepPlan {
    let rw = job.rw.expect("it has no jobs of files");
    let data = match (job.zero_buffers, job.buffer_compress_percentage, job.dedupe_percentage) {
        (Some(true), ..) => Data::Zeros,
        (_, Some(percent), _) => Data::Compressible { percent },
        (_, _, Some(_)) => Data::Repeated,
        _ => Data::Random,
    };
    let order = match (rw.is_random(), job.full_coverage) {
        (false, _) => Order::Sequential,
        (true, Some(true)) => Order::RandomFull,
        (true, _) => Order::Random,
    };
    let place = job.file.unwrap_or_default();
    let own = job.size.unwrap_or(Bytes::mib(16)).0;
    let work = IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw,
        rwmixread: match (rw.reads(), rw.writes()) {
            (true, true) => job.rwmixread.unwrap_or(50),
            (true, false) => 100,
            _ => 0,
        },
        order,
        blocks: vec![BlockShare { bytes: job.bs.unwrap_or(Bytes::kib(4)).0 as u32, weight: 1 }],
        iodepth: job.iodepth.unwrap_or(1),
        numjobs: job.numjobs.unwrap_or(1),
        direct: true,
        sync: job.sync.unwrap_or_default(),
        file: place,
        size: Bytes(if place == FileUse::Shared { job.size.map_or(file, |size| size.0.min(file)) } else { own }),
        io_size: job.io_size.unwrap_or_default(),
        arrival: match (job.rate_iops, job.load_max) {
            (None, _) => Arrival::Closed,
            (Some(iops), None) => Arrival::Fixed { iops },
            (Some(iops), Some(load_max)) => Arrival::Paced { iops, load_max },
        },
        data,
        writes_per_sync: 1,
    };
    let (max_ns, visits) = (job.runtime_ns(effort), job.visits.map_or(1, |visits| visits.get(effort)));
    let ramp_ns = job.ramp_time.map_or((max_ns / u64::from(visits) / 20).min(250_000_000), |ramp| ramp.0);
    let stop = Stop { min_ns: 0, max_ns, ramp_ns, quantile: 0.0, tolerance: 0.05 };
    let (name, work) = (job.name.clone(), Work::Io(work));
    StepPlan { name, title: String::new(), work, background: Vec::new(), stop, visits, writes_max: Bytes(0) }
}

/// What a step, or one visit of it, measured. The simulated device stands for one driven by a real engine.
pub(crate) fn measured(name: &str, outcome: Outcome) -> StepRecord {
    StepRecord {
        name: name.to_owned(),
        engine: Some(EngineKind::Psync),
        direct: true,
        started_ns: outcome.started_ns,
        runtime_ns: outcome.runtime_ns,
        ended: outcome.ended,
        streams: outcome.streams,
        intervals: outcome.intervals,
        errors: outcome.errors,
        cost: outcome.cost,
        ..StepRecord::default()
    }
}

/// A Record without steps, of a directory whose test file has this size.
pub(crate) fn record(name: &str, subject: Subject, size: Bytes, environment: Environment) -> Record {
    let target = TargetPlan {
        path: "/mnt".into(),
        kind: TargetKind::Directory,
        filesystem: "ext4".to_owned(),
        size,
        direct: true,
        align: 512,
        prepare_max_ns: 0,
    };
    let plan = Plan::new(name, subject, target, 1);
    Record::begin("0123456789ab".to_owned(), Vec::new(), 0, plan, environment)
}

/// The shipped thresholds.
pub(crate) fn thresholds() -> Thresholds {
    toml::from_str(include_str!("../../suites/src/thresholds.toml")).expect("the thresholds that ship are valid")
}
