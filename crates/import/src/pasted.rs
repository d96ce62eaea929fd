//! A tool's output as people paste it: quoted, in bold, in HTML, with colours, with progress before it on the same
//! line, or with a log's prefix on each line.

use std::borrow::Cow;

/// Markdown and HTML markup around parts of a line.
const MARKS: [&str; 10] = ["**", "<p>", "</p>", "<br>", "<br/>", "<br />", "<pre>", "</pre>", "<code>", "</code>"];
/// Maximum length of a log's prefix, bytes.
const PREFIX_MAX: usize = 160;
/// How fio's name and version begin, which are on their own line in each report.
const VERSION: &str = "fio-";

/// Returns the text as the tool printed it.
pub(crate) fn as_printed(text: &str) -> Cow<'_, str> {
    let is_marked = |line: &str| {
        line.contains(['\r', '\u{1b}'])
            || line.trim_start().starts_with('>')
            || MARKS.iter().any(|mark| line.contains(mark))
    };
    let text = if text.lines().any(is_marked) {
        Cow::Owned(each_line(text, |line| unmarked(line).into_owned()))
    } else {
        Cow::Borrowed(text)
    };
    match prefix(&text) {
        Some(prefix) => Cow::Owned(each_line(&text, |line| without(line, &prefix).to_owned())),
        None => text,
    }
}

fn each_line(text: &str, of: impl Fn(&str) -> String) -> String {
    let mut all = String::with_capacity(text.len());
    for line in text.lines() {
        all.push_str(&of(line));
        all.push('\n');
    }
    all
}

/// A line without markup: what is on the screen after its last carriage return.
fn unmarked(line: &str) -> Cow<'_, str> {
    let line = line.trim_end_matches('\r');
    let mut line = Cow::Borrowed(line.rsplit('\r').next().unwrap_or(line));
    if line.contains('\u{1b}') {
        line = Cow::Owned(without_colours(&line));
    }
    for mark in MARKS {
        if line.contains(mark) {
            line = Cow::Owned(line.replace(mark, ""));
        }
    }
    let mut rest = line.trim_start();
    if !rest.starts_with('>') {
        return line;
    }
    while let Some(quoted) = rest.strip_prefix('>') {
        rest = quoted.strip_prefix(' ').unwrap_or(quoted);
    }
    Cow::Owned(rest.to_owned())
}

/// A line without colour codes (ECMA-48 control sequences).
fn without_colours(line: &str) -> String {
    let mut plain = String::with_capacity(line.len());
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        if letter != '\u{1b}' {
            plain.push(letter);
        } else if letters.next() == Some('[') {
            letters.by_ref().find(|letter| ('@'..='~').contains(letter));
        }
    }
    plain
}

/// A log's prefix on each line, with digits as zeros: the text before fio's version, and before a job's results.
fn prefix(text: &str) -> Option<String> {
    let of_version = |line: &str| {
        let line = line.trim_end();
        let at = line.rfind(VERSION).filter(|at| (1..=PREFIX_MAX).contains(at))?;
        let version = &line[at + VERSION.len()..];
        let is_version = version.starts_with(|letter: char| letter.is_ascii_digit()) && !version.contains(' ');
        let (before, is_host) = (&line[..at], line.starts_with('<'));
        (is_version && !is_host && before.ends_with([' ', '\t']) && !before.trim().is_empty()).then(|| shape(before))
    };
    let prefix = text.lines().find_map(of_version)?;
    let is_of_job = |line: &str| line.contains(": (groupid=") && without(line, &prefix).len() < line.len();
    text.lines().any(is_of_job).then_some(prefix)
}

/// A prefix with a zero for each number.
fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            _ if !letter.is_ascii_digit() => shape.push(letter),
            _ if !shape.ends_with('0') => shape.push('0'),
            _ => {}
        }
    }
    shape
}

/// A line without a prefix of this shape, whatever numbers it contains.
fn without<'a>(line: &'a str, prefix: &str) -> &'a str {
    let mut rest = line;
    for letter in prefix.chars() {
        let is_number = letter == '0';
        let after = if is_number { rest.trim_start_matches(|letter: char| letter.is_ascii_digit()) } else { rest };
        rest = match after.strip_prefix(letter) {
            _ if is_number && after.len() < rest.len() => after,
            Some(after) if !is_number => after,
            // On an empty line, the log has removed the trailing blank.
            _ if rest.is_empty() && letter.is_whitespace() => "",
            _ => return line,
        };
    }
    rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_paste_around_it_is_taken_away() {
        let printed = "fio-3.1\njob1: (groupid=0, jobs=1): err= 0\n  write: IOPS=42.1k, BW=164MiB/s\n\n";
        assert!(matches!(as_printed(printed), Cow::Borrowed(_)));
        let stamped = |stamp: &str| printed.lines().map(|line| format!("{stamp}{line}\n")).collect::<String>();
        for (what, pasted) in [
            ("quoted", stamped("> ")),
            ("a log", stamped("20:22:23 DEBUG| [stdout] ")),
            (
                "of CI",
                printed.lines().enumerate().map(|(at, line)| format!("2024-05-06T20:04:2{at}.12Z {line}\n")).collect(),
            ),
            ("numbered", printed.lines().enumerate().map(|(at, line)| format!("{}: {line}\n", 8 + at)).collect()),
            ("a pod's", stamped("[pod/kbench-x7/kbench] ")),
            ("bold", printed.replace("IOPS=42.1k", "**IOPS=42.1k**")),
            ("HTML", printed.replace("fio-3.1", "<p>fio-3.1</p>")),
            ("in colour", printed.replace("fio-3.1", "\u{1b}[1;32mfio-3.1\u{1b}[0m")),
            ("after its progress", printed.replace("job1", "Jobs: 1 (f=1)\r\rjob1")),
        ] {
            assert_eq!(as_printed(&pasted), printed, "{what}");
        }
        let hosts = "<one> fio-3.1\n<one> job1: (groupid=0, jobs=1): err= 0\n";
        assert_eq!(as_printed(hosts), hosts);
    }
}
