//! What the filesystems stand on: a file with a loop device over it, or a block device that was named for it. Either is written
//! whole before each round, so that no filesystem pays for space that was never written.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use qd1_engine::run::{Progress as Watched, Wish};
use qd1_engine::target::{Target, fill};
use qd1_model::Bytes;
use qd1_model::record::Prepare;
use qd1_probe::Machine;
use rustix::fs::FallocateFlags;

use crate::journal::{Change, Journal};
use crate::progress::Progress;
use crate::{place, system};

/// Longer than this nobody waits for the file of one round; what is left of it then is allocated, but not written.
const LONGEST_NS: u64 = 900_000_000_000;

/// Where the filesystems are made.
pub(super) enum Ground {
    /// A file in the scratch directory; whether direct I/O works there.
    File { path: PathBuf, direct: bool },
    /// A block device, overwritten.
    Device(PathBuf),
}

/// A device to make a filesystem on.
pub(super) struct Disk {
    pub(super) device: PathBuf,
    /// Whether a loop device goes past the page cache; nothing where there is none.
    pub(super) loop_direct: Option<bool>,
}

impl Ground {
    /// Writes `size` bytes of it with random data, a new file in each round.
    ///
    /// # Errors
    /// When there is no space, or the disk takes no writes.
    pub(super) fn lay(&self, size: Bytes, seed: u64, cancel: &AtomicBool, progress: &mut Progress) -> Result<Prepare> {
        let (target, direct) = match self {
            Self::File { path, direct } => {
                self.remove();
                let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
                // Where space cannot be reserved, writing it whole takes it as well.
                if rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0).is_err() {
                    file.set_len(size.0)?;
                }
                (Target::existing(path), *direct)
            }
            Self::Device(device) => (Target::exclusive(device)?, true),
        };
        progress.prepare(size);
        let mut watch = |now: &Watched<'_>| {
            progress.prepared(now);
            Wish::Continue
        };
        let filled = fill(&target, size.0, LONGEST_NS, direct, seed, cancel, &mut watch)?;
        if let Some(error) = filled.errors.first() {
            bail!("writing {size} for the filesystems failed: {} at offset {}", error.error, error.first_offset);
        }
        Ok(filled.prepare)
    }

    /// A device of `size` with nothing on it that any program would take for a filesystem.
    ///
    /// # Errors
    /// When there is no loop device, or the device is in use meanwhile.
    pub(super) fn disk(&self, machine: &Machine, journal: &mut Journal) -> Result<Disk> {
        let disk = match self {
            Self::File { path, .. } => {
                journal.note(Change::Loop { file: path.clone() })?;
                let over = system::attach(path)?;
                Disk { device: over.device, loop_direct: Some(over.direct) }
            }
            Self::Device(device) => {
                // Between two filesystems somebody may have taken it.
                place::may_destroy(machine, device)?;
                Disk { device: device.clone(), loop_direct: None }
            }
        };
        wipe(&disk.device)?;
        Ok(disk)
    }

    /// Leaves nothing behind: no file, and on a device no sign of a filesystem.
    pub(super) fn clear(&self) {
        match self {
            Self::File { .. } => self.remove(),
            Self::Device(device) => drop(wipe(device)),
        }
    }

    fn remove(&self) {
        if let Self::File { path, .. } = self {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Takes off what earlier filesystems left: their programs would ask, and the kernel's probing would find two.
fn wipe(device: &Path) -> Result<()> {
    system::tool("wipefs", &["--all", "--quiet", &device.to_string_lossy()]).map(drop)
}
