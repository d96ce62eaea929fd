//! Does a commit survive a power cut? A writer commits numbered blocks and acknowledges each; a witness on another machine
//! notes what was acknowledged; after the cut, what is on the disk is held against the notes.
//!
//! Nothing else can tell a flush that is ignored from one that had nothing to do: from inside a running machine both look
//! the same.

mod block;
mod patience;
mod verify;
mod witness;
mod writer;

pub use patience::Stoppable;
pub use verify::{Outcome, verify};
pub use witness::{POLL, WELCOME, Witness, accept};
pub use writer::{Ended, Writer, Written};

use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// Blocks of the file, written in turn: the last so many commits can be looked for.
pub const BLOCKS: u64 = 2048;

/// First word of the notes.
const MAGIC: &str = "qd1-powercut";

/// Longest line of the notes, bytes.
const LINE_MAX: u64 = 200;
/// Last line of a writer that was ended in an orderly way.
const END: &str = "end";

/// Writes a line at once: over TCP, each write is a packet of its own.
fn say(to: &mut dyn Write, line: &str) -> io::Result<()> {
    to.write_all(format!("{line}\n").as_bytes())?;
    to.flush()
}

/// Returns the file of a run.
fn file_of(dir: &Path, run: u64) -> PathBuf {
    dir.join(format!(".{MAGIC}-{run:016x}"))
}

/// What identifies a run in the notes: its number, and the start of the machine that it ran in.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Header {
    run: u64,
    boot: String,
}

impl Header {
    fn line(&self) -> String {
        format!("{MAGIC} 1 run={:016x} boot={}", self.run, self.boot)
    }

    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split(' ');
        let is_ours = words.next() == Some(MAGIC) && words.next() == Some("1");
        let run = u64::from_str_radix(words.next()?.strip_prefix("run=")?, 16).ok()?;
        let boot = words.next()?.strip_prefix("boot=")?.to_owned();
        is_ours.then_some(Self { run, boot })
    }
}

/// Returns the id of this start of the machine; empty where the kernel does not tell.
fn boot_id() -> String {
    std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_as_it_was_written() {
        let header = Header { run: 0x1234, boot: "5f0c".to_owned() };
        assert_eq!(Header::parse(&header.line()), Some(header));
        for wrong in ["", "qd1-powercut", "qd1-powercut 2 run=12 boot=", "qd1-powercut 1 run=x boot=", "17"] {
            assert_eq!(Header::parse(wrong), None, "{wrong}");
        }
    }
}
