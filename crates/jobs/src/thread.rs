//! One thread of a job: draws requests when they may be issued, keeps the engine as full as the job wants, and counts
//! completions.

mod faults;
mod issue;
mod open;
mod pause;
mod report;
mod trim;
mod verify;

use std::os::fd::{AsRawFd as _, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_clock as clock;
use qd1_engine::buf::Buffers;
use qd1_engine::meter::Outbox;
use qd1_engine::{Done, Engine, EngineError, Op, OpKind, Setup, Slot};
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
use crate::load::{JobLoad, READ, TRIM, WRITE};
use crate::log::Chunk;
use crate::pace::{Minimum, Pace};
use crate::plan::ThreadPlan;
use crate::stat::{Completed, Stat};
use crate::verify::{Expected, History, Verifier};
use rand_core::SeedableRng as _;
use rand_xoshiro::Xoshiro256PlusPlus;

/// Maximum time a thread waits before it checks its stop flag again, ns.
const LOOK_NS: u64 = 20_000_000;
/// How often log entries are handed over, ns.
const LOGS_NS: u64 = 1_000_000_000;
/// How long a thread that is ahead of its flow waits for the others, ns.
const FLOW_NS: u64 = 20_000;
/// How long it polls before that, ns.
const FLOW_SPIN_NS: u64 = 200_000;

/// A thread's inputs.
pub(crate) struct ThreadContext<'a> {
    pub(crate) plan: ThreadPlan,
    pub(crate) job: &'a FioJob,
    pub(crate) files: Vec<FilePlan>,
    pub(crate) live: Arc<Live>,
    pub(crate) flow: Arc<Flow>,
    pub(crate) cancel: &'a AtomicBool,
    /// Reads the calling thread's cost; supplied by the caller, because this crate does not read the machine.
    pub(crate) thread_cost: fn() -> ThreadCost,
    pub(crate) outbox: Outbox,
}

/// The result of a thread.
#[derive(Default)]
pub(crate) struct ThreadOutcome {
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
    /// Syncs, including those of the ramp.
    pub(crate) syncs: u64,
}

impl ThreadOutcome {
    /// The result of a thread that never began to count.
    pub(crate) fn failed(fault: JobError) -> Self {
        Self { fault: Some(fault), ..Self::default() }
    }
}

/// What a thread remembers of a request in flight.
#[derive(Clone, Default)]
struct Flight {
    /// Whether the slot's request is queued or handed over.
    is_busy: bool,
    direction: usize,
    due_ns: u64,
    /// What the block holds afterwards (writes), or must hold (reads of a verification).
    expected: Option<Expected>,
    check: Check,
}

/// What a read is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Check {
    /// Nothing, except in a job that only reads.
    #[default]
    None,
    /// What was written there.
    Block,
    /// Zeros: it was trimmed.
    Zeros,
}

/// The next step of the loop.
enum Step {
    /// This slot holds a request to submit.
    Issue(u32),
    /// Nothing may be issued before this time.
    Wait(u64),
    /// A sync of this kind is due.
    Sync(OpKind),
    /// Written blocks must be trimmed.
    Trim,
    /// Written blocks must be read back.
    Verify,
    /// The round is over.
    Over,
}

/// Why a phase ended early.
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
    load: JobLoad,
    filler: Filler,
    verifier: Option<Verifier>,
    history: History,
    /// Blocks that were trimmed after they were written (`trim_percentage`), and those that will be.
    trimmed: History,
    to_trim: Vec<Expected>,
    trim_rng: Xoshiro256PlusPlus,
    pace: Pace,
    minimum: Option<Minimum>,
    share: Option<Share>,
    /// Since when it has been ahead of its flow; 0 while it is not.
    ahead_from_ns: u64,
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
    /// `number_ios` of all loops; `u64::MAX` without.
    ios_limit: u64,
    writes_since_sync: u64,
    syncs: u64,
    writes_since_verify: u64,
    writes_since_trim: u64,
    since_think: u64,
    thought_ns: u64,
    /// How late recent wake-ups have been.
    late_ns: u64,
    /// The direction that the mix wanted when the request could not be issued yet: drawing again would favour the
    /// directions with the shortest waits.
    wanted: Option<usize>,
    next_log_ns: u64,
    last_write: Option<(u16, u64, u32)>,
    errors: Vec<IoErrors>,
    fault: Option<JobError>,
    mismatches: u64,
    stopping: bool,
    /// Total time of the phases that each direction took part in.
    spent_ns: [u64; 3],
    snapshot_given: u32,
    cost_before: ThreadCost,
    thread_cost: fn() -> ThreadCost,
}

impl Thread<'_> {
    fn run(mut self) -> ThreadOutcome {
        self.begin();
        if let Err(fault) = self.rounds() {
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
        (self.thought_ns, self.next_log_ns) = (self.start_ns, self.start_ns + LOGS_NS);
    }

    /// Repeats rounds over the files until the job is done: `loops`, `io_size`, `time_based`.
    fn rounds(&mut self) -> Phase {
        let mut loops = self.job.loops.max(1);
        loop {
            self.round()?;
            if self.verifies_later() {
                self.verify_round()?;
            }
            self.history.clear();
            self.trimmed.clear();
            loops = loops.saturating_sub(1);
            let goes_on = match (self.job.time_based && self.deadline_ns != u64::MAX, self.limits_io()) {
                (true, _) => true,
                // As in fio: `io_size` is per loop, and loops are added if all of them did less than that.
                (_, true) => self.issued_bytes < self.bytes_limit && (loops > 0 || self.owes_bytes()),
                (_, false) => loops > 0,
            };
            if self.stopping || self.ios_used_up() || !goes_on {
                return Ok(());
            }
            if !self.limits_io() {
                self.issued_bytes = 0;
            }
            self.load.restart();
            // Each round begins with a cold cache, like each of fio's loops, which reopens its files.
            files::invalidate(self.job, &self.fds);
            if self.job.unlink_each_loop {
                self.make_files_anew()?;
            }
        }
    }

    /// One round, with the sync at its end, if any; its time counts however it ends.
    fn round(&mut self) -> Phase {
        if self.job.verify_only {
            return self.pretend();
        }
        let from_ns = self.engine.now_ns();
        let outcome = self.requests().and_then(|()| self.settle());
        let mut directions = self.job.rw.kind.directions();
        // This includes trims of written blocks (`trim_percentage`).
        directions[TRIM] = true;
        self.phase_over(from_ns, directions);
        outcome
    }

    /// Issues the requests of a round until its bytes are issued, its blocks are used up, or it is time to stop.
    fn requests(&mut self) -> Phase {
        loop {
            let now_ns = self.engine.now_ns();
            self.check_time(now_ns)?;
            if self.stopping {
                break;
            }
            match self.step(now_ns)? {
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
                Step::Sync(kind) => {
                    self.drain()?;
                    self.sync(kind)?;
                }
                Step::Trim => {
                    self.drain()?;
                    self.trim_written()?;
                }
                Step::Verify => {
                    self.drain()?;
                    self.verify_backlog()?;
                }
                Step::Over => break,
            }
        }
        self.drain()
    }

    /// Checks the clock and the stop flags, before anything is issued.
    #[inline]
    fn check_time(&mut self, now_ns: u64) -> Phase {
        if now_ns >= self.ramp_end_ns {
            self.ramp_is_over(now_ns);
        }
        if now_ns >= self.deadline_ns || self.live.stop.load(Ordering::Relaxed) || self.cancel.load(Ordering::Relaxed) {
            self.stopping = true;
        }
        if now_ns >= self.next_log_ns {
            self.hand_over_logs(now_ns);
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

    /// Adds the time of a phase to the directions that took part in it, as fio does.
    fn phase_over(&mut self, from_ns: u64, directions: [bool; 3]) {
        let from_ns = from_ns.max(self.stat.begin_ns());
        let spent_ns = self.engine.now_ns().saturating_sub(from_ns);
        for (number, direction) in self.stat.stat.dirs.iter_mut().enumerate() {
            if directions[number] && direction.total_ios > 0 {
                self.spent_ns[number] += spent_ns;
                direction.runtime_ms = self.spent_ns[number].div_ceil(1_000_000);
            }
        }
    }
}
