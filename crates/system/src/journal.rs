//! The changes that this program makes to the system and has to undo, each recorded before it is made.
//!
//! Each run keeps its own file in the state directory, locked while the run lives. Dropping the journal undoes
//! everything, the last change first, and removes the file: at the end of a run, after an error or a panic. If the run
//! is killed, a helper process (the same binary) sees its pipe close and undoes the changes; if that is killed too, or
//! the power fails, `qd1 restore` does, or the next run that keeps a journal. Undoing checks what exists now, so that
//! doing it twice is harmless, and each change names something that only we can have made. Each line has a checksum:
//! lines that are understood are undone, the others are reported and kept. A journal that another user could have
//! written is ignored.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Once;

use anyhow::{Context as _, Result, bail, ensure};
use rustix::fs::FlockOperation;
use serde::{Deserialize, Serialize};

use crate::helper::helper;
use crate::scratch::{self, Held, Scratch};
use crate::state;
use crate::trust::changeable_by_others;
use qd1_model::{Problem, ProblemKind};

pub use crate::change::{Change, POOL_PREFIX, Secret};

/// Suffix of a journal's name.
const SUFFIX: &str = ".journal";
/// Upper bound on the length of a journal, bytes: a run makes a few dozen changes.
const LONGEST: u64 = 16 << 20;

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
    secrets: Vec<Secret>,
    /// The scratch directories of this run by their original paths, wherever they are now.
    held: Vec<(PathBuf, Held)>,
    /// Descriptors reserved for undoing, which must open directories and start programs even if the run has used up all
    /// others.
    reserve: Vec<File>,
}

/// How many.
const RESERVE: usize = 8;

/// Takes them.
///
/// # Errors
/// When too few are left; the message says what to do.
pub(crate) fn reserve() -> Result<Vec<File>> {
    (0..RESERVE).map(|_| File::open("/dev/null")).collect::<std::io::Result<_>>().map_err(|error| {
        let message = format!(
            "too few file descriptors to change the system and to undo it ({error}); raise their limit (ulimit -n)"
        );
        Problem::new(ProblemKind::Capability, message).into()
    })
}

/// Returns the directory of the journals.
fn dir() -> Result<PathBuf> {
    let state = state::state_dir(|name| std::env::var_os(name));
    Ok(state.context("there is no place for journals; set HOME, or set XDG_STATE_HOME to a directory")?.join("journal"))
}

/// Refuses journals that another user could have written, since they decide what is unmounted, detached and ended.
fn must_be_trusted(dir: &Path) -> Result<()> {
    let Some(changeable) = changeable_by_others(dir) else { return Ok(()) };
    let (dir, changeable) = (dir.display(), changeable.display());
    let message = format!(
        "cannot trust the journals in {dir}: another user can change {changeable}; set XDG_STATE_HOME to a directory \
         of your own (with sudo, `sudo -H` does that)"
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

    /// Does the same for changes that need these environment variables to be undone; its helper gets them too.
    ///
    /// # Errors
    /// As [`Journal::open`].
    pub fn with_secrets(id: &str, command: &str, secrets: Vec<Secret>) -> Result<Self> {
        // Once: changes that cannot be undone take time, and each step would retry and report them again.
        static DEAD_RUNS: Once = Once::new();
        DEAD_RUNS.call_once(undo_dead_runs);
        let open = || -> Result<Self> {
            let dir = dir()?;
            DirBuilder::new().recursive(true).mode(0o700).create(&dir)?;
            must_be_trusted(&dir)?;
            let path = dir.join(format!("{id}{SUFFIX}"));
            let reserve = reserve()?;
            let file = create(&path)?;
            // The file's name must survive a power cut.
            if let Err(error) = File::open(&dir).and_then(|dir| dir.sync_all()) {
                // Nothing has been changed yet, and nobody else would remove it.
                let _ = std::fs::remove_file(&path);
                return Err(error.into());
            }
            let helper = helper(&path, &secrets);
            Ok(Self { helper, path, file, made: Vec::new(), secrets: secrets.clone(), held: Vec::new(), reserve })
        };
        let mut journal = open().map_err(|error| {
            if error.is::<Problem>() {
                return error;
            }
            let message = format!(
                "cannot keep a journal of the changes to the system ({error:#}); set XDG_STATE_HOME to a directory \
                 that you can write to"
            );
            Problem::new(ProblemKind::Capability, message).into()
        })?;
        journal.write(&Line::Run { pid: std::process::id(), command: command.to_owned() })?;
        Ok(journal)
    }

    /// Records a change, which may be made only after this.
    ///
    /// # Errors
    /// When it cannot be written, or the scratch directory that it is in has been renamed by somebody else.
    pub fn note(&mut self, change: Change) -> Result<()> {
        let named = change.clone();
        let change = change.resolved()?;
        if !change.is_ours() {
            assert!(change != named, "what is not ours is never undone: {change:?}");
            let message = format!(
                "the scratch directory was renamed by another user, so this is not done: {}; choose a directory that \
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
        let scratch = Scratch::journalled(&path)?;
        self.held.push((path, scratch.held()?));
        Ok(scratch)
    }

    /// Undoes changes, the last one first, until `depth` are left. Tries all of them.
    ///
    /// # Errors
    /// When a change cannot be undone; it stays in the journal.
    pub fn undo_to(&mut self, depth: usize) -> Result<()> {
        debug_assert!(depth <= self.made.len(), "a depth is taken before the changes it undoes");
        let (mut failed, mut stuck) = (Vec::new(), Vec::new());
        self.reserve.clear();
        while self.made.len() > depth {
            let Some(change) = self.made.pop() else { break };
            match change.undo(&self.held, &self.secrets) {
                // Recorded only if all later changes are undone as well. Where the journal's disk is full it stays
                // unrecorded: undoing it twice is harmless.
                Ok(_) if failed.is_empty() => drop(self.write(&Line::Undone)),
                Ok(_) => {}
                Err(error) => {
                    failed.push(format!("{error:#}"));
                    stuck.push(change);
                }
            }
        }
        // They are retried at the end, and the journal is kept as long as any remain.
        self.made.extend(stuck.into_iter().rev());
        self.reserve = reserve().unwrap_or_default();
        ensure!(failed.is_empty(), "{}; run `qd1 restore` to try again", failed.join("; "));
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
            // The helper waits for the lock and then finds no journal; if something stays busy, it continues without
            // us.
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
        match change.undo(&[], &[]) {
            Ok(message) => restored.undone.extend(message),
            Err(error) => restored.failed.push(format!("{error:#}")),
        }
    }
    restored.failed.extend(unknown.iter().map(|line| {
        let path = path.display();
        format!("line {line} of {path} is damaged or from a newer qd1; undo what it names by hand and remove the file")
    }));
    if !dry_run && restored.failed.len() == before {
        match std::fs::remove_file(path) {
            // The run, which was ending, has removed it.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            removed => removed.context("cannot be removed")?,
        }
    }
    Ok(())
}

/// Undoes what dead runs left behind, as far as possible, and reports it.
fn undo_dead_runs() {
    // If the journals cannot be trusted, creating the new one fails too.
    let Ok(restored) = restore_dead(false) else { return };
    // Nobody may be listening; the run goes on.
    let say = |what: &str, line: &str| drop(writeln!(std::io::stderr(), "qd1: {what}: {line}"));
    restored.undone.iter().for_each(|line| say("from an earlier run", line));
    restored.failed.iter().for_each(|line| say("left by an earlier run (to retry: `qd1 restore`)", line));
}

/// Creates a journal and locks it.
fn create(path: &Path) -> Result<File> {
    for _ in 0..100 {
        let file = OpenOptions::new().append(true).create_new(true).mode(0o600).open(path)?;
        rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
        // Until it was locked, another run could take it for that of a dead run and remove it.
        if file.metadata()?.nlink() > 0 {
            return Ok(file);
        }
    }
    bail!("another program keeps removing {}", path.display())
}

/// Opens a journal; `None` if it is gone. A link or a fifo with such a name does not count.
fn open(path: &Path) -> Result<Option<File>> {
    use rustix::fs::OFlags;
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32;
    let file = match OpenOptions::new().read(true).custom_flags(flags).open(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        opened => opened.context("cannot be opened")?,
    };
    let found = file.metadata()?;
    let is_own = found.uid() == rustix::process::geteuid().as_raw() && found.mode() & 0o022 == 0;
    ensure!(found.is_file() && is_own, "does not belong to this user; remove it");
    Ok(Some(file))
}

/// The changes that are still in effect according to a journal's text.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Remaining {
    /// Those that are understood, the oldest first.
    pub made: Vec<Change>,
    /// The numbers, from 1, of the lines that are not understood.
    pub unknown: Vec<usize>,
}

/// Returns a line as it is written: its checksum, then the line itself.
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

/// Reads a journal. A truncated last line stands for a change that was never made. After a line that is not understood
/// nobody knows which changes were undone, so none count as undone: undoing one twice is harmless.
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

/// Returns true if the path is that of one of our journals.
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

    /// A journal without a helper.
    fn journal_at(path: &Path, file: File) -> Journal {
        let (made, secrets, held, reserve) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Journal { path: path.to_owned(), file, made, helper: None, secrets, held, reserve }
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

    /// A damaged line used to hide the changes after it, and a byte that is not UTF-8 hid all of them.
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

    /// The owner of the directory above renamed it, and the run panicked.
    #[test]
    fn what_was_renamed_under_a_run_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let renamed = dir.path().join("meddled");
        std::fs::create_dir(&renamed).unwrap();
        let held = File::open(&renamed).unwrap();
        let path = dir.path().join("a.journal");
        let mut journal = journal_at(&path, File::create(&path).unwrap());
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
    fn a_panic_undoes_what_was_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("0.journal");
        let inside = dir.path().join(".qd1-scratch-0");
        let run = std::panic::catch_unwind(|| {
            let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
            let mut journal = journal_at(&path, file);
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
        let mut journal = journal_at(&path, file);
        journal.note(mount("/a")).unwrap();
        let depth = journal.depth();
        journal.note(mount("/b")).unwrap();
        journal.undo_to(depth).unwrap();
        assert_eq!(remaining(&std::fs::read(&path).unwrap()).made, [mount("/a")]);
    }

    /// It said "Not everything was undone" with exit code 1, although everything was.
    #[test]
    fn on_a_full_disk_what_is_undone_needs_no_line() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join(".qd1-scratch-0");
        std::fs::create_dir(&inside).unwrap();
        let file = OpenOptions::new().append(true).open("/dev/full").unwrap();
        let made = vec![Change::Scratch { dir: inside.clone() }];
        let path = dir.path().join("0.journal");
        let mut journal = journal_at(&path, file);
        journal.made = made;
        journal.undo_to(0).unwrap();
        assert!(!inside.exists());
    }

    /// Another run found it after it was created and before it was locked, and removed it as that of a dead run.
    #[test]
    fn a_journal_that_was_made_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        let make = |number: u32| {
            let path = dir.path().join(format!("{number}{SUFFIX}"));
            let file = create(&path).ok()?;
            (std::fs::metadata(&path).ok()?.ino() == file.metadata().ok()?.ino()).then_some(())
        };
        let made = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    for entry in std::fs::read_dir(dir.path()).unwrap().flatten() {
                        undo_file(&entry.path(), false, &mut Restored::default()).unwrap();
                    }
                }
            });
            let made = (0..500).filter_map(make).count();
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
            made
        });
        assert_eq!(made, 500);
    }

    #[test]
    fn what_could_not_be_undone_stays_in_the_journal() {
        let dir = tempfile::tempdir().unwrap();
        let (path, inside) = (dir.path().join("0.journal"), dir.path().join(".qd1-scratch-0"));
        let file = OpenOptions::new().append(true).create_new(true).open(&path).unwrap();
        let mut journal = journal_at(&path, file);
        journal.note(Change::Scratch { dir: inside.clone() }).unwrap();
        std::fs::create_dir(&inside).unwrap();
        let depth = journal.depth();
        // Not something that qd1 makes, so it is never undone.
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
