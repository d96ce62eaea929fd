//! fio's reports, as functions from what was measured to text: JSON, normal, terse, and the lines of its logs.
//!
//! They match fio 3.33 byte for byte, because scripts cut them by column and by line. Our additions are `job_start`,
//! the sectors of disks, and the latency of commits. Where fio's output is plainly wrong (the totals of
//! `unified_rw_reporting=both`, the second unit of the steady state), ours is right; tests/output.rs lists each
//! difference.

mod banner;
mod figures;
mod json;
pub mod logs;
mod normal;
mod table;
mod terse;
mod tree;
pub mod units;

pub use banner::{banner, job_line};
pub use json::json;
pub use normal::normal;
pub use terse::terse;

use qd1_model::job::JobStat;

use crate::job::{FioJob, Given};

/// Everything in a report.
#[derive(Clone, Debug)]
pub struct Report<'a> {
    /// Name and version as consumers of fio's reports expect them; must contain `fio-3`.
    pub version: &'a str,
    /// When the report is made, seconds since the Unix epoch.
    pub timestamp: u64,
    /// The same in milliseconds.
    pub timestamp_ms: u64,
    /// The same in the format of ctime(3), without its newline: `Sat Nov 21 23:08:55 2026`.
    pub time: String,
    /// The options of global sections: [`crate::Invocation::globals`].
    pub globals: &'a [Given],
    /// One entry for each clone, or for each reporting group under `group_reporting`.
    pub jobs: Vec<JobReport<'a>>,
    /// The disks below the jobs' files, in the order to print; empty if none is known.
    pub disk_util: Vec<DiskUtil>,
}

/// One clone, or one reporting group.
#[derive(Clone, Copy, Debug)]
pub struct JobReport<'a> {
    /// Its options: for a group, those of the first member.
    pub job: &'a FioJob,
    /// What it measured; [`JobStat::merge`] combines several.
    pub stat: &'a JobStat,
    /// Time left, s. fio prints 2147483647 if it is unknown, and 0 at the end of a timed run.
    pub eta_s: u64,
}

/// A disk's activity during the run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUtil {
    /// Its name, without `/dev/`.
    pub name: String,
    /// The counters.
    pub counts: DiskCounts,
    /// For md and dm: the mean over the disks below; for `util_percent`, the maximum.
    pub aggregate: Option<DiskCounts>,
}

/// A disk's counters over the run. Pairs are for reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounts {
    /// Requests.
    pub ios: [u64; 2],
    /// Sectors of 512 bytes, printed if known: fio 3.33 does not print them, later versions do.
    pub sectors: Option<[u64; 2]>,
    /// Requests merged into others.
    pub merges: [u64; 2],
    /// Time that requests took, ms.
    pub ticks: [u64; 2],
    /// The same weighted by the queue's length, ms.
    pub in_queue: u64,
    /// Share of the time in which it was busy, percent.
    pub util_percent: f64,
}
