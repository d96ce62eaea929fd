//! What was measured is not (only) a disk of this machine: memory, layers, a network, a user-space program, a file.
//!
//! Concludes from the class of the filesystem and the kinds of the devices under it. In memory (tmpfs, ramfs, an overlay on
//! them, a loop device over a file there, zram, ram) every figure is memory's: critical, and no verdict is given. Nor is one
//! where layers hide what is below them: on a live system and in some containers that is memory. The rest is mentioned so
//! that nobody compares it with a local disk. What a
//! hypervisor puts behind a virtual disk stays invisible; that is not this detector's to guess.

use qd1_model::FindingId;
use qd1_model::environment::{Device, Filesystem, FilesystemClass};
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;

/// Transports that lead over a network.
const NETWORK_TRANSPORTS: &[&str] = &["nbd", "rbd", "drbd", "iscsi", "nvme-tcp", "nvme-rdma", "nvme-fc"];

/// Drivers of the kernel that pretend to be a disk, for tests of the kernel (Documentation/block/null_blk.rst;
/// scsi_debug).
const PRETENDED: &[&str] = &["null_blk", "scsi (scsi_debug)"];

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let environment = &record.environment;
    let by_device = environment.devices.iter().filter_map(device_finding);
    filesystem_finding(record).into_iter().chain(by_device).chain(engine_finding(record)).collect()
}

/// Engines that make no I/O measure the instrument, or a model.
fn engine_finding(record: &Record) -> Option<Finding> {
    let engine = record.steps.iter().find_map(|step| step.engine.filter(|engine| !engine.does_io()))?;
    Some(Finding {
        title: format!("engine {} does no I/O: the figures are not those of a disk", engine.name()),
        evidence: "asked for with --engine".to_owned(),
        advice: "Leave --engine out to measure the disk.".to_owned(),
        ..base_finding(FindingId::NotADisk, Severity::Critical, 1.0)
    })
}

fn filesystem_finding(record: &Record) -> Option<Finding> {
    let fs = &record.environment.filesystem;
    if fs.kind == "zfs" && record.environment.devices.is_empty() {
        return Some(Finding {
            title: "ZFS does not say which devices it is on: caches, flushes and other traffic cannot be counted"
                .to_owned(),
            evidence: format!("{} is {} mounted from {}", fs.mount_point, fs.kind, fs.source),
            advice: "`zpool status` names them; a check of a volume (zvol) sees its own.".to_owned(),
            ..base_finding(FindingId::NotADisk, Severity::Info, 1.0)
        });
    }
    let evidence = format!("{} is {} mounted from {}", fs.mount_point, fs.kind, fs.source);
    let (severity, title, advice) = match fs.class {
        FilesystemClass::Disk => return None,
        FilesystemClass::Memory => (
            Severity::Critical,
            format!("{} keeps its files in memory: every figure describes memory, not a disk", layered(fs)),
            "Choose a path on a disk, for example /var/tmp or the directory of the database.",
        ),
        FilesystemClass::Pseudo => (
            Severity::Critical,
            format!("{} is made up by the kernel: there is nothing to measure", fs.kind),
            "Choose a path on a disk.",
        ),
        FilesystemClass::Overlay if fs.upper.is_empty() => (
            Severity::Critical,
            format!("the path is on {} layers, and whether a disk is below them cannot be seen", fs.kind),
            "Measure a volume or a bind mount instead, as a database in this container should use.",
        ),
        FilesystemClass::Overlay => (
            Severity::Info,
            format!("the path is on {} layers; writes land on {}", fs.kind, fs.upper),
            "Measure a volume or a bind mount instead, as a database in this container should use.",
        ),
        FilesystemClass::Network => (
            Severity::Info,
            format!(
                "{} is on another machine: the figures include the network and its caches, and whether its server writes \
                 commits to a disk cannot be seen",
                fs.kind
            ),
            "",
        ),
        FilesystemClass::Fuse => {
            (Severity::Info, format!("{} is served by a program: the figures include that program", fs.kind), "")
        }
    };
    Some(Finding { title, evidence, advice: advice.to_owned(), ..base_finding(FindingId::NotADisk, severity, 1.0) })
}

/// Its kind, and that of the filesystem on which its writes land.
fn layered(fs: &Filesystem) -> String {
    if fs.upper.is_empty() { fs.kind.clone() } else { format!("{} over {}", fs.kind, fs.upper) }
}

fn device_finding(device: &Device) -> Option<Finding> {
    let (severity, title) = match device.kind.as_str() {
        "zram" | "ram" => {
            (Severity::Critical, format!("{} is a device in memory: every figure describes memory", device.name))
        }
        _ if device.is_backed_by_memory => (
            Severity::Critical,
            format!("{} is a loop device over a file in memory: every figure describes memory", device.name),
        ),
        "loop" => (
            Severity::Info,
            format!("{} is a loop device: requests pass through the filesystem of its backing file", device.name),
        ),
        "partition" => return None,
        _ if PRETENDED.contains(&device.transport.as_str()) => (
            Severity::Critical,
            format!("{} is a disk that the kernel only pretends to have ({})", device.name, device.transport),
        ),
        _ if NETWORK_TRANSPORTS.contains(&device.transport.as_str()) => {
            (Severity::Info, format!("{} is reached over a network ({})", device.name, device.transport))
        }
        _ => return None,
    };
    let backing = if device.backing.is_empty() { String::new() } else { format!(", backed by {}", device.backing) };
    let evidence = format!("{} of kind {} and {}{backing}", device.name, device.kind, device.size);
    Some(Finding { title, evidence, ..base_finding(FindingId::NotADisk, severity, 1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn severity_on(class: FilesystemClass, upper: &str) -> Vec<Severity> {
        let mut record = testing::record();
        record.environment.filesystem.class = class;
        record.environment.filesystem.upper = upper.to_owned();
        testing::run(detect, &record).iter().map(|finding| finding.severity).collect()
    }

    #[test]
    fn an_engine_without_io_measures_no_disk() {
        let mut record = testing::record();
        record.steps[0].engine = Some(qd1_model::plan::EngineKind::Null);
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["not_a_disk"]);
        assert_eq!(found[0].severity, Severity::Critical);
    }

    #[test]
    fn memory_is_critical_and_the_rest_is_named() {
        assert_eq!(severity_on(FilesystemClass::Memory, ""), [Severity::Critical]);
        assert_eq!(severity_on(FilesystemClass::Pseudo, ""), [Severity::Critical]);
        assert_eq!(severity_on(FilesystemClass::Overlay, ""), [Severity::Critical]);
        assert_eq!(severity_on(FilesystemClass::Overlay, "ext4"), [Severity::Info]);
        assert_eq!(severity_on(FilesystemClass::Network, ""), [Severity::Info]);
        assert_eq!(severity_on(FilesystemClass::Fuse, ""), [Severity::Info]);
    }

    #[test]
    fn a_disk_is_a_disk() {
        assert_eq!(severity_on(FilesystemClass::Disk, ""), []);
    }

    #[test]
    fn a_driver_that_pretends_is_no_disk() {
        let mut record = testing::record();
        record.environment.devices[1].kind = "disk".to_owned();
        for driver in PRETENDED {
            (*driver).clone_into(&mut record.environment.devices[1].transport);
            let found = testing::run(detect, &record);
            assert_eq!((found[0].severity, found.len()), (Severity::Critical, 1), "{driver}");
        }
        record.environment.devices[1].transport = "scsi (ahci)".to_owned();
        assert_eq!(testing::run(detect, &record), []);
    }

    #[test]
    fn zram_is_memory_and_a_loop_device_names_its_file() {
        let mut record = testing::record();
        record.environment.devices[1].kind = "zram".to_owned();
        assert_eq!(testing::run(detect, &record)[0].severity, Severity::Critical);
        record.environment.devices[1].kind = "loop".to_owned();
        record.environment.devices[1].backing = "/srv/disk.img".to_owned();
        let found = testing::run(detect, &record);
        assert_eq!(found[0].severity, Severity::Info);
        assert!(found[0].evidence.contains("/srv/disk.img"));
    }
}
