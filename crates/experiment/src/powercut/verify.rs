//! After the cut: compares the disk with the notes of the witness.

use std::fs::{File, OpenOptions};
use std::io::{BufRead as _, BufReader, ErrorKind, Read as _};
use std::os::unix::fs::{FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_model::{Problem, ProblemKind};
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;

use super::block::{self, BYTES};
use super::{BLOCKS, END, Header, LINE_MAX, boot_id, file_of};

/// Maximum size of the notes in bytes: more than days on the fastest disk produce.
const NOTES_MAX: u64 = 64 << 30;

/// What happened to the commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Number of acknowledged commits.
    pub acknowledged: u64,
    /// How many of the newest were looked for: older ones were overwritten.
    pub looked_for: u64,
    /// How many of these are not on the disk.
    pub lost: u64,
    /// The first of these; 0 for none.
    pub first_lost: u64,
    /// The last of them.
    pub last_lost: u64,
    /// The newest commit on the disk; 0 for none.
    pub newest: u64,
    /// The file of the run.
    pub file: PathBuf,
}

/// An error before anything could be looked for.
fn not_tested(why: String) -> anyhow::Error {
    Problem::new(ProblemKind::Failed, format!("not tested: {why}")).into()
}

/// Looks below `dir` for the commits that `notes` list as acknowledged. `was_disk_alone`: only the disk lost its power,
/// not this machine.
///
/// # Errors
/// If the notes are invalid, or those of a writer that was stopped; if there was no power cut, or the file is missing.
pub fn verify(dir: &Path, notes: &Path, was_disk_alone: bool) -> Result<Outcome> {
    let Notes { header, acknowledged, has_ended } = read_notes(notes)?;
    if has_ended {
        return Err(not_tested("the writer was stopped without a power cut, and removed its file".to_owned()));
    }
    if !was_disk_alone && !header.boot.is_empty() && header.boot == boot_id() {
        return Err(not_tested(
            "this machine has not been restarted since then, so reads may come from its memory; cut the power and \
             check again, or give --disk-alone if only the disk lost its power (the file is kept)"
                .to_owned(),
        ));
    }
    let path = file_of(dir, header.run);
    let file = match open(&path, OFlags::NOFOLLOW) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Err(not_tested(format!(
                "{} does not exist: this is not the directory that was written to, its disk is not mounted, an \
                 earlier check removed the file, or the disk lost the whole file",
                path.display()
            )));
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    if !file.metadata().is_ok_and(|data| data.is_file()) {
        return Err(not_tested(format!("{} was not written by `qd1 powercut write`", path.display())));
    }
    if acknowledged == 0 {
        return Err(not_tested("the notes contain no acknowledged commit; are they complete?".to_owned()));
    }
    if flock(&file, FlockOperation::NonBlockingLockShared).is_err() {
        return Err(not_tested("the writer is still running".to_owned()));
    }
    let looked_for = acknowledged.min(BLOCKS);
    let numbers: Vec<Option<u64>> = (0..BLOCKS).map(|at| read(&file, at, header.run)).collect::<Result<_>>()?;
    let newest = numbers.iter().flatten().copied().max().unwrap_or(0);
    // The commit in progress may have torn the block that it was overwriting.
    // Commits that were acknowledged and then overwritten can no longer be looked for.
    if newest > acknowledged + BLOCKS / 2 {
        return Err(not_tested(format!(
            "the notes end at commit {acknowledged} but the disk has commit {newest}: the witness was too far behind"
        )));
    }
    let is_there = |number: &u64| {
        let at = (number - 1) % BLOCKS;
        match numbers[at as usize] {
            Some(found) => found >= *number && (found - 1) % BLOCKS == at,
            None => newest >= acknowledged && *number + BLOCKS == newest + 1,
        }
    };
    let first = acknowledged - looked_for + 1;
    let lost: Vec<u64> = (first..=acknowledged).filter(|number| !is_there(number)).collect();
    let [first_lost, last_lost] = [lost.first(), lost.last()].map(|number| number.copied().unwrap_or(0));
    Ok(Outcome { acknowledged, looked_for, lost: lost.len() as u64, first_lost, last_lost, newest, file: path })
}

/// Opens a file for reading without blocking.
fn open(path: &Path, how: OFlags) -> std::io::Result<File> {
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY | how;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

/// The commit in the block at this position of the file; `None` if it holds no commit of the run.
fn read(file: &File, at: u64, run: u64) -> Result<Option<u64>> {
    let mut bytes = [0; BYTES];
    match file.read_exact_at(&mut bytes, at * BYTES as u64) {
        Ok(()) => Ok(block::number_of(&bytes, run)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        // A block torn by the cut may be unreadable.
        Err(error) if error.raw_os_error() == Some(Errno::IO.raw_os_error()) => Ok(None),
        Err(error) => Err(error).context("cannot read the run's file"),
    }
}

/// A witness's notes.
struct Notes {
    header: Header,
    acknowledged: u64,
    has_ended: bool,
}

/// Reads the notes: consecutive numbers from 1 on. The last line may be cut short.
fn read_notes(notes: &Path) -> Result<Notes> {
    let cannot = |why: String| Problem::usage(format!("cannot read the notes {}: {why}", notes.display()));
    // Opening a fifo would block, and a device has no end.
    let file = open(notes, OFlags::empty()).map_err(|error| cannot(error.to_string()))?;
    let found = file.metadata().map_err(|error| cannot(error.to_string()))?;
    if !found.is_file() || found.len() > NOTES_MAX {
        let what = if found.is_file() { "larger than any notes" } else { "not a regular file" };
        return Err(cannot(format!("it is {what}; give the file written by `qd1 powercut witness`")).into());
    }
    let none = || {
        Problem::usage(format!(
            "{} does not contain notes of `qd1 powercut witness`; give the file that it wrote",
            notes.display()
        ))
    };
    // Lines added meanwhile are not read.
    let mut lines = BufReader::new(file.take(found.len()));
    let mut next = || -> Result<Option<String>> {
        let mut line = Vec::new();
        (&mut lines).take(LINE_MAX).read_until(b'\n', &mut line).context("cannot read the notes")?;
        let whole = line.strip_suffix(b"\n").map(|line| String::from_utf8_lossy(line).into_owned());
        if whole.is_none() && line.len() as u64 == LINE_MAX {
            return Err(none().into());
        }
        Ok(whole)
    };
    let header = next()?.as_deref().and_then(Header::parse).ok_or_else(none)?;
    let (mut acknowledged, mut has_ended) = (0, false);
    while let Some(line) = next()?.filter(|_| !has_ended) {
        match line.parse::<u64>() {
            Ok(number) if number == acknowledged + 1 => acknowledged = number,
            _ if line == END => has_ended = true,
            _ => {
                return Err(
                    Problem::usage(format!("{} is damaged after commit {acknowledged}", notes.display())).into()
                );
            }
        }
    }
    Ok(Notes { header, acknowledged, has_ended })
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Notes that stop the writer after this many commits.
    struct Notes<'a> {
        text: Vec<u8>,
        left: u64,
        stop: &'a AtomicBool,
    }

    impl Write for Notes<'_> {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.text.extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.left = self.left.saturating_sub(1);
            self.stop.store(self.left == 0, Ordering::Relaxed);
            Ok(())
        }
    }

    /// This many commits in their own directory, and their notes.
    fn committed(count: u64) -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let writer = Writer::create(dir.path(), 7).unwrap();
        // The header is a line as well.
        let mut notes = Notes { text: Vec::new(), left: count + 1, stop: &stop };
        assert_eq!(writer.run(&mut notes, &stop, |_| ()).acknowledged, count);
        let path = dir.path().join("notes");
        // As if it had not been stopped.
        std::fs::write(&path, notes.text.strip_suffix(b"end\n").unwrap()).unwrap();
        let file = writer.path().to_owned();
        (dir, file, path)
    }

    fn edit(file: &Path, at: u64, number: Option<u64>) {
        let mut bytes = [0; BYTES];
        if let Some(number) = number {
            block::fill(&mut bytes, 7, number);
        }
        File::options().write(true).open(file).unwrap().write_all_at(&bytes, at * BYTES as u64).unwrap();
    }

    #[test]
    fn commits_that_are_there_are_kept_and_those_of_an_older_disk_are_lost() {
        let count = BLOCKS + 100;
        let (dir, file, notes) = committed(count);
        let outcome = verify(dir.path(), &notes, true).unwrap();
        assert_eq!((outcome.acknowledged, outcome.looked_for, outcome.lost, outcome.newest), (count, BLOCKS, 0, count));
        // The newest ten never reached the disk: the blocks they should have overwritten are still there.
        (count - 9..=count).for_each(|number| edit(&file, (number - 1) % BLOCKS, Some(number - BLOCKS)));
        let outcome = verify(dir.path(), &notes, true).unwrap();
        assert_eq!((outcome.lost, outcome.newest), (10, count - 10));
        assert_eq!((outcome.first_lost, outcome.last_lost), (count - 9, count));
    }

    /// Each was "Kept" or "LOST" at first.
    #[test]
    fn where_no_power_was_cut_nothing_is_claimed() {
        let (dir, file, notes) = committed(10);
        let why = |was_disk_alone| verify(dir.path(), &notes, was_disk_alone).unwrap_err().to_string();
        assert!(why(false).contains("has not been restarted"), "{}", why(false));
        let writing = File::open(&file).unwrap();
        flock(&writing, FlockOperation::LockExclusive).unwrap();
        assert!(why(true).contains("still running"), "{}", why(true));
        drop(writing);
        std::fs::remove_file(&file).unwrap();
        assert!(why(true).contains("its disk is not mounted"), "{}", why(true));
        let text = std::fs::read_to_string(&notes).unwrap();
        std::fs::write(&notes, text + "end\n").unwrap();
        assert!(why(true).contains("the writer was stopped"), "{}", why(true));
    }

    #[test]
    fn the_commit_on_its_way_may_be_there_or_torn() {
        let count = BLOCKS + 100;
        let (dir, file, notes) = committed(count);
        edit(&file, count % BLOCKS, None);
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 0, "torn");
        edit(&file, count % BLOCKS, Some(count + 1));
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 0, "written, but not acknowledged");
        edit(&file, 5, None);
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 1, "an older one is damaged");
    }

    /// It was "LOST" if a block was torn before the first wrap was noted, and "Kept" for copies of one block.
    #[test]
    fn blocks_are_looked_for_in_their_own_places() {
        let (dir, file, notes) = committed(BLOCKS + 5);
        let noted = |count: usize| {
            let text = std::fs::read_to_string(&notes).unwrap();
            let lines: Vec<&str> = text.lines().take(count + 1).collect();
            std::fs::write(&notes, lines.join("\n") + "\n").unwrap();
        };
        noted(2000);
        edit(&file, 5, None);
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 0, "the one on its way");
        (0..BLOCKS).for_each(|at| edit(&file, at, Some(BLOCKS)));
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 2000, "copies of one block");
    }

    #[test]
    fn notes_that_are_far_behind_or_damaged_test_nothing() {
        let (dir, _, notes) = committed(BLOCKS + 5);
        let text = std::fs::read_to_string(&notes).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        let why = |kept: &[&str]| {
            std::fs::write(&notes, kept.join("\n") + "\n").unwrap();
            verify(dir.path(), &notes, true).unwrap_err().to_string()
        };
        assert!(why(&lines[..11]).contains("too far behind"));
        assert!(why(&lines[..1]).contains("no acknowledged commit"));
        assert!(why(&[&lines[..3], &["5"]].concat()).contains("damaged after commit 2"));
        assert!(why(&[&"x".repeat(500)]).contains("does not contain notes"));
    }

    #[test]
    fn few_commits_and_wrong_notes() {
        let (dir, file, notes) = committed(3);
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 0);
        edit(&file, 2, None);
        assert_eq!(verify(dir.path(), &notes, true).unwrap().lost, 1);
        std::fs::write(&notes, "no notes\n").unwrap();
        assert!(verify(dir.path(), &notes, true).unwrap_err().to_string().contains("does not contain notes"));
    }

    /// Opening a fifo blocked forever.
    #[test]
    fn notes_are_a_regular_file() {
        let (dir, _, notes) = committed(3);
        std::fs::remove_file(&notes).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &notes, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        for wrong in [&notes, Path::new("/dev/zero"), dir.path()] {
            let error = verify(dir.path(), wrong, true).unwrap_err().to_string();
            assert!(error.contains("not a regular file"), "{error}");
        }
        std::fs::remove_file(&notes).unwrap();
        File::create(&notes).unwrap().set_len(NOTES_MAX + 1).unwrap();
        assert!(verify(dir.path(), &notes, true).unwrap_err().to_string().contains("larger than any notes"));
    }
}
