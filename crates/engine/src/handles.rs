//! The open files of an engine, and the operations on them other than reading and writing.
//!
//! Every engine needs these calls: engines that complete inside submit for all requests, asynchronous ones for those
//! that the kernel does not queue.

use std::os::fd::{AsRawFd, BorrowedFd};

use rustix::fs::{FallocateFlags, FileType, fallocate, fdatasync, fstat, fsync};
use rustix::io::Errno;
use syscalls::{Sysno, syscall};

use crate::engine::Setup;
use crate::request::{Op, OpKind};

/// `BLKDISCARD` of linux/fs.h: `_IO(0x12, 119)`.
const BLKDISCARD: u32 = 0x1277;
/// Flags of a trim of a regular file: its blocks are freed, its length stays.
pub(crate) const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(FallocateFlags::KEEP_SIZE);

/// One open file.
#[derive(Clone, Copy)]
struct Handle {
    fd: BorrowedFd<'static>,
    /// Trims are discards, not holes.
    block_device: bool,
}

/// The files of a [`Setup`], with the same numbers.
pub(crate) struct Handles {
    all: Vec<Handle>,
    sync_file_range: u32,
}

/// What a system call returned, in the form of [`crate::Done`].
pub(crate) fn result_of(outcome: Result<usize, Errno>) -> i32 {
    match outcome {
        Ok(count) => count as i32,
        Err(errno) => -errno.raw_os_error(),
    }
}

impl Handles {
    /// Examines each file once.
    pub(crate) fn new(setup: &Setup) -> Self {
        let all = setup.files.iter().map(|raw| {
            assert!(*raw >= 0, "engines that do I/O are opened on open files");
            // SAFETY: the caller keeps the files open for the engine's life (see Setup::files), and it is not -1.
            let fd = unsafe { BorrowedFd::borrow_raw(*raw) };
            let kind = fstat(fd).map(|stat| FileType::from_raw_mode(stat.st_mode));
            Handle { fd, block_device: kind == Ok(FileType::BlockDevice) }
        });
        Self { all: all.collect(), sync_file_range: setup.tuning.sync_file_range }
    }

    /// File number `file`.
    #[inline(always)]
    pub(crate) fn fd(&self, file: u16) -> BorrowedFd<'static> {
        self.all[usize::from(file)].fd
    }

    /// Whether file number `file` is a block device.
    pub(crate) fn is_block_device(&self, file: u16) -> bool {
        self.all[usize::from(file)].block_device
    }

    /// Syncs or trims; returns the result as in [`crate::Done`]. Interrupted calls are repeated.
    #[inline(never)]
    pub(crate) fn sync_or_trim(&self, op: &Op) -> i32 {
        loop {
            match self.sync_or_trim_once(op) {
                Err(Errno::INTR) => {}
                Err(errno) => return -errno.raw_os_error(),
                Ok(()) => return op.len as i32,
            }
        }
    }

    fn sync_or_trim_once(&self, op: &Op) -> Result<(), Errno> {
        let Handle { fd, block_device } = self.all[usize::from(op.file)];
        match op.kind {
            OpKind::Fsync => fsync(fd),
            OpKind::Fdatasync => fdatasync(fd),
            OpKind::SyncFileRange => {
                let (number, flags) = (fd.as_raw_fd(), self.sync_file_range);
                // SAFETY: the call takes numbers only.
                let outcome = unsafe { syscall!(Sysno::sync_file_range, number, op.offset, op.len, flags) };
                outcome.map(|_| ()).map_err(|raw| Errno::from_raw_os_error(raw.into_raw()))
            }
            OpKind::Trim if block_device => {
                let range = [op.offset, u64::from(op.len)];
                // SAFETY: BLKDISCARD reads two u64 from the pointer: where and how many bytes.
                let outcome = unsafe { libc::ioctl(fd.as_raw_fd(), BLKDISCARD as _, &raw const range) };
                if outcome == 0 { Ok(()) } else { Err(last_errno()) }
            }
            OpKind::Trim => fallocate(fd, PUNCH, op.offset, u64::from(op.len)),
            OpKind::Read | OpKind::Write => unreachable!("transfers are the engine's own"),
        }
    }
}

/// Why the C library's last call failed.
fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}
