//! The queues that io_uring shares with the kernel, read and written in place.
//!
//! Our own code rather than the `io-uring` crate: there each request is built from scratch and copied into the queue,
//! which cost as many instructions as everything else. Here each slot owns one entry that stays where the kernel reads
//! it, so that a request patches only what differs. The kernel reads entries inside `io_uring_enter`; with a kernel
//! thread (SQPOLL), at any time between an entry's submission and its completion.

use std::ffi::c_void;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering, fence};

use rustix::io::Errno;
use rustix::io_uring::{
    IORING_OFF_SQ_RING, IORING_OFF_SQES, IoringEnterFlags, IoringFeatureFlags, IoringRegisterOp, IoringSetupFlags,
    io_uring_enter_arg, io_uring_getevents_arg, io_uring_params, io_uring_ptr, io_uring_register, io_uring_rsrc_update,
    io_uring_setup,
};
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use rustix::time::Timespec;
use syscalls::{Sysno, syscall};

/// `struct io_uring_sqe` of linux/io_uring.h, as far as reads, writes and syncs use it.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub(super) struct Sqe {
    pub(super) opcode: u8,
    pub(super) flags: u8,
    pub(super) ioprio: u16,
    pub(super) fd: i32,
    pub(super) offset: u64,
    pub(super) addr: u64,
    pub(super) len: u32,
    pub(super) op_flags: u32,
    pub(super) user_data: u64,
    pub(super) buf_index: u16,
    pub(super) personality: u16,
    pub(super) file_index: u32,
    pub(super) addr3: u64,
    pub(super) pad: u64,
}

/// The kernel walks its array of entries in steps of this size.
const _: () = assert!(size_of::<Sqe>() == 64);

/// `struct io_uring_cqe`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Cqe {
    pub(super) user_data: u64,
    pub(super) result: i32,
    flags: u32,
}

/// Memory shared with the kernel; unmapped when dropped.
struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

impl Mapping {
    fn new(fd: &OwnedFd, length: usize, offset: u64) -> Result<Self, Errno> {
        // SAFETY: a new shared mapping at an address of the kernel's choice aliases nothing in this process.
        let base = unsafe {
            let flags = MapFlags::SHARED | MapFlags::POPULATE;
            mmap(std::ptr::null_mut(), length, ProtFlags::READ | ProtFlags::WRITE, flags, fd, offset)
        }?;
        let base = NonNull::new(base.cast()).ok_or(Errno::NOMEM)?;
        Ok(Self { base, length })
    }

    /// The address `offset` bytes in, which must lie inside.
    fn at<T>(&self, offset: u32) -> *mut T {
        assert!((offset as usize) < self.length);
        // SAFETY: inside the mapping, as just asserted.
        unsafe { self.base.as_ptr().add(offset as usize) }.cast()
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: base and length are those of the mapping, and the ring that points into it is gone with it.
        let _ = unsafe { munmap(self.base.as_ptr().cast::<c_void>(), self.length) };
    }
}

/// A submission queue whose entries the caller owns one by one, and its completion queue.
///
/// All pointers lead into the two mappings, at offsets given by the kernel, and stay valid as long as they do.
pub(super) struct Ring {
    sqes: *mut Sqe,
    /// Numbers of entries in the order of submission.
    order: *mut u32,
    sq_tail: *const AtomicU32,
    sq_flags: *const AtomicU32,
    kernel_thread: bool,
    /// Entries are a power of two; this is one less.
    sq_mask: u32,
    cqes: *const Cqe,
    cq_head: *const AtomicU32,
    cq_tail: *const AtomicU32,
    cq_mask: u32,
    /// The ring as passed to `io_uring_enter`: its number among this thread's registered rings, which saves the kernel
    /// from looking up a file shared between threads, or its descriptor.
    enter_fd: u32,
    enter_flags: u32,
    _queues: Mapping,
    _entries: Mapping,
    fd: OwnedFd,
}

/// `IORING_ENTER_GETEVENTS`, `IORING_ENTER_SQ_WAKEUP` and `IORING_ENTER_REGISTERED_RING`.
const GETEVENTS: u32 = 1;
const WAKEUP: u32 = 1 << 1;
const REGISTERED_RING: u32 = 1 << 4;
/// `IORING_SQ_NEED_WAKEUP`: the kernel's thread has gone to sleep.
const NEEDS_WAKEUP: u32 = 1;

/// Features a ring must support; it is not created without them.
#[derive(Clone, Copy)]
pub(super) struct RingOptions {
    /// A thread of the kernel takes the entries (SQPOLL).
    pub(super) kernel_thread: bool,
    /// Completions are polled for (IOPOLL).
    pub(super) polled: bool,
}

/// A ring with the best flags that this kernel accepts. With DEFER_TASKRUN completions are processed when we ask, not
/// by interrupting our thread; with a kernel thread they never interrupt it.
fn setup(entries: u32, wanted: RingOptions) -> Result<(OwnedFd, io_uring_params), Errno> {
    let mut must = IoringSetupFlags::empty();
    must.set(IoringSetupFlags::SQPOLL, wanted.kernel_thread);
    must.set(IoringSetupFlags::IOPOLL, wanted.polled);
    let best = IoringSetupFlags::SINGLE_ISSUER | IoringSetupFlags::DEFER_TASKRUN;
    let better: &[IoringSetupFlags] = if wanted.kernel_thread { &[] } else { &[best, IoringSetupFlags::COOP_TASKRUN] };
    let mut last = Errno::INVAL;
    for flags in better.iter().copied().chain([IoringSetupFlags::empty()]) {
        let mut params = io_uring_params::default();
        params.flags = must | flags;
        // SAFETY: the parameters are zero but for the flags, none of which makes the kernel use a pointer in them.
        match unsafe { io_uring_setup(entries, &mut params) } {
            Ok(fd) => return Ok((fd, params)),
            Err(errno) => last = errno,
        }
    }
    Err(last)
}

impl Ring {
    /// A ring for at least `entries` entries. Only the calling thread may use it.
    pub(super) fn new(entries: u32, wanted: RingOptions) -> Result<Self, Errno> {
        let (fd, params) = setup(entries.next_power_of_two(), wanted)?;
        // One mapping for both queues; before Linux 5.4 there were two.
        if !params.features.contains(IoringFeatureFlags::SINGLE_MMAP) {
            return Err(Errno::NOSYS);
        }
        let (sq, cq) = (params.sq_off, params.cq_off);
        let sq_end = sq.array as usize + params.sq_entries as usize * size_of::<u32>();
        let cq_end = cq.cqes as usize + params.cq_entries as usize * size_of::<Cqe>();
        let queues = Mapping::new(&fd, sq_end.max(cq_end), IORING_OFF_SQ_RING)?;
        let entries = Mapping::new(&fd, params.sq_entries as usize * size_of::<Sqe>(), IORING_OFF_SQES)?;
        let mut ring = Self {
            sqes: entries.at(0),
            order: queues.at(sq.array),
            sq_tail: queues.at(sq.tail),
            sq_flags: queues.at(sq.flags),
            kernel_thread: wanted.kernel_thread,
            sq_mask: params.sq_entries - 1,
            cqes: queues.at(cq.cqes),
            cq_head: queues.at(cq.head),
            cq_tail: queues.at(cq.tail),
            cq_mask: params.cq_entries - 1,
            enter_fd: fd.as_raw_fd() as u32,
            enter_flags: 0,
            _queues: queues,
            _entries: entries,
            fd,
        };
        ring.register_itself();
        Ok(ring)
    }

    fn register_itself(&mut self) {
        let mut update = io_uring_rsrc_update::default();
        update.offset = u32::MAX;
        update.data = io_uring_ptr::new(self.fd.as_raw_fd() as usize as *mut c_void);
        // SAFETY: one update record, of which the kernel fills in the number it chose; it takes no other pointer.
        let one = unsafe {
            let record = (&raw mut update).cast::<c_void>();
            io_uring_register(&self.fd, IoringRegisterOp::RegisterRingFds, record, 1)
        };
        if one == Ok(1) {
            (self.enter_fd, self.enter_flags) = (update.offset, REGISTERED_RING);
        }
    }

    /// Makes `files` the ring's files, numbered as here; false where the kernel would not.
    pub(super) fn register_files(&self, files: &[RawFd]) -> bool {
        let (first, count) = (files.as_ptr().cast::<c_void>(), files.len() as u32);
        // SAFETY: the kernel reads as many descriptors from the pointer.
        let outcome = unsafe { io_uring_register(&self.fd, IoringRegisterOp::RegisterFiles, first, count) };
        outcome.is_ok()
    }

    /// Makes this memory the ring's buffer number 0; false where the kernel would not.
    ///
    /// # Safety
    /// The memory must stay mapped until the ring is dropped.
    pub(super) unsafe fn register_buffer(&self, base: *mut u8, length: usize) -> bool {
        let whole = libc::iovec { iov_base: base.cast(), iov_len: length };
        // SAFETY: the kernel reads one iovec, whose memory the caller keeps.
        let outcome = unsafe {
            io_uring_register(&self.fd, IoringRegisterOp::RegisterBuffers, (&raw const whole).cast::<c_void>(), 1)
        };
        outcome.is_ok()
    }

    /// Entry `index`, modulo the size of the queue. Must not be changed between [`Self::push`] and its completion.
    #[inline(always)]
    pub(super) fn entry(&mut self, index: u32) -> &mut Sqe {
        // SAFETY: the mask keeps the index inside the array, `&mut self` makes the reference the only one in this
        // process, and the kernel reads an entry only between `push` and its completion, when nobody asks for it.
        unsafe { &mut *self.sqes.add((index & self.sq_mask) as usize) }
    }

    /// Queues entry `index`. Between two calls of [`Self::submit`], at most as many as there are entries.
    #[inline(always)]
    pub(super) fn push(&mut self, index: u32) {
        // SAFETY: the pointer leads to the tail, an aligned u32 in the mapping that only this thread writes.
        let tail = unsafe { &*self.sq_tail };
        let at = tail.load(Ordering::Relaxed);
        // SAFETY: the mask keeps the index inside the array. Its element lies behind the tail, where the kernel does
        // not look, since there are never more entries under way than the array has elements.
        unsafe { *self.order.add((at & self.sq_mask) as usize) = index };
        tail.store(at.wrapping_add(1), Ordering::Release);
    }

    /// Hands `count` queued entries to the kernel; returns how many it took. Taking none is not an error.
    #[inline(always)]
    pub(super) fn submit(&mut self, count: usize) -> Result<usize, Errno> {
        if self.kernel_thread {
            return self.wake(count);
        }
        self.enter(count, 0, self.enter_flags)
    }

    /// Makes sure that the kernel's thread sees `count` queued entries: no system call while it is awake.
    #[inline(never)]
    fn wake(&mut self, count: usize) -> Result<usize, Errno> {
        // The thread announces that it sleeps and then checks the tail once more; we move the tail and then check the
        // announcement. Only with a full fence on both sides is at least one of the two sure to see the other.
        fence(Ordering::SeqCst);
        // SAFETY: the pointer leads to an aligned u32 in the mapping that is only accessed atomically.
        let flags = unsafe { &*self.sq_flags }.load(Ordering::Relaxed);
        if flags & NEEDS_WAKEUP == 0 {
            return Ok(count);
        }
        self.enter(count, 0, self.enter_flags | WAKEUP)
    }

    /// Waits for `want` completions; may return with fewer.
    #[inline(always)]
    pub(super) fn wait(&mut self, want: usize) -> Result<(), Errno> {
        self.enter(0, want, self.enter_flags | GETEVENTS).map(|_| ())
    }

    /// [`Self::wait`] for at most `wait_ns`.
    pub(super) fn wait_for(&mut self, want: u32, wait_ns: u64) -> Result<(), Errno> {
        let time = Timespec { tv_sec: (wait_ns / 1_000_000_000) as i64, tv_nsec: (wait_ns % 1_000_000_000) as _ };
        let ts = io_uring_ptr::new((&raw const time).cast_mut().cast());
        let wait = io_uring_getevents_arg { ts, ..io_uring_getevents_arg::default() };
        let flags = IoringEnterFlags::GETEVENTS | IoringEnterFlags::EXT_ARG;
        // SAFETY: both structures live across the call, which only reads them; nothing is submitted.
        match unsafe { io_uring_enter_arg(self.fd.as_fd(), 0, want, flags, Some(&wait)) } {
            Ok(_) | Err(Errno::TIME) => Ok(()),
            Err(errno) => transient(errno).map(|_| ()),
        }
    }

    /// The bare system call, inlined: nothing else remains on a request's submission path.
    #[inline(always)]
    fn enter(&mut self, submit: usize, want: usize, flags: u32) -> Result<usize, Errno> {
        // SAFETY: the descriptor is this ring's, and no pointer is passed. What entries point to is their
        // writer's promise (see Uring::new).
        match unsafe { syscall!(Sysno::io_uring_enter, self.enter_fd, submit, want, flags, 0, 0) } {
            Ok(count) => Ok(count),
            Err(raw) => transient(Errno::from_raw_os_error(raw.into_raw())),
        }
    }

    /// Passes each completion that has arrived to `each` and removes it from the queue; no system call. Returns how
    /// many there were. `first` is called before the first one.
    #[inline(always)]
    pub(super) fn drain<T: Copy>(&mut self, first: impl FnOnce() -> T, mut each: impl FnMut(&Cqe, T)) -> u32 {
        // SAFETY: both pointers lead to aligned u32 in the mapping: the head is only written by this thread, the
        // tail only by the kernel, and both only atomically.
        let (head, tail) = unsafe { (&*self.cq_head, &*self.cq_tail) };
        let begin = head.load(Ordering::Relaxed);
        let end = tail.load(Ordering::Acquire);
        if begin == end {
            return 0;
        }
        let shared = first();
        let mut at = begin;
        while at != end {
            // SAFETY: the mask keeps the index inside the array, and the kernel wrote everything before its tail
            // (Acquire) and will not touch it again before our head has passed (Release below).
            each(unsafe { &*self.cqes.add((at & self.cq_mask) as usize) }, shared);
            at = at.wrapping_add(1);
        }
        head.store(end, Ordering::Release);
        end.wrapping_sub(begin)
    }
}

/// Turns errors that mean "not now" into 0: nothing was taken, or nothing has arrived.
#[cold]
fn transient(errno: Errno) -> Result<usize, Errno> {
    match errno {
        Errno::INTR | Errno::AGAIN | Errno::BUSY => Ok(0),
        errno => Err(errno),
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.enter_flags & REGISTERED_RING == 0 {
            return;
        }
        let mut update = io_uring_rsrc_update::default();
        update.offset = self.enter_fd;
        // SAFETY: one update record; the number is the one that was registered, and is not used afterwards.
        let _ = unsafe {
            let record = (&raw mut update).cast::<c_void>();
            io_uring_register(&self.fd, IoringRegisterOp::UnregisterRingFds, record, 1)
        };
    }
}
