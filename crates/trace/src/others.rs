//! Which other processes use a disk while this one measures it.

use anyhow::Result;
use aya::Ebpf;

use crate::live::{OBJECT, Process, processes};
use crate::program::{Device, attach, attach_start, load};

/// Counts what other processes read, write and change in memory on a disk, until it is dropped. For this process's own
/// requests, the kernel runs one program that ends at once.
pub struct Others {
    bpf: Ebpf,
}

impl Others {
    /// Starts counting.
    ///
    /// # Errors
    /// If the kernel or this user's privileges do not allow it.
    pub fn begin(disk: Device) -> Result<Self> {
        let sizes = [("latencies", 1), ("syncs", 1), ("in_flight", 1), ("found", 4096)];
        let (mut bpf, btf) = load(OBJECT, Some(disk), &[("own_pid", std::process::id())], &sizes)?;
        if !attach_start(&mut bpf, &btf, "io_seen")? {
            attach(&mut bpf, &btf, "rq_seen", "block_rq_issue")?;
        }
        // Optional: without it, it is not known what processes change in memory.
        let _ = attach(&mut bpf, &btf, "folio_dirtied", "writeback_dirty_folio");
        Ok(Self { bpf })
    }

    /// Returns the processes with I/O since the beginning.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub fn processes(&self) -> Result<Vec<Process>> {
        processes(&self.bpf)
    }
}
