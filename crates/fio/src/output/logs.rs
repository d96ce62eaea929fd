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
    /// Its part of the file's name.
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
    /// Offset of the request, bytes; printed only with `log_offset`.
    pub offset: u64,
}

/// The name of a log: `PREFIX_clat.3.log`, with the number of the job, from 1 over the whole run, which is omitted with
/// `per_job_logs=0`. The name of a compressed log ends in `.fz`.
pub fn file_name(prefix: &str, kind: LogKind, job: Option<u32>) -> String {
    match job {
        Some(job) => format!("{prefix}_{}.{job}.log", kind.name()),
        None => format!("{prefix}_{}.log", kind.name()),
    }
}

/// Lines `ms, value, direction, bs[, offset], 0`; the last field is the priority, which our requests do not have.
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

/// A line of a histogram log: `ms, direction, bs, ` and the counts of all bins, with neighbours merged `coarseness`
/// times (`log_hist_coarseness`, 0 to 6).
pub fn histogram_line(ms: u64, direction: u8, bs: u64, counts: &PlatHist, coarseness: u32) -> String {
    let mut out = format!("{ms}, {direction}, {bs}");
    for joined in counts.counts().chunks(1 << coarseness.min(6)) {
        let _ = write!(out, ", {}", joined.iter().sum::<u64>());
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbouring_bins_are_joined_without_losing_a_count() {
        let mut bins = PlatHist::default();
        [3, 4, 5, 100_000].into_iter().for_each(|value| bins.record(value));
        for (coarseness, columns) in [(0, 1856), (1, 928), (6, 29)] {
            let line = histogram_line(1, 0, 4096, &bins, coarseness);
            let counts: Vec<u64> = line.trim().split(", ").skip(3).map(|count| count.parse().unwrap()).collect();
            assert_eq!((counts.len(), counts.iter().sum::<u64>()), (columns, 4));
        }
    }
}
