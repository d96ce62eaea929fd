//! fio's logs: one line per request or interval, and one per interval and direction for histograms.

use std::fmt::Write as _;

use qd1_model::plat::PlatHist;

/// What a log is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogKind {
    /// Bandwidth, KiB/s.
    Bw,
    /// IOPS.
    Iops,
    /// Total latency, ns.
    Lat,
    /// Completion latency, ns.
    Clat,
    /// Submission latency, ns.
    Slat,
    /// Histograms of completion latency.
    ClatHist,
}

impl LogKind {
    /// The part of the file's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bw => "bw",
            Self::Iops => "iops",
            Self::Lat => "lat",
            Self::Clat => "clat",
            Self::Slat => "slat",
            Self::ClatHist => "clat_hist",
        }
    }
}

/// One line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogEntry {
    /// Since the job's start, ms.
    pub ms: u64,
    /// In the unit of its log.
    pub value: u64,
    /// Direction: 0 for reads, 1 for writes, 2 for trims.
    pub direction: u8,
    /// Bytes of the request; 0 in averages.
    pub bs: u64,
    /// Offset of the request, bytes; printed under `log_offset` only.
    pub offset: u64,
}

/// The name of a log: `PREFIX_clat.3.log`, the number of the job, from 1 over all of the run, left out under
/// `per_job_logs=0`. A `.fz` follows the name of a log that is stored compressed.
pub fn file_name(prefix: &str, kind: LogKind, job: Option<u32>) -> String {
    match job {
        Some(job) => format!("{prefix}_{}.{job}.log", kind.name()),
        None => format!("{prefix}_{}.log", kind.name()),
    }
}

/// Lines `ms, value, direction, bs[, offset], 0`; the last field is the priority, which no request of ours has.
pub fn lines(entries: &[LogEntry], with_offset: bool) -> String {
    let mut out = String::with_capacity(entries.len() * 32);
    for LogEntry { ms, value, direction, bs, offset } in entries {
        // Writing to a String cannot fail.
        let _ = match with_offset {
            true => writeln!(out, "{ms}, {value}, {direction}, {bs}, {offset}, 0"),
            false => writeln!(out, "{ms}, {value}, {direction}, {bs}, 0"),
        };
    }
    out
}

/// A line of a histogram log: `ms, direction, bs, ` and the counts of all bins.
pub fn histogram_line(ms: u64, direction: u8, bs: u64, counts: &PlatHist) -> String {
    let mut out = format!("{ms}, {direction}, {bs}");
    for count in counts.counts() {
        let _ = write!(out, ", {count}");
    }
    out.push('\n');
    out
}
