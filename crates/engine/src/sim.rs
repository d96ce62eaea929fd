//! A simulated device on virtual time: seeded, with known truth, a ten-minute run in milliseconds.
//!
//! The law of the device is in [`model`], and has no clock of its own; `qd1-simdisk` serves the same one in real time.

pub mod model;
mod noise;
mod seek;

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use qd1_model::plan::EngineKind;

pub use model::{Bucket, Cache, Device, Limit, Mode, Scope, Service, Stall, State};
pub use noise::{Link, Neighbours};
pub use seek::Mechanics;

use crate::{Done, Engine, EngineError, Op, Setup, Slot};

pub(crate) struct Sim {
    state: State,
    now_ns: u64,
    /// (completion, slot), the earliest first.
    pending: BinaryHeap<Reverse<(u64, u32)>>,
}

impl Sim {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let device = setup.sim.ok_or_else(|| EngineError::Plan("engine sim needs a simulated device".to_owned()))?;
        let pending = BinaryHeap::with_capacity(setup.iodepth as usize);
        Ok(Self { state: State::new(device), now_ns: 0, pending })
    }

    /// How a request issued now will go.
    fn outcome(&mut self, op: &Op) -> Done {
        let now_ns = self.now_ns;
        let completed = self.state.complete_ns(op, now_ns as f64).max(now_ns as f64 + 1.0);
        let completed_ns = completed.round() as u64;
        Done { result: op.len as i32, issued_ns: now_ns, submitted_ns: now_ns, completed_ns }
    }
}

impl Engine for Sim {
    fn kind(&self) -> EngineKind {
        EngineKind::Sim
    }

    fn now_ns(&mut self) -> u64 {
        self.now_ns
    }

    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], _done: &mut Vec<u32>) -> Result<usize, EngineError> {
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done = self.outcome(&slot.op);
            self.pending.push(Reverse((slot.done.completed_ns, *number)));
        }
        Ok(queue.len())
    }

    fn one(&mut self, _number: u32, op: &Op) -> Result<Done, EngineError> {
        let done = self.outcome(op);
        self.now_ns = done.completed_ns;
        Ok(done)
    }

    fn reap(&mut self, _slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError> {
        let wanted = min.min(self.pending.len());
        let mut got = 0;
        while let Some(Reverse((completed_ns, number))) = self.pending.peek().copied() {
            let ripe = completed_ns <= self.now_ns;
            if !ripe && (got >= wanted || completed_ns > until_ns) {
                break;
            }
            self.pending.pop();
            self.now_ns = self.now_ns.max(completed_ns);
            done.push(number);
            got += 1;
        }
        if got < min && until_ns != u64::MAX {
            self.now_ns = self.now_ns.max(until_ns);
        }
        Ok(())
    }
}
