//! Requests of a block device and calls that wait for them, as a trace sees them.

use std::borrow::Cow;

/// Longest name of a thread, including the terminating zero.
pub const COMM: usize = 16;

/// The thread that issued a request or called a sync.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Asker {
    /// Process; 0 for the kernel's idle task.
    pub pid: u32,
    /// Thread.
    pub tid: u32,
    /// Name of the thread, up to the first zero.
    pub comm: [u8; COMM],
    /// Control group (v2), by inode; 0 without one.
    pub cgroup: u64,
    /// Whether it is a kernel thread; only known in a capture with syncs.
    pub is_kernels: bool,
}

/// A call that waits for a disk: one that makes files durable (fsync, fdatasync, sync_file_range, syncfs, msync with
/// MS_SYNC, sync, or a write with O_SYNC, O_DSYNC, RWF_SYNC or RWF_DSYNC), or a direct read or write (O_DIRECT). A
/// system call, or a request of io_uring.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sync {
    /// When it ended, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// How long it took, ns.
    pub took_ns: u64,
    /// How long its thread waited for a processor during the call, ns.
    pub run_delay_ns: u64,
    /// Inode of the file; for msync, until it is known, an address in the mapping.
    pub inode: u64,
    /// Bytes that it read or wrote; 0 if it only synced.
    pub bytes: u32,
    /// Major and minor number of the disk; zeros where the filesystem has several, or the call concerns all disks.
    pub device: (u32, u32),
    /// Name of the call: one of [`Sync::CALLS`].
    pub call: &'static str,
    /// I/O control group (v1 or v2) of the thread, by the kernel's id; 0 if not known.
    pub blkcg: u32,
    /// Who waited.
    pub asker: Asker,
    /// Error number, such as 5 for EIO; 0 for success.
    pub errno: u32,
}

/// A completed request of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When it was completed, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// From its creation until the device got it, ns; `None` if the kernel does not report it (before 6.5).
    pub queue_ns: Option<u64>,
    /// From when the device got it until it was completed, ns.
    pub device_ns: u64,
    /// First sector of 512 bytes on the disk.
    pub sector: u64,
    /// Bytes; 0 for a flush.
    pub bytes: u32,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// The kernel's `cmd_flags`.
    pub flags: u32,
    /// Who issued it.
    pub asker: Asker,
    /// The I/O control group (v1 or v2) that is charged for it, by the kernel's id; 0 if not known.
    pub blkcg: u32,
    /// Error number, such as 5 for EIO; 0 for success.
    pub errno: u32,
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Reads.
    Read,
    /// Writes.
    Write,
    /// Makes the contents of the device's cache durable.
    Flush,
    /// Releases blocks (TRIM).
    Discard,
    /// Anything else: write-zeroes, zone commands, passthrough commands.
    Other,
}

impl Op {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Flush => "flush",
            Self::Discard => "discard",
            Self::Other => "other",
        }
    }

    /// Returns it as the kernel's `cmd_flags` (`enum req_op`); any other operation as write-zeroes.
    #[must_use]
    pub const fn flags(self) -> u32 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Flush => 2,
            Self::Discard => 3,
            Self::Other => 9,
        }
    }
}

/// Returns the operation of a request with these `cmd_flags`.
#[must_use]
pub const fn op_of(flags: u32) -> Op {
    match flags & 0xff {
        0 => Op::Read,
        1 => Op::Write,
        2 => Op::Flush,
        3 => Op::Discard,
        _ => Op::Other,
    }
}

/// Bits of `cmd_flags` (`enum req_flag_bits` of linux/blk_types.h).
const SYNC_FLAG: u32 = 1 << 11;
const META: u32 = 1 << 12;
const FUA: u32 = 1 << 17;
const RAHEAD: u32 = 1 << 19;

impl Asker {
    /// Returns the name of the thread.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        thread_name(&self.comm)
    }

    /// Returns true if the thread has this name.
    #[must_use]
    pub fn is_named(&self, comm: &str) -> bool {
        up_to_zero(&self.comm) == comm.as_bytes()
    }
}

impl Sync {
    /// Makes a file durable through its mapping in memory.
    pub const MSYNC: &str = "msync";
    /// A read that bypasses the page cache.
    pub const DIRECT_READ: &str = "direct_read";
    /// A write that bypasses the page cache, and is not made durable by itself.
    pub const DIRECT_WRITE: &str = "direct_write";
    /// Names of calls, in the order of their numbers in files. All calls that write durably are `write`.
    pub const CALLS: [&str; 9] = [
        "fsync",
        "fdatasync",
        "sync_file_range",
        "syncfs",
        "write",
        Self::MSYNC,
        "sync",
        Self::DIRECT_WRITE,
        Self::DIRECT_READ,
    ];

    /// Returns true if it is a direct read or write, which makes nothing durable.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        [Self::DIRECT_READ, Self::DIRECT_WRITE].contains(&self.call)
    }
}

impl Request {
    /// Returns the flags of `cmd_flags` that are set besides the operation: sync, metadata, FUA and read-ahead.
    #[must_use]
    pub const fn flags(is_sync: bool, is_metadata: bool, is_fua: bool, is_ahead: bool) -> u32 {
        (is_sync as u32 * SYNC_FLAG) | (is_metadata as u32 * META) | (is_fua as u32 * FUA) | (is_ahead as u32 * RAHEAD)
    }

    /// Returns what it does.
    #[must_use]
    pub const fn op(&self) -> Op {
        op_of(self.flags)
    }

    /// Returns its type in blktrace's letters: R, W, F(lush), D(iscard) or N, then F(UA), A(head), S(ync), M(etadata).
    #[must_use]
    pub fn letters(&self) -> String {
        let first = match self.op() {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Flush => 'F',
            Op::Discard => 'D',
            Op::Other => 'N',
        };
        let more = [(FUA, 'F'), (RAHEAD, 'A'), (SYNC_FLAG, 'S'), (META, 'M')];
        [first]
            .into_iter()
            .chain(more.into_iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, name)| name))
            .collect()
    }

    /// Returns true if it writes filesystem metadata that a thread waits for, as a journal does.
    #[must_use]
    pub const fn is_metadata(&self) -> bool {
        matches!(self.op(), Op::Write) && self.flags & META != 0 && self.flags & SYNC_FLAG != 0
    }

    /// Returns true if a thread waits for it: reads, and writes that are not mere writeback.
    #[must_use]
    pub const fn is_waited_for(&self) -> bool {
        matches!(self.op(), Op::Read) || self.flags & SYNC_FLAG != 0
    }

    /// Returns the total time of the request, ns: in the queue (if known) and in the device.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.queue_ns.unwrap_or(0).saturating_add(self.device_ns)
    }
}

/// Returns a thread's name as the kernel keeps it, cut to its length.
#[must_use]
pub fn comm_of(name: &str) -> [u8; COMM] {
    let mut comm = [0; COMM];
    comm.iter_mut().zip(name.bytes().take(COMM - 1)).for_each(|(to, from)| *to = from);
    comm
}

/// Returns the name of a thread as the kernel keeps it, up to its terminating zero.
#[must_use]
pub fn thread_name(comm: &[u8; COMM]) -> Cow<'_, str> {
    String::from_utf8_lossy(up_to_zero(comm))
}

/// A name up to its terminating zero.
fn up_to_zero(comm: &[u8; COMM]) -> &[u8] {
    &comm[..comm.iter().position(|byte| *byte == 0).unwrap_or(COMM)]
}
