//! Completes every request at once without I/O: what is left is the cost of the instrument itself.

use qd1_model::plan::EngineKind;

use crate::clock::{self, Clock};
use crate::{Done, Engine, EngineError, Op, Slot};

#[derive(Default)]
pub(crate) struct Null {
    clock: Clock,
}

impl Engine for Null {
    fn kind(&self) -> EngineKind {
        EngineKind::Null
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
    fn one(&mut self, _number: u32, op: &Op) -> Result<Done, EngineError> {
        let issued_ns = self.clock.now_ns();
        let completed_ns = self.clock.now_ns();
        Ok(Done { result: op.len as i32, issued_ns, submitted_ns: issued_ns, completed_ns })
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
