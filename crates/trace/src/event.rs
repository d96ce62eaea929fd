//! The events that the BPF programs report.

use qd1_model::requests::{Asker, COMM, Request, Sync};

use crate::program::call_name;

/// Length of an event in the ring buffer, bytes: `struct event` of `bpf/trace.bpf.c`.
const LENGTH: usize = 88;
/// Values of an event's `kind`.
const REQUEST: u32 = 0;
const REQUEST_WITH_START: u32 = 1;
const SYNC: u32 = 2;
const RELEASED: u32 = 3;
const DIRTIED: u32 = 4;
/// Added to `kind` if a kernel thread issued the request.
const KERNELS: u32 = 0x100;
/// Added to `kind` of a sync that is a request of io_uring.
const OF_RING: u32 = 0x200;

/// An event in the ring buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A completed request.
    Request(Request),
    /// A sync that is over.
    Sync(Sync, Via),
    /// A request that a control group's limit had held back was released.
    Released(Released),
    /// A thread changed files in memory, which will be written back.
    Dirtied(Dirtied),
}

/// How a sync was called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Via {
    /// By a system call.
    Call,
    /// As a request of io_uring, which other threads of the kernel may serve.
    Ring,
}

/// A control group's limit released a request to the disk. It is not known since when the request had been held back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Released {
    /// When it was released, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// Bytes.
    pub bytes: u32,
    /// The I/O control group that is charged for it, by the kernel's id.
    pub blkcg: u32,
}

/// File data that a thread changed in memory, reported about every 1 MiB; it is written to the disk later.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dirtied {
    /// When the last part of it was changed, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// Bytes.
    pub bytes: u32,
    /// Who changed it.
    pub asker: Asker,
}

impl Event {
    /// Parses an event from the ring buffer; `None` if its length or kind is unknown.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let [complete_ns, queue_ns, took_ns, sector, cgroup] = [0, 8, 16, 24, 56].map(u64_at);
        let [size, device, flags, error, kind, blkcg, pid, tid] = [32, 36, 40, 44, 48, 52, 64, 68].map(u32_at);
        let device = (device >> 20, device & 0xf_ffff);
        let (kind, is_kernels, is_of_ring) = (kind & !(KERNELS | OF_RING), kind & KERNELS != 0, kind & OF_RING != 0);
        let asker =
            Asker { is_kernels, pid, tid, comm: bytes[LENGTH - COMM..].try_into().expect("as long as a name"), cgroup };
        // Older kernels report a negative error number, newer ones (5.16 and later, and those with a backport) a block
        // status.
        let errno = match error.cast_signed() {
            errno @ ..0 => errno.unsigned_abs(),
            status => errno_of(status.unsigned_abs()),
        };
        Some(match kind {
            REQUEST | REQUEST_WITH_START => Self::Request(Request {
                complete_ns,
                queue_ns: (kind == REQUEST_WITH_START).then_some(queue_ns),
                device_ns: took_ns,
                sector,
                bytes: size,
                device,
                flags,
                asker,
                blkcg,
                errno,
            }),
            SYNC => Self::Sync(
                Sync {
                    complete_ns,
                    took_ns,
                    run_delay_ns: queue_ns,
                    inode: sector,
                    bytes: size,
                    device,
                    call: call_name(flags),
                    blkcg,
                    asker,
                    errno,
                },
                if is_of_ring { Via::Ring } else { Via::Call },
            ),
            RELEASED => Self::Released(Released { complete_ns, device, bytes: size, blkcg }),
            DIRTIED => Self::Dirtied(Dirtied { complete_ns, device, bytes: size, asker }),
            _ => return None,
        })
    }

    /// Returns when it ended, ns of CLOCK_MONOTONIC.
    #[must_use]
    pub const fn complete_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.complete_ns,
            Self::Sync(sync, _) => sync.complete_ns,
            Self::Released(released) => released.complete_ns,
            Self::Dirtied(dirtied) => dirtied.complete_ns,
        }
    }
}

/// The error number of a block status (`blk_errors` of block/blk-core.c); EIO for statuses whose number differs
/// between versions.
fn errno_of(status: u32) -> u32 {
    match status {
        0 => 0,
        // EOPNOTSUPP, ETIMEDOUT, ENOSPC, ENOLINK, EREMOTEIO, EBADE, ENODATA, EILSEQ, ENOMEM, EAGAIN, EBUSY
        1 => 95,
        2 => 110,
        3 => 28,
        4 => 67,
        5 => 121,
        6 => 52,
        7 => 61,
        8 => 84,
        9 => 12,
        12 => 11,
        13 => 16,
        _ => 5,
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::requests::Op;

    use super::*;

    #[test]
    fn events_are_read_as_the_kernel_lays_them_out() {
        let event = |kind: u32, error: i32| {
            let mut bytes = Vec::new();
            [9_000_000u64, 1_000, 2_000, 2_048].iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
            for value in [
                4096u32,
                254 << 20 | 16,
                Op::Write.flags() | Request::flags(true, false, true, false),
                error.cast_unsigned(),
                kind,
                9,
            ] {
                bytes.extend(value.to_ne_bytes());
            }
            bytes.extend(7u64.to_ne_bytes());
            [42u32, 43].iter().for_each(|value| bytes.extend(value.to_ne_bytes()));
            bytes.extend(b"etcd\0garbage....");
            bytes
        };
        let read = |kind, error| Event::parse(&event(kind, error));
        let Some(Event::Request(request)) = read(1, 10) else { panic!("a request") };
        assert_eq!((request.complete_ns, request.queue_ns, request.device_ns), (9_000_000, Some(1_000), 2_000));
        assert_eq!((request.sector, request.bytes, request.device), (2_048, 4096, (254, 16)));
        let asker = request.asker;
        assert_eq!((asker.pid, asker.tid, asker.cgroup, &*asker.name()), (42, 43, 7, "etcd"));
        assert_eq!((request.errno, request.op(), request.letters().as_str()), (5, Op::Write, "WFS"));
        assert_eq!(request.total_ns(), 3_000);
        let Some(Event::Request(request)) = read(0, -28) else { panic!("a request") };
        assert_eq!((request.queue_ns, request.errno), (None, 28), "no start time; an error number as before 5.16");
        let Some(Event::Sync(sync, via)) = read(2, -5) else { panic!("a sync") };
        assert_eq!(via, Via::Call);
        assert!(matches!(read(OF_RING | 2, 0), Some(Event::Sync(_, Via::Ring))));
        assert_eq!((sync.took_ns, sync.run_delay_ns, sync.inode, sync.errno), (2_000, 1_000, 2_048, 5));
        assert!(matches!(read(3, 0), Some(Event::Released(Released { blkcg: 9, bytes: 4096, .. }))));
        assert!(matches!(read(4, 0), Some(Event::Dirtied(Dirtied { bytes: 4096, .. }))));
        assert_eq!(read(5, 0), None);
        assert_eq!(Event::parse(&event(1, 0)[..LENGTH - 1]), None);
    }
}
