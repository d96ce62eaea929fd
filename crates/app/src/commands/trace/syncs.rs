//! The lines of a sync: how long it took, where the time went, and who else used the disk.

use qd1_model::order::Order as _;
use std::fmt::Write as _;

use qd1_model::requests::Sync;
use qd1_model::units::{Bytes, format_ns};
use qd1_report::thousands;
use qd1_trace::{Other, Part, Split};
use serde::Serialize;

use super::columns::{push_csv_who, shown_name};

/// Empty sync columns for the row of a request.
pub(super) const CSV_NONE: &str = ",,,,,,,";

/// Returns the headings of the parts of a sync, which follow the columns of requests.
pub(super) fn csv_head() -> String {
    Part::ALL.iter().map(|part| format!(",sync_{}_ns", part.name())).collect()
}

/// Appends the row of a sync: its time is in the `device_ns` column, and the sector is empty.
pub(super) fn push_csv(text: &mut String, complete_ns: u64, disk: &str, sync: &Sync, split: &Split) {
    push_csv_who(text, complete_ns, &sync.asker, disk);
    let bytes = if sync.bytes > 0 { sync.bytes.to_string() } else { String::new() };
    let _ = write!(text, "{},,,{bytes},,{},{}", sync.call, sync.took_ns, sync.errno);
    split.parts_ns.iter().for_each(|ns| _ = write!(text, ",{ns}"));
    text.push('\n');
}

/// Appends the rest of the sync's line, and the lines below it: where the time went, and who else used the disk.
pub(super) fn push_text(text: &mut String, sync: &Sync, split: &Split) {
    let failed = if sync.errno == 0 { "" } else { " FAILED" };
    let _ = writeln!(text, "{} {}{failed}", sync.call, format_ns(sync.took_ns as f64));
    let mut parts: Vec<Part> = Part::ALL.into_iter().filter(|part| is_worth_a_word(split.of(*part), sync)).collect();
    parts.order_by_key(|part| std::cmp::Reverse(split.of(*part)));
    let parts: Vec<String> =
        parts.into_iter().map(|part| format!("{} {}", part.name(), format_ns(split.of(part) as f64))).collect();
    push_wrapped(text, "waited for ", &parts);
    let others: Vec<String> = split.others.iter().map(other).collect();
    push_wrapped(text, "meanwhile ", &others);
}

/// Whether a part is at least a fiftieth of the sync's time.
fn is_worth_a_word(ns: u64, sync: &Sync) -> bool {
    ns > 0 && ns >= sync.took_ns / 50
}

fn other(other: &Other) -> String {
    let name = shown_name(&other.asker);
    let mut did = Vec::new();
    if other.written_back > 0 {
        did.push(format!("changed {}", Bytes(other.written_back)));
    }
    if other.requests > 0 {
        let s = if other.requests == 1 { "" } else { "s" };
        did.push(format!("{} request{s}, {}", thousands(other.requests), Bytes(other.bytes)));
    }
    if other.syncs > 0 {
        did.push(format!("{} sync{}", thousands(other.syncs), if other.syncs == 1 { "" } else { "s" }));
    }
    let more = match other.threads {
        0 | 1 => String::new(),
        threads => format!(" and {} more", thousands(threads - 1)),
    };
    format!("{name} {}{more} ({})", other.asker.pid, did.join(", "))
}

/// Appends items after a heading, wrapped at 80 columns.
fn push_wrapped(text: &mut String, heading: &str, items: &[String]) {
    const INDENT: &str = "          ";
    let mut line = format!("{INDENT}{heading}");
    for (at, item) in items.iter().enumerate() {
        let end = if at + 1 < items.len() { "," } else { "" };
        if line.chars().count() + item.chars().count() + end.len() > 80 && line.trim().len() > heading.trim().len() {
            let _ = writeln!(text, "{}", line.trim_end());
            line = format!("{INDENT}{}", " ".repeat(heading.len()));
        }
        let _ = write!(line, "{item}{end} ");
    }
    if !items.is_empty() {
        let _ = writeln!(text, "{}", line.trim_end());
    }
}

/// A sync as a JSON object.
#[derive(Serialize)]
pub(super) struct SyncLine<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    complete_ns: u64,
    comm: String,
    pid: u32,
    tid: u32,
    cgroup: u64,
    disk: &'a str,
    op: &'static str,
    inode: u64,
    bytes: u32,
    took_ns: u64,
    errno: u32,
    parts: serde_json::Map<String, serde_json::Value>,
    others: Vec<OtherLine>,
}

/// Another user of the disk, as part of a sync's JSON object.
#[derive(Serialize)]
struct OtherLine {
    comm: String,
    pid: u32,
    tid: u32,
    cgroup: u64,
    threads: u64,
    requests: u64,
    bytes: u64,
    written_back_bytes: u64,
    syncs: u64,
}

impl<'a> SyncLine<'a> {
    pub(super) fn new(complete_ns: u64, disk: &'a str, sync: &Sync, split: &Split) -> Self {
        let part = |part: Part| (format!("{}_ns", part.name()), split.of(part).into());
        let other = |other: &Other| OtherLine {
            comm: other.asker.name().into_owned(),
            pid: other.asker.pid,
            tid: other.asker.tid,
            cgroup: other.asker.cgroup,
            threads: other.threads,
            requests: other.requests,
            bytes: other.bytes,
            written_back_bytes: other.written_back,
            syncs: other.syncs,
        };
        Self {
            kind: "sync",
            complete_ns,
            comm: sync.asker.name().into_owned(),
            pid: sync.asker.pid,
            tid: sync.asker.tid,
            cgroup: sync.asker.cgroup,
            disk,
            op: sync.call,
            inode: sync.inode,
            bytes: sync.bytes,
            took_ns: sync.took_ns,
            errno: sync.errno,
            parts: Part::ALL.into_iter().map(part).collect(),
            others: split.others.iter().map(other).collect(),
        }
    }
}
