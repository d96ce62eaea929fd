//! Draws disks with and without one property, and with any of the others.
//!
//! Sources. Irregularity, stalls, write caches and limits: as for `limits`. Host caches: 32 MiB is librbd's default, 8
//! GB the memory of large RAID controllers; a hit costs a round trip through the hypervisor, 20 to 60 us, and what is
//! left of a network read without the disk's part. Flushes: 0.15 to 1.5 ms for consumer NVMe, 1 to 5 ms SATA, about 10
//! ms rotating, 0.5 to 8 ms network (shared/facts.md's classes). Ignored flushes: qemu's cache=unsafe, where a write is
//! a copy into the host's memory. First touches: chunks of dm-thin, qcow2 and LVM (64 KiB to 4 MiB); AWS gave up to
//! half of the rate for the first write of a volume, which doubles its time, and thin pools that zero or copy take
//! several times as long. Compression: lz4 looks at 0.5 to 3 GB/s.

use qd1_engine::sim::{Cache, Device, FirstTouch, HostCache, Mode, Reduction, Service, Unwritten};

use crate::scenario::{Dice, KINDS, own, put_any};

/// What a disk has or has not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Property {
    /// A cache of reads below.
    HostCache,
    /// A volatile write cache that answers flushes at once.
    IgnoredFlush,
    /// Reads of what was never written answered without the disk.
    Unwritten,
    /// Compression or deduplication.
    Compressible,
    /// First writes that cost more.
    FirstWrite,
    /// A write cache that is written out by flushes.
    HonestCache,
    /// A write cache protected against power loss, whose flushes cost nothing: reported as that or an ignored flush,
    /// since the two are the same from inside.
    ProtectedCache,
    /// A cache at the far end of a network that answers flushes at once, after a round trip.
    FarIgnoredFlush,
}

impl Property {
    /// All of them: the five of the table, and three that show what cannot be distinguished.
    pub const ALL: [Self; 8] = [
        Self::HostCache,
        Self::IgnoredFlush,
        Self::Unwritten,
        Self::Compressible,
        Self::FirstWrite,
        Self::HonestCache,
        Self::ProtectedCache,
        Self::FarIgnoredFlush,
    ];

    /// Those that a check without --full looks for.
    pub const OF_CHECK: [Self; 4] = [Self::HostCache, Self::IgnoredFlush, Self::HonestCache, Self::ProtectedCache];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::HostCache => "host cache",
            Self::IgnoredFlush => "ignored flush (reported: or protected)",
            Self::Unwritten => "unwritten",
            Self::Compressible => "compressible or deduplicated",
            Self::FirstWrite => "first-write penalty",
            Self::HonestCache => "write cache that is flushed",
            Self::ProtectedCache => "protected cache (reported: or ignored flush)",
            Self::FarIgnoredFlush => "ignored flush at the far end of a network",
        }
    }

    pub(super) fn target(self) -> &'static str {
        match self {
            Self::HonestCache => "none set",
            Self::ProtectedCache => "never accused",
            Self::FarIgnoredFlush => "none: as an honest flush with nothing to do",
            _ => "at least 97 %, at most 2 %",
        }
    }

    /// Whether a finding reports it.
    pub(super) fn is(self, id: &str) -> bool {
        id.starts_with(match self {
            Self::HostCache => "host_cache",
            Self::IgnoredFlush | Self::ProtectedCache | Self::FarIgnoredFlush => "flush_cost.nothing",
            Self::Unwritten => "unwritten_reads",
            Self::Compressible => "data_reduction",
            Self::FirstWrite => "first_touch.write",
            Self::HonestCache => "flush_cost.waits",
        })
    }
}

/// A disk and its truth.
pub(super) struct Scenario {
    pub(super) name: String,
    pub(super) device: Device,
    /// Bytes of its host cache.
    pub(super) cache_size: Option<u64>,
}

/// Share of the disks that have any of the properties that are not asked for.
const OTHERS: f64 = 0.2;
/// Share of the disks with limits.
const LIMITED: f64 = 0.3;
/// Size of the test file.
pub(super) const FILE: u64 = 1 << 30;

/// The disk of that seed, with the property or without it.
pub(super) fn draw(seed: u64, property: Property, has: bool) -> Scenario {
    let mut dice = Dice::new(seed ^ (property as u64) << 40 ^ u64::from(has) << 39);
    let is_far = property == Property::FarIgnoredFlush && has;
    let kind = if is_far { &KINDS[3] } else { &KINDS[(seed % KINDS.len() as u64) as usize] };
    let mut device = own(&mut dice, kind, seed);
    let flush_ns = match kind.name {
        "nvme" => (0.15e6, 1.5e6),
        "sata" => (1e6, 5e6),
        "disk" => (6e6, 12e6),
        _ => (0.5e6, 8e6),
    };
    device.flush = Service::log_normal(dice.log_between(flush_ns.0, flush_ns.1), dice.between(0.2, 0.4));
    if dice.chance(LIMITED) {
        put_any(&mut dice, &mut device);
    }
    let mut wanted = |of: Property| if of == property { has } else { dice.chance(OTHERS) };
    let (host, unwritten) = (wanted(Property::HostCache), wanted(Property::Unwritten));
    let (reduced, first) = (wanted(Property::Compressible), wanted(Property::FirstWrite));
    let read_ns = device.read.modes[0].median_ns;
    device.layers.host = host.then(|| host_cache(&mut dice, read_ns, kind.name == "network"));
    device.layers.unwritten = unwritten.then(|| {
        // A filesystem's answer, or that of an image or a thin volume behind the hypervisor.
        let median_ns = if dice.chance(0.7) { dice.between(2e3, 5e3) } else { dice.between(15e3, 40e3) };
        Unwritten { read: Service::log_normal(median_ns.min(0.5 * read_ns), 0.1) }
    });
    device.layers.reduction = reduced.then(|| {
        let compresses = dice.chance(0.8);
        Reduction {
            compresses,
            deduplicates: !compresses || dice.chance(0.2),
            share_min: dice.between(0.0, 0.1),
            per_byte_ns: dice.log_between(0.3, 2.0),
        }
    });
    device.layers.first_touch = first.then(|| first_touch(&mut dice, &device.write));
    write_cache(&mut dice, &mut device, property, has);
    let cache_size = device.layers.host.as_ref().map(|host| host.capacity);
    Scenario { name: format!("{} {seed:#x}", kind.name), device, cache_size }
}

fn host_cache(dice: &mut Dice, read_ns: f64, is_network: bool) -> HostCache {
    let capacity = dice.log_between(32.0 * 1_048_576.0, 8.0 * 1_073_741_824.0) as u64;
    let near_ns = dice.log_between(20e3, 60e3).min(0.6 * read_ns);
    let hit_ns = if is_network && dice.chance(0.5) { read_ns * dice.between(0.3, 0.7) } else { near_ns };
    HostCache {
        capacity,
        line: dice.pick(&[4096, 16_384, 65_536]),
        hit: Service::log_normal(hit_ns, dice.between(0.1, 0.4)),
        // One that kept all that was written holds the whole file, and there is no slow read to see: a known failure.
        fill_on_write: capacity < FILE * 3 / 4 && dice.chance(0.5),
    }
}

fn first_touch(dice: &mut Dice, write: &Service) -> FirstTouch {
    let write_ns = write.modes[0].median_ns + write.per_byte_ns * 65_536.0;
    let median_ns = write_ns * dice.log_between(0.7, 10.0);
    FirstTouch {
        chunk: dice.pick(&[64 << 10, 256 << 10, 1 << 20, 4 << 20]),
        penalty: Service {
            modes: vec![Mode { weight: 1.0, median_ns, sigma: dice.between(0.2, 0.6) }],
            ..Service::default()
        },
        on_write: true,
        on_read: false,
    }
}

/// The write cache that the property asks for, or none that would be it.
fn write_cache(dice: &mut Dice, device: &mut Device, property: Property, has: bool) {
    let bytes = f64::from(device.channels) * 1e9 / device.write.per_byte_ns;
    let cache = |capacity, drain: f64, ack_ns, honours_flush| {
        Some(Cache { capacity, drain: bytes * drain, ack_ns, honours_flush })
    };
    match (property, has) {
        (Property::IgnoredFlush, true) => {
            device.cache = cache(dice.log_between(64e6, 8e9), dice.between(0.2, 0.8), dice.between(10e3, 60e3), false);
        }
        (Property::ProtectedCache, true) => {
            device.cache = cache(dice.log_between(4e6, 64e6), 0.8, dice.between(10e3, 25e3), false);
        }
        (Property::FarIgnoredFlush, true) => {
            device.cache =
                cache(dice.log_between(64e6, 8e9), dice.between(0.2, 0.8), dice.between(150e3, 400e3), false);
        }
        (Property::HonestCache, true) => {
            let ack_ns = dice.between(10e3, 40e3);
            device.cache = cache(dice.log_between(16e6, 1e9), dice.between(0.2, 0.8), ack_ns, true);
        }
        (Property::HonestCache, false) => device.cache = None,
        // What `own` drew: none, or one that is flushed.
        _ => {}
    }
}
