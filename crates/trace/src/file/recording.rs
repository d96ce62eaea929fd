//! A recorded trace of any format.

use std::io::BufRead;

use anyhow::{Context as _, Result, bail, ensure};

use super::blktrace::Blktrace;
use super::iolog::Iolog;
use super::reader::Reader;
use super::{About, MAGIC};
use crate::capture::Counts;
use crate::entry::Entry;

/// A format of recorded traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The file of `qd1 trace --record`.
    Compact,
    /// The files that blktrace writes, one for each processor.
    Blktrace,
    /// fio's iolog, version 2 or 3.
    Iolog,
}

/// How a recorded trace ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It is whole, and says what was and was not recorded.
    Whole(Counts),
    /// It ends where it ends: the format does not say whether anything is missing.
    Unmarked,
    /// It was read up to some point.
    Incomplete {
        /// Why it was not read further.
        why: String,
        /// Bytes up to there.
        read: u64,
    },
}

/// A recorded trace that is being read.
pub struct Recording<R> {
    source: Source<R>,
    about: About,
}

enum Source<R> {
    Compact(Reader<R>),
    Blktrace(Blktrace<R>),
    Iolog(Iolog<R>),
}

impl<R: BufRead> Recording<R> {
    /// Begins to read a trace. Only blktrace has several files: one for each processor.
    ///
    /// # Errors
    /// If the format is not known, or the beginning is damaged.
    pub fn open(mut inputs: Vec<R>) -> Result<Self> {
        let first = inputs.first_mut().context("no file was given")?;
        let head = first.fill_buf().context("cannot read it")?;
        let (source, about) = if head.starts_with(MAGIC) {
            let (reader, about) = Reader::new(only(inputs)?)?;
            (Source::Compact(reader), about)
        } else if head.starts_with(b"fio version ") {
            let (iolog, about) = Iolog::new(only(inputs)?)?;
            (Source::Iolog(iolog), about)
        } else if Blktrace::<R>::is_one(head) {
            (Source::Blktrace(Blktrace::new(inputs)?), Blktrace::<R>::about())
        } else {
            bail!(
                "it is none of: a file of `qd1 trace --record`, blktrace's binary files, fio's iolog (version 2 or 3)"
            )
        };
        Ok(Self { source, about })
    }

    /// Returns how the trace was recorded, as far as the format says.
    #[must_use]
    pub const fn about(&self) -> &About {
        &self.about
    }

    /// Returns the format.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.source {
            Source::Compact(_) => Kind::Compact,
            Source::Blktrace(_) => Kind::Blktrace,
            Source::Iolog(_) => Kind::Iolog,
        }
    }

    /// Returns the name of a disk, or of an iolog's file.
    #[must_use]
    pub fn name(&self, device: (u32, u32)) -> Option<&str> {
        match &self.source {
            Source::Compact(reader) => reader.name(device),
            Source::Blktrace(_) => None,
            Source::Iolog(iolog) => iolog.name(device),
        }
    }

    /// Returns how it ended; to be asked after the last entry.
    #[must_use]
    pub fn ending(&self) -> Ending {
        let ending = match &self.source {
            Source::Compact(reader) => reader.ending(),
            Source::Blktrace(blktrace) => blktrace.ending(),
            Source::Iolog(iolog) => iolog.ending(),
        };
        ending.cloned().unwrap_or(Ending::Unmarked)
    }
}

impl<R: BufRead> Iterator for Recording<R> {
    type Item = Entry;

    /// Returns the next entry, roughly in the order of completion. Times count from the beginning of the trace.
    fn next(&mut self) -> Option<Entry> {
        match &mut self.source {
            Source::Compact(reader) => reader.next(),
            Source::Blktrace(blktrace) => blktrace.next().map(Entry::Request),
            Source::Iolog(iolog) => iolog.next().map(Entry::Request),
        }
    }
}

fn only<R>(mut inputs: Vec<R>) -> Result<R> {
    ensure!(inputs.len() == 1, "give one file at a time; only blktrace has several files for one trace");
    Ok(inputs.remove(0))
}
