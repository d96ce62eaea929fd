//! pread and pwrite, one at a time: the engine with the fewest moving parts, best at depth 1.
//!
//! A request completes inside `submit`.

use std::sync::Arc;

use qd1_model::plan::EngineKind;
use rustix::io::{Errno, pread, pwrite};

use crate::buf::Buffers;
use crate::clock::{self, Clock};
use crate::handles::{Handles, result_of};
use crate::{Done, Engine, EngineError, Op, OpKind, Setup, Slot};

pub(crate) struct Psync {
    handles: Handles,
    buffers: Arc<Buffers>,
    clock: Clock,
}

impl Psync {
    pub(crate) fn new(setup: Setup) -> Self {
        Self { handles: Handles::new(&setup), buffers: setup.buffers, clock: Clock::new() }
    }

    #[inline(always)]
    fn perform(&self, number: u32, op: &Op) -> i32 {
        let len = op.len as usize;
        debug_assert!(len <= self.buffers.stride());
        result_of(match op.kind {
            OpKind::Read => {
                // SAFETY: the slot's buffer holds at least len bytes and has no other request in flight.
                let buffer = unsafe { std::slice::from_raw_parts_mut(self.buffers.ptr(number), len) };
                pread(self.handles.fd(op.file), buffer, op.offset)
            }
            OpKind::Write => {
                // SAFETY: as above.
                let buffer = unsafe { std::slice::from_raw_parts(self.buffers.ptr(number), len) };
                pwrite(self.handles.fd(op.file), buffer, op.offset)
            }
            _ => return self.handles.attend(op),
        })
    }
}

impl Engine for Psync {
    fn kind(&self) -> EngineKind {
        EngineKind::Psync
    }

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError> {
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done = self.one(*number, &slot.op)?;
            done.push(*number);
        }
        Ok(queue.len())
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

    fn reap(
        &mut self,
        _slots: &mut [Slot],
        min: usize,
        until_ns: u64,
        _done: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        if min > 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
        }
        Ok(())
    }
}
