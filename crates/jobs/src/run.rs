//! All jobs of a run: when each thread begins, which ones end others, and what is shown while they run.

mod prepare;

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use qd1_clock as clock;
use qd1_engine::meter::Outbox;
use qd1_engine::threads::room_for_one;
use qd1_fio::FioJob;
use qd1_fio::types::ExitWhat;
use qd1_model::environment::ThreadCost;
use qd1_model::job::JobStat;
use qd1_model::plan::EngineKind;
use qd1_model::record::{Interval, IoErrors, Stream};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::io::Errno;

use crate::error::JobError;
use crate::files::{self, FileKind, FilePlan, LaidOutFiles, LayingOut};
use crate::flow::Flow;
use crate::live::Live;
use crate::plan::{ThreadPlan, threads};
use crate::steady::Steady;
use crate::thread::{ThreadContext, ThreadOutcome};
use crate::watch::{Now, Stage, ThreadNow, Watcher};
use prepare::{flows, lay_out, plan_is_first, prepare};

/// How often the controller checks its threads.
const LOOK: Duration = Duration::from_millis(20);
/// Maximum time to wait for a snapshot from threads that are busy with a request.
const SNAPSHOT_NS: u64 = 1_000_000_000;

/// What the run needs from its caller.
pub struct Surroundings<'a> {
    /// Set to end the run in an orderly way.
    pub cancel: &'a AtomicBool,
    /// Reads the calling thread's cost so far.
    pub thread_cost: fn() -> ThreadCost,
    /// Whether a block device or a file may be created, changed or deleted; otherwise the reason why not.
    pub may_change: &'a dyn Fn(&Path) -> Result<(), String>,
    /// Whether the files it creates are removed at its end, unless a job only creates them (`create_only`).
    pub removes_new_files: bool,
    /// A random number, for jobs that do not repeat the previous run.
    pub drawn: u64,
    /// How often to give a full report while the jobs run.
    pub status_interval: Option<Duration>,
}

/// The result of one thread.
#[derive(Debug)]
pub struct ThreadResult {
    /// Which thread.
    pub plan: ThreadPlan,
    /// fio's counters.
    pub stat: JobStat,
    /// Histograms of each kind of operation.
    pub streams: Vec<Stream>,
    /// Intervals of 100 ms with their numbers.
    pub intervals: Vec<(u64, Interval)>,
    /// Failures.
    pub errors: Vec<IoErrors>,
    /// What ended it early.
    pub fault: Option<JobError>,
    /// The engine that ran; `None` for engines that work on names.
    pub engine: Option<EngineKind>,
    /// What the kernel did not grant the engine.
    pub caveat: String,
    /// When counting began, ns of the clock; 0 if it never began.
    pub measured_ns: u64,
    /// When counting ended.
    pub ended_ns: u64,
    /// All I/O on the files, including ramp and verification: (bytes, requests) of reads, writes and trims.
    pub moved: [(u64, u64); 3],
    /// Syncs, including ramp and verification.
    pub syncs: u64,
}

/// One thread, prepared.
struct Prepared<'a> {
    plan: ThreadPlan,
    job: &'a FioJob,
    files: Vec<FilePlan>,
    live: Arc<Live>,
    outbox: Outbox,
    stage: Stage,
    delay_ns: u64,
    begin: Option<mpsc::Sender<bool>>,
    ended: Option<ThreadOutcome>,
}

enum Message {
    Ready,
    Ended(usize, Box<ThreadOutcome>),
}

/// Runs all jobs.
///
/// # Errors
/// Errors found before any job begins. Errors within a thread are in its result.
pub fn run<'a>(
    jobs: &'a [FioJob],
    around: &'a Surroundings<'a>,
    watcher: &mut dyn Watcher,
) -> Result<Vec<ThreadResult>, JobError> {
    let (mut prepared, _held) = prepare(jobs, around)?;
    let laid_out = lay_out(&prepared, around, watcher);
    if laid_out.is_ok() && !jobs.iter().all(|job| job.create_only) {
        watcher.starting(prepared.len());
        let flows = flows(&prepared);
        Controller { around, watcher, prepared: &mut prepared, flows: &flows, steady: Vec::new() }.run();
    }
    for thread in &prepared {
        let removes_new = around.removes_new_files && !thread.job.create_only;
        let unlinks = thread.job.unlink && laid_out.is_ok();
        let goes = |file: &&FilePlan| file.kind == FileKind::Regular && (unlinks || removes_new && !file.exists);
        for file in thread.files.iter().filter(goes) {
            // Clones share files: another clone has already deleted it.
            let _ = std::fs::remove_file(&file.path);
        }
    }
    laid_out?;
    Ok(prepared.into_iter().map(Prepared::into_result).collect())
}

struct Controller<'a, 'b> {
    around: &'a Surroundings<'a>,
    watcher: &'b mut dyn Watcher,
    prepared: &'b mut Vec<Prepared<'a>>,
    flows: &'b HashMap<u32, Arc<Flow>>,
    /// Which threads are watched, by which watch, and when it was last updated; empty before they run.
    steady: Vec<(Vec<usize>, Steady, Option<u64>)>,
}

impl<'a> Controller<'a, '_> {
    fn run(&mut self) {
        self.steady = self.watches();
        let begin_ns = clock::now_ns();
        let (sender, receiver) = mpsc::channel();
        let interval_ns = self.around.status_interval.map(|interval| interval.as_nanos() as u64);
        let mut next_status_ns = interval_ns.map(|interval_ns| begin_ns + interval_ns);
        std::thread::scope(|scope| {
            loop {
                self.start_due_threads(scope, &sender, &receiver, begin_ns);
                if self.is_over() {
                    break;
                }
                match receiver.recv_timeout(LOOK) {
                    Ok(message) => self.receive(message),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
                }
                let now_ns = clock::now_ns();
                self.check_steady_state(now_ns);
                if let (Some(at_ns), Some(interval_ns)) = (next_status_ns, interval_ns)
                    && now_ns >= at_ns
                {
                    next_status_ns = Some(at_ns + interval_ns);
                    self.status(&receiver);
                }
                self.tick(now_ns - begin_ns);
            }
        });
        self.pass_on_logs();
        for (members, steady, _) in &self.steady {
            if let Some(ended) = self.prepared[members[0]].ended.as_mut() {
                ended.stat.steadystate = Some(steady.outcome());
            }
        }
    }

    fn is_over(&self) -> bool {
        let cancelled = self.around.cancel.load(Ordering::Relaxed);
        self.prepared.iter().all(|thread| thread.stage == Stage::Ended || (cancelled && thread.stage == Stage::Pending))
    }

    /// Starts every thread whose turn it is, all of them at the same moment.
    fn start_due_threads<'scope>(
        &mut self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        sender: &mpsc::Sender<Message>,
        receiver: &mpsc::Receiver<Message>,
        begin_ns: u64,
    ) where
        'a: 'scope,
    {
        if self.around.cancel.load(Ordering::Relaxed) {
            return;
        }
        let due_threads = self.due_threads(clock::now_ns() - begin_ns);
        for index in &due_threads {
            self.spawn(scope, sender, *index);
        }
        let mut ready = 0;
        while ready < due_threads.len() {
            match receiver.recv() {
                Ok(Message::Ready) => ready += 1,
                Ok(ended) => self.receive(ended),
                Err(mpsc::RecvError) => break,
            }
        }
        let plans: Vec<ThreadPlan> = due_threads.iter().map(|index| self.prepared[*index].plan).collect();
        if !plans.is_empty() {
            self.watcher.begins(&plans);
        }
        for index in due_threads {
            if let Some(begin) = self.prepared[index].begin.take() {
                // A thread that died has dropped its end of the channel; its message says so.
                let _ = begin.send(true);
            }
        }
    }

    /// The threads that may begin now, by `startdelay`, `wait_for` and `stonewall`.
    fn due_threads(&self, elapsed_ns: u64) -> Vec<usize> {
        let mut turn = Vec::new();
        let mut before_run = false;
        for (index, thread) in self.prepared.iter().enumerate() {
            match thread.stage {
                Stage::Ended => continue,
                Stage::Running => {
                    before_run = true;
                    continue;
                }
                Stage::Pending => {}
            }
            // A stonewall holds back everything after it until everything before it has ended.
            if thread.job.stonewall && plan_is_first(&thread.plan) && (before_run || !turn.is_empty()) {
                break;
            }
            let waits = !thread.job.wait_for.is_empty()
                && self
                    .prepared
                    .iter()
                    .any(|other| other.job.name == thread.job.wait_for && other.stage != Stage::Ended);
            if elapsed_ns < thread.delay_ns || waits {
                before_run = true;
                continue;
            }
            turn.push(index);
        }
        turn
    }

    fn spawn<'scope>(
        &mut self,
        scope: &'scope std::thread::Scope<'scope, '_>,
        sender: &mpsc::Sender<Message>,
        index: usize,
    ) where
        'a: 'scope,
    {
        let thread = &mut self.prepared[index];
        let (begin_sender, begin) = mpsc::channel();
        thread.begin = Some(begin_sender);
        thread.stage = Stage::Running;
        let context = ThreadContext {
            plan: thread.plan,
            job: thread.job,
            files: thread.files.clone(),
            live: thread.live.clone(),
            flow: self.flows[&thread.job.flow_id].clone(),
            cancel: self.around.cancel,
            thread_cost: self.around.thread_cost,
            outbox: thread.outbox.clone(),
        };
        let (job, failed) = (thread.job, sender.clone());
        let sender = sender.clone();
        let work = move || {
            // The controller outlives its threads and waits for the result of each, so a thread that panics must give
            // one as well. After that, only what others share with it is still used.
            let mut is_ready = false;
            let ready = || {
                is_ready = true;
                drop(sender.send(Message::Ready));
            };
            let run = std::panic::AssertUnwindSafe(|| context.run(ready, || begin.recv().unwrap_or(false)));
            let ended = std::panic::catch_unwind(run).unwrap_or_else(|_| {
                let text = "its thread panicked, which is a bug in qd1; see the message above".to_owned();
                ThreadOutcome::failed(JobError::new(&job.name, Errno::IO, text))
            });
            if !is_ready {
                drop(sender.send(Message::Ready));
            }
            drop(sender.send(Message::Ended(index, Box::new(ended))));
        };
        let thread = std::thread::Builder::new().name(format!("qd1-job-{index}"));
        if let Err(error) = room_for_one().and_then(|()| thread.spawn_scoped(scope, work)) {
            let fault = JobError::new(&job.name, Errno::AGAIN, format!("cannot start a thread: {error}"));
            drop(failed.send(Message::Ready));
            drop(failed.send(Message::Ended(index, Box::new(ThreadOutcome::failed(fault)))));
        }
    }

    fn receive(&mut self, message: Message) {
        let Message::Ended(index, ended) = message else { return };
        let (job, group) = (self.prepared[index].job, self.prepared[index].plan.group);
        let failed = ended.fault.is_some();
        self.prepared[index].stage = Stage::Ended;
        self.prepared[index].ended = Some(*ended);
        self.watcher.ended(&self.prepared[index].plan);
        if job.exitall || (job.exitall_on_error && failed) {
            for other in self.prepared.iter_mut() {
                let ends = match job.exit_what {
                    ExitWhat::Group => other.plan.group == group,
                    ExitWhat::Stonewall => other.stage == Stage::Running,
                    ExitWhat::All => true,
                };
                if ends && other.stage == Stage::Pending {
                    other.stage = Stage::Ended;
                }
                if ends {
                    other.live.stop.store(true, Ordering::Relaxed);
                }
            }
        }
    }

    /// What is watched for a steady state: each thread separately, or the threads of a group that reports as one.
    fn watches(&self) -> Vec<(Vec<usize>, Steady, Option<u64>)> {
        let mut watches: Vec<(Vec<usize>, Steady, Option<u64>)> = Vec::new();
        let mut groups: HashMap<u32, usize> = HashMap::new();
        for (index, thread) in self.prepared.iter().enumerate() {
            let Some(steady) = Steady::new(thread.job) else { continue };
            if let Some(known) = groups.get(&thread.plan.group).filter(|_| thread.job.group_reporting) {
                watches[*known].0.push(index);
                continue;
            }
            groups.insert(thread.plan.group, watches.len());
            watches.push((vec![index], steady, None));
        }
        watches
    }

    /// Updates the steady-state watches when a second has passed. The time counts from when the threads began:
    /// allocating their buffers takes time in which no I/O is done.
    fn check_steady_state(&mut self, now_ns: u64) {
        for (members, steady, looked_ns) in &mut self.steady {
            let of = |index: &usize| &self.prepared[*index];
            if !members.iter().map(of).any(|thread| thread.stage == Stage::Running) {
                continue;
            }
            let passed_ns = now_ns - *looked_ns.get_or_insert(now_ns);
            if passed_ns < 1_000_000_000 {
                continue;
            }
            *looked_ns = Some(now_ns);
            let sum = |pick: fn((u64, u64)) -> u64| members.iter().map(|index| pick(of(index).live.totals())).sum();
            if steady.second(sum(|(ios, _)| ios), sum(|(_, bytes)| bytes), passed_ns) {
                members.iter().for_each(|index| self.prepared[*index].live.stop.store(true, Ordering::Relaxed));
            }
        }
    }

    fn tick(&mut self, elapsed_ns: u64) {
        self.pass_on_logs();
        let now =
            |thread: &Prepared<'_>| ThreadNow { plan: thread.plan, stage: thread.stage, moved: thread.live.moved() };
        let threads: Vec<ThreadNow> = self.prepared.iter().map(now).collect();
        self.watcher.tick(&Now { elapsed_ns, threads: &threads });
    }

    fn pass_on_logs(&mut self) {
        for thread in self.prepared.iter_mut() {
            let said = std::mem::take(&mut *thread.live.warnings.lock().expect("no holder of this lock panics"));
            said.iter().for_each(|text| self.watcher.warn(text));
            let mut chunk = std::mem::take(&mut *thread.live.logged.lock().expect("no holder of this lock panics"));
            if let Some(ended) = &mut thread.ended {
                chunk.append(std::mem::take(&mut ended.logged));
            }
            if !chunk.is_empty() {
                self.watcher.logged(&thread.plan, chunk);
            }
        }
    }

    /// Asks all running threads for their counters and shows them, with those of threads that have ended.
    fn status(&mut self, receiver: &mpsc::Receiver<Message>) {
        for thread in self.prepared.iter() {
            thread.live.wanted.fetch_add(1, Ordering::Relaxed);
        }
        let until_ns = clock::now_ns() + SNAPSHOT_NS;
        while clock::now_ns() < until_ns && self.prepared.iter().any(|thread| !thread.has_answered()) {
            if let Ok(message) = receiver.recv_timeout(Duration::from_millis(1)) {
                self.receive(message);
            }
        }
        let stats: Vec<(ThreadPlan, JobStat)> = self.prepared.iter().map(Prepared::stat_so_far).collect();
        self.watcher.status(&stats);
    }
}

impl Prepared<'_> {
    /// Whether the requested snapshot has arrived, or never will.
    fn has_answered(&self) -> bool {
        let wanted = self.live.wanted.load(Ordering::Relaxed);
        let snapshot = self.live.snapshot.lock().expect("no holder of this lock panics");
        self.stage != Stage::Running || snapshot.as_ref().is_some_and(|(number, _)| *number == wanted)
    }

    fn stat_so_far(&self) -> (ThreadPlan, JobStat) {
        let snapshot = self.live.snapshot.lock().expect("no holder of this lock panics");
        let stat = match (&self.ended, &*snapshot) {
            (Some(ended), _) => ended.stat.clone(),
            (None, Some((_, stat))) => stat.clone(),
            (None, None) => JobStat { groupid: self.plan.group, members: 1, ..JobStat::default() },
        };
        (self.plan, stat)
    }

    fn into_result(self) -> ThreadResult {
        let (plan, stat) = self.stat_so_far();
        let ended = self.ended.unwrap_or_default();
        let intervals = std::mem::take(&mut *self.outbox.lock().expect("no holder of this lock panics"));
        ThreadResult {
            plan,
            stat,
            streams: ended.streams,
            intervals,
            errors: ended.errors,
            fault: ended.fault,
            engine: ended.engine,
            caveat: ended.caveat,
            measured_ns: ended.measured_ns,
            ended_ns: ended.ended_ns,
            moved: self.live.moved(),
            syncs: ended.syncs,
        }
    }
}
