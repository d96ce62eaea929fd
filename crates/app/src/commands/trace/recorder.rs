//! `--record`: writes a compact file.

use std::fs::File;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Error, Result};
use qd1_clock as clock;
use qd1_model::printable;
use qd1_probe::Machine;
use qd1_trace::file::{About, Hashing, Writer};
use qd1_trace::{Counts, Entry};

use crate::output;

/// A file that can be written.
pub(super) struct Recorder {
    path: PathBuf,
    is_hashed: bool,
}

/// Names disks by their numbers.
pub(super) type Names<'a> = Box<dyn Fn((u32, u32)) -> String + 'a>;

/// Returns the names of this machine's disks.
pub(super) fn names_of(machine: &Machine) -> Names<'_> {
    Box::new(|(major, minor)| machine.block_name(major, minor).unwrap_or_else(|| format!("{major}:{minor}")))
}

/// A file that is being written.
pub(super) struct Recording<'a> {
    path: PathBuf,
    writer: Writer<File>,
    names: Names<'a>,
    /// Why it could not be written further.
    error: Option<Error>,
}

impl Recorder {
    /// Checks that the file can be written.
    ///
    /// # Errors
    /// If it cannot.
    pub(super) fn check(path: &Path, is_hashed: bool) -> Result<Self> {
        output::check_in_place("--record", path)?;
        output::refuse_recorded(path)?;
        Ok(Self { path: path.to_owned(), is_hashed })
    }

    /// Returns what the file says about a trace of `target` that begins now.
    pub(super) fn about(target: &str, sees_queue: bool, has_syncs: bool) -> About {
        About {
            qd1: env!("CARGO_PKG_VERSION").to_owned(),
            kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
            target: target.to_owned(),
            began_unix_ns: clock::wall_ns(),
            sees_queue,
            sees_device: true,
            has_syncs,
            is_hashed: false,
        }
    }

    /// Begins the file, for a trace that began at `begin_ns` by the clock of its entries.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn begin(self, about: About, begin_ns: u64, names: Names<'_>) -> Result<Recording<'_>> {
        let about = About { is_hashed: self.is_hashed || about.is_hashed, ..about };
        let file = output::create_in_place("--record", &self.path)?;
        let hashing = self.is_hashed.then(Hashing::default);
        let writer = Writer::new(file, &about, begin_ns, hashing).with_context(|| cannot(&self.path))?;
        Ok(Recording { path: self.path, writer, names, error: None })
    }
}

impl Recording<'_> {
    /// Takes a request or a sync. An error is reported by the next [`Recording::tick`].
    pub(super) fn push(&mut self, entry: &Entry) -> bool {
        if self.error.is_some() {
            return false;
        }
        self.error = self.writer.push(entry.clone(), &self.names).err();
        self.error.is_none()
    }

    /// Writes what has waited for a second.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn tick(&mut self, now_ns: u64) -> Result<()> {
        let ticked = self.error.take().map_or_else(|| self.writer.tick(now_ns), Err);
        ticked.with_context(|| cannot(&self.path))
    }

    /// Writes the rest, and the counts if the trace is whole; returns the file and its length.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn end(mut self, counts: Option<Counts>) -> Result<(PathBuf, u64)> {
        let ended = self.error.take().map_or_else(|| self.writer.end(counts), Err);
        let length = ended.with_context(|| cannot(&self.path))?;
        Ok((self.path, length))
    }
}

fn cannot(path: &Path) -> String {
    format!("cannot write {}", printable(&path.to_string_lossy()))
}
