//! A simulated device in virtual time: seeded, with known truth; a ten-minute run takes milliseconds.
//!
//! The law of the device is in [`model`], and has no clock of its own; `qd1-simdisk` serves the same one in real time.

mod draw;
mod host_cache;
mod layers;
pub mod model;
mod noise;
mod ranges;
mod reduction;
mod seek;

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use qd1_model::plan::EngineKind;

pub use draw::{Mode, Service};
pub use host_cache::HostCache;
pub use layers::{FirstTouch, Layers, Unwritten};
pub use reduction::Reduction;

pub use model::{Bucket, Cache, Device, Limit, Scope, Stall, State};
pub use noise::{Link, Neighbours, Phases};
pub use seek::Mechanics;

use crate::buf::Buffers;
use crate::engine::{Engine, Setup};
use crate::error::EngineError;
use crate::request::{Done, Op, OpKind, Slot};

/// A simulated device and its time; its state is kept from one step to the next.
pub struct Disk {
    state: State,
    now_ns: u64,
}

impl Disk {
    /// A device at its time 0.
    pub fn new(device: Device) -> Self {
        Self { state: State::new(device), now_ns: 0 }
    }

    /// Leaves it idle for a while, ns.
    pub fn idle(&mut self, ns: u64) {
        self.now_ns += ns;
    }

    /// Serves requests by these laws from now on: another place on the same disk, with which it shares everything else.
    pub fn serve(&mut self, read: Service, write: Service, flush: Service) {
        self.state.serve(read, write, flush);
    }

    /// Its time, ns.
    pub fn now_ns(&self) -> u64 {
        self.now_ns
    }
}

pub(crate) struct Sim {
    disk: Disk,
    buffers: Arc<Buffers>,
    /// (completion, slot), the earliest first.
    pending: BinaryHeap<Reverse<(u64, u32)>>,
    /// Whether a flush follows each write before it completes, as for a file opened O_DSYNC.
    written_through: bool,
}

impl Sim {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let device = setup.sim.ok_or_else(|| EngineError::Plan("engine sim needs a simulated device".to_owned()))?;
        Ok(Self::of(Disk::new(device), setup.buffers, setup.iodepth))
    }

    /// On a disk that has already been used.
    pub(crate) fn of(disk: Disk, buffers: Arc<Buffers>, iodepth: u32) -> Self {
        Self { disk, buffers, pending: BinaryHeap::with_capacity(iodepth as usize), written_through: false }
    }

    /// Each write is durable when it completes.
    pub(crate) fn written_through(self, written_through: bool) -> Self {
        Self { written_through, ..self }
    }

    /// Returns the disk, for the next step.
    pub(crate) fn into_disk(self) -> Disk {
        assert!(self.pending.is_empty(), "a worker drains its engine before the disk goes to the next step");
        self.disk
    }

    /// Returns the outcome of a request issued now on slot `number`.
    fn outcome(&mut self, number: u32, op: &Op) -> Done {
        let Disk { state, now_ns } = &mut self.disk;
        let now_ns = *now_ns;
        let completed = if op.kind == OpKind::Write && state.wants_data() {
            self.buffers.inspect(number, op.len as usize, |data| state.complete_with(op, Some(data), now_ns as f64))
        } else {
            state.complete_ns(op, now_ns as f64)
        };
        let flush = Op { kind: OpKind::Fdatasync, file: 0, len: 0, offset: 0 };
        let completed = match op.kind {
            OpKind::Write if self.written_through => state.complete_ns(&flush, completed),
            _ => completed,
        };
        let completed = completed.max(now_ns as f64 + 1.0);
        let completed_ns = completed.round() as u64;
        Done { result: op.len as i32, issued_ns: now_ns, submitted_ns: now_ns, completed_ns }
    }
}

impl Engine for Sim {
    fn kind(&self) -> EngineKind {
        EngineKind::Sim
    }

    fn now_ns(&mut self) -> u64 {
        self.disk.now_ns
    }

    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], _done: &mut Vec<u32>) -> Result<usize, EngineError> {
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done = self.outcome(*number, &slot.op);
            self.pending.push(Reverse((slot.done.completed_ns, *number)));
        }
        Ok(queue.len())
    }

    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError> {
        let done = self.outcome(number, op);
        self.disk.now_ns = done.completed_ns;
        Ok(done)
    }

    fn reap(&mut self, _slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError> {
        let wanted = min.min(self.pending.len());
        let mut got = 0;
        while let Some(Reverse((completed_ns, number))) = self.pending.peek().copied() {
            let ripe = completed_ns <= self.disk.now_ns;
            if !ripe && (got >= wanted || completed_ns > until_ns) {
                break;
            }
            self.pending.pop();
            self.disk.now_ns = self.disk.now_ns.max(completed_ns);
            done.push(number);
            got += 1;
        }
        if got < min && until_ns != u64::MAX {
            self.disk.now_ns = self.disk.now_ns.max(until_ns);
        }
        Ok(())
    }
}
