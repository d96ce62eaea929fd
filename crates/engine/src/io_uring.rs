//! io_uring with a registered file and registered buffers; requests are submitted and reaped in batches.
//!
//! What could not be had of it is told in `caveat`.

mod ring;

use std::sync::Arc;

use qd1_model::plan::EngineKind;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::clock::{self, Clock};
use crate::{Done, Engine, EngineError, Op, OpKind, Setup, Slot};
use ring::{Ring, Sqe};

pub(crate) struct Uring {
    ring: Ring,
    clock: Clock,
    /// Opcode of a read; that of a write is the next one.
    read_opcode: u8,
    /// Entry number of slot 0's syncs. Transfers have entries of their own, the slot's number.
    syncs_from: u32,
    fixed_file: bool,
    in_flight: usize,
    /// Dropped after the ring, which the kernel may still be using them for.
    _buffers: Arc<Buffers>,
}

/// Of `enum io_uring_op` in linux/io_uring.h.
const OP_FSYNC: u8 = 3;
const OP_READ_FIXED: u8 = 4;
const OP_READ: u8 = 22;
/// `IOSQE_FIXED_FILE`.
const FIXED_FILE: u8 = 1;
/// `IORING_FSYNC_DATASYNC`.
const DATASYNC: u32 = 1;

fn broken(errno: Errno) -> EngineError {
    EngineError::Broken { engine: "io_uring", op: "io_uring_enter", errno }
}

impl Uring {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let depth = setup.iodepth;
        let mut ring = Ring::new(depth.saturating_mul(2)).map_err(|errno| {
            let why = match errno {
                Errno::PERM | Errno::NOSYS | Errno::ACCESS => {
                    "the kernel or a sandbox blocks io_uring_setup (as many containers do)".to_owned()
                }
                errno => format!("io_uring_setup for {depth} requests: {errno}"),
            };
            EngineError::Unavailable { engine: "io_uring", why }
        })?;
        let fixed_file = ring.register_file(setup.fd);
        let (base, length) = setup.buffers.region();
        // SAFETY: the engine holds an Arc of the memory and drops the ring first.
        let fixed_buffers = unsafe { ring.register_buffer(base, length) };
        let (fd, flags) = if fixed_file { (0, FIXED_FILE) } else { (setup.fd, 0) };
        for number in 0..depth {
            let entry = Sqe { fd, flags, user_data: u64::from(number), ..Sqe::default() };
            // The kernel reads or writes a slot's own buffer, which outlives the ring, and the worker leaves it
            // alone while its request is in flight: that is what makes submitting these entries sound.
            *ring.entry(number) = Sqe { addr: setup.buffers.ptr(number) as u64, ..entry };
            *ring.entry(depth + number) = Sqe { opcode: OP_FSYNC, ..entry };
        }
        Ok(Self {
            ring,
            clock: Clock::new(),
            read_opcode: if fixed_buffers { OP_READ_FIXED } else { OP_READ },
            syncs_from: depth,
            fixed_file,
            in_flight: 0,
            _buffers: setup.buffers,
        })
    }

    #[inline(always)]
    fn queue(&mut self, number: u32, op: &Op) {
        let opcode = match op.kind {
            OpKind::Read => self.read_opcode,
            OpKind::Write => self.read_opcode + 1,
            OpKind::Fsync | OpKind::Fdatasync => return self.queue_sync(number, op.kind),
        };
        let entry = self.ring.entry(number);
        entry.opcode = opcode;
        entry.offset = op.offset;
        entry.len = op.len;
        self.ring.push(number);
    }

    #[inline(never)]
    fn queue_sync(&mut self, number: u32, kind: OpKind) {
        let index = self.syncs_from + number;
        self.ring.entry(index).op_flags = if kind == OpKind::Fdatasync { DATASYNC } else { 0 };
        self.ring.push(index);
    }

    /// Moves completions out of the ring; no system call.
    #[inline(always)]
    fn drain(&mut self, slots: &mut [Slot], done: &mut Vec<u32>) -> usize {
        let clock = self.clock;
        let each = |completion: &ring::Cqe, now_ns: u64| {
            let number = completion.user_data as u32;
            let outcome = &mut slots[number as usize].done;
            outcome.result = completion.result;
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
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], _done: &mut Vec<u32>) -> Result<usize, EngineError> {
        let issued_ns = self.clock.now_ns();
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done.issued_ns = issued_ns;
            self.queue(*number, &slot.op);
        }
        let mut left = queue.len();
        while left > 0 {
            left -= self.ring.submit(left).map_err(broken)?.min(left);
        }
        let submitted_ns = self.clock.now_ns();
        for number in queue {
            slots[*number as usize].done.submitted_ns = submitted_ns;
        }
        self.in_flight += queue.len();
        Ok(queue.len())
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
        self.queue(number, op);
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
        Ok(Done { result, issued_ns, submitted_ns, completed_ns: now_ns.max(submitted_ns) })
    }

    fn caveat(&self) -> String {
        let mut missing = Vec::new();
        if !self.fixed_file {
            missing.push("registered file");
        }
        if self.read_opcode != OP_READ_FIXED {
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
