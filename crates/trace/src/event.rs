//! One completed request, as the program in the kernel reports it.

use std::borrow::Cow;

/// Length of an event in the ring, bytes: `struct event` of `bpf/trace.bpf.c`.
const LENGTH: usize = 80;
/// Longest name of a thread, with its end.
pub const COMM: usize = 16;

/// A completed request of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// When it was complete, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// From when somebody asked for it until the device got it, ns; `None` where the kernel does not say (before 6.5).
    pub queue_ns: Option<u64>,
    /// From when the device got it until it was complete, ns.
    pub device_ns: u64,
    /// First sector of 512 bytes on the disk.
    pub sector: u64,
    /// Bytes; 0 of a flush.
    pub bytes: u32,
    /// Major and minor number of the disk.
    pub device: (u32, u32),
    /// The kernel's `cmd_flags`.
    pub flags: u32,
    /// Process that asked for it; 0 for the kernel's idle task.
    pub pid: u32,
    /// Name of its thread, up to the first zero.
    pub comm: [u8; COMM],
    /// Its control group (v2), by inode; 0 without one.
    pub cgroup: u64,
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
    /// Makes durable what the device has in its cache.
    Flush,
    /// Gives up blocks.
    Discard,
    /// Anything else: zeroing, zones, passed through.
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
}

/// Bits of `cmd_flags` (`enum req_flag_bits` of linux/blk_types.h).
const SYNC: u32 = 1 << 11;
const META: u32 = 1 << 12;
const FUA: u32 = 1 << 17;
const RAHEAD: u32 = 1 << 19;

impl Event {
    /// Reads an event of the ring; `None` for one of another length.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; LENGTH] = bytes.get(..LENGTH)?.try_into().ok()?;
        let u64_at = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
        let u32_at = |at: usize| u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"));
        let device = u32_at(44);
        Some(Self {
            complete_ns: u64_at(0),
            queue_ns: (u32_at(60) != 0).then(|| u64_at(8)),
            device_ns: u64_at(16),
            sector: u64_at(24),
            cgroup: u64_at(32),
            bytes: u32_at(40),
            device: (device >> 20, device & 0xf_ffff),
            flags: u32_at(48),
            pid: u32_at(52),
            // Older kernels report a negative error number, newer ones (5.16, and others that took it over) a block status.
            errno: match u32_at(56).cast_signed() {
                errno @ ..0 => errno.unsigned_abs(),
                status => errno_of(status.unsigned_abs()),
            },
            comm: bytes[LENGTH - COMM..].try_into().expect("as long as a name"),
        })
    }

    /// Returns what it does.
    #[must_use]
    pub const fn op(&self) -> Op {
        match self.flags & 0xff {
            0 => Op::Read,
            1 => Op::Write,
            2 => Op::Flush,
            3 => Op::Discard,
            _ => Op::Other,
        }
    }

    /// Returns the name of its thread.
    #[must_use]
    pub fn comm(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(name(&self.comm))
    }

    /// Returns true if its thread has this name.
    #[must_use]
    pub fn is_of(&self, comm: &str) -> bool {
        name(&self.comm) == comm.as_bytes()
    }

    /// Returns its kind in blktrace's letters: R, W, F(lush), D(iscard) or N, then F(UA), A(head), S(ync), M(etadata).
    #[must_use]
    pub fn letters(&self) -> String {
        let first = match self.op() {
            Op::Read => 'R',
            Op::Write => 'W',
            Op::Flush => 'F',
            Op::Discard => 'D',
            Op::Other => 'N',
        };
        let more = [(FUA, 'F'), (RAHEAD, 'A'), (SYNC, 'S'), (META, 'M')];
        [first]
            .into_iter()
            .chain(more.into_iter().filter(|(bit, _)| self.flags & bit != 0).map(|(_, name)| name))
            .collect()
    }

    /// Returns the whole time of the request, ns: in the queue, as far as it is known, and in the device.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        self.queue_ns.unwrap_or(0).saturating_add(self.device_ns)
    }
}

/// A name up to its end.
fn name(comm: &[u8; COMM]) -> &[u8] {
    &comm[..comm.iter().position(|byte| *byte == 0).unwrap_or(COMM)]
}

/// The error number of a block status (`blk_errors` of block/blk-core.c); EIO for those that moved between versions.
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
    use super::*;

    #[test]
    fn an_event_is_read_as_the_kernel_lays_it_out() {
        let mut bytes = Vec::new();
        for value in [9_000_000u64, 1_000, 2_000, 2_048, 7] {
            bytes.extend(value.to_ne_bytes());
        }
        for value in [4096u32, 254 << 20 | 16, 1 | SYNC | FUA, 42, 10, 1] {
            bytes.extend(value.to_ne_bytes());
        }
        bytes.extend(b"etcd\0garbage....");
        let event = Event::parse(&bytes).unwrap();
        assert_eq!((event.complete_ns, event.queue_ns, event.device_ns), (9_000_000, Some(1_000), 2_000));
        assert_eq!((event.sector, event.cgroup, event.bytes, event.device), (2_048, 7, 4096, (254, 16)));
        assert_eq!((event.pid, event.errno, &*event.comm()), (42, 5, "etcd"));
        assert_eq!((event.op(), event.letters().as_str(), event.total_ns()), (Op::Write, "WFS", 3_000));
        bytes[60] = 0;
        assert_eq!(Event::parse(&bytes).unwrap().queue_ns, None, "its start was not seen");
        bytes[56..60].copy_from_slice(&(-28i32).to_ne_bytes());
        assert_eq!(Event::parse(&bytes).unwrap().errno, 28, "an error number of kernels before 5.16");
        assert_eq!(Event::parse(&bytes[..LENGTH - 1]), None);
    }
}
