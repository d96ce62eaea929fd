//! What a fio job measured, in the shape that fio's reports have.
//!
//! Plain counts and sums; reports derive everything else from them (IOPS, percentages, percentiles).
//! Directions are 0 for reads, 1 for writes, 2 for trims, as in all of fio's triples.

use crate::environment::ThreadCost;
use crate::plat::PlatHist;

/// Count, extremes, mean and variance of a stream of numbers (Welford 1962; merged after Chan et al. 1979).
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Moments {
    /// How many.
    pub n: u64,
    /// Smallest; 0 when empty.
    pub min: u64,
    /// Largest; 0 when empty.
    pub max: u64,
    /// Mean; 0 when empty.
    pub mean: f64,
    /// Sum of squared distances from the mean.
    pub m2: f64,
}

impl Moments {
    /// Adds one number.
    #[inline]
    pub fn add(&mut self, value: u64) {
        self.min = if self.n == 0 { value } else { self.min.min(value) };
        self.max = self.max.max(value);
        self.n += 1;
        let delta = value as f64 - self.mean;
        self.mean += delta / self.n as f64;
        self.m2 += delta * (value as f64 - self.mean);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        if other.n == 0 {
            return;
        }
        if self.n == 0 {
            *self = *other;
            return;
        }
        let (mine, theirs) = (self.n as f64, other.n as f64);
        let delta = other.mean - self.mean;
        self.m2 += other.m2 + delta * delta * mine * theirs / (mine + theirs);
        self.mean += delta * theirs / (mine + theirs);
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.n += other.n;
    }

    /// Stacks `other` on top of it: samples of things that ran at the same time, such as the bandwidth of two clones.
    /// Extremes, means and variances add up; so do the counts, as in fio.
    pub fn stack(&mut self, other: &Self) {
        self.n += other.n;
        self.min += other.min;
        self.max += other.max;
        self.mean += other.mean;
        self.m2 += other.m2;
    }

    /// Sample standard deviation (divisor n - 1, as fio's); 0 below two numbers.
    pub fn stdev(&self) -> f64 {
        if self.n < 2 { 0.0 } else { (self.m2 / (self.n - 1) as f64).sqrt() }
    }
}

/// Latencies of one kind, ns.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatStat {
    /// Count, extremes, mean, variance.
    pub moments: Moments,
    /// fio's bins.
    pub bins: PlatHist,
}

impl LatStat {
    /// Adds one latency.
    #[inline]
    pub fn add(&mut self, value_ns: u64) {
        self.moments.add(value_ns);
        self.bins.record(value_ns);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.moments.merge(&other.moments);
        self.bins.merge(&other.bins);
    }
}

/// One direction.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DirStat {
    /// Requests that completed.
    pub total_ios: u64,
    /// Those of them that moved fewer bytes than requested.
    pub short_ios: u64,
    /// Requests that were dropped.
    pub drop_ios: u64,
    /// Bytes moved.
    pub io_bytes: u64,
    /// Measured time, ms; for several clones, the longest.
    pub runtime_ms: u64,
    /// From issue to acceptance by the engine; empty with engines that complete within submit.
    pub slat: LatStat,
    /// From then to completion.
    pub clat: LatStat,
    /// The whole.
    pub lat: LatStat,
    /// Samples of the bandwidth over half a second each, KiB/s.
    pub bw: Moments,
    /// Samples of IOPS over half a second each.
    pub iops: Moments,
}

/// Syncs.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SyncStat {
    /// fsync and fdatasync calls that completed.
    pub total_ios: u64,
    /// Of them, fsync calls: the only ones that fio counts in its JSON.
    pub fsyncs: u64,
    /// Their latency.
    pub lat: LatStat,
    /// Not in fio: the commit, from the issue of the last write before a sync to the end of that sync, which is what a
    /// program that writes and syncs waits for.
    pub commit: LatStat,
}

/// How many requests were in flight, submitted together, and completed together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DepthStat {
    /// In flight when a request was issued, including itself: 1, 2, 4, 8, 16, 32, 64 and more.
    pub level: [u64; 7],
    /// Submitted in one go: 0, up to 4, 8, 16, 32, 64, more.
    pub submit: [u64; 7],
    /// Completed in one go: likewise.
    pub complete: [u64; 7],
    /// Number of submissions.
    pub submits: u64,
    /// Number of times completions were collected.
    pub completes: u64,
}

/// Completed requests by latency (`lat`, all directions), upper bounds as in fio's report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LatencyBuckets {
    /// Below 2, 4, 10, 20, 50, 100, 250, 500, 750, 1000 ns.
    pub ns: [u64; 10],
    /// The same in us.
    pub us: [u64; 10],
    /// The same in ms, then 2000 ms, then what took longer.
    pub ms: [u64; 12],
}

/// The search for a depth that meets a latency target.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LatencyTarget {
    /// The depth found.
    pub depth: u32,
    /// The target latency, us.
    pub target_us: u64,
    /// The share of requests that must meet it, percent.
    pub percentile: f64,
    /// How long each depth was tried, us.
    pub window_us: u64,
}

/// How `steadystate` ended.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SteadyState {
    /// As given: `iops:0.3%`, `bw_slope:0.1%`.
    pub criterion: String,
    /// The time over which it must hold, s.
    pub duration_s: u64,
    /// Whether it held.
    pub attained: bool,
    /// The limit, percent or a number.
    pub limit: f64,
    /// What was reached: largest deviation from the mean, or the slope, in the limit's unit.
    pub reached: f64,
    /// The slope of the regression line in the limit's unit; 0 for deviations.
    pub slope: f64,
    /// The last samples, one a second, the oldest first.
    pub iops: Vec<u64>,
    /// Likewise, bytes/s.
    pub bw: Vec<u64>,
}

/// One clone of a job, or several of them merged (`group_reporting`).
#[derive(Clone, Debug, Default, PartialEq)]
pub struct JobStat {
    /// Number of the reporting group, from 0.
    pub groupid: u32,
    /// Clones in it.
    pub members: u32,
    /// Thread or process id of the first.
    pub pid: u32,
    /// When it began, ms since the Unix epoch.
    pub job_start_ms: u64,
    /// Total time, s, rounded up, including layout and verification.
    pub elapsed_s: u64,
    /// Total run time of all members, ms: the base of processor shares.
    pub job_runtime_ms: u64,
    /// errno of the first error, 0 for none.
    pub error: i32,
    /// What was going on when that error happened.
    pub error_text: String,
    /// Errors that `continue_on_error` let pass.
    pub total_err_count: u64,
    /// Reads, writes, trims.
    pub dirs: [DirStat; 3],
    /// Syncs.
    pub sync: SyncStat,
    /// Depths.
    pub depth: DepthStat,
    /// Latencies of all directions.
    pub buckets: LatencyBuckets,
    /// Processor time, switches, faults.
    pub cost: ThreadCost,
    /// The latency search, if there was one.
    pub latency_target: Option<LatencyTarget>,
    /// Steady state, if requested.
    pub steadystate: Option<SteadyState>,
}

impl DirStat {
    /// Adds the same direction of another clone, or another direction of the same one, which ran at the same time.
    pub fn merge(&mut self, other: &Self) {
        self.total_ios += other.total_ios;
        self.short_ios += other.short_ios;
        self.drop_ios += other.drop_ios;
        self.io_bytes += other.io_bytes;
        self.runtime_ms = self.runtime_ms.max(other.runtime_ms);
        self.slat.merge(&other.slat);
        self.clat.merge(&other.clat);
        self.lat.merge(&other.lat);
        self.bw.stack(&other.bw);
        self.iops.stack(&other.iops);
    }
}

impl SyncStat {
    /// Adds those of another clone.
    pub fn merge(&mut self, other: &Self) {
        self.total_ios += other.total_ios;
        self.fsyncs += other.fsyncs;
        self.lat.merge(&other.lat);
        self.commit.merge(&other.commit);
    }
}

impl JobStat {
    /// Adds another clone or job of the same reporting group, like fio's `group_reporting`: counts, histograms,
    /// processor time and job run times add up; the longest measured time is kept; sampled bandwidth and IOPS are
    /// stacked; the first error, latency search and steady state are kept.
    pub fn merge(&mut self, other: &Self) {
        if self.members == 0 {
            *self = other.clone();
            return;
        }
        self.members += other.members;
        self.job_start_ms = self.job_start_ms.min(other.job_start_ms);
        self.elapsed_s = self.elapsed_s.max(other.elapsed_s);
        self.job_runtime_ms += other.job_runtime_ms;
        if self.error == 0 {
            self.error = other.error;
            self.error_text.clone_from(&other.error_text);
        }
        self.total_err_count += other.total_err_count;
        self.dirs.iter_mut().zip(&other.dirs).for_each(|(mine, theirs)| mine.merge(theirs));
        self.sync.merge(&other.sync);
        self.depth.merge(&other.depth);
        self.buckets.merge(&other.buckets);
        self.cost = self.cost.plus(&other.cost);
        if self.latency_target.is_none() {
            self.latency_target = other.latency_target;
        }
        if self.steadystate.is_none() {
            self.steadystate.clone_from(&other.steadystate);
        }
    }

    /// Reads, writes and trims as one direction (`unified_rw_reporting`).
    pub fn mixed(&self) -> DirStat {
        let mut mixed = self.dirs[0].clone();
        self.dirs[1..].iter().for_each(|other| mixed.merge(other));
        mixed
    }
}

impl LatencyBuckets {
    /// Counts one latency.
    #[inline]
    pub fn record(&mut self, lat_ns: u64) {
        match lat_ns {
            0..1_000 => self.ns[bucket(lat_ns)] += 1,
            1_000..1_000_000 => self.us[bucket(lat_ns / 1_000)] += 1,
            1_000_000..1_000_000_000 => self.ms[bucket(lat_ns / 1_000_000)] += 1,
            1_000_000_000..2_000_000_000 => self.ms[10] += 1,
            _ => self.ms[11] += 1,
        }
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        add_all(&mut self.ns, &other.ns);
        add_all(&mut self.us, &other.us);
        add_all(&mut self.ms, &other.ms);
    }
}

/// The bucket of a value below 1000.
#[inline]
fn bucket(value: u64) -> usize {
    match value {
        0..2 => 0,
        2..4 => 1,
        4..10 => 2,
        10..20 => 3,
        20..50 => 4,
        50..100 => 5,
        100..250 => 6,
        250..500 => 7,
        500..750 => 8,
        _ => 9,
    }
}

impl DepthStat {
    /// A request was issued while this many were in flight, including itself.
    #[inline]
    pub fn issued(&mut self, in_flight: u32) {
        self.level[(in_flight.max(1).ilog2() as usize).min(6)] += 1;
    }

    /// This many were submitted in one go.
    #[inline]
    pub fn submitted(&mut self, count: u32) {
        self.submit[batch(count)] += 1;
        self.submits += 1;
    }

    /// This many were completed in one go.
    #[inline]
    pub fn completed(&mut self, count: u32) {
        self.complete[batch(count)] += 1;
        self.completes += 1;
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        add_all(&mut self.level, &other.level);
        add_all(&mut self.submit, &other.submit);
        add_all(&mut self.complete, &other.complete);
        self.submits += other.submits;
        self.completes += other.completes;
    }
}

#[inline]
fn batch(count: u32) -> usize {
    match count {
        0 => 0,
        1..=4 => 1,
        5..=8 => 2,
        9..=16 => 3,
        17..=32 => 4,
        33..=64 => 5,
        _ => 6,
    }
}

fn add_all<const N: usize>(mine: &mut [u64; N], theirs: &[u64; N]) {
    mine.iter_mut().zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merged_moments_are_those_of_all_values() {
        let values: Vec<u64> = (0..1000).map(|i| i * i % 977).collect();
        let of = |values: &[u64]| {
            let mut moments = Moments::default();
            values.iter().for_each(|value| moments.add(*value));
            moments
        };
        let (all, mut merged) = (of(&values), of(&values[..300]));
        merged.merge(&of(&values[300..]));
        assert_eq!((all.n, all.min, all.max), (merged.n, merged.min, merged.max));
        assert!((all.mean - merged.mean).abs() < 1e-6 && (all.stdev() - merged.stdev()).abs() < 1e-6);
    }

    #[test]
    fn clones_add_up_and_the_longest_time_counts() {
        let mut first = JobStat { members: 1, elapsed_s: 3, job_runtime_ms: 2000, ..JobStat::default() };
        let mut second = JobStat { members: 1, elapsed_s: 2, job_runtime_ms: 1500, error: 5, ..JobStat::default() };
        first.dirs[0] = DirStat { total_ios: 10, io_bytes: 40, runtime_ms: 2000, ..DirStat::default() };
        second.dirs[0] = DirStat { total_ios: 5, io_bytes: 20, runtime_ms: 1500, ..DirStat::default() };
        // Two clones with 280 and 288 KiB/s each are 560 and 576 together: seen with fio 3.33.
        for kib in [280, 280, 288] {
            first.dirs[0].bw.add(kib);
            second.dirs[0].bw.add(kib);
        }
        first.dirs[0].lat.add(7);
        second.dirs[0].lat.add(9);
        let mut merged = JobStat::default();
        [&first, &second].iter().for_each(|stat| merged.merge(stat));
        let read = &merged.dirs[0];
        assert_eq!((merged.members, merged.elapsed_s, merged.job_runtime_ms, merged.error), (2, 3, 3500, 5));
        assert_eq!((read.total_ios, read.io_bytes, read.runtime_ms), (15, 60, 2000));
        assert_eq!((read.lat.moments.n, read.lat.moments.min, read.lat.bins.count()), (2, 7, 2));
        assert_eq!((read.bw.n, read.bw.min, read.bw.max), (6, 560, 576));
        assert!((read.bw.mean - 565.333333).abs() < 1e-6 && (read.bw.stdev() - 4.131182).abs() < 1e-6);
    }

    #[test]
    fn a_latency_falls_below_its_upper_bound() {
        let mut buckets = LatencyBuckets::default();
        [1, 2, 999, 1_000, 4_000, 3_000_000, 1_500_000_000, 2_000_000_000]
            .iter()
            .for_each(|lat_ns| buckets.record(*lat_ns));
        assert_eq!((buckets.ns[0], buckets.ns[1], buckets.ns[9]), (1, 1, 1));
        assert_eq!((buckets.us[0], buckets.us[2], buckets.ms[1], buckets.ms[10], buckets.ms[11]), (1, 1, 1, 1, 1));
    }

    #[test]
    fn depths_are_counted_by_powers_of_two_and_batches_by_upper_bounds() {
        let mut depth = DepthStat::default();
        [1, 2, 3, 64, 200].iter().for_each(|n| depth.issued(*n));
        [0, 1, 4, 5, 64, 65].iter().for_each(|n| depth.submitted(*n));
        assert_eq!(depth.level, [1, 2, 0, 0, 0, 0, 2]);
        assert_eq!(depth.submit, [1, 2, 1, 0, 0, 1, 1]);
    }
}
