//! What several reports derive from the counts: which directions and percentiles there are, shares, and the figures of
//! a group.

use qd1_model::order::Order as _;
use std::borrow::Cow;

use qd1_model::job::{DirStat, JobStat, LatStat, SteadyState as Settled};

use super::{JobReport, Report};
use crate::job::{FioJob, Given};
use crate::types::{SteadyCriterion, SteadyState, UnifiedReporting};

/// The names of the directions, in the order of all triples.
pub(super) const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

/// One direction of one job, or all of them mixed.
pub(super) struct Stream<'a> {
    pub(super) name: &'static str,
    /// Its index in [`Group::streams`].
    pub(super) index: usize,
    pub(super) stat: Cow<'a, DirStat>,
}

/// The index of mixed directions in a group.
const MIXED: usize = 3;

/// The directions to report separately according to `unified_rw_reporting`.
pub(super) fn apart<'a>(job: &FioJob, stat: &'a JobStat) -> Vec<Stream<'a>> {
    if job.unified_rw_reporting == UnifiedReporting::Mixed {
        return Vec::new();
    }
    let stream = |(index, stat)| Stream { name: DIRECTIONS[index], index, stat: Cow::Borrowed(stat) };
    stat.dirs.iter().enumerate().map(stream).collect()
}

/// All directions as one, if `unified_rw_reporting` asks for it.
pub(super) fn mixed<'a>(job: &FioJob, stat: &'a JobStat) -> Option<Stream<'a>> {
    let wanted = job.unified_rw_reporting != UnifiedReporting::None;
    wanted.then(|| Stream { name: "mixed", index: MIXED, stat: Cow::Owned(stat.mixed()) })
}

/// Bytes per second.
pub(super) fn bytes_per_second(io_bytes: u64, runtime_ms: u64) -> u64 {
    let rate = (u128::from(io_bytes) * 1000).checked_div(u128::from(runtime_ms));
    rate.map_or(0, |rate| u64::try_from(rate).unwrap_or(u64::MAX))
}

/// Which latencies have percentiles.
pub(super) struct Percentiles {
    pub(super) slat: bool,
    pub(super) clat: bool,
    pub(super) lat: bool,
}

/// Which percentiles the options ask for. A latency that is not measured has none, whatever was requested; fio still
/// lists them as zeros in its terse format.
pub(super) fn percentiles(job: &FioJob) -> Percentiles {
    Percentiles { slat: job.slat_percentiles, clat: job.clat_percentiles, lat: job.lat_percentiles }
}

/// The percentiles of a latency, ns.
pub(super) fn percentile_values(job: &FioJob, lat: &LatStat) -> Vec<(f64, u64)> {
    job.percentile_list.iter().map(|percentile| (*percentile, lat.bins.percentile_ns(*percentile))).collect()
}

/// Number of decimals in `percentile_list` as written: fio prints all percentiles with as many as the longest one has.
/// Its default list has two.
pub(super) fn percentile_places(job: &FioJob, globals: &[Given]) -> usize {
    let inherited = &globals[..job.globals.min(globals.len())];
    let given = job.given.iter().rev().chain(inherited.iter().rev()).find(|given| given.name == "percentile_list");
    let Some(list) = given.and_then(|given| given.value.as_deref()) else { return 2 };
    let places = |part: &str| part.trim().split_once('.').map_or(0, |(_, fraction)| fraction.len());
    list.split(':').map(places).max().unwrap_or(2)
}

/// Shares of `total` in percent; a nonzero share below `least` counts as `least`.
pub(super) fn shares<const N: usize>(counts: &[u64; N], total: u64, least: f64) -> [f64; N] {
    counts.map(|count| match (count, total) {
        (0, _) | (_, 0) => 0.0,
        _ => (100.0 * count as f64 / total as f64).max(least),
    })
}

/// Shares of depths and batches, percent.
pub(super) fn depth_shares(stat: &JobStat) -> [[f64; 7]; 3] {
    let depth = &stat.depth;
    [
        shares(&depth.level, total_ios(stat), 0.1),
        shares(&depth.submit, depth.submits, 0.1),
        shares(&depth.complete, depth.completes, 0.1),
    ]
}

/// Requests of all directions. Syncs are not among them, though they are among the depths: so a job with syncs has
/// shares that add up to more than 100 %, as in fio.
pub(super) fn total_ios(stat: &JobStat) -> u64 {
    stat.dirs.iter().map(|direction| direction.total_ios).sum()
}

/// Shares of latencies in percent: ns, us, ms.
pub(super) fn latency_shares(stat: &JobStat) -> ([f64; 10], [f64; 10], [f64; 12]) {
    let (buckets, total) = (&stat.buckets, total_ios(stat));
    (shares(&buckets.ns, total, 0.01), shares(&buckets.us, total, 0.01), shares(&buckets.ms, total, 0.01))
}

/// User and system time as shares of the run time, percent.
pub(super) fn cpu_shares(stat: &JobStat) -> [f64; 2] {
    let share = |ns: u64| match stat.job_runtime_ms {
        0 => 0.0,
        runtime_ms => (ns / 1_000_000) as f64 * 100.0 / runtime_ms as f64,
    };
    [share(stat.cost.user_ns), share(stat.cost.system_ns)]
}

/// The latency search as printed: for a job without one, what its options say.
pub(super) struct Search {
    pub(super) depth: u64,
    pub(super) target_ns: u64,
    pub(super) percentile: f64,
    pub(super) window_us: u64,
}

pub(super) fn search(entry: &JobReport<'_>) -> Search {
    let job = entry.job;
    match &entry.stat.latency_target {
        Some(found) => Search {
            depth: found.depth.into(),
            target_ns: found.target_us * 1000,
            percentile: found.percentile,
            window_us: found.window_us,
        },
        None => Search {
            depth: job.iodepth.into(),
            target_ns: u64::try_from(job.latency_target.as_nanos()).unwrap_or(u64::MAX),
            percentile: job.latency_percentile,
            window_us: u64::try_from(job.latency_window.as_micros()).unwrap_or(u64::MAX),
        },
    }
}

/// Whether the criterion of a steady state is a slope, not a deviation.
pub(super) fn is_slope(wanted: &SteadyState) -> bool {
    matches!(wanted.criterion, SteadyCriterion::IopsSlope | SteadyCriterion::BwSlope)
}

/// The value that a steady state reached, in the unit of its limit, and in IOPS or bytes/s.
pub(super) fn reached(wanted: &SteadyState, steady: &Settled) -> (f64, f64) {
    let reached = if is_slope(wanted) { steady.slope } else { steady.reached };
    let samples = match wanted.criterion {
        SteadyCriterion::Iops | SteadyCriterion::IopsSlope => &steady.iops,
        SteadyCriterion::Bw | SteadyCriterion::BwSlope => &steady.bw,
    };
    let mean = samples.iter().sum::<u64>() as f64 / samples.len().max(1) as f64;
    (reached, if wanted.percent { reached * mean / 100.0 } else { reached })
}

/// The whole part of the mean, as fio prints it.
pub(super) fn mean(samples: &[u64]) -> u64 {
    samples.iter().sum::<u64>().checked_div(samples.len() as u64).unwrap_or(0)
}

/// Returns the text of an errno, like strerror(3).
pub(super) fn error_text(errno: i32) -> String {
    let text = std::io::Error::from_raw_os_error(errno).to_string();
    text.split(" (os error").next().unwrap_or_default().to_owned()
}

/// One direction of all jobs of a group.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    pub(super) io_bytes: u64,
    pub(super) min_run_ms: u64,
    pub(super) max_run_ms: u64,
    /// For single jobs, bytes/s.
    pub(super) min_bw: u64,
    pub(super) max_bw: u64,
}

impl Total {
    fn add(&mut self, stat: &DirStat) {
        if stat.runtime_ms == 0 {
            return;
        }
        let bw = bytes_per_second(stat.io_bytes, stat.runtime_ms);
        let first = self.max_run_ms == 0;
        self.min_run_ms = if first { stat.runtime_ms } else { self.min_run_ms.min(stat.runtime_ms) };
        self.max_run_ms = self.max_run_ms.max(stat.runtime_ms);
        self.min_bw = if first { bw } else { self.min_bw.min(bw) };
        self.max_bw = self.max_bw.max(bw);
        self.io_bytes += stat.io_bytes;
    }

    /// Bytes per second of all of them together.
    pub(super) fn bandwidth(&self) -> u64 {
        bytes_per_second(self.io_bytes, self.max_run_ms)
    }
}

/// A group of jobs.
pub(super) struct Group<'a> {
    pub(super) id: u32,
    /// The first of its jobs, whose `kb_base` and `unit_base` apply.
    pub(super) first: &'a FioJob,
    /// Reads, writes, trims, mixed.
    pub(super) streams: [Total; 4],
}

/// The groups of a report, in the order of their numbers.
pub(super) fn groups<'a>(report: &Report<'a>) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for entry in &report.jobs {
        let (job, stat) = (entry.job, entry.stat);
        let at = groups.iter().position(|group| group.id == stat.groupid).unwrap_or_else(|| {
            groups.push(Group { id: stat.groupid, first: job, streams: Default::default() });
            groups.len() - 1
        });
        for stream in apart(job, stat).into_iter().chain(mixed(job, stat)) {
            groups[at].streams[stream.index].add(&stream.stat);
        }
    }
    groups.order_by_key(|group| group.id);
    groups
}

/// The group of a job.
pub(super) fn group_of<'g, 'a>(groups: &'g [Group<'a>], stat: &JobStat) -> &'g Group<'a> {
    groups.iter().find(|group| group.id == stat.groupid).expect("each job of the report was put in its group")
}

/// A job's sampled mean as a share of its group's bandwidth, percent. Normal and JSON use whole KiB/s of the mean, as
/// in fio.
pub(super) fn share_of_group(mean_kib: f64, total: &Total) -> f64 {
    match total.bandwidth() {
        0 => 100.0,
        bandwidth => (mean_kib.trunc() * 100.0 / (bandwidth as f64 / 1024.0)).min(100.0),
    }
}
