//! Messages on stderr. A run does not end because nobody can read them, and what names from outside hold reaches no
//! terminal as it is.

use std::fmt::Display;
use std::io::Write as _;

use anyhow::Error;
use qd1_model::printable_lines;

/// Prints a text; a stderr that is closed or full changes nothing.
pub(crate) fn print(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{}", printable_lines(&text.to_string()));
}

/// Prints the error that ended a command.
pub(crate) fn print_error(error: &Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let text = format!("{error:#}");
    let _ = writeln!(anstream::stderr().lock(), "{red}qd1:{red:#} {}", printable_lines(&text));
}
