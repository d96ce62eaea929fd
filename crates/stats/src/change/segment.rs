//! The best segmentation of a series into stretches of one distribution each: exact and based on ranks, so that neither
//! a stall nor a heavy tail creates one.
//!
//! Cost of a stretch of L points: for each of nine quantiles of the whole series, c points of the stretch lie below it,
//! and a Bernoulli distribution fits them with -2 log likelihood 2 (L ln L - c ln c - (L-c) ln (L-c)); the mean over
//! the nine (the empirical-distribution cost of Haynes, Fearnhead and Eckley, "A computationally efficient
//! nonparametric approach for changepoint detection", 2017, with inner quantiles only, so that tails do not count). One
//! point adds a bounded cost, whatever its value. PELT (Killick, Fearnhead and Eckley, "Optimal detection of
//! changepoints with a linear computational cost", 2012) finds the segmentation with the smallest cost plus a penalty
//! for each change.
//!
//! The penalty is 3 ln n times the variance inflation of the ranks: neighbouring points are similar, so a stretch of
//! L points is worth L / VIF. The VIF is taken from differences of neighbouring block means, their *median*: the few
//! blocks that hold a change do not move it. Blocks of several lengths are tried, and the largest VIF is used.

use super::trace::median;

/// Quantile levels of the cost.
const LEVELS: usize = 9;
/// Shortest stretch, points.
pub(super) const STRETCH_MIN: usize = 10;
/// Penalty of one change, in units of ln n and of the variance inflation.
const PENALTY: f64 = 3.0;
/// Largest inflation in the penalty: each change is tested again later, so an extra proposal costs nothing, and a visit
/// of a few seconds in slow noise would not be proposed.
const INFLATION_MAX: f64 = 3.0;
/// Approximate number of places at which stretches of a long series may begin: the time is its square, and
/// [`Costs::place`] finds the exact one between.
const STARTS: usize = 2000;
/// Block lengths for the variance inflation, and the fewest blocks needed.
const BLOCKS: [usize; 3] = [4, 8, 16];
const BLOCKS_MIN: usize = 12;
/// Median of the chi-square distribution with one degree of freedom.
const CHI2_MEDIAN: f64 = 0.454_936;

/// Costs of stretches of one series.
pub(super) struct Costs {
    /// Per level, twice the points below it (ties half) among the first i.
    below: Vec<[u32; LEVELS]>,
    /// x ln x of half the index.
    entropy: Vec<f64>,
    /// Inflation of variance by dependence, at least 1.
    pub(super) inflation: f64,
}

impl Costs {
    pub(super) fn new(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_unstable_by(f64::total_cmp);
        let count = values.len();
        let edges: [f64; LEVELS] = std::array::from_fn(|k| sorted[count * (k + 1) / (LEVELS + 1)]);
        let mut below = vec![[0u32; LEVELS]; count + 1];
        for (i, value) in values.iter().enumerate() {
            for k in 0..LEVELS {
                let twice = u32::from(*value < edges[k]) + u32::from(*value <= edges[k]);
                below[i + 1][k] = below[i][k] + twice;
            }
        }
        let entropy = (0..=2 * count)
            .map(|twice| if twice == 0 { 0.0 } else { 0.5 * twice as f64 * (0.5 * twice as f64).ln() })
            .collect();
        let ranks: Vec<f64> = values
            .iter()
            .map(|value| {
                let (low, high) =
                    (sorted.partition_point(|other| other < value), sorted.partition_point(|other| other <= value));
                0.5 * (low + high) as f64 / count as f64
            })
            .collect();
        Self { below, entropy, inflation: inflation(&ranks) }
    }

    /// Cost of points `from..to`.
    pub(super) fn of(&self, from: usize, to: usize) -> f64 {
        let twice = 2 * (to - from);
        let whole = LEVELS as f64 * self.entropy[twice];
        let parts: f64 = (0..LEVELS)
            .map(|k| {
                let c = (self.below[to][k] - self.below[from][k]) as usize;
                self.entropy[c] + self.entropy[twice - c]
            })
            .sum();
        2.0 * (whole - parts) / LEVELS as f64
    }

    fn count(&self) -> usize {
        self.below.len() - 1
    }

    /// Where changes lie: the first points of new stretches, rising.
    pub(super) fn changes(&self) -> Vec<usize> {
        let count = self.count();
        if count < 2 * STRETCH_MIN {
            return Vec::new();
        }
        let stride = (count / STARTS).max(1);
        let penalty = PENALTY * (count as f64).ln() * self.inflation.min(INFLATION_MAX);
        let mut best = vec![f64::INFINITY; count + 1];
        let mut last = vec![0; count + 1];
        best[0] = -penalty;
        // (first point, end from which it can no longer be the best).
        let mut candidates: Vec<(usize, usize)> = Vec::new();
        for to in STRETCH_MIN..=count {
            let fresh = to - STRETCH_MIN;
            if fresh.is_multiple_of(stride) && best[fresh].is_finite() {
                candidates.push((fresh, usize::MAX));
            }
            let costs: Vec<f64> = candidates.iter().map(|(from, _)| best[*from] + self.of(*from, to)).collect();
            for ((from, _), cost) in candidates.iter().zip(&costs) {
                if cost + penalty < best[to] {
                    (best[to], last[to]) = (cost + penalty, *from);
                }
            }
            // A split never costs more than the whole, so a start that is worse than the best end here is worse than
            // starting here, for every end that leaves a shortest stretch between.
            for ((_, until), cost) in candidates.iter_mut().zip(&costs) {
                if *cost > best[to] {
                    *until = (*until).min(to + STRETCH_MIN);
                }
            }
            candidates.retain(|(_, until)| to + 1 < *until);
        }
        let mut changes = Vec::new();
        let mut at = last[count];
        while at > 0 {
            changes.push(at);
            at = last[at];
        }
        changes.reverse();
        changes
    }

    /// The best place of the change between `from` and `to`, and the places that are equally good within 95 %: those
    /// whose cost is at most 3.84 times the variance inflation above the least.
    pub(super) fn place(&self, from: usize, to: usize) -> (usize, usize, usize) {
        let range = from + STRETCH_MIN / 2..=to - STRETCH_MIN / 2;
        let costs: Vec<(usize, f64)> = range.map(|at| (at, self.of(from, at) + self.of(at, to))).collect();
        let (at, least) = costs.iter().copied().min_by(|a, b| a.1.total_cmp(&b.1)).unwrap_or((from.midpoint(to), 0.0));
        let good = |(_, cost): &&(usize, f64)| *cost <= least + 3.84 * self.inflation;
        let low = costs.iter().find(good).map_or(at, |place| place.0);
        let high = costs.iter().rfind(good).map_or(at, |place| place.0);
        (at, low, high)
    }
}

/// Inflation of the variance of means of `values` by dependence of neighbours; at least 1. Changes of level do not move
/// it, as long as most blocks contain none.
pub(super) fn inflation(values: &[f64]) -> f64 {
    let mut largest: f64 = 1.0;
    for length in BLOCKS {
        let blocks: Vec<&[f64]> = values.chunks_exact(length).collect();
        if blocks.len() < BLOCKS_MIN {
            continue;
        }
        let means: Vec<f64> = blocks.iter().map(|block| block.iter().sum::<f64>() / length as f64).collect();
        let within: f64 = blocks
            .iter()
            .zip(&means)
            .map(|(block, mean)| block.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (length - 1) as f64)
            .sum::<f64>()
            / blocks.len() as f64;
        let mut squares: Vec<f64> = means.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).collect();
        let between = median(&mut squares) / CHI2_MEDIAN / 2.0 * length as f64;
        if within > 0.0 {
            largest = largest.max(between / within);
        }
    }
    largest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn noise(count: usize, rho: f64, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        let mut state = random.normal();
        (0..count)
            .map(|_| {
                state = rho * state + (1.0 - rho * rho).sqrt() * random.normal();
                state
            })
            .collect()
    }

    #[test]
    fn pelt_finds_the_segmentation_of_least_cost() {
        // Against dynamic programming over every pair of places, without pruning.
        for seed in 0..6 {
            let mut values = noise(90, 0.3, seed);
            values.iter_mut().skip(30).take(30).for_each(|v| *v += 2.0);
            let costs = Costs::new(&values);
            let penalty = PENALTY * 90f64.ln() * costs.inflation;
            let total = |changes: &[usize]| {
                let mut ends = vec![0];
                ends.extend(changes);
                ends.push(90);
                ends.windows(2).map(|w| costs.of(w[0], w[1])).sum::<f64>() + penalty * changes.len() as f64
            };
            let mut best = vec![f64::INFINITY; 91];
            best[0] = -penalty;
            for to in STRETCH_MIN..=90 {
                for from in 0..=to - STRETCH_MIN {
                    best[to] = best[to].min(best[from] + costs.of(from, to) + penalty);
                }
            }
            assert!((total(&costs.changes()) - best[90]).abs() < 1e-6, "seed {seed}");
        }
    }

    #[test]
    fn one_wild_point_is_no_change_and_a_step_is_found_where_it_is() {
        let mut values = noise(300, 0.0, 7);
        values[150] = 1e9;
        assert!(Costs::new(&values).changes().is_empty());
        values.iter_mut().skip(200).for_each(|v| *v += 3.0);
        let changes = Costs::new(&values).changes();
        assert_eq!(changes.len(), 1);
        assert!(changes[0].abs_diff(200) <= 2, "{changes:?}");
    }

    /// Stretches of a long series begin only at some of its places.
    #[test]
    fn a_step_of_a_long_series_is_found_near_its_place() {
        let mut values = noise(10_000, 0.0, 3);
        values.iter_mut().skip(6001).for_each(|v| *v += 2.0);
        let costs = Costs::new(&values);
        let changes = costs.changes();
        assert!(changes.len() == 1 && changes[0].abs_diff(6001) <= 10, "{changes:?}");
        assert!(costs.place(0, 10_000).0.abs_diff(6001) <= 2);
    }

    #[test]
    fn dependence_inflates_and_a_step_does_not() {
        assert!(inflation(&noise(600, 0.0, 1)) < 2.0);
        assert!(inflation(&noise(600, 0.8, 1)) > 4.0);
        let mut stepped = noise(600, 0.0, 1);
        stepped.iter_mut().skip(300).for_each(|v| *v += 5.0);
        assert!(inflation(&stepped) < 2.0);
    }
}
