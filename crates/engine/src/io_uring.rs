//! io_uring with a registered file and registered buffers; requests are submitted and reaped in batches.
//!
//! Newer kernels get SINGLE_ISSUER and DEFER_TASKRUN (completions are worked off when we ask, not by an
//! interrupt of our thread); older ones a plain ring. What could not be had is told in `caveat`.

use std::os::fd::RawFd;
use std::sync::Arc;

use ::io_uring::types::{Fixed, FsyncFlags, SubmitArgs, Timespec};
use ::io_uring::{IoUring, opcode, squeue};
use qd1_model::plan::EngineKind;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::{Done, Engine, EngineError, Op, OpKind, Setup, clock};

#[derive(Clone, Copy, Default)]
struct Stamp {
    issued_ns: u64,
    submitted_ns: u64,
}

pub(crate) struct Uring {
    ring: IoUring,
    buffers: Arc<Buffers>,
    fd: RawFd,
    fixed_file: bool,
    fixed_buffers: bool,
    stamps: Vec<Stamp>,
    in_flight: usize,
}

fn broken(op: &'static str, error: &std::io::Error) -> EngineError {
    EngineError::Broken { engine: "io_uring", op, errno: Errno::from_io_error(error).unwrap_or(Errno::IO) }
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
        Ok(Self {
            ring,
            buffers: setup.buffers,
            fd: setup.fd,
            fixed_file,
            fixed_buffers,
            stamps: vec![Stamp::default(); setup.iodepth as usize],
            in_flight: 0,
        })
    }

    #[inline]
    fn entry(&self, op: &Op) -> squeue::Entry {
        let buffer = self.buffers.ptr(op.slot);
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
        entry.user_data(u64::from(op.slot))
    }

    /// Moves completions out of the ring; no system call.
    #[inline]
    fn drain(&mut self, done: &mut Vec<Done>) -> usize {
        let mut completions = self.ring.completion();
        if completions.is_empty() {
            return 0;
        }
        let completed_ns = clock::now_ns();
        let before = done.len();
        for completion in &mut completions {
            let slot = completion.user_data() as u32;
            let Stamp { issued_ns, submitted_ns } = self.stamps[slot as usize];
            let completed_ns = completed_ns.max(submitted_ns);
            done.push(Done { slot, result: completion.result(), issued_ns, submitted_ns, completed_ns });
        }
        let count = done.len() - before;
        self.in_flight -= count;
        count
    }

    /// Enters the kernel for completions: with DEFER_TASKRUN they only appear when asked for.
    fn enter(&mut self, want: usize, until_ns: u64) -> Result<(), EngineError> {
        let outcome = if until_ns == u64::MAX {
            self.ring.submitter().submit_and_wait(want)
        } else {
            let wait_ns = until_ns.saturating_sub(clock::now_ns());
            let time = Timespec::new().sec(wait_ns / 1_000_000_000).nsec((wait_ns % 1_000_000_000) as u32);
            self.ring.submitter().submit_with_args(want, &SubmitArgs::new().timespec(&time))
        };
        match outcome {
            Ok(_) => Ok(()),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY) => Ok(()),
                _ => Err(broken("io_uring_enter", &error)),
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

    fn submit(&mut self, ops: &[Op]) -> Result<usize, EngineError> {
        let mut taken = 0;
        let issued_ns = clock::now_ns();
        for op in ops {
            let entry = self.entry(op);
            // SAFETY: buffer and file stay valid until the request completes (see Setup and Buffers).
            if unsafe { self.ring.submission().push(&entry) }.is_err() {
                break;
            }
            taken += 1;
        }
        if taken == 0 {
            return Ok(0);
        }
        loop {
            match self.ring.submitter().submit() {
                Ok(_) if self.ring.submission().is_empty() => break,
                Ok(_) => {}
                Err(error) => match Errno::from_io_error(&error) {
                    Some(Errno::INTR | Errno::AGAIN | Errno::BUSY) => {}
                    _ => return Err(broken("io_uring_enter", &error)),
                },
            }
        }
        let submitted_ns = clock::now_ns();
        for op in &ops[..taken] {
            self.stamps[op.slot as usize] = Stamp { issued_ns, submitted_ns };
        }
        self.in_flight += taken;
        Ok(taken)
    }

    fn reap(&mut self, min: usize, until_ns: u64, done: &mut Vec<Done>) -> Result<(), EngineError> {
        let wanted = min.min(self.in_flight);
        if wanted == 0 {
            if self.in_flight > 0 {
                self.enter(0, u64::MAX)?;
                self.drain(done);
            } else if min > 0 && until_ns != u64::MAX {
                clock::sleep_until(until_ns);
            }
            return Ok(());
        }
        let mut got = self.drain(done);
        while got < wanted {
            self.enter(wanted - got, until_ns)?;
            got += self.drain(done);
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
        let mut done = Vec::with_capacity(self.in_flight);
        while self.in_flight > 0 {
            if self.enter(1, u64::MAX).is_err() {
                break;
            }
            self.drain(&mut done);
        }
    }
}
