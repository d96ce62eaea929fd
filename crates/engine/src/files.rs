//! File operations as programs make them: create, stat, read, list, rename, link, delete; and one large file written,
//! rewritten, read and sought in, as in bonnie++. Files are numbered and their names computed, so that a million
//! take no memory.

mod block;
mod durable;
mod lane;
mod many;
mod names;
mod tree;

use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qd1_model::environment::ThreadCost;
use qd1_model::op::{Ended, RequestCounts};
use qd1_model::plan::{FileOp, FilesWork, Stop};
use qd1_model::record::{IoErrors, Stream};

pub use durable::run_durable_files;
pub use tree::Tree;

use crate::error::EngineError;
use crate::merge::Merger;
use crate::meter::Outbox;
use crate::run::{Decision, Outcome, Progress, too_many_threads};
use crate::threads::room_for_one;
use block::Block;
use lane::{Lane, Limits};
use many::{Many, unlink_all};
use names::NameKind;
use qd1_clock as clock;
use tree::GroupNames;

/// In a step that does several things, the share of the time for creating, percent; deleting has no limit, since
/// nothing may be left.
const CREATE_SHARE: u64 = 50;
/// Share for each of the others, percent.
const OTHER_SHARE: u64 = 20;

/// Workers' intervals: a 64th of the longest. A thousand files take ten milliseconds or a minute, and the precision of
/// a figure is judged by how it changed from one interval to the next.
const INTERVAL_NS: u64 = INTERVAL_MAX_NS / 64;
const INTERVAL_MAX_NS: u64 = 100_000_000;
/// Beyond this many, neighbouring intervals are joined: while it runs, and at the end.
const INTERVALS_RUNNING: usize = 800;
const INTERVALS_KEPT: usize = 400;

/// How often the watcher is called.
const LOOK: Duration = Duration::from_millis(50);

/// Runs `work` on the files of `tree`, and leaves behind what it does not delete.
///
/// If space, quota or write permission is missing, the step ends as failed; other failures are counted as long as they
/// are few.
///
/// # Errors
/// When a directory or the large file cannot be opened, or no earlier step created the files that `work` needs.
pub fn run_files(
    work: &FilesWork,
    stop: &Stop,
    tree: &mut Tree,
    seed: u64,
    thread_cost: fn() -> ThreadCost,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
) -> Result<Outcome, EngineError> {
    let mut step = Step {
        work,
        stop,
        seed,
        thread_cost,
        cancel,
        started_ns: None,
        last_ns: 0,
        ios: 0,
        merger: Merger::default(),
        outcome: Outcome {
            streams: Vec::new(),
            intervals: Vec::new(),
            started_ns: 0,
            runtime_ns: 0,
            end_fsync_ns: 0,
            ended: Ended::Done,
            errors: Vec::new(),
            requests: RequestCounts::default(),
            cost: ThreadCost::default(),
            caveat: String::new(),
        },
    };
    for op in &work.ops {
        step.phase(*op, tree, watch)?;
        let is_over = matches!(step.outcome.ended, Ended::Interrupted | Ended::Failed);
        // A step that creates and deletes its files deletes them whatever happens: they belong to it.
        if is_over && work.ops.last() != Some(&FileOp::Delete) {
            break;
        }
    }
    if work.fsync.end && step.outcome.ended != Ended::Interrupted {
        step.sync_all(tree)?;
    }
    Ok(step.finish())
}

/// A step under way.
struct Step<'a> {
    work: &'a FilesWork,
    stop: &'a Stop,
    seed: u64,
    thread_cost: fn() -> ThreadCost,
    cancel: &'a AtomicBool,
    /// Once its directories are made: what is measured begins then.
    started_ns: Option<u64>,
    last_ns: u64,
    ios: u64,
    merger: Merger,
    outcome: Outcome,
}

/// One worker's result of a phase.
struct WorkerShare<T> {
    index: u32,
    value: T,
    streams: Vec<Stream>,
    requests: RequestCounts,
    errors: Vec<IoErrors>,
    last_ns: u64,
    ios: u64,
    cost: ThreadCost,
}

/// The result of a phase.
struct Phase<T> {
    /// Of each worker, in their order.
    values: Vec<T>,
    broken: bool,
}

impl Step<'_> {
    fn phase(
        &mut self,
        op: FileOp,
        tree: &mut Tree,
        watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
    ) -> Result<(), EngineError> {
        // The time up to here includes what an earlier phase wrote out at its end.
        self.outcome.end_fsync_ns = 0;
        let (done, wanted, broken) =
            if op.is_block() { self.block(op, tree, watch)? } else { self.many(op, tree, watch)? };
        if self.cancel.load(Ordering::Relaxed) {
            self.outcome.ended = Ended::Interrupted;
        } else if broken || (self.ios == 0 && !self.outcome.errors.is_empty()) {
            self.outcome.ended = Ended::Failed;
        } else if done < wanted && self.outcome.ended == Ended::Done {
            self.outcome.ended = Ended::Time;
        }
        Ok(())
    }

    /// Operations on many files: how many were tried, how many there are, and whether something stopped all of them.
    fn many(
        &mut self,
        op: FileOp,
        tree: &mut Tree,
        watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
    ) -> Result<(u64, u64, bool), EngineError> {
        if op == FileOp::Create {
            tree.begin(self.work, self.seed, self.cancel)?;
        }
        let group = tree.group()?;
        let many = Many { group, work: self.work, op, seed: self.seed };
        let wanted = many.wanted();
        let phase = self.in_workers(op, self.work.workers, watch, |index, lane| many.run(index, lane))?;
        let done = phase.values.iter().map(|range: &Range<u64>| range.end - range.start).sum();
        match op {
            FileOp::Create => group.made = phase.values,
            FileOp::Rename if done == wanted => {
                group.called = match group.called {
                    GroupNames::All(NameKind::First) => GroupNames::All(NameKind::Second),
                    GroupNames::All(_) => GroupNames::All(NameKind::First),
                    GroupNames::Either => GroupNames::Either,
                }
            }
            FileOp::Rename => group.called = GroupNames::Either,
            FileOp::Link => unlink_all(group, || !self.cancel.load(Ordering::Relaxed)),
            FileOp::Delete => tree.end(),
            _ => {}
        }
        Ok((done, wanted, phase.broken))
    }

    /// The same for operations on one large file.
    fn block(
        &mut self,
        op: FileOp,
        tree: &mut Tree,
        watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
    ) -> Result<(u64, u64, bool), EngineError> {
        if op != FileOp::BlockWrite && !tree.has_block {
            return Err(EngineError::Plan("no earlier step wrote the large file it needs".to_owned()));
        }
        tree.has_block = true;
        let path = tree.block_path();
        let block = Block { path: &path, work: self.work, op, seed: self.seed, tickets: AtomicU64::new(0) };
        let wanted = block.wanted();
        let before = self.ios;
        let workers = if op == FileOp::Seek { self.work.workers } else { 1 };
        let phase = self.in_workers(op, workers, watch, |index, lane| block.run(index, lane))?;
        // Seekers sync in parallel: the longest sync determines the wait.
        let sync_ns = phase.values.iter().copied().max().unwrap_or(0);
        self.outcome.end_fsync_ns += sync_ns;
        Ok((self.ios - before, wanted, phase.broken))
    }

    /// When a phase stops, whether or not it is done.
    fn deadline_ns(&self, op: FileOp, begin_ns: u64) -> u64 {
        let share = match op {
            _ if self.work.ops.len() == 1 => 100,
            FileOp::Delete => return u64::MAX,
            FileOp::Create => CREATE_SHARE,
            _ => OTHER_SHARE,
        };
        begin_ns + self.stop.max_ns / 100 * share
    }

    /// Runs `body` in several workers in parallel, each with its own lane, and shows their intervals meanwhile.
    fn in_workers<T: Send>(
        &mut self,
        op: FileOp,
        workers: u32,
        watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
        body: impl Fn(u32, &mut Lane<'_>) -> Result<T, EngineError> + Sync,
    ) -> Result<Phase<T>, EngineError> {
        let begin_ns = clock::now_ns();
        let started_ns = *self.started_ns.get_or_insert(begin_ns);
        let never = AtomicBool::new(false);
        let deletes_own = op == FileOp::Delete && self.work.ops.len() > 1;
        let cancel = if deletes_own { &never } else { self.cancel };
        let limits = Limits { deadline_ns: self.deadline_ns(op, begin_ns), cancel, broken: AtomicBool::new(false) };
        let syncs = self.work.fsync.files && matches!(op, FileOp::Create | FileOp::Seek)
            || self.work.fsync.dir && op.changes_directory();
        let outboxes: Vec<Outbox> = (0..workers.max(1)).map(|_| Arc::new(Mutex::new(Vec::new()))).collect();
        let (sender, receiver) = mpsc::channel();
        let thread_cost = self.thread_cost;
        let mut results = std::thread::scope(|scope| {
            for (index, outbox) in outboxes.iter().enumerate() {
                let (sender, outbox, index) = (sender.clone(), outbox.clone(), index as u32);
                let (limits, body) = (&limits, &body);
                let work = move || {
                    let before = thread_cost();
                    let mut lane = Lane::new(op.class(), syncs, limits, started_ns, INTERVAL_NS, outbox);
                    let outcome = body(index, &mut lane);
                    if outcome.is_err() {
                        limits.broken.store(true, Ordering::Relaxed);
                    }
                    let (last_ns, ios) = (lane.last_ns, lane.ios);
                    let (streams, requests, errors) = lane.finish();
                    let cost = thread_cost().since(&before);
                    // The controller may have given up and dropped the receiver.
                    let _ = sender.send(outcome.map(|value| WorkerShare {
                        index,
                        value,
                        streams,
                        requests,
                        errors,
                        last_ns,
                        ios,
                        cost,
                    }));
                };
                let thread = std::thread::Builder::new().name(format!("qd1-files-{index}"));
                room_for_one().and_then(|()| thread.spawn_scoped(scope, work)).map_err(|error| {
                    limits.broken.store(true, Ordering::Relaxed);
                    EngineError::Threads(too_many_threads(workers, &error))
                })?;
            }
            drop(sender);
            self.gather(&receiver, &outboxes, started_ns, watch)
        })?;
        if results.len() < outboxes.len() {
            return Err(EngineError::Worker("a thread exited without a result".to_owned()));
        }
        results.sort_by_key(|worker| worker.index);
        let broken = limits.broken.load(Ordering::Relaxed);
        let values = results.into_iter().map(|worker| self.take(worker)).collect();
        Ok(Phase { values, broken })
    }

    /// Waits for the workers.
    fn gather<T>(
        &mut self,
        receiver: &mpsc::Receiver<Result<WorkerShare<T>, EngineError>>,
        outboxes: &[Outbox],
        started_ns: u64,
        watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
    ) -> Result<Vec<WorkerShare<T>>, EngineError> {
        let mut results = Vec::new();
        let mut failure = None;
        loop {
            match receiver.recv_timeout(LOOK) {
                Ok(Ok(worker)) => results.push(worker),
                Ok(Err(error)) => failure = failure.or(Some(error)),
                Err(RecvTimeoutError::Timeout) => {
                    self.merger.take(outboxes);
                    self.merger.join(INTERVAL_NS, INTERVALS_RUNNING, INTERVAL_MAX_NS);
                    let elapsed_ns = clock::now_ns() - started_ns;
                    // File operations end when they are done, not when the figures are precise enough.
                    let _ = watch(&Progress { elapsed_ns, intervals: self.merger.so_far() });
                }
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
        self.merger.take(outboxes);
        failure.map_or(Ok(results), Err)
    }

    /// Adds a worker's result and returns what its body gave.
    fn take<T>(&mut self, worker: WorkerShare<T>) -> T {
        worker.streams.into_iter().for_each(|stream| stream.add_to(&mut self.outcome.streams));
        worker.errors.into_iter().for_each(|error| error.add_to(&mut self.outcome.errors));
        self.outcome.requests = self.outcome.requests.plus(&worker.requests);
        self.outcome.cost = self.outcome.cost.plus(&worker.cost);
        self.last_ns = self.last_ns.max(worker.last_ns);
        self.ios += worker.ios;
        worker.value
    }

    /// Writes out the whole filesystem, inside the step's time.
    fn sync_all(&mut self, tree: &Tree) -> Result<(), EngineError> {
        let base = tree.open_base()?;
        let begin_ns = clock::now_ns();
        let before = (self.thread_cost)();
        rustix::fs::syncfs(&base).map_err(|errno| EngineError::Broken { engine: "files", op: "syncfs", errno })?;
        self.outcome.cost = self.outcome.cost.plus(&(self.thread_cost)().since(&before));
        self.outcome.end_fsync_ns += clock::now_ns() - begin_ns;
        self.outcome.requests.syncs += 1;
        Ok(())
    }

    fn finish(mut self) -> Outcome {
        let started_ns = self.started_ns.unwrap_or_else(clock::now_ns);
        let measured_ns = self.last_ns.saturating_sub(started_ns).max(1);
        let interval_ns = self.merger.join(INTERVAL_NS, INTERVALS_KEPT, INTERVAL_MAX_NS);
        self.outcome.streams.sort_by_key(|stream| stream.class);
        Outcome {
            intervals: self.merger.finish(interval_ns, measured_ns),
            started_ns,
            runtime_ns: measured_ns + self.outcome.end_fsync_ns,
            ..self.outcome
        }
    }
}
