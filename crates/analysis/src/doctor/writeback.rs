//! When the kernel writes modified pages out.
//!
//! Formula: limit = `dirty_bytes`, or else `dirty_ratio` percent of memory (strictly, of *available* memory, so this is
//! an upper bound): 2.4 GB of 12 GB, 51 GB of 256 GB at the default of 20. Reported from 32 GB of memory with a ratio,
//! or from a limit of 4 GiB, and only above what would be recommended instead. Sources: kernel
//! `admin-guide/sysctl/vm.rst`; the brief, "writeback storms on large-RAM hosts are a timing problem".

use qd1_model::Severity;
use qd1_model::doctor::Fix;
use qd1_model::environment::{Device, Dirty};
use qd1_model::setting::Inventory;
use qd1_model::units::Bytes;

use super::{Found, Rule, fix};

const VM: &str = "https://docs.kernel.org/admin-guide/sysctl/vm.html";
/// Memory from which a ratio is a mistake, bytes (the brief: 32+ GB).
const MEMORY_LARGE: u64 = 32_000_000_000;
/// A limit that is large on any machine.
const LIMIT_LARGE: Bytes = Bytes::gib(4);
/// Age of modified pages, centiseconds, above which much can be lost; the default is 3000.
const EXPIRE_LONG: i64 = 6000;

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "writeback.limit",
        what: "vm.dirty_ratio on machines with 32 GB of memory or more if it allows more than 2 GiB (512 MiB where a \
               disk rotates), and limits above 4 GiB",
        severity: Severity::Warning,
        cost: "The kernel may hold that much unwritten data before it slows writers down. A sync, or a program that \
               comes to the limit, then waits until the disk has written it.",
        sources: &[VM],
        proof: "`qd1 check --with-load PATH` with both limits, and `qd1 compare` of both",
        find: limit,
    },
    Rule {
        id: "writeback.background",
        what: "a background limit that is not below the limit for writers",
        severity: Severity::Info,
        cost: "Writing in the background cannot begin before writers are slowed down, so the kernel uses half of the \
               limit instead of the value that is set.",
        sources: &[VM, "https://github.com/torvalds/linux/blob/master/mm/page-writeback.c"],
        proof: "`qd1 watch` shows how much unwritten data there is while a program writes",
        find: background,
    },
    Rule {
        id: "writeback.periodic",
        what: "vm.dirty_writeback_centisecs = 0",
        severity: Severity::Warning,
        cost: "Data that no program syncs is not written out at intervals: a crash can lose all of it up to the \
               background limit.",
        sources: &[VM],
        proof: "`qd1 watch` shows unwritten data that stays",
        find: periodic,
    },
    Rule {
        id: "writeback.expire",
        what: "vm.dirty_expire_centisecs above one minute",
        severity: Severity::Info,
        cost: "Data that no program syncs may stay in memory for that long, and a crash loses it.",
        sources: &[VM],
        proof: "`qd1 watch` shows how much unwritten data there is",
        find: expire,
    },
];

/// A better limit and background limit, bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ByteLimits {
    pub(crate) limit: u64,
    pub(crate) background: u64,
}

/// Returns how much unwritten data the kernel may hold, if that is excessive and more than is recommended.
pub(crate) fn excessive_limit(memory: Bytes, dirty: Dirty, better: ByteLimits) -> Option<Bytes> {
    let by_ratio = dirty.bytes.0 == 0;
    let limit = in_force(memory, dirty.bytes, dirty.ratio);
    let is_large = limit > LIMIT_LARGE || by_ratio && memory.0 >= MEMORY_LARGE;
    (is_large && limit.0 > better.limit).then_some(limit)
}

fn in_force(memory: Bytes, bytes: Bytes, ratio: u32) -> Bytes {
    if bytes.0 > 0 { bytes } else { Bytes(memory.0 / 100 * u64::from(ratio)) }
}

/// Returns better limits: what drains in about five seconds at a rate in bytes per second, within 256 MiB and 2 GiB;
/// where no rate was measured, what the kind of disk can write in that time.
pub(crate) fn byte_limits<'a>(rate: Option<f64>, devices: impl IntoIterator<Item = &'a Device>) -> ByteLimits {
    // A virtual disk says that it rotates unless its host says otherwise.
    let rotates =
        |device: &Device| device.kind == "disk" && device.rotational == Some(true) && device.transport != "virtio";
    let mib = match rate {
        Some(rate) => ((rate * 5.0) as u64 >> 20).clamp(256, 2048),
        None if devices.into_iter().any(rotates) => 512,
        None => 2048,
    };
    ByteLimits { limit: mib << 20, background: (mib / 4) << 20 }
}

/// Describes the setting in force, in the kernel's words.
pub(crate) fn described(dirty: Dirty, memory: Bytes) -> String {
    match dirty.bytes.0 {
        0 => format!("vm.dirty_ratio = {} of {memory} of memory", dirty.ratio),
        bytes => format!("vm.dirty_bytes = {bytes}"),
    }
}

fn limit(inventory: &Inventory) -> Vec<Found> {
    let (memory, dirty) = (inventory.environment.memory, inventory.environment.dirty);
    let name = if dirty.bytes.0 == 0 { "vm.dirty_ratio" } else { "vm.dirty_bytes" };
    let better = byte_limits(None, inventory.devices());
    let found = excessive_limit(memory, dirty, better).zip(inventory.sysctl(name));
    let Some((limit, setting)) = found else { return Vec::new() };
    // One that is lower already is kept.
    let background = match in_force(memory, dirty.background_bytes, dirty.background_ratio).0 {
        0 => better.background,
        current => current.min(better.background),
    };
    let fix = fix::sysctl(inventory, &[("vm.dirty_bytes", better.limit), ("vm.dirty_background_bytes", background)]);
    let choose = "choose what the disk writes in one to five seconds; less if it is slow";
    let advice = if fix.advice.is_empty() { choose.to_owned() } else { format!("{choose}; {}", fix.advice) };
    vec![Found {
        title: format!(
            "the kernel may hold up to {limit} of unwritten data before it slows writers down ({})",
            described(dirty, memory)
        ),
        fix: Fix { advice, ..fix },
        setting: Some(setting.clone()),
        ..Found::default()
    }]
}

fn background(inventory: &Inventory) -> Vec<Found> {
    let (memory, dirty) = (inventory.environment.memory, inventory.environment.dirty);
    let limit = in_force(memory, dirty.bytes, dirty.ratio).0;
    let background = in_force(memory, dirty.background_bytes, dirty.background_ratio).0;
    let name = if dirty.background_bytes.0 > 0 { "vm.dirty_background_bytes" } else { "vm.dirty_background_ratio" };
    let Some(setting) = inventory.sysctl(name).filter(|_| limit > 0 && background >= limit) else { return Vec::new() };
    vec![Found {
        title: format!(
            "{name} = {} is not below the limit for writers: the kernel uses half of that limit",
            setting.value
        ),
        fix: fix::sysctl(inventory, &[("vm.dirty_background_bytes", limit / 4)]),
        setting: Some(setting.clone()),
        ..Found::default()
    }]
}

fn periodic(inventory: &Inventory) -> Vec<Found> {
    let name = "vm.dirty_writeback_centisecs";
    let Some(setting) = inventory.sysctl(name).filter(|setting| setting.number() == Some(0)) else { return Vec::new() };
    vec![Found {
        title: "vm.dirty_writeback_centisecs = 0: unwritten data is never written out because of its age".to_owned(),
        fix: fix::sysctl(inventory, &[(name, 500)]),
        setting: Some(setting.clone()),
        ..Found::default()
    }]
}

fn expire(inventory: &Inventory) -> Vec<Found> {
    let name = "vm.dirty_expire_centisecs";
    let is_long = |setting: &&qd1_model::setting::Setting| setting.number().is_some_and(|value| value > EXPIRE_LONG);
    let Some(setting) = inventory.sysctl(name).filter(is_long) else { return Vec::new() };
    let seconds = setting.number().unwrap_or(0) / 100;
    vec![Found {
        title: format!("data that no program syncs may stay unwritten for {seconds} s (the default is 30 s)"),
        fix: fix::sysctl(inventory, &[(name, 3000)]),
        setting: Some(setting.clone()),
        ..Found::default()
    }]
}
