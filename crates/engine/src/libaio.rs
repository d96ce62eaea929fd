//! Linux native asynchronous I/O by raw system calls: io_submit and io_getevents.
//!
//! Our own code, because the libaio crates are unmaintained and its C library would not be static. The kernel's
//! structures are those of `linux/aio_abi.h`. Only O_DIRECT files are truly asynchronous with it. Requests that the
//! kernel does not queue (trims and range syncs) complete inside submit.

use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use qd1_model::plan::EngineKind;
use rustix::io::Errno;
use syscalls::{Sysno, syscall};

use crate::buf::Buffers;
use crate::engine::{Engine, Setup};
use crate::error::EngineError;
use crate::handles::Handles;
use crate::request::{Done, Op, OpKind, Slot};
use qd1_clock::{self as clock, Clock};

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

/// Sizes in the kernel's interface.
const _: () = assert!(size_of::<Iocb>() == 64 && size_of::<Event>() == 32);

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

/// The events follow their head at this distance.
const _: () = assert!(size_of::<Ring>() == 32);

const RING_MAGIC: u32 = 0xa10a_10a1;
const PREAD: u16 = 0;
const PWRITE: u16 = 1;
const FSYNC: u16 = 2;
const FDSYNC: u16 = 3;

pub(crate) struct Libaio {
    context: u64,
    clock: Clock,
    /// One for each slot, filled in except for what differs between its requests.
    iocbs: Vec<Iocb>,
    queue: Vec<*mut Iocb>,
    events: Vec<Event>,
    in_flight: usize,
    ring_readable: bool,
    handles: Handles,
    /// Where the kernel reads and writes; `io_destroy` comes before they are freed.
    buffers: Arc<Buffers>,
}

/// The crate's errno as rustix's, which the rest of the project uses.
fn errno(raw: syscalls::Errno) -> Errno {
    Errno::from_raw_os_error(raw.into_raw())
}

fn broken(op: &'static str, errno: Errno) -> EngineError {
    EngineError::Broken { engine: "libaio", op, errno }
}

fn timespec(wait_ns: u64) -> libc::timespec {
    libc::timespec { tv_sec: (wait_ns / 1_000_000_000) as _, tv_nsec: (wait_ns % 1_000_000_000) as _ }
}

impl Libaio {
    pub(crate) fn new(setup: Setup) -> Result<Self, EngineError> {
        let depth = setup.iodepth as usize;
        let mut context = 0u64;
        // SAFETY: io_setup writes one context handle to the address given.
        if let Err(raw) = unsafe { syscall!(Sysno::io_setup, setup.iodepth, &raw mut context) } {
            let why = match errno(raw) {
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
            clock: Clock::new(),
            iocbs: (0..u64::from(setup.iodepth)).map(|slot| Iocb { data: slot, ..Iocb::default() }).collect(),
            queue: Vec::with_capacity(depth),
            events: vec![Event::default(); depth],
            in_flight: 0,
            ring_readable,
            handles: Handles::new(&setup),
            buffers: setup.buffers,
        })
    }

    /// Describes a request to the kernel; `None` for requests that the kernel would not queue.
    #[inline(always)]
    fn prepare(&mut self, number: u32, op: &Op) -> Option<*mut Iocb> {
        let (opcode, buf) = match op.kind {
            OpKind::Read => (PREAD, self.buffers.ptr(number) as u64),
            OpKind::Write => (PWRITE, self.buffers.ptr(number) as u64),
            // The kernel refuses an fsync whose other fields are set.
            OpKind::Fsync => (FSYNC, 0),
            OpKind::Fdatasync => (FDSYNC, 0),
            OpKind::SyncFileRange | OpKind::Trim => return None,
        };
        let fd = self.handles.fd(op.file).as_raw_fd();
        let iocb = &mut self.iocbs[number as usize];
        iocb.lio_opcode = opcode;
        iocb.fildes = fd as u32;
        iocb.buf = buf;
        iocb.nbytes = u64::from(op.len);
        iocb.offset = op.offset as i64;
        Some(iocb)
    }

    /// Performs immediately what the kernel would not queue.
    #[cold]
    fn complete_now(&mut self, op: &Op) -> Done {
        let issued_ns = self.clock.now_ns();
        let result = self.handles.sync_or_trim(op);
        Done { result, issued_ns, submitted_ns: issued_ns, completed_ns: self.clock.now_ns() }
    }

    /// Hands over the iocbs that `list` points to; returns how many the kernel took.
    #[inline(always)]
    fn hand_over(&self, list: &[*mut Iocb]) -> Result<usize, Errno> {
        // SAFETY: the list holds pointers to iocbs of this engine that stay in place (the vector never grows), each
        // describing a slot's own buffer, which outlives the request.
        unsafe { syscall!(Sysno::io_submit, self.context, list.len(), list.as_ptr()) }.map_err(errno)
    }

    /// Passes the events in the mapped ring to `each`, with the time at which they were seen; no system call.
    #[inline(always)]
    fn take_ring(&mut self, mut each: impl FnMut(&Event, u64)) -> usize {
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
        let now_ns = self.clock.now_ns();
        let events = (self.context + u64::from(ring.header_length)) as *const Event;
        let nr = ring.nr;
        let mut got = 0;
        while head != tail {
            // SAFETY: head < nr, and the entry was published by the kernel as argued above.
            each(unsafe { &*events.add(head as usize) }, now_ns);
            got += 1;
            head = if head + 1 == nr { 0 } else { head + 1 };
        }
        ring.head.store(head, Ordering::Release);
        got
    }

    /// Waits for `min` events or until `until_ns`, and passes the events to `each`, with the time at which they were
    /// seen.
    #[inline(always)]
    fn getevents(
        &mut self,
        min: usize,
        until_ns: u64,
        mut each: impl FnMut(&Event, u64),
    ) -> Result<usize, EngineError> {
        let timeout;
        let timeout_ptr = if until_ns == u64::MAX {
            std::ptr::null()
        } else {
            timeout = timespec(until_ns.saturating_sub(self.clock.now_ns()));
            &raw const timeout
        };
        let (max, events) = (self.events.len(), self.events.as_mut_ptr());
        // SAFETY: events has room for max entries; timeout lives across the call.
        let outcome = unsafe { syscall!(Sysno::io_getevents, self.context, min, max, events, timeout_ptr) };
        let got = match outcome.map_err(errno) {
            Ok(got) => got,
            Err(Errno::INTR) => return Ok(0),
            Err(errno) => return Err(broken("io_getevents", errno)),
        };
        let now_ns = self.clock.now_ns();
        for event in &self.events[..got] {
            each(event, now_ns);
        }
        Ok(got)
    }
}

/// The outcome of a request that the kernel would not take.
#[cold]
fn refused(errno: Errno, issued_ns: u64, now_ns: u64) -> Done {
    Done { result: -errno.raw_os_error(), issued_ns, submitted_ns: now_ns, completed_ns: now_ns }
}

/// Returns the handler of an event: it fills in the slot's outcome and lists its number as done.
#[inline(always)]
fn deliver(slots: &mut [Slot], done: &mut Vec<u32>) -> impl FnMut(&Event, u64) {
    |event, now_ns| {
        let outcome = &mut slots[event.data as usize].done;
        outcome.result = event.res as i32;
        // A request that completed inside io_submit was seen before the stamp after it: keep the order right.
        outcome.completed_ns = now_ns.max(outcome.submitted_ns);
        done.push(event.data as u32);
    }
}

impl Engine for Libaio {
    fn kind(&self) -> EngineKind {
        EngineKind::Libaio
    }

    fn now_ns(&mut self) -> u64 {
        self.clock.now_ns()
    }

    fn queues(&self) -> bool {
        true
    }

    #[inline(always)]
    fn submit(&mut self, slots: &mut [Slot], queue: &[u32], done: &mut Vec<u32>) -> Result<usize, EngineError> {
        self.queue.clear();
        for number in queue {
            let Some(iocb) = self.prepare(*number, &slots[*number as usize].op) else { break };
            self.queue.push(iocb);
        }
        if let (true, Some(first)) = (self.queue.is_empty(), queue.first()) {
            let slot = &mut slots[*first as usize];
            slot.done = self.complete_now(&slot.op);
            done.push(*first);
            return Ok(1);
        }
        let mut taken = 0;
        while taken < self.queue.len() {
            let issued_ns = self.clock.now_ns();
            let outcome = self.hand_over(&self.queue[taken..]);
            let submitted_ns = self.clock.now_ns();
            let count = match outcome {
                Ok(count) => count,
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if taken > 0 || self.in_flight > 0 => break,
                Err(errno) => {
                    // The kernel checks the first request of a list before accepting it, and found it invalid.
                    slots[queue[taken] as usize].done = refused(errno, issued_ns, submitted_ns);
                    done.push(queue[taken]);
                    taken += 1;
                    continue;
                }
            };
            for number in &queue[taken..taken + count] {
                let outcome = &mut slots[*number as usize].done;
                outcome.issued_ns = issued_ns;
                outcome.submitted_ns = submitted_ns;
            }
            self.in_flight += count;
            taken += count;
        }
        Ok(taken)
    }

    #[inline(always)]
    fn reap(&mut self, slots: &mut [Slot], min: usize, until_ns: u64, done: &mut Vec<u32>) -> Result<(), EngineError> {
        let wanted = min.min(self.in_flight);
        let mut got = self.take_ring(deliver(slots, done));
        if min > 0 && wanted == 0 && got == 0 && until_ns != u64::MAX {
            clock::sleep_until(until_ns);
        }
        while got < wanted && (until_ns == u64::MAX || self.clock.now_ns() < until_ns) {
            got += self.getevents(wanted - got, until_ns, deliver(slots, done))?;
        }
        self.in_flight -= got;
        Ok(())
    }

    #[inline(always)]
    fn one(&mut self, number: u32, op: &Op) -> Result<Done, EngineError> {
        let Some(iocb) = self.prepare(number, op) else { return Ok(self.complete_now(op)) };
        let list = [iocb];
        let issued_ns = self.clock.now_ns();
        loop {
            match self.hand_over(&list) {
                Ok(1) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Ok(refused(errno, issued_ns, self.clock.now_ns())),
            }
        }
        let submitted_ns = self.clock.now_ns();
        let (mut result, mut completed_ns) = (0, 0);
        let mut note = |event: &Event, now_ns| (result, completed_ns) = (event.res as i32, now_ns);
        let mut got = self.take_ring(&mut note);
        while got == 0 {
            got = self.getevents(1, u64::MAX, &mut note)?;
        }
        Ok(Done { result, issued_ns, submitted_ns, completed_ns: completed_ns.max(submitted_ns) })
    }
}

impl Drop for Libaio {
    fn drop(&mut self) {
        // io_destroy waits for what is in flight, so the buffers are not touched after it.
        // SAFETY: the context came from io_setup and is destroyed once.
        let _ = unsafe { syscall!(Sysno::io_destroy, self.context) };
    }
}
