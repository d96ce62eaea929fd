//! The queues of block devices: scheduler, requests, caches, readahead.
//!
//! Between `none` and mq-deadline on a solid-state or virtual disk there is no rule: which is better for tails is an
//! open question that depends on the neighbours.

use qd1_model::Severity;
use qd1_model::doctor::Fix;
use qd1_model::environment::Device;
use qd1_model::setting::{Inventory, Setting, SettingKind};

use super::{Found, Rule, fix, is_virtual, path_of};

const SYSFS: &str = "https://www.kernel.org/doc/Documentation/ABI/stable/sysfs-block";
const RED_HAT: &str = "https://docs.redhat.com/en/documentation/red_hat_enterprise_linux/9/html/\
                       managing_storage_devices/setting-the-disk-scheduler_managing-storage-devices";

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "queue.cache_not_flushed",
        what: "queue/write_cache set to write through although the drive has a volatile cache",
        severity: Severity::Critical,
        cost: "The kernel sends the drive no flushes, so what programs have synced can be lost in a power cut.",
        sources: &[SYSFS],
        proof: "`qd1 sync PATH` shows whether flushes reach the disk; `qd1 powercut` whether commits survive",
        find: cache_not_flushed,
    },
    Rule {
        id: "queue.rotating_without_scheduler",
        what: "the scheduler none on a rotating drive of a physical machine",
        severity: Severity::Warning,
        cost: "Requests are not sorted, and a stream of writes can hold up reads, on a drive that loses time with \
               each seek.",
        sources: &[RED_HAT],
        proof: "`qd1 check --with-load PATH` with both schedulers, and `qd1 compare` of both",
        find: rotating_without_scheduler,
    },
    Rule {
        id: "queue.bfq_on_fast_disk",
        what: "the scheduler bfq on NVMe and virtio disks",
        severity: Severity::Info,
        cost: "BFQ works more for each request than the others, which limits how many a second a fast disk can do, \
               and turns writeback throttling off.",
        sources: &["https://docs.kernel.org/block/bfq-iosched.html", RED_HAT],
        proof: "`qd1 sweep PATH` with both schedulers, and `qd1 compare` of both",
        find: bfq_on_fast_disk,
    },
    Rule {
        id: "queue.few_requests",
        what: "queue/nr_requests below 32 where a file lowers it or the drive accepts more (device/queue_depth), \
               except behind USB and on cards",
        severity: Severity::Info,
        cost: "Programs that have more requests in flight wait in the kernel, even when they submit asynchronously.",
        sources: &[SYSFS],
        proof: "`qd1 sweep PATH` shows the depth from which latency only grows",
        find: few_requests,
    },
    Rule {
        id: "queue.no_command_queue",
        what: "device/queue_depth of 1 on a SATA drive, which also one without command queueing (NCQ) shows",
        severity: Severity::Info,
        cost: "The drive gets one request at a time, so it cannot choose their order, and a request waits for all \
               before it.",
        sources: &["https://docs.kernel.org/admin-guide/kernel-parameters.html"],
        proof: "`qd1 sweep PATH` shows whether depth helps",
        find: no_command_queue,
    },
    Rule {
        id: "queue.writeback_not_throttled",
        what: "queue/wbt_lat_usec = 0 without bfq",
        severity: Severity::Info,
        cost: "Writeback of buffered data is not held back while other requests wait, so reads and commits may take \
               longer during it.",
        sources: &[SYSFS],
        proof: "`qd1 check --with-load PATH` with both values, and `qd1 compare` of both",
        find: not_throttled,
    },
    Rule {
        id: "queue.no_readahead",
        what: "queue/read_ahead_kb = 0, except below btrfs, which has a value of its own",
        severity: Severity::Warning,
        cost: "Buffered sequential reads wait for the disk at each page instead of finding the next ones in memory.",
        sources: &[SYSFS, "https://man7.org/linux/man-pages/man2/posix_fadvise.2.html"],
        proof: "`time cat FILE > /dev/null` of a large file that is not in memory, with both values",
        find: no_readahead,
    },
];

/// Fewest requests that leave room for asynchronous programs.
const REQUESTS_FEW: u32 = 32;

/// Whole disks, not partitions nor what is made of others.
fn disks(inventory: &Inventory) -> impl Iterator<Item = &Device> {
    inventory.devices().into_iter().filter(|device| device.kind == "disk")
}

fn attribute<'a>(inventory: &'a Inventory, device: &str, name: &str) -> Option<&'a Setting> {
    inventory.setting(SettingKind::Block, device, name)
}

/// A finding on one attribute; `better` is what to write to it.
fn on(inventory: &Inventory, setting: &Setting, title: String, better: &str) -> Found {
    let device = &setting.subject;
    Found {
        subject: device.clone(),
        title: format!("{device}: {title}"),
        fix: fix::udev(inventory, setting, better),
        setting: Some(setting.clone()),
        path: path_of(inventory, device),
        ..Found::default()
    }
}

fn cache_not_flushed(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "queue/write_cache")?;
        let of_drive = attribute(inventory, &device.name, "cache_type").is_some_and(|kind| kind.value == "write back");
        let of_controller = device.nvme.as_ref().and_then(|nvme| nvme.volatile_write_cache) == Some(true);
        let title = "the drive has a volatile cache, but the kernel was made to believe that it has none";
        (setting.value == "write through" && (of_drive || of_controller))
            .then(|| on(inventory, setting, title.to_owned(), "write back"))
    };
    disks(inventory).filter_map(of).collect()
}

fn rotating_without_scheduler(inventory: &Inventory) -> Vec<Found> {
    // A RAID controller has a cache and sorts requests itself; these drivers reach the drive directly.
    let is_direct = |device: &&Device| {
        ["scsi (ahci)", "scsi (ata_piix)", "scsi (mpt2sas)", "scsi (mpt3sas)"].contains(&device.transport.as_str())
    };
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "queue/scheduler")?;
        let title = "no scheduler (none) on a drive that rotates".to_owned();
        (device.rotational == Some(true) && setting.value == "none")
            .then(|| on(inventory, setting, title, "mq-deadline"))
    };
    if is_virtual(inventory) {
        return Vec::new();
    }
    disks(inventory).filter(is_direct).filter_map(of).collect()
}

fn bfq_on_fast_disk(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "queue/scheduler")?;
        let is_fast = device.transport.starts_with("nvme") || device.transport == "virtio";
        let title = "bfq may limit the requests a second of this disk".to_owned();
        // Red Hat's advice for guests and for fast drives.
        let better = if device.transport == "virtio" { "mq-deadline" } else { "none" };
        (is_fast && setting.value == "bfq").then(|| on(inventory, setting, title, better))
    };
    disks(inventory).filter_map(of).collect()
}

fn few_requests(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "queue/nr_requests")?;
        let count = u32::try_from(setting.number()?).ok().filter(|count| (1..REQUESTS_FEW).contains(count))?;
        let title = format!("at most {count} requests at a time (nr_requests)");
        let depth = attribute(inventory, &device.name, "device/queue_depth").and_then(Setting::number).unwrap_or(0);
        // With the scheduler none, the kernel refuses more than the drive accepts.
        if depth > i64::from(count) {
            return Some(on(inventory, setting, title, &depth.to_string()));
        }
        let by = setting.after_boot.winner.as_ref().filter(|by| by.line > 0 && by.value == setting.value)?;
        let fix = fix::advice(format!("delete what sets it ({}:{}), then reboot", by.file, by.line));
        Some(Found { fix, ..on(inventory, setting, title, "") })
    };
    // Sticks, cards and disks behind USB take few requests by nature.
    let is_small = |device: &&Device| ["usb", "uas", "mmc"].iter().any(|part| device.transport.contains(part));
    disks(inventory).filter(|device| !is_small(device)).filter_map(of).collect()
}

fn no_command_queue(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "device/queue_depth")?;
        let is_sata = matches!(device.transport.as_str(), "scsi (ahci)");
        let title = "the drive gets one request at a time (queue_depth 1): NCQ is off, or it has none".to_owned();
        (is_sata && setting.number() == Some(1)).then(|| {
            let found = on(inventory, setting, title, "31");
            let refused = "a drive without NCQ refuses it; `dmesg` says \"NCQ (not used)\" where libata.force=noncq or \
                           a list of faulty drives switched it off";
            let advice = match found.fix.advice.as_str() {
                "" => refused.to_owned(),
                other => format!("{refused}; {other}"),
            };
            Found { fix: Fix { advice, ..found.fix }, ..found }
        })
    };
    disks(inventory).filter_map(of).collect()
}

fn not_throttled(inventory: &Inventory) -> Vec<Found> {
    let of = |device: &Device| {
        let setting = attribute(inventory, &device.name, "queue/wbt_lat_usec")?;
        let scheduler = attribute(inventory, &device.name, "queue/scheduler").map(|setting| setting.value.as_str());
        let title = "writeback is not throttled (wbt_lat_usec 0)".to_owned();
        // -1 is the default for this kind of disk.
        (setting.number() == Some(0) && scheduler != Some("bfq")).then(|| on(inventory, setting, title, "-1"))
    };
    disks(inventory).filter_map(of).collect()
}

/// The device directly below the filesystem decides, with the queue of its whole disk.
fn no_readahead(inventory: &Inventory) -> Vec<Found> {
    let mut found: Vec<Found> = Vec::new();
    for place in inventory.places.iter().filter(|place| place.filesystem.kind != "btrfs") {
        let top = place.devices.iter().find(|device| device.kind != "partition");
        let setting = top.and_then(|device| attribute(inventory, &device.name, "queue/read_ahead_kb"));
        let Some(setting) = setting.filter(|setting| setting.number() == Some(0)) else { continue };
        if !found.iter().any(|known| known.subject == setting.subject) {
            found.push(on(inventory, setting, "no readahead for buffered reads".to_owned(), "128"));
        }
    }
    found
}
