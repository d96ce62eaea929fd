//! Does a commit survive a power cut? A writer commits numbered blocks and acknowledges each; a witness on another
//! machine records the acknowledgements in its notes; after the cut, the disk is compared with the notes.
//!
//! Nothing else can distinguish a flush that is ignored from one that had nothing to do: within a running machine they
//! look the same.

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

/// Number of blocks in the file, written in turn: this many of the latest commits can be looked for.
pub const BLOCKS: u64 = 2048;

/// First word of the notes.
const MAGIC: &str = "qd1-powercut";

/// Longest line of the notes, bytes.
const LINE_MAX: u64 = 200;
/// Last line of a writer that was ended in an orderly way.
const END: &str = "end";

/// Writes a line in one go: over TCP, each write is a separate packet.
fn say(to: &mut dyn Write, line: &str) -> io::Result<()> {
    to.write_all(format!("{line}\n").as_bytes())?;
    to.flush()
}

/// Returns the file of a run.
fn file_of(dir: &Path, run: u64) -> PathBuf {
    dir.join(format!(".{MAGIC}-{run:016x}"))
}

/// Identifies a run in the notes: its number, and the boot of the machine in which it ran.
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

/// Returns the id of this boot of the machine; empty if the kernel does not provide it.
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
