//! The lines of a trace, in each form.

use std::collections::HashMap;
use std::fmt::Write as _;

use qd1_model::{SCHEMA_VERSION, printable};
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
    error: i32,
}

/// The last object.
#[derive(Serialize)]
struct End {
    #[serde(rename = "type")]
    kind: &'static str,
    completed: u64,
    lost: u64,
    unseen: u64,
}

fn line(object: &impl Serialize) -> String {
    serde_json::to_string(object).expect("plain data") + "\n"
}

impl<'a> Lines<'a> {
    pub(super) fn new(form: Format, machine: &'a Machine, begin_ns: u64) -> Self {
        Self { form, machine, begin_ns, names: HashMap::new(), opened: Vec::new() }
    }

    /// Returns what comes before the first line.
    pub(super) fn head(&self, sees_start: bool) -> String {
        match self.form {
            Format::Text => format!(
                "{:<10} {:<11} {:<7} {:<7} {:<3} {:<11} {:>7} {:>7} {:>8}\n",
                "TIME(s)", "COMM", "PID", "DISK", "T", "SECTOR", "BYTES", "QUE(ms)", "LAT(ms)"
            ),
            Format::Ndjson => line(&Start {
                kind: "start",
                schema_version: SCHEMA_VERSION,
                rests_on: "bpf_raw_tracepoints",
                sees_queue: sees_start,
            }),
            Format::Csv => {
                "complete_ns,comm,pid,cgroup,disk,op,letters,sector,bytes,queue_ns,device_ns,error\n".to_owned()
            }
            Format::Iolog => "fio version 3 iolog\n".to_owned(),
        }
    }

    /// Appends the line of a request.
    pub(super) fn push(&mut self, text: &mut String, event: &Event) {
        let machine = self.machine;
        let (major, minor) = event.device;
        let name = || machine.block_name(major, minor).unwrap_or_else(|| format!("{major}:{minor}"));
        let disk = self.names.entry(event.device).or_insert_with(name).clone();
        let complete_ns = event.complete_ns.saturating_sub(self.begin_ns);
        let (letters, ms) = (event.letters(), |ns: u64| ns as f64 / 1e6);
        // A flush has no place.
        let sector = if event.op() == Op::Flush { 0 } else { event.sector };
        match self.form {
            Format::Text => {
                let queue = event.queue_ns.map_or_else(|| "-".to_owned(), |ns| format!("{:.3}", ms(ns)));
                let comm: String = printable(&event.comm).chars().take(11).collect();
                let failed = if event.error == 0 { "" } else { " FAILED" };
                let _ = writeln!(
                    text,
                    "{:<10.6} {comm:<11} {:<7} {disk:<7} {letters:<3} {sector:<11} {:>7} {queue:>7} {:>8.3}{failed}",
                    complete_ns as f64 / 1e9,
                    event.pid,
                    event.bytes,
                    ms(event.device_ns)
                );
            }
            Format::Ndjson => {
                *text += &line(&Request {
                    kind: "request",
                    complete_ns,
                    comm: &event.comm,
                    pid: event.pid,
                    cgroup: event.cgroup,
                    disk: &disk,
                    op: event.op().name(),
                    letters: &letters,
                    sector,
                    bytes: event.bytes,
                    queue_ns: event.queue_ns,
                    device_ns: event.device_ns,
                    error: event.error,
                });
            }
            Format::Csv => {
                let comm = printable(&event.comm).replace('"', "\"\"");
                let queue = event.queue_ns.map_or_else(String::new, |ns| ns.to_string());
                let _ = writeln!(
                    text,
                    "{complete_ns},\"{comm}\",{},{},{disk},{},{letters},{sector},{},{queue},{},{}",
                    event.pid,
                    event.cgroup,
                    event.op().name(),
                    event.bytes,
                    event.device_ns,
                    event.error
                );
            }
            Format::Iolog => {
                let begun_ns = complete_ns.saturating_sub(event.total_ns());
                let (file, at_ms) = (format!("/dev/{disk}"), begun_ns / 1_000_000);
                if !self.opened.contains(&disk) {
                    let _ = writeln!(text, "{at_ms} {file} add\n{at_ms} {file} open");
                    self.opened.push(disk);
                }
                let action = match event.op() {
                    Op::Read => "read",
                    Op::Write => "write",
                    Op::Flush => "sync",
                    Op::Discard => "trim",
                    Op::Other => return,
                };
                let _ = writeln!(text, "{at_ms} {file} {action} {} {}", sector * 512, event.bytes);
            }
        }
    }

    /// Appends what comes after the last line.
    pub(super) fn foot(&self, text: &mut String, counts: Counts) {
        match self.form {
            Format::Ndjson => {
                let Counts { completed, lost, unseen } = counts;
                *text += &line(&End { kind: "end", completed, lost, unseen });
            }
            Format::Iolog => {
                for disk in &self.opened {
                    let _ = writeln!(text, "0 /dev/{disk} close");
                }
            }
            Format::Text | Format::Csv => {}
        }
    }
}
