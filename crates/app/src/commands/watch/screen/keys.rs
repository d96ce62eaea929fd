//! Keyboard input and the actions it stands for.
//!
//! qd1 reads the keyboard itself: the screen library would keep reading forever after the terminal is gone.

use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};

/// The action of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Action {
    Quit,
    /// Stop the process, as Ctrl-Z does elsewhere.
    Suspend,
    Help,
    Pause,
    /// Sort processes by the next column.
    Sort,
    /// Switch between processes and control groups.
    Cgroups,
    /// Show the latencies of the next disk.
    NextDisk,
    /// Show the latencies of the previous disk.
    PreviousDisk,
    Faster,
    Slower,
    /// In a recording: go this many reports forward.
    Seek(isize),
    /// Start typing a filter for process names.
    Filter,
    /// A letter: text for the filter, or a command (see [`meaning`]).
    Letter(char),
    Erase,
    Enter,
    Escape,
}

/// Reports that an arrow key goes back or forward.
const SEEK: isize = 10;

/// The keys as shown in the help, and what they do.
pub(super) const HELP: [(&str, &str); 10] = [
    ("q, Ctrl-C", "quit"),
    ("Tab or down, up", "next disk, previous disk"),
    ("s", "sort processes by the next column; at first by all bytes"),
    ("c", "control groups (version 2) instead of processes, and back"),
    ("/", "show only names that contain the text you type"),
    ("p, space", "pause, continue"),
    ("+, -", "longer interval, shorter interval"),
    ("left, right", "in a recording: 10 reports back or on; Home, End: ends"),
    ("h, ?", "this help"),
    ("Esc", "close the help, clear the filter"),
];

/// Returns the action of a letter while no filter is being typed.
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

/// Waits for keys for at most `wait` and returns their actions; [`Action::Quit`] if the terminal is gone. `unfinished`
/// keeps the start of an escape sequence that has not arrived completely.
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

/// Returns the actions for bytes from a terminal in raw mode, and the bytes of an incomplete escape sequence.
fn actions(bytes: &[u8]) -> (Vec<Action>, Vec<u8>) {
    let text = String::from_utf8_lossy(bytes);
    let (mut rest, mut actions) = (&*text, Vec::new());
    while let Some(letter) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("\u{1b}[").or_else(|| rest.strip_prefix("\u{1b}O")) {
            // A sequence ends with its first letter or `~`.
            let Some(end) = after.find(|letter: char| letter.is_ascii_alphabetic() || letter == '~') else {
                return (actions, rest.bytes().take(SEQUENCE_MAX).collect());
            };
            match &after[..=end] {
                "A" | "Z" => actions.push(Action::PreviousDisk),
                "B" => actions.push(Action::NextDisk),
                "C" => actions.push(Action::Seek(SEEK)),
                "D" => actions.push(Action::Seek(-SEEK)),
                "H" | "1~" | "7~" => actions.push(Action::Seek(isize::MIN)),
                "F" | "4~" | "8~" => actions.push(Action::Seek(isize::MAX)),
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

/// Most bytes of an incomplete sequence that are kept.
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
        assert_eq!(all(b"\x1b[D\x1b[F"), [Action::Seek(-10), Action::Seek(isize::MAX)]);
        assert_eq!(all(b"\x1b"), [Action::Escape]);
        assert_eq!(all(b"\x03"), [Action::Quit]);
        assert_eq!(all("\u{e9}\x7f\r".as_bytes()), [Action::Letter('\u{e9}'), Action::Erase, Action::Enter]);
        // The Delete key and mouse events do nothing, and none of their bytes count as text.
        assert_eq!(actions(b"\x1b[3~\x1b[<0;1;1M\x1b["), (vec![], b"\x1b[".to_vec()), "the rest comes later");
    }
}
