//! A run of jobs as qd1's own Record, so that it can be saved, shown in every format and analysed again.

use qd1_model::order::Order as _;
use std::path::Path;

use qd1_clock as clock;
use qd1_engine::merge::Merger;
use qd1_fio::FioJob;
use qd1_fio::types::{Amount, Distribution, SyncMode};
use qd1_model::Subject;
use qd1_model::environment::{Environment, ThreadCost};
use qd1_model::op::Ended;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, FilesWork, IoWork, Order, Plan, Rw, StepPlan, Stop,
    Sync, TargetKind, TargetPlan, Work,
};
use qd1_model::record::{IoErrors, Record, StepRecord};
use qd1_model::units::Bytes;

use crate::{JobCounters, ThreadResult};

/// Length of the threads' intervals, ns.
const INTERVAL_NS: u64 = 100_000_000;

/// The start of a run of jobs.
pub struct RunStart {
    /// Its identifier.
    pub id: String,
    /// Wall clock, ns since the Unix epoch.
    pub unix_ns: u64,
    /// The clock of requests, ns.
    pub ns: u64,
    /// The command that repeats the run.
    pub command: Vec<String>,
}

/// Returns the Record of a run at `place`, the path that represents all files of the jobs.
#[must_use]
pub fn record(
    jobs: &[FioJob],
    results: &[ThreadResult],
    environment: Environment,
    start: &RunStart,
    place: &Path,
    kernel: &JobCounters<'_>,
    interrupted: bool,
) -> Record {
    let names = unique_names(jobs);
    let of = |index: usize| results.iter().filter(move |result| result.plan.job == index).collect::<Vec<_>>();
    let steps = jobs
        .iter()
        .enumerate()
        .map(|(index, job)| {
            let results = of(index);
            let mut step = step(job, &names[index], &results, start.ns);
            if let Some(change) = kernel.change(index, &results) {
                (step.device, step.steal, step.busy) = (change.device, change.steal, change.busy);
                step.pressure = change.pressure;
            }
            step
        })
        .collect();
    let plans = jobs.iter().zip(&names).map(|(job, name)| step_plan(job, name)).collect();
    let seed = jobs.first().and_then(|job| job.randseed).unwrap_or(0);
    let plan = Plan::new("fio", Subject::Jobs, target(jobs, place, &environment), seed);
    let plan = Plan { steps: plans, ..plan };
    Record {
        elapsed_ns: clock::now_ns() - start.ns,
        interrupted,
        steps,
        ..Record::begin(start.id.clone(), start.command.clone(), start.unix_ns, plan, environment)
    }
}

/// Returns the jobs' names, made unique: a second `job` is `job-2`.
fn unique_names(jobs: &[FioJob]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for job in jobs {
        let taken = |name: &str| names.iter().any(|known| known == name);
        let name = (1..)
            .map(|number| if number == 1 { job.name.clone() } else { format!("{}-{number}", job.name) })
            .find(|name| !taken(name));
        names.extend(name);
    }
    names
}

fn target(jobs: &[FioJob], place: &Path, environment: &Environment) -> TargetPlan {
    use std::os::unix::fs::FileTypeExt as _;
    let kind = match std::fs::metadata(place) {
        Ok(found) if found.file_type().is_block_device() => {
            let writes = jobs.iter().any(|job| job.rw.kind.writes() || job.rw.kind.trims());
            if writes { TargetKind::BlockDestroy } else { TargetKind::BlockReadOnly }
        }
        Ok(found) if found.is_file() => TargetKind::File,
        _ => TargetKind::Directory,
    };
    TargetPlan {
        path: place.to_owned(),
        kind,
        filesystem: environment.filesystem.kind.clone(),
        size: jobs.iter().map(size_of).max().unwrap_or_default(),
        // Every job's files were opened as requested, so nothing is known to be impossible.
        direct: true,
        align: 1,
        prepare_max_ns: 0,
    }
}

fn size_of(job: &FioJob) -> Bytes {
    match job.size {
        Amount::Bytes(bytes) => Bytes(bytes),
        Amount::Unset | Amount::Percent(_) => Bytes(0),
    }
}

fn step_plan(job: &FioJob, name: &str) -> StepPlan {
    let work = if job.ioengine.moves_data() {
        Work::Io(io_work(job))
    } else {
        Work::Files(FilesWork { size: size_of(job), count: u64::from(job.file_count()), ..FilesWork::default() })
    };
    let title = if job.description.is_empty() { qd1_fio::output::job_line(job, 0) } else { job.description.clone() };
    let max_ns = job.runtime.as_nanos() as u64;
    let stop = Stop { min_ns: max_ns, max_ns, ramp_ns: job.ramp_time.as_nanos() as u64, quantile: 0.0, tolerance: 0.0 };
    StepPlan { name: name.to_owned(), title, work, background: Vec::new(), stop, visits: 1, writes_max: Bytes(0) }
}

/// Returns the job as work of a Plan, as far as a Plan can express it: detectors need it.
fn io_work(job: &FioJob) -> IoWork {
    let kind = job.rw.kind;
    let rw = match (kind.reads(), kind.writes() || kind.trims(), kind.is_random()) {
        (true, true, true) => Rw::Randrw,
        (true, true, false) => Rw::Rw,
        (true, false, true) => Rw::Randread,
        (true, false, false) => Rw::Read,
        (false, _, true) => Rw::Randwrite,
        (false, _, false) => Rw::Write,
    };
    let largest = (0..3).filter(|direction| kind.directions()[*direction]).map(|d| job.block_range(d).max).max();
    IoWork {
        ioengine: EngineChoice::Auto,
        rw,
        rwmixread: match (rw.reads(), rw.writes()) {
            (true, true) => job.rwmixread as u8,
            (reads, _) => 100 * u8::from(reads),
        },
        order: match (&*job.random_distribution, kind.is_random(), job.norandommap) {
            (_, false, _) => Order::Sequential,
            (Distribution::Zipf { theta, .. }, ..) => Order::Zipf { theta: *theta },
            (_, _, true) => Order::Random,
            _ => Order::RandomFull,
        },
        blocks: vec![BlockShare { bytes: largest.unwrap_or(4096) as u32, weight: 1 }],
        iodepth: job.iodepth,
        numjobs: job.numjobs,
        direct: job.direct,
        sync: match (job.sync, job.fsync, job.fdatasync) {
            (SyncMode::Sync, ..) => Sync::OSync,
            (SyncMode::Dsync, ..) => Sync::ODsync,
            (_, 1, _) => Sync::Fsync,
            (_, _, 1) => Sync::Fdatasync,
            _ if job.end_fsync => Sync::EndFsync,
            _ => Sync::None,
        },
        file: FileUse::Shared,
        size: size_of(job),
        io_size: match job.io_size {
            Amount::Bytes(bytes) => Bytes(bytes),
            Amount::Unset | Amount::Percent(_) => Bytes(0),
        },
        arrival: match job.rate_iops.iter().find(|rate| **rate > 0) {
            Some(rate) => Arrival::Fixed { iops: f64::from(*rate) },
            None => Arrival::Closed,
        },
        data: match (job.zero_buffers, job.dedupe_percentage, job.buffer_compress_percentage) {
            (true, ..) | (_, _, 100) => Data::Zeros,
            (_, 100, _) => Data::Repeated,
            (_, _, 0) => Data::Random,
            (_, _, percent) => Data::Compressible { percent: percent as u8 },
        },
        writes_per_sync: 1,
    }
}

/// Returns all clones of a job as one step.
fn step(job: &FioJob, name: &str, results: &[&ThreadResult], start_ns: u64) -> StepRecord {
    let ran = || results.iter().filter(|result| result.measured_ns > 0);
    let measured_ns = ran().map(|result| result.measured_ns).min().unwrap_or(start_ns);
    let runtime_ns =
        ran().map(|result| result.ended_ns).max().unwrap_or(measured_ns).saturating_sub(measured_ns).max(1);
    let mut streams = Vec::new();
    let mut errors: Vec<IoErrors> = Vec::new();
    let mut merger = Merger::default();
    let mut cost = ThreadCost::default();
    for result in results {
        result.streams.iter().cloned().for_each(|stream| stream.add_to(&mut streams));
        merger.add(result.intervals.iter().cloned());
        result.errors.iter().cloned().for_each(|error| error.add_to(&mut errors));
        cost = cost.plus(&result.stat.cost);
    }
    streams.order_by_key(|stream| stream.class);
    let engine = results.iter().find_map(|result| result.engine);
    let failed = results.iter().any(|result| result.fault.is_some());
    StepRecord {
        name: name.to_owned(),
        engine,
        engine_why: results
            .iter()
            .map(|result| result.caveat.clone())
            .find(|text| !text.is_empty())
            .unwrap_or_default(),
        direct: job.direct && engine.is_some_and(EngineKind::does_io),
        started_ns: measured_ns.saturating_sub(start_ns),
        runtime_ns,
        ended: if failed { Ended::Failed } else { Ended::Done },
        streams,
        intervals: merger.finish(INTERVAL_NS, runtime_ns),
        errors,
        cost,
        ..StepRecord::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique() {
        let jobs = ["a", "b", "a", "a"].map(FioJob::new);
        assert_eq!(unique_names(&jobs), ["a", "b", "a-2", "a-3"]);
    }
}
