//! One process at a time measures a run: it holds a lock on a file beside the history, which the kernel gives back when the
//! process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use rustix::fs::OFlags;

use crate::{Taken, identity};

/// A run that is this process's, as long as this lives.
#[derive(Debug)]
pub struct Taking {
    path: PathBuf,
    locked: File,
}

impl Drop for Taking {
    /// While it is locked, so that whoever has opened it meanwhile finds it gone. Another's is left alone.
    fn drop(&mut self) {
        if is_at(&self.path, &self.locked) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

pub(crate) fn take(history: &Path, id: &str) -> Result<Taking> {
    // By any name of the history it is the same file.
    let history = history.canonicalize().unwrap_or_else(|_| history.to_owned());
    let mut path = history.into_os_string();
    path.push(format!("-{id}.lock"));
    let path = PathBuf::from(path);
    loop {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
        let file = options.open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        let opened = file.metadata()?;
        if !opened.is_file() || opened.uid() != rustix::process::geteuid().as_raw() {
            bail!("{} is not a file of this user's; remove it", path.display());
        }
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(Taken.into()),
            // Of a filesystem without locks, the history alone tells whether there is another.
            Ok(()) | Err(TryLockError::Error(_)) => {}
        }
        if is_at(&path, &file) {
            return Ok(Taking { path, locked: file });
        }
        // Whoever had it has removed it meanwhile.
    }
}

/// Whether the path still leads to the file.
fn is_at(path: &Path, file: &File) -> bool {
    file.metadata().is_ok_and(|data| identity(path) == Some((data.dev(), data.ino())))
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

    /// A name that others can guess must not be theirs to use.
    #[test]
    fn what_is_no_file_of_ours_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (history, elsewhere) = (dir.path().join("history.db"), dir.path().join("elsewhere"));
        let lock = dir.path().join("history.db-aaaaaaaaaaaa.lock");
        std::os::unix::fs::symlink(&elsewhere, &lock).unwrap();
        assert!(take(&history, "aaaaaaaaaaaa").is_err() && !elsewhere.exists());
        std::fs::remove_file(&lock).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &lock, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(take(&history, "aaaaaaaaaaaa").is_err(), "nobody reads it");
    }

    /// A process that had lost its own took the other's with it.
    #[test]
    fn one_that_was_removed_is_not_removed_again() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.db");
        let lost = take(&history, "aaaaaaaaaaaa").unwrap();
        std::fs::remove_file(dir.path().join("history.db-aaaaaaaaaaaa.lock")).unwrap();
        let _taken = take(&history, "aaaaaaaaaaaa").unwrap();
        drop(lost);
        assert!(take(&history, "aaaaaaaaaaaa").unwrap_err().is::<Taken>());
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
