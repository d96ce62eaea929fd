//! Runs one step: starts the workers, watches their intervals, decides when to stop, merges what they bring.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qd1_model::environment::ThreadCost;
use qd1_model::op::Ended;
use qd1_model::plan::{EngineKind, IoWork, Order, Stop, Sync};
use qd1_model::record::Interval;

use crate::buf::Buffers;
use crate::engine::{Engine, Setup, Tuning};
use crate::error::EngineError;
use crate::gate::Gate;
use crate::io_uring::Uring;
use crate::libaio::Libaio;
use crate::load::Region;
pub use crate::merge::Outcome;
use crate::merge::{Merger, WorkerResult, merge};
use crate::meter::Outbox;
use crate::null::Null;
use crate::priority::WithoutRealtime;
use crate::sim;
use crate::sim::Sim;
use crate::sync::{DurablePsync, Psync};
use crate::threads::room_for_one;
use crate::waits::ReadTime;
use crate::window::Window;
use crate::worker::{self, Task};
use qd1_clock as clock;

/// One step of block I/O, ready to run.
pub struct IoJob<'a> {
    /// What to do.
    pub work: &'a IoWork,
    /// When to stop.
    pub stop: &'a Stop,
    /// Length of an interval, ns; see [`Stop::interval_ns`].
    pub interval_ns: u64,
    /// The engine, already chosen.
    pub kind: EngineKind,
    /// One file for all workers, or one each. Empty only for `null` and `sim`.
    pub files: &'a [OwnedFd],
    /// First byte of the region used in each file.
    pub offset: u64,
    /// Seed of this step.
    pub seed: u64,
    /// The device for `sim`.
    pub sim: Option<sim::Device>,
    /// Completions to wait for together: 1 for the most accurate latency, more for the highest rate.
    pub batch_min: u32,
    /// Reads the calling thread's cost so far; supplied by the caller because reading the machine is not our job.
    pub thread_cost: fn() -> ThreadCost,
    /// Reads how long the calling thread has waited for a processor so far, ns, in a microsecond or so; without it, the
    /// causes of slow requests are not examined.
    pub thread_time: Option<ReadTime>,
}

/// What a watcher is shown about ten times a second.
pub struct Progress<'a> {
    /// Measured time so far, ns; 0 during the ramp.
    pub elapsed_ns: u64,
    /// All intervals finished by all workers so far.
    pub intervals: &'a [Interval],
}

/// What the watcher decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Go on.
    Continue,
    /// The figures are tight enough.
    Enough,
}

/// Runs a step to its end. `cancel` stops it early (a signal); `watch` may end it when the figures are tight.
///
/// # Errors
/// When an engine cannot be opened or breaks. Failing requests are counted in the outcome instead.
pub fn run_io(
    job: &IoJob<'_>,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
) -> Result<Outcome, EngineError> {
    if job.kind == EngineKind::Sim {
        let device = job.sim.clone();
        let device = device.ok_or_else(|| EngineError::Plan("engine sim needs a simulated device".to_owned()))?;
        return run_on(sim::Disk::new(device), job).map(|(_, outcome)| outcome);
    }
    let workers = job.work.numjobs.max(1);
    let stop = AtomicBool::new(false);
    let gate = Gate::new(workers);
    let outboxes: Vec<Outbox> = (0..workers).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
    let (sender, receiver) = mpsc::channel();
    std::thread::scope(|scope| {
        for (index, outbox) in outboxes.iter().enumerate() {
            let (sender, outbox) = (sender.clone(), outbox.clone());
            let (stop, gate) = (&stop, &gate);
            let work = move || {
                let _leaving = gate.abandon_on_leaving();
                let shared = Shared { stop, gate };
                let result = if gate.begin() {
                    run_worker(job, index as u32, outbox, &shared)
                } else {
                    Err(EngineError::Worker(NOT_ALL.to_owned()))
                };
                // The controller may have given up and dropped the receiver.
                let _ = sender.send(result);
            };
            let thread = std::thread::Builder::new().name(format!("qd1-worker-{index}"));
            room_for_one().and_then(|()| thread.spawn_scoped(scope, work)).map_err(|error| {
                // The scope waits for the workers that were started.
                gate.abandon();
                EngineError::Threads(too_many_threads(workers, &error))
            })?;
        }
        drop(sender);
        let _ordinary = WithoutRealtime::begin();
        control(&receiver, &outboxes, &stop, cancel, &gate, watch)
    })
    .and_then(|outcome| finish_writes(job, outcome))
}

/// Reported by a worker that could not begin because another one could not.
const NOT_ALL: &str = "another worker could not begin";

/// The one fsync at the end, where the step has it, as part of its time.
fn finish_writes(job: &IoJob<'_>, mut outcome: Outcome) -> Result<Outcome, EngineError> {
    if job.work.sync != Sync::EndFsync {
        return Ok(outcome);
    }
    let begin_ns = clock::now_ns();
    for file in job.files {
        rustix::fs::fsync(file).map_err(|errno| EngineError::Broken { engine: "fsync", op: "fsync", errno })?;
        outcome.requests.syncs += 1;
    }
    outcome.end_fsync_ns = clock::now_ns() - begin_ns;
    outcome.runtime_ns += outcome.end_fsync_ns;
    Ok(outcome)
}

/// What all workers of a step share.
struct Shared<'a> {
    stop: &'a AtomicBool,
    gate: &'a Gate,
}

/// Opens this worker's engine by its type, so that the hot loop is compiled for it.
fn run_worker(job: &IoJob<'_>, index: u32, outbox: Outbox, shared: &Shared<'_>) -> Result<WorkerResult, EngineError> {
    let seed = worker_seed(job.seed, index) ^ 0xDA7A;
    let buffers = Buffers::with_data(job.work.iodepth, job.work.block_max(), seed, job.work.data);
    let setup = buffers.map(|buffers| {
        let files = match job.files {
            [] => Vec::new(),
            files => vec![files[index as usize % files.len()].as_raw_fd()],
        };
        let (buffers, tuning) = (Arc::new(buffers), tuning(job.work.sync));
        Setup { files, iodepth: job.work.iodepth, buffers, sim: None, tuning }
    });
    let lane =
        WorkerStart { job, index, outbox, shared, buffers: setup.as_ref().ok().map(|setup| setup.buffers.clone()) };
    match job.kind {
        EngineKind::Psync if job.work.sync == Sync::RwfDsync => lane.run(setup.map(DurablePsync::new)),
        EngineKind::Psync => lane.run(setup.map(Psync::new)),
        EngineKind::Libaio => lane.run(setup.and_then(Libaio::new)),
        EngineKind::IoUring => lane.run(setup.and_then(Uring::new)),
        EngineKind::Null => lane.run(setup.map(|_| Null::default())),
        EngineKind::Sim => lane.run(setup.and_then(Sim::new)),
        // The hot loop is compiled once for each engine above; plans do not use the others.
        other => lane.run::<Null>(Err(EngineError::Plan(format!("engine {} is for fio's jobs", other.name())))),
    }
}

/// Returns how engines issue a step's requests, which depends on how it syncs.
pub fn tuning(sync: Sync) -> Tuning {
    // All three flags: it returns once the written data has reached the device, which is the most that it can promise.
    let range = crate::SYNC_FILE_RANGE_WAIT_BEFORE | crate::SYNC_FILE_RANGE_WRITE | crate::SYNC_FILE_RANGE_WAIT_AFTER;
    Tuning {
        sync_file_range: if sync == Sync::SyncFileRange { range } else { 0 },
        write_dsync: sync == Sync::RwfDsync,
        ..Tuning::default()
    }
}

/// What one worker starts with.
struct WorkerStart<'a> {
    job: &'a IoJob<'a>,
    index: u32,
    outbox: Outbox,
    shared: &'a Shared<'a>,
    buffers: Option<Arc<Buffers>>,
}

impl WorkerStart<'_> {
    fn run<E: Engine>(self, opened: Result<E, EngineError>) -> Result<WorkerResult, EngineError> {
        let (job, shared) = (self.job, self.shared);
        let mut engine = opened?;
        let Some(window) = shared.gate.pass(job.stop, job.interval_ns) else {
            return Err(EngineError::Worker(NOT_ALL.to_owned()));
        };
        let task = Task {
            work: job.work,
            region: region(job, self.index),
            seed: worker_seed(job.seed, self.index),
            phase: f64::from(self.index) / f64::from(job.work.numjobs.max(1)),
            buffers: self.buffers.expect("an engine was opened with them"),
            stop: shared.stop,
            outbox: self.outbox,
            budget: job.work.io_size.0 / u64::from(job.work.numjobs.max(1)),
            batch_min: job.batch_min.max(1) as usize,
            thread_time: job.thread_time,
        };
        let before = (job.thread_cost)();
        let finished = worker::run(&mut engine, task, window)?;
        let cost = (job.thread_cost)().since(&before);
        Ok(WorkerResult { finished, cost, caveat: engine.caveat() })
    }
}

/// Returns the message for a thread that the system refuses.
pub(crate) fn too_many_threads(wanted: u32, error: &std::io::Error) -> String {
    format!(
        "cannot start all {wanted} threads: {error}; use fewer (numjobs, iodepth), or raise the limit (ulimit -u, \
         or the container's process limit)"
    )
}

fn worker_seed(seed: u64, index: u32) -> u64 {
    seed.wrapping_add(u64::from(index).wrapping_mul(0xD1B5_4A32_D192_ED03))
}

/// The part of its file that a worker uses: all of it, except that sequential workers on one file divide it.
fn region(job: &IoJob<'_>, index: u32) -> Region {
    let size = job.work.size.0;
    let workers = u64::from(job.work.numjobs.max(1));
    let shares = job.files.len() <= 1 && workers > 1 && job.work.order == Order::Sequential;
    if !shares {
        return Region { start: job.offset, length: size };
    }
    let block = u64::from(job.work.block_max());
    let length = (size / workers / block).max(1) * block;
    Region { start: job.offset + length * u64::from(index), length }
}

/// Watches the workers until all are done; merges what they bring.
fn control(
    receiver: &mpsc::Receiver<Result<WorkerResult, EngineError>>,
    outboxes: &[Outbox],
    stop: &AtomicBool,
    cancel: &AtomicBool,
    gate: &Gate,
    watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
) -> Result<Outcome, EngineError> {
    let mut merger = Merger::default();
    let mut results = Vec::new();
    let mut failure: Option<EngineError> = None;
    let mut ended = Ended::Time;
    let mut finished_workers = 0;
    while finished_workers < outboxes.len() {
        match receiver.recv_timeout(Duration::from_millis(50)) {
            Ok(Ok(worker)) => {
                finished_workers += 1;
                results.push(worker);
            }
            Ok(Err(error)) => {
                finished_workers += 1;
                stop.store(true, Ordering::Relaxed);
                // A worker that gave up because another could not open its engine would only repeat the cause.
                if failure.as_ref().is_none_or(|known| matches!(known, EngineError::Worker(_))) {
                    failure = Some(error);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if cancel.load(Ordering::Relaxed) && !stop.swap(true, Ordering::Relaxed) {
            ended = Ended::Interrupted;
        }
        merger.take(outboxes);
        let elapsed_ns = gate.window().map_or(0, |window| clock::now_ns().saturating_sub(window.measure_ns));
        let decision = watch(&Progress { elapsed_ns, intervals: merger.so_far() });
        if decision == Decision::Enough && !stop.swap(true, Ordering::Relaxed) {
            ended = Ended::Precise;
        }
    }
    if let Some(error) = failure {
        return Err(error);
    }
    if results.len() < outboxes.len() {
        return Err(EngineError::Worker("a thread exited without a result".to_owned()));
    }
    merger.take(outboxes);
    let window = gate.window().ok_or_else(|| EngineError::Worker("the run never started".to_owned()))?;
    Ok(merge(results, merger, &window, ended))
}

/// Runs a step on a simulated disk, which keeps its state: the next step finds its caches warm and its buckets empty.
///
/// # Errors
/// When there is no memory for the buffers.
pub fn run_on(disk: sim::Disk, job: &IoJob<'_>) -> Result<(sim::Disk, Outcome), EngineError> {
    // The device runs on this thread, in virtual time; several workers are one with as many slots.
    let mut work = job.work.clone();
    work.iodepth *= work.numjobs.max(1);
    work.numjobs = 1;
    let buffers = Arc::new(Buffers::with_data(work.iodepth, work.block_max(), job.seed, work.data)?);
    let measure_ns = disk.now_ns() + job.stop.ramp_ns;
    let mut engine = Sim::of(disk, buffers.clone(), work.iodepth).written_through(work.sync.is_in_the_write());
    let outboxes: Vec<Outbox> = vec![Arc::new(Mutex::new(Vec::new()))];
    let window = Window { measure_ns, deadline_ns: measure_ns + job.stop.max_ns, interval_ns: job.interval_ns };
    let task = Task {
        region: Region { start: job.offset, length: work.size.0 },
        seed: worker_seed(job.seed, 0),
        phase: 0.0,
        buffers,
        stop: &AtomicBool::new(false),
        outbox: outboxes[0].clone(),
        budget: work.io_size.0,
        batch_min: 1,
        thread_time: job.thread_time,
        work: &work,
    };
    let finished = worker::run(&mut engine, task, window)?;
    let mut merger = Merger::default();
    merger.take(&outboxes);
    let results = WorkerResult { finished, cost: ThreadCost::default(), caveat: String::new() };
    Ok((engine.into_disk(), merge(vec![results], merger, &window, Ended::Time)))
}
