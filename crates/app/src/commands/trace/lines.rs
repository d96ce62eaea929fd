//! The lines of a trace, in each output format.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use qd1_model::SCHEMA_VERSION;
use qd1_model::requests::{Op, Request, Sync};
use qd1_probe::Machine;
use qd1_trace::{Counts, Entry, Split};
use serde::Serialize;

use super::args::Format;
use super::columns::{line, push_csv_who, push_ms, push_who};
use super::syncs;

/// Longest name of a disk or of an iolog's file.
const NAME_MAX: usize = 255;

/// Formats lines, with disks by name.
pub(super) struct Lines<'a> {
    form: Format,
    /// The machine that names disks; none if the trace names them.
    machine: Option<&'a Machine>,
    begin_ns: u64,
    /// Whether syncs are shown, too.
    has_syncs: bool,
    names: HashMap<(u32, u32), String>,
    /// Files already opened in the iolog.
    opened: BTreeSet<String>,
    /// Last timestamp in the iolog, us.
    last_us: u64,
    /// Whether the time in the device is known.
    sees_device: bool,
    /// Whether the events come from BPF programs, not from tracefs.
    is_bpf: bool,
}

/// The first JSON object.
#[derive(Serialize)]
struct Start {
    #[serde(rename = "type")]
    kind: &'static str,
    schema_version: u32,
    rests_on: &'static str,
    sees_queue: bool,
    /// The source of syncs, if they are shown.
    #[serde(skip_serializing_if = "Option::is_none")]
    syncs_rest_on: Option<&'static str>,
}

/// A request as a JSON object.
#[derive(Serialize)]
struct RequestLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    /// Since the trace began, ns.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    device_ns: Option<u64>,
    errno: u32,
}

/// The last JSON object.
#[derive(Serialize)]
struct End {
    #[serde(rename = "type")]
    kind: &'static str,
    completed: u64,
    lost: u64,
    unseen: u64,
    in_flight: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    lost_other: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    unexplained_syncs: Option<u64>,
}

/// A disk's name by its numbers, `-` if they are not known; each name is looked up once.
fn disk_name<'a>(
    names: &'a mut HashMap<(u32, u32), String>,
    machine: Option<&Machine>,
    (major, minor): (u32, u32),
) -> &'a str {
    let name = || match (major, minor) {
        (0, 0) => "-".to_owned(),
        _ => machine.and_then(|machine| machine.block_name(major, minor)).unwrap_or_else(|| format!("{major}:{minor}")),
    };
    names.entry((major, minor)).or_insert_with(name)
}

impl<'a> Lines<'a> {
    pub(super) fn new(form: Format, machine: Option<&'a Machine>, begin_ns: u64, has_syncs: bool) -> Self {
        Self {
            form,
            machine,
            begin_ns,
            has_syncs,
            names: HashMap::new(),
            opened: BTreeSet::new(),
            last_us: 0,
            sees_device: true,
            is_bpf: true,
        }
    }

    /// Sets whether the events come from BPF programs, not from tracefs.
    pub(super) const fn of_bpf(mut self, is_bpf: bool) -> Self {
        self.is_bpf = is_bpf;
        self
    }

    /// Formats lines of a recorded trace, which names its disks, and may not know how long the device took.
    pub(super) fn recorded(form: Format, has_syncs: bool, sees_device: bool) -> Self {
        Self { sees_device, ..Self::new(form, None, 0, has_syncs) }
    }

    /// Gives a disk its name.
    pub(super) fn name(&mut self, device: (u32, u32), name: &str) {
        // The file may come from anybody; each output needs one word.
        let safe = |letter: char| if letter.is_ascii_graphic() && !"\",".contains(letter) { letter } else { '?' };
        self.names.insert(device, name.chars().take(NAME_MAX).map(safe).collect());
    }

    /// Returns the header.
    pub(super) fn head(&self, sees_start: bool) -> String {
        match self.form {
            Format::Text => format!(
                "{:<9} {:<15} {:<7} {:<7} {:<3} {:<10} {:>7} {:>7} {:>7}\n",
                "TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"
            ),
            Format::Ndjson => line(&Start {
                kind: "start",
                schema_version: SCHEMA_VERSION,
                rests_on: if self.is_bpf { "bpf_tracepoints" } else { "tracefs" },
                sees_queue: sees_start,
                syncs_rest_on: self.has_syncs.then_some("bpf_syscalls"),
            }),
            Format::Csv => {
                let syncs = if self.has_syncs { syncs::csv_head() } else { String::new() };
                format!("complete_ns,comm,pid,cgroup,disk,op,letters,sector,bytes,queue_ns,device_ns,errno{syncs}\n")
            }
            Format::Iolog => "fio version 3 iolog\n".to_owned(),
        }
    }

    /// Appends the lines of a request or a sync; returns false if the format cannot express it.
    pub(super) fn push(&mut self, text: &mut String, item: &Entry) -> bool {
        match item {
            Entry::Request(request) => self.push_request(text, request),
            Entry::Sync(sync, split) => self.push_sync(text, sync, split),
        }
    }

    fn push_sync(&mut self, text: &mut String, sync: &Sync, split: &Split) -> bool {
        let complete_ns = sync.complete_ns.saturating_sub(self.begin_ns);
        let disk = disk_name(&mut self.names, self.machine, sync.device);
        match self.form {
            Format::Text => {
                push_who(text, complete_ns, &sync.asker, disk);
                syncs::push_text(text, sync, split);
            }
            Format::Ndjson => *text += &line(&syncs::SyncLine::new(complete_ns, disk, sync, split)),
            Format::Csv => syncs::push_csv(text, complete_ns, disk, sync, split),
            Format::Iolog => return false,
        }
        true
    }

    fn push_request(&mut self, text: &mut String, event: &Request) -> bool {
        let disk = disk_name(&mut self.names, self.machine, event.device);
        let complete_ns = event.complete_ns.saturating_sub(self.begin_ns);
        let letters = event.letters();
        // A flush has no position.
        let sector = if event.op() == Op::Flush { 0 } else { event.sector };
        match self.form {
            Format::Text => {
                push_who(text, complete_ns, &event.asker, disk);
                let _ = write!(text, "{letters:<3} {sector:<10} {:>7} ", event.bytes);
                match event.queue_ns {
                    Some(ns) => push_ms(text, ns, 7),
                    None => text.push_str("      -"),
                }
                text.push(' ');
                if self.sees_device {
                    push_ms(text, event.device_ns, 7);
                } else {
                    text.push_str("      -");
                }
                text.push_str(if event.errno == 0 { "\n" } else { " FAILED\n" });
            }
            Format::Ndjson => {
                *text += &line(&RequestLine {
                    kind: "request",
                    complete_ns,
                    comm: &event.asker.name(),
                    pid: event.asker.pid,
                    cgroup: event.asker.cgroup,
                    disk,
                    op: event.op().name(),
                    letters: &letters,
                    sector,
                    bytes: event.bytes,
                    queue_ns: event.queue_ns,
                    device_ns: self.sees_device.then_some(event.device_ns),
                    errno: event.errno,
                });
            }
            Format::Csv => {
                let queue = event.queue_ns.map_or_else(String::new, |ns| ns.to_string());
                let device = if self.sees_device { event.device_ns.to_string() } else { String::new() };
                push_csv_who(text, complete_ns, &event.asker, disk);
                let _ = write!(
                    text,
                    "{},{letters},{sector},{},{queue},{device},{}",
                    event.op().name(),
                    event.bytes,
                    event.errno
                );
                text.push_str(if self.has_syncs { syncs::CSV_NONE } else { "" });
                text.push('\n');
            }
            Format::Iolog => {
                // Timestamps of an iolog must not decrease.
                let begun_ns = complete_ns.saturating_sub(event.total_ns());
                self.last_us = self.last_us.max(begun_ns / 1000);
                // Devices of an iolog are files.
                let file = if disk.starts_with('/') { disk.to_owned() } else { format!("/dev/{disk}") };
                let at_us = self.last_us;
                let action = match event.op() {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Flush => "sync",
                    Op::Discard => "trim",
                    Op::Other => return false,
                };
                if !self.opened.contains(&file) {
                    let _ = writeln!(text, "{at_us} {file} add\n{at_us} {file} open");
                    self.opened.insert(file.clone());
                }
                let _ = writeln!(text, "{at_us} {file} {action} {} {}", sector.saturating_mul(512), event.bytes);
            }
        }
        true
    }

    /// Appends the footer.
    pub(super) fn foot(&self, text: &mut String, counts: Counts, unexplained: u64) {
        match self.form {
            Format::Ndjson => {
                let Counts { completed, lost, unseen, in_flight, lost_other } = counts;
                let lost_other = (self.has_syncs || !self.is_bpf).then_some(lost_other);
                let unexplained_syncs = self.has_syncs.then_some(unexplained);
                *text += &line(&End { kind: "end", completed, lost, unseen, in_flight, lost_other, unexplained_syncs });
            }
            Format::Iolog => {
                for file in &self.opened {
                    let _ = writeln!(text, "{} {file} close", self.last_us);
                }
            }
            Format::Text | Format::Csv => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::requests::Asker;

    use super::*;

    fn request(complete_ns: u64, queue_ns: Option<u64>, device_ns: u64, errno: u32) -> Request {
        let asker =
            Asker { pid: 4_194_303, tid: 4_194_303, comm: *b"a\x1b[31mlonger\0\0\0\0", cgroup: 0, is_kernels: false };
        Request {
            complete_ns,
            queue_ns,
            device_ns,
            sector: 123_456_789,
            bytes: 4096,
            device: (254, 0),
            flags: 1,
            asker,
            blkcg: 0,
            errno,
        }
    }

    #[test]
    fn an_iolog_has_microseconds_that_do_not_go_back() {
        let machine = Machine::at("/nonexistent");
        let mut lines = Lines::new(Format::Iolog, Some(&machine), 1_000_000_000, false);
        let mut text = String::new();
        assert!(lines.push_request(&mut text, &request(2_234_567_999, Some(1_000), 4_567_000, 0)));
        assert!(lines.push_request(&mut text, &request(2_234_600_000, Some(1_000), 9_000_000, 0)));
        assert!(
            !lines.push_request(&mut text, &Request { flags: 9, ..request(2_300_000_000, None, 1, 0) }),
            "write-zeroes requests are not part of an iolog"
        );
        let times: Vec<&str> = text.lines().map(|line| line.split(' ').next().unwrap()).collect();
        assert_eq!(times, ["1229999", "1229999", "1229999", "1229999"], "{text}");
        assert!(text.ends_with("/dev/254:0 write 63209875968 4096\n"), "{text}");
    }

    #[test]
    fn columns_keep_their_places() {
        let machine = Machine::at("/nonexistent");
        let mut lines = Lines::new(Format::Text, Some(&machine), 1_000_000_000, false);
        let mut text = lines.head(true);
        lines.push_request(&mut text, &request(2_234_567_999, Some(1_499), 12_345_678, 0));
        lines.push_request(&mut text, &request(901_000_000_000, None, 999_999, 5));
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows[1], "1.23456   a?[31mlonger    4194303 254:0   W   123456789     4096   0.001  12.346");
        assert_eq!(rows[2], "900.00000 a?[31mlonger    4194303 254:0   W   123456789     4096       -   1.000 FAILED");
        assert_eq!(rows[0].len(), rows[1].chars().count(), "{text}");
        assert_eq!(rows[0].len(), 80);
    }
}
