//! A chart in a terminal.

use kuva::backend::terminal::TerminalBackend;

use super::{Size, matrix, scene};
use crate::plot::chart::{Body, Chart};

/// Units of length to a column and to a line.
const COLUMN: f64 = 9.0;
const LINE: f64 = 18.0;

/// Returns a chart as text, each line ending with a newline.
pub(super) fn written(chart: &Chart, columns: usize, color: bool, is_unicode: bool) -> String {
    if let Body::Matrix { matrix } = &chart.body {
        let text = matrix::letters(chart, matrix, columns);
        return if is_unicode {
            text
        } else {
            text.chars().map(|letter| if letter == '\n' { letter } else { ascii(letter) }).collect()
        };
    }
    let lines = (columns / 4).clamp(16, 40);
    let size = Size { width: COLUMN * columns as f64, height: LINE * lines as f64 };
    let drawn = TerminalBackend::new(columns, lines).render_scene(&scene(chart, size));
    let mut text = String::new();
    for line in drawn.lines() {
        let line = if color { line.to_owned() } else { without_escapes(line) };
        let line = if is_unicode { line } else { line.chars().map(ascii).collect() };
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// Takes out what sets colours.
fn without_escapes(line: &str) -> String {
    let mut text = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\u{1b}' => _ = letters.by_ref().find(char::is_ascii_alphabetic),
            _ => text.push(letter),
        }
    }
    text
}

/// The nearest letter that every terminal has.
fn ascii(letter: char) -> char {
    match letter {
        _ if letter.is_ascii() => letter,
        '\u{2800}' => ' ',
        '\u{2801}'..='\u{28ff}' => '*',
        '\u{2588}' => '#',
        '\u{2500}' | '\u{2574}' | '\u{2576}' => '-',
        '\u{2502}' | '\u{2575}' | '\u{2577}' => '|',
        '\u{2503}'..='\u{257f}' => '+',
        _ => '?',
    }
}
