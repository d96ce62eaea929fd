//! io_uring with a registered file and registered buffers; requests are submitted and reaped in batches.
//!
//! Newer kernels get SINGLE_ISSUER and DEFER_TASKRUN (completions are worked off when we ask, not by an
//! interrupt of our thread); older ones a plain ring. What could not be had is told in `caveat`.

use std::os::fd::{AsRawFd, RawFd};
use std::sync::Arc;

use ::io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use ::io_uring::{IoUring, opcode, squeue};
use qd1_model::plan::EngineKind;
use rustix::io::Errno;
use syscalls::{Sysno, syscall};

use crate::buf::Buffers;
use crate::{Engine, EngineError, Op, OpKind, Setup, Slot, clock};

pub(crate) struct Uring {
    ring: IoUring,
    buffers: Arc<Buffers>,
    fd: RawFd,
    fixed_file: bool,
    fixed_buffers: bool,
    in_flight: usize,
}

/// `IORING_ENTER_GETEVENTS` of linux/io_uring.h.
const ENTER_GETEVENTS: u32 = 1;

fn broken(errno: Errno) -> EngineError {
    EngineError::Broken { engine: "io_uring", op: "io_uring_enter", errno }
}

/// A ring with the best flags this kernel takes.
fn build(entries: u32) -> std::io::Result<IoUring> {
    let best = IoUring::builder().setup_single_issuer().setup_defer_taskrun().build(entries);
    let better = best.or_else(|_| IoUring::builder().setup_coop_taskrun().build(entries));
    better.or_else(|_| IoUring::builder().build(entries))
}

impl Uring {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let ring = build(setup.iodepth.next_power_of_two()).map_err(|error| {
            let why = match Errno::from_io_error(&error) {
                Some(Errno::PERM | Errno::NOSYS | Errno::ACCESS) => {
                    "the kernel or a sandbox blocks io_uring_setup (as many containers do)".to_owned()
                }
                _ => format!("io_uring_setup: {error}"),
            };
            EngineError::Unavailable { engine: "io_uring", why }
        })?;
        let fixed_file = ring.submitter().register_files(&[setup.fd]).is_ok();
        let (base, length) = setup.buffers.region();
        let whole = libc::iovec { iov_base: base.cast(), iov_len: length };
        // SAFETY: the memory outlives the ring: the engine holds an Arc of it and drops the ring first.
        let fixed_buffers = unsafe { ring.submitter().register_buffers(&[whole]) }.is_ok();
        Ok(Self { ring, buffers: setup.buffers, fd: setup.fd, fixed_file, fixed_buffers, in_flight: 0 })
    }

    #[inline(always)]
    fn entry(&self, number: u32, op: &Op) -> squeue::Entry {
        let buffer = self.buffers.ptr(number);
        let flags = if op.kind == OpKind::Fdatasync { FsyncFlags::DATASYNC } else { FsyncFlags::empty() };
        macro_rules! entry {
            ($target:expr) => {
                match (op.kind, self.fixed_buffers) {
                    (OpKind::Read, true) => {
                        opcode::ReadFixed::new($target, buffer, op.len, 0).offset(op.offset).build()
                    }
                    (OpKind::Write, true) => {
                        opcode::WriteFixed::new($target, buffer, op.len, 0).offset(op.offset).build()
                    }
                    (OpKind::Read, false) => opcode::Read::new($target, buffer, op.len).offset(op.offset).build(),
                    (OpKind::Write, false) => opcode::Write::new($target, buffer, op.len).offset(op.offset).build(),
                    (OpKind::Fsync | OpKind::Fdatasync, _) => opcode::Fsync::new($target).flags(flags).build(),
                }
            };
        }
        let entry = if self.fixed_file { entry!(Fixed(0)) } else { entry!(::io_uring::types::Fd(self.fd)) };
        entry.user_data(u64::from(number))
    }

    /// Moves completions out of the ring; no system call.
    #[inline(always)]
    fn drain(&mut self, slots: &mut [Slot], done: &mut Vec<u32>) -> usize {
        let mut completions = self.ring.completion();
        if completions.is_empty() {
            return 0;
        }
        let completed_ns = clock::now_ns();
        let mut got = 0;
        for completion in &mut completions {
            let number = completion.user_data() as u32;
            let outcome = &mut slots[number as usize].done;
            outcome.result = completion.result();
            outcome.completed_ns = completed_ns.max(outcome.submitted_ns);
            done.push(number);
            got += 1;
        }
        self.in_flight -= got;
        got
    }

    /// Nothing in flight, or nothing asked for: looks once, or waits for the time alone.
    #[cold]
    fn reap_idle(
        &mut self,
        slots: &mut [Slot],
        min: usize,
        until_ns: u64,
        done: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        if self.in_flight > 0 {
            self.wait(0, u64::MAX)?;
            self.drain(slots, done);
        } else if min > 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
        }
        Ok(())
    }

    /// Enters the kernel for completions: with DEFER_TASKRUN they only appear when asked for.
    #[inline]
    fn wait(&mut self, want: usize, until_ns: u64) -> Result<(), EngineError> {
        if until_ns == u64::MAX {
            return self.enter(0, want, ENTER_GETEVENTS).map(|_| ());
        }
        let wait_ns = until_ns.saturating_sub(clock::now_ns());
        let time = Timespec::new().sec(wait_ns / 1_000_000_000).nsec((wait_ns % 1_000_000_000) as u32);
        match self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&time)) {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                errno => Err(broken(errno.unwrap_or(Errno::IO))),
            },
        }
    }

    /// The bare system call: the crate's own way in costs a hundred instructions more.
    #[inline]
    fn enter(&self, submit: usize, want: usize, flags: u32) -> Result<usize, EngineError> {
        let fd = self.ring.as_raw_fd();
        // SAFETY: the ring is open; no pointer is passed.
        match unsafe { syscall!(Sysno::io_uring_enter, fd, submit, want, flags, 0, 0) } {
            Ok(count) => Ok(count),
            Err(raw) => match Errno::from_raw_os_error(raw.into_raw()) {
                Errno::INTR | Errno::AGAIN | Errno::BUSY => Ok(0),
                errno => Err(broken(errno)),
            },
        }
    }
}

impl Engine for Uring {
    fn kind(&self) -> EngineKind {
        EngineKind::IoUring
    }

    fn now_ns(&mut self) -> u64 {
        clock::now_ns()
    }

    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], _done: &mut Vec<u32>) -> Result<usize, EngineError> {
        let issued_ns = clock::now_ns();
        let mut taken = 0;
        for number in queue {
            let entry = self.entry(*number, &slots[*number as usize].op);
            // SAFETY: buffer and file stay valid until the request completes (see Setup and Buffers).
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
            taken += 1;
        }
        let mut left = taken;
        while left > 0 {
            left -= self.enter(left, 0, 0)?.min(left);
        }
        let submitted_ns = clock::now_ns();
        for number in &queue[..taken] {
            let outcome = &mut slots[*number as usize].done;
            outcome.issued_ns = issued_ns;
            outcome.submitted_ns = submitted_ns;
        }
        self.in_flight += taken;
        Ok(taken)
    }

    #[inline(always)]
    fn reap(&mut self, slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError> {
        let wanted = min.min(self.in_flight);
        if wanted == 0 {
            return self.reap_idle(slots, min, until_ns, done);
        }
        let mut got = self.drain(slots, done);
        while got < wanted {
            self.wait(wanted - got, until_ns)?;
            got += self.drain(slots, done);
            if until_ns != u64::MAX && clock::now_ns() >= until_ns {
                break;
            }
        }
        Ok(())
    }

    fn caveat(&self) -> String {
        let mut missing = Vec::new();
        if !self.fixed_file {
            missing.push("registered file");
        }
        if !self.fixed_buffers {
            missing.push("registered buffers (RLIMIT_MEMLOCK?)");
        }
        if missing.is_empty() { String::new() } else { format!("io_uring without {}", missing.join(" and ")) }
    }
}

impl Drop for Uring {
    fn drop(&mut self) {
        // The kernel may still write to the buffers: wait for what is in flight before they are freed.
        while self.in_flight > 0 && self.wait(1, u64::MAX).is_ok() {
            self.in_flight -= self.ring.completion().count();
        }
    }
}
