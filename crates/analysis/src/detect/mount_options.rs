//! Mount options that cost latency or durability, and their cost.
//!
//! Concludes from the options alone; measuring the cost takes an experiment. Sources: kernel `admin-guide/ext4.rst`
//! (commit, barrier, data, discard), `filesystems/overlayfs.rst` (volatile), btrfs(5) (commit: 30 s), mount(8); the
//! brief (Ubuntu cloud images mount with `discard,commit=30`).
//!
//! `discard=async` of btrfs queues its trims and is not reported. An option that is the filesystem's default does not
//! appear in its list, so it is not seen here.

use qd1_model::FindingId;
use qd1_model::environment::Filesystem;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, flush_ignored};

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let fs = &record.environment.filesystem;
    let evidence = format!("{} ({}) is mounted with {}", fs.mount_point, fs.kind, fs.options.join(","));
    let all = [barrier(fs), discard(fs), commit(fs), data_mode(fs), sync(fs)];
    all.into_iter().flatten().map(|finding| Finding { evidence: evidence.clone(), ..finding }).collect()
}

fn has(fs: &Filesystem, option: &str) -> bool {
    fs.options.iter().any(|present| present == option)
}

fn barrier(fs: &Filesystem) -> Option<Finding> {
    let option = flush_ignored::no_barrier(&fs.options)?;
    Some(Finding {
        title: format!("{option}: committed data may be lost or the filesystem damaged by a power cut"),
        advice: "Remount without it, unless every cache below is battery-backed. Commit figures measured with it do \
                 not hold for a safe mount."
            .to_owned(),
        ..base_finding(FindingId::MountOptionsNoBarrier, Severity::Critical, 1.0)
    })
}

fn discard(fs: &Filesystem) -> Option<Finding> {
    has(fs, "discard").then(|| Finding {
        title: "discard: deleting files sends trims to the disk immediately, which can delay commits".to_owned(),
        advice: "Mount with nodiscard and let `systemctl enable --now fstrim.timer` trim once a week.".to_owned(),
        ..base_finding(FindingId::MountOptionsDiscard, Severity::Warning, 0.8)
    })
}

/// ext3 and ext4 commit their journal every 5 s by default, btrfs its transaction every 30 s.
fn commit(fs: &Filesystem) -> Option<Finding> {
    let default = if fs.kind == "btrfs" { 30 } else { 5 };
    let seconds: u64 = fs.options.iter().find_map(|option| option.strip_prefix("commit="))?.parse().ok()?;
    (seconds > default).then(|| Finding {
        title: format!(
            "commit={seconds}: data that no program syncs can be lost for {seconds} s instead of {default} s"
        ),
        advice: format!(
            "Metadata is written in larger, rarer bursts, each of which can delay a commit. Set commit={default} \
             unless you want that."
        ),
        ..base_finding(FindingId::MountOptionsCommit, Severity::Warning, 0.9)
    })
}

fn data_mode(fs: &Filesystem) -> Option<Finding> {
    if has(fs, "data=writeback") {
        return Some(Finding {
            title: "data=writeback: after a crash files may hold old or foreign data".to_owned(),
            advice: "Use data=ordered, the default.".to_owned(),
            ..base_finding(FindingId::MountOptionsData, Severity::Warning, 1.0)
        });
    }
    has(fs, "data=journal").then(|| Finding {
        title: "data=journal: everything is written twice, and O_DIRECT goes through the page cache".to_owned(),
        advice: "Use data=ordered, the default, unless the journal is on a faster disk.".to_owned(),
        ..base_finding(FindingId::MountOptionsData, Severity::Warning, 1.0)
    })
}

fn sync(fs: &Filesystem) -> Option<Finding> {
    has(fs, "sync").then(|| Finding {
        title: "sync: every write waits for the disk, whether the program asked for it or not".to_owned(),
        advice: "Remount with async, unless you want that; programs that need durability call fsync themselves."
            .to_owned(),
        ..base_finding(FindingId::MountOptionsSync, Severity::Warning, 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn with(kind: &str, options: &str) -> Vec<(FindingId, Severity)> {
        let mut record = testing::record();
        record.environment.filesystem.kind = kind.to_owned();
        record.environment.filesystem.options = options.split(',').map(str::to_owned).collect();
        testing::run(detect, &record).into_iter().map(|finding| (finding.id, finding.severity)).collect()
    }

    #[test]
    fn discard_and_commit_of_ubuntu_cloud_images_are_reported() {
        let found = with("ext4", "rw,relatime,discard,errors=remount-ro,commit=30");
        let expected = [FindingId::MountOptionsDiscard, FindingId::MountOptionsCommit];
        assert_eq!(found.iter().map(|(id, _)| *id).collect::<Vec<_>>(), expected);
    }

    #[test]
    fn no_barrier_is_critical() {
        assert_eq!(with("ext4", "rw,barrier=0"), [(FindingId::MountOptionsNoBarrier, Severity::Critical)]);
        assert_eq!(with("xfs", "rw,nobarrier")[0].1, Severity::Critical);
        assert_eq!(with("overlay", "rw,volatile")[0].1, Severity::Critical);
    }

    #[test]
    fn sync_and_data_modes_warn() {
        assert_eq!(with("ext4", "rw,sync,data=writeback").len(), 2);
    }

    #[test]
    fn defaults_and_their_lookalikes_are_fine() {
        assert_eq!(with("ext4", "rw,relatime,async,commit=5,data=ordered,barrier=1"), []);
        assert_eq!(with("btrfs", "rw,noatime,discard=async,commit=30"), []);
    }
}
