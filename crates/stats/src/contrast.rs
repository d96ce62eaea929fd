//! Two samples of latencies compared: how often one is above the other, and where they separate.
//!
//! P(a > b), counting ties as half, is the Mann-Whitney statistic divided by the number of pairs; without a difference
//! it is 1/2 with a variance of (n + m + 1) / (12 n m) (Mann and Whitney, 1947). n and m are effective numbers,
//! corrected for dependence as everywhere here. The largest distance between the two distribution functions is that of
//! Kolmogorov and Smirnov; beyond 1.95 sqrt(1/n + 1/m) it happens by chance once in a thousand times.

use qd1_model::op::OpClass;
use qd1_model::record::{Interval, StepRecord};
use qd1_model::{Estimate, Hist};

use crate::Quantiles;

/// The latencies of one kind of operation, from one step or several.
#[derive(Clone, Debug)]
pub struct Sample {
    lat: Hist,
    intervals: Vec<Interval>,
    class: OpClass,
}

impl Sample {
    /// Those of a step; `None` if it had none. For requests at a fixed rate, the time from issue to completion: the
    /// time a worker needed to wake up is not due to the disk, and would hide a cache.
    pub fn of(step: &StepRecord, class: OpClass) -> Option<Self> {
        let stream = step.stream(class).filter(|stream| stream.lat.count() > 0)?;
        let served = stream.clat.as_ref().filter(|clat| stream.slat.is_none() && clat.count() > 0);
        Some(Self { lat: served.unwrap_or(&stream.lat).clone(), intervals: step.intervals.clone(), class })
    }

    /// The sync parts of a step's commits.
    pub fn of_syncs(step: &StepRecord) -> Option<Self> {
        let part = step.stream(OpClass::Commit)?.sync_part.as_ref().filter(|part| part.count() > 0)?;
        Some(Self { lat: part.clone(), intervals: step.intervals.clone(), class: OpClass::Commit })
    }

    /// Both together.
    pub fn and(mut self, other: &Self) -> Self {
        self.lat.merge(&other.lat);
        self.intervals.extend(other.intervals.iter().cloned());
        self
    }

    /// Operations.
    pub fn n(&self) -> u64 {
        self.lat.count()
    }

    /// A quantile with its interval, ns.
    pub fn at(&self, q: f64) -> Estimate {
        Quantiles::new(&self.lat, &self.intervals, self.class).at(q)
    }

    /// A quantile as observed, ns.
    pub fn seen(&self, q: f64) -> f64 {
        self.lat.quantile(q) as f64
    }

    /// Share of the operations at or below `ns`.
    pub fn share_within(&self, ns: f64) -> f64 {
        self.lat.bins().filter(|(value, _)| *value as f64 <= ns).map(|(_, count)| count).sum::<u64>() as f64
            / self.n().max(1) as f64
    }

    /// The median of those above `ns`, ns.
    pub fn median_above(&self, ns: f64) -> Option<f64> {
        let total: u64 = self.lat.bins().filter(|(value, _)| *value as f64 > ns).map(|(_, count)| count).sum();
        let mut below = 0;
        self.lat.bins().filter(|(value, _)| *value as f64 > ns).find_map(|(value, count)| {
            below += count;
            (2 * below >= total).then_some(value as f64)
        })
    }

    /// Effective number of independent operations, at the median.
    pub fn n_effective(&self) -> f64 {
        self.at(0.5).n_effective.max(1.0)
    }
}

/// How far two samples differ.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Contrast {
    /// How often the first is above the second, 0..1; a half if they do not differ.
    pub above: f64,
    /// Its distance from a half in standard deviations.
    pub z: f64,
}

/// How often a latency of `a` is above one of `b`.
pub fn contrast(a: &Sample, b: &Sample) -> Contrast {
    let (mut below, mut wins) = (0u64, 0.0);
    let mut of_b = b.lat.bins().peekable();
    for (value, count) in a.lat.bins() {
        while let Some((_, passed)) = of_b.next_if(|(known, _)| *known < value) {
            below += passed;
        }
        let ties = of_b.peek().filter(|(known, _)| *known == value).map_or(0, |(_, count)| *count);
        wins += count as f64 * (below as f64 + ties as f64 / 2.0);
    }
    let above = wins / (a.n().max(1) as f64 * b.n().max(1) as f64);
    let (n, m) = (a.n_effective(), b.n_effective());
    Contrast { above, z: (above - 0.5) / ((n + m + 1.0) / (12.0 * n * m)).sqrt() }
}

/// Where two samples separate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Split {
    /// The latency up to which most of one and least of the other lie, ns.
    pub at_ns: f64,
    /// Share of one up to there, minus that of the other.
    pub distance: f64,
    /// Whether chance does not explain such a distance.
    pub is_sure: bool,
}

/// Finds the latency that best separates the faster sample from the slower one.
pub fn split(fast: &Sample, slow: &Sample) -> Split {
    let (mut best, mut at_ns) = (0.0, 0.0);
    let (mut of_fast, mut of_slow) = (0u64, 0u64);
    let mut others = slow.lat.bins().peekable();
    for (value, count) in fast.lat.bins() {
        of_fast += count;
        while let Some((_, passed)) = others.next_if(|(known, _)| *known <= value) {
            of_slow += passed;
        }
        let distance = of_fast as f64 / fast.n().max(1) as f64 - of_slow as f64 / slow.n().max(1) as f64;
        if distance > best {
            (best, at_ns) = (distance, value as f64);
        }
    }
    let chance = 1.95 * (1.0 / fast.n_effective() + 1.0 / slow.n_effective()).sqrt();
    Split { at_ns, distance: best, is_sure: best > chance }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn sample(lat_ns: u64) -> Sample {
        let (stream, intervals) = samples::stream(OpClass::Read, 4096, 10, lat_ns);
        Sample { lat: stream.lat, intervals, class: OpClass::Read }
    }

    #[test]
    fn equal_samples_are_above_each_other_half_the_time() {
        let same = contrast(&sample(100_000), &sample(100_000));
        assert!((same.above - 0.5).abs() < 1e-9 && same.z.abs() < 1e-6, "{same:?}");
    }

    #[test]
    fn a_slower_sample_is_above_and_surely_so() {
        let slower = contrast(&sample(300_000), &sample(100_000));
        assert!(slower.above > 0.99 && slower.z > 10.0, "{slower:?}");
        let apart = split(&sample(100_000), &sample(300_000));
        assert!(apart.is_sure && apart.distance > 0.99 && (100e3..300e3).contains(&apart.at_ns), "{apart:?}");
        assert!(!split(&sample(100_000), &sample(100_000)).is_sure);
    }

    #[test]
    fn two_samples_together_are_between_them() {
        let both = sample(100_000).and(&sample(300_000));
        assert_eq!(both.n(), 400);
        assert!((both.share_within(200e3) - 0.5).abs() < 1e-9);
        assert!(both.median_above(200e3).unwrap() >= 300e3);
    }
}
