//! The contract of an engine, and what one is opened on.

use qd1_model::plan::EngineKind;
use std::os::fd::RawFd;
use std::sync::Arc;

use crate::buf::Buffers;

use crate::error::EngineError;
use crate::request::{Done, Op, Slot};

/// Something that performs requests and times them.
///
/// The contract, checked by one suite for all engines (`tests/contract.rs`): the number of every request taken
/// by `submit` comes back exactly once, with `issued <= submitted <= completed`; a failing request is a [`Done`]
/// with a negative result, not an error; nothing is allocated after warm-up.
///
/// An engine that completes its requests inside `submit` implements only [`Engine::one`]; the default `submit` and
/// `reap` suffice.
pub trait Engine {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// The engine's clock: real, or virtual for the simulated device.
    fn now_ns(&mut self) -> u64;

    /// Whether taking a request and completing it are separate, so that slat and clat are separate figures.
    fn queues(&self) -> bool {
        false
    }

    /// Takes the requests in the slots that `queue` names; returns how many of them, from the front, were taken.
    /// An engine that completes inside `submit` appends their numbers to `done` right here.
    ///
    /// # Errors
    /// Only when the engine itself is broken; a request's own failure is its `Done`.
    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError> {
        for number in queue {
            let slot = &mut slots[*number as usize];
            slot.done = self.one(*number, &slot.op)?;
            done.push(*number);
        }
        Ok(queue.len())
    }

    /// Appends the numbers of completed slots to `done`, waiting until there are `min` new ones or `until_ns` has
    /// passed, whichever comes first. With nothing in flight it waits for `until_ns` alone; `min == 0` never waits.
    ///
    /// # Errors
    /// Only when the engine itself is broken.
    fn reap(
        &mut self,
        _slots: &mut [Slot],
        min: usize,
        until_ns: u64,
        _done: &mut Vec<u32>,
    ) -> Result<(), EngineError> {
        if min > 0 && until_ns != u64::MAX {
            qd1_clock::sleep_until(until_ns);
        }
        Ok(())
    }

    /// Performs one request from issue to completion on the buffer of slot `number`: what `submit` and `reap` do
    /// together, without lists, since depth 1 matters most to users. Nothing else may be in flight.
    ///
    /// # Errors
    /// Only when the engine itself is broken; a request's own failure is its `Done`.
    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError>;

    /// What the kernel did not grant the engine (registered buffers, for example), for the Record; empty if it granted
    /// all.
    fn caveat(&self) -> String {
        String::new()
    }
}

/// What an engine is opened on.
#[derive(Clone)]
pub struct Setup {
    /// The open files, at most 65,536. The caller keeps them open for the engine's lifetime. Empty only for `null` and
    /// `sim`.
    pub files: Vec<RawFd>,
    /// Most requests in flight.
    pub iodepth: u32,
    /// One buffer per slot.
    pub buffers: Arc<Buffers>,
    /// For `sim`: the device.
    pub sim: Option<crate::sim::Device>,
    /// How the engine issues requests.
    pub tuning: Tuning,
}

/// How an engine issues its requests, where it has a choice: fio's options of these names. The default is the
/// cheapest way to issue a request, which is what a check uses. An engine ignores what it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// io_uring: register the buffers with the kernel once.
    pub fixedbufs: bool,
    /// io_uring: register the files with the kernel once.
    pub registerfiles: bool,
    /// io_uring: a kernel thread takes the requests, so that we make no system calls.
    pub sqthread_poll: bool,
    /// io_uring and pvsync2: poll for completions instead of waiting for an interrupt. For direct I/O on devices that
    /// can; others answer EOPNOTSUPP (io_uring) or ignore it (pvsync2).
    pub hipri: bool,
    /// io_uring: plain reads and writes; false for one-element vectors. Registered buffers are never vectors.
    pub nonvectored: bool,
    /// Flags of sync_file_range: [`crate::SYNC_FILE_RANGE_WAIT_BEFORE`] and the related ones.
    pub sync_file_range: u32,
    /// psync: each write carries RWF_DSYNC, so that it is durable when it returns.
    pub write_dsync: bool,
}

impl Default for Tuning {
    fn default() -> Self {
        Self {
            fixedbufs: true,
            registerfiles: true,
            sqthread_poll: false,
            hipri: false,
            nonvectored: true,
            sync_file_range: 0,
            write_dsync: false,
        }
    }
}
