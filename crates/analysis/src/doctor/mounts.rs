//! Mount options that cost latency or durability.
//!
//! Concludes from the options alone; measuring the cost takes an experiment. Sources: kernel `admin-guide/ext4.rst`
//! (commit, barrier, data, discard), `filesystems/overlayfs.rst` (volatile), btrfs(5) (commit: 30 s), mount(8); the
//! brief (Ubuntu cloud images mount with `discard,commit=30`).
//!
//! `discard=async` of btrfs queues its trims and is not reported; neither is f2fs, which sends its own when it is idle,
//! nor a disk that supports no trims. An option that is the filesystem's default does not appear in mountinfo; the
//! doctor adds those of ext4 from `/proc/fs/ext4`.

use qd1_model::environment::{Device, Filesystem};
use qd1_model::setting::{Inventory, Place, SettingKind};
use qd1_model::{FindingId, Severity};

use super::{Found, Rule, mount_fix};

const EXT4: &str = "https://docs.kernel.org/admin-guide/ext4.html";
const MOUNT: &str = "https://man7.org/linux/man-pages/man8/mount.8.html";

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: NO_BARRIER,
        what: "barrier=0, nobarrier, f2fs with fsync_mode=nobarrier, bcachefs with journal_flush_disabled, and \
               volatile overlays, of which only that of PATH is looked at",
        severity: Severity::Critical,
        cost: "The filesystem does not flush the disk's cache. After a power cut, committed data may be missing and \
               the filesystem may be damaged, unless every cache below is backed by a battery.",
        sources: &[EXT4, "https://docs.kernel.org/filesystems/overlayfs.html"],
        proof: "`qd1 powercut` shows whether commits survive; `qd1 sync PATH` shows what a flush costs",
        find: |inventory| found(inventory, NO_BARRIER),
    },
    Rule {
        id: DISCARD,
        what: "online discard",
        severity: Severity::Warning,
        cost: "Deleting files makes the filesystem send trims at once. Where the disk is slow to trim, commits that \
               are made at that time may wait for it.",
        sources: &[EXT4, "https://man7.org/linux/man-pages/man8/fstrim.8.html"],
        proof: "`qd1 meta PATH` and `qd1 check PATH`, with discard and without, and `qd1 compare` of both",
        find: |inventory| found(inventory, DISCARD),
    },
    Rule {
        id: COMMIT,
        what: "commit= above the default (5 s, btrfs 30 s)",
        severity: Severity::Warning,
        cost: "Data that no program syncs can be lost for longer, and metadata is written in larger, rarer bursts.",
        sources: &[EXT4, "https://btrfs.readthedocs.io/en/latest/btrfs-man5.html"],
        proof: "`qd1 check --with-load PATH` with both values, and `qd1 compare` of both",
        find: |inventory| found(inventory, COMMIT),
    },
    Rule {
        id: DATA,
        what: "data=writeback and data=journal",
        severity: Severity::Warning,
        cost: "data=writeback: after a crash, files may contain other users' old data. data=journal: all data is \
               written twice, and O_DIRECT and delayed allocation are off.",
        sources: &[EXT4],
        proof: "`qd1 check PATH` with both modes, and `qd1 compare` of both",
        find: |inventory| found(inventory, DATA),
    },
    Rule {
        id: SYNC,
        what: "sync",
        severity: Severity::Warning,
        cost: "Every write waits for the disk, whether the program asked for that or not.",
        sources: &[MOUNT],
        proof: "`qd1 meta PATH` with both options, and `qd1 compare` of both",
        find: |inventory| found(inventory, SYNC),
    },
    Rule {
        id: STRICTATIME,
        what: "strictatime",
        severity: Severity::Warning,
        cost: "Every read of a file changes its access time, which then has to be written. With relatime, the \
               default, that happens once a day or after a change.",
        sources: &[MOUNT],
        proof: "`qd1 watch` during reads of many files shows the writes",
        find: |inventory| found(inventory, STRICTATIME),
    },
];

const NO_BARRIER: &str = "mount.no_barrier";
pub(super) const DISCARD: &str = "mount.discard";
const COMMIT: &str = "mount.commit";
pub(super) const DATA: &str = "mount.data";
const SYNC: &str = "mount.sync";
pub(super) const STRICTATIME: &str = "mount.strictatime";

/// A mount option that costs something.
pub(crate) struct MountFault {
    pub(super) rule: &'static str,
    /// The finding of `check`, if it has one.
    pub(crate) finding: Option<FindingId>,
    /// How much it matters.
    pub(crate) severity: Severity,
    /// How sure that is.
    pub(crate) confidence: f64,
    /// What is wrong.
    pub(crate) title: String,
    /// What to do.
    pub(crate) advice: String,
    /// The option; empty if one is missing.
    pub(super) option: String,
    /// What to use instead; empty if the filesystem cannot be remounted with it.
    pub(super) instead: String,
}

/// Options that switch flushes off, and what to use instead: ext4, XFS before Linux 4.19 and others; reiserfs; f2fs;
/// bcachefs; overlayfs, of which newer kernels show `fsync=volatile`.
const NO_FLUSHES: [(&str, &str); 7] = [
    ("barrier=0", "barrier"),
    ("nobarrier", "barrier"),
    ("barrier=none", "barrier=flush"),
    ("fsync_mode=nobarrier", "fsync_mode=posix"),
    ("journal_flush_disabled", ""),
    ("volatile", ""),
    ("fsync=volatile", ""),
];

/// The mount option that switches flushes off.
pub(crate) fn no_barrier(options: &[String]) -> Option<&str> {
    options.iter().map(String::as_str).find(|option| NO_FLUSHES.iter().any(|(known, _)| known == option))
}

/// Returns the options of a filesystem that cost something; `devices` are those below it.
pub(crate) fn faults(fs: &Filesystem, devices: &[Device]) -> Vec<MountFault> {
    [barrier(fs), discard(fs, devices), commit(fs), data_mode(fs), sync(fs), strictatime(fs)]
        .into_iter()
        .flatten()
        .collect()
}

fn has(fs: &Filesystem, option: &str) -> bool {
    fs.options.iter().any(|present| present == option)
}

fn barrier(fs: &Filesystem) -> Option<MountFault> {
    let option = no_barrier(&fs.options)?;
    Some(MountFault {
        rule: NO_BARRIER,
        finding: Some(FindingId::MountOptionsNoBarrier),
        severity: Severity::Critical,
        confidence: 1.0,
        title: format!("{option}: committed data may be lost or the filesystem damaged by a power cut"),
        advice: "Remount without it, unless every cache below is battery-backed. Commit figures measured with it do \
                 not hold for a safe mount."
            .to_owned(),
        option: option.to_owned(),
        instead: NO_FLUSHES.iter().find(|(known, _)| *known == option)?.1.to_owned(),
    })
}

fn discard(fs: &Filesystem, devices: &[Device]) -> Option<MountFault> {
    let is_supported = devices.first().is_none_or(|device| device.discard != Some(false));
    (has(fs, "discard") && fs.kind != "f2fs" && is_supported).then(|| MountFault {
        rule: DISCARD,
        finding: Some(FindingId::MountOptionsDiscard),
        severity: Severity::Warning,
        confidence: 0.8,
        title: "discard: deleting files sends trims to the disk immediately, which can delay commits".to_owned(),
        advice: "Mount with nodiscard and let `systemctl enable --now fstrim.timer` trim once a week, which it does \
                 for what /etc/fstab lists."
            .to_owned(),
        option: "discard".to_owned(),
        instead: "nodiscard".to_owned(),
    })
}

/// ext3 and ext4 commit their journal every 5 s by default, btrfs its transaction every 30 s.
fn commit(fs: &Filesystem) -> Option<MountFault> {
    let default = if fs.kind == "btrfs" { 30 } else { 5 };
    let seconds: u64 = fs.options.iter().find_map(|option| option.strip_prefix("commit="))?.parse().ok()?;
    (seconds > default).then(|| MountFault {
        rule: COMMIT,
        finding: Some(FindingId::MountOptionsCommit),
        severity: Severity::Warning,
        confidence: 0.9,
        title: format!(
            "commit={seconds}: data that no program syncs can be lost for {seconds} s instead of {default} s"
        ),
        advice: format!(
            "Metadata is written in larger, rarer bursts, each of which can delay a commit. Set commit={default} \
             unless you want that."
        ),
        option: format!("commit={seconds}"),
        instead: format!("commit={default}"),
    })
}

fn data_mode(fs: &Filesystem) -> Option<MountFault> {
    let of = |option: &str, title: &str, advice: &str| MountFault {
        rule: DATA,
        finding: Some(FindingId::MountOptionsData),
        severity: Severity::Warning,
        confidence: 1.0,
        title: title.to_owned(),
        advice: advice.to_owned(),
        option: option.to_owned(),
        instead: "data=ordered".to_owned(),
    };
    if has(fs, "data=writeback") {
        let title = "data=writeback: after a crash files may contain other users' old data";
        return Some(of("data=writeback", title, "Use data=ordered, the default."));
    }
    let title = "data=journal: everything is written twice, and O_DIRECT goes through the page cache";
    let advice = "Use data=ordered, the default, unless the journal is on a faster disk.";
    has(fs, "data=journal").then(|| of("data=journal", title, advice))
}

fn sync(fs: &Filesystem) -> Option<MountFault> {
    has(fs, "sync").then(|| MountFault {
        rule: SYNC,
        finding: Some(FindingId::MountOptionsSync),
        severity: Severity::Warning,
        confidence: 1.0,
        title: "sync: every write waits for the disk, whether the program asked for it or not".to_owned(),
        advice: "Remount with async, unless you want that; programs that need durability call fsync themselves."
            .to_owned(),
        option: "sync".to_owned(),
        instead: "async".to_owned(),
    })
}

/// The kernel lists noatime and relatime, but nothing for strictatime. Only filesystems that keep access times.
fn strictatime(fs: &Filesystem) -> Option<MountFault> {
    let keeps = matches!(fs.kind.as_str(), "ext2" | "ext3" | "ext4" | "xfs" | "btrfs" | "f2fs" | "bcachefs");
    let is_other = ["noatime", "relatime", "lazytime", "ro"].iter().any(|option| has(fs, option));
    (keeps && !fs.options.is_empty() && !is_other).then(|| MountFault {
        rule: STRICTATIME,
        finding: None,
        severity: Severity::Warning,
        confidence: 1.0,
        title: "strictatime: every read of a file makes a write of its access time".to_owned(),
        advice: "Mount with relatime, the default.".to_owned(),
        option: "strictatime".to_owned(),
        instead: "relatime".to_owned(),
    })
}

fn found(inventory: &Inventory, rule: &str) -> Vec<Found> {
    let of_place = |place: &Place| {
        let all = faults(&place.filesystem, &place.devices).into_iter().filter(|fault| fault.rule == rule);
        let found = all.map(|fault| {
            let fs = &place.filesystem;
            Found {
                subject: fs.mount_point.clone(),
                title: format!("{} ({}): {}", fs.mount_point, fs.kind, fault.title),
                severity: Some(fault.severity),
                setting: inventory.setting(SettingKind::Mount, &fs.mount_point, "options").cloned(),
                fix: mount_fix::mount(inventory, place, &fault),
                path: fs.mount_point.clone(),
            }
        });
        found.collect::<Vec<_>>()
    };
    inventory.places.iter().flat_map(of_place).collect()
}
