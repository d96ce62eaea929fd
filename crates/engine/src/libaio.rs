//! Linux native asynchronous I/O by raw system calls: io_submit and io_getevents.
//!
//! Own, because libaio's crates are unmaintained and its C library would not be static. The kernel's structures
//! are those of `linux/aio_abi.h`. Only O_DIRECT files are truly asynchronous with it.

use std::os::fd::RawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use libc::{c_long, syscall};
use qd1_model::plan::EngineKind;
use rustix::io::Errno;

use crate::buf::Buffers;
use crate::{Done, Engine, EngineError, Op, OpKind, Setup, clock};

/// `struct iocb` of linux/aio_abi.h, little-endian layout.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Iocb {
    data: u64,
    key: u32,
    rw_flags: i32,
    lio_opcode: u16,
    reqprio: i16,
    fildes: u32,
    buf: u64,
    nbytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    resfd: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    obj: u64,
    res: i64,
    res2: i64,
}

/// Head of the completion ring that the kernel maps into the process at the context's address
/// (`struct aio_ring` of fs/aio.c): events can be read from it without a system call.
#[repr(C)]
struct Ring {
    id: u32,
    nr: u32,
    head: AtomicU32,
    tail: AtomicU32,
    magic: u32,
    compat_features: u32,
    incompat_features: u32,
    header_length: u32,
}

const RING_MAGIC: u32 = 0xa10a_10a1;
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;

#[derive(Clone, Copy, Default)]
struct Stamp {
    issued_ns: u64,
    submitted_ns: u64,
}

pub(crate) struct Libaio {
    context: u64,
    fd: RawFd,
    buffers: Arc<Buffers>,
    iocbs: Vec<Iocb>,
    queue: Vec<*mut Iocb>,
    stamps: Vec<Stamp>,
    in_flight: usize,
    ring_readable: bool,
}

fn last_errno() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

impl Libaio {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let depth = setup.iodepth as usize;
        let mut context = 0u64;
        // SAFETY: io_setup writes one context handle to the address given.
        let ret = unsafe { syscall(libc::SYS_io_setup, setup.iodepth as c_long, &raw mut context) };
        if ret < 0 {
            let why = match last_errno() {
                Errno::NOSYS | Errno::PERM => "the kernel or a sandbox blocks io_setup".to_owned(),
                Errno::AGAIN => "io_setup: fs.aio-max-nr is exhausted".to_owned(),
                errno => format!("io_setup: {errno}"),
            };
            return Err(EngineError::Unavailable { engine: "libaio", why });
        }
        // SAFETY: the context is the address of the ring that the kernel mapped readable into this process; it
        // stays mapped until io_destroy.
        let ring = unsafe { &*(context as *const Ring) };
        let ring_readable = ring.magic == RING_MAGIC && ring.incompat_features == 0;
        Ok(Self {
            context,
            fd: setup.fd,
            buffers: setup.buffers,
            iocbs: vec![Iocb::default(); depth],
            queue: Vec::with_capacity(depth),
            stamps: vec![Stamp::default(); depth],
            in_flight: 0,
            ring_readable,
        })
    }

    #[inline]
    fn prepare(&mut self, op: &Op) {
        let opcode = match op.kind {
            OpKind::Read => PREAD,
            OpKind::Write => PWRITE,
            OpKind::Fsync => FSYNC,
            OpKind::Fdatasync => FDSYNC,
        };
        let transfers = matches!(op.kind, OpKind::Read | OpKind::Write);
        self.iocbs[op.slot as usize] = Iocb {
            data: u64::from(op.slot),
            lio_opcode: opcode,
            fildes: self.fd as u32,
            // The kernel refuses an fsync whose other fields are set.
            buf: if transfers { self.buffers.ptr(op.slot) as u64 } else { 0 },
            nbytes: u64::from(op.len),
            offset: op.offset as i64,
            ..Iocb::default()
        };
    }

    #[inline]
    fn finish(&mut self, slot: u64, res: i64, completed_ns: u64, done: &mut Vec<Done>) {
        let Stamp { issued_ns, submitted_ns } = self.stamps[slot as usize];
        // A request that completed inside io_submit was seen before the stamp after it: keep the order true.
        let completed_ns = completed_ns.max(submitted_ns);
        done.push(Done { slot: slot as u32, result: res as i32, issued_ns, submitted_ns, completed_ns });
        self.in_flight -= 1;
    }

    /// Takes what lies in the mapped ring; no system call.
    #[inline]
    fn take_ring(&mut self, done: &mut Vec<Done>) -> usize {
        if !self.ring_readable {
            return 0;
        }
        // SAFETY: the ring is mapped for the life of the context; head and tail are only accessed atomically,
        // and the events between them were published by the kernel before it moved the tail (Acquire).
        let ring = unsafe { &*(self.context as *const Ring) };
        let mut head = ring.head.load(Ordering::Relaxed);
        let tail = ring.tail.load(Ordering::Acquire);
        if head == tail {
            return 0;
        }
        let completed_ns = clock::now_ns();
        let before = done.len();
        let events = (self.context + u64::from(ring.header_length)) as *const Event;
        let nr = ring.nr;
        while head != tail {
            // SAFETY: head < nr, and the entry was published by the kernel as argued above.
            let event = unsafe { *events.add(head as usize) };
            self.finish(event.data, event.res, completed_ns, done);
            head = if head + 1 == nr { 0 } else { head + 1 };
        }
        ring.head.store(head, Ordering::Release);
        done.len() - before
    }

    fn getevents(&mut self, min: usize, until_ns: u64, done: &mut Vec<Done>) -> Result<usize, EngineError> {
        let mut events = [Event::default(); 64];
        let max = self.in_flight.min(events.len());
        let min = min.min(max);
        let wait_ns = if until_ns == u64::MAX { 0 } else { until_ns.saturating_sub(clock::now_ns()) };
        let timeout = libc::timespec {
            tv_sec: (wait_ns / 1_000_000_000) as libc::time_t,
            tv_nsec: (wait_ns % 1_000_000_000) as _,
        };
        let timeout_ptr = if until_ns == u64::MAX { std::ptr::null() } else { &raw const timeout };
        // SAFETY: events has room for max entries; timeout lives across the call.
        let got = unsafe {
            syscall(
                libc::SYS_io_getevents,
                self.context,
                min as c_long,
                max as c_long,
                events.as_mut_ptr(),
                timeout_ptr,
            )
        };
        if got < 0 {
            let errno = last_errno();
            if errno == Errno::INTR {
                return Ok(0);
            }
            return Err(EngineError::Broken { engine: "libaio", op: "io_getevents", errno });
        }
        let completed_ns = clock::now_ns();
        for event in &events[..got as usize] {
            self.finish(event.data, event.res, completed_ns, done);
        }
        Ok(got as usize)
    }
}

impl Engine for Libaio {
    fn kind(&self) -> EngineKind {
        EngineKind::Libaio
    }

    fn now_ns(&mut self) -> u64 {
        clock::now_ns()
    }

    fn submit(&mut self, ops: &[Op]) -> Result<usize, EngineError> {
        self.queue.clear();
        for op in ops {
            self.prepare(op);
            let pointer = &raw mut self.iocbs[op.slot as usize];
            self.queue.push(pointer);
        }
        let mut taken = 0;
        while taken < ops.len() {
            let issued_ns = clock::now_ns();
            // SAFETY: the queue holds pointers to iocbs of this engine that stay in place (the vector never
            // grows), each describing a buffer that outlives the request.
            let ret = unsafe {
                syscall(
                    libc::SYS_io_submit,
                    self.context,
                    (ops.len() - taken) as c_long,
                    self.queue.as_mut_ptr().add(taken),
                )
            };
            let submitted_ns = clock::now_ns();
            if ret < 0 {
                match last_errno() {
                    Errno::INTR => continue,
                    Errno::AGAIN if taken > 0 || self.in_flight > 0 => break,
                    errno => return Err(EngineError::Broken { engine: "libaio", op: "io_submit", errno }),
                }
            }
            let count = ret as usize;
            for op in &ops[taken..taken + count] {
                self.stamps[op.slot as usize] = Stamp { issued_ns, submitted_ns };
            }
            self.in_flight += count;
            taken += count;
        }
        Ok(taken)
    }

    fn reap(&mut self, min: usize, until_ns: u64, done: &mut Vec<Done>) -> Result<(), EngineError> {
        let wanted = min.min(self.in_flight);
        let mut got = self.take_ring(done);
        if min > 0 && wanted == 0 && got == 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
        }
        while got < wanted && (until_ns == u64::MAX || clock::now_ns() < until_ns) {
            got += self.getevents(wanted - got, until_ns, done)?;
        }
        Ok(())
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        // io_destroy waits for what is in flight, so the buffers are not touched after it.
        // SAFETY: the context came from io_setup and is destroyed once.
        unsafe { syscall(libc::SYS_io_destroy, self.context) };
    }
}
