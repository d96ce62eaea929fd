//! Draws disks of the nine kinds: what each consists of, who disturbs it, and what its machine says about it.
//!
//! Parameters are those of components (heads, links, caches, neighbours), from the sources named next to them; the
//! simulated device computes what a measurement sees of them. Behind a hypervisor each request takes 8 to 40 us longer
//! (S. Hajnoczi, KVM Forum 2020), and labels are the hypervisor's.

use qd1_engine::sim::{Bucket, Cache, Device, Link, Mechanics, Mode, Neighbours, Service};
use qd1_model::identity::StorageKind;

use crate::scenario::Dice;

/// What a disk's machine says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Labels {
    /// A dedicated machine, whose labels are right.
    Right,
    /// A virtual machine: virtio, and a flag that means nothing.
    Virtual,
    /// A container that sees no device.
    None,
    /// A device that poses as another kind: an emulated controller under a hypervisor that hides itself.
    Wrong,
}

/// A disk and the truth about it.
#[derive(Clone, Debug)]
pub(crate) struct Drawn {
    pub(crate) kind: StorageKind,
    pub(crate) labels: Labels,
    /// In words, with the seed.
    pub(crate) name: String,
    pub(crate) device: Device,
    /// The dice after the disk, for the rest of its machine.
    pub(crate) dice: Dice,
}

/// A disk of `kind`.
pub(crate) fn draw(kind: StorageKind, seed: u64) -> Drawn {
    let mut dice = Dice::new(seed);
    let labels = match dice.between(0.0, 1.0) {
        share if share < 0.4 => Labels::Right,
        share if share < 0.75 => Labels::Virtual,
        share if share < 0.9 => Labels::None,
        _ => Labels::Wrong,
    };
    let (what, mut device) = match kind {
        StorageKind::Nvme => nvme(&mut dice),
        StorageKind::SataSsd => sata(&mut dice),
        StorageKind::Rotating => rotating(&mut dice),
        StorageKind::NetworkBlock => volume(&mut dice),
        StorageKind::NetworkFile => file_server(&mut dice),
        StorageKind::RaidCache => raid(&mut dice),
        StorageKind::Oversold => oversold(&mut dice),
        StorageKind::FileBacked => image(&mut dice),
        StorageKind::Ram => memory(&mut dice),
    };
    // Neighbours share what a provider rents out; an image is behind its hypervisor or its loop device.
    let is_virtual = matches!(labels, Labels::Virtual | Labels::Wrong)
        || kind == StorageKind::Oversold
        || kind == StorageKind::FileBacked;
    if is_virtual {
        let way_ns = dice.log_between(8e3, 40e3);
        // In front of memory, half of that time is work of the host's thread, which serves one request at a time.
        let works = matches!(kind, StorageKind::FileBacked | StorageKind::Ram);
        let (link_ns, work_ns) = if works { (way_ns / 2.0, way_ns / 2.0) } else { (way_ns, 0.0) };
        for service in [&mut device.read, &mut device.write, &mut device.flush] {
            service.modes.iter_mut().for_each(|mode| mode.median_ns += work_ns);
        }
        let none = Link { round_trip_ns: 0.0, sigma: 0.15, per_byte_ns: 0.02, sends_flushes: true };
        device.link.get_or_insert(none).round_trip_ns += link_ns;
    }
    if kind != StorageKind::Oversold {
        device.neighbours = Some(quiet(&mut dice, is_virtual));
    }
    device.seed = seed;
    Drawn { kind, labels, name: format!("{} {what} {seed:#x}", kind.name()), device, dice }
}

/// What every machine has: a level that drifts by a few percent, and an occasional wait.
fn quiet(dice: &mut Dice, is_virtual: bool) -> Neighbours {
    let more = if is_virtual { 1.5 } else { 1.0 };
    Neighbours {
        sigma: dice.log_between(0.003, 0.03) * more,
        memory_ns: dice.log_between(0.3e9, 5e9),
        stalls_per_s: if dice.chance(0.5) { dice.log_between(0.02, 0.2) * more } else { 0.0 },
        stall_ns: dice.log_between(0.5e6, 12e6),
        stall_sigma: 0.5,
    }
}

/// A service with a rare slow phase: Wajahat et al. (Performance Evaluation 142, 2020) fit two phases best.
fn service(dice: &mut Dice, median_ns: (f64, f64), slow: (f64, f64), times: (f64, f64), per_byte_ns: f64) -> Service {
    let median_ns = dice.log_between(median_ns.0, median_ns.1);
    let weight = dice.log_between(slow.0, slow.1);
    let slow = Mode { weight, median_ns: median_ns * dice.log_between(times.0, times.1), sigma: 0.3 };
    let usual = Mode { weight: 1.0 - weight, median_ns, sigma: dice.between(0.05, 0.2) };
    Service { modes: vec![usual, slow], per_byte_ns, ..Service::default() }
}

fn plain(dice: &mut Dice, median_ns: (f64, f64), sigma: (f64, f64)) -> Service {
    Service::log_normal(dice.log_between(median_ns.0, median_ns.1), dice.between(sigma.0, sigma.1))
}

/// Sequential reads may find data ready, as part of the page in the controller: the first mode's time multiplied by a
/// factor.
fn ready(dice: &mut Dice, read: &Service, chance: f64) -> Option<Service> {
    let factor = dice.between(0.25, 0.7);
    dice.chance(chance).then(|| Service {
        modes: vec![Mode { median_ns: read.modes[0].median_ns * factor, ..read.modes[0] }],
        per_byte_ns: read.per_byte_ns,
        ..Service::default()
    })
}

/// Data sheets: 970 EVO Plus and 980 PRO (17k-22k reads/s and 60k writes/s at depth 1, 250k-600k at 32, 1.6-7 GB/s);
/// data-centre drives 70-115 us and 10-26 us; Optane P4800X 10 us. Flushes: M. Callaghan, smalldatum 2026-01-07.
fn nvme(dice: &mut Dice) -> (&'static str, Device) {
    let pick = dice.between(0.0, 1.0);
    let (what, reads, writes, flushes, channels, rate) = match pick {
        p if p < 0.5 => ("consumer", (43e3, 100e3), (11e3, 28e3), (0.4e6, 4.5e6), (14.0, 40.0), (1.6e9, 6e9)),
        p if p < 0.9 => ("capacitors", (70e3, 115e3), (10e3, 26e3), (6e3, 60e3), (20.0, 60.0), (2e9, 6e9)),
        _ => ("optane", (8.5e3, 13e3), (8.5e3, 14e3), (1.5e3, 10e3), (5.0, 8.0), (2.1e9, 2.6e9)),
    };
    let per_byte_ns = 1e9 / dice.log_between(rate.0, rate.1);
    let read = service(dice, reads, (3e-4, 0.01), (3.0, 12.0), per_byte_ns);
    let sequential = ready(dice, &read, if what == "optane" { 0.0 } else { 0.6 });
    let write = service(dice, writes, (1e-3, 0.01), (5.0, 30.0), per_byte_ns);
    let flush = plain(dice, flushes, (0.1, 0.4));
    let channels = dice.log_between(channels.0, channels.1) as u32;
    (what, Device { read, write, flush, sequential, channels, ..Device::default() })
}

/// Data sheets: 860 and 870 EVO (10k-13k reads/s, 36k-42k writes/s, 98k at depth 32, 550 MB/s); AnandTech, "Enterprise
/// SATA 2020 vs 2017": 100-200 us at depth 1.
fn sata(dice: &mut Dice) -> (&'static str, Device) {
    let is_consumer = dice.chance(0.5);
    let (what, reads, writes, flushes, channels) = if is_consumer {
        ("consumer", (74e3, 130e3), (23e3, 42e3), (0.8e6, 6e6), (6.0, 11.0))
    } else {
        ("capacitors", (95e3, 210e3), (32e3, 75e3), (12e3, 160e3), (8.0, 15.0))
    };
    let per_byte_ns = 1e9 / dice.between(480e6, 555e6);
    let read = service(dice, reads, (5e-4, 0.015), (3.0, 15.0), per_byte_ns);
    let sequential = ready(dice, &read, if is_consumer { 0.9 } else { 0.7 });
    let write = service(dice, writes, (1e-3, 0.02), (5.0, 40.0), per_byte_ns);
    let flush = plain(dice, flushes, (0.1, 0.4));
    let channels = dice.between(channels.0, channels.1) as u32;
    (what, Device { read, write, flush, sequential, channels, ..Device::default() })
}

/// OEM specifications: Ultrastar 7K4000 and DC HC310, Travelstar 5K320, Ultrastar 15K450, and 10,000 rpm between.
fn mechanics(dice: &mut Dice, for_servers: bool) -> (&'static str, Mechanics) {
    // Name, revolutions a minute, average seek, seek from track to track.
    type Choice = (&'static str, f64, (f64, f64), (f64, f64));
    let choices: [Choice; 3] = if for_servers {
        [
            ("7200", 7200.0, (7.4e6, 8.5e6), (0.23e6, 0.8e6)),
            ("10k", 10_000.0, (3.7e6, 4.6e6), (0.2e6, 0.5e6)),
            ("15k", 15_000.0, (3.1e6, 3.8e6), (0.2e6, 0.5e6)),
        ]
    } else {
        [
            ("7200", 7200.0, (7.4e6, 9.0e6), (0.23e6, 1.0e6)),
            ("5400", 5400.0, (11e6, 14e6), (0.8e6, 1.2e6)),
            ("10k", 10_000.0, (3.7e6, 4.6e6), (0.2e6, 0.5e6)),
        ]
    };
    let (what, rpm, average, settle) = choices[dice.below(choices.len())];
    let revolution_ns = 60e9 / rpm;
    let mechanics = Mechanics {
        capacity: dice.log_between(0.3e12, 12e12),
        track_bytes: dice.between(100e6, 250e6) * revolution_ns / 1e9,
        settle_ns: dice.log_between(settle.0, settle.1),
        average_ns: dice.between(average.0, average.1),
        revolution_ns,
        arms: 1,
        stripe: 262_144.0,
        // Little of a disk's 8 to 256 MB cache holds randomly read data: it has only a few dozen segments.
        buffer: if dice.chance(0.5) { dice.log_between(1e6, 8e6) } else { 0.0 },
    };
    (what, mechanics)
}

fn with_heads(dice: &mut Dice, mechanics: Mechanics) -> Device {
    // In addition to head movement: the controller, and now and then a sector that is read again.
    let mut read = plain(dice, (60e3, 200e3), (0.05, 0.15));
    let again = Mode { weight: dice.log_between(2e-4, 3e-3), median_ns: dice.log_between(15e6, 60e6), sigma: 0.3 };
    read.modes.push(again);
    let write = plain(dice, (60e3, 200e3), (0.05, 0.15));
    let sequential = Some(plain(dice, (45e3, 120e3), (0.05, 0.2)));
    Device { read, write, sequential, channels: mechanics.arms, mechanics: Some(mechanics), ..Device::default() }
}

fn rotating(dice: &mut Dice) -> (&'static str, Device) {
    let (what, mechanics) = mechanics(dice, false);
    let mut device = with_heads(dice, mechanics);
    if dice.chance(0.6) {
        // Its cache answers; a flush is a seek and the rest of a revolution or two.
        let ack_ns = dice.log_between(40e3, 250e3);
        device.cache = Some(Cache { capacity: 16e6, drain: 1e9, ack_ns, honours_flush: true });
        let way_ns = mechanics.settle_ns + mechanics.revolution_ns;
        device.flush = plain(dice, (0.5 * way_ns, 1.6 * way_ns), (0.2, 0.4));
    } else {
        device.flush = plain(dice, (2e3, 3e6), (0.1, 0.3));
    }
    (what, device)
}

/// Like a single disk, in an array of 4 to 16; the controller's cache preserves writes through a power cut, so that a
/// flush ends there.
fn raid(dice: &mut Dice) -> (&'static str, Device) {
    let (what, mut mechanics) = mechanics(dice, true);
    mechanics.arms = dice.between(4.0, 16.99) as u32;
    mechanics.stripe = dice.pick(&[65_536.0, 262_144.0, 1_048_576.0]);
    let mut device = with_heads(dice, mechanics);
    let (ack_ns, drain) = (dice.log_between(30e3, 220e3), f64::from(mechanics.arms) * dice.between(40e6, 120e6));
    device.cache = Some(Cache { capacity: dice.log_between(0.5e9, 4e9), drain, ack_ns, honours_flush: false });
    (what, device)
}

/// Providers' pages: single-digit milliseconds at most, sub-millisecond for the better volumes, 125 MB/s to 1,000
/// MiB/s, 3,000 IOPS and up; Hyperdisk does 2,000 reads/s at depth 1. Writes are there twice or three times before the
/// answer.
fn volume(dice: &mut Dice) -> (&'static str, Device) {
    let total_ns = dice.log_between(280e3, 2.2e6);
    let (part, sigma) = (dice.between(0.15, 0.45), dice.between(0.1, 0.3));
    let sends_flushes = dice.chance(0.4);
    let link = Link { round_trip_ns: total_ns * part, sigma, per_byte_ns: dice.log_between(0.32, 0.85), sends_flushes };
    let at_ns = total_ns * (1.0 - part);
    let per_byte_ns = dice.log_between(0.2, 1.0);
    let mut read = service(dice, (at_ns, at_ns * 1.001), (3e-3, 0.02), (2.5, 8.0), per_byte_ns);
    read.modes[0].sigma = dice.between(0.12, 0.4);
    let dearer = dice.between(0.9, 1.9);
    let mut write = read.clone();
    write.modes.iter_mut().for_each(|mode| mode.median_ns *= dearer);
    let flush = plain(dice, (0.3 * total_ns, 1.3 * total_ns), (0.1, 0.4));
    let rate = dice.pick(&[125e6, 131e6, 200e6, 262e6, 524e6, 1049e6, 0.0]);
    let bytes = (rate > 0.0).then_some(Bucket { rate, burst: 1e6 });
    let rate = dice.pick(&[3000.0, 5000.0, 6000.0, 10_000.0, 16_000.0, 0.0]);
    let iops = (rate > 0.0).then_some(Bucket { rate, burst: rate * 0.02 });
    let channels = dice.between(32.0, 96.0) as u32;
    ("volume", Device { read, write, flush, channels, link: Some(link), bytes, iops, ..Device::default() })
}

/// EFS: reads about 1 ms, writes about 2.7 ms (AWS documentation); a server in the same network: 0.1-0.5 ms there and
/// back, 1, 10 or 25 Gbit/s, its cache, and its disks behind a durable write.
fn file_server(dice: &mut Dice) -> (&'static str, Device) {
    let answers_when_durable = dice.chance(0.6);
    let link = Link {
        round_trip_ns: dice.log_between(120e3, 500e3),
        sigma: dice.between(0.08, 0.3),
        per_byte_ns: dice.pick(&[8.6, 8.9, 0.85, 0.95, 0.35]),
        sends_flushes: !answers_when_durable,
    };
    let per_byte_ns = dice.log_between(0.2, 1.0);
    let mut read = service(dice, (30e3, 600e3), (1e-3, 0.03), (2.0, 8.0), per_byte_ns);
    read.modes[0].sigma = dice.between(0.1, 0.3);
    let durable = (0.6e6, 9e6);
    let (what, write, flush) = if answers_when_durable {
        ("nfs", plain(dice, durable, (0.15, 0.4)), Service::log_normal(1e3, 0.1))
    } else {
        ("server", plain(dice, (40e3, 600e3), (0.1, 0.3)), plain(dice, durable, (0.15, 0.4)))
    };
    let channels = dice.log_between(4.0, 18.0) as u32;
    (what, Device { read, write, flush, channels, link: Some(link), ..Device::default() })
}

/// One of the others, and neighbours: one fsync took 6.5 to 50 ms on budget servers, 28 on average, p99 of fdatasync 30
/// to 100 ms (this project's facts); Wajahat et al. for the slow phase. A load that wanders over seconds.
fn oversold(dice: &mut Dice) -> (&'static str, Device) {
    let (what, mut device) = match dice.between(0.0, 1.0) {
        p if p < 0.4 => ("nvme", nvme(dice).1),
        p if p < 0.6 => ("sata", sata(dice).1),
        p if p < 0.88 => ("volume", volume(dice).1),
        _ => ("disks", raid(dice).1),
    };
    for service in [&mut device.read, &mut device.write] {
        let slow = Mode {
            weight: dice.log_between(0.02, 0.12),
            median_ns: service.modes[0].median_ns * dice.log_between(5.0, 20.0),
            sigma: 0.5,
        };
        service.modes.push(slow);
    }
    if dice.chance(0.6) {
        device.flush = plain(dice, (3e6, 28e6), (0.4, 0.9));
    }
    device.neighbours = Some(Neighbours {
        sigma: dice.between(0.2, 0.7),
        memory_ns: dice.log_between(0.3e9, 5e9),
        stalls_per_s: dice.log_between(0.3, 4.0),
        stall_ns: dice.log_between(6e6, 60e6),
        stall_sigma: dice.between(0.4, 0.9),
    });
    (what, device)
}

/// Hits are a copy in the host's memory and misses its disk; a flush is an fsync there (QEMU's cache mode writeback).
fn image(dice: &mut Dice) -> (&'static str, Device) {
    let on_disks = dice.chance(0.25);
    let per_byte_ns = dice.log_between(0.08, 0.28);
    let mut read = plain(dice, (2e3, 12e3), (0.1, 0.25));
    let missed = if dice.chance(0.5) { dice.log_between(1e-4, 0.02) } else { dice.between(0.02, 0.25) };
    let below = if on_disks { (3.5e6, 9e6) } else { (80e3, 160e3) };
    read.modes.push(Mode { weight: missed, median_ns: dice.log_between(below.0, below.1), sigma: 0.25 });
    read.per_byte_ns = per_byte_ns;
    let mut write = plain(dice, (3e3, 16e3), (0.1, 0.3));
    write.per_byte_ns = per_byte_ns;
    let flush = plain(dice, if on_disks { (7e6, 30e6) } else { (0.25e6, 6e6) }, (0.15, 0.5));
    let channels = dice.between(1.0, 4.99) as u32;
    (if on_disks { "on disks" } else { "on flash" }, Device { read, write, flush, channels, ..Device::default() })
}

/// Measured while this was made: 1 to 5 us on zram and RAM disks.
fn memory(dice: &mut Dice) -> (&'static str, Device) {
    let per_byte_ns = dice.log_between(0.05, 0.45);
    let mut read = plain(dice, (1e3, 5e3), (0.05, 0.2));
    let mut write = plain(dice, (1.2e3, 8e3), (0.05, 0.25));
    (read.per_byte_ns, write.per_byte_ns) = (per_byte_ns, per_byte_ns);
    let flush = plain(dice, (300.0, 2.5e3), (0.1, 0.2));
    let channels = dice.between(1.0, 4.99) as u32;
    ("", Device { read, write, flush, channels, ..Device::default() })
}
