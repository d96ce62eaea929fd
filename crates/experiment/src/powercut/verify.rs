//! After the cut: what is on the disk, held against the notes of the witness.

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_model::Problem;

use super::block::{self, BYTES};
use super::{BLOCKS, Header, boot_id, file_of};

/// What became of the commits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Commits that were acknowledged.
    pub acknowledged: u64,
    /// The newest of them, that were looked for: older ones were overwritten.
    pub looked_for: u64,
    /// Of these, those that are not on the disk.
    pub lost: u64,
    /// The newest commit on the disk; 0 for none.
    pub newest: u64,
    /// Whether the file itself is gone.
    pub is_file_gone: bool,
    /// Whether this machine was not started again since: what was read may come from its memory.
    pub is_same_start: bool,
}

/// Looks below `dir` for what `notes` say was acknowledged.
///
/// # Errors
/// When the notes are none, or the file cannot be read.
pub fn verify(dir: &Path, notes: &Path) -> Result<Outcome> {
    let (header, acknowledged) = read_notes(notes)?;
    let looked_for = acknowledged.min(BLOCKS);
    let mut outcome = Outcome {
        acknowledged,
        looked_for,
        lost: looked_for,
        newest: 0,
        is_file_gone: false,
        is_same_start: !header.boot.is_empty() && header.boot == boot_id(),
    };
    let path = file_of(dir, header.run);
    let file = match File::open(&path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound && dir.is_dir() => {
            outcome.is_file_gone = true;
            return Ok(outcome);
        }
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", path.display())),
    };
    let numbers: Vec<Option<u64>> = (0..BLOCKS).map(|at| read(&file, at, header.run)).collect::<Result<_>>()?;
    outcome.newest = numbers.iter().flatten().copied().max().unwrap_or(0);
    // The commit that was on its way may have torn the block of the one that it was to overwrite.
    let torn = outcome.newest % BLOCKS;
    let is_there = |number: &u64| {
        let at = (number - 1) % BLOCKS;
        match numbers[at as usize] {
            Some(found) => found >= *number,
            None => at == torn && outcome.newest >= acknowledged && acknowledged >= BLOCKS,
        }
    };
    let first = acknowledged - looked_for + 1;
    outcome.lost = (first..=acknowledged).filter(|number| !is_there(number)).count() as u64;
    Ok(outcome)
}

/// Removes the file of the run that `notes` are of.
///
/// # Errors
/// When the notes are none.
pub fn remove(dir: &Path, notes: &Path) -> Result<()> {
    let (header, _) = read_notes(notes)?;
    match std::fs::remove_file(file_of(dir, header.run)) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error).context("cannot remove the file of the run"),
        _ => Ok(()),
    }
}

/// The block at this place of the file; `None` where it holds no commit of the run.
fn read(file: &File, at: u64, run: u64) -> Result<Option<u64>> {
    let mut bytes = [0; BYTES];
    match file.read_exact_at(&mut bytes, at * BYTES as u64) {
        Ok(()) => Ok(block::number_of(&bytes, run)),
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(None),
        Err(error) => Err(error).context("cannot read the file of the run"),
    }
}

/// The header and the newest number. A line without its end may be cut short.
fn read_notes(notes: &Path) -> Result<(Header, u64)> {
    let text = std::fs::read_to_string(notes)
        .map_err(|error| Problem::usage(format!("cannot read the notes {}: {error}", notes.display())))?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines();
    let header = lines.next().and_then(Header::parse);
    let header = header.ok_or_else(|| {
        Problem::usage(format!("{} has no notes of `qd1 powercut witness`; name its file", notes.display()))
    })?;
    let newest = lines.next_back().map_or(Ok(0), str::parse);
    Ok((header, newest.map_err(|_| Problem::usage(format!("{} is damaged at its end", notes.display())))?))
}

#[cfg(test)]
mod tests {
    use super::super::Writer;
    use super::*;
    use std::io::Write;
    use std::sync::atomic::{AtomicBool, Ordering};

    /// Notes that stop the writer after so many commits.
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
            self.left -= 1;
            self.stop.store(self.left == 0, Ordering::Relaxed);
            Ok(())
        }
    }

    /// So many commits in a directory of their own, and the notes of them.
    fn committed(count: u64) -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let stop = AtomicBool::new(false);
        let writer = Writer::create(dir.path(), 7).unwrap();
        // The header is a line as well.
        let mut notes = Notes { text: Vec::new(), left: count + 1, stop: &stop };
        assert_eq!(writer.run(&mut notes, &stop).unwrap().acknowledged, count);
        let path = dir.path().join("notes");
        std::fs::write(&path, notes.text).unwrap();
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
        let outcome = verify(dir.path(), &notes).unwrap();
        assert_eq!((outcome.acknowledged, outcome.looked_for, outcome.lost, outcome.newest), (count, BLOCKS, 0, count));
        assert!(outcome.is_same_start);
        // The newest ten never reached the disk: what they were to overwrite is still there.
        (count - 9..=count).for_each(|number| edit(&file, (number - 1) % BLOCKS, Some(number - BLOCKS)));
        let outcome = verify(dir.path(), &notes).unwrap();
        assert_eq!((outcome.lost, outcome.newest), (10, count - 10));
        std::fs::remove_file(file).unwrap();
        let gone = verify(dir.path(), &notes).unwrap();
        assert!(gone.is_file_gone && gone.lost == BLOCKS);
    }

    #[test]
    fn the_commit_on_its_way_may_be_there_or_torn() {
        let count = BLOCKS + 100;
        let (dir, file, notes) = committed(count);
        edit(&file, count % BLOCKS, None);
        assert_eq!(verify(dir.path(), &notes).unwrap().lost, 0, "torn");
        edit(&file, count % BLOCKS, Some(count + 1));
        assert_eq!(verify(dir.path(), &notes).unwrap().lost, 0, "written, but not acknowledged");
        edit(&file, 5, None);
        assert_eq!(verify(dir.path(), &notes).unwrap().lost, 1, "an older one is damaged");
    }

    #[test]
    fn few_commits_and_wrong_notes() {
        let (dir, file, notes) = committed(3);
        assert_eq!(verify(dir.path(), &notes).unwrap().lost, 0);
        edit(&file, 2, None);
        assert_eq!(verify(dir.path(), &notes).unwrap().lost, 1);
        std::fs::write(&notes, "no notes\n").unwrap();
        assert!(verify(dir.path(), &notes).unwrap_err().to_string().contains("has no notes"));
        remove(dir.path(), &dir.path().join("absent")).unwrap_err();
    }
}
