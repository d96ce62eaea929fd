//! What a step that was measured in visits does not know of the time between and around them.
//!
//! A disk has a *level*, by which all its latencies rise and fall together: neighbours, temperature, garbage
//! collection. It moves over fractions of a second or over minutes. The dependence within a visit is known from its
//! neighbouring intervals (see `long_run.rs`); how far the level of these visits lies from that of the long run is the
//! question here, and a variance between twelve visits would answer it only if the level had forgotten itself from one
//! visit to the next.
//!
//! So the logarithm of the median latency (or of the rate) in short stretches of all visits is taken as a mean, plus a
//! level that is a stationary Gaussian process with correlation exp(-distance / tau) (Ornstein-Uhlenbeck), plus
//! independent noise. Neither tau nor the share of the level in the variance is estimated: every pair of them on a grid
//! counts with its posterior probability, mean and scale integrated out (flat, and 1 / scale^2: the marginal likelihood
//! of Gaussian regression, O'Hagan and Forster 2004, Bayesian Inference, section 11.3). For each pair the average of the
//! level over the visits misses its long-run mean by a Student's t; their mixture gives the half width. A level that
//! hardly moves gives almost nothing; one that drifts through the whole run a wide interval, since a minute of it says
//! little of the next.

use std::ops::Range;

use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use qd1_model::Estimate;

use super::long_run::Z_975;
use super::series::Series;

/// Stretches that all visits are cut into together.
const STRETCHES: usize = 96;
/// Fewest stretches that tell anything of a level.
const STRETCHES_MIN: usize = 10;
/// Fewest operations of a stretch with a median.
const OPS_MIN: f64 = 4.0;
/// Operations of a stretch that visits with few of them are cut for: their numbers vary.
const OPS_AIMED: f64 = 6.0;
/// Times in which the level forgets itself, s: from a stretch to twice a minute, each twice the one before.
const TAU_MIN_S: f64 = 0.1;
const TAUS: usize = 12;
/// Shares of the level in the variance of a stretch.
const SHARES: [f64; 13] = [0.0, 0.01, 0.03, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.97, 0.99, 0.999];

/// A figure that moves with the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// Median latency.
    Latency,
    /// Operations per second.
    Rate,
}

/// A stretch of a visit.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    /// Its middle, s.
    at_s: f64,
    /// Logarithm of the figure.
    log: f64,
    /// Operations.
    ios: f64,
}

/// Half width of the 95 % interval of the level's average over the visits of `series` about its long-run mean, as a
/// logarithm; 0 for a step that was measured in one go, and for a sample, which speaks for its own span.
pub(super) fn half_width(series: &Series, of: Of) -> f64 {
    let visits = series.visits();
    if visits.len() < 2 || series.is_sample() {
        return 0.0;
    }
    let each = STRETCHES.div_ceil(visits.len());
    let stretches: Vec<Stretch> = visits.iter().flat_map(|visit| cut(series, visit.clone(), each, of)).collect();
    if stretches.len() < STRETCHES_MIN {
        return f64::INFINITY;
    }
    mixture_half_width(&hypotheses(&stretches), (stretches.len() - 1) as f64)
}

/// Quantile `q` of the visits, widened to what the long run's may be: by the level, and upwards by what these visits did
/// not see of it.
///
/// The long run mixes more levels than a short one, and a tail is made by the slowest. The quantile over the median
/// gives the spread seen; the part of the level's spread that was not seen is that of its average, in `half_width`.
/// Spreads add as variances (all taken as log-normal).
pub(super) fn beyond(quantile: Estimate, median_ns: f64, q: f64, half_width: f64) -> Estimate {
    let estimate = super::widened(quantile, half_width);
    let z = Normal::standard().inverse_cdf(q);
    let (Some(value), Some(high)) = (estimate.value, estimate.high) else { return estimate };
    if z <= 0.0 || half_width == 0.0 {
        return estimate;
    }
    let seen = ((value / median_ns.max(1.0)).ln() / z).max(0.0);
    let further = z * (seen.hypot(half_width / Z_975) - seen);
    Estimate { high: Some(high * further.exp()), ..estimate }
}

/// Cuts a visit, a range of batches, into at most `most` stretches of a similar number of batches; fewer where a disk is so
/// slow that they would have no median.
fn cut(series: &Series, visit: Range<usize>, most: usize, of: Of) -> Vec<Stretch> {
    let all_ios: f64 = series.batches()[visit.clone()].iter().map(|batch| batch.ios).sum();
    let most = if of == Of::Latency { most.min((all_ios / OPS_AIMED) as usize).max(1) } else { most };
    let size = visit.len().div_ceil(most).max(1);
    let bounds = visit.clone().step_by(size).map(|from| from..(from + size).min(visit.end));
    let stretch = |range: Range<usize>| {
        let part = &series.batches()[range.clone()];
        let ios: f64 = part.iter().map(|batch| batch.ios).sum();
        let length_ns: f64 = part.iter().map(|batch| batch.length_ns).sum();
        let log = match of {
            Of::Latency if ios >= OPS_MIN => series.median_of(range.clone()).ln(),
            Of::Latency => return None,
            Of::Rate => (ios.max(0.5) / length_ns.max(1.0)).ln(),
        };
        Some(Stretch { at_s: series.middle_ns(range) / 1e9, log, ios: ios.max(1.0) })
    };
    bounds.filter_map(stretch).collect()
}

/// One pair of parameters.
#[derive(Clone, Copy, Debug)]
struct Hypothesis {
    /// Logarithm of its posterior probability, up to a constant.
    log_weight: f64,
    /// Standard deviation of the level's average over the visits about its long-run mean.
    sd: f64,
}

/// All pairs of parameters with their weights.
fn hypotheses(stretches: &[Stretch]) -> Vec<Hypothesis> {
    let count = stretches.len() as f64;
    let total: f64 = stretches.iter().map(|stretch| stretch.ios).sum();
    let weights: Vec<f64> = stretches.iter().map(|stretch| stretch.ios / total).collect();
    // Variance of the noise of each, on average 1.
    let noise: Vec<f64> = stretches.iter().map(|stretch| 1.0 / stretch.ios).collect();
    let mean_noise = noise.iter().sum::<f64>() / count;
    let noise: Vec<f64> = noise.into_iter().map(|one| one / mean_noise).collect();
    let mut all = Vec::with_capacity(TAUS * SHARES.len());
    for tau in (0..TAUS).map(|power| TAU_MIN_S * f64::from(1u32 << power)) {
        let average = variance_of_average(stretches, &weights, tau);
        for share in SHARES {
            let fit = Fit::new(stretches, &noise, tau, share);
            let log_weight = -0.5 * (fit.log_det + fit.ones.ln()) - 0.5 * (count - 1.0) * fit.residual.ln();
            let sd = (fit.residual / (count - 1.0) * share * average).sqrt();
            all.push(Hypothesis { log_weight, sd });
        }
    }
    all
}

/// Variance of the weighted average of a level of variance 1.
fn variance_of_average(stretches: &[Stretch], weights: &[f64], tau_s: f64) -> f64 {
    // Each with all before it: what these add up to decays from one to the next.
    let (mut sum, mut before, mut last_s) = (0.0, 0.0, 0.0);
    for (stretch, weight) in stretches.iter().zip(weights) {
        before *= (-(stretch.at_s - last_s) / tau_s).exp();
        sum += weight * (weight + 2.0 * before);
        before += weight;
        last_s = stretch.at_s;
    }
    sum
}

/// The generalised least squares fit of a constant under one pair of parameters, by a Kalman filter: the level is
/// Markov, so that no matrix has to be inverted.
#[derive(Debug)]
struct Fit {
    /// Logarithm of the determinant of the covariance.
    log_det: f64,
    /// 1' C^-1 1.
    ones: f64,
    /// Weighted sum of squares about the fitted constant.
    residual: f64,
}

impl Fit {
    fn new(stretches: &[Stretch], noise: &[f64], tau_s: f64, share: f64) -> Self {
        let (mut log_det, mut ones, mut both, mut values) = (0.0, 0.0, 0.0, 0.0);
        // What is expected of the level, once for the values and once for the constant, and its variance.
        let (mut of_values, mut of_ones, mut variance, mut last_s) = (0.0, 0.0, share, f64::NEG_INFINITY);
        for (stretch, noise) in stretches.iter().zip(noise) {
            let keeps = (-(stretch.at_s - last_s) / tau_s).exp();
            (of_values, of_ones) = (keeps * of_values, keeps * of_ones);
            variance = keeps * keeps * variance + (1.0 - keeps * keeps) * share;
            let (new_value, new_one) = (stretch.log - of_values, 1.0 - of_ones);
            let expected = variance + (1.0 - share) * noise;
            log_det += expected.ln();
            ones += new_one * new_one / expected;
            both += new_one * new_value / expected;
            values += new_value * new_value / expected;
            let gain = variance / expected;
            (of_values, of_ones) = (of_values + gain * new_value, of_ones + gain * new_one);
            variance *= 1.0 - gain;
            last_s = stretch.at_s;
        }
        // All alike: nothing moves, and the logarithm of the sum stays finite.
        Self { log_det, ones, residual: (values - both * both / ones).max(1e-12) }
    }
}

/// Where the mixture of Student's t with `df` degrees of freedom leaves 2.5 % on each side.
fn mixture_half_width(all: &[Hypothesis], df: f64) -> f64 {
    let most = all.iter().map(|one| one.log_weight).fold(f64::NEG_INFINITY, f64::max);
    let weighted: Vec<(f64, f64)> = all.iter().map(|one| ((one.log_weight - most).exp(), one.sd)).collect();
    let total: f64 = weighted.iter().map(|(weight, _)| weight).sum();
    let Ok(t) = StudentsT::new(0.0, 1.0, df) else { return f64::INFINITY };
    let beyond = |half: f64| {
        let tail = |(weight, sd): &(f64, f64)| if *sd > 0.0 { weight * t.cdf(-half / sd) } else { 0.0 };
        weighted.iter().map(tail).sum::<f64>() / total
    };
    let widest = weighted.iter().map(|(_, sd)| *sd).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, 10.0 * widest);
    for _ in 0..40 {
        let middle = 0.5 * (low + high);
        if beyond(middle) > 0.025 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    /// Twelve visits of 1 s, 4 s apart, cut into eight stretches each: a level of this spread and memory, and noise.
    fn visits(random: &mut Random, sigma: f64, tau_s: f64, noise: f64) -> (Vec<Stretch>, f64) {
        let mut level = sigma * random.normal();
        let (mut stretches, mut last_s, mut sum) = (Vec::new(), 0.0, 0.0);
        for number in 0..96 {
            let at_s = f64::from(number / 8) * 4.0 + f64::from(number % 8) / 8.0;
            let keeps = (-(at_s - last_s) / tau_s).exp();
            level = keeps * level + (1.0 - keeps * keeps).sqrt() * sigma * random.normal();
            stretches.push(Stretch { at_s, log: 12.0 + level + noise * random.normal(), ios: 100.0 });
            (last_s, sum) = (at_s, sum + level);
        }
        (stretches, sum / 96.0)
    }

    fn half_width_of(stretches: &[Stretch]) -> f64 {
        mixture_half_width(&hypotheses(stretches), 95.0)
    }

    /// The claim itself: how often the level's average lies within its half width, from a level that forgets itself
    /// within a visit to one that lasts as long as the run.
    #[test]
    fn the_half_width_holds_the_levels_average() {
        let mut random = Random::new(11);
        for tau_s in [0.3, 1.0, 3.0, 10.0, 30.0] {
            let runs = 200;
            let held = (0..runs).filter(|_| {
                let (stretches, average) = visits(&mut random, 0.2, tau_s, 0.02);
                average.abs() <= half_width_of(&stretches)
            });
            let held = held.count();
            // Of 95 %, less two standard errors and what a level as long as the run costs.
            assert!(held >= 178, "tau {tau_s} s: {held} of {runs}");
        }
    }

    #[test]
    fn a_level_that_does_not_move_adds_next_to_nothing() {
        let mut random = Random::new(12);
        let widths: Vec<f64> = (0..20).map(|_| half_width_of(&visits(&mut random, 0.0, 1.0, 0.02).0)).collect();
        // The noise of the average alone is 0.002.
        assert!(widths.iter().all(|width| *width < 0.03), "{widths:?}");
        let same: Vec<Stretch> = (0..96).map(|at| Stretch { at_s: f64::from(at), log: 12.0, ios: 100.0 }).collect();
        assert!(half_width_of(&same) < 1e-5, "{}", half_width_of(&same));
    }

    #[test]
    fn a_level_that_lasts_longer_is_known_worse() {
        let mut random = Random::new(13);
        let mut median = |tau_s| {
            let mut widths: Vec<f64> =
                (0..41).map(|_| half_width_of(&visits(&mut random, 0.2, tau_s, 0.02).0)).collect();
            widths.sort_by(f64::total_cmp);
            widths[20]
        };
        let (short, long) = (median(0.3), median(10.0));
        assert!(long > 1.5 * short, "{short} {long}");
        // Twelve independent visits alone would say 0.13.
        assert!(long > 0.2, "{long}");
    }
}
