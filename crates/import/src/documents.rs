//! The JSON documents in a text, each beginning on its own line.

use qd1_model::room::Room;
use serde::de::IgnoredAny;
use serde_json::{Deserializer, Value};

use crate::gathered::{LINES_MAX, TooMuch};

/// How many bytes may be read in vain (lines that begin like JSON but are not) before nothing is read twice any more.
const VAIN_MAX: usize = 4 << 20;
/// The same, before reading stops.
const VAIN_END: usize = 4 * VAIN_MAX;

/// Finds one document after another. Each is read when requested, so that many small ones take no more memory than one.
pub(crate) struct Documents<'a> {
    text: &'a str,
    at: usize,
    /// Number of lines and documents read so far.
    looked_at: usize,
    /// Bytes that were read without yielding a document.
    vain: usize,
    /// Whether the text ends within a document.
    pub(crate) is_cut: bool,
}

impl<'a> Documents<'a> {
    pub(crate) const fn of(text: &'a str) -> Self {
        Self { text, at: 0, looked_at: 0, vain: 0, is_cut: false }
    }

    /// Where to continue after something that begins like a document at `begin` but cannot be one from `end` on: at the
    /// next line, which may begin another. If too much was read in vain, nothing is read again.
    fn after_failure(&mut self, begin: usize, end: usize) -> usize {
        self.vain = self.vain.saturating_add(end - begin);
        let next = self.next_line(begin);
        if self.vain <= VAIN_MAX {
            return next;
        }
        let line = self.text.as_bytes()[..end].iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
        line.max(next)
    }

    fn next_line(&self, from: usize) -> usize {
        self.text[from..].find('\n').map_or(self.text.len(), |at| from + at + 1)
    }
}

impl Iterator for Documents<'_> {
    type Item = Result<Value, TooMuch>;

    fn next(&mut self) -> Option<Self::Item> {
        while self.at < self.text.len() {
            let line = self.text[self.at..].trim_start();
            let begin = self.text.len() - line.len();
            self.looked_at += 1;
            if self.looked_at > LINES_MAX {
                return Some(Err(TooMuch::Lines));
            }
            if !line.starts_with(['{', '[']) {
                self.at = self.next_line(begin);
                continue;
            }
            if self.vain > VAIN_END {
                return Some(Err(TooMuch::Lines));
            }
            // This check comes before any of it is kept.
            let (mut room, mut reader) = (Room::of(self.text.len()), Deserializer::from_str(line));
            let taken = room.take(&mut reader);
            let end = begin + reader.into_iter::<IgnoredAny>().byte_offset();
            match taken.and_then(|()| serde_json::from_str(&self.text[begin..end])) {
                Ok(value) => {
                    self.at = end;
                    return Some(Ok(value));
                }
                Err(_) if room.is_exceeded() => return Some(Err(TooMuch::Values)),
                Err(error) => {
                    self.is_cut |= error.is_eof() && line.starts_with('{');
                    self.at = self.after_failure(begin, end);
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn found(text: &str) -> Vec<Value> {
        Documents::of(text).map(Result::unwrap).collect()
    }

    #[test]
    fn documents_are_found_between_other_lines() {
        let text = "[ 0.12 ] log\n{\n\"a\": 1}\n{ broken\n{\"b\":\n2} {\"c\": 3}\n[INFO] x\n";
        assert_eq!(found(text)[1..], [json!({"a": 1}), json!({"b": 2}), json!({"c": 3})]);
    }

    /// Cause: a line of 10 MB was read once for each of the 126 lines before it.
    #[test]
    fn a_text_is_read_a_few_times_at_most() {
        let text = format!("{}{}", "[\n".repeat(100), "1,".repeat(500_000));
        let mut documents = Documents::of(&text);
        assert!(documents.next().is_none());
        assert!(documents.vain <= VAIN_MAX + 2 * text.len(), "{} of {}", documents.vain, text.len());
        // What follows is still found.
        assert_eq!(found(&format!("{text}x\n{{\"a\": 1}}\n")), [json!({"a": 1})]);
    }

    #[test]
    fn a_text_of_brackets_is_given_up() {
        let mut documents = Documents { vain: VAIN_END + 1, ..Documents::of("[\n[") };
        assert!(matches!(documents.next(), Some(Err(TooMuch::Lines))));
        // If nothing that follows could be one, the document is simply damaged.
        let mut documents = Documents { vain: VAIN_END + 1, ..Documents::of("a\nb") };
        assert!(documents.next().is_none());
    }

    #[test]
    fn a_document_that_would_take_too_much_is_not_read() {
        let text = format!("[{}0]", "[],".repeat(3_000_000));
        assert!(matches!(Documents::of(&text).next(), Some(Err(TooMuch::Values))));
    }
}
