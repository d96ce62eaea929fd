//! One process at a time measures a run: it holds a lock on a file beside the history, which the kernel gives back when the
//! process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

use crate::{Taken, identity};

/// A run that is this process's, as long as this lives.
#[derive(Debug)]
pub struct Taking {
    path: PathBuf,
    _locked: File,
}

impl Drop for Taking {
    /// While it is locked, so that no other process has opened it to lock it, and would find it gone.
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

pub(crate) fn take(history: &Path, id: &str) -> Result<Taking> {
    let mut path = history.as_os_str().to_owned();
    path.push(format!("-{id}.lock"));
    let path = PathBuf::from(path);
    loop {
        let opened = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = opened.with_context(|| format!("cannot write {}", path.display()))?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Taken.into()),
            // Of a filesystem without locks, the history alone tells whether there is another.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        let opened = file.metadata().map(|data| (data.dev(), data.ino())).ok();
        if identity(&path) == opened {
            return Ok(Taking { path, _locked: file });
        }
        // Whoever had it has removed it meanwhile.
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_is_of_one_at_a_time_and_nothing_is_left() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.db");
        let first = take(&history, "aaaaaaaaaaaa").unwrap();
        assert!(take(&history, "aaaaaaaaaaaa").unwrap_err().is::<Taken>());
        let other = take(&history, "bbbbbbbbbbbb").unwrap();
        drop((first, other));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // What a killed process has left is in nobody's way.
        File::create(dir.path().join("history.db-aaaaaaaaaaaa.lock")).unwrap();
        drop(take(&history, "aaaaaaaaaaaa").unwrap());
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    #[test]
    fn of_many_at_once_one_has_it() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.db");
        let inside = std::sync::atomic::AtomicU32::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let Ok(taking) = take(&history, "aaaaaaaaaaaa") else { continue };
                        assert_eq!(inside.fetch_add(1, std::sync::atomic::Ordering::SeqCst), 0);
                        inside.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
                        drop(taking);
                    }
                });
            }
        });
    }
}
