//! A file next to the history that is deleted when the disk is full, so that runs can be removed then: SQLite needs
//! room to work in before it frees any.

use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rusqlite::ErrorCode;

/// Enough for the journal of one run that is removed, many times over.
const BYTES: usize = 1 << 20;
/// With less free space than this, in bytes, a history is opened with care.
const LITTLE: u64 = 2 << 20;

/// Its place: next to the file itself, even if a link leads to the history.
fn path(history: &Path) -> PathBuf {
    let mut path = history.canonicalize().unwrap_or_else(|_| history.to_owned()).into_os_string();
    path.push("-spare");
    path.into()
}

/// Creates it if there is none and the disk has room for it. A truncated one is created again.
pub(crate) fn keep(history: &Path) {
    let path = path(history);
    let is_short = fs::symlink_metadata(&path).is_ok_and(|found| found.len() < BYTES as u64);
    if is_short && is_ours(&path) {
        let _ = fs::remove_file(&path);
    }
    let Ok(mut file) = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) else { return };
    if file.write_all(&vec![0; BYTES]).and_then(|()| file.sync_data()).is_err() {
        let _ = fs::remove_file(path);
    }
}

/// Removes it. Returns whether it was there.
pub(crate) fn give_up(history: &Path) -> bool {
    let path = path(history);
    is_ours(&path) && fs::remove_file(path).is_ok()
}

/// Whether a file was created here: no longer than ours, and nothing but zeros.
fn is_ours(path: &Path) -> bool {
    let is_possible = fs::symlink_metadata(path).is_ok_and(|found| found.is_file() && found.len() <= BYTES as u64);
    is_possible && fs::read(path).is_ok_and(|content| content.iter().all(|byte| *byte == 0))
}

/// Whether the disk of a file has little room left: SQLite's index of a WAL then has pages without a block, and a
/// process that touches one is killed.
pub(crate) fn has_little_room(history: &Path) -> bool {
    let path = history.canonicalize().unwrap_or_else(|_| history.to_owned());
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    rustix::fs::statvfs(dir).is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) < LITTLE)
}

/// Whether an error may mean that there is no room: for data, for an inode, within a quota, or for the index of the
/// WAL. SQLite reports each of these differently.
pub(crate) fn may_be_full(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error_code();
    matches!(code, Some(ErrorCode::DiskFull | ErrorCode::CannotOpen | ErrorCode::SystemIoFailure))
}

/// Whether an error means that the disk is full, as far as the disk shows.
pub(crate) fn is_full(error: &rusqlite::Error, history: &Path) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull) || may_be_full(error) && has_little_room(history)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_made_once_and_given_up_once() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.db");
        keep(&history);
        keep(&history);
        assert_eq!(fs::metadata(path(&history)).unwrap().len(), BYTES as u64);
        fs::write(path(&history), b"").unwrap();
        keep(&history);
        assert_eq!(fs::metadata(path(&history)).unwrap().len(), BYTES as u64, "one that was cut short");
        assert!(give_up(&history) && !give_up(&history));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);
    }

    /// Another history, or an export, of that name was removed.
    #[test]
    fn files_that_were_not_created_here_stay() {
        let dir = tempfile::tempdir().unwrap();
        let history = dir.path().join("history.db");
        fs::write(path(&history), b"SQLite format 3\0").unwrap();
        keep(&history);
        assert!(!give_up(&history));
        assert_eq!(fs::read(path(&history)).unwrap(), b"SQLite format 3\0");
        fs::remove_file(path(&history)).unwrap();
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), path(&history)).unwrap();
        keep(&history);
        assert!(!give_up(&history) && !dir.path().join("elsewhere").exists());
    }

    #[test]
    fn it_is_next_to_the_file_if_the_history_is_a_link() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (file, link) = (dir.path().join("history.db"), other.path().join("link.db"));
        fs::write(&file, b"").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        keep(&link);
        assert!(dir.path().join("history.db-spare").exists() && give_up(&file));
    }
}
