//! Rates between two readings, computed as by iostat (sysstat 12) and vmstat (procps 4).

use super::{Activity, DiskActivity, Requests};

/// What happened between two readings, or since the machine started.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rates {
    /// Length of the interval, s.
    pub seconds: f64,
    /// Shares of the total processor time.
    pub cpu: CpuShares,
    /// By disk and partition.
    pub disks: Vec<DiskRates>,
    /// To and from disks.
    pub paging: PagingRates,
    /// Interrupts per second.
    pub interrupts: f64,
    /// Context switches per second.
    pub switches: f64,
    /// Percent of the time in which at least one task waited for a processor, disks or memory; `None` without PSI.
    pub pressure: Option<[f64; 3]>,
}

/// Percent of the total processor time.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuShares {
    /// Programs, guests included.
    pub user: f64,
    /// Programs of a lower priority.
    pub nice: f64,
    /// The kernel, interrupts included.
    pub system: f64,
    /// Idle while a task waited for a disk.
    pub iowait: f64,
    /// Used by other virtual machines of the host.
    pub steal: f64,
    /// Idle.
    pub idle: f64,
}

/// KiB in use now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryUse {
    /// In swap.
    pub swap_kib: u64,
    /// Unused.
    pub free_kib: u64,
    /// Caches of block devices.
    pub buffers_kib: u64,
    /// File caches, and the kernel's own reclaimable memory.
    pub cache_kib: u64,
    /// Changed but not yet written to a disk.
    pub dirty_kib: u64,
    /// On its way to a disk.
    pub writeback_kib: u64,
}

/// KiB per second.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct PagingRates {
    /// Swapped in.
    pub swap_in: f64,
    /// Swapped out.
    pub swap_out: f64,
    /// Read from disks.
    pub blocks_in: f64,
    /// Written to disks.
    pub blocks_out: f64,
}

/// A row of `iostat -x`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskRates {
    /// The kernel's name.
    pub name: String,
    /// Reads.
    pub reads: RequestRates,
    /// Writes.
    pub writes: RequestRates,
    /// Discards.
    pub discards: RequestRates,
    /// Flushes.
    pub flushes: RequestRates,
    /// Requests in flight, on average (`aqu-sz`).
    pub in_flight: f64,
    /// Percent of the time with anything in flight (`%util`).
    pub busy: f64,
    /// Whether it ever had a request.
    pub is_used: bool,
}

/// Requests of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RequestRates {
    /// Per second (`r/s`).
    pub per_second: f64,
    /// KiB per second (`rkB/s`).
    pub kib: f64,
    /// Merged per second (`rrqm/s`).
    pub merges: f64,
    /// Percent of all requests that were merged (`%rrqm`).
    pub merged: f64,
    /// Mean time of a request in the queue and the device, ms (`r_await`).
    pub await_ms: f64,
    /// Mean size, KiB (`rareq-sz`).
    pub size_kib: f64,
}

/// A quotient, or 0 if the divisor is 0.
fn over(value: f64, by: f64) -> f64 {
    if by > 0.0 { value / by } else { 0.0 }
}

impl Activity {
    /// Returns what happened since `before`, or since the machine started.
    #[must_use]
    pub fn rates(&self, before: Option<&Self>) -> Rates {
        let none = Self::default();
        let ns = before.map_or(self.uptime_ns, |before| self.at_ns.saturating_sub(before.at_ns));
        let before = before.unwrap_or(&none);
        let seconds = ns as f64 / 1e9;
        let rate = |now: u64, before: u64| over(now.saturating_sub(before) as f64, seconds);
        let disk = |disk: &DiskActivity| {
            let same = |earlier: &&DiskActivity| earlier.name == disk.name;
            disk.rates(before.disks.iter().find(same).unwrap_or(&DiskActivity::default()), seconds)
        };
        let pressure = |now: [u64; 3], before: [u64; 3]| {
            std::array::from_fn(|which| (rate(now[which], before[which]) / 1e4).min(100.0))
        };
        Rates {
            seconds,
            cpu: self.cpu(before),
            disks: self.disks.iter().map(disk).collect(),
            paging: PagingRates {
                swap_in: rate(self.paging.swap_in_kib, before.paging.swap_in_kib),
                swap_out: rate(self.paging.swap_out_kib, before.paging.swap_out_kib),
                blocks_in: rate(self.paging.in_kib, before.paging.in_kib),
                blocks_out: rate(self.paging.out_kib, before.paging.out_kib),
            },
            interrupts: rate(self.interrupts, before.interrupts),
            switches: rate(self.switches, before.switches),
            pressure: self.pressure_us.map(|now| pressure(now, before.pressure_us.unwrap_or_default())),
        }
    }

    fn cpu(&self, before: &Self) -> CpuShares {
        // The idle time may decrease if a processor was taken offline.
        let ticks: [f64; 8] =
            std::array::from_fn(|kind| self.cpu_ticks[kind].saturating_sub(before.cpu_ticks[kind]) as f64);
        let all: f64 = ticks.iter().sum();
        let [user, nice, system, idle, iowait, irq, softirq, steal] = ticks.map(|ticks| over(ticks * 100.0, all));
        CpuShares { user, nice, system: system + irq + softirq, iowait, steal, idle }
    }
}

impl DiskActivity {
    fn rates(&self, before: &Self, seconds: f64) -> DiskRates {
        let of = |kind: fn(&Self) -> &Requests| kind(self).rates(kind(before), seconds);
        let share = |now: u64, before: u64| over(now.saturating_sub(before) as f64 / 1e3, seconds);
        let all = [&self.reads, &self.writes, &self.discards, &self.flushes];
        DiskRates {
            name: self.name.clone(),
            reads: of(|disk| &disk.reads),
            writes: of(|disk| &disk.writes),
            discards: of(|disk| &disk.discards),
            flushes: of(|disk| &disk.flushes),
            in_flight: share(self.queue_ms, before.queue_ms),
            busy: (share(self.busy_ms, before.busy_ms) * 100.0).min(100.0),
            is_used: all.iter().any(|requests| requests.count > 0),
        }
    }
}

impl Requests {
    /// Counters that were reset, for example because the name now belongs to another device, count as zero.
    fn rates(&self, before: &Self, seconds: f64) -> RequestRates {
        let change = |now: u64, before: u64| now.saturating_sub(before) as f64;
        let (count, merges) = (change(self.count, before.count), change(self.merges, before.merges));
        let kib = change(self.sectors, before.sectors) / 2.0;
        RequestRates {
            per_second: over(count, seconds),
            kib: over(kib, seconds),
            merges: over(merges, seconds),
            merged: over(merges * 100.0, merges + count),
            await_ms: over(change(self.ticks_ms, before.ticks_ms), count),
            size_kib: over(kib, count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disk(count: u64) -> DiskActivity {
        let requests = |per: u64| Requests { count, merges: count / 2, sectors: count * per, ticks_ms: count * 3 };
        DiskActivity {
            name: "vda".to_owned(),
            reads: requests(8),
            writes: requests(16),
            busy_ms: count * 5,
            queue_ms: count * 6,
            ..DiskActivity::default()
        }
    }

    #[test]
    fn rates_are_those_of_iostat_and_vmstat() {
        let at = |seconds: u64, count: u64| Activity {
            at_ns: seconds * 1_000_000_000,
            disks: vec![disk(count)],
            cpu_ticks: [10 * count, 0, 4 * count, 80 * count, 3 * count, count, count, count],
            switches: count * 7,
            pressure_us: Some([count * 100_000, 0, 0]),
            ..Activity::default()
        };
        let rates = at(12, 300).rates(Some(&at(10, 100)));
        let vda = &rates.disks[0];
        assert_eq!((vda.reads.per_second, vda.reads.kib, vda.reads.merges), (100.0, 400.0, 50.0));
        assert!((vda.reads.merged - 100.0 / 3.0).abs() < 1e-9, "{vda:?}");
        assert_eq!((vda.reads.await_ms, vda.reads.size_kib, vda.writes.size_kib), (3.0, 4.0, 8.0));
        assert_eq!((vda.busy, vda.in_flight, vda.flushes.await_ms), (50.0, 0.6, 0.0));
        assert_eq!((rates.cpu.user, rates.cpu.system, rates.cpu.idle), (10.0, 6.0, 80.0));
        assert_eq!((rates.switches, rates.pressure.map(|[cpu, ..]| cpu)), (700.0, Some(100.0)));
    }

    #[test]
    fn counters_that_were_reset_do_not_give_huge_rates() {
        let [before, now] =
            [900, 20].map(|count| Activity { at_ns: count, disks: vec![disk(count)], ..Activity::default() });
        let rates = Activity { at_ns: 2_000_000_000, ..now }.rates(Some(&before));
        assert_eq!(rates.disks[0].reads, RequestRates::default());
    }
}
