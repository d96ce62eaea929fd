//! Completes every request at once without I/O: what is left is the cost of the instrument itself.

use qd1_model::plan::EngineKind;

use crate::{Done, Engine, EngineError, Op, Setup, clock};

pub(crate) struct Null {
    done: Vec<Done>,
}

impl Null {
    pub(crate) fn new(setup: Setup) -> Self {
        Self { done: Vec::with_capacity(setup.iodepth as usize) }
    }
}

impl Engine for Null {
    fn kind(&self) -> EngineKind {
        EngineKind::Null
    }

    fn now_ns(&mut self) -> u64 {
        clock::now_ns()
    }

    fn submit(&mut self, ops: &[Op]) -> Result<usize, EngineError> {
        for op in ops {
            let issued_ns = clock::now_ns();
            let completed_ns = clock::now_ns();
            let result = op.len as i32;
            self.done.push(Done { slot: op.slot, result, issued_ns, submitted_ns: issued_ns, completed_ns });
        }
        Ok(ops.len())
    }

    fn reap(&mut self, min: usize, until_ns: u64, done: &mut Vec<Done>) -> Result<(), EngineError> {
        if self.done.is_empty() && min > 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
        }
        done.append(&mut self.done);
        Ok(())
    }
}
