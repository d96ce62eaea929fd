//! Messages on stderr. A run does not end because nobody can read them.

use std::fmt::Display;
use std::io::Write as _;

/// Prints a line; a stderr that is closed or full changes nothing.
pub(crate) fn print(line: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}
