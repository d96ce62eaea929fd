//! One thread of a job: draws requests when they may be issued, keeps the engine as full as the job wants it, counts
//! what comes back.

mod faults;
mod issue;
mod verify;

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_engine::buf::Buffers;
use qd1_engine::meter::Outbox;
use qd1_engine::{Done, Engine, EngineError, Op, OpKind, Setup, Slot, clock};
use qd1_fio::FioJob;
use qd1_model::environment::ThreadCost;
use qd1_model::job::JobStat;
use qd1_model::plan::EngineKind;
use qd1_model::record::{IoErrors, Stream};

use crate::data::Filler;
use crate::depth_search::DepthSearch;
use crate::engines;
use crate::error::JobError;
use crate::files::{self, FilePlan};
use crate::flow::{Flow, Share};
use crate::live::Live;
use crate::load::{Load, READ, WRITE};
use crate::log::Chunk;
use crate::pace::{Minimum, Pace};
use crate::plan::ThreadPlan;
use crate::stat::{Completed, Stat};
use crate::verify::{Expected, History, Verifier};

/// How long a thread waits at most before it looks at its stop flag again, ns.
const LOOK_NS: u64 = 20_000_000;
/// How long a thread that is ahead of its flow waits for the others, ns.
const FLOW_NS: u64 = 20_000;

/// What a thread is given.
pub(crate) struct Seat<'a> {
    pub(crate) plan: ThreadPlan,
    pub(crate) job: &'a FioJob,
    pub(crate) files: Vec<FilePlan>,
    pub(crate) live: Arc<Live>,
    pub(crate) flow: Arc<Flow>,
    pub(crate) cancel: &'a AtomicBool,
    /// Reads the calling thread's cost; given by the caller because reading the machine is not our job.
    pub(crate) thread_cost: fn() -> ThreadCost,
    pub(crate) outbox: Outbox,
}

/// What a thread brings back.
#[derive(Default)]
pub(crate) struct Ended {
    pub(crate) stat: JobStat,
    pub(crate) streams: Vec<Stream>,
    pub(crate) errors: Vec<IoErrors>,
    pub(crate) fault: Option<JobError>,
    pub(crate) engine: Option<EngineKind>,
    pub(crate) caveat: String,
    /// When counting began and ended, ns of the clock.
    pub(crate) measured_ns: u64,
    pub(crate) ended_ns: u64,
    pub(crate) logged: Chunk,
    /// The depth search ended without finding one, or the latency was not kept to.
    pub(crate) target_missed: bool,
}

/// What a thread remembers of a request in flight.
#[derive(Clone, Default)]
struct Flight {
    direction: usize,
    due_ns: u64,
    /// What the block holds afterwards (writes), or has to hold (reads of a verification).
    expected: Option<Expected>,
    /// A read of a verification pass.
    verifying: bool,
}

/// What the next step of the loop is.
enum Step {
    /// This slot holds a request to be handed over.
    Issue(u32),
    /// Nothing may be issued before this time.
    Wait(u64),
    /// A sync is due.
    Sync,
    /// The round is over.
    Over,
}

/// Why a phase ended before its time.
type Phase = Result<(), JobError>;

pub(crate) struct Thread<'a> {
    job: &'a FioJob,
    plan: ThreadPlan,
    files: Vec<FilePlan>,
    live: Arc<Live>,
    cancel: &'a AtomicBool,
    fds: Vec<OwnedFd>,
    engine: Box<dyn Engine>,
    buffers: Arc<Buffers>,
    load: Load,
    filler: Filler,
    verifier: Option<Verifier>,
    history: History,
    pace: Pace,
    minimum: Option<Minimum>,
    share: Option<Share>,
    search: Option<DepthSearch>,
    stat: Stat,
    slots: Vec<Slot>,
    flights: Vec<Flight>,
    free: Vec<u32>,
    queue: Vec<u32>,
    done: Vec<u32>,
    /// Requests queued or handed over.
    depth_now: u32,
    start_ns: u64,
    /// When the ramp is over; `u64::MAX` once it is.
    ramp_end_ns: u64,
    deadline_ns: u64,
    stamp: u64,
    issued_bytes: u64,
    issued_ios: u64,
    bytes_limit: u64,
    writes_since_sync: u64,
    writes_since_verify: u64,
    since_think: u64,
    last_write: Option<(u16, u64, u32)>,
    errors: Vec<IoErrors>,
    fault: Option<JobError>,
    mismatches: u64,
    stopping: bool,
    /// Time of the phases that each direction took part in.
    spent_ns: [u64; 3],
    snapshot_given: u32,
    cost_before: ThreadCost,
    thread_cost: fn() -> ThreadCost,
}

impl<'a> Seat<'a> {
    /// Opens everything, says so by `ready`, waits for the word to begin, runs.
    pub(crate) fn run(self, ready: impl FnOnce(), begin: impl FnOnce() -> bool) -> Ended {
        let opened = if self.job.ioengine.moves_data() {
            self.open().map(Some)
        } else {
            crate::fileops::prepare(&self).map(|()| None)
        };
        ready();
        let begins = begin();
        match opened {
            Ok(_) if !begins => Ended::default(),
            Ok(Some(thread)) => thread.run(),
            Ok(None) => crate::fileops::run(&self),
            Err(fault) => Ended { fault: Some(fault), ..Ended::default() },
        }
    }

    fn open(&self) -> Result<Thread<'a>, JobError> {
        let (job, plan) = (self.job, self.plan);
        crate::place::apply(job, plan.clone)?;
        let fds = files::open(job, &self.files)?;
        files::invalidate(job, &fds);
        let kind = engines::kind(job.ioengine);
        let fault = |error: EngineError| JobError::engine(&job.name, &error);
        let block_max = u32::try_from(files::largest_block(job)).unwrap_or(u32::MAX);
        let buffers = Arc::new(Buffers::new(job.iodepth, block_max, plan.seed ^ 0xDA7A).map_err(fault)?);
        let mut filler = Filler::new(job, plan.seed);
        for slot in 0..job.iodepth {
            buffers.fill(slot, block_max as usize, |bytes| filler.prime(bytes));
        }
        let setup = Setup {
            files: fds.iter().map(|fd| fd.as_raw_fd()).collect(),
            iodepth: job.iodepth,
            buffers: buffers.clone(),
            sim: None,
            tuning: engines::tuning(job),
        };
        let engine = qd1_engine::open(kind, setup).map_err(fault)?;
        let extents: Vec<_> = self.files.iter().map(|file| file.extent).collect();
        let load = Load::new(job, &extents, plan.seed);
        let bytes_limit = issue::bytes_limit(job, load.round_bytes());
        let depth = job.iodepth as usize;
        let queues = engine.queues();
        Ok(Thread {
            job,
            plan,
            files: self.files.clone(),
            live: self.live.clone(),
            cancel: self.cancel,
            fds,
            engine,
            buffers,
            load,
            filler,
            verifier: Verifier::new(job, plan.number as u16 + 1, plan.seed),
            history: History::default(),
            pace: Pace::new(job, 0, plan.seed),
            minimum: None,
            share: (job.flow > 0).then(|| self.flow.share(job.flow)),
            search: None,
            stat: Stat::new(job, queues, 0, self.outbox.clone()),
            slots: vec![Slot::default(); depth],
            flights: vec![Flight::default(); depth],
            free: (0..job.iodepth).rev().collect(),
            queue: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth + 64),
            depth_now: 0,
            start_ns: 0,
            ramp_end_ns: u64::MAX,
            deadline_ns: u64::MAX,
            stamp: plan.seed,
            issued_bytes: 0,
            issued_ios: 0,
            bytes_limit,
            writes_since_sync: 0,
            writes_since_verify: 0,
            since_think: 0,
            last_write: None,
            errors: Vec::new(),
            fault: None,
            mismatches: 0,
            stopping: false,
            spent_ns: [0; 3],
            snapshot_given: 0,
            cost_before: ThreadCost::default(),
            thread_cost: self.thread_cost,
        })
    }
}

impl Thread<'_> {
    fn run(mut self) -> Ended {
        self.begin();
        let outcome = self.rounds().and_then(|()| self.settle());
        if let Err(fault) = outcome {
            self.fault.get_or_insert(fault);
        }
        self.end()
    }

    fn begin(&mut self) {
        self.cost_before = (self.thread_cost)();
        self.start_ns = clock::now_ns();
        let job = self.job;
        let (ramp_ns, runtime_ns) = (job.ramp_time.as_nanos() as u64, job.runtime.as_nanos() as u64);
        self.ramp_end_ns = if ramp_ns > 0 { self.start_ns + ramp_ns } else { u64::MAX };
        self.deadline_ns = if runtime_ns > 0 { self.start_ns + ramp_ns + runtime_ns } else { u64::MAX };
        self.stat.begin(self.start_ns);
        self.pace = Pace::new(job, self.start_ns, self.plan.seed);
        self.minimum = Minimum::new(job, job.rate_cycle.as_nanos() as u64, self.start_ns);
        self.search = DepthSearch::new(job, self.start_ns);
    }

    /// Rounds over the files until the job has done what it should: `loops`, `io_size`, `time_based`.
    fn rounds(&mut self) -> Phase {
        let mut loops = self.job.loops.max(1);
        loop {
            self.round()?;
            if self.verifies_later() {
                self.verify_round()?;
            }
            let more_bytes = self.issued_bytes < self.bytes_limit && self.limits_io();
            if self.stopping || self.ios_used_up() {
                return Ok(());
            }
            if self.job.time_based && self.deadline_ns != u64::MAX {
                self.issued_bytes = 0;
            } else if !more_bytes {
                loops -= 1;
                if loops == 0 {
                    return Ok(());
                }
                self.issued_bytes = 0;
            }
            self.load.restart();
        }
    }

    /// One round: until its bytes are issued, its blocks are used up, or it is time to stop.
    fn round(&mut self) -> Phase {
        if self.job.verify_only {
            return self.pretend();
        }
        let from_ns = self.engine.now_ns();
        loop {
            let now_ns = self.engine.now_ns();
            self.look(now_ns)?;
            if self.stopping {
                break;
            }
            match self.step(now_ns) {
                Step::Issue(slot) => {
                    self.queue.push(slot);
                    self.depth_now += 1;
                    if self.queue.len() >= self.job.iodepth_batch as usize {
                        self.submit()?;
                    }
                    self.make_room()?;
                    self.think()?;
                }
                Step::Wait(until_ns) => {
                    self.submit()?;
                    self.reap(1, until_ns.min(now_ns + LOOK_NS))?;
                }
                Step::Sync => {
                    self.drain()?;
                    self.sync()?;
                }
                Step::Over => break,
            }
        }
        self.drain()?;
        self.phase_over(from_ns, [true; 3]);
        Ok(())
    }

    /// Looks at the clock and at what others want, before anything is issued.
    #[inline]
    fn look(&mut self, now_ns: u64) -> Phase {
        if now_ns >= self.ramp_end_ns {
            self.ramp_is_over(now_ns);
        }
        if now_ns >= self.deadline_ns || self.live.stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
            self.stopping = true;
        }
        let wanted = self.live.wanted.load(Ordering::Relaxed);
        if wanted != self.snapshot_given {
            self.give_snapshot(wanted, now_ns);
        }
        if let Some(minimum) = &mut self.minimum
            && let Some(text) = minimum.missed(now_ns, self.live.moved())
        {
            return Err(JobError::new(&self.job.name, rustix::io::Errno::TIMEDOUT, text));
        }
        Ok(())
    }

    fn ramp_is_over(&mut self, now_ns: u64) {
        self.ramp_end_ns = u64::MAX;
        self.stat.restart(now_ns);
        self.spent_ns = [0; 3];
        self.cost_before = (self.thread_cost)();
        self.pace = Pace::new(self.job, now_ns, self.plan.seed);
    }

    #[cold]
    fn give_snapshot(&mut self, wanted: u32, now_ns: u64) {
        self.snapshot_given = wanted;
        let mut stat = self.stat.stat.clone();
        let spent_ms = now_ns.saturating_sub(self.stat.begin_ns()) / 1_000_000;
        for direction in stat.dirs.iter_mut().filter(|direction| direction.total_ios > 0) {
            direction.runtime_ms = direction.runtime_ms.max(spent_ms);
        }
        self.describe(&mut stat, now_ns);
        *self.live.snapshot.lock().expect("no holder of this lock panics") = Some((wanted, stat));
        let logged = self.stat.take_logs();
        self.live.logged.lock().expect("no holder of this lock panics").append(logged);
    }

    /// Fills in what the counters do not know.
    fn describe(&self, stat: &mut JobStat, now_ns: u64) {
        stat.groupid = self.plan.group;
        stat.pid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        stat.job_start_ms = (clock::wall_ns().saturating_sub(now_ns.saturating_sub(self.start_ns))) / 1_000_000;
        stat.elapsed_s = now_ns.saturating_sub(self.start_ns).div_ceil(1_000_000_000);
        stat.job_runtime_ms = now_ns.saturating_sub(self.stat.begin_ns()) / 1_000_000;
        stat.cost = (self.thread_cost)().since(&self.cost_before);
        stat.latency_target = self.search.as_ref().map(DepthSearch::outcome);
        stat.total_err_count = self.errors.iter().map(|error| error.count).sum();
        if let Some(fault) = &self.fault {
            (stat.error, stat.error_text) = (fault.errno, fault.text.clone());
        }
    }

    /// Adds the time of a phase to the directions that took part in it, as fio does.
    fn phase_over(&mut self, from_ns: u64, directions: [bool; 3]) {
        let from_ns = from_ns.max(self.stat.begin_ns());
        let spent_ns = self.engine.now_ns().saturating_sub(from_ns);
        let used = self.job.rw.kind.directions();
        for (number, direction) in self.stat.stat.dirs.iter_mut().enumerate() {
            let takes_part = directions[number] && (used[number] || !directions.iter().all(|all| *all));
            if takes_part && direction.total_ios > 0 {
                self.spent_ns[number] += spent_ns;
                direction.runtime_ms = self.spent_ns[number].div_ceil(1_000_000);
            }
        }
    }

    fn end(mut self) -> Ended {
        let now_ns = self.engine.now_ns();
        let mut stat = std::mem::take(&mut self.stat.stat);
        self.describe(&mut stat, now_ns);
        self.stat.stat = stat;
        let measured_ns = self.stat.begin_ns();
        let target_missed = self.search.as_ref().is_some_and(|search| !search.holds());
        let (stat, streams, logged) = self.stat.finish(now_ns);
        Ended {
            stat,
            streams,
            errors: self.errors,
            fault: self.fault,
            engine: Some(self.engine.kind()),
            caveat: self.engine.caveat(),
            measured_ns,
            ended_ns: now_ns,
            logged,
            target_missed,
        }
    }
}
