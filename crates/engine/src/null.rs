//! Completes every request at once without I/O: what is left is the cost of the instrument itself.

use qd1_model::plan::EngineKind;

use crate::{Done, Engine, EngineError, Slot, clock};

pub(crate) struct Null;

impl Engine for Null {
    fn kind(&self) -> EngineKind {
        EngineKind::Null
    }

    fn now_ns(&mut self) -> u64 {
        clock::now_ns()
    }

    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError> {
        for number in queue {
            let slot = &mut slots[*number as usize];
            let issued_ns = clock::now_ns();
            let completed_ns = clock::now_ns();
            slot.done = Done { result: slot.op.len as i32, issued_ns, submitted_ns: issued_ns, completed_ns };
            done.push(*number);
        }
        Ok(queue.len())
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
