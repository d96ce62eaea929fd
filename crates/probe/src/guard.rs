//! Whether a block device may be overwritten. The answer is no whenever anything uses it, anything recognisable lies
//! on it, or anything needed for the decision cannot be read: this is the only part of qd1 that treats missing
//! information as a refusal.

use std::collections::HashSet;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::Machine;
use crate::block::Block;
use crate::mounts::{self, Mount};
use crate::names_in;
use crate::signature::{signatures, signatures_within};

/// Why a block device must not be overwritten, and what to do about it. `device` is the one requested; `part` is the
/// kernel name of what stands in the way: the device itself, a partition of it, the disk it is a part of, or the
/// device that backs it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InUse {
    /// Not a block device at all.
    #[error("{} is not a block device; name one such as /dev/sdb, or test a file or directory instead", device.display())]
    NotABlockDevice {
        /// The requested device.
        device: PathBuf,
    },
    /// Something needed for the decision cannot be read.
    #[error("refusing to overwrite {}: cannot read {what} ({source}) and so cannot tell whether the device is in use; \
             run as root with /proc and /sys mounted", device.display())]
    Unknown {
        /// The requested device.
        device: PathBuf,
        /// What cannot be read.
        what: String,
        /// Why.
        source: io::Error,
    },
    /// Mounted, in this mount namespace or in another one.
    #[error("refusing to overwrite {}: {part} is mounted on {}; unmount it first, or name another device",
            device.display(), mount_point.display())]
    Mounted {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
        /// Where, as its namespace sees it.
        mount_point: PathBuf,
    },
    /// A member of a mounted filesystem of several devices.
    #[error("refusing to overwrite {}: {part} belongs to a mounted multi-device btrfs; unmount it first, or \
             name another device", device.display())]
    Member {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
    },
    /// Swap space in use.
    #[error("refusing to overwrite {}: {part} is swap space in use; turn it off first (swapoff /dev/{part})",
            device.display())]
    Swap {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
    },
    /// Held by device mapper, LVM, md or bcache.
    #[error("refusing to overwrite {}: {part} is part of {holder}; deactivate {holder} first (lvchange -an, cryptsetup \
             close, mdadm --stop), or name another device", device.display())]
    Held {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
        /// Kernel name of what holds it.
        holder: String,
    },
    /// Its data is also accessible through a loop device.
    #[error("refusing to overwrite {}: {part} is also in use as /dev/{loop_device}; detach it first \
             (losetup -d /dev/{loop_device})", device.display())]
    Loop {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
        /// Kernel name of the loop device.
        loop_device: String,
    },
    /// The kernel reports it as in use, but nothing shows by whom.
    #[error("refusing to overwrite {}: the kernel reports it as in use; find out what uses it (lsblk, lsof), or name \
             another device", device.display())]
    Busy {
        /// The requested device.
        device: PathBuf,
    },
    /// Has partitions.
    #[error("refusing to overwrite {}: it has partitions ({}); name one of them, or if its data may be lost, erase \
             the table first (wipefs --all {})", device.display(), partitions.join(", "), device.display())]
    Partitioned {
        /// The requested device.
        device: PathBuf,
        /// Their kernel names.
        partitions: Vec<String>,
    },
    /// Something recognisable lies on it.
    #[error("refusing to overwrite {}: {part} contains {kind} (signature at byte {offset}); if its data may be lost, \
             erase it first (wipefs --all /dev/{part})", device.display())]
    Signature {
        /// The requested device.
        device: PathBuf,
        /// What is in the way.
        part: String,
        /// What the signature belongs to.
        kind: &'static str,
        /// Where it is, bytes from the start of `part`.
        offset: u64,
    },
}

impl InUse {
    /// Whether this is only about unused data on the device: partitions, signatures.
    #[must_use]
    pub fn is_only_content(&self) -> bool {
        matches!(self, Self::Partitioned { .. } | Self::Signature { .. })
    }
}

impl Machine {
    /// Whether the block device `dev` may be overwritten: nothing uses it, its partitions, or the disk it is a part of,
    /// and nothing recognisable lies on it or on any of its partitions.
    ///
    /// Call it just before opening the device for writing with `O_EXCL`, which keeps others away from then on. It
    /// opens the device read-only with `O_EXCL` itself, so it refuses a device that the caller already holds open so.
    ///
    /// # Errors
    /// The first of [`Self::block_uses`].
    pub fn block_in_use(&self, dev: &Path) -> Result<(), InUse> {
        self.block_uses(dev).into_iter().next().map_or(Ok(()), Err)
    }

    /// Everything that stands in the way of overwriting `dev`: first whatever is in use, then whatever data is on it.
    /// Empty means that it may be overwritten.
    #[must_use]
    pub fn block_uses(&self, dev: &Path) -> Vec<InUse> {
        let Some(block) = self.block(dev) else { return vec![self.not_identified(dev)] };
        let mut check = Check { machine: self, dev, family: self.family(&block), block, found: Vec::new() };
        check.mounts();
        check.btrfs();
        check.swaps();
        check.holders();
        check.loops();
        check.partitions();
        check.contents();
        check.found
    }

    fn not_identified(&self, dev: &Path) -> InUse {
        let device = dev.to_path_buf();
        match fs::metadata(self.below(dev)) {
            Ok(data) if data.file_type().is_block_device() => {
                InUse::Unknown { device, what: "/sys/dev/block".to_owned(), source: io::ErrorKind::NotFound.into() }
            }
            Err(source) if source.kind() != io::ErrorKind::NotFound => {
                InUse::Unknown { device, what: dev.display().to_string(), source }
            }
            _ => InUse::NotABlockDevice { device },
        }
    }

    /// The devices that share data with `block`: its partitions, the disk it is a part of, and for a loop device on a
    /// block device the same of that one (a loop device does not claim what backs it, so the kernel would not object).
    fn family(&self, block: &Block) -> Vec<Block> {
        let mut family: Vec<Block> = Vec::new();
        let mut next = Some(block.clone());
        while let Some(block) = next.take().filter(|block| !family.contains(block)) {
            next = self.backing_block(&block);
            let relatives = block.whole().into_iter().chain(block.partitions());
            family.extend(std::iter::once(block.clone()).chain(relatives));
        }
        family
    }

    /// The block device behind a loop device, whose node may have been removed since.
    fn backing_block(&self, block: &Block) -> Option<Block> {
        let name = block.whole().map_or_else(|| block.name.clone(), |whole| whole.name);
        let by_number = || self.block_numbered(&self.behind(&name)?.block?);
        block.backing().and_then(|file| self.block(&file).or_else(by_number))
    }
}

/// One decision in progress.
struct Check<'a> {
    machine: &'a Machine,
    dev: &'a Path,
    block: Block,
    family: Vec<Block>,
    found: Vec<InUse>,
}

impl Check<'_> {
    fn device(&self) -> PathBuf {
        self.dev.to_path_buf()
    }

    fn unknown(&mut self, what: String, source: io::Error) {
        let device = self.device();
        self.found.push(InUse::Unknown { device, what, source });
    }

    fn member(&self, number: &str) -> Option<String> {
        self.family.iter().find(|block| block.number == number).map(|block| block.name.clone())
    }

    /// By the mount's device number, and by its source for filesystems with an anonymous one.
    fn mounts(&mut self) {
        let (all, error) = self.every_mount();
        if let Some((what, error)) = error {
            self.unknown(what, error);
        }
        let mut sources: HashSet<&str> = HashSet::new();
        let mut reported: HashSet<(String, &Path)> = HashSet::new();
        let mut found = Vec::new();
        for mount in &all {
            let by_source = || {
                let mut numbers = mount.source_devices().filter_map(|path| self.machine.block(path));
                numbers.find_map(|block| self.member(&block.number))
            };
            // Hundreds of mounts may share one source; looking up each foreign source once is enough.
            let skip = sources.contains(mount.source.as_str());
            let part = self.member(&mount.number).or_else(|| if skip { None } else { by_source() });
            match part {
                None => _ = sources.insert(&mount.source),
                Some(part) if reported.insert((part.clone(), &mount.point)) => {
                    found.push(InUse::Mounted { device: self.device(), part, mount_point: mount.point.clone() });
                }
                Some(_) => {}
            }
        }
        self.found.extend(found);
    }

    /// The mounts of every visible namespace. Not seeing this process's own is an error; the others are an
    /// extra, since the kernel's own check (`O_EXCL`) follows.
    fn every_mount(&self) -> (Vec<Mount>, Option<(String, io::Error)>) {
        let own = "/proc/self/mountinfo";
        let read =
            |path: &str| fs::read(self.machine.below(path)).map(|text| String::from_utf8_lossy(&text).into_owned());
        let mut all = match read(own) {
            Ok(text) => mounts::parse(&text),
            Err(error) => return (Vec::new(), Some((own.to_owned(), error))),
        };
        if all.is_empty() {
            return (all, Some((own.to_owned(), io::ErrorKind::InvalidData.into())));
        }
        let namespace = |pid: &str| fs::read_link(self.machine.below(format!("/proc/{pid}/ns/mnt"))).ok();
        let mut seen: HashSet<PathBuf> = namespace("self").into_iter().collect();
        for pid in names_in(&self.machine.below("/proc")).iter().filter(|name| name.bytes().all(|b| b.is_ascii_digit()))
        {
            if namespace(pid).is_none_or(|namespace| seen.insert(namespace)) {
                all.extend(mounts::parse(&read(&format!("/proc/{pid}/mountinfo")).unwrap_or_default()));
            }
        }
        (all, None)
    }

    fn btrfs(&mut self) {
        let members: HashSet<String> = self.machine.btrfs_members().into_iter().flatten().collect();
        let mounted = |block: &&Block| members.contains(&block.name);
        let parts: Vec<String> = self.family.iter().filter(mounted).map(|block| block.name.clone()).collect();
        for part in parts {
            // A mount that was already found says more.
            if !self.found.iter().any(|use_| matches!(use_, InUse::Mounted { part: reported, .. } if *reported == part))
            {
                self.found.push(InUse::Member { device: self.device(), part });
            }
        }
    }

    fn swaps(&mut self) {
        let path = "/proc/swaps";
        let text = match fs::read_to_string(self.machine.below(path)) {
            Ok(text) => text,
            // A kernel built without swap has no such file.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return,
            Err(error) => return self.unknown(path.to_owned(), error),
        };
        for line in text.lines().skip(1) {
            let file = mounts::unescape(line.split_whitespace().next().unwrap_or_default());
            let block = self.machine.block(Path::new(&file));
            if let Some(part) = block.and_then(|block| self.member(&block.number)) {
                self.found.push(InUse::Swap { device: self.device(), part });
            }
        }
    }

    fn holders(&mut self) {
        for block in &self.family {
            for holder in block.holders() {
                let (device, part) = (self.device(), block.name.clone());
                self.found.push(InUse::Held { device, part, holder });
            }
        }
    }

    /// Loop devices over anything here, and other loop devices over the same file.
    fn loops(&mut self) {
        let own = self.block.whole().unwrap_or_else(|| self.block.clone());
        let (own_file, own_behind) = (own.backing(), self.machine.behind(&own.name));
        for name in self.machine.block_names().into_iter().filter(|name| name.starts_with("loop") && *name != own.name)
        {
            let Some(file) = self.machine.block_named(&name).and_then(|block| block.backing()) else { continue };
            let behind = self.machine.behind(&name);
            // A file may have several paths: hard links, bind mounts.
            let is_same = own_file.as_ref() == Some(&file) || behind.is_some() && behind == own_behind;
            let part = if is_same {
                Some(file.display().to_string())
            } else {
                let by_number = || behind.and_then(|behind| self.machine.block_numbered(&behind.block?));
                let member = |block: Block| self.member(&block.number);
                self.machine.block(&file).and_then(member).or_else(|| by_number().and_then(member))
            };
            // In a chain of loop devices the intermediate ones belong to the family; this device depends on them.
            let between = self.family.iter().any(|block| block.name == name);
            if let Some(part) = part.filter(|_| !between) {
                self.found.push(InUse::Loop { device: self.device(), part, loop_device: name });
            }
        }
    }

    fn partitions(&mut self) {
        let partitions: Vec<String> = self.block.partitions().into_iter().map(|part| part.name).collect();
        if !partitions.is_empty() {
            self.found.push(InUse::Partitioned { device: self.device(), partitions });
        }
    }

    /// Asks the kernel for the device exclusively, which fails if anybody in any namespace uses it, then reads what
    /// lies on it and on its partitions.
    fn contents(&mut self) {
        let mut file = match self.open() {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
                // Whatever was found before explains it better.
                if self.found.is_empty() {
                    self.found.push(InUse::Busy { device: self.device() });
                }
                return;
            }
            Err(error) => return self.unknown(self.dev.display().to_string(), error),
        };
        let whole = signatures(&mut file).map(|found| (self.block.name.clone(), found));
        let parts = self.block.partitions().into_iter().map(|part| {
            let found = signatures_within(&mut file, part.start(), part.size());
            found.map(|found| (part.name, found))
        });
        let read: Vec<_> = std::iter::once(whole).chain(parts).collect();
        for result in read {
            match result {
                Err(error) => self.unknown(self.dev.display().to_string(), error),
                Ok((part, found)) => self.found.extend(found.into_iter().map(|signature| InUse::Signature {
                    device: self.dev.to_path_buf(),
                    part: part.clone(),
                    kind: signature.kind,
                    offset: signature.offset,
                })),
            }
        }
    }

    fn open(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        options.read(true);
        if self.machine.is_live() {
            options.custom_flags(libc::O_EXCL);
        }
        options.open(self.machine.below(self.dev))
    }
}

#[cfg(test)]
mod tests;
