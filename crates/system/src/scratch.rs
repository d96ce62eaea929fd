//! A directory for files that need names, removed after the run, however the run ends.
//!
//! Dropping it removes it. If this process is killed, a helper process (the same binary) sees its pipe close and
//! removes it; if that is killed too, or the power fails, `qd1 restore` does, or the next run in the same place, since
//! nobody holds the lock any more. Mounts in it are unmounted first, and loop devices over its files are detached. If a
//! run changes more than its directory, the changes are in its own journal, and one helper undoes them all.
//!
//! A user who may rename things in the parent directory can replace it at any moment. There it is used only through an
//! open descriptor, and only what we made is removed: a directory that was empty when it was opened, or that holds our
//! mark.

use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::atomic::{AtomicU32, Ordering};

use anyhow::{Context as _, Result, ensure};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, mkdirat, openat, unlinkat};
use rustix::io::Errno;

use crate::helper::helper;
use crate::journal::{self, Change, Journal};
use crate::tool::retry_while_busy;
use crate::trust::changeable_by_others;
use crate::{loops, mounts};

const PREFIX: &str = ".qd1-scratch-";
/// The file in it that marks it as made by qd1. It is created once the directory is locked, and removed last.
const MARK: &str = ".made-by-qd1";
/// Prefix of a file that is created to see who owns the files we create.
const OWNER_PROBE: &str = ".qd1-owner-";
const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// A scratch directory.
pub struct Scratch {
    path: PathBuf,
    held: Held,
    /// Inherited by programs that are started while it is open, so that `path` means the same to them.
    _inherited: Option<OwnedFd>,
    undone_by: Undone,
}

/// Who removes it if this process cannot.
enum Undone {
    /// The journal of the whole run, in its order.
    Run,
    /// Its own journal.
    Own(#[allow(dead_code, reason = "its drop removes the directory")] Journal),
    /// A helper that knows only its path, used where there is no place for a journal; and descriptors reserved for
    /// undoing.
    Helper(Option<Child>, Vec<File>),
}

impl Scratch {
    /// Creates it in `dir`, after removing what dead runs left there.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn create(dir: &Path, id: &str) -> Result<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // A run may need several in one place.
        let id = &format!("{id}-{}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = place_for(dir, id)?;
        // Do not create what could not be removed again.
        drop(journal::reserve()?);
        // Before the directory: after a kill between the two, nobody else would know of it.
        let journal = Journal::open(&format!("{id}-d"), "").and_then(|mut journal| {
            journal.note(Change::Scratch { dir: path.clone() })?;
            Ok(journal)
        });
        let undone_by = match journal {
            Ok(journal) => Undone::Own(journal),
            Err(_) => Undone::Helper(helper(&path, &[]), journal::reserve()?),
        };
        Self::make(&path, undone_by)
    }

    /// Creates it at `path`; the journal of the run removes it.
    pub(crate) fn journalled(path: &Path) -> Result<Self> {
        Self::make(path, Undone::Run)
    }

    fn make(path: &Path, undone_by: Undone) -> Result<Self> {
        let dir = path.parent().unwrap_or(Path::new("/"));
        let held = Held::make(path).with_context(|| format!("cannot create {}", path.display()))?;
        if changeable_by_others(dir).is_none() {
            return Ok(Self { path: path.to_owned(), held, _inherited: None, undone_by });
        }
        let inherited = openat(&held.dir, ".", OFlags::PATH | OFlags::DIRECTORY, Mode::empty())?;
        let path = descriptor_path(inherited.as_fd());
        Ok(Self { path, held, _inherited: Some(inherited), undone_by })
    }

    /// Returns it as duplicated descriptors.
    pub(crate) fn held(&self) -> Result<Held> {
        let Held { above, name, dir } = &self.held;
        Ok(Held { above: above.try_clone()?, name: name.clone(), dir: dir.try_clone()? })
    }

    /// Returns its path, for this process and for programs that it starts. It begins at an open descriptor if others
    /// may rename a directory on the way.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Lets everybody enter it, whatever umask it was created with.
    ///
    /// # Errors
    /// When its permissions cannot be changed.
    pub fn open_to_others(&self) -> Result<()> {
        let opened = rustix::fs::fchmod(&self.held.dir, Mode::from_raw_mode(0o755));
        opened.with_context(|| format!("cannot open {} to others", self.path.display()))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if matches!(self.undone_by, Undone::Run) {
            return;
        }
        if let Undone::Helper(_, reserve) = &mut self.undone_by {
            reserve.clear();
        }
        // Nothing better can be done about a failure here; the helper continues to try.
        let _ = self.held.clear();
        if let Undone::Helper(Some(helper), _) = &mut self.undone_by {
            drop(helper.stdin.take());
            let _ = helper.wait();
        }
    }
}

/// Returns the path of a new one in `dir`, after removing what dead runs left there.
pub(crate) fn place_for(dir: &Path, id: &str) -> Result<PathBuf> {
    // The helper and the journal have to find it from anywhere.
    let dir = std::fs::canonicalize(dir).with_context(|| format!("cannot find {}", dir.display()))?;
    clear_leftovers(&dir);
    Ok(dir.join(format!("{PREFIX}{id}")))
}

/// Removes scratch directories whose owner is gone: nobody holds their lock.
fn clear_leftovers(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| is_scratch(path)) {
        // Without the mark it is about to be made, or not ours.
        let Ok(Some(held)) = Held::open(&path) else { continue };
        if held.has_mark() && flock(&held.dir, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = held.clear();
        }
    }
}

pub(crate) fn is_scratch(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Returns true for a path inside a scratch directory.
pub(crate) fn is_inside(path: &Path) -> bool {
    path.parent().is_some_and(|parent| parent.ancestors().any(is_scratch))
}

/// Removes a scratch directory and its contents, after unmounting everything in it. Returns true if it existed;
/// anything else that has taken its name does not count.
///
/// # Errors
/// When something in it stays in use; then nothing is removed.
pub fn clear(dir: &Path) -> Result<bool> {
    ensure!(is_scratch(dir), "{} is not a scratch directory of qd1", dir.display());
    match Held::open(dir)? {
        None => Ok(false),
        Some(held) => held.clear().map(|()| true),
    }
}

/// A scratch directory by its descriptors: what its name refers to no longer matters.
pub(crate) struct Held {
    above: OwnedFd,
    name: PathBuf,
    dir: OwnedFd,
}

impl Held {
    /// Creates a directory, which nobody else may remove from then on.
    fn make(path: &Path) -> Result<Self> {
        let (above, name) = split(path)?;
        mkdirat(&above, &name, Mode::RWXU)?;
        let dir = openat(&above, &name, DIRECTORY, Mode::empty())?;
        let held = Self { above, name, dir };
        if let Err(error) = held.take() {
            let _ = unlinkat(&held.above, &held.name, AtFlags::REMOVEDIR);
            return Err(error);
        }
        Ok(held)
    }

    /// Locks and marks a new one.
    fn take(&self) -> Result<()> {
        // Another directory of ours may have been put in its place.
        ensure!(
            self.is_own()? && self.is_empty()?,
            "it was replaced by another directory; choose a directory of your own"
        );
        // Another run may look at it at this moment. Without locks (some network filesystems), that run leaves it alone
        // as well.
        let locked = || match flock(&self.dir, FlockOperation::NonBlockingLockExclusive) {
            Err(Errno::WOULDBLOCK) => Ok(false),
            _ => Ok(true),
        };
        ensure!(retry_while_busy(locked)?, "another program holds its lock");
        openat(&self.dir, MARK, OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC, Mode::RUSR)?;
        Ok(())
    }

    /// Opens an existing one; `None` if nothing with that name was made by qd1.
    pub(crate) fn open(path: &Path) -> Result<Option<Self>> {
        let Ok((above, name)) = split(path) else { return Ok(None) };
        let dir = match openat(&above, &name, DIRECTORY, Mode::empty()) {
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(None),
            opened => opened.with_context(|| format!("cannot open {}", path.display()))?,
        };
        let held = Self { above, name, dir };
        let is_made_by_qd1 = held.is_own()? && (held.has_mark() || held.is_empty()?);
        Ok(is_made_by_qd1.then_some(held))
    }

    /// Whether its owner is the one who owns the files we create: where everybody may write, anybody could use such a
    /// name.
    fn is_own(&self) -> Result<bool> {
        let owner = fstat(&self.dir)?.st_uid;
        Ok(owner == rustix::process::geteuid().as_raw() || self.owner_given() == Some(owner))
    }

    /// Who owns the files we create in it: some filesystems choose that themselves (vfat with `uid=`, NFS that squashes
    /// root), and only creating something shows it.
    fn owner_given(&self) -> Option<u32> {
        let name = format!("{OWNER_PROBE}{}", std::process::id());
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let owner = fstat(openat(&self.dir, &name, flags, Mode::RUSR).ok()?).map(|found| found.st_uid);
        let _ = unlinkat(&self.dir, &name, AtFlags::empty());
        owner.ok()
    }

    /// Whether it contains nothing except what a run leaves there when it is killed while creating it.
    fn is_empty(&self) -> Result<bool> {
        for entry in std::fs::read_dir(self.path())? {
            if !entry?.file_name().as_bytes().starts_with(OWNER_PROBE.as_bytes()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn has_mark(&self) -> bool {
        rustix::fs::statat(&self.dir, MARK, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    fn path(&self) -> PathBuf {
        descriptor_path(self.dir.as_fd())
    }

    /// Returns where it is now, as mountinfo and loop devices show it; `None` if it is gone.
    pub(crate) fn place(&self) -> Result<Option<PathBuf>> {
        let place = std::fs::read_link(self.path())?;
        Ok((fstat(&self.dir)?.st_nlink > 0).then_some(place))
    }

    /// Removes it with its contents, after unmounting everything in it.
    pub(crate) fn clear(&self) -> Result<()> {
        let Some(place) = self.place()? else { return Ok(()) };
        mounts::unmount(&place)?;
        loops::detach(&place)?;
        // A filesystem in user space may keep a just closed file under another name for a moment, and a program
        // whose parent was killed may still write.
        let is_removed = retry_while_busy(|| {
            if !self.remove_contents(&place)? {
                return Ok(false);
            }
            // Or wherever somebody has moved it; only an empty directory can be removed this way.
            let removed = unlinkat(&self.above, &self.name, AtFlags::REMOVEDIR).or_else(|_| rustix::fs::rmdir(&place));
            Ok(removed.is_ok() || fstat(&self.dir)?.st_nlink == 0)
        })?;
        ensure!(is_removed, "cannot remove {}: it is still in use", place.display());
        Ok(())
    }

    /// Removes what is in it, the mark last; false when a directory in it was not empty.
    fn remove_contents(&self, place: &Path) -> Result<bool> {
        let mut is_empty = true;
        for entry in std::fs::read_dir(self.path())? {
            let entry = entry?;
            if entry.file_name() != OsStr::new(MARK) {
                let removed = remove(&entry);
                let name = || format!("cannot remove {}", place.join(entry.file_name()).display());
                is_empty &= removed.with_context(name)?;
            }
        }
        if is_empty {
            let _ = unlinkat(&self.dir, MARK, AtFlags::empty());
        }
        Ok(is_empty)
    }
}

/// Removes an entry of a directory that only this user can change; false when something was created in it meanwhile.
fn remove(entry: &std::fs::DirEntry) -> std::io::Result<bool> {
    let removed = if entry.file_type()?.is_dir() {
        std::fs::remove_dir_all(entry.path())
    } else {
        std::fs::remove_file(entry.path())
    };
    match removed {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::DirectoryNotEmpty => Ok(false),
        other => other.map(|()| true),
    }
}

/// Returns the directory above, open, and the last name of a path.
fn split(path: &Path) -> Result<(OwnedFd, PathBuf)> {
    let (dir, name) = path.parent().zip(path.file_name()).context("it has no parent directory")?;
    let above = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    Ok((above, name.into()))
}

fn descriptor_path(fd: BorrowedFd<'_>) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", fd.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
    use std::sync::Barrier;

    use super::*;

    /// Creates one like a run that then dies: nobody holds its lock.
    fn dead(dir: &Path, id: &str) -> PathBuf {
        let path = dir.join(format!("{PREFIX}{id}"));
        drop(Held::make(&path).unwrap());
        std::fs::write(path.join("f00000001"), b"x").unwrap();
        path
    }

    #[test]
    fn only_directories_of_dead_runs_are_removed() {
        let dir = tempfile::tempdir().unwrap();
        let dead = dead(dir.path(), "dead");
        let alive = Held::make(&dir.path().join(".qd1-scratch-alive")).unwrap();
        // A process that another test starts holds the lock until it calls exec.
        let is_removed = retry_while_busy(|| {
            clear_leftovers(dir.path());
            Ok(!dead.exists())
        });
        assert!(is_removed.unwrap() && alive.has_mark());
    }

    /// On a filesystem that chooses owners, a run that was killed while it determined the owner left its directory
    /// behind.
    #[test]
    fn one_that_was_not_finished_is_removed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(".qd1-scratch-begun");
        std::fs::create_dir(&path).unwrap();
        std::fs::write(path.join(".qd1-owner-1"), b"").unwrap();
        assert!(clear(&path).unwrap() && !path.exists());
    }

    /// A server's process whose parent had been killed was still writing: "Directory not empty", and the directory
    /// stayed.
    #[test]
    fn one_that_is_still_written_is_removed_once_it_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dead(dir.path(), "written").canonicalize().unwrap();
        let data = path.join("data");
        std::fs::create_dir(&data).unwrap();
        let (begun, has_begun) = std::sync::mpsc::channel();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                // Until the directory is gone, or for a moment.
                for count in 0..1_000 {
                    let _ = std::fs::create_dir(&data);
                    let _ = File::create(data.join(count.to_string()));
                    let _ = begun.send(());
                }
            });
            has_begun.recv().unwrap();
            assert!(clear(&path).unwrap());
        });
        assert!(!path.exists());
    }

    /// The owner of the parent directory could give any of root's directories such a name, and root removed it.
    #[test]
    fn a_directory_that_qd1_did_not_make_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let theirs = dir.path().join(".qd1-scratch-theirs");
        std::fs::create_dir(&theirs).unwrap();
        std::fs::write(theirs.join("kept"), b"x").unwrap();
        clear_leftovers(dir.path());
        assert!(!clear(&theirs).unwrap() && theirs.join("kept").exists());
    }

    #[test]
    fn a_link_with_a_scratch_name_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let (others, link) = (dead(dir.path(), "others"), dir.path().join(".qd1-scratch-link"));
        let others_elsewhere = dir.path().join("elsewhere");
        std::fs::rename(&others, &others_elsewhere).unwrap();
        symlink(&others_elsewhere, &link).unwrap();
        clear_leftovers(dir.path());
        assert!(!clear(&link).unwrap() && others_elsewhere.join("f00000001").exists() && link.is_symlink());
    }

    /// The owner of the parent directory renamed it and put a link there: root wrote and removed wherever that led.
    #[test]
    fn what_comes_in_its_place_is_neither_written_nor_removed() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
        let scratch = Scratch::create(dir.path(), "mine").unwrap();
        let name = std::fs::read_dir(dir.path()).unwrap().next().unwrap().unwrap().path();
        let moved = dir.path().join("moved");
        let target = dir.path().join("target");
        std::fs::create_dir(&target).unwrap();
        std::fs::write(target.join("precious"), b"x").unwrap();
        std::fs::rename(&name, &moved).unwrap();
        symlink(&target, &name).unwrap();
        std::fs::write(scratch.path().join("block"), b"data").unwrap();
        scratch.open_to_others().unwrap();
        assert_eq!(std::fs::read(moved.join("block")).unwrap(), b"data");
        let child = std::process::Command::new("cat").arg(scratch.path().join("block")).output().unwrap();
        assert_eq!(child.stdout, b"data", "a program sees the same");
        drop(scratch);
        assert_eq!(std::fs::read_dir(&target).unwrap().count(), 1);
        assert!(!moved.exists(), "it is gone wherever it is");
    }

    #[test]
    fn where_only_we_can_rename_it_has_its_own_name() {
        let dir = tempfile::tempdir_in("/var/tmp").unwrap();
        let scratch = Scratch::create(dir.path(), "mine").unwrap();
        assert_eq!(scratch.path().parent(), Some(dir.path()));
        assert_eq!(std::fs::metadata(scratch.path()).unwrap().mode() & 0o777, 0o700);
    }

    /// Another run removed one between its creation and its locking: 4 of 180 with six runs in parallel.
    #[test]
    fn runs_at_once_leave_each_others_directories_alone() {
        let dir = tempfile::tempdir().unwrap();
        let start = Barrier::new(6);
        std::thread::scope(|scope| {
            for worker in 0..6 {
                let (dir, start) = (dir.path(), &start);
                scope.spawn(move || {
                    start.wait();
                    for round in 0..50 {
                        let path = place_for(dir, &format!("{worker}-{round}")).unwrap();
                        let held = Held::make(&path).unwrap();
                        std::fs::write(path.join("f"), b"x").unwrap();
                        held.clear().unwrap();
                    }
                });
            }
        });
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
