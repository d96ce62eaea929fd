//! The only crate that issues benchmark I/O: engines, the load they carry, the files they act on, the workers
//! that time them.
//!
//! An engine is opened by [`open()`], driven by a worker of [`run::run_io`], and stamps every request itself, so
//! that the simulated device can keep its own time.

pub mod buf;
pub mod clock;
mod error;
pub mod files;
mod io_uring;
mod libaio;
pub mod load;
mod merge;
mod meter;
mod null;
mod psync;
pub mod run;
pub mod select;
pub mod sim;
pub mod target;
mod worker;

use std::os::fd::RawFd;
use std::sync::Arc;

use qd1_model::plan::EngineKind;

pub use error::{EngineError, errno_name};

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OpKind {
    /// Read `len` bytes at `offset`.
    Read,
    /// Write `len` bytes at `offset`.
    Write,
    /// fsync of the file.
    Fsync,
    /// fdatasync of the file.
    Fdatasync,
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// Bytes; 0 for syncs.
    pub len: u32,
    /// Byte offset in the file; 0 for syncs.
    pub offset: u64,
}

/// The outcome of one request. Times are nanoseconds of the engine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Bytes moved, or a negative errno.
    pub result: i32,
    /// Just before it was handed to the kernel.
    pub issued_ns: u64,
    /// When the kernel had taken it; equal to `issued_ns` for engines that complete inside submit.
    pub submitted_ns: u64,
    /// When its completion was seen.
    pub completed_ns: u64,
}

/// A place for one request in flight: its number names its buffer. The worker fills in `op`, the engine `done`.
///
/// Requests stay in their slots and only slot numbers move, which is what keeps a request below 260 instructions.
#[derive(Clone, Copy, Debug)]
pub struct Slot {
    /// What to do.
    pub op: Op,
    /// How it went; valid once the slot's number came back.
    pub done: Done,
}

impl Default for Slot {
    fn default() -> Self {
        Self { op: Op { kind: OpKind::Read, len: 0, offset: 0 }, done: Done::default() }
    }
}

/// Something that carries out requests and times them.
///
/// The contract, checked by one suite over all engines (`tests/contract.rs`): the number of every request taken
/// by `submit` comes back exactly once, with `issued <= submitted <= completed`; a failing request is a [`Done`]
/// with a negative result, not an error; nothing is allocated once warm.
pub trait Engine {
    /// Which engine this is.
    fn kind(&self) -> EngineKind;

    /// The engine's clock: real, or virtual for the simulated device.
    fn now_ns(&mut self) -> u64;

    /// Whether taking a request and completing it are two things, so that slat and clat are figures of their own.
    fn queues(&self) -> bool {
        false
    }

    /// Takes the requests in the slots that `queue` names; returns how many of them, from the front, were taken.
    /// An engine that completes inside `submit` appends their numbers to `done` right here.
    ///
    /// # Errors
    /// Only when the engine itself is broken; a request's own failure is its `Done`.
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError>;

    /// Appends the numbers of completed slots to `done`, waiting until there are `min` new ones or `until_ns` has
    /// passed, whichever comes first. With nothing in flight it waits for `until_ns` alone; `min == 0` never waits.
    ///
    /// # Errors
    /// Only when the engine itself is broken.
    fn reap(&mut self, slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError>;

    /// Carries out one request from issue to completion on the buffer of slot `number`: what `submit` and `reap` do
    /// together, without lists, since depth 1 is what users wait for. Nothing else may be in flight.
    ///
    /// # Errors
    /// Only when the engine itself is broken; a request's own failure is its `Done`.
    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError>;

    /// What the engine could not have (registered buffers, say), for the Record; empty when nothing.
    fn caveat(&self) -> String {
        String::new()
    }
}

/// What an engine is opened on.
#[derive(Clone)]
pub struct Setup {
    /// The open file. The caller keeps it open for the engine's life.
    pub fd: RawFd,
    /// Most requests in flight.
    pub iodepth: u32,
    /// One buffer per slot.
    pub buffers: Arc<buf::Buffers>,
    /// For `sim`: the device.
    pub sim: Option<sim::Device>,
}

/// Opens an engine behind a pointer. To be called on the thread that will use it (io_uring binds its ring to it).
/// Workers open theirs by type instead, so that the hot loop has no indirect call.
///
/// # Errors
/// [`EngineError::Unavailable`] when the kernel or a sandbox does not offer it.
pub fn open(kind: EngineKind, setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Psync => Box::new(psync::Psync::new(setup)),
        EngineKind::Libaio => Box::new(libaio::Libaio::new(setup)?),
        EngineKind::IoUring => Box::new(io_uring::Uring::new(setup)?),
        EngineKind::Null => Box::new(null::Null::default()),
        EngineKind::Sim => Box::new(sim::Sim::new(setup)?),
    })
}
