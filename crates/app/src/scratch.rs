//! A directory for files that need names, gone after the run however it ends.
//!
//! Dropping it removes it. If this process is killed, a helper process (the same binary) sees its pipe close and
//! removes it; if that is killed too, the next run in the same place does, since nobody holds the lock any more. What is
//! mounted in it is unmounted first, and loop devices over its files are detached. Where a run changes more than its
//! directory, that is in a journal, and one helper undoes it all.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result};
use qd1_engine::clock;
use rustix::fs::FlockOperation;

use crate::journal::{self, Change, Journal};
use crate::system;

const PREFIX: &str = ".qd1-scratch-";
/// How long the helper tries to remove it, each tenth of a second.
const TRIES_NS: u64 = 30_000_000_000;

/// The directory.
pub(crate) struct Scratch {
    path: PathBuf,
    /// Holds the lock that tells other runs that it is in use.
    _lock: File,
    helper: Option<Child>,
    /// Removed by the journal, in its order.
    journalled: bool,
}

impl Scratch {
    /// Makes it in `dir`, after clearing what dead runs left there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn create(dir: &Path, id: &str) -> Result<Self> {
        clear_leftovers(dir);
        let path = dir.join(format!("{PREFIX}{id}"));
        // Before the directory: killed between the two, nobody else would know of it.
        let helper = helper(&path);
        Self::make(path, helper, false)
    }

    /// The same for a run that keeps a journal, whose helper knows of this too.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn journalled(dir: &Path, id: &str, journal: &mut Journal) -> Result<Self> {
        clear_leftovers(dir);
        let path = dir.join(format!("{PREFIX}{id}"));
        journal.note(Change::Scratch { dir: path.clone() })?;
        Self::make(path, None, true)
    }

    fn make(path: PathBuf, helper: Option<Child>, journalled: bool) -> Result<Self> {
        std::fs::create_dir(&path).with_context(|| format!("cannot make {}", path.display()))?;
        let lock = File::open(&path).with_context(|| format!("cannot open {}", path.display()))?;
        // Without locks (some network filesystems) only the leftovers of other runs are at stake.
        let _ = rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive);
        Ok(Self { path, _lock: lock, helper, journalled })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.journalled {
            return;
        }
        // Nothing better can be done about a failure here; the helper tries on.
        let _ = clear(&self.path);
        if let Some(helper) = &mut self.helper {
            drop(helper.stdin.take());
            let _ = helper.wait();
        }
    }
}

/// Removes scratch directories whose maker is gone: nobody holds their lock.
fn clear_leftovers(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten().filter(|entry| is_scratch(&entry.path()) && is_ours(&entry.path())) {
        let Ok(lock) = File::open(entry.path()) else { continue };
        if rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = clear(&entry.path());
        }
    }
}

/// Starts the helper that clears up `path`, a scratch directory or a journal, once this process is gone.
pub(crate) fn helper(path: &Path) -> Option<Child> {
    let mut helper = Command::new("/proc/self/exe");
    helper.arg("__janitor").arg(path).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // Ctrl-C in a terminal goes to the foreground group: the helper must outlive it. It also must not keep a directory
    // in use that somebody wants to unmount.
    helper.process_group(0).current_dir("/").spawn().ok()
}

fn is_scratch(dir: &Path) -> bool {
    dir.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX))
}

/// Whether it is a directory, and this user's: in a place where everybody may write, a link of such a name could lead
/// anywhere, and what lies below is unmounted and removed.
fn is_ours(dir: &Path) -> bool {
    use std::os::unix::fs::MetadataExt as _;
    let user = rustix::process::geteuid().as_raw();
    std::fs::symlink_metadata(dir).is_ok_and(|data| data.is_dir() && data.uid() == user)
}

/// Removes a scratch directory with all that is in it, after taking off what lies upon it. Whether it was there.
///
/// # Errors
/// When something in it stays in use; then nothing is removed.
pub(crate) fn clear(dir: &Path) -> Result<bool> {
    anyhow::ensure!(is_scratch(dir), "{} is not a scratch directory of qd1", dir.display());
    if std::fs::symlink_metadata(dir).is_err() {
        return Ok(false);
    }
    anyhow::ensure!(is_ours(dir), "{} is no directory of this user's", dir.display());
    system::unmount(dir)?;
    system::detach(dir)?;
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(true),
    }
}

/// The helper: waits for its maker to end, then clears up what is still there.
pub(crate) fn janitor(path: &Path) -> Result<ExitCode> {
    let scratch = is_scratch(path);
    anyhow::ensure!(scratch || journal::is_ours(path), "neither a scratch directory of qd1 nor a journal");
    wait_for_the_end();
    // A server that ends with its maker may still write there for a moment.
    let until_ns = clock::now_ns() + TRIES_NS;
    while clock::now_ns() < until_ns {
        let done = if scratch { clear(path).map(drop) } else { journal::undo_left(path) };
        if done.is_ok() && !path.exists() {
            break;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    Ok(ExitCode::SUCCESS)
}

/// Nothing ever comes: the pipe closes when its maker is gone.
fn wait_for_the_end() {
    let mut nothing = Vec::new();
    let _ = std::io::stdin().read_to_end(&mut nothing);
}

/// A command that is run once this process drops this or dies, for what no directory holds: tables in a server of others'.
pub(crate) struct Afterwards(Child);

impl Afterwards {
    /// Takes note of it. Its environment is this process's own.
    ///
    /// # Errors
    /// When the helper cannot be started: then nothing that needs it may be begun.
    pub(crate) fn run(program: &Path, args: &[OsString]) -> Result<Self> {
        let helper = Command::new("/proc/self/exe")
            .args(["__afterwards", "--"])
            .arg(program)
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn();
        Ok(Self(helper.context("cannot start a helper")?))
    }

    /// Runs it now; whether it went well.
    pub(crate) fn now(&mut self) -> bool {
        drop(self.0.stdin.take());
        self.0.wait().is_ok_and(|status| status.success())
    }
}

impl Drop for Afterwards {
    fn drop(&mut self) {
        self.now();
    }
}

/// The helper: waits for its maker to end, then becomes the command.
pub(crate) fn afterwards(command: &[OsString]) -> Result<ExitCode> {
    wait_for_the_end();
    let (program, args) = command.split_first().context("no command")?;
    Err(Command::new(program).args(args).exec().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_run_left_is_cleared_and_what_a_living_one_uses_is_not() {
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
    fn a_link_of_a_leftovers_name_leads_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let (others, link) = (dir.path().join("others"), dir.path().join(".qd1-scratch-link"));
        std::fs::create_dir(&others).unwrap();
        std::fs::write(others.join("kept"), b"x").unwrap();
        std::os::unix::fs::symlink(&others, &link).unwrap();
        clear_leftovers(dir.path());
        assert!(clear(&link).is_err() && others.join("kept").exists() && link.symlink_metadata().is_ok());
    }

    #[test]
    fn the_helper_refuses_any_other_directory() {
        assert!(janitor(Path::new("/tmp")).is_err());
    }
}
