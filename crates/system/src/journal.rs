//! The changes this program makes to the system and has to undo, each recorded before it is made.
//!
//! A run keeps a file of its own in the state directory, locked while it lives. Dropping the journal undoes everything,
//! the last change first, and removes the file: at the end of a run, after an error or a panic. If the run is killed, a
//! helper process (the same binary) sees its pipe close and does it; if that is killed too, or the power fails, `qd1
//! restore` does, or the next run that keeps a journal. Undoing checks what exists now, so that doing it twice is
//! harmless, and each change names something that only we can have made. Each line has a checksum: what is not understood
//! is reported and kept, and what is, is undone. A journal that another user could have written is not obeyed.

use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Component, Path, PathBuf};
use std::process::Child;

use anyhow::{Context as _, Result, ensure};
use rustix::fs::FlockOperation;
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::helper::helper;
use crate::scratch::{self, Scratch};
use crate::tool::{find, retry_while_busy, tool};
use crate::trust::changeable_by_others;
use crate::{loops, mounts, schema, state};
use qd1_model::{Problem, ProblemKind};

/// End of a journal's name.
const SUFFIX: &str = ".journal";
/// How the names of our ZFS pools begin.
pub const POOL_PREFIX: &str = "qd1_";
/// The servers that a journal may name.
const DAEMONS: [&str; 1] = ["zfs-fuse"];
/// No journal is as long as this, bytes: a run makes a few dozen changes.
const LONGEST: u64 = 16 << 20;

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
    /// A schema in somebody's PostgreSQL server.
    Schema {
        /// How to connect to it, without secrets.
        server: String,
        /// Its name.
        name: String,
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

/// A variable of the environment that undoing needs and the journal must not hold, such as PGPASSWORD.
pub type Secret = (&'static str, OsString);

/// The journal of this run.
pub struct Journal {
    path: PathBuf,
    /// Holds the lock as well.
    file: File,
    made: Vec<Change>,
    helper: Option<Child>,
    secrets: Vec<Secret>,
}

impl Change {
    /// Returns true if it names only what qd1 makes.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Scratch { dir } => is_direct(dir) && scratch::is_scratch(dir),
            Self::Loop { file: path } | Self::Mount { point: path } => is_direct(path) && scratch::is_inside(path),
            Self::Pool { name } => name.starts_with(POOL_PREFIX),
            Self::Daemon { program, pidfile } => {
                DAEMONS.contains(&program.as_str()) && is_direct(pidfile) && scratch::is_inside(pidfile)
            }
            Self::Schema { name, .. } => schema::is_ours(name),
        }
    }

    /// Returns the change with the paths that another process can use: a descriptor of ours means nothing to it.
    fn resolved(mut self) -> Result<Self> {
        match &mut self {
            Self::Scratch { dir: path }
            | Self::Loop { file: path }
            | Self::Mount { point: path }
            | Self::Daemon { pidfile: path, .. } => {
                if let (Some(dir), Some(name)) =
                    (path.parent().filter(|dir| dir.starts_with("/proc/self")), path.file_name())
                {
                    *path = std::fs::canonicalize(dir)?.join(name);
                }
            }
            Self::Pool { .. } | Self::Schema { .. } => {}
        }
        Ok(self)
    }

    /// Undoes the change; returns what was done, `None` when nothing was left of it.
    ///
    /// # Errors
    /// When it is in use, or names something that qd1 does not make.
    fn undo(&self, env: &[Secret]) -> Result<Option<String>> {
        ensure!(self.is_ours(), "qd1 makes no such thing, so it is left alone: {}", serde_json::to_string(self)?);
        let message = |done: bool, text: String| done.then_some(text);
        Ok(match self {
            Self::Scratch { dir } => message(scratch::clear(dir)?, format!("removed {}", dir.display())),
            Self::Loop { file } => {
                message(loops::detach(file)?, format!("detached the loop device of {}", file.display()))
            }
            Self::Mount { point } => message(mounts::unmount(point)?, format!("unmounted {}", point.display())),
            Self::Pool { name } => message(destroy_pool(name)?, format!("destroyed the pool {name}")),
            Self::Daemon { program, pidfile } => message(end(program, pidfile)?, format!("ended {program}")),
            Self::Schema { server, name } => {
                message(schema::drop_schema(server, name, env)?, format!("dropped the schema {name}"))
            }
        })
    }
}

/// Whether a path is absolute and goes nowhere up: what it seems to be inside, it is.
fn is_direct(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
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
    let state = state::state_dir(|name| std::env::var_os(name));
    Ok(state.context("there is no place for journals; set HOME, or XDG_STATE_HOME to a directory")?.join("journal"))
}

/// Refuses journals that another user could have written: they say what is unmounted, detached and ended.
fn must_be_trusted(dir: &Path) -> Result<()> {
    let Some(changeable) = changeable_by_others(dir) else { return Ok(()) };
    let (dir, changeable) = (dir.display(), changeable.display());
    let message = format!(
        "the journals in {dir} are not trusted: another user can change {changeable}; set XDG_STATE_HOME to a directory \
         of your own (with sudo, `sudo -H` does)"
    );
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

impl Journal {
    /// Creates the journal of the run `id`, after undoing what dead runs left.
    ///
    /// # Errors
    /// When it cannot be written: no change is made without it.
    pub fn open(id: &str, command: &str) -> Result<Self> {
        Self::with_secrets(id, command, Vec::new())
    }

    /// Does the same for changes that are undone with these variables, which its helper is given.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn with_secrets(id: &str, command: &str, secrets: Vec<Secret>) -> Result<Self> {
        for line in restore_dead(false)?.undone {
            // Nobody may be listening; the run goes on.
            let _ = writeln!(std::io::stderr(), "qd1: from an earlier run: {line}");
        }
        let open = || -> Result<Self> {
            let dir = dir()?;
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            must_be_trusted(&dir)?;
            let path = dir.join(format!("{id}{SUFFIX}"));
            let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(&path)?;
            rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
            // After a power cut the file has to have its name.
            File::open(&dir)?.sync_all()?;
            Ok(Self { helper: helper(&path, &secrets), path, file, made: Vec::new(), secrets: secrets.clone() })
        };
        let mut journal = open().map_err(|error| {
            if error.is::<Problem>() {
                return error;
            }
            let message = format!(
                "cannot keep a journal of what is changed in the system ({error:#}); set XDG_STATE_HOME to a directory \
                 that can be written"
            );
            Problem::new(ProblemKind::Capability, message).into()
        })?;
        journal.write(&Line::Run { pid: std::process::id(), command: command.to_owned() })?;
        Ok(journal)
    }

    /// Records a change. It may only be made after this.
    ///
    /// # Errors
    /// When it cannot be written, or the scratch directory that it is in has been renamed by somebody else.
    pub fn note(&mut self, change: Change) -> Result<()> {
        let named = change.clone();
        let change = change.resolved()?;
        if !change.is_ours() {
            assert!(change != named, "what is not ours is never undone: {change:?}");
            let message = format!(
                "the scratch directory was renamed by another user, so this is left undone: {}; choose a directory that \
                 only you can change",
                serde_json::to_string(&change)?
            );
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
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
        let path = scratch::place_for(dir, id)?;
        self.note(Change::Scratch { dir: path.clone() })?;
        Scratch::journalled(&path)
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
            match change.undo(&self.secrets) {
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
        let text = encode(line)?;
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
    let dir = dir()?;
    let Ok(entries) = std::fs::read_dir(&dir) else { return Ok(restored) };
    must_be_trusted(&dir)?;
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
    let Some(file) = open(path)? else { return Ok(()) };
    if rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
        restored.alive += 1;
        return Ok(());
    }
    let mut text = Vec::new();
    (&file).take(LONGEST).read_to_end(&mut text).context("cannot be read")?;
    let Remaining { mut made, unknown } = remaining(&text);
    let before = restored.failed.len();
    while let Some(change) = made.pop() {
        if dry_run {
            restored.undone.push(format!("would undo: {}", serde_json::to_string(&change)?));
            continue;
        }
        match change.undo(&[]) {
            Ok(message) => restored.undone.extend(message),
            Err(error) => restored.failed.push(format!("{error:#}")),
        }
    }
    restored.failed.extend(unknown.iter().map(|line| {
        let path = path.display();
        format!("line {line} of {path} is damaged or of a newer qd1; undo by hand what it names, and remove the file")
    }));
    if !dry_run && restored.failed.len() == before {
        std::fs::remove_file(path).context("cannot be removed")?;
    }
    Ok(())
}

/// Opens a journal; `None` if it is gone. A link or a fifo of such a name is none.
fn open(path: &Path) -> Result<Option<File>> {
    use rustix::fs::OFlags;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.context("cannot be opened")?,
    };
    let found = file.metadata()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    ensure!(found.is_file() && is_own, "is not a journal of this user; remove it");
    Ok(Some(file))
}

/// The changes that a journal's text leaves in effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Those that are understood, the first one first.
    pub made: Vec<Change>,
    /// The numbers, from 1, of the lines that are not.
    pub unknown: Vec<usize>,
}

/// Returns a line as it is written: its checksum and itself.
fn encode(line: &Line) -> Result<String> {
    let json = serde_json::to_string(line)?;
    Ok(format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes())))
}

/// Returns what a line says; `None` if it is damaged or not understood.
fn decode(line: &[u8]) -> Option<Line> {
    let (sum, json) = std::str::from_utf8(line).ok()?.split_once(' ')?;
    let sum = u32::from_str_radix(sum, 16).ok()?;
    (sum == crc32c::crc32c(json.as_bytes())).then(|| serde_json::from_str(json).ok())?
}

/// Reads a journal. A last line that was cut off stands for a change that was never made. Behind a line that is not
/// understood nobody knows which change was undone, so that none counts as undone: undoing one twice is harmless.
pub fn remaining(text: &[u8]) -> Remaining {
    let mut remaining = Remaining::default();
    for (index, line) in text.split_inclusive(|byte| *byte == b'\n').enumerate() {
        let Some(line) = line.strip_suffix(b"\n") else { break };
        match decode(line) {
            Some(Line::Make(change)) => remaining.made.push(change),
            Some(Line::Undone) if remaining.unknown.is_empty() => drop(remaining.made.pop()),
            Some(Line::Undone | Line::Run { .. }) => {}
            None => remaining.unknown.push(index + 1),
        }
    }
    remaining
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
        Change::Mount { point: format!("/nonexistent/.qd1-scratch-0{point}").into() }
    }

    fn text(lines: &[Line]) -> String {
        lines.iter().map(|line| encode(line).unwrap()).collect()
    }

    #[test]
    fn undone_changes_and_a_line_cut_off_do_not_remain() {
        let run = Line::Run { pid: 1, command: "qd1 filesystems".to_owned() };
        let [a, b, c, d] = ["/a", "/b", "/c", "/d"].map(mount);
        let whole = text(&[run, Line::Make(a.clone()), Line::Make(b), Line::Undone, Line::Make(c.clone())]);
        let cut_off = &text(&[Line::Make(d)])[..30];
        let expected = Remaining { made: vec![a, c], unknown: vec![] };
        assert_eq!(remaining((whole + cut_off).as_bytes()), expected);
    }

    /// A damaged line hid the changes after it, a byte that is not UTF-8 all of them.
    #[test]
    fn damaged_lines_are_told_and_the_others_undone() {
        let [a, b, c] = ["/a", "/b", "/c"].map(mount);
        let lines = [a.clone(), b.clone(), c.clone()].map(|change| text(&[Line::Make(change)]));
        let damage = [
            lines[1].replace("/b", "/x").into_bytes(),
            b"\xff\xfe\n".to_vec(),
            b"\n".to_vec(),
            encode(&Line::Undone).unwrap().replace("undone", "forgot").into_bytes(),
        ];
        for damaged in damage {
            let text = [lines[0].as_bytes(), &damaged, lines[2].as_bytes(), text(&[Line::Undone]).as_bytes()].concat();
            let expected = Remaining { made: vec![a.clone(), c.clone()], unknown: vec![2] };
            assert_eq!(remaining(&text), expected, "{}", String::from_utf8_lossy(&damaged));
        }
        let json = r#"{"make":{"change":"teleport","to":"/x"}}"#;
        let newer = format!("{:08x} {json}\n", crc32c::crc32c(json.as_bytes()));
        assert_eq!(remaining(newer.as_bytes()).unknown, [1]);
    }

    /// `restore` undid whatever a journal named: any mount, loop device, process or pool.
    #[test]
    fn what_qd1_does_not_make_is_not_undone() {
        for change in [
            Change::Mount { point: "/home".into() },
            Change::Mount { point: "/d/.qd1-scratch-0/../../home".into() },
            Change::Loop { file: ".qd1-scratch-0/disk.img".into() },
            Change::Scratch { dir: "/home/u/../.qd1-scratch-0".into() },
            Change::Loop { file: "/var/disk.img".into() },
            Change::Scratch { dir: "/home/u".into() },
            Change::Pool { name: "tank".to_owned() },
            Change::Daemon { program: "sshd".to_owned(), pidfile: "/run/sshd.pid".into() },
            Change::Daemon { program: "zfs-fuse".to_owned(), pidfile: "/run/zfs-fuse.pid".into() },
        ] {
            let error = change.undo(&[]).unwrap_err().to_string();
            assert!(error.contains("left alone"), "{change:?}: {error}");
        }
    }

    /// The owner of the directory above renamed it, and the run panicked.
    #[test]
    fn what_was_renamed_under_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let renamed = dir.path().join("meddled");
        std::fs::create_dir(&renamed).unwrap();
        let held = File::open(&renamed).unwrap();
        let mut journal = Journal {
            path: dir.path().join("a.journal"),
            file: File::create(dir.path().join("a.journal")).unwrap(),
            made: Vec::new(),
            helper: None,
            secrets: Vec::new(),
        };
        let file = PathBuf::from(format!("/proc/self/fd/{}/disk.img", std::os::fd::AsRawFd::as_raw_fd(&held)));
        let error = journal.note(Change::Loop { file }).unwrap_err().to_string();
        assert!(error.contains("was renamed by another user") && journal.depth() == 0, "{error}");
    }

    /// Opening a fifo waits for a writer.
    #[test]
    fn a_fifo_or_a_link_is_no_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (fifo, link) = (dir.path().join("a.journal"), dir.path().join("b.journal"));
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", &link).unwrap();
        assert!(open(&fifo).is_err() && open(&link).is_err());
        assert!(open(&dir.path().join("gone")).unwrap().is_none());
    }

    #[test]
    fn undoing_what_is_not_there_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join(".qd1-scratch-0");
        for change in [
            mount("/mount"),
            Change::Loop { file: inside.join("disk.img") },
            Change::Scratch { dir: inside.clone() },
            Change::Daemon { program: "zfs-fuse".to_owned(), pidfile: inside.join("pid") },
        ] {
            assert_eq!(change.undo(&[]).unwrap(), None, "{change:?}");
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
            let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None, secrets: Vec::new() };
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
        let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None, secrets: Vec::new() };
        journal.note(mount("/a")).unwrap();
        let depth = journal.depth();
        journal.note(mount("/b")).unwrap();
        journal.undo_to(depth).unwrap();
        assert_eq!(remaining(&std::fs::read(&path).unwrap()).made, [mount("/a")]);
    }

    #[test]
    fn what_could_not_be_undone_stays_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("0.journal"), dir.path().join(".qd1-scratch-0"));
        let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
        let mut journal = Journal { path: path.clone(), file, made: Vec::new(), helper: None, secrets: Vec::new() };
        journal.note(Change::Scratch { dir: inside.clone() }).unwrap();
        std::fs::create_dir(&inside).unwrap();
        let depth = journal.depth();
        // Nothing that qd1 makes, so it is never undone.
        let stuck = Change::Mount { point: "/nonexistent".into() };
        journal.write(&Line::Make(stuck.clone())).unwrap();
        journal.made.push(stuck.clone());
        assert!(journal.undo_to(depth).is_err());
        drop(journal);
        assert!(!inside.exists(), "the rest is still undone");
        assert!(remaining(&std::fs::read(&path).unwrap()).made.contains(&stuck));
    }

    #[test]
    fn only_files_in_the_state_directory_are_journals() {
        assert!(!is_ours(Path::new("/etc/passwd")) && !is_ours(Path::new("/tmp/x.journal")));
        assert!(is_ours(Path::new("/root/.local/state/qd1/journal/0123.journal")));
    }
}
