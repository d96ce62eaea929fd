//! Engines that do one request at a time: a request completes inside `submit`. They have the fewest moving parts
//! and are best at depth 1.
//!
//! They differ only in their system calls, which are their [`Calls`]: those that read and write are in `sync.rs`, those
//! on mapped memory in `mmap.rs`.

use std::sync::Arc;

use qd1_model::plan::EngineKind;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::engine::{Engine, Setup};
use crate::error::EngineError;
use crate::handles::Handles;
use crate::request::{Done, Op, OpKind};
use qd1_clock::Clock;

/// How one such engine reaches its files.
pub(crate) trait Calls {
    /// Its name.
    const KIND: EngineKind;

    fn new(setup: &Setup) -> Self;

    /// Reads at `op.offset`; returns how many bytes were read.
    fn read(&mut self, handles: &Handles, op: &Op, buffer: &mut [u8]) -> Result<usize, Errno>;

    /// Writes at `op.offset`; returns how many bytes were written.
    fn write(&mut self, handles: &Handles, op: &Op, buffer: &[u8]) -> Result<usize, Errno>;

    /// Syncs or trims; returns the result as in [`Done`].
    fn sync_or_trim(&mut self, handles: &Handles, op: &Op) -> i32 {
        handles.sync_or_trim(op)
    }
}

pub(crate) struct Blocking<C> {
    calls: C,
    handles: Handles,
    buffers: Arc<Buffers>,
    clock: Clock,
}

impl<C: Calls> Blocking<C> {
    pub(crate) fn new(setup: Setup) -> Self {
        let (calls, handles) = (C::new(&setup), Handles::new(&setup));
        Self { calls, handles, buffers: setup.buffers, clock: Clock::new() }
    }

    #[inline(always)]
    fn perform(&mut self, number: u32, op: &Op) -> i32 {
        let len = op.len as usize;
        debug_assert!(!op.kind.transfers() || len <= self.buffers.stride());
        let outcome = match op.kind {
            OpKind::Read => {
                // SAFETY: the slot's buffer holds at least len bytes and has no other request in flight.
                let buffer = unsafe { std::slice::from_raw_parts_mut(self.buffers.ptr(number), len) };
                self.calls.read(&self.handles, op, buffer)
            }
            OpKind::Write => {
                // SAFETY: as above.
                let buffer = unsafe { std::slice::from_raw_parts(self.buffers.ptr(number), len) };
                self.calls.write(&self.handles, op, buffer)
            }
            _ => return self.calls.sync_or_trim(&self.handles, op),
        };
        match outcome {
            Ok(count) => count as i32,
            Err(errno) => -errno.raw_os_error(),
        }
    }
}

impl<C: Calls> Engine for Blocking<C> {
    fn kind(&self) -> EngineKind {
        C::KIND
    }

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    #[inline(always)]
    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError> {
        let issued_ns = self.clock.now_ns();
        let mut result = self.perform(number, op);
        while result == -Errno::INTR.raw_os_error() {
            result = self.perform(number, op);
        }
        let completed_ns = self.clock.now_ns();
        Ok(Done { result, issued_ns, submitted_ns: issued_ns, completed_ns })
    }
}
