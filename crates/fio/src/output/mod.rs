//! fio's reports, as functions from what was measured to text: JSON, normal, terse, and the lines of its logs.
//!
//! They are those of fio 3.33, byte for byte, because scripts cut them by column and by line. What is ours beside
//! them is additive: `job_start`, the sectors of disks, and the latency of commits. Where fio prints what is plainly
//! wrong (the totals of `unified_rw_reporting=both`, the second unit of the steady state) ours is right;
//! tests/output.rs lists each difference.

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
    /// Name and version as consumers of fio's reports expect it; it has to hold `fio-3`.
    pub version: &'a str,
    /// When the report is made, seconds since the Unix epoch.
    pub timestamp: u64,
    /// The same in milliseconds.
    pub timestamp_ms: u64,
    /// The same as ctime(3) has it, without its newline: `Sat Nov 21 23:08:55 2026`.
    pub time: String,
    /// The options of global sections: [`crate::Invocation::globals`].
    pub globals: &'a [Given],
    /// One entry for each clone, or for each reporting group under `group_reporting`.
    pub jobs: Vec<JobReport<'a>>,
    /// The disks below the jobs' files, in the order to print; empty where none is known.
    pub disk_util: Vec<DiskUtil>,
}

/// One clone, or one reporting group.
#[derive(Clone, Copy, Debug)]
pub struct JobReport<'a> {
    /// Its options: of a group, those of the first member.
    pub job: &'a FioJob,
    /// What it measured; [`JobStat::merge`] makes one of several.
    pub stat: &'a JobStat,
    /// Time left, s. fio prints 2147483647 where it does not know, and 0 at the end of a timed run.
    pub eta_s: u64,
}

/// What a disk did meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DiskUtil {
    /// Its name, without `/dev/`.
    pub name: String,
    /// The counters.
    pub counts: DiskCounts,
    /// Under md and dm: the mean over the disks below, of `util_percent` the largest.
    pub aggregate: Option<DiskCounts>,
}

/// A disk's counters over the run. Pairs are for reads and writes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DiskCounts {
    /// Requests.
    pub ios: [u64; 2],
    /// Sectors of 512 bytes, printed where known: fio 3.33 does not, later ones do.
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
