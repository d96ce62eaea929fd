//! pgbench's log of transactions, read through pipes: one for each of its threads.
//!
//! A line is `client number latency script seconds microseconds [lag] [retries]`, times in microseconds; a failed
//! transaction has the kind of failure in place of the latency.

use std::fs::File;
use std::io::Read as _;
use std::os::unix::fs::fchown;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_model::op::OpClass;
use qd1_model::record::IoErrors;
use rustix::fs::{CWD, FileType, Mode, OFlags};

use crate::tally::Tally;
use qd1_system::user::User;

/// Size of a pipe, which holds lines while we are busy.
const PIPE_BYTES: usize = 1 << 20;

/// The content of one line.
#[derive(Debug, PartialEq, Eq)]
enum Line<'a> {
    /// Completed at `end_ns` since the Unix epoch, with this latency.
    Done { end_ns: u64, lat_ns: u64 },
    /// Failed; the kind of failure as pgbench names it.
    Failed(&'a str),
}

fn parse(line: &str) -> Option<Line<'_>> {
    let mut fields = line.split(' ').skip(2);
    let latency = fields.next()?;
    let Ok(lat_us) = latency.parse::<u64>() else { return Some(Line::Failed(latency)) };
    let (seconds, micros) = (fields.nth(1)?.parse::<u64>().ok()?, fields.next()?.parse::<u64>().ok()?);
    Some(Line::Done { end_ns: (seconds * 1_000_000 + micros) * 1000, lat_ns: lat_us * 1000 })
}

/// One thread's log.
struct Pipe {
    file: File,
    path: PathBuf,
    /// The beginning of an incomplete line.
    rest: Vec<u8>,
}

/// The log of a run.
pub(crate) struct Log {
    pipes: Vec<Pipe>,
    tally: Tally,
    warmup_ns: u64,
    /// When the first transaction began.
    begin_ns: Option<u64>,
    errors: Vec<IoErrors>,
    all: u64,
}

impl Log {
    /// Creates the pipes, whose names begin with `prefix`, that a pgbench with process id `pid` will open.
    ///
    /// # Errors
    /// When they cannot be created.
    pub(crate) fn new(
        prefix: &Path,
        pid: u32,
        threads: u32,
        user: Option<&User>,
        (warmup_ns, window_ns): (u64, u64),
    ) -> Result<Self> {
        let names = (0..threads).map(|thread| match thread {
            0 => format!("{}.{pid}", prefix.display()),
            thread => format!("{}.{pid}.{thread}", prefix.display()),
        });
        let pipes = names.map(|name| pipe(Path::new(&name), user)).collect::<Result<Vec<_>>>()?;
        let tally = Tally::new(OpClass::Transaction, window_ns);
        Ok(Self { pipes, tally, warmup_ns, begin_ns: None, errors: Vec::new(), all: 0 })
    }

    /// Reads everything that has arrived. Returns true if there was anything.
    ///
    /// # Errors
    /// When a pipe cannot be read.
    pub(crate) fn take(&mut self) -> Result<bool> {
        let mut chunk = vec![0; 64 << 10];
        let mut any = false;
        for at in 0..self.pipes.len() {
            loop {
                match self.pipes[at].file.read(&mut chunk) {
                    Ok(0) => break,
                    Ok(bytes) => {
                        any = true;
                        let mut text = std::mem::take(&mut self.pipes[at].rest);
                        text.extend_from_slice(&chunk[..bytes]);
                        self.pipes[at].rest = self.lines(text);
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(error).context("cannot read pgbench's log"),
                }
            }
        }
        Ok(any)
    }

    /// Counts the complete lines; returns the rest after them.
    fn lines(&mut self, mut text: Vec<u8>) -> Vec<u8> {
        let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        let rest = text.split_off(whole);
        for line in String::from_utf8_lossy(&text).lines() {
            match parse(line) {
                Some(Line::Done { end_ns, lat_ns }) => self.done(end_ns, lat_ns),
                Some(Line::Failed(how)) => self.failed(how),
                None => {}
            }
        }
        rest
    }

    fn done(&mut self, end_ns: u64, lat_ns: u64) {
        self.all += 1;
        // All clients begin together, so the first line of any thread shows when that was.
        let begin_ns = *self.begin_ns.get_or_insert(end_ns.saturating_sub(lat_ns));
        if let Some(completed_ns) = end_ns.checked_sub(begin_ns + self.warmup_ns) {
            self.tally.add(completed_ns, lat_ns);
        }
    }

    fn failed(&mut self, how: &str) {
        IoErrors::once(how, 0).add_to(&mut self.errors);
    }

    pub(crate) fn tally(&self) -> &Tally {
        &self.tally
    }

    /// Returns the tally, the failures, and the number of transactions including the warm-up.
    pub(crate) fn finish(self) -> (Tally, Vec<IoErrors>, u64) {
        for pipe in &self.pipes {
            let _ = std::fs::remove_file(&pipe.path);
        }
        (self.tally, self.errors, self.all)
    }
}

/// Creates a named pipe and opens it for reading before anyone writes to it. Only we can change its directory.
fn pipe(path: &Path, user: Option<&User>) -> Result<Pipe> {
    let make = || -> std::io::Result<File> {
        rustix::fs::mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
        if let Some(user) = user {
            fchown(&file, Some(user.uid), Some(user.gid))?;
        }
        // Larger if permitted: a smaller one only makes pgbench wait for us sooner.
        let _ = rustix::pipe::fcntl_setpipe_size(&file, PIPE_BYTES);
        Ok(file)
    };
    let file = make().with_context(|| format!("cannot create the pipe {}", path.display()))?;
    Ok(Pipe { file, path: path.to_owned(), rest: Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write as _;

    #[test]
    fn lines_of_every_version_are_read() {
        let done = Some(Line::Done { end_ns: 1_412_881_037_912_698_000, lat_ns: 2_241_000 });
        assert_eq!(parse("0 199 2241 0 1412881037 912698"), done);
        assert_eq!(parse("0 199 2241 0 1412881037 912698 15 2"), done, "with lag and retries");
        assert_eq!(parse("3 0 serialization 0 1499414498 84905 9"), Some(Line::Failed("serialization")));
        assert_eq!(parse("0 199"), None);
    }

    #[test]
    fn complete_lines_after_the_warm_up_are_counted() {
        let dir = tempfile::tempdir().unwrap();
        let prefix = dir.path().join("p");
        let second = 1_000_000_000;
        let mut log = Log::new(&prefix, 42, 2, None, (second, 2 * second)).unwrap();
        assert!(!log.take().unwrap());
        let mut first = std::fs::OpenOptions::new().write(true).open(dir.path().join("p.42")).unwrap();
        let mut other = std::fs::OpenOptions::new().write(true).open(dir.path().join("p.42.1")).unwrap();
        // Begins at 100.0 s: the first is warm-up, the second counts, the last comes too late.
        first.write_all(b"0 0 1000 0 100 1000\n0 1 500000 0 101 5000").unwrap();
        assert!(log.take().unwrap());
        assert_eq!(log.tally().count(), 0, "an incomplete line does not count");
        first.write_all(b"00\n").unwrap();
        other.write_all(b"1 0 deadlock 0 101 700000\n1 1 7 0 103 1\n").unwrap();
        log.take().unwrap();
        let (tally, errors, all) = log.finish();
        assert_eq!((tally.count(), all, errors[0].count), (1, 3, 1));
        let (stream, _) = tally.finish(2 * second);
        assert!((stream.unwrap().lat.mean_ns() - 5e8).abs() < 1e6);
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the pipes are removed");
    }
}
