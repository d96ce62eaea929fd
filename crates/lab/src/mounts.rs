//! Filesystems that are mounted, on loop devices and elsewhere.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::tool::text;
use crate::{Loop, Unavailable, open_dir, tool};

/// A mount point; unmounted on drop.
pub struct Mount {
    at: PathBuf,
    /// The directory of the mount point, if it is private.
    _dir: Option<TempDir>,
}

impl Mount {
    /// On a directory that every user can enter. `args` are mount's, without the directory.
    ///
    /// # Errors
    /// Why it cannot be mounted.
    pub fn new(args: &[&str]) -> Result<Self, Unavailable> {
        let dir = open_dir()?;
        let at = dir.path().to_owned();
        mount(args, &at)?;
        Ok(Self { at, _dir: Some(dir) })
    }

    /// On a directory that it creates.
    ///
    /// # Errors
    /// Why it cannot be mounted.
    pub fn at(at: PathBuf, args: &[&str]) -> Result<Self, Unavailable> {
        fs::create_dir(&at).with_context(|| format!("cannot make {}", at.display()))?;
        mount(args, &at)?;
        Ok(Self { at, _dir: None })
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        &self.at
    }
}

fn mount(args: &[&str], at: &Path) -> Result<(), Unavailable> {
    tool("mount", &[args, &[text(at)]].concat()).map(drop)
}

impl Drop for Mount {
    fn drop(&mut self) {
        let at = text(&self.at);
        if let Err(error) = tool("umount", &[at]).or_else(|_| tool("umount", &["--lazy", at])) {
            eprintln!("cannot unmount {at}; do it by hand: {error}");
        }
    }
}

/// A mounted loop device. Unmounted before it is detached.
pub struct Mounted {
    mount: Mount,
    /// The device.
    pub disk: Loop,
}

impl Mounted {
    /// With these options of mount.
    ///
    /// # Errors
    /// Why it cannot be mounted this way.
    pub fn new(disk: Loop, options: &str) -> Result<Self, Unavailable> {
        let mount = Mount::new(&["-o", options, disk.path()])?;
        // mkfs created it; a directory to measure must be empty.
        let _ = fs::remove_dir(mount.path().join("lost+found"));
        Ok(Self { mount, disk })
    }

    /// A sparse ext4 with room for the test file next to the space that always stays free.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn ext4(options: &str) -> Result<Self, Unavailable> {
        Self::new(Loop::ext4(2 << 30)?, options)
    }

    /// A filesystem of this kind over a fully written file in `dir`.
    ///
    /// # Errors
    /// Why it is not possible here.
    pub fn filled(kind: &str, dir: TempDir, bytes: u64) -> Result<Self, Unavailable> {
        let disk = Loop::filled(dir, bytes)?;
        disk.make_filesystem(kind)?;
        Self::new(disk, "nodiscard")
    }

    /// Where it is mounted.
    pub fn path(&self) -> &Path {
        self.mount.path()
    }
}
