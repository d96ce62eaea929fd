//! What the filesystems stand on: a file with a loop device over it, or a block device that was named for it. Either is written
//! whole before each round, so that no filesystem pays for space that was never written.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use qd1_engine::backing::{Target, fill};
use qd1_engine::run::{Decision, Progress};
use qd1_model::Bytes;
use qd1_model::record::Prepare;
use qd1_probe::Machine;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, destroy};
use qd1_system::journal::{Change, Journal};
use qd1_system::{loops, tool};
use rustix::fs::FallocateFlags;

use crate::treatment::Substrate;

/// Longer than this nobody waits for the file of one round; what is left of it then is allocated, but not written.
const LONGEST_NS: u64 = 900_000_000_000;

/// Where the filesystems are made.
pub(super) struct Backing {
    /// Size of each filesystem.
    size: Bytes,
    place: BackingPlace,
}

enum BackingPlace {
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

impl Backing {
    /// A file of `size`, in a directory to come.
    pub(super) fn file(size: Bytes, direct: bool) -> Self {
        Self { size, place: BackingPlace::File { path: PathBuf::new(), direct } }
    }

    /// The beginning of a block device.
    pub(super) fn device(size: Bytes, device: &Path) -> Self {
        Self { size, place: BackingPlace::Device(device.to_owned()) }
    }

    /// Where its file is made, if it has one.
    pub(super) fn put_into(&mut self, dir: &Path) {
        if let BackingPlace::File { path, .. } = &mut self.place {
            *path = dir.join("disk.img");
        }
    }

    /// A device with nothing on it that any program would take for a filesystem.
    ///
    /// # Errors
    /// When there is no loop device, or the device is in use meanwhile.
    pub(super) fn disk(&self, machine: &Machine, journal: &mut Journal) -> Result<Disk> {
        let disk = match &self.place {
            BackingPlace::File { path, .. } => {
                journal.note(Change::Loop { file: path.clone() })?;
                let over = loops::attach(path)?;
                Disk { device: over.device, loop_direct: Some(over.direct) }
            }
            BackingPlace::Device(device) => {
                // Between two filesystems somebody may have taken it.
                destroy::refuse_in_use(machine, device)?;
                Disk { device: device.clone(), loop_direct: None }
            }
        };
        wipe(&disk.device)?;
        Ok(disk)
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

    /// Writes all of it with random data, a new file in each round.
    fn prepare(&self, seed: u64, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Prepare> {
        let size = self.size;
        let (target, direct) = match &self.place {
            BackingPlace::File { path, direct } => {
                self.remove();
                let file = File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
                // Where space cannot be reserved, writing it whole takes it as well.
                if rustix::fs::fallocate(&file, FallocateFlags::empty(), 0, size.0).is_err() {
                    file.set_len(size.0)?;
                }
                (Target::existing(path), *direct)
            }
            BackingPlace::Device(device) => (Target::exclusive(device)?, true),
        };
        watch.prepare(size);
        let mut look = |now: &Progress<'_>| {
            watch.prepared(now);
            Decision::Continue
        };
        let filled = fill(&target, size.0, LONGEST_NS, direct, seed, context.cancel, &mut look)?;
        if let Some(error) = filled.errors.first() {
            bail!("writing {size} for the filesystems failed: {} at offset {}", error.error, error.first_offset);
        }
        Ok(filled.prepare)
    }

    /// Leaves no file, and on a device no sign of a filesystem.
    fn clear(&self) {
        match &self.place {
            BackingPlace::File { .. } => self.remove(),
            BackingPlace::Device(device) => drop(wipe(device)),
        }
    }
}

/// Takes off what earlier filesystems left: their programs would ask, and the kernel's probing would find two.
fn wipe(device: &Path) -> Result<()> {
    tool::tool("wipefs", &["--all", "--quiet", &device.to_string_lossy()]).map(drop)
}
