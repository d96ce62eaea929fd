//! The lines of a trace, in each form.

use std::collections::HashMap;
use std::fmt::Write as _;

use qd1_model::{SCHEMA_VERSION, printable, printable_output};
use qd1_probe::Machine;
use qd1_trace::{Counts, Event, Op};
use serde::Serialize;

use super::args::Format;

/// Writes lines, and knows the disks by name.
pub(super) struct Lines<'a> {
    form: Format,
    machine: &'a Machine,
    begin_ns: u64,
    names: HashMap<(u32, u32), String>,
    /// Disks that the iolog has opened.
    opened: Vec<String>,
    /// The last time in the iolog, us.
    last_us: u64,
}

/// The first object.
#[derive(Serialize)]
struct Start {
    #[serde(rename = "type")]
    kind: &'static str,
    schema_version: u32,
    rests_on: &'static str,
    sees_queue: bool,
}

/// A request.
#[derive(Serialize)]
struct Request<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Since the trace began.
    complete_ns: u64,
    comm: &'a str,
    pid: u32,
    cgroup: u64,
    disk: &'a str,
    op: &'static str,
    letters: &'a str,
    sector: u64,
    bytes: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    queue_ns: Option<u64>,
    device_ns: u64,
    errno: u32,
}

/// The last object.
#[derive(Serialize)]
struct End {
    #[serde(rename = "type")]
    kind: &'static str,
    completed: u64,
    lost: u64,
    unseen: u64,
    in_flight: u64,
}

fn line(object: &impl Serialize) -> String {
    printable_output(&serde_json::to_string(object).expect("plain data")).into_owned() + "\n"
}

/// Whether a letter takes one column of any terminal.
fn is_narrow(letter: char) -> bool {
    letter == ' ' || letter.is_ascii_graphic() || (letter.is_alphanumeric() && letter < '\u{300}')
}

/// Appends a time in ms, with three digits after the point, aligned to the right.
fn push_ms(text: &mut String, ns: u64, width: usize) {
    let us = (ns + 500) / 1000;
    let digits = (us / 1000).checked_ilog10().map_or(1, |log| log as usize + 1) + 4;
    text.extend(std::iter::repeat_n(' ', width.saturating_sub(digits)));
    let _ = write!(text, "{}.{:03}", us / 1000, us % 1000);
}

impl<'a> Lines<'a> {
    pub(super) fn new(form: Format, machine: &'a Machine, begin_ns: u64) -> Self {
        Self { form, machine, begin_ns, names: HashMap::new(), opened: Vec::new(), last_us: 0 }
    }

    /// Returns what comes before the first line.
    pub(super) fn head(&self, sees_start: bool) -> String {
        match self.form {
            Format::Text => format!(
                "{:<9} {:<15} {:<7} {:<7} {:<3} {:<10} {:>7} {:>7} {:>7}\n",
                "TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"
            ),
            Format::Ndjson => line(&Start {
                kind: "start",
                schema_version: SCHEMA_VERSION,
                rests_on: "bpf_tracepoints",
                sees_queue: sees_start,
            }),
            Format::Csv => {
                "complete_ns,comm,pid,cgroup,disk,op,letters,sector,bytes,queue_ns,device_ns,errno\n".to_owned()
            }
            Format::Iolog => "fio version 3 iolog\n".to_owned(),
        }
    }

    /// Appends the line of a request; false for one that the form does not have.
    pub(super) fn push(&mut self, text: &mut String, event: &Event) -> bool {
        let machine = self.machine;
        let (major, minor) = event.device;
        let name = || machine.block_name(major, minor).unwrap_or_else(|| format!("{major}:{minor}"));
        let disk = &*self.names.entry(event.device).or_insert_with(name);
        let complete_ns = event.complete_ns.saturating_sub(self.begin_ns);
        let letters = event.letters();
        // A flush has no place.
        let sector = if event.op() == Op::Flush { 0 } else { event.sector };
        match self.form {
            // Whole numbers: a busy disk makes hundreds of thousands of lines a second.
            Format::Text => {
                let (begin, us) = (text.len(), complete_ns / 1000);
                let _ = write!(text, "{}.{:05}", us / 1_000_000, us % 1_000_000 / 10);
                text.extend(std::iter::repeat_n(' ', (begin + 10).saturating_sub(text.len())));
                let column = text.len();
                text.extend(event.comm().chars().map(|letter| if is_narrow(letter) { letter } else { '?' }));
                let width = text[column..].chars().count();
                text.extend(std::iter::repeat_n(' ', 16usize.saturating_sub(width)));
                let _ = write!(text, "{:<7} {disk:<7} {letters:<3} ", event.pid);
                let _ = write!(text, "{sector:<10} {:>7} ", event.bytes);
                match event.queue_ns {
                    Some(ns) => push_ms(text, ns, 7),
                    None => text.push_str("      -"),
                }
                text.push(' ');
                push_ms(text, event.device_ns, 7);
                text.push_str(if event.errno == 0 { "\n" } else { " FAILED\n" });
            }
            Format::Ndjson => {
                *text += &line(&Request {
                    kind: "request",
                    complete_ns,
                    comm: &event.comm(),
                    pid: event.pid,
                    cgroup: event.cgroup,
                    disk,
                    op: event.op().name(),
                    letters: &letters,
                    sector,
                    bytes: event.bytes,
                    queue_ns: event.queue_ns,
                    device_ns: event.device_ns,
                    errno: event.errno,
                });
            }
            Format::Csv => {
                let comm = printable(&event.comm()).replace('"', "\"\"");
                let queue = event.queue_ns.map_or_else(String::new, |ns| ns.to_string());
                let _ = writeln!(
                    text,
                    "{complete_ns},\"{comm}\",{},{},{disk},{},{letters},{sector},{},{queue},{},{}",
                    event.pid,
                    event.cgroup,
                    event.op().name(),
                    event.bytes,
                    event.device_ns,
                    event.errno
                );
            }
            Format::Iolog => {
                // Times of an iolog do not go back.
                let begun_ns = complete_ns.saturating_sub(event.total_ns());
                self.last_us = self.last_us.max(begun_ns / 1000);
                let (file, at_us) = (format!("/dev/{disk}"), self.last_us);
                let action = match event.op() {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Flush => "sync",
                    Op::Discard => "trim",
                    Op::Other => return false,
                };
                if !self.opened.contains(disk) {
                    let _ = writeln!(text, "{at_us} {file} add\n{at_us} {file} open");
                    self.opened.push(disk.clone());
                }
                let _ = writeln!(text, "{at_us} {file} {action} {} {}", sector * 512, event.bytes);
            }
        }
        true
    }

    /// Appends what comes after the last line.
    pub(super) fn foot(&self, text: &mut String, counts: Counts) {
        match self.form {
            Format::Ndjson => {
                let Counts { completed, lost, unseen, in_flight } = counts;
                *text += &line(&End { kind: "end", completed, lost, unseen, in_flight });
            }
            Format::Iolog => {
                for disk in &self.opened {
                    let _ = writeln!(text, "{} /dev/{disk} close", self.last_us);
                }
            }
            Format::Text | Format::Csv => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(complete_ns: u64, queue_ns: Option<u64>, device_ns: u64, errno: u32) -> Event {
        Event {
            complete_ns,
            queue_ns,
            device_ns,
            sector: 123_456_789,
            bytes: 4096,
            device: (254, 0),
            flags: 1,
            pid: 4_194_303,
            comm: *b"a\x1b[31mlonger\0\0\0\0",
            cgroup: 0,
            errno,
        }
    }

    #[test]
    fn an_iolog_has_microseconds_that_do_not_go_back() {
        let machine = Machine::at("/nonexistent");
        let mut lines = Lines::new(Format::Iolog, &machine, 1_000_000_000);
        let mut text = String::new();
        assert!(lines.push(&mut text, &event(2_234_567_999, Some(1_000), 4_567_000, 0)));
        assert!(lines.push(&mut text, &event(2_234_600_000, Some(1_000), 9_000_000, 0)));
        assert!(
            !lines.push(&mut text, &Event { flags: 9, ..event(2_300_000_000, None, 1, 0) }),
            "zeroes are not in it"
        );
        let times: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(times, ["1229999", "1229999", "1229999", "1229999"], "{text}");
        assert!(text.ends_with("/dev/254:0 write 63209875968 4096\n"), "{text}");
    }

    #[test]
    fn columns_keep_their_places() {
        let machine = Machine::at("/nonexistent");
        let mut lines = Lines::new(Format::Text, &machine, 1_000_000_000);
        let mut text = lines.head(true);
        lines.push(&mut text, &event(2_234_567_999, Some(1_499), 12_345_678, 0));
        lines.push(&mut text, &event(901_000_000_000, None, 999_999, 5));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "1.23456   a?[31mlonger    4194303 254:0   W   123456789     4096   0.001  12.346");
        assert_eq!(rows[2], "900.00000 a?[31mlonger    4194303 254:0   W   123456789     4096       -   1.000 FAILED");
        assert_eq!(rows[0].len(), rows[1].chars().count(), "{text}");
        assert_eq!(rows[0].len(), 80);
    }
}
