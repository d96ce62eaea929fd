//! The hot loop: draws requests, keeps the engine full, times completions. Nothing here allocates, locks, logs
//! or formats while requests are in flight (interval hand-over excepted, about ten times a second).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_model::plan::{IoWork, Sync};
use qd1_model::record::{IoErrors, OpClass};
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::load::{Arrivals, Load, Region};
use crate::meter::{Meter, Outbox, Parts, Timing};
use crate::{Done, Engine, EngineError, Op, OpKind, errno_name};

/// How long an open-loop worker waits at most before it looks at the stop flag again.
const STOP_LOOK_NS: u64 = 50_000_000;
/// Errors after which a worker gives up, when nothing at all succeeded.
const ERRORS_WITHOUT_SUCCESS: u64 = 16;
/// Errors after which a worker gives up in any case.
const ERRORS_MAX: u64 = 10_000;

const LANE_READ: usize = 0;
const LANE_WRITE: usize = 1;

/// What was asked of the target, measured or not (ramp included).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Reads that succeeded.
    pub reads: u64,
    /// Their bytes.
    pub read_bytes: u64,
    /// Writes that succeeded.
    pub writes: u64,
    /// Their bytes.
    pub write_bytes: u64,
    /// Syncs, and writes to files opened O_SYNC or O_DSYNC.
    pub syncs: u64,
}

impl Asked {
    /// Sum of two workers.
    pub(crate) fn plus(&self, other: &Self) -> Self {
        Self {
            reads: self.reads + other.reads,
            read_bytes: self.read_bytes + other.read_bytes,
            writes: self.writes + other.writes,
            write_bytes: self.write_bytes + other.write_bytes,
            syncs: self.syncs + other.syncs,
        }
    }
}

/// When a worker measures and stops, on the engine's clock.
#[derive(Clone, Copy)]
pub(crate) struct Window {
    /// Requests issued (or due) from here on are measured.
    pub(crate) measure_ns: u64,
    /// No request is issued after this.
    pub(crate) deadline_ns: u64,
    pub(crate) interval_ns: u64,
}

/// What a worker is given besides its engine.
pub(crate) struct Task<'a> {
    pub(crate) work: &'a IoWork,
    pub(crate) region: Region,
    pub(crate) seed: u64,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) outbox: Outbox,
    /// Bytes after which it is done; 0 for no limit.
    pub(crate) budget: u64,
    /// Completions waited for at once (fio's `iodepth_batch_complete_min`).
    pub(crate) batch_min: usize,
}

/// What a worker brings back.
pub(crate) struct Finished {
    pub(crate) streams: Vec<qd1_model::record::Stream>,
    pub(crate) asked: Asked,
    pub(crate) errors: Vec<IoErrors>,
    pub(crate) last_ns: u64,
    pub(crate) failed: bool,
    /// Ended because its budget was used up.
    pub(crate) exhausted: bool,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// When the request was due, or 0 under a closed loop.
    due_ns: u64,
    /// Start of a commit's write, once it is done and its sync is under way.
    write_issued_ns: u64,
    offset: u64,
    len: u32,
    kind: Phase,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Read,
    Write,
    Sync,
}

struct Worker<'a> {
    engine: &'a mut dyn Engine,
    load: Load,
    arrivals: Option<Arrivals>,
    window: Window,
    task: Task<'a>,
    sync_op: Option<OpKind>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    queue: Vec<Op>,
    in_flight: usize,
    left: u64,
    stamp: u64,
    meter: Meter,
    asked: Asked,
    errors: Vec<IoErrors>,
    error_count: u64,
    last_ns: u64,
    stopping: bool,
    exhausted: bool,
}

/// Runs requests until the window closes, the budget is used up, or `stop` is set; then drains.
pub(crate) fn run(engine: &mut dyn Engine, task: Task<'_>, window: Window) -> Result<Finished, EngineError> {
    let depth = task.work.iodepth;
    let commits = task.work.sync.commits();
    let sync_op = match task.work.sync {
        Sync::Fsync => Some(OpKind::Fsync),
        Sync::Fdatasync => Some(OpKind::Fdatasync),
        Sync::None | Sync::OSync | Sync::ODsync | Sync::EndFsync => None,
    };
    let asynchronous =
        matches!(engine.kind(), qd1_model::plan::EngineKind::Libaio | qd1_model::plan::EngineKind::IoUring);
    let io_parts = if asynchronous { Parts::Submission } else { Parts::None };
    let write_lane = match (commits, sync_op) {
        (true, Some(_)) => (OpClass::Commit, Parts::Sync),
        (true, None) => (OpClass::Commit, io_parts),
        _ => (OpClass::Write, io_parts),
    };
    let classes = [(OpClass::Read, io_parts), write_lane];
    let meter = Meter::new(&classes, window.measure_ns, window.interval_ns, task.outbox.clone());
    let start_ns = engine.now_ns();
    let worker = Worker {
        load: Load::new(task.work, task.region, task.seed),
        arrivals: Arrivals::new(task.work.arrival, start_ns, task.seed),
        sync_op,
        slots: vec![Slot::default(); depth as usize],
        free: (0..depth).rev().collect(),
        queue: Vec::with_capacity(depth as usize),
        in_flight: 0,
        left: if task.budget == 0 { u64::MAX } else { task.budget },
        stamp: task.seed,
        meter,
        asked: Asked::default(),
        errors: Vec::new(),
        error_count: 0,
        last_ns: start_ns,
        stopping: false,
        exhausted: false,
        engine,
        window,
        task,
    };
    worker.run(asynchronous)
}

impl Worker<'_> {
    fn run(mut self, asynchronous: bool) -> Result<Finished, EngineError> {
        let mut done: Vec<Done> = Vec::with_capacity(self.slots.len() + 64);
        loop {
            self.fill();
            self.submit()?;
            if self.stopping && self.in_flight == 0 && self.queue.is_empty() {
                break;
            }
            done.clear();
            let until_ns = self.wait_until();
            self.engine.reap(self.task.batch_min.min(self.in_flight.max(1)), until_ns, &mut done)?;
            for finished in &done {
                self.account(finished, asynchronous);
            }
            if self.last_ns >= self.window.deadline_ns || self.task.stop.load(Ordering::Relaxed) {
                self.stopping = true;
            }
        }
        let successes = self.asked.reads + self.asked.writes;
        Ok(Finished {
            streams: self.meter.finish(),
            asked: self.asked,
            failed: self.error_count > ERRORS_MAX || (self.error_count > 0 && successes == 0),
            errors: self.errors,
            last_ns: self.last_ns,
            exhausted: self.exhausted,
        })
    }

    /// Queues a request for each free slot, as far as the arrivals say that one is due.
    #[inline]
    fn fill(&mut self) {
        if self.stopping {
            return;
        }
        match &self.arrivals {
            None => {
                while let Some(slot) = self.free.pop() {
                    if !self.draw(slot, 0) {
                        return;
                    }
                }
            }
            Some(_) => self.fill_due(),
        }
    }

    fn fill_due(&mut self) {
        let now_ns = self.engine.now_ns();
        self.last_ns = self.last_ns.max(now_ns.min(self.window.deadline_ns));
        while let Some(due_ns) = self.arrivals.as_ref().map(Arrivals::due_ns) {
            if due_ns > now_ns {
                return;
            }
            let Some(slot) = self.free.pop() else { return };
            if let Some(arrivals) = &mut self.arrivals {
                arrivals.advance();
            }
            if !self.draw(slot, due_ns) {
                return;
            }
        }
    }

    /// Queues the next request on `slot`; false when the budget is used up.
    #[inline]
    fn draw(&mut self, slot: u32, due_ns: u64) -> bool {
        let request = self.load.next_request();
        if self.left < u64::from(request.len) {
            self.free.push(slot);
            self.stopping = true;
            self.exhausted = true;
            return false;
        }
        self.left -= u64::from(request.len);
        let kind = if request.read {
            OpKind::Read
        } else {
            self.stamp = self.stamp.wrapping_add(1);
            self.task.buffers.stamp(slot, request.len, self.stamp);
            OpKind::Write
        };
        let phase = if request.read { Phase::Read } else { Phase::Write };
        self.slots[slot as usize] =
            Slot { due_ns, write_issued_ns: 0, offset: request.offset, len: request.len, kind: phase };
        self.queue.push(Op { kind, slot, len: request.len, offset: request.offset });
        true
    }

    #[inline]
    fn submit(&mut self) -> Result<(), EngineError> {
        if self.queue.is_empty() {
            return Ok(());
        }
        let taken = self.engine.submit(&self.queue)?;
        self.in_flight += taken;
        if taken == self.queue.len() {
            self.queue.clear();
        } else {
            self.queue.drain(..taken);
        }
        Ok(())
    }

    /// How long to wait for a completion: for ever under a closed loop, else until a request is due.
    #[inline]
    fn wait_until(&mut self) -> u64 {
        match &self.arrivals {
            Some(arrivals) if !self.stopping => {
                let look_ns = self.engine.now_ns() + STOP_LOOK_NS;
                let due_ns = if self.free.is_empty() { u64::MAX } else { arrivals.due_ns() };
                due_ns.min(look_ns).min(self.window.deadline_ns)
            }
            _ => u64::MAX,
        }
    }

    #[inline]
    fn account(&mut self, done: &Done, asynchronous: bool) {
        self.in_flight -= 1;
        self.last_ns = done.completed_ns;
        let slot = self.slots[done.slot as usize];
        let expected = if slot.kind == Phase::Sync { 0 } else { slot.len };
        if done.result != expected as i32 {
            self.fault(done, slot);
            return;
        }
        match slot.kind {
            Phase::Read => {
                self.asked.reads += 1;
                self.asked.read_bytes += u64::from(slot.len);
                self.record(LANE_READ, done, slot, done.issued_ns, 0, asynchronous);
            }
            Phase::Write => {
                self.asked.writes += 1;
                self.asked.write_bytes += u64::from(slot.len);
                if let Some(kind) = self.sync_op {
                    let state = &mut self.slots[done.slot as usize];
                    state.kind = Phase::Sync;
                    state.write_issued_ns = done.issued_ns;
                    self.queue.push(Op { kind, slot: done.slot, len: 0, offset: 0 });
                    return;
                }
                self.asked.syncs += u64::from(self.task.work.sync.commits());
                self.record(LANE_WRITE, done, slot, done.issued_ns, 0, asynchronous);
            }
            Phase::Sync => {
                self.asked.syncs += 1;
                let sync_ns = done.completed_ns - done.issued_ns;
                self.record(LANE_WRITE, done, slot, slot.write_issued_ns, sync_ns, false);
            }
        }
        self.free.push(done.slot);
    }

    #[inline]
    fn record(&mut self, lane: usize, done: &Done, slot: Slot, issued_ns: u64, sync_ns: u64, asynchronous: bool) {
        // Under an open loop latency counts from when the request was due, so that a stall is not hidden.
        let from_ns = if slot.due_ns > 0 { slot.due_ns } else { issued_ns };
        if from_ns < self.window.measure_ns {
            return;
        }
        let slat_ns = if asynchronous { done.submitted_ns - issued_ns } else { 0 };
        let timing = Timing {
            lat_ns: done.completed_ns.saturating_sub(from_ns),
            slat_ns,
            sync_ns,
            completed_ns: done.completed_ns,
        };
        self.meter.record(lane, slot.len, &timing);
    }

    /// Counts a failed or short request; its slot is free again.
    #[cold]
    fn fault(&mut self, done: &Done, slot: Slot) {
        let error =
            if done.result < 0 { errno_name(Errno::from_raw_os_error(-done.result)) } else { "short".to_owned() };
        match self.errors.iter_mut().find(|known| known.error == error) {
            Some(known) => known.count += 1,
            None => self.errors.push(IoErrors { error, count: 1, first_offset: slot.offset }),
        }
        self.error_count += 1;
        let successes = self.asked.reads + self.asked.writes;
        if self.error_count > ERRORS_MAX || (self.error_count >= ERRORS_WITHOUT_SUCCESS && successes == 0) {
            self.stopping = true;
        }
        self.free.push(done.slot);
    }
}
