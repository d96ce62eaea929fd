//! Which file a process has mapped at an address.

use std::fs::File;
use std::io::{BufRead as _, BufReader};

use crate::Machine;

/// Most mappings of a process that are read; some have hundreds of thousands.
const MAPPINGS_MAX: usize = 100_000;

/// Filesystems that are on no disk.
const IN_MEMORY: [&str; 4] = ["tmpfs", "ramfs", "devtmpfs", "hugetlbfs"];

/// What is mapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapped {
    /// Memory, or a file of a filesystem in memory.
    Memory,
    /// A file.
    File {
        /// Major and minor number of the disk that holds it; zeros if it is not known, or the filesystem has several.
        device: (u32, u32),
        /// Inode.
        inode: u64,
    },
}

impl Machine {
    /// Returns what a process has mapped at an address; `None` if that is nothing, the process is gone, or the kernel does
    /// not say. It waits while the process changes its mappings.
    #[must_use]
    pub fn mapped(&self, pid: u32, address: u64) -> Option<Mapped> {
        let maps = BufReader::new(File::open(self.below(format!("/proc/{pid}/maps"))).ok()?);
        let lines = maps.split(b'\n').map_while(Result::ok).take(MAPPINGS_MAX);
        let found =
            lines.filter_map(|line| mapping(&line)).find(|(from, until, ..)| (*from..*until).contains(&address));
        let (_, _, number, inode) = found?;
        if inode == 0 || self.is_in_memory(&number) {
            return Some(Mapped::Memory);
        }
        Some(Mapped::File { device: self.whole_disk(&number).unwrap_or_default(), inode })
    }

    /// Whether the filesystem with a device number such as `0:43` is in memory.
    fn is_in_memory(&self, number: &str) -> bool {
        self.mounts().iter().any(|mount| mount.number == number && IN_MEMORY.contains(&mount.kind.as_str()))
    }

    /// The numbers of the whole disk that the block device with a number such as `254:1` is, or is a partition of.
    fn whole_disk(&self, number: &str) -> Option<(u32, u32)> {
        let block = self.block_numbered(number)?;
        let disk = block.whole().unwrap_or(block);
        let (major, minor) = disk.number.split_once(':')?;
        Some((major.parse().ok()?, minor.parse().ok()?))
    }
}

/// The addresses, number of the device and inode of a line such as
/// `7f5c8a000000-7f5c8a001000 rw-s 00000000 fe:01 1234  /var/lib/data`.
fn mapping(line: &[u8]) -> Option<(u64, u64, String, u64)> {
    // The name may be any bytes; what comes before it is text.
    let line = String::from_utf8_lossy(line);
    let mut words = line.split_ascii_whitespace();
    let (from, until) = words.next()?.split_once('-')?;
    let (major, minor) = words.nth(2)?.split_once(':')?;
    let hexadecimal = |text: &str| u64::from_str_radix(text, 16).ok();
    let number = format!("{}:{}", hexadecimal(major)?, hexadecimal(minor)?);
    Some((hexadecimal(from)?, hexadecimal(until)?, number, words.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture;

    #[test]
    fn a_mapped_file_is_on_the_whole_disk() {
        let maps = "1000-3000 r--p 00000000 00:00 0\n3000-5000 rw-s 00001000 103:02 77   /srv/a file\n\
                    5000-6000 rw-s 00000000 00:2b 5 /other\n6000-7000 rw-s 00000000 00:2c 6 /dev/shm/x\n";
        let mounts = "30 1 0:44 / /dev/shm rw - tmpfs tmpfs rw\n31 1 0:43 / /other rw - btrfs /dev/sda rw\n";
        let laptop = fixture::laptop().file("/proc/9/maps", maps);
        let machine = laptop.file("/proc/self/mountinfo", mounts).machine();
        let on_disk = Some(Mapped::File { device: (259, 0), inode: 77 });
        assert_eq!(machine.mapped(9, 0x3000), on_disk);
        assert_eq!(machine.mapped(9, 0x4fff), on_disk);
        assert_eq!(machine.mapped(9, 0x5000), Some(Mapped::File { device: (0, 0), inode: 5 }), "on several disks");
        assert_eq!(machine.mapped(9, 0x1000), Some(Mapped::Memory));
        assert_eq!(machine.mapped(9, 0x6000), Some(Mapped::Memory));
        assert_eq!(machine.mapped(9, 0x9000), None);
        assert_eq!(machine.mapped(8, 0x3000), None, "no such process");
    }
}
