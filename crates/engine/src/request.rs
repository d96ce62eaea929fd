//! Requests: what to do, how it went, and the slot that holds both.

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
    /// sync_file_range of `len` bytes at `offset`, with the flags of [`crate::Tuning::sync_file_range`]. A `len` of 0
    /// means up to the end of the file, so that 0 and 0 are all of it.
    SyncFileRange,
    /// Frees `len` bytes at `offset`: a discard on a block device, a hole in a regular file.
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
    /// On which file: its index in [`crate::Setup::files`].
    pub file: u16,
    /// Bytes; 0 for fsync and fdatasync.
    pub len: u32,
    /// Byte offset in the file; 0 for fsync and fdatasync.
    pub offset: u64,
}

/// Requests are copied from slot to slot; a file number must not make them longer.
const _: () = assert!(size_of::<Op>() == 16);

/// The outcome of one request. Times are in nanoseconds of the engine's clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct Done {
    /// Bytes moved, or a negative errno. A sync or trim that succeeded has its `len` here, so that for every kind
    /// of request `result == len` is success, and less is a short transfer.
    pub result: i32,
    /// Just before it was handed to the kernel.
    pub issued_ns: u64,
    /// When the kernel had accepted it; equal to `issued_ns` for engines that complete inside submit.
    pub submitted_ns: u64,
    /// When its completion was seen.
    pub completed_ns: u64,
}

/// A place for one request in flight; its number is also that of its buffer. The worker fills in `op`, the engine
/// `done`.
///
/// Requests stay in their slots and only slot numbers move, which keeps a request below 260 instructions.
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

/// sync_file_range waits for pages that are already being written (linux/fs.h).
pub const SYNC_FILE_RANGE_WAIT_BEFORE: u32 = 1;
/// sync_file_range starts writing dirty pages.
pub const SYNC_FILE_RANGE_WRITE: u32 = 2;
/// sync_file_range waits for what it started.
pub const SYNC_FILE_RANGE_WAIT_AFTER: u32 = 4;
