//! How a device is attached, as far as the links in sysfs show.

use std::path::Path;

use crate::block::Block;
use crate::{Machine, link_name, names_in, text_of};

/// Devices without a bus, and those on old kernels without a `device` link, recognised by their names.
const BY_NAME: &[(&str, &str)] = &[
    ("loop", "loop"),
    ("zram", "zram"),
    ("ram", "ram"),
    ("nbd", "nbd"),
    ("nullb", "null_blk"),
    ("rbd", "rbd"),
    ("drbd", "drbd"),
    ("nvme", "nvme"),
    ("vd", "virtio"),
    ("xvd", "xen"),
    ("mmcblk", "mmc"),
    ("pmem", "pmem"),
    ("dasd", "ccw"),
    ("sd", "scsi"),
];

/// `virtio`, `nvme`, `nvme-tcp`, `scsi (virtio_scsi)`, `scsi (ahci)`, `iscsi`, `xen`, `mmc`, `nbd`, `rbd`, `loop`,
/// `zram`, `ram`, ...; empty for devices made of others (`dm`, `md`) and where it is unknown.
pub(crate) fn transport(machine: &Machine, block: &Block) -> String {
    let block = block.whole().unwrap_or_else(|| block.clone());
    if matches!(block.kind(), "dm" | "md") {
        return String::new();
    }
    let device = block.dir.join("device");
    match link_name(&device.join("subsystem")).as_str() {
        "" => by_name(&block.name),
        "scsi" => scsi(machine, &device),
        "nvme" | "nvme-subsystem" => nvme(&device),
        "nd" => "pmem".to_owned(),
        bus => bus.to_owned(),
    }
}

fn by_name(name: &str) -> String {
    let found = BY_NAME.iter().find(|(prefix, _)| name.starts_with(prefix));
    found.map(|(_, transport)| (*transport).to_owned()).unwrap_or_default()
}

/// Distinguishes NVMe over a network from local NVMe by its controller.
fn nvme(device: &Path) -> String {
    let controllers = names_in(device).into_iter().filter(|name| name.starts_with("nvme"));
    let of_controllers = controllers.map(|name| text_of(&device.join(name).join("transport")));
    let carried =
        std::iter::once(text_of(&device.join("transport"))).chain(of_controllers).find(|text| !text.is_empty());
    match carried.as_deref() {
        None | Some("pcie") => "nvme".to_owned(),
        Some(network) => format!("nvme-{network}"),
    }
}

/// The path of a SCSI device leads through its host, whose driver distinguishes a virtual disk from a real one.
fn scsi(machine: &Machine, device: &Path) -> String {
    let real = device.canonicalize().unwrap_or_default();
    let steps: Vec<&str> = real.iter().filter_map(|step| step.to_str()).collect();
    let numbered = |prefix: &str| {
        let is = |step: &&&str| {
            let rest = step.strip_prefix(prefix).unwrap_or_default();
            !rest.is_empty() && rest.bytes().all(|b| b.is_ascii_digit())
        };
        steps.iter().find(is).copied()
    };
    if numbered("session").is_some() {
        return "iscsi".to_owned();
    }
    let host = numbered("host").map(|host| Path::new("/sys/class/scsi_host").join(host).join("proc_name"));
    match host.map(|path| machine.text(path)).as_deref() {
        Some("iscsi_tcp" | "iser") => "iscsi".to_owned(),
        None | Some("" | "<NULL>" | "(null)") if numbered("virtio").is_some() => "scsi (virtio_scsi)".to_owned(),
        None | Some("" | "<NULL>" | "(null)") if numbered("usb").is_some() => "scsi (usb)".to_owned(),
        None | Some("" | "<NULL>" | "(null)") => "scsi".to_owned(),
        Some(driver) => format!("scsi ({driver})"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Fixture};

    fn of(fixture: Fixture, name: &str) -> String {
        let machine = fixture.machine();
        transport(&machine, &machine.block_named(name).unwrap())
    }

    #[test]
    fn a_virtio_disk_is_recognised_by_its_bus() {
        assert_eq!(of(fixture::virtio(), "vda"), "virtio");
        assert_eq!(of(fixture::virtio(), "vda1"), "virtio");
    }

    #[test]
    fn scsi_names_the_driver_of_its_host() {
        assert_eq!(of(fixture::droplet(), "sda"), "scsi (virtio_scsi)");
        let named = fixture::droplet().file("/sys/class/scsi_host/host0/proc_name", "ahci\n");
        assert_eq!(of(named, "sda"), "scsi (ahci)");
    }

    #[test]
    fn an_iscsi_session_is_seen_in_the_path() {
        let fixture = Fixture::new()
            .disk("sdb", "8:16", "platform/host7/session1/target7:0:0/7:0:0:1", 100)
            .bus("platform/host7/session1/target7:0:0/7:0:0:1", "scsi");
        assert_eq!(of(fixture, "sdb"), "iscsi");
    }

    #[test]
    fn nvme_over_a_network_is_not_plain_nvme() {
        assert_eq!(of(fixture::laptop(), "nvme0n1"), "nvme");
        let remote = fixture::laptop().file("/sys/devices/pci0000:00/nvme0/transport", "tcp\n");
        assert_eq!(of(remote, "nvme0n1"), "nvme-tcp");
    }

    #[test]
    fn devices_without_a_bus_are_recognised_by_name() {
        let names = [("nbd3", "43:3"), ("xvda", "202:0"), ("nullb0", "252:0"), ("dm-0", "253:0")];
        let fixture = names.iter().fold(Fixture::new(), |made, (name, number)| made.disk(name, number, "", 8));
        let machine = fixture.machine();
        let of = |name| transport(&machine, &machine.block_named(name).unwrap());
        assert_eq!(["nbd3", "xvda", "nullb0", "dm-0"].map(of), ["nbd", "xen", "null_blk", ""]);
    }
}
