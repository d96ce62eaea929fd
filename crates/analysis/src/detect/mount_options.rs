//! Mount options that cost latency or durability, as the doctor's rules have it (`doctor/mounts.rs`).

use qd1_model::{Finding, Record, Summary};

use super::base_finding;
use crate::doctor::mounts::{MountFault, faults};

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let fs = &record.environment.filesystem;
    let evidence = format!("{} ({}) is mounted with {}", fs.mount_point, fs.kind, fs.options.join(","));
    let finding = |fault: MountFault| {
        Some(Finding {
            title: fault.title,
            evidence: evidence.clone(),
            advice: fault.advice,
            ..base_finding(fault.finding?, fault.severity, fault.confidence)
        })
    };
    faults(fs, &record.environment.devices).into_iter().filter_map(finding).collect()
}

#[cfg(test)]
mod tests {
    use qd1_model::{FindingId, Severity};

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
