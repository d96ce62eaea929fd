//! Completes every request immediately without I/O: what remains is the cost of the instrument itself.

use qd1_model::plan::EngineKind;

use crate::engine::Engine;
use crate::error::EngineError;
use crate::request::{Done, Op};
use qd1_clock::Clock;

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
    fn one(&mut self, _number: u32, op: &Op) -> Result<Done, EngineError> {
        let issued_ns = self.clock.now_ns();
        let completed_ns = self.clock.now_ns();
        Ok(Done { result: op.len as i32, issued_ns, submitted_ns: issued_ns, completed_ns })
    }
}
