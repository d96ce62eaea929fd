//! Names as a terminal can show them.

use std::borrow::Cow;

use qd1_trace::COMM;

use crate::commands::trace::is_narrow;

/// Returns the name of a thread as a terminal can show it.
pub(super) fn name(comm: &[u8; COMM]) -> String {
    let end = comm.iter().position(|byte| *byte == 0).unwrap_or(COMM);
    printed(&String::from_utf8_lossy(&comm[..end])).into_owned()
}

/// Returns a text with letters of one column only.
pub(super) fn printed(text: &str) -> Cow<'_, str> {
    if text.chars().all(is_narrow) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(text.chars().map(|letter| if is_narrow(letter) { letter } else { '?' }).collect())
    }
}
