//! What the machine of a drawn disk says about it: labels that are right, a hypervisor's, none, or wrong ones.

use qd1_model::environment::{Device, Environment, Filesystem, FilesystemClass};
use qd1_model::identity::StorageKind;

use crate::kinds::{Drawn, Labels};

/// The machine of `drawn`.
pub(crate) fn environment(drawn: &Drawn) -> Environment {
    let mut dice = drawn.dice.clone();
    let mut on = match drawn.labels {
        Labels::Right => right(drawn.kind, dice.below(3)),
        Labels::Virtual => virtual_disk(drawn.kind, dice.chance(0.7), dice.chance(0.5), dice.chance(0.5)),
        // A container's overlay whose layers lie outside of what it sees.
        Labels::None => on_disk("docker", None),
        Labels::Wrong => wrong(drawn.kind, dice.below(3)),
    };
    if drawn.labels == Labels::None {
        on.filesystem.class = FilesystemClass::Overlay;
        on.filesystem.kind = "overlay".to_owned();
    }
    if on.virtualization == "kvm" {
        on.vendor = dice.pick(&["DigitalOcean", "Hetzner", "Amazon EC2", "QEMU", ""]).to_owned();
    }
    on
}

/// A filesystem of a disk, if one is seen.
fn on_disk(virtualization: &str, disk: Option<Device>) -> Environment {
    Environment {
        virtualization: virtualization.to_owned(),
        filesystem: Filesystem { kind: "ext4".to_owned(), class: FilesystemClass::Disk, ..Filesystem::default() },
        devices: disk.into_iter().collect(),
        ..Environment::default()
    }
}

fn disk(kind: &str, transport: &str, model: &str, rotational: bool) -> Option<Device> {
    Some(Device {
        name: "disk0".to_owned(),
        kind: kind.to_owned(),
        transport: transport.to_owned(),
        model: model.to_owned(),
        rotational: Some(rotational),
        ..Device::default()
    })
}

fn right(kind: StorageKind, choice: usize) -> Environment {
    match kind {
        StorageKind::Nvme => on_disk("none", disk("disk", "nvme", "KXG60ZNV1T02", false)),
        StorageKind::SataSsd => on_disk("none", disk("disk", "scsi (ahci)", "ATA MTFDDAK960TDS", false)),
        StorageKind::Rotating => on_disk("none", disk("disk", "scsi (ahci)", "ATA ST4000NM0035", true)),
        StorageKind::RaidCache => on_disk("none", disk("disk", "scsi (megaraid_sas)", "DELL PERC H730", true)),
        StorageKind::NetworkBlock => match choice {
            0 => on_disk("kvm", disk("disk", "nvme", "Amazon Elastic Block Store", false)),
            1 => on_disk("none", disk("disk", "iscsi", "LIO-ORG disk", true)),
            _ => on_disk("kvm", disk("disk", "rbd", "", false)),
        },
        StorageKind::NetworkFile => {
            let mut on = on_disk("none", None);
            (on.filesystem.kind, on.filesystem.class) = ("nfs4".to_owned(), FilesystemClass::Network);
            on
        }
        // No label says so: it is a virtual machine like any other.
        StorageKind::Oversold => virtual_disk(kind, true, choice == 0, false),
        StorageKind::FileBacked => on_disk("none", disk("loop", "loop", "", false)),
        StorageKind::Ram => on_disk("none", disk("zram", "zram", "", false)),
    }
}

fn virtual_disk(kind: StorageKind, rotates: bool, is_scsi: bool, is_fuse: bool) -> Environment {
    if kind == StorageKind::NetworkFile {
        let mut on = on_disk("kvm", None);
        (on.filesystem.kind, on.filesystem.class) = if is_fuse {
            ("fuse.shared".to_owned(), FilesystemClass::Fuse)
        } else {
            ("virtiofs".to_owned(), FilesystemClass::Network)
        };
        return on;
    }
    let (transport, model) = if is_scsi { ("scsi (virtio_scsi)", "QEMU QEMU HARDDISK") } else { ("virtio", "") };
    on_disk("kvm", disk("disk", transport, model, rotates))
}

fn wrong(kind: StorageKind, choice: usize) -> Environment {
    let claims = [
        (StorageKind::Nvme, disk("disk", "nvme", "NVMe Ctrl", false)),
        (StorageKind::SataSsd, disk("disk", "scsi (ahci)", "ATA SSD", false)),
        (StorageKind::Rotating, disk("disk", "scsi (ahci)", "ATA HARDDISK", true)),
    ];
    let others: Vec<_> = claims.into_iter().filter(|(claimed, _)| *claimed != kind).collect();
    let (_, device) = others[choice % others.len()].clone();
    on_disk("none", device)
}
