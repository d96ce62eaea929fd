//! `--record` and `--play`: a file of reports, a line of JSON each.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_model::{Problem, printable};
use qd1_report::thousands;
use qd1_system::source;
use qd1_trace::file::is_compact;

use super::json;
use super::reading::Reading;
use crate::{message, output};

/// What these files are called in messages; only a report of them is read at a time.
const KIND: source::Kind = source::Kind { name: "a recording of qd1 watch", most: u64::MAX };
/// Longest line, bytes: a report with all processes that the BPF programs keep takes 4 MiB.
const LINE_MAX: u64 = 8 << 20;

/// Writes reports to a file.
pub(super) struct Recorder {
    path: PathBuf,
    file: File,
    written: u64,
    has_failed: bool,
    text: String,
}

impl Recorder {
    /// Creates the file. One that has something is not replaced: it may be the recording of a night.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(path: &Path) -> Result<Self> {
        output::refuse_recorded(path)?;
        let file = output::create_in_place("--record", path)?;
        Ok(Self { path: path.to_owned(), file, written: 0, has_failed: false, text: String::new() })
    }

    /// Appends a report.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn push(&mut self, reading: &Reading) -> Result<()> {
        self.text.clear();
        json::push(&mut self.text, reading, true);
        let written = self.file.write_all(self.text.as_bytes());
        self.has_failed = written.is_err();
        self.written += u64::from(written.is_ok());
        written.with_context(|| format!("cannot write {}", printable(&self.path.to_string_lossy())))
    }

    /// Prints what was written.
    pub(super) fn end(self) {
        let path = self.path.to_string_lossy();
        let (shown, count) = (printable(&path), thousands(self.written));
        match self.written {
            0 if self.has_failed => {}
            0 => message::print(format_args!(
                "qd1: nothing was recorded in {shown}: it ended before the first interval was complete"
            )),
            1 => message::print(format_args!("qd1: wrote 1 report to {shown}; `qd1 watch --play {shown}` shows it")),
            _ => message::print(format_args!(
                "qd1: wrote {count} reports to {shown}; `qd1 watch --play {shown}` shows them"
            )),
        }
    }
}

/// The reports of a file, of which any can be read.
pub(super) struct Player {
    path: PathBuf,
    file: BufReader<File>,
    /// Where the lines begin, and where the last one ends.
    offsets: Vec<u64>,
    /// The next report.
    at: usize,
    /// Lines that are not reports.
    damaged: BTreeSet<usize>,
    is_cut: bool,
}

impl Player {
    /// Opens a file and finds its reports.
    ///
    /// # Errors
    /// If it cannot be read, or does not begin with a report.
    pub(super) fn open(path: &Path) -> Result<Self> {
        let cannot = |why: String| Problem::usage(format!("{}: {why}", printable(&path.to_string_lossy())));
        let mut file = source::open(path, KIND)?;
        if !file.metadata()?.is_file() {
            let mut copy = tempfile::tempfile().context("cannot keep what comes through the pipe")?;
            std::io::copy(&mut file, &mut copy).map_err(|error| cannot(error.to_string()))?;
            file = copy;
        }
        file.rewind()?;
        if is_compact(file.try_clone()?) {
            return Err(cannot("is a recorded trace; show it with `qd1 trace --play`".to_owned()).into());
        }
        file.rewind()?;
        let mut file = BufReader::with_capacity(1 << 20, file);
        let (offsets, is_cut) = lines(&mut file).map_err(|error| cannot(error.to_string()))?;
        let mut player = Self { path: path.to_owned(), file, offsets, at: 0, damaged: BTreeSet::new(), is_cut };
        let first = if player.len() == 0 { Err(anyhow::anyhow!("it has no report")) } else { player.parse(0) };
        first.map_err(|error| cannot(format!("not a recording of `qd1 watch --record`: {error:#}")))?;
        Ok(player)
    }

    /// Number of reports.
    pub(super) const fn len(&self) -> usize {
        self.offsets.len() - 1
    }

    /// The number of the next report.
    pub(super) const fn position(&self) -> usize {
        self.at
    }

    /// Makes this report the next one.
    pub(super) fn seek(&mut self, to: usize) {
        self.at = to.min(self.len());
    }

    /// Returns the next report; `None` at the end. Lines that are not reports, or cannot be read, are skipped.
    pub(super) fn next(&mut self) -> Option<Reading> {
        while self.at < self.len() {
            self.at += 1;
            match self.parse(self.at - 1) {
                Ok(reading) => return Some(reading),
                Err(_) => _ = self.damaged.insert(self.at - 1),
            }
        }
        None
    }

    fn parse(&mut self, at: usize) -> Result<Reading> {
        let (from, to) = (self.offsets[at], self.offsets[at + 1]);
        anyhow::ensure!(to - from <= LINE_MAX, "a line is too long");
        let mut line = vec![0; (to - from) as usize];
        self.file.seek(SeekFrom::Start(from))?;
        self.file.read_exact(&mut line)?;
        json::parse(&line)
    }

    /// Prints what is missing.
    pub(super) fn end(&self) {
        let path = self.path.to_string_lossy();
        if !self.damaged.is_empty() {
            let count = thousands(self.damaged.len() as u64);
            message::print(format_args!("qd1: {}: lines that are not reports: {count}", printable(&path)));
        }
        if self.is_cut {
            message::print(format_args!("qd1: {}: the last report is incomplete", printable(&path)));
        }
    }
}

/// Returns where each line begins, where the last ends, and whether something follows it.
fn lines(file: &mut BufReader<File>) -> std::io::Result<(Vec<u64>, bool)> {
    let (mut offsets, mut at) = (vec![0_u64], 0);
    loop {
        let part = file.fill_buf()?;
        if part.is_empty() {
            break;
        }
        for (place, _) in part.iter().enumerate().filter(|(_, byte)| **byte == b'\n') {
            let (begin, next) = (offsets[offsets.len() - 1], at + place as u64 + 1);
            // Empty lines belong to the one before.
            if next - begin == 1 && offsets.len() > 1 {
                offsets.pop();
            }
            offsets.push(next);
        }
        at += part.len() as u64;
        let length = part.len();
        file.consume(length);
    }
    let is_cut = offsets.last() != Some(&at);
    Ok((offsets, is_cut))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(dir: &Path) -> PathBuf {
        let path = dir.join("watch.json");
        let mut recorder = Recorder::begin(&path).unwrap();
        for second in 0..5 {
            recorder.push(&Reading { unix_time_s: f64::from(second), ..Reading::default() }).unwrap();
        }
        path
    }

    fn times(path: &Path) -> (Vec<f64>, usize, bool) {
        let mut player = Player::open(path).unwrap();
        let times = std::iter::from_fn(|| player.next()).map(|reading| reading.unix_time_s).collect();
        (times, player.damaged.len(), player.is_cut)
    }

    #[test]
    fn a_recording_is_played_from_anywhere() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path());
        assert_eq!(times(&path), (vec![0.0, 1.0, 2.0, 3.0, 4.0], 0, false));
        let mut player = Player::open(&path).unwrap();
        player.seek(3);
        assert_eq!(player.next().map(|reading| reading.unix_time_s), Some(3.0));
        player.seek(99);
        assert_eq!((player.next(), player.position()), (None, 5));
    }

    #[test]
    fn a_cut_or_damaged_file_is_read_as_far_as_it_is_good() {
        let dir = tempfile::tempdir().unwrap();
        let path = recorded(dir.path());
        let whole = std::fs::read(&path).unwrap();
        let line = whole.iter().position(|byte| *byte == b'\n').unwrap() + 1;
        for length in line..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            let (times, damaged, is_cut) = times(&path);
            assert_eq!((times.len(), damaged, is_cut), (length / line, 0, length % line > 0), "{length}");
        }
        let mut damaged = whole.clone();
        damaged[2 * line + 3] = b'\n';
        std::fs::write(&path, &damaged).unwrap();
        assert_eq!(times(&path), (vec![0.0, 1.0, 3.0, 4.0], 2, false));
        for (contents, why) in [(&b""[..], "no report"), (b"a\nb\n", "not JSON"), (&whole[..9], "no report")] {
            std::fs::write(&path, contents).unwrap();
            let error = Player::open(&path).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
