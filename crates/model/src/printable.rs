//! Makes names from outside (job files, suites, paths, models of disks) safe to show in a terminal: without characters
//! that would move its cursor, change its title or reverse the text.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Returns `text` with control characters (C0, DEL, C1), line separators and marks of direction written out: `\x1b`,
/// `\n`, `\u{202e}`.
pub fn printable(text: &str) -> Cow<'_, str> {
    written_out(text, is_hidden)
}

/// The same with its lines kept apart, for messages of several lines.
pub fn printable_lines(text: &str) -> Cow<'_, str> {
    written_out(text, |letter| letter != '\n' && is_hidden(letter))
}

/// Returns a whole output made safe for a terminal: lines, tabs and colours are kept, and everything else that a
/// terminal would obey is escaped as in JSON (`\u001b`), so that a document keeps its meaning.
pub fn printable_output(text: &str) -> Cow<'_, str> {
    const COLOR: &str = "\u{1b}[";
    let is_kept = |letter: char| matches!(letter, '\n' | '\t') || !is_hidden(letter);
    let mut shown: Option<String> = None;
    let mut rest = text;
    while let Some(at) = rest.find(|letter| !is_kept(letter)) {
        let (before, after) = rest.split_at(at);
        let of_color =
            after.strip_prefix(COLOR).map(|code| code.trim_start_matches(|c: char| c.is_ascii_digit() || c == ';'));
        let (length, is_color) = match of_color.and_then(|end| end.strip_prefix('m')) {
            Some(end) => (after.len() - end.len(), true),
            None => (after.chars().next().map_or(1, char::len_utf8), false),
        };
        let shown = shown.get_or_insert_with(String::new);
        shown.push_str(before);
        if is_color {
            shown.push_str(&after[..length]);
        } else {
            let letter = after.chars().next().map_or(0, u32::from);
            write!(shown, "\\u{letter:04x}").expect("a String takes all");
        }
        rest = &after[length..];
    }
    match shown {
        Some(mut shown) => {
            shown.push_str(rest);
            Cow::Owned(shown)
        }
        None => Cow::Borrowed(text),
    }
}

/// Whether a terminal shows something other than a letter for it.
pub fn is_hidden(letter: char) -> bool {
    let separates = matches!(letter, '\u{2028}' | '\u{2029}');
    let turns =
        matches!(letter, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    letter.is_control() || separates || turns
}

fn written_out(text: &str, hidden: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.contains(&hidden) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        let written = match letter {
            _ if !hidden(letter) => write!(shown, "{letter}"),
            '\n' => write!(shown, r"\n"),
            '\r' => write!(shown, r"\r"),
            '\t' => write!(shown, r"\t"),
            '\0'..='\u{9f}' => write!(shown, r"\x{:02x}", u32::from(letter)),
            _ => write!(shown, r"\u{{{:x}}}", u32::from(letter)),
        };
        written.expect("a String takes all");
    }
    Cow::Owned(shown)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        for (name, shown) in [
            ("plain, größe 1.5 µs", "plain, größe 1.5 µs"),
            ("\u{1b}]0;x\u{7}job", r"\x1b]0;x\x07job"),
            ("a\nb\tc\r\u{7f}", r"a\nb\tc\r\x7f"),
            ("\u{9b}2J", r"\x9b2J"),
            ("a\u{202e}gpj.exe", r"a\u{202e}gpj.exe"),
        ] {
            assert_eq!(printable(name), shown);
        }
        assert_eq!(printable_lines("a\nb\u{1b}c"), "a\nb\\x1bc");
        for (whole, shown) in [
            ("a\n\tb\u{1b}[1;31mred\u{1b}[0m", "a\n\tb\u{1b}[1;31mred\u{1b}[0m"),
            ("\"\u{9b}2J\"", "\"\\u009b2J\""),
            ("\u{1b}c\u{1b}[2J\u{202e}", "\\u001bc\\u001b[2J\\u202e"),
        ] {
            assert_eq!(printable_output(whole), shown);
        }
    }

    proptest! {
        #[test]
        fn nothing_hidden_is_left(text in "\\PC*|.*|[\u{0}-\u{a0}]*") {
            prop_assert!(!printable(&text).contains(is_hidden));
        }
    }
}
