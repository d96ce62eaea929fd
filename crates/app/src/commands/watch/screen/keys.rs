//! What is typed, and what it asks for.
//!
//! The keyboard is read here and not by the library of the screen: where the terminal goes away, that reads on for ever.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Stop the process, as Ctrl-Z does elsewhere.
    Suspend,
    Help,
    Pause,
    /// Sort processes by the next column.
    Sort,
    /// Show control groups instead of processes, and back.
    Cgroups,
    /// Show the latencies of the next disk.
    NextDisk,
    /// Or of the one before.
    PreviousDisk,
    Faster,
    Slower,
    /// Begin to type what names of processes contain.
    Filter,
    /// A letter, which is text or one of [`meaning`].
    Letter(char),
    Erase,
    Enter,
    Escape,
}

/// The keys as the help shows them, and what they do.
pub(super) const HELP: [(&str, &str); 9] = [
    ("q, Ctrl-C", "end"),
    ("Tab or down, up", "the next disk, the one before"),
    ("s", "sort processes by another column; first by all bytes"),
    ("c", "control groups (version 2) in place of processes"),
    ("/", "show only processes whose name contains what you type"),
    ("p, space", "pause, and go on"),
    ("+, -", "longer intervals, shorter ones"),
    ("h, ?", "this help"),
    ("Esc", "leave help and filter"),
];

/// Returns what a letter asks for where no text is typed.
pub(super) const fn meaning(letter: char) -> Option<Action> {
    Some(match letter {
        'q' => Action::Quit,
        'h' | '?' => Action::Help,
        'p' | ' ' => Action::Pause,
        's' => Action::Sort,
        'c' => Action::Cgroups,
        'j' => Action::NextDisk,
        'k' => Action::PreviousDisk,
        '+' | '=' => Action::Slower,
        '-' => Action::Faster,
        '/' => Action::Filter,
        _ => return None,
    })
}

/// Waits for keys, but no longer than `wait`, and returns what they ask for; to quit where the terminal is gone. `unfinished`
/// keeps the beginning of a sequence whose end has not come yet.
pub(super) fn typed(wait: Duration, unfinished: &mut Vec<u8>) -> Vec<Action> {
    let stdin = std::io::stdin();
    let mut waiting = [PollFd::new(&stdin, PollFlags::IN)];
    let wait = Timespec { tv_sec: wait.as_secs().cast_signed(), tv_nsec: wait.subsec_nanos().into() };
    let polled = poll(&mut waiting, Some(&wait));
    let found = waiting[0].revents();
    if found.intersects(PollFlags::HUP | PollFlags::ERR | PollFlags::NVAL) {
        return vec![Action::Quit];
    }
    if polled.is_err() || !found.contains(PollFlags::IN) {
        return Vec::new();
    }
    let mut bytes = [0; 256];
    match read(&stdin, &mut bytes) {
        Ok(0) => vec![Action::Quit],
        Ok(length) => {
            unfinished.extend_from_slice(&bytes[..length]);
            let (actions, rest) = actions(unfinished);
            *unfinished = rest;
            actions
        }
        Err(Errno::INTR | Errno::AGAIN) => Vec::new(),
        Err(_) => vec![Action::Quit],
    }
}

/// Returns what the bytes of a terminal in raw mode ask for, and those of a sequence that has no end yet.
fn actions(bytes: &[u8]) -> (Vec<Action>, Vec<u8>) {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut actions) = (&*text, Vec::new());
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\u{1b}[").or_else(|| rest.strip_prefix("\u{1b}O")) {
            // A sequence ends with its first letter.
            let Some(end) = after.find(|letter: char| letter.is_ascii_alphabetic() || letter == '~') else {
                return (actions, rest.bytes().take(SEQUENCE_MAX).collect());
            };
            match &after[..=end] {
                "A" | "Z" => actions.push(Action::PreviousDisk),
                "B" => actions.push(Action::NextDisk),
                _ => {}
            }
            rest = &after[end + 1..];
            continue;
        }
        rest = &rest[letter.len_utf8()..];
        match letter {
            '\u{3}' | '\u{4}' => actions.push(Action::Quit),
            '\u{1a}' => actions.push(Action::Suspend),
            '\t' => actions.push(Action::NextDisk),
            '\r' | '\n' => actions.push(Action::Enter),
            '\u{7f}' | '\u{8}' => actions.push(Action::Erase),
            '\u{1b}' => actions.push(Action::Escape),
            letter if !letter.is_control() => actions.push(Action::Letter(letter)),
            _ => {}
        }
    }
    (actions, Vec::new())
}

/// Longest beginning of a sequence that is kept.
const SEQUENCE_MAX: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_terminals_send_them() {
        let all = |bytes: &[u8]| actions(bytes).0;
        assert_eq!(all(b"q"), [Action::Letter('q')]);
        assert_eq!(
            all(b"\x1b[A\x1b[B\x1bOB\x1b[Z\t"),
            [Action::PreviousDisk, Action::NextDisk, Action::NextDisk, Action::PreviousDisk, Action::NextDisk]
        );
        assert_eq!(all(b"\x1b"), [Action::Escape]);
        assert_eq!(all(b"\x03"), [Action::Quit]);
        assert_eq!(all("\u{e9}\x7f\r".as_bytes()), [Action::Letter('\u{e9}'), Action::Erase, Action::Enter]);
        // A delete key, a mouse: nothing, and nothing of it is text.
        assert_eq!(actions(b"\x1b[3~\x1b[<0;1;1M\x1b["), (vec![], b"\x1b[".to_vec()), "the rest comes later");
    }
}
