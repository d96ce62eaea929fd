//! Where readings come from: this machine, or a recording.

use anyhow::Result;

use super::reading::{Reading, Watcher};
use super::recording::{Player, Recorder};
use super::summing::Sum;
use crate::message;

/// Where readings come from.
pub(super) enum Origin {
    /// This machine; readings are also recorded, if wanted.
    Live(Box<Watcher>, Option<Recorder>),
    /// A recording.
    Played(Player),
}

/// A source of readings.
pub(super) struct Source {
    pub(super) origin: Origin,
    /// Their sum, if a report of it is wanted.
    pub(super) sum: Option<Sum>,
}

impl Source {
    /// Returns the first reading of this machine, an average since it started, which is not recorded; `None` for a
    /// recording.
    ///
    /// # Errors
    /// If the BPF maps cannot be read.
    pub(super) fn since_start(&mut self) -> Result<Option<Reading>> {
        match &mut self.origin {
            Origin::Live(watcher, _) => watcher.read().map(Some),
            Origin::Played(_) => Ok(None),
        }
    }

    /// Returns the next reading; `None` at the end of a recording.
    ///
    /// # Errors
    /// If the disk is gone, the BPF maps cannot be read, or the recording cannot be written.
    pub(super) fn next(&mut self) -> Result<Option<Reading>> {
        match &mut self.origin {
            Origin::Live(watcher, recorder) => {
                let reading = watcher.read()?;
                if let Some(recorder) = recorder {
                    recorder.push(&reading)?;
                }
                if let Some(sum) = &mut self.sum {
                    sum.push(&reading);
                }
                Ok(Some(reading))
            }
            Origin::Played(player) => Ok(player.next()),
        }
    }

    /// Returns how many reports of a recording have been shown, of how many.
    pub(super) const fn place(&self) -> Option<(usize, usize)> {
        match &self.origin {
            Origin::Live(..) => None,
            Origin::Played(player) => Some((player.position(), player.len())),
        }
    }

    /// Whether readings that are not shown are still wanted.
    pub(super) const fn is_recorded(&self) -> bool {
        matches!(self.origin, Origin::Live(_, Some(_)))
    }

    /// Prints what was recorded, or what could not be played, and returns the sum of all readings, if it is wanted. That of
    /// a recording is of all its reports, whatever was shown.
    pub(super) fn end(self) -> Option<Sum> {
        let mut sum = self.sum;
        match self.origin {
            Origin::Live(watcher, recorder) => {
                if let Some(recorder) = recorder {
                    recorder.end();
                    if let Some(reason) = watcher.refused() {
                        message::print(format_args!("qd1: the recording has no latencies, syncs or waits: {reason}"));
                    }
                }
            }
            Origin::Played(mut player) => {
                if let Some(sum) = &mut sum {
                    player.seek(0);
                    while let Some(reading) = player.next() {
                        sum.push(&reading);
                    }
                }
                player.end();
            }
        }
        sum
    }
}
