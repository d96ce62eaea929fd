//! Messages on stderr. A run does not end because nobody can read them, and control characters in names from outside
//! do not reach the terminal.

use std::fmt::Display;
use std::io::Write as _;

use anyhow::Error;
use qd1_model::printable_lines;
use qd1_report::fitted;

use crate::terminal;

/// Prints a text; errors, for example because stderr is closed, are ignored.
pub(crate) fn print(text: impl Display) {
    let _ = writeln!(anstream::stderr().lock(), "{}", printable_lines(&text.to_string()));
}

/// Prints the error that ended a command.
pub(crate) fn print_error(error: &Error) {
    let red = anstyle::AnsiColor::Red.on_default().bold();
    let text = printable_lines(&format!("qd1: {error:#}")).into_owned();
    // Only a terminal gets line breaks: in a log, a message stays on one line.
    let text = fitted(&text, terminal::columns(std::io::stderr()));
    let text = text.trim_end().strip_prefix("qd1:").unwrap_or_default();
    let _ = writeln!(anstream::stderr().lock(), "{red}qd1:{red:#}{text}");
}
