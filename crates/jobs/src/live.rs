//! What a running thread and its controller exchange.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

use qd1_model::job::JobStat;

use crate::log::Chunk;

/// One thread, as others see it while it runs.
#[derive(Debug, Default)]
pub(crate) struct Live {
    /// Completed so far, reads, writes, trims: requests and bytes. Never reset.
    pub(crate) ios: [AtomicU64; 3],
    pub(crate) bytes: [AtomicU64; 3],
    /// Set to end the thread in an orderly way.
    pub(crate) stop: AtomicBool,
    /// A number that is incremented to request a snapshot of the counters.
    pub(crate) wanted: AtomicU32,
    /// The last snapshot, with the number that requested it.
    pub(crate) snapshot: Mutex<Option<(u32, JobStat)>>,
    /// Warnings to show immediately, such as blocks that were read back wrong.
    pub(crate) warnings: Mutex<Vec<String>>,
    /// Log entries that have not been collected yet.
    pub(crate) logged: Mutex<Chunk>,
}

impl Live {
    /// Counts a completed request. Only the thread itself calls this, so it adds without locking the bus.
    #[inline]
    pub(crate) fn completed(&self, direction: usize, bytes: u32) {
        let add = |to: &AtomicU64, more| to.store(to.load(Ordering::Relaxed) + more, Ordering::Relaxed);
        add(&self.ios[direction], 1);
        add(&self.bytes[direction], u64::from(bytes));
    }

    /// Leaves a message for the controller.
    pub(crate) fn warn(&self, text: String) {
        self.warnings.lock().expect("no holder of this lock panics").push(text);
    }

    /// Requests and bytes of all directions so far.
    pub(crate) fn totals(&self) -> (u64, u64) {
        let sum = |of: &[AtomicU64; 3]| of.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        (sum(&self.ios), sum(&self.bytes))
    }

    /// (bytes, requests) of each direction so far.
    pub(crate) fn moved(&self) -> [(u64, u64); 3] {
        std::array::from_fn(|direction| {
            (self.bytes[direction].load(Ordering::Relaxed), self.ios[direction].load(Ordering::Relaxed))
        })
    }
}
