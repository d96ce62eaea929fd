//! A lock on a dedicated file, which the kernel releases when the process ends, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::OFlags;

/// Held as long as this lives; then its file is removed. The file of a killed process stays, which is harmless.
#[derive(Debug)]
pub struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    /// Takes the lock; `None` when another process has it.
    ///
    /// # Errors
    /// When the file cannot be written, or is not this user's.
    pub fn take(path: &Path) -> Result<Option<Self>> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
        loop {
            let mut options = OpenOptions::new();
            options.write(true).create(true).truncate(false).mode(0o600).custom_flags(flags);
            let file = options.open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let found = file.metadata()?;
            let is_own = found.is_file() && found.uid() == rustix::process::geteuid().as_raw();
            ensure!(is_own, "{} does not belong to this user; remove it", path.display());
            match file.try_lock() {
                Err(TryLockError::WouldBlock) => return Ok(None),
                // Filesystems without locks cannot say.
                Ok(()) | Err(TryLockError::Error(_)) => {}
            }
            // Otherwise its previous holder has removed it in the meantime.
            if is_at(path, &file) {
                return Ok(Some(Self { path: path.to_owned(), file }));
            }
        }
    }
}

impl Drop for Lock {
    /// While it is locked, so that a process that has opened it in the meantime finds it gone. Another's file is left
    /// alone.
    fn drop(&mut self) {
        if is_at(&self.path, &self.file) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Whether the path still leads to the file.
fn is_at(path: &Path, file: &File) -> bool {
    let identity = |found: std::fs::Metadata| (found.dev(), found.ino());
    let [at_path, opened] = [std::fs::symlink_metadata(path), file.metadata()].map(|found| found.ok().map(identity));
    opened.is_some() && at_path == opened
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    #[test]
    fn it_is_of_one_at_a_time_and_leaves_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| dir.path().join(name));
        let is_free = |path: &Path| Lock::take(path).unwrap().is_some();
        let held = Lock::take(&one).unwrap();
        assert!(held.is_some() && !is_free(&one) && is_free(&other));
        drop(held);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        // A file left by a killed process is harmless.
        File::create(&one).unwrap();
        assert!(is_free(&one));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Others must not be able to take a name that they can guess.
    #[test]
    fn what_is_no_file_of_ours_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let [path, elsewhere] = ["lock", "elsewhere"].map(|name| dir.path().join(name));
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(Lock::take(&path).is_err() && !elsewhere.exists());
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        assert!(Lock::take(&path).is_err(), "nobody reads it");
    }

    /// A process that had lost its own file removed another's.
    #[test]
    fn one_that_was_removed_is_not_removed_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let lost = Lock::take(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        let held = Lock::take(&path).unwrap();
        drop(lost);
        assert!(held.is_some() && Lock::take(&path).unwrap().is_none());
    }

    #[test]
    fn only_one_process_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let holders = AtomicU32::new(0);
        let try_often = || {
            for _ in 0..200 {
                let Some(held) = Lock::take(&path).unwrap() else { continue };
                assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0);
                holders.fetch_sub(1, Ordering::SeqCst);
                drop(held);
            }
        };
        std::thread::scope(|scope| (0..8).for_each(|_| drop(scope.spawn(try_often))));
    }
}
