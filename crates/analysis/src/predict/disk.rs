//! How long commits that come at given times take: drawn from those measured, or let through by a limit.
//!
//! A limit of requests or bytes lets commits through immediately as long as its credit lasts, and holds the next one
//! until there is credit again. Measured back to back, most are fast and some very slow; a program that commits less
//! often than the limit allows never meets the slow ones. A slow disk has the same latencies, but not in this order.

use qd1_model::Hist;
use qd1_model::op::OpClass;
use qd1_model::record::Interval;

use super::draw::{Draw, Latency};

/// A commit that takes this many times the median was held back.
const HELD: u64 = 10;
/// Such commits must make up this share of the time, and be at least this many.
const HELD_SHARE: f64 = 0.5;
const HELD_LEAST: u64 = 10;
/// Length of the windows in which commits are counted, ns, and how many are needed.
const WINDOW_NS: u64 = 500_000_000;
const WINDOWS_LEAST: usize = 4;
/// A limit lets the same number through in each: their standard deviation is less than this share of their mean.
const STEADY: f64 = 0.1;

/// A limit on commits, in ns of its own time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Limit {
    /// What a commit costs.
    commit_ns: f64,
    /// The largest credit.
    burst_ns: f64,
}

impl Limit {
    /// The limit on a step's commits, if they look limited; a commit longer than the second value was held back, ns.
    pub(super) fn of(hist: &Hist, intervals: &[Interval], class: OpClass) -> Option<(Self, u64)> {
        let bound_ns = HELD * hist.quantile(0.5).max(1);
        let held = || hist.bins().filter(|(ns, _)| *ns > bound_ns);
        let count: u64 = held().map(|(_, count)| count).sum();
        let held_ns: f64 = held().map(|(ns, count)| ns as f64 * count as f64).sum();
        let all_ns = hist.mean_ns() * hist.count() as f64;
        if count < HELD_LEAST || held_ns < HELD_SHARE * all_ns || !is_steady(intervals, class) {
            return None;
        }
        Some((Self { commit_ns: hist.mean_ns(), burst_ns: all_ns / count as f64 }, bound_ns))
    }
}

/// Whether about as many were completed in each window.
fn is_steady(intervals: &[Interval], class: OpClass) -> bool {
    let mut counts: Vec<f64> = Vec::new();
    let (mut length_ns, mut count) = (0, 0);
    for interval in intervals {
        length_ns += interval.length_ns;
        count += interval.streams.iter().filter(|stream| stream.class == class).map(|stream| stream.ios).sum::<u64>();
        if length_ns >= WINDOW_NS {
            counts.push(count as f64 * 1e9 / length_ns as f64);
            (length_ns, count) = (0, 0);
        }
    }
    // The first window includes what was left in the bucket.
    let counts = counts.get(1..).unwrap_or_default();
    let mean = counts.iter().sum::<f64>() / counts.len().max(1) as f64;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / counts.len().max(1) as f64;
    counts.len() >= WINDOWS_LEAST && variance.sqrt() < STEADY * mean
}

/// Commits as measured.
#[derive(Clone, Debug)]
pub(super) struct Commits {
    /// Those that were not held back, if there is a limit.
    latency: Latency,
    limit: Option<Limit>,
}

impl Commits {
    /// With each time multiplied by `scale`.
    pub(super) fn new(hist: &Hist, limit: Option<(Limit, u64)>, scale: f64) -> Self {
        let latency = Latency::of(hist, limit.map_or(u64::MAX, |(_, bound_ns)| bound_ns), scale);
        let scaled = |limit: Limit| Limit { commit_ns: scale * limit.commit_ns, ..limit };
        Self { latency, limit: limit.map(|(limit, _)| scaled(limit)) }
    }

    /// Their mean, one after another, ns.
    pub(super) fn mean_ns(&self) -> f64 {
        self.limit.map_or_else(|| self.latency.mean_ns(), |limit| limit.commit_ns)
    }
}

/// A disk on which commits are made in virtual time, in time order.
pub(super) struct Disk<'a> {
    commits: &'a Commits,
    credit_ns: f64,
    at_ns: f64,
}

impl<'a> Disk<'a> {
    pub(super) fn new(commits: &'a Commits) -> Self {
        Self { commits, credit_ns: commits.limit.map_or(0.0, |limit| limit.burst_ns), at_ns: 0.0 }
    }

    /// Returns the time of a commit at `at_ns` with `more_ns` of further writing, ns.
    pub(super) fn commit(&mut self, at_ns: f64, more_ns: f64, draw: &mut Draw) -> f64 {
        let latency_ns = self.commits.latency.draw(draw);
        let Some(limit) = self.commits.limit else { return latency_ns + more_ns };
        let at_ns = at_ns.max(self.at_ns);
        self.credit_ns = (self.credit_ns + at_ns - self.at_ns).min(limit.burst_ns);
        let cost_ns = limit.commit_ns + more_ns;
        // A held commit is held until there is credit for many.
        let held_ns = if self.credit_ns >= cost_ns { 0.0 } else { limit.burst_ns.max(cost_ns) - self.credit_ns };
        self.credit_ns += held_ns - cost_ns;
        self.at_ns = at_ns + held_ns;
        held_ns + latency_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    /// 24 commits, of which 23 take 40 us and one takes 96 ms.
    fn gusts() -> Hist {
        let mut hist = Hist::new();
        (0..960).for_each(|number| hist.record(if number % 24 == 0 { 96_000_000 } else { 40_000 }));
        hist
    }

    fn intervals(counts: impl Iterator<Item = u64>) -> Vec<Interval> {
        let mut record = testing::empty();
        let step =
            testing::step(&mut record, "commits", testing::io(Rw::Write, 4096, Sync::Fdatasync, true), 24, 40_000);
        let of = |count: u64| {
            let mut interval = step.intervals[0].clone();
            interval.length_ns = 100_000_000;
            interval.streams[0].class = OpClass::Commit;
            interval.streams[0].ios = count;
            interval
        };
        counts.map(of).collect()
    }

    #[test]
    fn only_bursts_of_one_size_are_a_limit() {
        let steady = intervals(std::iter::repeat_n(24, 40));
        let (limit, bound_ns) = Limit::of(&gusts(), &steady, OpClass::Commit).unwrap();
        assert!((limit.commit_ns / 4.04e6 - 1.0).abs() < 0.02 && bound_ns < 1_000_000, "{limit:?} {bound_ns}");
        assert!((limit.burst_ns / 97e6 - 1.0).abs() < 0.02, "{limit:?}");
        let changing = intervals((0..40).map(|number| if number / 5 % 2 == 0 { 5 } else { 43 }));
        assert_eq!(Limit::of(&gusts(), &changing, OpClass::Commit), None);
        let mut even = Hist::new();
        (0..960).for_each(|_| even.record(4_000_000));
        assert_eq!(Limit::of(&even, &steady, OpClass::Commit), None, "each waits: a slow disk");
    }

    #[test]
    fn only_those_who_commit_more_often_meet_the_limit() {
        let limit = Limit::of(&gusts(), &intervals(std::iter::repeat_n(24, 40)), OpClass::Commit);
        let commits = Commits::new(&gusts(), limit, 1.0);
        let (mut disk, mut draw, mut at_ns) = (Disk::new(&commits), Draw::new(1), 0.0);
        for _ in 0..10_000 {
            at_ns += disk.commit(at_ns, 0.0, &mut draw);
        }
        assert!((at_ns / 10_000.0 / 4.04e6 - 1.0).abs() < 0.03, "one after another: {at_ns}");
        let mut disk = Disk::new(&commits);
        let slowest = (0..1000).map(|number| disk.commit(f64::from(number) * 5e6, 0.0, &mut draw)).fold(0.0, f64::max);
        assert!(slowest < 1e6, "with pauses of 5 ms none waits: {slowest}");
    }
}
