//! Where shown requests and syncs go: lines on stdout, or a file.

use std::io::Write;
use std::path::PathBuf;

use anyhow::Result;
use qd1_trace::{Counts, Entry};

use super::lines::Lines;
use super::recorder::Recording;
use crate::stream::written;

/// Takes what is shown.
pub(super) enum Sink<'a> {
    /// Lines, and those not written yet.
    Lines(Box<Lines<'a>>, String),
    /// A compact file.
    File(Box<Recording<'a>>),
}

impl<'a> Sink<'a> {
    /// Returns a sink of lines, beginning with their header.
    pub(super) fn lines(lines: Lines<'a>, sees_start: bool) -> Self {
        let text = lines.head(sees_start);
        Self::Lines(Box::new(lines), text)
    }

    /// Takes a request or a sync; returns false if the format cannot express it.
    pub(super) fn push(&mut self, entry: &Entry) -> bool {
        match self {
            Self::Lines(lines, text) => lines.push(text, entry),
            Self::File(file) => file.push(entry),
        }
    }

    /// Gives a disk its name.
    pub(super) fn name(&mut self, device: (u32, u32), name: &str) {
        if let Self::Lines(lines, _) = self {
            lines.name(device, name);
        }
    }

    /// Writes what it took. Returns false if stdout has no reader any more.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn write_to(&mut self, out: &mut impl Write, now_ns: u64) -> Result<bool> {
        match self {
            Self::Lines(_, text) => {
                let goes_on = written(out, text)?;
                text.clear();
                Ok(goes_on)
            }
            Self::File(file) => file.tick(now_ns).map(|()| true),
        }
    }

    /// Returns true if it writes to stdout.
    pub(super) const fn is_stdout(&self) -> bool {
        matches!(self, Self::Lines(..))
    }

    /// Writes the rest and the counts; a file gets them only if the trace `is_whole`. Returns the file and its length, if
    /// there is one.
    ///
    /// # Errors
    /// If it cannot be written.
    pub(super) fn end(
        self,
        out: &mut impl Write,
        counts: Counts,
        unexplained: u64,
        is_whole: bool,
    ) -> Result<Option<(PathBuf, u64)>> {
        match self {
            Self::Lines(lines, mut text) => {
                lines.foot(&mut text, counts, unexplained);
                written(out, &text)?;
                Ok(None)
            }
            Self::File(file) => file.end(is_whole.then_some(counts)).map(Some),
        }
    }
}
