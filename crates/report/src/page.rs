//! Text laid out for a terminal: wrapping, indentation, colour.

use anstyle::{AnsiColor, Style as Paint};
use unicode_width::{UnicodeWidthChar as _, UnicodeWidthStr as _};

pub(crate) const BOLD: Paint = Paint::new().bold();
pub(crate) const DIM: Paint = Paint::new().dimmed();
pub(crate) const GOOD: Paint = AnsiColor::Green.on_default().bold();
pub(crate) const MIDDLING: Paint = AnsiColor::Yellow.on_default().bold();
pub(crate) const BAD: Paint = AnsiColor::Red.on_default().bold();
pub(crate) const NOTE: Paint = AnsiColor::Cyan.on_default().bold();

/// Narrowest width that text is wrapped to: shorter lines are no longer readable.
const WIDTH_MIN: usize = 40;

/// Widest lines of prose: longer ones are hard to read.
const PROSE_MAX: usize = 100;

/// What the destination of the text can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Style {
    /// Whether to use escape sequences for colour; every coloured word is clear without its colour.
    pub color: bool,
    /// Columns.
    pub width: usize,
    /// How much is shown.
    pub detail: Detail,
}

/// How much of a run its report for people shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// All of it.
    All,
    /// What fits on one screen.
    Screen {
        /// Whether the run is in the history, where the rest is.
        is_kept: bool,
        /// Lines of the terminal, including the prompt's; `None` where nothing scrolls away, as in a pipe.
        lines: Option<usize>,
    },
}

impl Style {
    /// Everything, without colour.
    #[must_use]
    pub const fn plain(width: usize) -> Self {
        Self { color: false, width, detail: Detail::All }
    }
}

/// The page being written.
pub(crate) struct Page {
    pub(crate) text: String,
    pub(crate) style: Style,
}

impl Page {
    pub(crate) fn new(style: &Style) -> Self {
        Self { text: String::new(), style: Style { width: style.width.max(WIDTH_MIN), ..*style } }
    }

    /// Returns the columns for prose.
    pub(crate) fn prose_width(&self) -> usize {
        self.style.width.min(PROSE_MAX)
    }

    /// Returns `text` in colour, if colour is wanted.
    pub(crate) fn paint(&self, paint: Paint, text: &str) -> String {
        if self.style.color && !text.is_empty() { format!("{paint}{text}{paint:#}") } else { text.to_owned() }
    }

    /// Writes one line as it is, without spaces at its end.
    pub(crate) fn line(&mut self, text: &str) {
        self.text.push_str(text.trim_end());
        self.text.push('\n');
    }

    /// Writes an empty line and a heading.
    pub(crate) fn heading(&mut self, text: &str) {
        self.line("");
        self.bold(text);
    }

    /// Writes `text` wrapped, in bold.
    pub(crate) fn bold(&mut self, text: &str) {
        for line in wrap(text, self.prose_width()) {
            let line = self.paint(BOLD, &line);
            self.line(&line);
        }
    }

    /// Writes `text` wrapped, each line after `indent` spaces.
    pub(crate) fn prose(&mut self, indent: usize, text: &str) {
        self.hang(indent, "", Paint::new(), indent, text);
    }

    /// Writes `label` in colour at `indent`, and `text` wrapped next to it, starting at column `column`.
    pub(crate) fn hang(&mut self, indent: usize, label: &str, paint: Paint, column: usize, text: &str) {
        let width = self.prose_width().saturating_sub(column);
        let lines = wrap(text, width);
        let gap = column.saturating_sub(indent + label.width());
        let label = self.paint(paint, label);
        self.line(&format!("{:indent$}{label}{:gap$}{}", "", "", lines.first().map_or("", String::as_str)));
        for line in lines.iter().skip(1) {
            self.line(&format!("{:column$}{line}", ""));
        }
    }
}

/// Breaks `text` between words into lines of at most `width` columns; a longer word is cut.
pub(crate) fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(8);
    let mut lines = vec![String::new()];
    let mut used = 0;
    for word in words(text) {
        let length = word.width();
        if used > 0 && used + 1 + length > width {
            lines.push(String::new());
            used = 0;
        }
        if used > 0 {
            lines.last_mut().expect("never empty").push(' ');
            used += 1;
        }
        for letter in word.chars() {
            let columns = letter.width().unwrap_or(0);
            if used + columns > width {
                lines.push(String::new());
                used = 0;
            }
            lines.last_mut().expect("never empty").push(letter);
            used += columns;
        }
    }
    lines
}

/// Returns `text` with lines wider than `width` columns broken between words; continuations are indented to what
/// follows the last gap in the first half of the line.
#[must_use]
pub fn fitted(text: &str, width: usize) -> String {
    let mut all = String::new();
    for line in text.lines() {
        if line.width() <= width {
            all += &format!("{line}\n");
            continue;
        }
        let half = line.char_indices().nth(width / 2).map_or(line.len(), |(at, _)| at);
        let gap = line[..half].rfind("  ").map_or(0, |at| at + 2);
        let (label, rest) = line.split_at(gap);
        let column = label.width();
        for (at, part) in wrap(rest, width.saturating_sub(column)).iter().enumerate() {
            all += &if at == 0 { format!("{label}{part}\n") } else { format!("{:column$}{part}\n", "") };
        }
    }
    all
}

/// Units that stay on the line of their number.
const UNITS: &[&str] = &[
    "ns", "us", "ms", "s", "min", "%", "B", "KiB", "MiB", "GiB", "TiB", "kB/s", "MB/s", "GB/s", "KiB/s", "MiB/s",
    "GiB/s",
];

/// Returns the words of `text`, with a number and its unit as one word.
fn words(text: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        let is_unit = UNITS.contains(&word.trim_end_matches([',', ';', '.', ')', ':']));
        match words.last_mut() {
            Some(last) if is_unit && last.ends_with(|c: char| c.is_ascii_digit()) => *last += &format!(" {word}"),
            _ => words.push(word.to_owned()),
        }
    }
    words
}

/// Returns `text` with its units bound to their numbers, for text that a browser wraps.
pub(crate) fn unbroken(text: &str) -> String {
    words(text).iter().map(|word| word.replace(' ', "\u{a0}")).collect::<Vec<_>>().join(" ")
}

/// Shortens `text` to at most `width` columns by replacing its middle by `...`.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    if text.width() <= width || width < 5 {
        return text.to_owned();
    }
    let head = (width - 3) / 3;
    let mut left = [head, width - 3 - head];
    let mut fits = |part: usize, letter: char| {
        let columns = letter.width().unwrap_or(0);
        let fits = columns <= left[part];
        left[part] = if fits { left[part] - columns } else { 0 };
        fits
    };
    let begin: String = text.chars().take_while(|letter| fits(0, *letter)).collect();
    let end: Vec<char> = text.chars().rev().take_while(|letter| fits(1, *letter)).collect();
    begin + "..." + &end.into_iter().rev().collect::<String>()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lines of a dry run were cut inside of words by a terminal of 80 columns.
    #[test]
    fn text_that_is_too_wide_continues_below_itself() {
        let text = "seed      1\n  read-large  up to 12 s  random 4k reads, 128 in flight, which the limit on requests binds\n";
        let shown = fitted(text, 60);
        assert_eq!(
            shown,
            "seed      1\n  read-large  up to 12 s  random 4k reads, 128 in flight,\n                          which the limit on requests binds\n"
        );
        assert_eq!(fitted(text, usize::MAX), text);
    }

    #[test]
    fn words_move_to_the_next_line_and_only_overlong_ones_are_cut() {
        assert_eq!(wrap("one two three", 8), ["one two", "three"]);
        assert_eq!(wrap("a /very/long/path", 10), ["a", "/very/long", "/path"]);
        assert_eq!(wrap("", 10), [""]);
        assert_eq!(wrap("read in 1.24 ms.", 12), ["read in", "1.24 ms."]);
        // Letters of two columns: a path of these ran over the edge.
        assert_eq!(wrap("/データ/測定/結果", 10), ["/データ/測", "定/結果"]);
    }

    #[test]
    fn a_unit_stays_with_its_number_and_other_words_do_not() {
        assert_eq!(unbroken("p99 1.2 to 8.6 ms, fail"), "p99 1.2 to 8.6\u{a0}ms, fail");
    }

    #[test]
    fn a_shortened_path_keeps_its_end() {
        assert_eq!(shorten("/srv/data/postgresql/16/main", 16), "/srv...l/16/main");
        assert_eq!(shorten("/srv", 16), "/srv");
        assert_eq!(shorten("/データ/測定/結果", 12), "/デ.../結果");
    }

    #[test]
    fn colour_only_wraps_the_word_that_it_marks() {
        let page = Page::new(&Style { color: true, ..Style::plain(80) });
        let painted = page.paint(BAD, "FAIL");
        assert!(painted.starts_with('\u{1b}') && painted.contains("FAIL") && painted.ends_with("\u{1b}[0m"));
        assert_eq!(Page::new(&Style::plain(80)).paint(BAD, "FAIL"), "FAIL");
    }
}
