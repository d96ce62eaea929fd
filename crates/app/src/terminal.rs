//! The size of the terminal behind a stream.

use std::io::IsTerminal;
use std::os::fd::AsFd;

/// Columns and lines of a terminal when they are not known.
pub(crate) const WIDTH: usize = 80;
const HEIGHT: usize = 24;

/// Returns the columns of the terminal behind a stream, and its lines.
pub(crate) fn size(stream: impl AsFd) -> (usize, usize) {
    let size = rustix::termios::tcgetwinsize(stream);
    let known = |number: u16| (number > 0).then_some(usize::from(number));
    let (columns, lines) = size.map_or((None, None), |size| (known(size.ws_col), known(size.ws_row)));
    (columns.unwrap_or(WIDTH), lines.unwrap_or(HEIGHT))
}

/// Returns the columns that lines have to fit into; unlimited if the stream is not a terminal.
pub(crate) fn columns(stream: impl AsFd + IsTerminal) -> usize {
    if stream.is_terminal() { size(stream).0 } else { usize::MAX }
}
