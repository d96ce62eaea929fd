//! The chain of block devices from a filesystem down to the hardware, with what sysfs shows about each.

use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::UNIX_EPOCH;

use qd1_model::environment::{BOOT, Device, Filesystem, FilesystemClass};
use qd1_model::units::Bytes;

use crate::block::Block;
use crate::mounts::Mount;
use crate::transport::transport;
use crate::{Machine, names_in, text_of};

/// Longest chain followed; sysfs has no loops, but a loop device's file may be anywhere.
const CHAIN_MAX: usize = 256;

impl Machine {
    /// The block devices below `path` on the filesystem `fs`, the topmost first; empty where there is none or none
    /// is visible. If `path` is itself a block device, the chain begins there.
    #[must_use]
    pub fn devices(&self, fs: &Filesystem, path: &Path) -> Vec<Device> {
        if let Some(block) = self.block(path) {
            return self.described(vec![block]);
        }
        match fs.class {
            FilesystemClass::Memory | FilesystemClass::Network | FilesystemClass::Pseudo => Vec::new(),
            FilesystemClass::Disk | FilesystemClass::Overlay | FilesystemClass::Fuse => {
                self.described(self.blocks_below(path))
            }
        }
    }

    /// The chain that begins at the block device `dev`; empty if it is not a block device.
    #[must_use]
    pub fn devices_of_block(&self, dev: &Path) -> Vec<Device> {
        self.described(self.block(dev).into_iter().collect())
    }

    /// The devices that directly hold the filesystem of `path`.
    fn blocks_below(&self, path: &Path) -> Vec<Block> {
        if let Some(block) = self.block(path) {
            return vec![block];
        }
        let Ok(mount) = self.mount_of(path) else { return Vec::new() };
        let mount = self.upper_of(&mount).unwrap_or(mount);
        self.blocks_of_mount(&mount)
    }

    fn blocks_of_mount(&self, mount: &Mount) -> Vec<Block> {
        if mount.has_block_number()
            && let Some(block) = self.block_numbered(&mount.number)
        {
            return vec![block];
        }
        let named: Vec<Block> = mount.source_devices().filter_map(|source| self.block(source)).collect();
        // A multi-device btrfs names one device as its source; sysfs lists them all.
        let Some(first) = named.first().filter(|_| mount.kind == "btrfs") else { return named };
        let all = self.btrfs_members().into_iter().find(|members| members.contains(&first.name));
        let others = all.unwrap_or_default().into_iter().filter(|name| *name != first.name);
        let others: Vec<Block> = others.filter_map(|name| self.block_named(&name)).collect();
        named.into_iter().chain(others).collect()
    }

    /// Names of the devices of each mounted btrfs.
    pub(crate) fn btrfs_members(&self) -> Vec<Vec<String>> {
        let dir = self.below("/sys/fs/btrfs");
        names_in(&dir).into_iter().map(|uuid| names_in(&dir.join(uuid).join("devices"))).collect()
    }

    /// Follows the devices down: a partition to its disk, an array or volume to its members, a loop device to the
    /// disk that holds its file.
    fn described(&self, tops: Vec<Block>) -> Vec<Device> {
        let mut seen: Vec<String> = Vec::new();
        let mut devices = Vec::new();
        let mut waiting: Vec<Block> = tops.into_iter().rev().collect();
        while let Some(block) = waiting.pop() {
            if seen.contains(&block.name) || seen.len() >= CHAIN_MAX {
                continue;
            }
            devices.push(self.describe(&block));
            let below = match block.whole() {
                Some(whole) => vec![whole],
                None => match block.backing() {
                    Some(file) => self.blocks_below(&file),
                    None => block.slaves(),
                },
            };
            waiting.extend(below.into_iter().rev());
            seen.push(block.name);
        }
        devices
    }

    fn describe(&self, block: &Block) -> Device {
        // A partition has no queue and no hardware of its own; it uses its disk's.
        let whole = block.whole().unwrap_or_else(|| block.clone());
        let queue = |name: &str| text_of(&whole.dir.join("queue").join(name));
        let count = |name: &str| queue(name).parse::<u32>().unwrap_or(0);
        Device {
            name: block.name.clone(),
            number: block.number.clone(),
            kind: block.kind().to_owned(),
            transport: transport(self, block),
            model: model(&whole),
            identity: self.identity(block, &whole),
            firmware: first_of(&whole, &["device/firmware_rev", "device/rev", "device/fwrev"]),
            size: Bytes(block.size()),
            scheduler: active_scheduler(&queue("scheduler")),
            rotational: queue("rotational").parse::<u8>().ok().map(|value| value != 0),
            write_cache: queue("write_cache"),
            discard: queue("discard_max_bytes").parse::<u64>().ok().map(|bytes| bytes > 0),
            logical_block: count("logical_block_size"),
            physical_block: count("physical_block_size"),
            nr_requests: count("nr_requests"),
            read_ahead_kib: count("read_ahead_kb"),
            is_backed_by_memory: self.is_backed_by_memory(&whole),
            backing: block.backing().map(|file| file.to_string_lossy().into_owned()).unwrap_or_default(),
            // Only where the requests end: a partition is the same device again.
            nvme: if block.is_partition() { None } else { self.nvme(block) },
        }
    }

    /// Whether the file behind a loop device lies in memory. The kernel knows the device that holds the file; its path
    /// may no longer exist, or name something else.
    fn is_backed_by_memory(&self, block: &Block) -> bool {
        let Some(file) = block.backing() else { return false };
        let by_path = || self.filesystem(&file).is_ok_and(|found| found.class == FilesystemClass::Memory);
        let Some(behind) = self.behind(&block.name) else { return by_path() };
        // A block device: its file is in devtmpfs, and its members follow in the chain.
        if behind.block.is_some() {
            return false;
        }
        if let Some(mount) = self.mounts().iter().find(|mount| mount.number == behind.device()) {
            return self.class_of_mount(mount) == FilesystemClass::Memory;
        }
        // No mount shows the device. If the path leads to the file, the path's mount decides (a btrfs subvolume has its
        // own number). Otherwise it is an unnamed file in memory (memfd) or a file on a detached filesystem: only
        // memory has no disk of its own.
        match std::fs::metadata(&file) {
            Ok(data) if behind.is(&data) => by_path(),
            _ => behind.device().starts_with("0:"),
        }
    }

    /// What identifies a device, a part of `whole`, later on; see [`Device::identity`].
    fn identity(&self, block: &Block, whole: &Block) -> String {
        let of_whole = match whole.backing() {
            Some(file) => {
                // A file that replaced another may have got its inode.
                let data = std::fs::metadata(self.below(&file)).ok();
                let born = data.as_ref().and_then(|data| data.created().ok());
                let born = born.and_then(|time| time.duration_since(UNIX_EPOCH).ok()).unwrap_or_default();
                let inode = data.map_or(0, |data| data.ino());
                let offset = whole.attr("loop/offset");
                format!("{} (inode {inode} of {}, from {offset})", file.display(), born.as_nanos())
            }
            None => self.serial(whole),
        };
        match block.is_partition() && !of_whole.is_empty() {
            true => format!("{of_whole}, part at {}", block.start()),
            false => of_whole,
        }
    }

    fn serial(&self, whole: &Block) -> String {
        let known = first_of(whole, &["wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"]);
        let (sequence, boot) = (whole.attr("diskseq"), self.text("/proc/sys/kernel/random/boot_id"));
        match known.is_empty() && !sequence.is_empty() && !boot.is_empty() {
            true => format!("{BOOT}{boot} {sequence}"),
            false => known,
        }
    }
}

/// Vendor and model of hardware, name and type of a volume, level of an array.
fn model(block: &Block) -> String {
    let words = match block.kind() {
        "dm" => {
            // The UUID begins with its creator and, for dm-crypt, the format: `CRYPT-LUKS2-...`, `LVM-...`.
            let uuid = block.attr("dm/uuid");
            let parts: Vec<&str> = uuid.split('-').collect();
            let sort = match parts.as_slice() {
                ["CRYPT", format, ..] => format!("CRYPT-{format}"),
                [maker, _, ..] => (*maker).to_owned(),
                _ => String::new(),
            };
            [sort, block.attr("dm/name")]
        }
        "md" => [String::new(), block.attr("md/level")],
        _ => {
            // Virtio and NVMe give the vendor as a PCI number, which means nothing to readers.
            let vendor = block.attr("device/vendor");
            let named = if vendor.starts_with("0x") { String::new() } else { vendor };
            [named, first_of(block, &["device/model", "device/name"])]
        }
    };
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

fn first_of(block: &Block, names: &[&str]) -> String {
    names.iter().map(|name| block.attr(name)).find(|text| !text.is_empty()).unwrap_or_default()
}

/// The bracketed one in `[none] mq-deadline`; devices that offer no choice show it without brackets.
fn active_scheduler(text: &str) -> String {
    let bracketed = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(text, |(name, _)| name).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{self, Fixture};

    fn chain(machine: &Machine, path: &str) -> Vec<Device> {
        machine.devices(&machine.filesystem(Path::new(path)).unwrap(), Path::new(path))
    }

    fn names(devices: &[Device]) -> Vec<&str> {
        devices.iter().map(|device| device.name.as_str()).collect()
    }

    #[test]
    fn a_partition_of_a_virtio_disk_leads_to_the_disk() {
        let devices = chain(&fixture::virtio().machine(), "/var/lib");
        assert_eq!(names(&devices), ["vda1", "vda"]);
        let disk = &devices[1];
        assert_eq!((disk.kind.as_str(), disk.transport.as_str(), disk.number.as_str()), ("disk", "virtio", "254:0"));
        assert_eq!((disk.scheduler.as_str(), disk.write_cache.as_str()), ("mq-deadline", "write back"));
        assert_eq!((disk.rotational, disk.discard), (Some(true), Some(false)));
        assert_eq!((disk.logical_block, disk.physical_block), (512, 4096));
        assert_eq!((disk.nr_requests, disk.read_ahead_kib), (256, 128));
        assert_eq!(disk.model, "");
        assert_eq!((devices[0].kind.as_str(), devices[0].size), ("partition", Bytes(900 * 512)));
        assert_eq!(devices[0].scheduler, "mq-deadline");
    }

    #[test]
    fn lvm_on_dm_crypt_on_a_partition_leads_to_the_nvme_drive() {
        let devices = chain(&fixture::laptop().machine(), "/home/me");
        assert_eq!(names(&devices), ["dm-1", "dm-0", "nvme0n1p2", "nvme0n1"]);
        assert_eq!((devices[0].kind.as_str(), devices[0].model.as_str()), ("dm", "LVM vg-root"));
        assert_eq!(devices[1].model, "CRYPT-LUKS2 unlinked");
        assert_eq!((devices[3].model.as_str(), devices[3].firmware.as_str()), ("Samsung SSD 980 PRO 1TB", "5B2QGXA7"));
        assert_eq!(devices[0].scheduler, "");
    }

    #[test]
    fn btrfs_is_followed_by_its_source_to_all_its_devices() {
        let devices = chain(&fixture::btrfs().machine(), "/data");
        assert_eq!(names(&devices), ["sdb", "sdc"]);
    }

    #[test]
    fn an_array_leads_to_all_its_members() {
        let devices = chain(&fixture::raid().machine(), "/srv");
        assert_eq!(names(&devices), ["md0", "sda1", "sda", "sdb1", "sdb"]);
        assert_eq!((devices[0].kind.as_str(), devices[0].model.as_str()), ("md", "raid1"));
    }

    #[test]
    fn a_loop_device_leads_to_the_disk_that_holds_its_file() {
        let machine = fixture::virtio()
            .disk("loop0", "7:0", "", 64)
            .file("/sys/devices/virtual/block/loop0/loop/backing_file", "/var/disk.img\n")
            .file("/var/disk.img", "")
            .machine();
        let devices = machine.devices_of_block(Path::new("/dev/loop0"));
        assert_eq!(names(&devices), ["loop0", "vda1", "vda"]);
        assert_eq!((devices[0].kind.as_str(), devices[0].transport.as_str()), ("loop", "loop"));
        assert_eq!(devices[0].backing, "/var/disk.img");
    }

    #[test]
    fn a_loop_device_over_a_file_in_memory_says_so() {
        let in_memory = |backing: &str| {
            let mounts = "1 1 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:22 / /dev/shm rw - tmpfs tmpfs rw\n";
            let machine = Fixture::new()
                .disk("loop0", "7:0", "", 64)
                .file("/sys/devices/virtual/block/loop0/loop/backing_file", &format!("{backing}\n"))
                .file("/proc/self/mountinfo", mounts)
                .machine();
            machine.devices_of_block(Path::new("/dev/loop0"))[0].is_backed_by_memory
        };
        assert!(in_memory("/dev/shm/disk.img") && in_memory("/dev/shm/gone.img (deleted)"));
        assert!(!in_memory("/var/disk.img"));
    }

    #[test]
    fn a_loop_device_whose_file_is_on_itself_does_not_run_for_ever() {
        let machine = Fixture::new()
            .disk("loop0", "7:0", "", 64)
            .file("/sys/devices/virtual/block/loop0/loop/backing_file", "/x\n")
            .file("/proc/self/mountinfo", "1 1 7:0 / / rw - ext4 /dev/loop0 rw\n")
            .machine();
        assert_eq!(names(&machine.devices_of_block(Path::new("/dev/loop0"))), ["loop0"]);
    }

    #[test]
    fn an_overlay_is_followed_through_its_upper_directory() {
        let machine = fixture::overlay().dir("/var/lib/docker/overlay2/x/diff").machine();
        assert_eq!(names(&chain(&machine, "/merged")), ["sdb"]);
        assert_eq!(names(&chain(&fixture::docker().machine(), "/data")), ["vda1", "vda"]);
    }

    #[test]
    fn memory_and_network_filesystems_have_no_devices() {
        let machine = Fixture::new()
            .file("/proc/self/mountinfo", "1 1 0:5 / / rw - tmpfs tmpfs rw\n2 1 0:9 / /nfs rw - nfs4 /dev/sda:/x rw\n")
            .disk("sda", "8:0", "", 8)
            .machine();
        assert!(chain(&machine, "/tmp").is_empty());
        assert!(chain(&machine, "/nfs/x").is_empty());
        assert!(machine.devices_of_block(Path::new("/dev/none")).is_empty());
    }

    #[test]
    fn a_scsi_disk_names_vendor_model_and_revision() {
        let devices = fixture::droplet().machine().devices_of_block(Path::new("/dev/sda"));
        assert_eq!((devices[0].model.as_str(), devices[0].firmware.as_str()), ("DO Volume", "2.5+"));
    }

    #[test]
    fn a_device_without_any_attribute_is_still_named() {
        let devices = Fixture::new().disk("sdz", "65:144", "", 0).machine().devices_of_block(Path::new("/dev/sdz"));
        assert_eq!(devices[0].name, "sdz");
        assert_eq!((devices[0].rotational, devices[0].discard, devices[0].nr_requests), (None, None, 0));
    }
}
