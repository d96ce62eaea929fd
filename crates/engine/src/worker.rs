//! The hot loop: draws requests, keeps the engine full, times completions. Nothing here allocates, locks, logs
//! or formats while requests are in flight (interval hand-over excepted, about ten times a second).

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_model::op::{OpClass, RequestCounts};
use qd1_model::plan::{Arrival, IoWork, Sync};
use qd1_model::record::IoErrors;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::engine::Engine;
use crate::error::{EngineError, errno_name};
use crate::load::{Arrivals, Region, RequestStream};
use crate::meter::{Meter, Outbox, Parts, Timing};
use crate::request::{Done, Op, OpKind, Slot};
use crate::waits::ReadTime;
use crate::window::Window;

/// Longest time that an open-loop worker waits before it checks the stop flag again.
const STOP_LOOK_NS: u64 = 50_000_000;
/// Longest time that an open loop continues after its deadline while requests that were due before still wait.
const OVERTIME_MAX_NS: u64 = 1_000_000_000;
/// Number of errors after which a worker gives up if nothing at all has succeeded.
const ERRORS_WITHOUT_SUCCESS: u64 = 16;
/// Number of errors after which a worker gives up in any case.
const ERRORS_MAX: u64 = 10_000;

const LANE_READ: usize = OpKind::Read as usize;
const LANE_WRITE: usize = OpKind::Write as usize;

/// What a worker gets besides its engine.
pub(crate) struct Task<'a> {
    pub(crate) work: &'a IoWork,
    pub(crate) region: Region,
    pub(crate) seed: u64,
    /// Where in the gap between two requests of an open loop it begins, 0..1.
    pub(crate) phase: f64,
    pub(crate) buffers: Arc<Buffers>,
    pub(crate) stop: &'a AtomicBool,
    pub(crate) outbox: Outbox,
    /// Bytes after which it is done; 0 for no limit.
    pub(crate) budget: u64,
    /// Completions to wait for together (fio's `iodepth_batch_complete_min`).
    pub(crate) batch_min: usize,
    /// Reads how long the thread has waited for a processor.
    pub(crate) thread_time: Option<ReadTime>,
}

/// The result of a worker.
pub(crate) struct Finished {
    pub(crate) streams: Vec<qd1_model::record::Stream>,
    pub(crate) requests: RequestCounts,
    pub(crate) errors: Vec<IoErrors>,
    /// When it began to measure: with one request at a time, the end of the ramp's last one.
    pub(crate) first_ns: u64,
    pub(crate) last_ns: u64,
    pub(crate) failed: bool,
    /// Ended because its budget was used up.
    pub(crate) exhausted: bool,
}

/// What the worker keeps of a slot besides the request itself.
#[derive(Clone, Copy, Default)]
struct Flow {
    /// When latency began to count, if not at the issue of the current request: when the request was due (open
    /// loop), or when the commit's write was issued. 0 otherwise.
    from_ns: u64,
    /// Bytes of the commit's writes so far, whose sync is still to come or under way.
    len: u32,
    /// The number of those writes.
    writes: u32,
    /// Where in the file the first of them begins and the last one ends.
    range: (u64, u64),
}

impl Flow {
    /// The flow after one more write, which `op` was.
    fn with(self, op: &Op, from_ns: u64) -> Self {
        let (start, end) = (op.offset, op.offset + u64::from(op.len));
        let range = if self.writes == 0 { (start, end) } else { (self.range.0.min(start), self.range.1.max(end)) };
        Self { from_ns, len: self.len + op.len, writes: self.writes + 1, range }
    }

    /// The sync of its writes: of the whole range that they touch, if the call takes a range.
    fn sync(&self, kind: OpKind) -> Op {
        let length = self.range.1 - self.range.0;
        match i32::try_from(length) {
            Ok(_) if kind == OpKind::SyncFileRange => Op { kind, file: 0, len: length as u32, offset: self.range.0 },
            _ => Op { kind, file: 0, len: 0, offset: 0 },
        }
    }
}

/// Requests of one direction and their bytes.
#[derive(Clone, Copy, Default)]
struct Moved {
    ios: u64,
    bytes: u64,
}

struct Worker<'a> {
    load: RequestStream,
    arrivals: Option<Arrivals>,
    window: Window,
    task: Task<'a>,
    sync_op: Option<OpKind>,
    commits: bool,
    /// Writes that make one commit.
    writes_per_sync: u32,
    slots: Vec<Slot>,
    flows: Vec<Flow>,
    /// Whether `flows` matter: open loop, or commits by a sync of their own. Otherwise every request is plain.
    flowing: bool,
    /// Slots waiting for a request to be due; always empty in a closed loop, where a slot is refilled immediately.
    free: Vec<u32>,
    queue: Vec<u32>,
    left: u64,
    stamp: u64,
    meter: Meter<2>,
    /// Reads and writes that succeeded, and their bytes.
    moved: [Moved; 2],
    syncs: u64,
    errors: Vec<IoErrors>,
    error_count: u64,
    /// When the last request completed that was not measured.
    unmeasured_ns: u64,
    last_ns: u64,
    stopping: bool,
    exhausted: bool,
}

/// Runs requests until the window closes, the budget is used up, or `stop` is set; then drains.
pub(crate) fn run<E: Engine + ?Sized>(engine: &mut E, task: Task<'_>, window: Window) -> Result<Finished, EngineError> {
    let depth = task.work.iodepth;
    let commits = task.work.sync.commits();
    let sync_op = match task.work.sync {
        Sync::Fsync => Some(OpKind::Fsync),
        Sync::Fdatasync => Some(OpKind::Fdatasync),
        Sync::SyncFileRange => Some(OpKind::SyncFileRange),
        Sync::None | Sync::OSync | Sync::ODsync | Sync::RwfDsync | Sync::EndFsync => None,
    };
    let io_parts = match task.work.arrival {
        Arrival::Closed if engine.queues() => Parts::Submission,
        Arrival::Closed => Parts::None,
        _ => Parts::Served,
    };
    let writes_per_sync = if commits { task.work.writes_per_sync.max(1) } else { 1 };
    let write_lane = match (commits, sync_op) {
        (true, Some(_)) => (OpClass::Commit, Parts::Sync),
        // If several writes are each durable, none of them is a part on its own.
        (true, None) if writes_per_sync > 1 => (OpClass::Commit, Parts::None),
        (true, None) => (OpClass::Commit, io_parts),
        _ => (OpClass::Write, io_parts),
    };
    let classes = [(OpClass::Read, io_parts), write_lane];
    let start_ns = engine.now_ns();
    let worker = Worker {
        load: RequestStream::new(task.work, task.region, task.seed),
        arrivals: Arrivals::new(task.work.arrival, start_ns, task.phase, task.seed),
        sync_op,
        commits,
        writes_per_sync,
        flowing: sync_op.is_some() || writes_per_sync > 1 || task.work.arrival != Arrival::Closed,
        slots: vec![Slot::default(); depth as usize],
        flows: vec![Flow::default(); depth as usize],
        free: (0..depth).rev().collect(),
        queue: Vec::with_capacity(depth as usize),
        left: if task.budget == 0 { u64::MAX } else { task.budget },
        stamp: task.seed,
        meter: Meter::looking(
            classes,
            window.measure_ns,
            window.interval_ns,
            task.outbox.clone(),
            task.thread_time.filter(|_| depth == 1 || task.work.arrival.is_open()),
            task.work.arrival.is_open(),
        ),
        moved: [Moved::default(); 2],
        syncs: 0,
        errors: Vec::new(),
        error_count: 0,
        unmeasured_ns: 0,
        last_ns: start_ns,
        stopping: false,
        exhausted: false,
        window,
        task,
    };
    worker.run(engine)
}

impl Worker<'_> {
    fn run<E: Engine + ?Sized>(mut self, engine: &mut E) -> Result<Finished, EngineError> {
        if self.slots.len() == 1 && !self.flowing {
            self.one_by_one(engine)?;
        } else {
            self.keep_full(engine)?;
        }
        let [reads, writes] = self.moved;
        let one_at_a_time = self.slots.len() == 1 && self.arrivals.is_none();
        let first_ns =
            if one_at_a_time { self.unmeasured_ns.max(self.window.measure_ns) } else { self.window.measure_ns };
        // A write to a file opened O_SYNC or O_DSYNC is a sync as well.
        let written_through = if self.commits && self.sync_op.is_none() { writes.ios } else { 0 };
        Ok(Finished {
            streams: self.meter.finish(),
            requests: RequestCounts {
                reads: reads.ios,
                read_bytes: reads.bytes,
                writes: writes.ios,
                write_bytes: writes.bytes,
                syncs: self.syncs + written_through,
            },
            failed: self.error_count > ERRORS_MAX || (self.error_count > 0 && reads.ios + writes.ios == 0),
            errors: self.errors,
            first_ns,
            last_ns: self.last_ns,
            exhausted: self.exhausted,
        })
    }

    /// Depth 1 in a closed loop, the measurement that matters most: each request from issue to completion, with nothing
    /// to keep in lists.
    fn one_by_one<E: Engine + ?Sized>(&mut self, engine: &mut E) -> Result<(), EngineError> {
        while !self.stopping
            && let Some(op) = self.next_op(0)
        {
            let done = engine.one(0, &op)?;
            self.last_ns = done.completed_ns;
            if done.result == op.len as i32 {
                self.count(&op, &done);
            } else {
                self.fault(&op, &done);
            }
            self.stopping |= done.completed_ns >= self.window.deadline_ns || self.task.stop.load(Ordering::Relaxed);
        }
        Ok(())
    }

    /// Everything else: submits what is queued, reaps what is done, and refills the slots.
    fn keep_full<E: Engine + ?Sized>(&mut self, engine: &mut E) -> Result<(), EngineError> {
        let mut done: Vec<u32> = Vec::with_capacity(self.slots.len() + 64);
        let open_loop = self.arrivals.is_some();
        if !open_loop {
            // A slot for which the budget leaves no request goes back to the free ones, so they are counted.
            for _ in 0..self.slots.len() {
                if let Some(slot) = self.free.pop() {
                    self.draw(slot, 0);
                }
            }
        }
        loop {
            if open_loop {
                self.fill_due(engine.now_ns());
            }
            if !self.queue.is_empty() {
                let taken = engine.submit(&mut self.slots, &self.queue, &mut done)?;
                if taken == self.queue.len() {
                    self.queue.clear();
                } else {
                    self.queue.drain(..taken);
                }
            } else if self.stopping && self.free.len() == self.slots.len() {
                break;
            }
            if done.is_empty() {
                let until_ns = if open_loop { self.wait_until(engine.now_ns()) } else { u64::MAX };
                engine.reap(&mut self.slots, self.task.batch_min, until_ns, &mut done)?;
            }
            if self.task.stop.load(Ordering::Relaxed) {
                self.stopping = true;
            }
            for number in &done {
                self.account(*number);
            }
            done.clear();
        }
        debug_assert!(self.is_idle(), "each request that was submitted comes back exactly once");
        Ok(())
    }

    /// Whether every slot is among the free ones, once.
    fn is_idle(&self) -> bool {
        let mut free = self.free.clone();
        free.sort_unstable();
        free.into_iter().eq(0..self.slots.len() as u32)
    }

    /// Queues a request for each free slot, as far as requests are due.
    ///
    /// If the disk is stalled at the deadline, the step continues: otherwise it would see only the beginning of a stall
    /// and never its full length. Requests keep coming due until all that were due before the deadline are done, and
    /// none waits to be issued.
    fn fill_due(&mut self, now_ns: u64) {
        self.last_ns = self.last_ns.max(now_ns.min(self.window.deadline_ns));
        let is_over = now_ns >= self.window.deadline_ns
            && (now_ns - self.window.deadline_ns >= OVERTIME_MAX_NS || !self.owes_any(now_ns));
        if is_over || self.task.stop.load(Ordering::Relaxed) {
            self.stopping = true;
        }
        while !self.stopping
            && let Some(arrivals) = &mut self.arrivals
            && arrivals.due_ns() <= now_ns
            && let Some(slot) = self.free.pop()
        {
            let due_ns = arrivals.due_ns();
            arrivals.advance();
            self.draw(slot, due_ns);
        }
    }

    /// Whether a request is due but not issued, or was due before the deadline and is not done.
    fn owes_any(&self, now_ns: u64) -> bool {
        let deadline_ns = self.window.deadline_ns;
        let is_unsent = self.arrivals.as_ref().is_some_and(|arrivals| arrivals.due_ns() < now_ns);
        let is_under_way = |slot: usize| self.flows[slot].from_ns < deadline_ns && !self.free.contains(&(slot as u32));
        is_unsent || (0..self.slots.len()).any(is_under_way)
    }

    /// The next request, its data stamped into the buffer of `slot`; none once the budget is used up.
    #[inline(always)]
    fn next_op(&mut self, slot: u32) -> Option<Op> {
        let request = self.load.next_request();
        if self.left < u64::from(request.len) {
            self.stopping = true;
            self.exhausted = true;
            return None;
        }
        self.left -= u64::from(request.len);
        let kind = if request.read {
            OpKind::Read
        } else {
            self.stamp = self.stamp.wrapping_add(1);
            self.task.buffers.stamp(slot, request.len, self.stamp);
            OpKind::Write
        };
        Some(Op { kind, file: 0, len: request.len, offset: request.offset })
    }

    /// Queues the next request on `slot`, or frees the slot for good.
    #[inline(always)]
    fn draw(&mut self, slot: u32, due_ns: u64) {
        let Some(op) = self.next_op(slot) else {
            self.free.push(slot);
            return;
        };
        self.slots[slot as usize].op = op;
        if self.flowing {
            self.flows[slot as usize] = Flow { from_ns: due_ns, ..Flow::default() };
        }
        self.queue.push(slot);
    }

    /// How long an open-loop worker waits for a completion: until a request is due, or until it is time to check the
    /// stop flag again.
    fn wait_until(&self, now_ns: u64) -> u64 {
        match &self.arrivals {
            Some(arrivals) if !self.stopping => {
                let due_ns = if self.free.is_empty() { u64::MAX } else { arrivals.due_ns() };
                let wait_ns = due_ns.min(now_ns + STOP_LOOK_NS);
                if now_ns < self.window.deadline_ns { wait_ns.min(self.window.deadline_ns) } else { wait_ns }
            }
            _ => u64::MAX,
        }
    }

    /// Counts the request that completed on a slot, and draws the next one.
    #[inline(always)]
    fn account(&mut self, number: u32) {
        let Slot { op, done } = self.slots[number as usize];
        self.last_ns = done.completed_ns;
        if self.flowing {
            return self.account_flow(number);
        }
        if done.result == op.len as i32 {
            self.count(&op, &done);
        } else {
            self.fault(&op, &done);
        }
        self.refill(number);
    }

    /// Counts a plain request: its latency is from issue to completion.
    #[inline(always)]
    fn count(&mut self, op: &Op, done: &Done) {
        // A read is lane 0 and a write lane 1; syncs are never plain.
        let lane = op.kind as usize;
        self.moved[lane].ios += 1;
        self.moved[lane].bytes += u64::from(op.len);
        if self.window.measures(done.issued_ns, done.completed_ns) {
            // A clock that stepped back (a migrated virtual machine) must not become the longest latency.
            let lat_ns = done.completed_ns.saturating_sub(done.issued_ns);
            let part_ns = done.submitted_ns.saturating_sub(done.issued_ns);
            self.meter.record(lane, op.len, &Timing { lat_ns, part_ns, completed_ns: done.completed_ns });
        } else {
            self.unmeasured_ns = done.completed_ns;
        }
    }

    /// [`Self::account`] for requests whose latency does not begin with their issue (open loop), or does not end
    /// with their completion (the write of a commit).
    #[inline(never)]
    fn account_flow(&mut self, number: u32) {
        let Slot { op, done } = self.slots[number as usize];
        if done.result != op.len as i32 {
            self.fault(&op, &done);
            return self.refill(number);
        }
        // In an open loop latency counts from when the request was due, so that a stall is not hidden; for a commit it
        // counts from its first write.
        let due_ns = self.flows[number as usize].from_ns;
        let from_ns = if due_ns > 0 { due_ns } else { done.issued_ns };
        let lat_ns = done.completed_ns.saturating_sub(from_ns);
        let lane = if op.kind == OpKind::Read { LANE_READ } else { LANE_WRITE };
        // In a closed loop the part is the submission of a plain request; otherwise it is its service, or a commit's
        // sync, both of which begin with the issue of the request that has just completed.
        let part_end_ns =
            if op.kind.transfers() && self.arrivals.is_none() { done.submitted_ns } else { done.completed_ns };
        let part_ns = part_end_ns.saturating_sub(done.issued_ns);
        let len = match op.kind {
            OpKind::Read | OpKind::Write => {
                self.moved[lane].ios += 1;
                self.moved[lane].bytes += u64::from(op.len);
                if op.kind == OpKind::Write && self.commits {
                    let flow = self.flows[number as usize].with(&op, from_ns);
                    self.flows[number as usize] = flow;
                    if self.goes_on(number, &flow) {
                        return;
                    }
                    flow.len
                } else {
                    op.len
                }
            }
            OpKind::Fsync | OpKind::Fdatasync | OpKind::SyncFileRange => {
                // It makes nothing durable, and the device sees no flush.
                self.syncs += u64::from(op.kind != OpKind::SyncFileRange);
                self.flows[number as usize].len
            }
            OpKind::Trim => unreachable!("a step of a plan has none"),
        };
        if self.window.measures(from_ns, done.completed_ns) {
            self.meter.record(lane, len, &Timing { lat_ns, part_ns, completed_ns: done.completed_ns });
        } else {
            self.unmeasured_ns = done.completed_ns;
        }
        self.refill(number);
    }

    /// Queues what a commit still has to do after a write: its next write or its sync. False if it is done.
    fn goes_on(&mut self, number: u32, flow: &Flow) -> bool {
        let next = if flow.writes < self.writes_per_sync {
            match self.next_op(number) {
                Some(op) => op,
                // The budget is used up: a half-written commit does not count.
                None => {
                    self.free.push(number);
                    return true;
                }
            }
        } else if let Some(kind) = self.sync_op {
            flow.sync(kind)
        } else {
            return false;
        };
        self.slots[number as usize].op = next;
        self.queue.push(number);
        true
    }

    /// The slot is free: in a closed loop, draws the next request immediately, unless it is time to stop.
    #[inline(always)]
    fn refill(&mut self, slot: u32) {
        if self.arrivals.is_some() {
            self.free.push(slot);
            return;
        }
        self.stopping |= self.last_ns >= self.window.deadline_ns;
        if self.stopping {
            self.free.push(slot);
        } else {
            self.draw(slot, 0);
        }
    }

    /// Counts a failed or short request.
    #[cold]
    fn fault(&mut self, op: &Op, done: &Done) {
        let error =
            if done.result < 0 { errno_name(Errno::from_raw_os_error(-done.result)) } else { "short".to_owned() };
        IoErrors::once(error, op.offset).add_to(&mut self.errors);
        self.error_count += 1;
        let successes = self.moved[LANE_READ].ios + self.moved[LANE_WRITE].ios;
        if self.error_count > ERRORS_MAX || (self.error_count >= ERRORS_WITHOUT_SUCCESS && successes == 0) {
            self.stopping = true;
        }
    }
}
