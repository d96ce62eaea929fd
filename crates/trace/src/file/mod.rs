//! Recorded traces: the compact file of `qd1 trace --record`, blktrace's files and fio's iologs.
//!
//! docs/method/trace-file.md describes the compact file. It is only ever appended to, in blocks that have a checksum and
//! can be decoded without any other block, so that a file that ends in the middle, or is damaged, is read up to there.

mod blktrace;
mod block;
mod columns;
mod hashed;
mod iolog;
mod reader;
mod recording;
#[cfg(test)]
mod tests;
mod varint;
mod writer;

pub use hashed::Hashing;
pub use recording::{Ending, Kind, Recording};
pub use writer::Writer;

use serde::{Deserialize, Serialize};

/// The first bytes of a file, followed by the version.
const MAGIC: &[u8; 8] = b"qd1trace";
/// Version of the format. A reader refuses a later one.
const VERSION: u32 = 1;

/// Whether something begins as a compact file does.
pub fn is_compact(mut from: impl std::io::Read) -> bool {
    let mut head = [0; MAGIC.len()];
    from.read_exact(&mut head).is_ok() && head == *MAGIC
}

/// How a trace was recorded: the first block of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct About {
    /// Version of qd1 that recorded it.
    pub qd1: String,
    /// Release of the kernel.
    pub kernel: String,
    /// What was traced: a disk's name, or all disks.
    pub target: String,
    /// When the trace began, ns since 1970 (UTC); 0 if not known.
    pub began_unix_ns: u64,
    /// Whether the time between creation and issue is known.
    pub sees_queue: bool,
    /// Whether it is known how long requests took.
    pub sees_device: bool,
    /// Whether syncs were recorded.
    pub has_syncs: bool,
    /// Whether names and positions are replaced by hashes.
    pub is_hashed: bool,
}
