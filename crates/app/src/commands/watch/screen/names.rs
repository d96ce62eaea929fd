//! Names as a terminal can show them.

use qd1_trace::COMM;

use crate::commands::trace::narrow;

/// Returns the name of a thread.
pub(super) fn name(comm: &[u8; COMM]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(COMM);
    narrow(&String::from_utf8_lossy(&comm[..end]))
}
