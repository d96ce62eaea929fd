//! io_uring with registered files and registered buffers; requests are submitted and reaped in batches.
//!
//! That is the cheapest way and the default; [`crate::Tuning`] has the others. `caveat` reports what the kernel did not
//! grant.

mod ring;

use std::sync::Arc;

use qd1_model::plan::EngineKind;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::engine::{Engine, Setup, Tuning};
use crate::error::EngineError;
use crate::handles::{self, Handles};
use crate::request::{Done, Op, OpKind, Slot};
use qd1_clock::{self as clock, Clock};
use ring::{Ring, RingOptions, Sqe};

pub(crate) struct Uring {
    ring: Ring,
    clock: Clock,
    /// Opcode of a read; that of a write is the next one.
    read_opcode: u8,
    /// One for each slot with vectored transfers, otherwise none.
    vectors: Vec<libc::iovec>,
    /// Completions are polled for, which the kernel does only for transfers.
    polls: bool,
    tuning: Tuning,
    /// How entries refer to each file: its index among the registered ones, or its descriptor.
    targets: Vec<i32>,
    handles: Handles,
    /// Entry number of slot 0's syncs and trims. Transfers have entries of their own, the slot's number.
    syncs_from: u32,
    registered: bool,
    in_flight: usize,
    /// Dropped after the ring, which the kernel may still be using them for.
    _buffers: Arc<Buffers>,
}

/// Of `enum io_uring_op` in linux/io_uring.h.
const OP_READV: u8 = 1;
const OP_FSYNC: u8 = 3;
const OP_READ_FIXED: u8 = 4;
const OP_SYNC_FILE_RANGE: u8 = 8;
const OP_FALLOCATE: u8 = 17;
const OP_READ: u8 = 22;
/// `IOSQE_FIXED_FILE`.
const FIXED_FILE: u8 = 1;
/// `IORING_FSYNC_DATASYNC`.
const DATASYNC: u32 = 1;

fn broken(errno: Errno) -> EngineError {
    EngineError::Broken { engine: "io_uring", op: "io_uring_enter", errno }
}

/// A request's result as [`Done`] has it: the kernel answers 0 to syncs and trims.
#[inline(always)]
fn result_of(op: &Op, result: i32) -> i32 {
    if result == 0 && !op.kind.transfers() { op.len as i32 } else { result }
}

impl Uring {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let depth = setup.iodepth;
        let tuning = setup.tuning;
        let wanted = RingOptions { kernel_thread: tuning.sqthread_poll, polled: tuning.hipri };
        let mut ring = Ring::new(depth.saturating_mul(2), wanted).map_err(|errno| {
            let why = match errno {
                Errno::PERM | Errno::NOSYS | Errno::ACCESS => {
                    "the kernel or a sandbox blocks io_uring_setup (as many containers do)".to_owned()
                }
                errno => format!("io_uring_setup for {depth} requests: {errno}"),
            };
            EngineError::Unavailable { engine: "io_uring", why }
        })?;
        let registered = tuning.registerfiles && ring.register_files(&setup.files);
        let targets = if registered { (0..setup.files.len() as i32).collect() } else { setup.files.clone() };
        let (base, length) = setup.buffers.region();
        // SAFETY: the engine holds an Arc of the memory and drops the ring first.
        let fixed_buffers = tuning.fixedbufs && unsafe { ring.register_buffer(base, length) };
        let read_opcode = match (fixed_buffers, tuning.nonvectored) {
            (true, _) => OP_READ_FIXED,
            (false, true) => OP_READ,
            (false, false) => OP_READV,
        };
        let buffer = |number| setup.buffers.ptr(number);
        let vectors: Vec<libc::iovec> = if read_opcode == OP_READV {
            (0..depth).map(|number| libc::iovec { iov_base: buffer(number).cast(), iov_len: 0 }).collect()
        } else {
            Vec::new()
        };
        let flags = if registered { FIXED_FILE } else { 0 };
        for number in 0..depth {
            let entry = Sqe { flags, user_data: u64::from(number), ..Sqe::default() };
            // The kernel reads or writes a slot's own buffer, which outlives the ring (and so do the vectors), and the
            // worker leaves it alone while its request is in flight: that makes submitting these entries sound.
            let addr = vectors.get(number as usize).map_or(buffer(number) as u64, |vector| &raw const *vector as u64);
            *ring.entry(number) = Sqe { addr, ..entry };
            *ring.entry(depth + number) = entry;
        }
        Ok(Self {
            ring,
            clock: Clock::new(),
            read_opcode,
            syncs_from: depth,
            registered,
            targets,
            handles: Handles::new(&setup),
            tuning,
            polls: tuning.hipri,
            vectors,
            in_flight: 0,
            _buffers: setup.buffers,
        })
    }

    /// Queues a request; false if the kernel would not queue it.
    #[inline(always)]
    fn queue(&mut self, number: u32, op: &Op) -> bool {
        let opcode = match op.kind {
            OpKind::Read => self.read_opcode,
            OpKind::Write => self.read_opcode + 1,
            _ => return self.queue_other(number, op),
        };
        let target = self.targets[usize::from(op.file)];
        let entry = self.ring.entry(number);
        entry.fd = target;
        entry.opcode = opcode;
        entry.offset = op.offset;
        entry.len = op.len;
        if let Some(vector) = self.vectors.get_mut(number as usize) {
            vector.iov_len = op.len as usize;
            entry.len = 1;
        }
        self.ring.push(number);
        true
    }

    /// [`Self::queue`] for syncs and trims. Discards are not queued: before Linux 6.12 there is no operation for them.
    /// Nor is anything but transfers where completions are polled for.
    #[inline(never)]
    fn queue_other(&mut self, number: u32, op: &Op) -> bool {
        if self.polls || op.kind == OpKind::Trim && self.handles.is_block_device(op.file) {
            return false;
        }
        let target = self.targets[usize::from(op.file)];
        let index = self.syncs_from + number;
        let entry = self.ring.entry(index);
        let whole = Sqe { flags: entry.flags, fd: target, user_data: entry.user_data, ..Sqe::default() };
        *entry = match op.kind {
            OpKind::SyncFileRange => {
                let op_flags = self.tuning.sync_file_range;
                Sqe { opcode: OP_SYNC_FILE_RANGE, offset: op.offset, len: op.len, op_flags, ..whole }
            }
            // The kernel takes a length where a transfer has its address, and the mode where it has its length.
            OpKind::Trim => {
                let (addr, len) = (u64::from(op.len), handles::PUNCH.bits());
                Sqe { opcode: OP_FALLOCATE, offset: op.offset, addr, len, ..whole }
            }
            OpKind::Fdatasync => Sqe { opcode: OP_FSYNC, op_flags: DATASYNC, ..whole },
            _ => Sqe { opcode: OP_FSYNC, ..whole },
        };
        self.ring.push(index);
        true
    }

    /// Performs immediately what the kernel would not queue.
    #[cold]
    fn complete_now(&mut self, op: &Op) -> Done {
        let issued_ns = self.clock.now_ns();
        let result = self.handles.sync_or_trim(op);
        Done { result, issued_ns, submitted_ns: issued_ns, completed_ns: self.clock.now_ns() }
    }

    /// Moves completions out of the ring; no system call.
    #[inline(always)]
    fn drain(&mut self, slots: &mut [Slot], done: &mut Vec<u32>) -> usize {
        let clock = self.clock;
        let each = |completion: &ring::Cqe, now_ns: u64| {
            let number = completion.user_data as u32;
            let Slot { op, done: outcome } = &mut slots[number as usize];
            outcome.result = result_of(op, completion.result);
            outcome.completed_ns = now_ns.max(outcome.submitted_ns);
            done.push(number);
        };
        let got = self.ring.drain(|| clock.now_ns(), each) as usize;
        self.in_flight -= got;
        got
    }

    /// [`Engine::reap`] with a time limit, with nothing to wait for, or with nothing in flight.
    #[inline(never)]
    fn reap_until(
        &mut self,
        slots: &mut [Slot],
        wanted: usize,
        until_ns: u64,
        done: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        let mut got = self.drain(slots, done);
        if wanted == 0 && self.in_flight > 0 {
            // With DEFER_TASKRUN completions only appear when asked for.
            self.ring.wait(0).map_err(broken)?;
            self.drain(slots, done);
        }
        while got < wanted {
            let left_ns = until_ns.saturating_sub(self.clock.now_ns());
            if left_ns == 0 {
                break;
            }
            self.ring.wait_for((wanted - got) as u32, left_ns).map_err(broken)?;
            got += self.drain(slots, done);
        }
        Ok(())
    }
}

impl Engine for Uring {
    fn kind(&self) -> EngineKind {
        EngineKind::IoUring
    }

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn queues(&self) -> bool {
        true
    }

    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError> {
        let issued_ns = self.clock.now_ns();
        let mut queued = 0;
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done.issued_ns = issued_ns;
            if !self.queue(*number, &slot.op) {
                break;
            }
            queued += 1;
        }
        if let (0, Some(first)) = (queued, queue.first()) {
            let slot = &mut slots[*first as usize];
            slot.done = self.complete_now(&slot.op);
            done.push(*first);
            return Ok(1);
        }
        let mut left = queued;
        while left > 0 {
            left -= self.ring.submit(left).map_err(broken)?.min(left);
        }
        let submitted_ns = self.clock.now_ns();
        for number in &queue[..queued] {
            slots[*number as usize].done.submitted_ns = submitted_ns;
        }
        self.in_flight += queued;
        Ok(queued)
    }

    #[inline(always)]
    fn reap(&mut self, slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError> {
        let wanted = min.min(self.in_flight);
        if wanted == 0 && min > 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
            return Ok(());
        }
        if wanted == 0 || until_ns != u64::MAX {
            return self.reap_until(slots, wanted, until_ns, done);
        }
        let mut got = self.drain(slots, done);
        while got < wanted {
            self.ring.wait(wanted - got).map_err(broken)?;
            got += self.drain(slots, done);
        }
        Ok(())
    }

    #[inline(always)]
    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError> {
        let issued_ns = self.clock.now_ns();
        if !self.queue(number, op) {
            return Ok(self.complete_now(op));
        }
        while self.ring.submit(1).map_err(broken)? == 0 {}
        let submitted_ns = self.clock.now_ns();
        self.in_flight = 1;
        let (clock, mut outcome) = (self.clock, None);
        while self.ring.drain(|| clock.now_ns(), |completion, now_ns| outcome = Some((completion.result, now_ns))) == 0
        {
            self.ring.wait(1).map_err(broken)?;
        }
        self.in_flight = 0;
        let (result, now_ns) = outcome.unwrap_or_default();
        let result = result_of(op, result);
        Ok(Done { result, issued_ns, submitted_ns, completed_ns: now_ns.max(submitted_ns) })
    }

    fn caveat(&self) -> String {
        let mut missing = Vec::new();
        if self.tuning.registerfiles && !self.registered {
            missing.push("registered files");
        }
        if self.tuning.fixedbufs && self.read_opcode != OP_READ_FIXED {
            missing.push("registered buffers (RLIMIT_MEMLOCK?)");
        }
        if missing.is_empty() { String::new() } else { format!("io_uring without {}", missing.join(" and ")) }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write to the buffers: wait for what is in flight before they are freed.
        while self.in_flight > 0 && self.ring.wait(1).is_ok() {
            self.in_flight -= self.ring.drain(|| (), |_, ()| ()) as usize;
        }
    }
}
