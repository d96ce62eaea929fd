//! The only crate that issues benchmark I/O: engines, the load they carry, the files they act on, the workers
//! that time them.
//!
//! An engine is opened by [`open()`], driven by a worker of [`run::run_io`], and stamps every request itself, so
//! that the simulated device can keep its own time.

pub mod backing;
mod blocking;
pub mod buf;
pub mod clock;
mod error;
pub mod files;
mod handles;
mod io_uring;
mod libaio;
pub mod load;
pub mod merge;
pub mod meter;
mod methods;
mod mmap;
mod null;
mod priority;
pub mod reference;
pub mod run;
pub mod select;
pub mod sim;
mod sync;
mod worker;

use std::os::fd::RawFd;
use std::sync::Arc;

use qd1_model::plan::EngineKind;

#[doc(hidden)]
pub use error::{EngineError, errno_name};
pub use methods::try_method;
pub use priority::set_io_priority;

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// Read `len` bytes at `offset`.
    Read,
    /// Write `len` bytes at `offset`.
    Write,
    /// fsync of the file.
    Fsync,
    /// fdatasync of the file.
    Fdatasync,
    /// sync_file_range of `len` bytes at `offset`, with the flags of [`Tuning::sync_file_range`]. A `len` of 0 means up
    /// to the end of the file, so that 0 and 0 are all of it.
    SyncFileRange,
    /// Gives back `len` bytes at `offset`: a discard on a block device, a hole in a regular file.
    Trim,
}

impl OpKind {
    /// Whether bytes move between the slot's buffer and the file.
    #[inline(always)]
    pub const fn transfers(self) -> bool {
        matches!(self, Self::Read | Self::Write)
    }
}

/// One request.
#[derive(Clone, Copy, Debug)]
pub struct Op {
    /// What to do.
    pub kind: OpKind,
    /// To which file: its place in [`Setup::files`].
    pub file: u16,
    /// Bytes; 0 for fsync and fdatasync.
    pub len: u32,
    /// Byte offset in the file; 0 for fsync and fdatasync.
    pub offset: u64,
}

/// Requests are copied from slot to slot; a file number must not make them longer.
const _: () = assert!(size_of::<Op>() == 16);

/// The outcome of one request. Times are nanoseconds of the engine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Bytes moved, or a negative errno. A sync or trim that succeeded has its `len` here, so that for every kind
    /// of request `result == len` is success, and less is a short transfer.
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
        Self { op: Op { kind: OpKind::Read, file: 0, len: 0, offset: 0 }, done: Done::default() }
    }
}

/// Something that carries out requests and times them.
///
/// The contract, checked by one suite over all engines (`tests/contract.rs`): the number of every request taken
/// by `submit` comes back exactly once, with `issued <= submitted <= completed`; a failing request is a [`Done`]
/// with a negative result, not an error; nothing is allocated once warm.
///
/// An engine that completes its requests inside of `submit` has only [`Engine::one`] to write: `submit` and `reap` are
/// then as given here.
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
            clock::sleep_until(until_ns);
        }
        Ok(())
    }

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
    /// The open files, at most 65,536. The caller keeps them open for the engine's life. Empty only for `null` and
    /// `sim`.
    pub files: Vec<RawFd>,
    /// Most requests in flight.
    pub iodepth: u32,
    /// One buffer per slot.
    pub buffers: Arc<buf::Buffers>,
    /// For `sim`: the device.
    pub sim: Option<sim::Device>,
    /// How the engine goes about it.
    pub tuning: Tuning,
}

/// How an engine goes about its requests, where it has a choice: fio's options of these names. The default is the
/// cheapest way to issue a request, which is what a check uses. What an engine does not know it ignores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuning {
    /// io_uring: register the buffers with the kernel once.
    pub fixedbufs: bool,
    /// io_uring: register the files with the kernel once.
    pub registerfiles: bool,
    /// io_uring: a kernel thread takes the requests, without system calls of ours.
    pub sqthread_poll: bool,
    /// io_uring and pvsync2: poll for completions instead of waiting for an interrupt. For direct I/O on devices that
    /// can; others answer EOPNOTSUPP (io_uring) or ignore it (pvsync2).
    pub hipri: bool,
    /// io_uring: plain reads and writes; false for vectors of one. Registered buffers are never vectors.
    pub nonvectored: bool,
    /// Flags of sync_file_range: those of [`SYNC_FILE_RANGE_WAIT_BEFORE`] and its kin.
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

/// sync_file_range waits for pages that are already being written (linux/fs.h).
pub const SYNC_FILE_RANGE_WAIT_BEFORE: u32 = 1;
/// sync_file_range starts writing dirty pages.
pub const SYNC_FILE_RANGE_WRITE: u32 = 2;
/// sync_file_range waits for what it started.
pub const SYNC_FILE_RANGE_WAIT_AFTER: u32 = 4;

/// Opens an engine behind a pointer. To be called on the thread that will use it (io_uring binds its ring to it).
/// Workers open theirs by type instead, so that the hot loop has no indirect call.
///
/// # Errors
/// [`EngineError::Unavailable`] when the kernel or a sandbox does not offer it.
pub fn open(kind: EngineKind, setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Psync if setup.tuning.write_dsync => Box::new(sync::DurablePsync::new(setup)),
        EngineKind::Psync => Box::new(sync::Psync::new(setup)),
        EngineKind::Sync => Box::new(sync::Sync::new(setup)),
        EngineKind::Vsync => Box::new(sync::Vsync::new(setup)),
        EngineKind::Pvsync => Box::new(sync::Pvsync::new(setup)),
        EngineKind::Pvsync2 => Box::new(sync::Pvsync2::new(setup)),
        EngineKind::Mmap => Box::new(mmap::Mmap::new(setup)),
        EngineKind::Libaio => Box::new(libaio::Libaio::new(setup)?),
        EngineKind::IoUring => Box::new(io_uring::Uring::new(setup)?),
        EngineKind::Null => Box::new(null::Null::default()),
        EngineKind::Sim => Box::new(sim::Sim::new(setup)?),
    })
}
