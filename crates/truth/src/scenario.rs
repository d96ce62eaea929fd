//! Draws disks: how fast and how irregular they are on their own, and the limits that a provider puts on them.
//!
//! Sources. Tiers: those of `analysis/src/limits/tiers.tsv`, with their bursts. Irregularity: Wajahat et al.
//! (Performance Evaluation 142, 2020) fit storage traces best by two-phase hyper-exponential times; two log-normal
//! modes, the second 5 to 30 times slower, are at least as irregular. Stalls and write caches come on top.

use qd1_engine::sim::{Bucket, Cache, Device, Limit, Mode, Scope, Service, Stall};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

/// The limit put on a disk, for one scope.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Truth {
    pub(crate) scope: Scope,
    pub(crate) iops: Option<f64>,
    pub(crate) bytes: Option<f64>,
    /// Requests a full bucket holds.
    pub(crate) burst_iops: f64,
    /// Bytes a full bucket holds.
    pub(crate) burst_bytes: f64,
}

/// A disk and its truth; no truth for a disk without limits.
#[derive(Clone, Debug)]
pub(crate) struct Scenario {
    pub(crate) name: String,
    pub(crate) device: Device,
    pub(crate) truths: Vec<Truth>,
}

#[derive(Clone, Debug)]
pub(crate) struct Dice(Xoshiro256PlusPlus);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    pub(crate) fn unit(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    pub(crate) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }

    pub(crate) fn chance(&mut self, share: f64) -> bool {
        self.unit() < share
    }

    /// A number below `count`.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        (self.0.next_u64() % count as u64) as usize
    }

    pub(crate) fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What a kind of disk can do on its own: latency range, ns; spread; parallel requests; bytes per second.
pub(crate) struct DiskKind {
    pub(crate) name: &'static str,
    latency_ns: (f64, f64),
    sigma: (f64, f64),
    channels: (f64, f64),
    bytes: (f64, f64),
}

pub(crate) const KINDS: [DiskKind; 4] = [
    DiskKind { name: "nvme", latency_ns: (60e3, 120e3), sigma: (0.1, 0.4), channels: (6.0, 16.0), bytes: (1e9, 6e9) },
    DiskKind {
        name: "sata",
        latency_ns: (80e3, 200e3),
        sigma: (0.1, 0.4),
        channels: (4.0, 12.0),
        bytes: (0.35e9, 0.55e9),
    },
    DiskKind {
        name: "disk",
        latency_ns: (4e6, 9e6),
        sigma: (0.25, 0.45),
        channels: (1.0, 1.0),
        bytes: (0.1e9, 0.25e9),
    },
    DiskKind {
        name: "network",
        latency_ns: (0.4e6, 2e6),
        sigma: (0.15, 0.5),
        channels: (32.0, 96.0),
        bytes: (0.8e9, 3e9),
    },
];

/// A disk on its own.
pub(crate) fn own(dice: &mut Dice, kind: &DiskKind, seed: u64) -> Device {
    let channels = dice.between(kind.channels.0, kind.channels.1 + 0.99).floor();
    let bytes = dice.log_between(kind.bytes.0, kind.bytes.1);
    let mut service = |factor: f64| {
        let median_ns = dice.log_between(kind.latency_ns.0, kind.latency_ns.1) * factor;
        let sigma = dice.between(kind.sigma.0, kind.sigma.1);
        let slow = Mode {
            weight: dice.log_between(0.003, 0.1),
            median_ns: median_ns * dice.log_between(5.0, if kind.name == "disk" { 8.0 } else { 30.0 }),
            sigma: dice.between(0.2, 0.6),
        };
        let modes = vec![Mode { weight: 1.0 - slow.weight, median_ns, sigma }, slow];
        Service { modes, per_byte_ns: channels * 1e9 / bytes, ..Service::default() }
    };
    let (read, write) = (service(1.0), service(0.8));
    // At most a tenth of the time: a bucket earns tokens during a stall, and with more stalls it would never be seen
    // empty.
    let stall = dice.chance(0.4).then(|| {
        let period_ns = dice.log_between(0.7e9, 10e9);
        Stall { period_ns: period_ns as u64, length_ns: dice.log_between(3e6, 300e6).min(0.1 * period_ns) as u64 }
    });
    let cache = dice.chance(0.35).then(|| Cache {
        capacity: dice.log_between(16e6, 1e9),
        drain: bytes * dice.between(0.2, 0.8),
        ack_ns: dice.between(10e3, 40e3).max(if kind.name == "network" { 300e3 } else { 0.0 }),
        honours_flush: true,
    });
    Device { seed, read, write, channels: channels as u32, stall, cache, ..Device::default() }
}

/// A disk without limits.
pub(crate) fn unlimited(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let kind = &KINDS[(seed % KINDS.len() as u64) as usize];
    Scenario { name: format!("{} {seed:#x}", kind.name), device: own(&mut dice, kind, seed), truths: Vec::new() }
}

/// A budget as published: rates, how far above them a burst goes (0: as fast as the disk), and how long a burst at that
/// rate lasts.
struct Budget {
    name: &'static str,
    iops: Option<f64>,
    bytes: Option<f64>,
    peak: f64,
    /// Seconds of the sustained rate that a full bucket holds.
    holds_s: f64,
    slice_ns: f64,
}

fn budget(dice: &mut Dice) -> Budget {
    let plain = |name, iops, bytes| Budget { name, iops, bytes, peak: 0.0, holds_s: 0.02, slice_ns: 0.0 };
    match dice.0.next_u64() % 8 {
        0 => plain("DigitalOcean", Some(5000.0), Some(200e6)),
        1 => plain("DigitalOcean high-CPU", Some(6000.0), Some(300e6)),
        2 => Budget { peak: 1.5, holds_s: 30.0, ..plain("Vultr HDD", Some(500.0), Some(100e6)) },
        3 => Budget { peak: 1.5, holds_s: 30.0, ..plain("Vultr NVMe", Some(10_000.0), Some(400e6)) },
        4 => {
            // 3 IOPS per GB; what is left of the credits lasts 5 to 60 s at 3,000.
            let rate = 3.0 * dice.between(34.0, 600.0).round();
            let holds_s = dice.between(5.0, 60.0) * (3000.0 - rate) / rate;
            Budget { peak: 3000.0 / rate, holds_s, ..plain("gp2", Some(rate), None) }
        }
        5 => plain(
            "gp3",
            Some(dice.pick(&[3000.0, 4000.0, 6000.0, 10_000.0, 16_000.0])),
            Some(dice.pick(&[125.0, 250.0, 500.0]) * 1_048_576.0),
        ),
        6 => {
            let iops = dice.log_between(100.0, 20_000.0).round();
            // The kernel's blk-throttle, version 6.18: slices of 100 ms on a loop device; 20 ms on SSDs in older ones.
            let slice_ns = dice.pick(&[20e6, 100e6]);
            Budget { slice_ns, holds_s: slice_ns / 1e9, ..plain("cgroup IOPS", Some(iops), None) }
        }
        _ => Budget {
            holds_s: dice.log_between(0.05, 20.0),
            ..plain("cgroup bytes", None, Some((dice.log_between(5.0, 400.0)).round() * 1e6))
        },
    }
}

/// Puts a budget on a disk.
fn put(device: &mut Device, scope: Scope, budget: &Budget) -> Truth {
    let mut truth = Truth { scope, iops: budget.iops, bytes: budget.bytes, burst_iops: 0.0, burst_bytes: 0.0 };
    for (of_bytes, rate) in [(false, budget.iops), (true, budget.bytes)] {
        let Some(rate) = rate else { continue };
        let burst = (rate * budget.holds_s).max(if of_bytes { f64::from(1 << 20) } else { 1.0 });
        let mut add = |bucket| device.limits.push(Limit { scope, of_bytes, bucket, slice_ns: budget.slice_ns });
        add(Bucket { rate, burst });
        if budget.peak > 0.0 {
            add(Bucket { rate: rate * budget.peak, burst: if of_bytes { f64::from(1 << 20) } else { 1.0 } });
        }
        *(if of_bytes { &mut truth.burst_bytes } else { &mut truth.burst_iops }) = burst;
    }
    truth
}

/// Puts one of the published budgets on a disk, for both directions together.
pub(crate) fn put_any(dice: &mut Dice, device: &mut Device) {
    let budget = budget(dice);
    put(device, Scope::Both, &budget);
}

/// A disk with limits, which on its own is at least twice as fast as they allow.
pub(crate) fn limited(seed: u64) -> Scenario {
    let mut dice = Dice::new(seed);
    let is_shared = dice.chance(0.7);
    let scopes: &[Scope] = if is_shared { &[Scope::Both] } else { &[Scope::Reads, Scope::Writes] };
    let mut budgets: Vec<(Scope, Budget)> = Vec::new();
    for scope in scopes {
        budgets.push((*scope, budget(&mut dice)));
    }
    let top = |of: fn(&Budget) -> Option<f64>| {
        budgets.iter().filter_map(|(_, budget)| Some(of(budget)? * budget.peak.max(1.0))).fold(0.0, f64::max)
    };
    let (iops, bytes) = (top(|budget| budget.iops), top(|budget| budget.bytes));
    let mut device = loop {
        let kind = &KINDS[if dice.chance(0.5) { 0 } else { 3 }];
        let device = own(&mut dice, kind, seed);
        if speed(&device, 4096) >= 2.0 * iops && speed(&device, 256 << 10) * f64::from(256 << 10) >= 1.5 * bytes {
            break device;
        }
    };
    let mut truths = Vec::new();
    for (scope, budget) in &budgets {
        let truth = put(&mut device, *scope, budget);
        truths.push(truth);
    }
    let names: Vec<&str> = budgets.iter().map(|(_, budget)| budget.name).collect();
    Scenario { name: format!("{} {seed:#x}", names.join(" / ")), device, truths }
}

/// Requests per second that a disk serves on its own with a deep queue: channels over the mean time, minus stalls.
fn speed(device: &Device, block: u32) -> f64 {
    let mean = |service: &Service| {
        let mode = |mode: &Mode| mode.weight * mode.median_ns * (mode.sigma * mode.sigma / 2.0).exp();
        service.modes.iter().map(mode).sum::<f64>() + service.per_byte_ns * f64::from(block)
    };
    let busy = device.stall.map_or(1.0, |stall| 1.0 - stall.length_ns as f64 / stall.period_ns as f64);
    let slowest = mean(&device.read).max(mean(&device.write));
    f64::from(device.channels.min(if block > 4096 { 64 } else { 128 })) * 1e9 / slowest * busy
}
