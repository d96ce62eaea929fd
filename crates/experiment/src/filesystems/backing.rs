//! The disk below the filesystems: a file with a loop device on it, or a block device named by the user. All of it is
//! written before each round, so that no filesystem pays for space that was never written.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use qd1_engine::backing::{Target, fill};
use qd1_engine::run::{Decision, Progress};
use qd1_model::Bytes;
use qd1_model::record::Prepare;
use qd1_probe::Machine;
use qd1_probe::guard::InUse;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, destroy};
use qd1_system::journal::{Change, Journal};
use qd1_system::{loops, tool};
use rustix::fs::FallocateFlags;

use crate::treatment::Substrate;

/// Longest time to write the file in one round; the rest of it is then allocated but not written.
const LONGEST_NS: u64 = 900_000_000_000;

/// Where the filesystems are created.
pub(super) struct Backing {
    /// Size of each filesystem.
    size: Bytes,
    place: BackingPlace,
}

enum BackingPlace {
    /// A file in the scratch directory, and whether direct I/O works there.
    File { path: PathBuf, direct: bool },
    /// A block device to overwrite, and the signatures that this run has put there.
    Device { path: PathBuf, made: RefCell<BTreeSet<String>> },
}

/// A device to create a filesystem on.
pub(super) struct Disk {
    pub(super) device: PathBuf,
    /// Whether the loop device uses direct I/O; `None` when there is no loop device.
    pub(super) loop_direct: Option<bool>,
}

impl Backing {
    /// Returns a file of `size`, in a directory that [`Self::put_into`] sets.
    pub(super) fn file(size: Bytes, direct: bool) -> Self {
        Self { size, place: BackingPlace::File { path: PathBuf::new(), direct } }
    }

    /// Returns the first `size` bytes of a block device.
    pub(super) fn device(size: Bytes, device: &Path) -> Self {
        Self { size, place: BackingPlace::Device { path: device.to_owned(), made: RefCell::default() } }
    }

    /// Sets the directory of its file, if it has one.
    pub(super) fn put_into(&mut self, dir: &Path) {
        if let BackingPlace::File { path, .. } = &mut self.place {
            *path = dir.join("disk.img");
        }
    }

    /// Returns a device without any filesystem signatures.
    ///
    /// # Errors
    /// If there is no loop device, or the device is now in use.
    pub(super) fn disk(&self, machine: &Machine, journal: &mut Journal) -> Result<Disk> {
        let disk = match &self.place {
            BackingPlace::File { path, .. } => {
                journal.note(Change::Loop { file: path.clone() })?;
                let over = loops::attach(path)?;
                Disk { device: over.device, loop_direct: Some(over.direct) }
            }
            BackingPlace::Device { path, made } => {
                make_way(machine, path, &made.borrow())?;
                return Ok(Disk { device: path.clone(), loop_direct: None });
            }
        };
        wipe(&disk.device)?;
        Ok(disk)
    }

    /// Records what a filesystem that was just created, even partly, has put on the device.
    ///
    /// # Errors
    /// When its signatures cannot be listed.
    pub(super) fn note_made(&self) -> Result<()> {
        if let BackingPlace::Device { path, made } = &self.place {
            *made.borrow_mut() = signatures(path)?;
        }
        Ok(())
    }

    fn remove(&self) {
        if let BackingPlace::File { path, .. } = &self.place {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Substrate for Backing {
    fn preparation(&self) -> String {
        format!("writing {}", self.size)
    }

    /// Fills it with random data; a file is recreated in each round.
    fn prepare(&self, seed: u64, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Prepare> {
        let size = self.size;
        let (target, direct) = match &self.place {
            BackingPlace::File { path, direct } => {
                self.remove();
                let file = File::create_new(path).with_context(|| format!("cannot create {}", path.display()))?;
                // If space cannot be reserved, writing all of it allocates it as well.
                if rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0).is_err() {
                    file.set_len(size.0)?;
                }
                (Target::existing(path), *direct)
            }
            BackingPlace::Device { path, made } => {
                make_way(context.machine, path, &made.borrow())?;
                (Target::exclusive(path)?, true)
            }
        };
        watch.prepare(size);
        let mut report = |now: &Progress<'_>| {
            watch.prepared(now);
            Decision::Continue
        };
        let filled = fill(&target, size.0, LONGEST_NS, direct, seed, context.cancel, &mut report)?;
        if let Some(error) = filled.errors.first() {
            bail!("writing {size} for the filesystems failed: {} at offset {}", error.error, error.first_offset);
        }
        Ok(filled.prepare)
    }

    /// Removes the file, or the filesystem that this run made on a device.
    fn clear(&self) {
        match &self.place {
            BackingPlace::File { .. } => self.remove(),
            BackingPlace::Device { path, made } => drop(wipe_made(&Machine::new(), path, &made.borrow())),
        }
    }
}

/// Prepares a device for the next filesystem by removing the last one that this run created.
///
/// # Errors
/// If someone now uses the device, or has put something else there.
fn make_way(machine: &Machine, device: &Path, made: &BTreeSet<String>) -> Result<()> {
    wipe_made(machine, device, made)?;
    destroy::refuse_in_use(machine, device)
}

/// Removes what this run created on a device that nobody uses; anything else on it stays.
fn wipe_made(machine: &Machine, device: &Path, made: &BTreeSet<String>) -> Result<()> {
    let is_free = machine.block_uses(device).iter().all(InUse::is_only_content);
    if is_free && !made.is_empty() && signatures(device)? == *made { wipe(device) } else { Ok(()) }
}

/// Returns the type and the identifier of each signature on a device.
fn signatures(device: &Path) -> Result<BTreeSet<String>> {
    let listed = tool::tool("wipefs", &["--noheadings", "--output", "TYPE,UUID", &device.to_string_lossy()])?;
    Ok(listed.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect())
}

/// Removes the signatures of earlier filesystems: otherwise their programs would ask, and the kernel's probing would
/// find two.
fn wipe(device: &Path) -> Result<()> {
    tool::tool("wipefs", &["--all", "--quiet", &device.to_string_lossy()]).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Someone else may start to use the device between two filesystems.
    #[test]
    fn what_a_stranger_puts_on_the_device_meanwhile_is_left_alone() {
        if !rustix::process::geteuid().is_root() || tool::find("mkfs.ext4").is_none() {
            println!("SKIPPED: loop devices need root, and mkfs.ext4");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("disk.img");
        File::create(&file).unwrap().set_len(16 << 20).unwrap();
        let device = loops::attach(&file).unwrap().device;
        let name = device.to_str().unwrap();
        let machine = Machine::new();
        let outcome = std::panic::catch_unwind(|| {
            tool::tool("mkfs.ext4", &["-q", name]).unwrap();
            let made = signatures(&device).unwrap();
            make_way(&machine, &device, &made).unwrap();
            assert!(signatures(&device).unwrap().is_empty(), "what this run made is gone");
            tool::tool("mkfs.ext4", &["-q", name]).unwrap();
            let theirs = signatures(&device).unwrap();
            assert!(make_way(&machine, &device, &made).unwrap_err().to_string().contains("ext4"));
            assert_eq!(signatures(&device).unwrap(), theirs);
        });
        loops::detach(&file).unwrap();
        outcome.unwrap();
    }
}
