//! Who else uses a disk while this process measures it, and which requests were slow there.

use anyhow::{Context as _, Result};
use aya::Ebpf;
use aya::maps::{Array, MapData, RingBuf};
use qd1_model::requests::{Op, op_of};

use crate::live::{OBJECT, Process, processes};
use crate::program::{Device, Value, attach, attach_start, load};

/// A request that took at least [`Others::SLOW_NS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// When it was completed, ns of CLOCK_MONOTONIC.
    pub complete_ns: u64,
    /// How long the device had it, ns; `None` if the kernel did not record it.
    pub device_ns: Option<u64>,
    /// What it did.
    pub op: Op,
}

/// Counts what other processes read, write and change in memory on a disk, and collects slow requests, until it is
/// dropped. For a quick request of this process, the kernel runs two programs that end at once.
pub struct Others {
    bpf: Ebpf,
    found: RingBuf<MapData>,
    sees_slow: bool,
    lost: u64,
}

impl Others {
    /// How long a slow request takes at least, ns.
    pub const SLOW_NS: u64 = 200_000;

    /// Starts counting. `has_times` is false if the kernel does not record when requests are created
    /// (`queue/iostats` is 0): slow ones are not known then.
    ///
    /// # Errors
    /// If the kernel or this user's privileges do not allow it.
    pub fn begin(disk: Device, has_times: bool) -> Result<Self> {
        let sizes = [("latencies", 1), ("syncs", 1), ("ring_syncs", 1), ("in_flight", 1), ("bios", 1)];
        let switches = [("own_pid", Value::Word(std::process::id())), ("slow_ns", Value::Long(Self::SLOW_NS))];
        let (mut bpf, btf) = load(OBJECT, Some(disk), &switches, &sizes)?;
        if !attach_start(&mut bpf, &btf, "io_seen")? {
            attach(&mut bpf, &btf, "rq_seen", "block_rq_issue")?;
        }
        // Optional: without it, it is not known what processes change in memory.
        let _ = attach(&mut bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
        let sees_slow = has_times && attach(&mut bpf, &btf, "rq_slow", "block_rq_complete").is_ok();
        let found = RingBuf::try_from(bpf.take_map("found").context("the program has no ring")?)?;
        Ok(Self { bpf, found, sees_slow, lost: 0 })
    }

    /// Returns the processes with I/O since the beginning.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub fn processes(&self) -> Result<Vec<Process>> {
        processes(&self.bpf)
    }

    /// Returns the slow requests since the last call, in the order of their completion on each processor; `None` if
    /// some are missing.
    pub fn slow_requests(&mut self) -> Option<Vec<SlowRequest>> {
        let mut all = Vec::new();
        while let Some(item) = self.found.next() {
            all.extend(slow(&item));
        }
        let lost = self.lost_so_far()?;
        let is_whole = self.sees_slow && lost == self.lost;
        self.lost = lost;
        is_whole.then_some(all)
    }

    fn lost_so_far(&self) -> Option<u64> {
        let map: Array<_, u64> = Array::try_from(self.bpf.map("slow_lost")?).ok()?;
        map.get(&0, 0).ok()
    }
}

/// Parses a `struct slow`; `None` if the length is wrong.
fn slow(bytes: &[u8]) -> Option<SlowRequest> {
    let bytes: &[u8; 24] = bytes.try_into().ok()?;
    let word = |at: usize| u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"));
    let flags = u32::from_ne_bytes(bytes[16..20].try_into().expect("four bytes"));
    let device_ns = Some(word(8)).filter(|ns| *ns > 0);
    Some(SlowRequest { complete_ns: word(0), device_ns, op: op_of(flags) })
}
