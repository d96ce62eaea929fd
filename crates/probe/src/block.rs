//! One block device in sysfs: found by path, number or name, with its relations to others.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::fs::{major, minor};

use crate::{Machine, names_in, text_of};

/// A block device and its directory in sysfs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Block {
    /// Kernel name, `nvme0n1p2`.
    pub(crate) name: String,
    /// Major and minor number as `259:2`.
    pub(crate) number: String,
    /// Its directory, symbolic links resolved.
    pub(crate) dir: PathBuf,
}

/// A block device as tracepoints name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockQueue {
    /// Major number.
    pub major: u32,
    /// Minor number.
    pub minor: u32,
    /// Whether it has a request queue: zram, most device mapper targets and md pass requests on instead.
    pub has_requests: bool,
    /// Whether the kernel keeps when requests were made (`queue/iostats`).
    pub has_times: bool,
}

/// Sectors in sysfs and diskstats are always this long, whatever the device's own block size
/// (kernel documentation, `block/stat`).
pub(crate) const SECTOR_BYTES: u64 = 512;

impl Machine {
    /// The block device at `path`: a device node, or a name under `/dev` whose node is missing (as in containers).
    pub(crate) fn block(&self, path: &Path) -> Option<Block> {
        if self.is_live() {
            match fs::metadata(path) {
                Ok(data) if data.file_type().is_block_device() => return self.block_numbered(&number_of(&data)),
                Ok(_) => return None,
                Err(error) if error.kind() != io::ErrorKind::NotFound => return None,
                Err(_) => {}
            }
        }
        let resolved = self.resolve(path);
        let name = resolved.strip_prefix("/dev").ok()?.to_str()?;
        match name.strip_prefix("mapper/") {
            Some(mapped) => self.block_mapped(mapped),
            None => self.block_named(name),
        }
    }

    /// The block device with a number such as `254:0`.
    pub(crate) fn block_numbered(&self, number: &str) -> Option<Block> {
        block_at(&self.below("/sys/dev/block").join(number))
    }

    /// The block device with a kernel name. Sysfs writes `!` for the `/` in names such as `cciss/c0d0`.
    pub(crate) fn block_named(&self, name: &str) -> Option<Block> {
        let name = name.replace('/', "!");
        if name.is_empty() || name.starts_with('.') {
            return None;
        }
        let dirs = ["/sys/class/block", "/sys/block"];
        dirs.iter().find_map(|dir| block_at(&self.below(dir).join(&name)))
    }

    /// Whether the kernel refuses writes to the block device at `path`; false where that is unknown.
    #[must_use]
    pub fn is_read_only_block(&self, path: &Path) -> bool {
        self.block(path).is_some_and(|block| block.attr("ro") == "1")
    }

    /// The numbers of the block device with this kernel name, and whether it has a request queue; `None` if there is
    /// none.
    #[must_use]
    pub fn block_queue(&self, name: &str) -> Option<BlockQueue> {
        let block = self.block_named(name)?;
        let (major, minor) = block.number.split_once(':')?;
        let has_requests = block.dir.join("mq").is_dir();
        let has_times = self.text(block.dir.join("queue/iostats")).trim() != "0";
        Some(BlockQueue { major: major.parse().ok()?, minor: minor.parse().ok()?, has_requests, has_times })
    }

    /// The kernel name of the block device with these numbers.
    #[must_use]
    pub fn block_name(&self, major: u32, minor: u32) -> Option<String> {
        self.block_numbered(&format!("{major}:{minor}")).map(|block| block.name)
    }

    fn block_mapped(&self, mapped: &str) -> Option<Block> {
        let found = self.block_names().into_iter().find(|name| {
            name.starts_with("dm-") && self.text(Path::new("/sys/block").join(name).join("dm/name")) == mapped
        })?;
        self.block_named(&found)
    }

    /// Names of all whole devices.
    pub(crate) fn block_names(&self) -> Vec<String> {
        names_in(&self.below("/sys/block"))
    }
}

fn number_of(data: &fs::Metadata) -> String {
    format!("{}:{}", major(data.rdev()), minor(data.rdev()))
}

fn block_at(link: &Path) -> Option<Block> {
    let dir = link.canonicalize().ok()?;
    let number = text_of(&dir.join("dev"));
    if number.is_empty() {
        return None;
    }
    Some(Block { name: dir.file_name()?.to_str()?.replace('!', "/"), number, dir })
}

impl Block {
    /// A file of its directory, trimmed; empty when missing.
    pub(crate) fn attr(&self, name: &str) -> String {
        text_of(&self.dir.join(name))
    }

    /// Size, bytes.
    pub(crate) fn size(&self) -> u64 {
        self.attr("size").parse::<u64>().unwrap_or(0).saturating_mul(SECTOR_BYTES)
    }

    /// Where it begins on its disk, bytes; 0 unless it is a partition.
    pub(crate) fn start(&self) -> u64 {
        self.attr("start").parse::<u64>().unwrap_or(0).saturating_mul(SECTOR_BYTES)
    }

    /// `disk`, `partition`, `dm`, `md`, `loop`, `zram`, `ram`.
    pub(crate) fn kind(&self) -> &'static str {
        let numbered = |prefix: &str| {
            let rest = self.name.strip_prefix(prefix);
            rest.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        };
        if self.is_partition() {
            "partition"
        } else if self.dir.join("dm").is_dir() || numbered("dm-") {
            "dm"
        } else if self.dir.join("md").is_dir() || numbered("md") {
            "md"
        } else {
            ["loop", "zram", "ram"].into_iter().find(|kind| numbered(kind)).unwrap_or("disk")
        }
    }

    /// Whether it is a part of another device.
    pub(crate) fn is_partition(&self) -> bool {
        self.dir.join("partition").exists()
    }

    /// For a partition, the device it is a part of.
    pub(crate) fn whole(&self) -> Option<Block> {
        if self.is_partition() { block_at(self.dir.parent()?) } else { None }
    }

    /// Its partitions, in order.
    pub(crate) fn partitions(&self) -> Vec<Block> {
        let children = names_in(&self.dir).into_iter().map(|name| self.dir.join(name));
        children.filter(|dir| dir.join("partition").exists()).filter_map(|dir| block_at(&dir)).collect()
    }

    /// The devices it consists of: members of an array, disks of a logical volume.
    pub(crate) fn slaves(&self) -> Vec<Block> {
        let dir = self.dir.join("slaves");
        names_in(&dir).into_iter().filter_map(|name| block_at(&dir.join(name))).collect()
    }

    /// Names of the devices built on it, and of drivers that claimed it without being listed as holders.
    pub(crate) fn holders(&self) -> Vec<String> {
        let mut names = names_in(&self.dir.join("holders"));
        if self.dir.join("bcache").exists() {
            names.push("bcache".to_owned());
        }
        names
    }

    /// For a loop device, the file behind it.
    pub(crate) fn backing(&self) -> Option<PathBuf> {
        let whole = self.whole();
        let file = whole.as_ref().unwrap_or(self).attr("loop/backing_file");
        if file.is_empty() { None } else { Some(file.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_device_is_found_by_number_name_and_mapper_name() {
        let machine = fixture::laptop().machine();
        assert_eq!(machine.block_numbered("259:2").unwrap().name, "nvme0n1p2");
        assert_eq!(machine.block_named("dm-1").unwrap().number, "253:1");
        assert_eq!(machine.block(Path::new("/dev/mapper/vg-root")).unwrap().name, "dm-1");
        assert_eq!(machine.block(Path::new("/dev/mapper/unlinked")).unwrap().name, "dm-0");
    }

    #[test]
    fn a_file_named_like_a_device_elsewhere_is_not_one() {
        let machine = fixture::laptop().file("/home/nvme0n1", "").machine();
        assert!(machine.block(Path::new("/home/nvme0n1")).is_none());
        assert!(Machine::new().block(Path::new("/proc/version")).is_none());
        assert!(machine.block_named("../block/nvme0n1").is_none());
    }

    #[test]
    fn a_device_that_takes_no_writes_says_so() {
        let fixture = fixture::virtio().file("/sys/devices/virtual/block/loop3/ro", "1\n");
        let machine = fixture.disk("loop3", "7:3", "", 8).machine();
        assert!(machine.is_read_only_block(Path::new("/dev/loop3")));
        assert!(!machine.is_read_only_block(Path::new("/dev/vda")) && !machine.is_read_only_block(Path::new("/dev/x")));
    }

    #[test]
    fn partitions_and_their_disk_know_each_other() {
        let machine = fixture::laptop().machine();
        let disk = machine.block_named("nvme0n1").unwrap();
        let names: Vec<String> = disk.partitions().into_iter().map(|part| part.name).collect();
        assert_eq!(names, ["nvme0n1p1", "nvme0n1p2"]);
        let part = machine.block_named("nvme0n1p2").unwrap();
        assert_eq!(part.whole().unwrap(), disk);
        assert_eq!(disk.whole(), None);
        assert_eq!(part.start(), 2048 * 512);
    }
}
