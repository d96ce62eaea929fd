//! What devices, drivers and firmware claim to be, and the layers that this machine's own kernel adds.
//!
//! The two differ. A label is a claim: in a virtual machine the host writes it. A layer of this kernel (a loop device,
//! zram, tmpfs, an NFS client) is not a claim: requests actually go through it.

use std::sync::LazyLock;

use qd1_model::environment::{Device, Environment, FilesystemClass};
use qd1_model::identity::StorageKind;

/// A label that was seen.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Label {
    /// Its name in `labels.tsv`.
    pub(super) name: &'static str,
    /// What was seen, in words.
    pub(super) text: String,
}

/// One row of the table.
struct Row {
    name: &'static str,
    factors: Vec<(StorageKind, f64)>,
}

static TABLE: LazyLock<Vec<Row>> = LazyLock::new(|| read(include_str!("labels.tsv")).expect("a test reads the table"));

fn read(text: &'static str) -> Option<Vec<Row>> {
    let factor = |word: &str| {
        let (kind, factor) = word.split_once('=')?;
        Some((StorageKind::ALL.into_iter().find(|known| known.name() == kind)?, factor.parse().ok()?))
    };
    let row = |line: &'static str| match line.split('\t').collect::<Vec<_>>()[..] {
        [name, factors, _] => Some(Row { name, factors: factors.split(' ').map(factor).collect::<Option<_>>()? }),
        _ => None,
    };
    text.lines().filter(|line| !line.starts_with('#')).map(row).collect()
}

impl Label {
    /// Returns the logarithm of its likelihood ratio for `kind`.
    pub(super) fn log_factor(&self, kind: StorageKind) -> f64 {
        let row = TABLE.iter().find(|row| row.name == self.name).expect("labels are named in the table");
        row.factors.iter().find(|(known, _)| *known == kind).map_or(0.0, |(_, factor)| factor.ln())
    }
}

/// Transports whose other end is another machine; this kernel speaks the network's protocol itself.
const NETWORK_TRANSPORTS: &[&str] = &["nbd", "rbd", "drbd", "iscsi", "nvme-tcp", "nvme-rdma", "nvme-fc"];

/// The kind that this machine's own kernel provides, with the reason: the first such layer from the top.
pub(super) fn structure(environment: &Environment) -> Option<(StorageKind, String)> {
    let fs = &environment.filesystem;
    match fs.class {
        FilesystemClass::Memory => return Some((StorageKind::Ram, format!("{} keeps its files in memory", fs.kind))),
        FilesystemClass::Network => {
            return Some((StorageKind::NetworkFile, format!("{} is on another machine", fs.kind)));
        }
        FilesystemClass::Fuse if NETWORK_FUSE.contains(&fs.kind.as_str()) => {
            return Some((StorageKind::NetworkFile, format!("{} is on another machine", fs.kind)));
        }
        _ => {}
    }
    environment.devices.iter().find_map(|device| match device.kind.as_str() {
        "loop" => Some((StorageKind::FileBacked, format!("{} is a loop device backed by a file", device.name))),
        "zram" | "ram" => Some((StorageKind::Ram, format!("{} is in memory ({})", device.name, device.kind))),
        _ if NETWORK_TRANSPORTS.contains(&device.transport.as_str()) => Some((
            StorageKind::NetworkBlock,
            format!("{} is reached over a network ({})", device.name, device.transport),
        )),
        _ if device.transport == "pmem" => Some((StorageKind::Ram, format!("{} is persistent memory", device.name))),
        _ => None,
    })
}

/// Programs that serve files from other machines.
const NETWORK_FUSE: &[&str] =
    &["fuse.sshfs", "fuse.s3fs", "fuse.rclone", "fuse.glusterfs", "fuse.juicefs", "fuse.ceph"];

/// The labels of a machine.
pub(super) fn labels(environment: &Environment) -> Vec<Label> {
    let mut labels = Vec::new();
    let mut add = |name: &'static str, text: String| labels.push(Label { name, text });
    let virtualization = environment.virtualization.as_str();
    // Containers have the disks of their host, so only the hypervisor counts: `docker on kvm` has one.
    let hypervisor = virtualization.rsplit(" on ").next().unwrap_or_default();
    let is_container_only = !virtualization.contains(" on ") && CONTAINERS.contains(&virtualization);
    let is_virtual = !matches!(hypervisor, "" | "none") && !is_container_only;
    if virtualization == "none" {
        add("own_machine", "no hypervisor was detected".to_owned());
    }
    if is_virtual && CLOUDS.iter().any(|cloud| environment.vendor.contains(cloud)) {
        add("cloud", format!("the machine is hosted by {}", environment.vendor));
    }
    if environment.filesystem.class == FilesystemClass::Fuse {
        add("fuse", format!("{} is served by a user-space program", environment.filesystem.kind));
    }
    if environment.devices.iter().any(|device| device.kind == "md") {
        add("md", "the kernel combines several devices into an array".to_owned());
    }
    if let Some(device) = environment.devices.iter().rev().find(|device| device.kind == "disk") {
        of_device(&mut add, device, is_virtual);
    }
    labels
}

const CONTAINERS: &[&str] =
    &["docker", "podman", "lxc", "kubernetes", "containerd", "openvz", "systemd-nspawn", "container"];
const CLOUDS: &[&str] = &[
    "Amazon",
    "Google",
    "Azure",
    "DigitalOcean",
    "Hetzner",
    "Vultr",
    "Linode",
    "OVH",
    "Scaleway",
    "Alibaba",
    "Tencent",
    "Huawei",
    "UpCloud",
    "Exoscale",
    "CloudSigma",
    "Oracle",
    "IBM",
];
/// Parts of the models of volumes and of local disks in clouds, in lower case.
const VOLUMES: &[&str] = &["elastic block store", "nvme_card-pd", "persistentdisk", "msft nvme accelerator"];
const LOCAL_DISKS: &[&str] = &["instance storage", "nvme_card", "ephemeraldisk", "microsoft nvme direct disk"];
/// Drivers and parts of the models of RAID controllers, in lower case.
const RAID_DRIVERS: &[&str] = &["megaraid", "hpsa", "smartpqi", "aacraid", "arcmsr", "3w-", "cciss"];
const RAID_MODELS: &[&str] = &["perc", "megaraid", "logical volume", "mr9", "smart array", "serveraid", "raid"];

fn of_device(add: &mut impl FnMut(&'static str, String), device: &Device, is_virtual: bool) {
    let (transport, model) = (device.transport.as_str(), device.model.to_ascii_lowercase());
    let names = |parts: &[&str]| parts.iter().any(|part| model.contains(part));
    let named = |what: &str| match device.model.as_str() {
        "" => format!("{} is {what}", device.name),
        model => format!("{} is {what}, model {model}", device.name),
    };
    let rotates = device.rotational == Some(true);
    if names(VOLUMES) {
        return add("volume_model", named("a cloud volume, going by its name"));
    }
    if names(LOCAL_DISKS) {
        return add("nvme_local_model", named("the cloud's local disk, going by its name"));
    }
    let is_raid = RAID_DRIVERS.iter().any(|driver| transport.contains(driver));
    match transport {
        "nvme" if is_virtual => add("nvme_in_a_vm", named("an NVMe device as presented by the host")),
        "nvme" => add("nvme", named("an NVMe device")),
        _ if is_raid || (names(RAID_MODELS) && !is_virtual) => {
            add("raid_controller", named("behind a RAID controller"))
        }
        "virtio" | "xen" | "scsi (virtio_scsi)" | "vmbus" => of_virtual(add, device),
        _ if is_virtual || names(&["qemu", "vmware", "vbox", "msft", "virtual"]) => of_virtual(add, device),
        "mmc" => add("mmc", named("an SD or eMMC card")),
        "scsi (usb)" | "scsi (usb-storage)" | "scsi (uas)" => add("usb", named("behind USB")),
        "scsi (ahci)" | "scsi (ata_piix)" if rotates => add("ahci_rotating", named("a SATA disk that says it rotates")),
        "scsi (ahci)" | "scsi (ata_piix)" => add("ahci_flash", named("a SATA disk that says it does not rotate")),
        _ if transport.starts_with("scsi") && rotates => {
            add("scsi_rotating", named("a SCSI disk that says it rotates"))
        }
        _ if transport.starts_with("scsi") => add("scsi_flash", named("a SCSI disk that says it does not rotate")),
        _ => {}
    }
    if device.nvme.as_ref().is_some_and(|nvme| nvme.volatile_write_cache == Some(false)) {
        add("nvme_identify_no_cache", format!("{} says it has no volatile write cache", device.name));
    }
}

fn of_virtual(add: &mut impl FnMut(&'static str, String), device: &Device) {
    let Device { name, transport, .. } = device;
    add("virtual", format!("{name} is a virtual disk ({transport})"));
    match device.rotational {
        Some(true) => add("virtual_rotating", format!("{name} says it rotates, as virtual disks do by default")),
        Some(false) => add("virtual_flash", format!("{name} says it does not rotate, as set by the host")),
        None => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn names(environment: &Environment) -> Vec<&'static str> {
        labels(environment).into_iter().map(|label| label.name).collect()
    }

    fn with(transport: &str, model: &str, rotational: bool, virtualization: &str) -> Environment {
        let mut environment = testing::empty().environment;
        environment.virtualization = virtualization.to_owned();
        let disk = &mut environment.devices[1];
        (disk.transport, disk.model, disk.rotational) = (transport.to_owned(), model.to_owned(), Some(rotational));
        environment
    }

    #[test]
    fn every_row_is_read_and_says_something() {
        let rows = include_str!("labels.tsv").lines().filter(|line| !line.starts_with('#')).count();
        assert_eq!(TABLE.len(), rows);
        assert!(TABLE.iter().all(|row| !row.factors.is_empty() && row.factors.iter().all(|(_, factor)| *factor > 0.0)));
    }

    #[test]
    fn what_a_device_says_is_taken_for_what_it_is_worth() {
        assert_eq!(names(&with("nvme", "Samsung SSD 980 PRO 1TB", false, "none")), ["own_machine", "nvme"]);
        assert_eq!(names(&with("nvme", "QEMU NVMe Ctrl", false, "kvm")), ["nvme_in_a_vm"]);
        assert_eq!(names(&with("nvme", "Amazon Elastic Block Store", false, "kvm")), ["volume_model"]);
        assert_eq!(names(&with("nvme", "Amazon EC2 NVMe Instance Storage", false, "kvm")), ["nvme_local_model"]);
        assert_eq!(names(&with("scsi (ahci)", "ST4000NM0035", true, "none")), ["own_machine", "ahci_rotating"]);
        assert_eq!(
            names(&with("scsi (megaraid_sas)", "DELL PERC H730", true, "none")),
            ["own_machine", "raid_controller"]
        );
        assert_eq!(names(&with("virtio", "", true, "kvm")), ["virtual", "virtual_rotating"]);
        assert_eq!(
            names(&with("scsi (virtio_scsi)", "QEMU QEMU HARDDISK", false, "kvm")),
            ["virtual", "virtual_flash"]
        );
        // A container on a machine without a hypervisor has that machine's disks.
        assert_eq!(names(&with("nvme", "", false, "docker")), ["nvme"]);
        assert_eq!(names(&with("nvme", "", false, "docker on kvm")), ["nvme_in_a_vm"]);
    }

    #[test]
    fn layers_of_this_kernel_are_what_they_are() {
        let of = |change: &dyn Fn(&mut Environment)| {
            let mut environment = testing::empty().environment;
            change(&mut environment);
            structure(&environment).map(|(kind, _)| kind)
        };
        assert_eq!(of(&|_| {}), None);
        assert_eq!(of(&|env| env.filesystem.class = FilesystemClass::Memory), Some(StorageKind::Ram));
        assert_eq!(of(&|env| env.filesystem.class = FilesystemClass::Network), Some(StorageKind::NetworkFile));
        assert_eq!(of(&|env| env.filesystem.class = FilesystemClass::Fuse), None);
        assert_eq!(of(&|env| env.devices[0].kind = "loop".to_owned()), Some(StorageKind::FileBacked));
        assert_eq!(of(&|env| env.devices[1].kind = "zram".to_owned()), Some(StorageKind::Ram));
        assert_eq!(of(&|env| env.devices[1].transport = "nvme-tcp".to_owned()), Some(StorageKind::NetworkBlock));
    }
}
