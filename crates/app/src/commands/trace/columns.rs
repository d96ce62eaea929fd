//! What the lines of requests and syncs have in common.

use std::fmt::Write as _;

use qd1_model::requests::Asker;
use qd1_model::{printable, printable_output};
use serde::Serialize;

/// Returns an object as a line of JSON.
pub(super) fn line(object: &impl Serialize) -> String {
    printable_output(&serde_json::to_string(object).expect("plain data")).into_owned() + "\n"
}

/// Whether a character takes exactly one column on any terminal.
fn is_narrow(letter: char) -> bool {
    letter == ' ' || letter.is_ascii_graphic() || (letter.is_alphanumeric() && letter < '\u{300}')
}

/// Replaces every character that may not be one column wide with `?`.
pub(crate) fn narrow(text: &str) -> String {
    text.chars().map(|letter| if is_narrow(letter) { letter } else { '?' }).collect()
}

/// Returns the name of a thread, safe to print on a terminal.
pub(super) fn shown_name(asker: &Asker) -> String {
    narrow(&asker.name())
}

/// Appends a time in ms with three decimals, aligned to the right.
pub(super) fn push_ms(text: &mut String, ns: u64, width: usize) {
    let us = (ns + 500) / 1000;
    let digits = (us / 1000).checked_ilog10().map_or(1, |log| log as usize + 1) + 4;
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(digits)));
    let _ = write!(text, "{}.{:03}", us / 1000, us % 1000);
}

/// Appends the columns with which every text line begins.
pub(super) fn push_who(text: &mut String, complete_ns: u64, asker: &Asker, disk: &str) {
    // Integers only, for speed: a busy disk produces hundreds of thousands of lines a second.
    let (begin, us) = (text.len(), complete_ns / 1000);
    let _ = write!(text, "{}.{:05}", us / 1_000_000, us % 1_000_000 / 10);
    text.extend(std::iter::repeat_n(' ', (begin + 10).saturating_sub(text.len())));
    let column = text.len();
    text.extend(asker.name().chars().map(|letter| if is_narrow(letter) { letter } else { '?' }));
    let width = text[column..].chars().count();
    text.extend(std::iter::repeat_n(' ', 16usize.saturating_sub(width)));
    let _ = write!(text, "{:<7} {disk:<7} ", asker.pid);
}

/// Appends the columns with which every CSV row begins.
pub(super) fn push_csv_who(text: &mut String, complete_ns: u64, asker: &Asker, disk: &str) {
    let comm = printable(&asker.name()).replace('"', "\"\"");
    let _ = write!(text, "{complete_ns},\"{comm}\",{},{},{disk},", asker.pid, asker.cgroup);
}
