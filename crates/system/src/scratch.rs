//! A directory for files that need names, removed after the run however it ends.
//!
//! Dropping it removes it. If this process is killed, a helper process (the same binary) sees its pipe close and
//! removes it; if that is killed too, the next run in the same place does, since nobody holds the lock any more. Mounts
//! in it are unmounted first, and loop devices over its files are detached. If a run changes more than its directory,
//! the changes are in a journal, and one helper undoes them all.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context as _, Result};
use rustix::fs::FlockOperation;

use crate::helper::helper;
use crate::{loops, mounts};

const PREFIX: &str = ".qd1-scratch-";
/// A scratch directory.
pub struct Scratch {
    path: PathBuf,
    /// Holds the lock that tells other runs that it is in use.
    _lock: File,
    helper: Option<Child>,
    /// Removed by the journal, in its order.
    journalled: bool,
}

impl Scratch {
    /// Creates it in `dir`, after removing what dead runs left there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(dir: &Path, id: &str) -> Result<Self> {
        let path = place_for(dir, id);
        // Before the directory: after a kill between the two, nobody else would know of it.
        let helper = helper(&path);
        Self::make(path, helper, false)
    }

    pub(crate) fn make(path: PathBuf, helper: Option<Child>, journalled: bool) -> Result<Self> {
        std::fs::create_dir(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let lock = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // Without locks (some network filesystems) only the leftovers of other runs are at stake.
        let _ = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { path, _lock: lock, helper, journalled })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.journalled {
            return;
        }
        // Nothing better can be done about a failure here; the helper continues to try.
        let _ = clear(&self.path);
        if let Some(helper) = &mut self.helper {
            drop(helper.stdin.take());
            let _ = helper.wait();
        }
    }
}

/// Returns the path of a new one in `dir`, after removing what dead runs left there.
pub(crate) fn place_for(dir: &Path, id: &str) -> PathBuf {
    clear_leftovers(dir);
    dir.join(format!("{PREFIX}{id}"))
}

/// Removes scratch directories whose owner is gone: nobody holds their lock.
fn clear_leftovers(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| is_scratch(&entry.path()) && is_ours(&entry.path())) {
        let Ok(lock) = File::open(entry.path()) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = clear(&entry.path());
        }
    }
}

pub(crate) fn is_scratch(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Returns true if it is a directory of this user: where everybody may write, a link of such a name could point
/// anywhere, and everything below it is unmounted and removed.
fn is_ours(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(dir).is_ok_and(|data| data.is_dir() && data.uid() == user)
}

/// Removes a scratch directory and its contents, after unmounting everything in it. Returns true if it existed.
///
/// # Errors
/// When something in it stays in use; then nothing is removed.
pub fn clear(dir: &Path) -> Result<bool> {
    anyhow::ensure!(is_scratch(dir), "{} is not a scratch directory of qd1", dir.display());
    if std::fs::symlink_metadata(dir).is_err() {
        return Ok(false);
    }
    anyhow::ensure!(is_ours(dir), "{} is not a directory of this user", dir.display());
    mounts::unmount(dir)?;
    loops::detach(dir)?;
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(true),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_directories_of_dead_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let (dead, alive) = (dir.path().join(".qd1-scratch-dead"), dir.path().join(".qd1-scratch-alive"));
        std::fs::create_dir(&dead).unwrap();
        std::fs::write(dead.join("f00000001"), b"x").unwrap();
        std::fs::create_dir(&alive).unwrap();
        let lock = File::open(&alive).unwrap();
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).unwrap();
        clear_leftovers(dir.path());
        assert!(!dead.exists());
        assert!(alive.exists());
    }

    #[test]
    fn a_link_with_a_scratch_name_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (others, link) = (dir.path().join("others"), dir.path().join(".qd1-scratch-link"));
        std::fs::create_dir(&others).unwrap();
        std::fs::write(others.join("kept"), b"x").unwrap();
        std::os::unix::fs::symlink(&others, &link).unwrap();
        clear_leftovers(dir.path());
        assert!(clear(&link).is_err() && others.join("kept").exists() && link.symlink_metadata().is_ok());
    }
}
