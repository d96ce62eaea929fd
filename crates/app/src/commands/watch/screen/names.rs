//! Thread names made safe to print on a terminal.

use qd1_model::requests::COMM;

use crate::commands::trace::narrow;

/// Returns the name of a thread, with `?` for characters that are not one column wide.
pub(super) fn name(comm: &[u8; COMM]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(COMM);
    narrow(&String::from_utf8_lossy(&comm[..end]))
}
