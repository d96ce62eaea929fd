//! The changes this program makes to the system and has to undo, each recorded before it is made.
//!
//! A run keeps a file of its own in the state directory, locked while it lives. Dropping the journal undoes everything,
//! the last change first, and removes the file: at the end of a run, after an error or a panic. If the run is killed, a
//! helper process (the same binary) sees its pipe close and does it; if that is killed too, or the power fails, `qd1
//! restore` does, or the next run that keeps a journal. Undoing checks what exists now, so that doing it twice is
//! harmless, and each change names something that only we can have made.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Child;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::helper::helper;
use crate::scratch::{self, Scratch};
use crate::tool::{find, retry_while_busy, tool};
use crate::{loops, mounts, state};
use qd1_model::{Problem, ProblemKind};

/// End of a journal's name.
const SUFFIX: &str = ".journal";

/// One change of the system. A new kind is a variant here and an arm in [`Change::undo`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A scratch directory of ours, with its contents.
    Scratch {
        /// Its path.
        dir: PathBuf,
    },
    /// Loop devices over this file.
    Loop {
        /// Path of the file.
        file: PathBuf,
    },
    /// A mount on this directory.
    Mount {
        /// The directory.
        point: PathBuf,
    },
    /// A ZFS pool.
    Pool {
        /// Its name.
        name: String,
    },
    /// A server that we started; its process id is in the file.
    Daemon {
        /// Its name, as the kernel shows it.
        program: String,
        /// Path of the file.
        pidfile: PathBuf,
    },
}

/// A line of a journal.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// The first line.
    Run { pid: u32, command: String },
    /// A change that is about to be made.
    Make(Change),
    /// The last change in the file was undone.
    Undone,
}

/// The journal of this run.
pub struct Journal {
    path: PathBuf,
    /// Holds the lock as well.
    file: File,
    made: Vec<Change>,
    helper: Option<Child>,
}

impl Change {
    /// Undoes the change; returns what was done, `None` when nothing was left of it.
    fn undo(&self) -> Result<Option<String>> {
        let message = |done: bool, text: String| done.then_some(text);
        Ok(match self {
            Self::Scratch { dir } => message(scratch::clear(dir)?, format!("removed {}", dir.display())),
            Self::Loop { file } => {
                message(loops::detach(file)?, format!("detached the loop device of {}", file.display()))
            }
            Self::Mount { point } => message(mounts::unmount(point)?, format!("unmounted {}", point.display())),
            Self::Pool { name } => message(destroy_pool(name)?, format!("destroyed the pool {name}")),
            Self::Daemon { program, pidfile } => message(end(program, pidfile)?, format!("ended {program}")),
        })
    }
}

/// Destroys a pool; returns false if it does not exist, as when its daemon and disk are gone.
fn destroy_pool(name: &str) -> Result<bool> {
    if find("zpool").is_none() || tool("zpool", &["list", name]).is_err() {
        return Ok(false);
    }
    retry_while_busy(|| Ok(tool("zpool", &["destroy", "-f", name]).is_ok()))?
        .then_some(true)
        .with_context(|| format!("the pool {name} is still in use; zpool destroy -f {name} once it is not"))
}

/// Ends the process whose id is in `pidfile` if it is still `program`; returns true if it was running.
fn end(program: &str, pidfile: &Path) -> Result<bool> {
    let number = std::fs::read_to_string(pidfile).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let Some(pid) = number.and_then(Pid::from_raw) else { return Ok(false) };
    let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let lives = || {
        // A child of ours has to be reaped.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        let name = std::fs::read_to_string(proc.join("comm")).unwrap_or_default();
        let stat = std::fs::read_to_string(proc.join("stat")).unwrap_or_default();
        // A zombie counts as ended.
        let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
        // The kernel keeps fifteen letters of a name.
        name.trim_end() == &program[..program.len().min(15)] && !ended
    };
    if !lives() {
        return Ok(false);
    }
    let _ = rustix::process::kill_process(pid, Signal::TERM);
    if !retry_while_busy(|| Ok(!lives()))? {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        ensure!(retry_while_busy(|| Ok(!lives()))?, "{program} (process {}) does not end", pid.as_raw_nonzero());
    }
    Ok(true)
}

/// Returns the directory of the journals.
fn dir() -> Result<PathBuf> {
    Ok(state::state_dir(|name| std::env::var_os(name))?.join("journal"))
}

impl Journal {
    /// Creates the journal of the run `id`, after undoing what dead runs left.
    ///
    /// # Errors
    /// When it cannot be written: no change is made without it.
    pub fn open(id: &str, command: &str) -> Result<Self> {
        for line in restore_dead(false)?.undone {
            // Nobody may be listening; the run goes on.
            let _ = writeln!(std::io::stderr(), "qd1: from an earlier run: {line}");
        }
        let open = || -> Result<Self> {
            let dir = dir()?;
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            let path = dir.join(format!("{id}{SUFFIX}"));
            let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            Ok(Self { helper: helper(&path), path, file, made: Vec::new() })
        };
        let mut journal = open().map_err(|error| {
            let message = format!(
                "cannot keep a journal of what is changed in the system ({error:#}); set XDG_STATE_HOME to a directory \
                 that can be written"
            );
            Problem::new(ProblemKind::Capability, message)
        })?;
        journal.write(&Line::Run { pid: std::process::id(), command: command.to_owned() })?;
        Ok(journal)
    }

    /// Records a change. It may only be made after this.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note(&mut self, change: Change) -> Result<()> {
        self.write(&Line::Make(change.clone()))?;
        self.made.push(change);
        Ok(())
    }

    /// Returns the number of changes in effect, for [`Self::undo_to`].
    pub fn depth(&self) -> usize {
        self.made.len()
    }

    /// Creates a scratch directory in `dir` that this journal removes, in the journal's order.
    ///
    /// # Errors
    /// When it cannot be created.
    pub fn scratch(&mut self, dir: &Path, id: &str) -> Result<Scratch> {
        let path = scratch::place_for(dir, id);
        self.note(Change::Scratch { dir: path.clone() })?;
        Scratch::make(path, None, true)
    }

    /// Undoes changes, the last one first, until `depth` are left. Tries all of them.
    ///
    /// # Errors
    /// When a change cannot be undone; it stays in the journal.
    pub fn undo_to(&mut self, depth: usize) -> Result<()> {
        debug_assert!(depth <= self.made.len(), "a depth is taken before the changes it undoes");
        let (mut failed, mut stuck) = (Vec::new(), Vec::new());
        while self.made.len() > depth {
            let Some(change) = self.made.pop() else { break };
            match change.undo() {
                // Recorded only if all later changes are undone as well.
                Ok(_) if failed.is_empty() => {
                    failed.extend(self.write(&Line::Undone).err().map(|error| format!("{error:#}")));
                }
                Ok(_) => {}
                Err(error) => {
                    failed.push(format!("{error:#}"));
                    stuck.push(change);
                }
            }
        }
        // They are tried again at the end, and the journal is kept as long as they remain.
        self.made.extend(stuck.into_iter().rev());
        ensure!(failed.is_empty(), "{}; `qd1 restore` tries again", failed.join("; "));
        Ok(())
    }

    fn write(&mut self, line: &Line) -> Result<()> {
        let text = serde_json::to_string(line)? + "\n";
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_data());
        written.with_context(|| format!("cannot write the journal {}", self.path.display()))
    }
}

impl Drop for Journal {
    fn drop(&mut self) {
        let undone = self.undo_to(0);
        match &undone {
            Ok(()) => drop(std::fs::remove_file(&self.path)),
            Err(error) => drop(writeln!(std::io::stderr(), "qd1: not everything was undone: {error:#}")),
        }
        if let Some(helper) = &mut self.helper {
            // It waits for the lock and then finds no journal; if something stays busy, it continues without us.
            let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
            drop(helper.stdin.take());
            if undone.is_ok() {
                let _ = helper.wait();
            }
        }
    }
}

/// The result of restoring.
#[derive(Default)]
pub struct Restored {
    /// Changes that were undone, or would be.
    pub undone: Vec<String>,
    /// Changes that could not be undone, and why.
    pub failed: Vec<String>,
    /// Runs that are still alive.
    pub alive: u32,
}

/// Undoes what dead runs left, or with `dry_run` only lists it.
///
/// # Errors
/// When there is no directory for journals.
pub fn restore_dead(dry_run: bool) -> Result<Restored> {
    let mut restored = Restored::default();
    let Ok(entries) = std::fs::read_dir(dir()?) else { return Ok(restored) };
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).filter(|path| is_journal(path)).collect();
    paths.sort();
    for path in paths {
        undo_file(&path, dry_run, &mut restored)
            .unwrap_or_else(|error| restored.failed.push(format!("{}: {error:#}", path.display())));
    }
    Ok(restored)
}

fn is_journal(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().ends_with(SUFFIX))
}

/// Undoes the changes of one journal whose run is gone, and removes it.
fn undo_file(path: &Path, dry_run: bool, restored: &mut Restored) -> Result<()> {
    let Ok(mut file) = File::open(path) else { return Ok(()) };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        restored.alive += 1;
        return Ok(());
    }
    let mut text = String::new();
    file.read_to_string(&mut text).context("cannot be read")?;
    let mut made = remaining(&text);
    let before = restored.failed.len();
    while let Some(change) = made.pop() {
        if dry_run {
            restored.undone.push(format!("would undo: {}", serde_json::to_string(&change)?));
            continue;
        }
        match change.undo() {
            Ok(message) => restored.undone.extend(message),
            Err(error) => restored.failed.push(format!("{error:#}")),
        }
    }
    if !dry_run && restored.failed.len() == before {
        std::fs::remove_file(path).context("cannot be removed")?;
    }
    Ok(())
}

/// Returns the changes still in effect, the first one first. The change of a last line that was cut off was never made.
fn remaining(text: &str) -> Vec<Change> {
    let mut made = Vec::new();
    for line in text.lines() {
        match serde_json::from_str(line) {
            Ok(Line::Make(change)) => made.push(change),
            Ok(Line::Undone) => drop(made.pop()),
            Ok(Line::Run { .. }) | Err(_) => {}
        }
    }
    made
}

/// Returns true if the path is that of a journal of ours.
pub fn is_ours(path: &Path) -> bool {
    is_journal(path) && path.parent().is_some_and(|dir| dir.ends_with("qd1/journal"))
}

/// Undoes, for the helper, the changes left in a journal whose run is gone. Its lock is free, since the run ended.
pub fn undo_left(path: &Path) -> Result<()> {
    let mut restored = Restored::default();
    undo_file(path, false, &mut restored)?;
    ensure!(restored.failed.is_empty(), "{}", restored.failed.join("; "));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(point: &str) -> Change {
        Change::Mount { point: point.into() }
    }

    #[test]
    fn undone_changes_and_a_line_cut_off_do_not_remain() {
        let line = |line: &Line| serde_json::to_string(line).unwrap();
        let text = [
            line(&Line::Run { pid: 1, command: "qd1 filesystems".to_owned() }),
            line(&Line::Make(mount("/a"))),
            line(&Line::Make(mount("/b"))),
            line(&Line::Undone),
            line(&Line::Make(mount("/c"))),
            line(&Line::Make(mount("/d")))[..20].to_owned(),
        ];
        assert_eq!(remaining(&text.join("\n")), [mount("/a"), mount("/c")]);
    }

    #[test]
    fn undoing_what_is_not_there_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join(".qd1-scratch-0");
        for change in [
            mount("/nonexistent/mount"),
            Change::Loop { file: inside.join("disk.img") },
            Change::Scratch { dir: inside.clone() },
            Change::Daemon { program: "sh".to_owned(), pidfile: inside.join("pid") },
        ] {
            assert_eq!(change.undo().unwrap(), None, "{change:?}");
        }
    }

    #[test]
    fn only_the_program_that_was_started_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let pidfile = dir.path().join("pid");
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(&pidfile, sleeper.id().to_string()).unwrap();
        assert!(!end("other", &pidfile).unwrap());
        assert!(sleeper.try_wait().unwrap().is_none());
        assert!(end("sleep", &pidfile).unwrap());
        // Reaped already, or to be reaped now: it did not end by itself.
        assert!(!sleeper.wait().is_ok_and(|status| status.success()));
    }

    #[test]
    fn a_panic_undoes_what_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.journal");
        let inside = dir.path().join(".qd1-scratch-0");
        let run = std::panic::catch_unwind(|| {
            let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
            let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None };
            journal.note(Change::Scratch { dir: inside.clone() }).unwrap();
            std::fs::create_dir(&inside).unwrap();
            panic!("on purpose");
        });
        assert!(run.is_err() && !inside.exists() && !path.exists());
    }

    #[test]
    fn changes_undone_during_a_run_do_not_remain_in_its_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.journal");
        let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
        let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None };
        journal.note(mount("/nonexistent/a")).unwrap();
        let depth = journal.depth();
        journal.note(mount("/nonexistent/b")).unwrap();
        journal.undo_to(depth).unwrap();
        assert_eq!(remaining(&std::fs::read_to_string(&path).unwrap()), [mount("/nonexistent/a")]);
    }

    #[test]
    fn what_could_not_be_undone_stays_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("0.journal"), dir.path().join(".qd1-scratch-0"));
        let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
        let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None };
        journal.note(Change::Scratch { dir: inside.clone() }).unwrap();
        std::fs::create_dir(&inside).unwrap();
        let depth = journal.depth();
        // Not a scratch directory of ours by its name, so it is never removed.
        let stuck = Change::Scratch { dir: dir.path().to_owned() };
        journal.note(stuck.clone()).unwrap();
        assert!(journal.undo_to(depth).is_err());
        drop(journal);
        assert!(!inside.exists(), "the rest is still undone");
        assert!(remaining(&std::fs::read_to_string(&path).unwrap()).contains(&stuck));
    }

    #[test]
    fn only_files_in_the_state_directory_are_journals() {
        assert!(!is_ours(Path::new("/etc/passwd")) && !is_ours(Path::new("/tmp/x.journal")));
        assert!(is_ours(Path::new("/root/.local/state/qd1/journal/0123.journal")));
    }
}
