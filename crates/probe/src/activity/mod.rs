//! What the machine and its disks have done since it started: the counters behind iostat and vmstat.

mod processes;
mod rates;

pub use processes::ProcessIo;
pub use rates::{CpuShares, DiskRates, MemoryUse, PagingRates, Rates, RequestRates};

use qd1_clock as clock;

use crate::Machine;
use crate::counters::stat_fields;

/// All counters at one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Activity {
    /// When they were read, ns of CLOCK_MONOTONIC.
    pub at_ns: u64,
    /// How long the machine had been running then, ns; the first report is an average over this time.
    pub uptime_ns: u64,
    /// Disks and partitions in the kernel's order.
    pub disks: Vec<DiskActivity>,
    /// Time of all processors by kind, in the order of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq,
    /// steal. Guest time is included in the first two.
    pub cpu_ticks: [u64; 8],
    /// Interrupts.
    pub interrupts: u64,
    /// Context switches.
    pub switches: u64,
    /// Runnable tasks.
    pub running: u64,
    /// Tasks waiting for a disk.
    pub blocked: u64,
    /// To and from disks.
    pub paging: Paging,
    /// Memory in use now.
    pub memory: MemoryUse,
    /// Amounts of dirty data at which the kernel starts writeback and at which writers have to wait, KiB; `None` if
    /// unknown.
    pub dirty_limits_kib: Option<[u64; 2]>,
    /// Time in which at least one task waited for a processor, disks or memory (in this order), us; `None` without PSI.
    pub pressure_us: Option<[u64; 3]>,
}

/// KiB since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Paging {
    /// Read from disks.
    pub in_kib: u64,
    /// Written to disks.
    pub out_kib: u64,
    /// Swapped in.
    pub swap_in_kib: u64,
    /// Swapped out.
    pub swap_out_kib: u64,
}

/// Requests of one kind since the machine started.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// Completed.
    pub count: u64,
    /// Merged with another one in the queue.
    pub merges: u64,
    /// Sectors of 512 bytes.
    pub sectors: u64,
    /// Total time of all of them, ms.
    pub ticks_ms: u64,
}

/// Counters of a disk or partition: `/proc/diskstats` (`Documentation/admin-guide/iostats.rst`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskActivity {
    /// The kernel's name.
    pub name: String,
    /// Reads.
    pub reads: Requests,
    /// Writes.
    pub writes: Requests,
    /// Discards, from Linux 4.18 on.
    pub discards: Requests,
    /// Flushes, from Linux 5.5 on; they have neither merges nor sectors.
    pub flushes: Requests,
    /// Time with anything in flight, ms.
    pub busy_ms: u64,
    /// The same, weighted by the number in flight, ms.
    pub queue_ms: u64,
}

impl Machine {
    /// Reads all counters now. Counters that cannot be read are zero.
    #[must_use]
    pub fn activity(&self) -> Activity {
        let (stat, uptime) = (self.text("/proc/stat"), self.text("/proc/uptime"));
        let mut activity = Activity { at_ns: clock::now_ns(), ..Activity::default() };
        activity.disks = self.text("/proc/diskstats").lines().filter_map(disk).collect();
        activity.uptime_ns = seconds_ns(uptime.split_ascii_whitespace().next().unwrap_or_default());
        for line in stat.lines() {
            let mut words = line.split_ascii_whitespace();
            let name = words.next().unwrap_or_default();
            let numbers = words.map(|word| word.parse().unwrap_or(0));
            let mut only = numbers.clone();
            let mut only = || only.next().unwrap_or(0);
            match name {
                "cpu" => activity.cpu_ticks.iter_mut().zip(numbers).for_each(|(field, ticks)| *field = ticks),
                "intr" => activity.interrupts = only(),
                "ctxt" => activity.switches = only(),
                "procs_running" => activity.running = only(),
                "procs_blocked" => activity.blocked = only(),
                _ => {}
            }
        }
        let vmstat = self.text("/proc/vmstat");
        let pages_kib = rustix::param::page_size() as u64 / 1024;
        activity.paging = Paging {
            in_kib: named(&vmstat, "pgpgin"),
            out_kib: named(&vmstat, "pgpgout"),
            swap_in_kib: named(&vmstat, "pswpin") * pages_kib,
            swap_out_kib: named(&vmstat, "pswpout") * pages_kib,
        };
        let limits =
            ["nr_dirty_background_threshold", "nr_dirty_threshold"].map(|name| named(&vmstat, name) * pages_kib);
        activity.dirty_limits_kib = (limits[1] > 0).then_some(limits);
        let meminfo = self.text("/proc/meminfo");
        let kib = |name: &str| named(&meminfo, name);
        activity.memory = MemoryUse {
            swap_kib: kib("SwapTotal:").saturating_sub(kib("SwapFree:")),
            free_kib: kib("MemFree:"),
            buffers_kib: kib("Buffers:"),
            cache_kib: kib("Cached:") + kib("SReclaimable:"),
            dirty_kib: kib("Dirty:"),
            writeback_kib: kib("Writeback:"),
        };
        activity.pressure_us = self.pressure_us().map(|[io, memory, cpu]| [cpu, io, memory]);
        activity
    }

    /// Returns true for a whole disk, not a partition.
    #[must_use]
    pub fn is_whole_disk(&self, name: &str) -> bool {
        self.below("/sys/block").join(name.replace('/', "!")).exists()
    }
}

/// `12.34` seconds in ns.
fn seconds_ns(text: &str) -> u64 {
    let (whole, part) = text.split_once('.').unwrap_or((text, ""));
    let ns = format!("{part:0<9}");
    whole.parse::<u64>().unwrap_or(0).saturating_mul(1_000_000_000) + ns[..9].parse::<u64>().unwrap_or(0)
}

/// The number after a name at the start of a line.
fn named(text: &str, name: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix([' ', '\t']));
    line.and_then(|rest| rest.split_ascii_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// A line of `/proc/diskstats`; `None` for one with too few fields.
fn disk(line: &str) -> Option<DiskActivity> {
    let mut words = line.split_ascii_whitespace().skip(2);
    let name = words.next()?.to_owned();
    let fields = stat_fields(words)?;
    let requests = |at: usize| Requests {
        count: fields[at],
        merges: fields[at + 1],
        sectors: fields[at + 2],
        ticks_ms: fields[at + 3],
    };
    let flushes = Requests { count: fields[15], ticks_ms: fields[16], ..Requests::default() };
    let (reads, writes, discards) = (requests(0), requests(4), requests(11));
    Some(DiskActivity { name, reads, writes, discards, flushes, busy_ms: fields[9], queue_ms: fields[10] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn counters_are_read_as_the_kernel_writes_them() {
        let machine = Fixture::new()
        .file("/proc/uptime", "1234.50 2000.00\n")
        .file("/proc/stat", "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 1\nintr 77 0 1\nctxt 88\nprocs_running 3\nprocs_blocked 2\n")
        .file(
            "/proc/diskstats",
            " 254 0 vda 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17\n 7 0 loop0 1 2 3 4 5 6 7 8 9 10 11\n 1 0 short 1 2\n",
        )
        .file("/proc/vmstat", "pgpgin 100\npgpgout 200\npswpin 1\npswpout 2\npgpginx 5\nnr_dirty_threshold 8\nnr_dirty_background_threshold 4\n")
        .file("/proc/meminfo", "MemFree: 10 kB\nBuffers: 1 kB\nCached: 20 kB\nSwapCached: 9 kB\nSReclaimable: 3 kB\nDirty: 4 kB\nWriteback: 5 kB\nWritebackTmp: 6 kB\nSwapTotal: 8 kB\nSwapFree: 1 kB\n")
            .machine();
        let activity = machine.activity();
        assert_eq!(activity.uptime_ns, 1_234_500_000_000);
        assert_eq!(activity.cpu_ticks, [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!((activity.interrupts, activity.switches, activity.running, activity.blocked), (77, 88, 3, 2));
        assert_eq!((activity.paging.in_kib, activity.paging.out_kib), (100, 200));
        let memory = activity.memory;
        assert_eq!((memory.swap_kib, memory.free_kib, memory.cache_kib), (7, 10, 23));
        assert_eq!((memory.dirty_kib, memory.writeback_kib), (4, 5));
        let page_kib = rustix::param::page_size() as u64 / 1024;
        assert_eq!(activity.dirty_limits_kib, Some([4 * page_kib, 8 * page_kib]));
        let [vda, loop0] = &activity.disks[..] else { panic!("{activity:?}") };
        assert_eq!(vda.discards, Requests { count: 12, merges: 13, sectors: 14, ticks_ms: 15 });
        assert_eq!((vda.flushes.count, vda.flushes.ticks_ms, vda.busy_ms, vda.queue_ms), (16, 17, 10, 11));
        assert_eq!((loop0.name.as_str(), loop0.discards.count), ("loop0", 0));
        assert_eq!(activity.pressure_us, None);
    }
}
