//! Latencies drawn from a measured distribution, and the random numbers they are drawn with.

use fastrand::Rng;
use qd1_model::Hist;

/// Number of ranks that represent a distribution: enough for its 99.9th percentile.
const RANKS: u64 = 8192;

/// A seeded source of times.
#[derive(Clone, Debug)]
pub(super) struct Draw(Rng);

impl Draw {
    pub(super) fn new(seed: u64) -> Self {
        Self(Rng::with_seed(seed))
    }

    /// From 0 up to but not including 1.
    pub(super) fn unit(&mut self) -> f64 {
        self.0.f64()
    }

    /// Below `bound`, which is not 0.
    pub(super) fn below(&mut self, bound: u32) -> u32 {
        self.0.u32(..bound)
    }

    /// A time between half and one and a half of `mean_ns`: work never takes quite the same time.
    pub(super) fn around(&mut self, mean_ns: f64) -> f64 {
        mean_ns * (0.5 + self.unit())
    }

    /// An exponential time.
    pub(super) fn exponential(&mut self, mean_ns: f64) -> f64 {
        -mean_ns * (1.0 - self.unit()).ln()
    }
}

/// A measured distribution to draw from.
#[derive(Clone, Debug)]
pub(super) struct Latency {
    /// Sorted, ns.
    ranks: Vec<f64>,
}

impl Latency {
    /// The distribution of a histogram up to `bound_ns`, each value times `scale`.
    ///
    /// # Panics
    /// If it is empty.
    pub(super) fn of(hist: &Hist, bound_ns: u64, scale: f64) -> Self {
        let bins = || hist.bins().filter(|(ns, _)| *ns <= bound_ns);
        let all: u64 = bins().map(|(_, count)| count).sum();
        let mut bins = bins();
        let (mut value, mut seen) = bins.next().expect("there is something to draw from");
        let ranks = (0..RANKS).map(|rank| {
            let wanted = (rank as f64 + 0.5) / RANKS as f64 * all as f64;
            while (seen as f64) < wanted
                && let Some((next, count)) = bins.next()
            {
                (value, seen) = (next, seen + count);
            }
            value as f64 * scale
        });
        Self { ranks: ranks.collect() }
    }

    pub(super) fn draw(&self, draw: &mut Draw) -> f64 {
        self.ranks[draw.below(RANKS as u32) as usize]
    }

    /// Mean, ns.
    pub(super) fn mean_ns(&self) -> f64 {
        self.ranks.iter().sum::<f64>() / self.ranks.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_drawn_has_the_distribution_it_is_drawn_from() {
        let mut hist = Hist::new();
        (0..900).for_each(|_| hist.record(100_000));
        (0..100).for_each(|_| hist.record(1_000_000));
        let latency = Latency::of(&hist, u64::MAX, 2.0);
        assert!((latency.mean_ns() / 380e3 - 1.0).abs() < 0.01, "{}", latency.mean_ns());
        let mut draw = Draw::new(1);
        let slow = (0..100_000).filter(|_| latency.draw(&mut draw) > 1e6).count();
        assert!((9_500..10_500).contains(&slow), "{slow}");
        let mean = (0..100_000).map(|_| draw.exponential(5.0)).sum::<f64>() / 100_000.0;
        assert!((4.9..5.1).contains(&mean), "{mean}");
    }
}
