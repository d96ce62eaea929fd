//! The uncertainty of a step measured in visits about the time between and around them.
//!
//! A disk has a *level*, with which all its latencies rise and fall together: neighbours, temperature, garbage
//! collection. It moves over fractions of a second or over minutes. The dependence within a visit is known from its
//! neighbouring intervals (see `long_run.rs`); how far the level of these visits lies from that of the long run is the
//! question here, and a variance between twelve visits would answer it only if the level had become independent from
//! one visit to the next.
//!
//! So the logarithm of the median latency (or of the rate) in short stretches of all visits is taken as a mean, plus a
//! level that is a stationary Gaussian process with correlation exp(-distance / tau) (Ornstein-Uhlenbeck) and standard
//! deviation sigma, plus independent noise. None of them is estimated: each pair of tau and sigma on a grid is weighted
//! by its posterior probability, mean and noise integrated out (flat, and 1 / scale: the marginal likelihood of
//! Gaussian regression, O'Hagan and Forster 2004, Bayesian Inference, section 11.3). For each pair the average of the
//! level over the visits misses its long-run mean by a normal error; their mixture gives the half width.
//!
//! Steps of a run share the disk. What the others' stretches show about tau and sigma is the prior of a step, mixed
//! with a vague one in case its own level behaves differently (a robust meta-analytic-predictive prior: Schmidli et al.
//! 2014, Biometrics 70, 1023). So a step with a single visit, whose own stretches say little, has the spread of the
//! others between theirs.

use std::ops::Range;
use std::sync::LazyLock;

use statrs::distribution::{ContinuousCDF, Normal};
use statrs::function::gamma::ln_gamma;

use qd1_model::Estimate;

use crate::long_run::Z_975;
use crate::series::Series;

/// Number of stretches into which all visits together are cut.
const STRETCHES: usize = 96;
/// Fewest stretches that show anything about a level.
const STRETCHES_MIN: usize = 10;
/// Fewest operations of a stretch with a median.
const OPS_MIN: f64 = 4.0;
/// Operations per stretch at which visits with few of them are cut: their numbers vary.
const OPS_AIMED: f64 = 6.0;
/// Times over which the level becomes independent, s: from a stretch to the length of a check, each twice the one
/// before.
const TAU_MIN_S: f64 = 0.1;
const TAUS: usize = 11;
/// Standard deviations of the level, as logarithms: each a factor of the square root of 2 above the one before.
const SIGMA_MIN: f64 = 0.002;
const SIGMAS: usize = 20;
/// Log odds of the level's share in the variance of a stretch, at which the noise is integrated over: to either side, and
/// their distance.
const ODDS: i32 = 24;
const ODDS_STEP: f64 = 1.0 / 3.0;
/// The prior before any stretch is seen: that the level does not move at all; else its standard deviation is log-normal
/// about a tenth.
const STILL: f64 = 0.3;
const SIGMA_USUAL: f64 = 0.1;
const SIGMA_SPREAD: f64 = 1.2;
/// Weight of what the other steps show, relative to the vague prior.
const SHARED: f64 = 0.8;
/// Power of the others' likelihoods: they met the same course of the level, and are not independent.
const OTHERS_POWER: f64 = 0.3;
/// A negligible probability: all pairs of the grid together would not move the half width by a thousandth.
const NONE: f64 = 1e-8;

/// Number of variants of [`Of`].
pub(crate) const FIGURES: usize = 3;

/// A figure that moves with the level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    /// Median latency.
    Latency,
    /// Latencies above the median.
    Tail,
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

/// Probabilities of all pairs of parameters: first that the level does not move, then each tau with each sigma.
#[derive(Clone, Debug)]
pub struct Belief {
    weights: Vec<f64>,
    /// The probabilities by other steps only, if they contributed.
    theirs: Option<Vec<f64>>,
    /// Whether the level of the step's median and rate moves independently of the others'.
    is_apart: bool,
}

static VAGUE: LazyLock<Belief> = LazyLock::new(|| {
    let shape = |number: usize| {
        let off = (sigma(number) / SIGMA_USUAL).ln() / SIGMA_SPREAD;
        (-0.5 * off * off).exp()
    };
    let total: f64 = (0..SIGMAS).map(shape).sum::<f64>() * TAUS as f64;
    let moving = (0..TAUS).flat_map(|_| (0..SIGMAS).map(|number| (1.0 - STILL) * shape(number) / total));
    Belief { weights: std::iter::once(STILL).chain(moving).collect(), theirs: None, is_apart: false }
});

fn sigma(number: usize) -> f64 {
    SIGMA_MIN * 2f64.powf(0.5 * number as f64)
}

impl Belief {
    /// What is known about a disk that was not observed.
    pub(crate) fn vague() -> &'static Self {
        &VAGUE
    }

    /// What is known about a step from the other steps of its run.
    pub(crate) fn from_others<'a>(others: impl IntoIterator<Item = &'a Evidence>) -> Self {
        let mut sum = vec![0.0; VAGUE.weights.len()];
        let mut is_informed = false;
        for evidence in others {
            sum.iter_mut().zip(&evidence.logs).for_each(|(sum, log)| *sum += OTHERS_POWER * log);
            is_informed = true;
        }
        let theirs = given(&VAGUE.weights, &sum);
        let mixed = theirs.iter().zip(&VAGUE.weights).map(|(theirs, vague)| SHARED * theirs + (1.0 - SHARED) * vague);
        Self { weights: mixed.collect(), theirs: is_informed.then_some(theirs), is_apart: false }
    }

    /// Whether the median and rate of the step do not move like those of others.
    pub(crate) fn is_apart(&self) -> bool {
        self.is_apart
    }

    /// The same for a step whose median and rate do not move like those of others.
    pub(crate) fn apart(self) -> Self {
        Self { is_apart: true, ..self }
    }

    /// The half widths of a step's latencies, over the time of `around`: see [`Belief::half_width`].
    pub(crate) fn widths(&self, own: &Series, around: &Series) -> Widths {
        let of = |of: Of| self.half_width(own, of, around);
        let median = of(Of::Latency);
        if !self.is_apart {
            return Widths { median, tail: median, mean: median };
        }
        // The mean under a limit is known as well as the rate, and better than a median within a bin.
        Widths { median, tail: of(Of::Tail), mean: of(Of::Rate) }
    }

    /// Half width of the 95 % interval of the level's average over the time of `around` about its long-run mean, as a
    /// logarithm, given what is known about the level of `own`, of which `around` has at least the time; 0 for a
    /// sample, which describes its own span, and for a step that was measured in one go, unless other steps show the
    /// level.
    ///
    /// A single visit in which nothing moves proves nothing: a disk that is slow for seconds now and then looks the
    /// same. So the width shown by the others is the minimum for a step with one visit.
    pub(crate) fn half_width(&self, own: &Series, of: Of, around: &Series) -> f64 {
        if own.is_sample() || own.visits().len() < 2 && self.theirs.is_none() {
            return 0.0;
        }
        let is_apart = self.is_apart && of != Of::Tail;
        let times = times(around);
        let before = if is_apart { &VAGUE.weights } else { &self.weights };
        let known = own.evidence(of).map(|evidence| over(&given(before, &evidence.logs), &times));
        if own.visits().len() > 1 {
            return known.unwrap_or(f64::INFINITY);
        }
        let theirs = self.theirs.as_ref().filter(|_| !is_apart).map_or(0.0, |theirs| over(theirs, &times));
        theirs.max(known.unwrap_or(0.0))
    }
}

/// Half widths that the level adds to the latencies of a step, as logarithms.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Widths {
    median: f64,
    tail: f64,
    pub(crate) mean: f64,
}

impl Widths {
    pub(crate) fn of_quantile(self, q: f64) -> f64 {
        if q > 0.5 { self.tail } else { self.median }
    }
}

/// Times, s, and operations of each batch.
fn times(series: &Series) -> Vec<(f64, f64)> {
    let batches = series.batches().iter().enumerate();
    batches.map(|(at, batch)| (series.middle_ns(at..at + 1) / 1e9, batch.ios)).collect()
}

/// Probabilities given these logarithms of likelihoods.
fn given(before: &[f64], logs: &[f64]) -> Vec<f64> {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let weights: Vec<f64> = before.iter().zip(logs).map(|(weight, log)| weight * (log - most).exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / total).collect()
}

/// Half width of the 95 % interval of the level's average over these times, s, with their weights, as a logarithm.
fn over(probabilities: &[f64], times: &[(f64, f64)]) -> f64 {
    let mut moving: Vec<(f64, f64)> = Vec::new();
    // From the longest time down: the correlation over a time is the square of that over half of it.
    let mut keeps = keeps(times.iter().map(|(at_s, _)| *at_s), tau_s(TAUS - 1));
    for of_sigmas in probabilities[1..].chunks_exact(SIGMAS).rev() {
        if of_sigmas.iter().any(|one| *one > NONE) {
            let average = variance_of_average(times, &keeps).sqrt();
            let of_sigmas = of_sigmas.iter().enumerate().filter(|(_, probability)| **probability > NONE);
            moving.extend(of_sigmas.map(|(number, probability)| (*probability, sigma(number) * average)));
        }
        keeps.iter_mut().for_each(|keeps| *keeps = if *keeps > KEEPS_MIN { *keeps * *keeps } else { 0.0 });
    }
    mixture_half_width(&moving)
}

/// Correlation below which the level counts as independent.
const KEEPS_MIN: f64 = 1e-100;

/// The correlation of the level at each of these times, s, with the one before; for the first, with the beginning.
fn keeps(times_s: impl Iterator<Item = f64>, tau_s: f64) -> Vec<f64> {
    let mut before_s = 0.0;
    times_s.map(|at_s| (-(at_s - std::mem::replace(&mut before_s, at_s)) / tau_s).exp()).collect()
}

fn tau_s(power: usize) -> f64 {
    TAU_MIN_S * f64::from(1u32 << power)
}

/// Quantile `q` of the visits, widened to the possible values in the long run: by the level, and upwards by what these
/// visits did not see of it.
///
/// The long run mixes more levels than a short one, and the slowest ones make up its tail. The quantile over the median
/// gives the spread seen; the part of the level's spread that was not seen is that of its average, in `half_width`.
/// Spreads add as variances (all taken as log-normal).
pub(crate) fn beyond(quantile: Estimate, median_ns: f64, q: f64, half_width: f64) -> Estimate {
    let estimate = crate::estimate::widened(quantile, half_width);
    let z = Normal::standard().inverse_cdf(q);
    let (Some(value), Some(high)) = (estimate.value, estimate.high) else { return estimate };
    if z <= 0.0 || half_width == 0.0 {
        return estimate;
    }
    let seen = ((value / median_ns.max(1.0)).ln() / z).max(0.0);
    let further = z * (seen.hypot(half_width / Z_975) - seen);
    Estimate { high: Some(high * further.exp()), ..estimate }
}

/// Cuts a visit, a range of batches, into at most `most` stretches of a similar number of batches; fewer if a disk is
/// so slow that they would have no median.
fn cut(series: &Series, visit: Range<usize>, most: usize, of: Of) -> Vec<Stretch> {
    let all_ios: f64 = series.batches()[visit.clone()].iter().map(|batch| batch.ios).sum();
    let most = if of != Of::Rate { most.min((all_ios / OPS_AIMED) as usize).max(1) } else { most };
    let size = visit.len().div_ceil(most).max(1);
    let bounds = visit.clone().step_by(size).map(|from| from..(from + size).min(visit.end));
    let stretch = |range: Range<usize>| {
        let part = &series.batches()[range.clone()];
        let ios: f64 = part.iter().map(|batch| batch.ios).sum();
        let length_ns: f64 = part.iter().map(|batch| batch.length_ns).sum();
        let log = match of {
            Of::Latency | Of::Tail if ios >= OPS_MIN => series.median_of(range.clone())?.ln(),
            Of::Latency | Of::Tail => return None,
            Of::Rate => (ios.max(0.5) / length_ns.max(1.0)).ln(),
        };
        Some(Stretch { at_s: series.middle_ns(range) / 1e9, log, ios: ios.max(1.0) })
    };
    bounds.filter_map(stretch).collect()
}

/// What the stretches of one step show: the logarithm of the likelihood of each pair of parameters, up to a constant.
#[derive(Clone, Debug)]
pub(crate) struct Evidence {
    logs: Vec<f64>,
}

impl Evidence {
    /// From the visits of `series`; `None` if there are too few.
    pub(crate) fn new(series: &Series, of: Of) -> Option<Self> {
        let visits = series.visits();
        let each = STRETCHES.div_ceil(visits.len().max(1));
        let stretches: Vec<Stretch> = visits.iter().flat_map(|visit| cut(series, visit.clone(), each, of)).collect();
        (stretches.len() >= STRETCHES_MIN).then(|| Self::of_stretches(&stretches))
    }

    fn of_stretches(stretches: &[Stretch]) -> Self {
        let count = stretches.len() as f64;
        // Variance of the noise of each, on average 1.
        let noise: Vec<f64> = stretches.iter().map(|stretch| 1.0 / stretch.ios).collect();
        let mean_noise = noise.iter().sum::<f64>() / count;
        let noise: Vec<f64> = noise.into_iter().map(|one| one / mean_noise).collect();
        let half_df = 0.5 * (count - 1.0);
        let [still, ..] = Fit::at_shares(stretches, &noise, &vec![0.0; stretches.len()], [0.0; LANES]);
        let mut logs =
            vec![ln_gamma(half_df) - half_df * (0.5 * still.residual).ln() - still.log_rest() - ODDS_STEP.ln()];
        for power in 0..TAUS {
            let keeps = keeps(stretches.iter().map(|stretch| stretch.at_s), tau_s(power));
            // For each share, the part of the likelihood that does not depend on sigma.
            let fits: Vec<(f64, f64, Fit)> = (-ODDS..=ODDS)
                .step_by(LANES)
                .flat_map(|first| {
                    let odds = |lane: usize| f64::from(first + lane as i32) * ODDS_STEP;
                    let shares: [f64; LANES] = std::array::from_fn(|lane| 1.0 / (1.0 + (-odds(lane)).exp()));
                    let fits = Fit::at_shares(stretches, &noise, &keeps, shares);
                    shares.into_iter().zip(fits).map(|(share, fit)| (share, half_df * share.ln() - fit.log_rest(), fit))
                })
                .take(ODDS as usize * 2 + 1)
                .collect();
            logs.extend((0..SIGMAS).map(|number| {
                let variance = sigma(number).powi(2);
                let at = |(share, rest, fit): &(f64, f64, Fit)| rest - 0.5 * fit.residual * share / variance;
                log_sum(&fits.iter().map(at).collect::<Vec<_>>()) - half_df * variance.ln()
            }));
        }
        Self { logs }
    }
}

/// Logarithm of the sum of the values with these logarithms.
fn log_sum(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + logs.iter().map(|log| (log - most).exp()).sum::<f64>().ln()
}

/// Variance of the average of a level of variance 1 at these times with their weights, with the correlations `keeps`
/// from one to the next.
fn variance_of_average(times: &[(f64, f64)], keeps: &[f64]) -> f64 {
    // Each with all before it: their sum decays from one to the next.
    let (mut sum, mut before) = (0.0, 0.0);
    for ((_, weight), keeps) in times.iter().zip(keeps) {
        before *= keeps;
        sum += weight * (weight + 2.0 * before);
        before += weight;
    }
    let total: f64 = times.iter().map(|(_, weight)| weight).sum();
    if total > 0.0 { sum / (total * total) } else { 1.0 }
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
    /// For each of these shares of the level in the variance. `keeps`: the correlation of the level of each stretch
    /// with the one before.
    fn at_shares(stretches: &[Stretch], noise: &[f64], keeps: &[f64], shares: [f64; LANES]) -> [Self; LANES] {
        let mut filters = shares.map(Filter::new);
        for ((stretch, noise), keeps) in stretches.iter().zip(noise).zip(keeps) {
            filters.iter_mut().for_each(|filter| filter.step(stretch.log, *noise, *keeps));
        }
        filters.map(Filter::end)
    }

    /// The part of the likelihood that does not depend on the scale, as a logarithm.
    fn log_rest(&self) -> f64 {
        0.5 * (self.log_det + self.ones.ln())
    }
}

/// Number of shares of the level fitted in parallel: each step of one waits for the step before it, but not for the
/// others.
const LANES: usize = 7;

/// The state of the filter.
#[derive(Clone, Copy, Debug)]
struct Filter {
    share: f64,
    log_det: f64,
    det: f64,
    ones: f64,
    both: f64,
    values: f64,
    /// What is expected of the level, once for the values and once for the constant, and its variance.
    of_values: f64,
    of_ones: f64,
    variance: f64,
}

impl Filter {
    const fn new(share: f64) -> Self {
        let (ones, both, values, of_values, of_ones) = (0.0, 0.0, 0.0, 0.0, 0.0);
        Self { share, log_det: 0.0, det: 1.0, ones, both, values, of_values, of_ones, variance: share }
    }

    #[inline(always)]
    fn step(&mut self, log: f64, noise: f64, keeps: f64) {
        let (of_values, of_ones) = (keeps * self.of_values, keeps * self.of_ones);
        let variance = keeps * keeps * self.variance + (1.0 - keeps * keeps) * self.share;
        let (new_value, new_one) = (log - of_values, 1.0 - of_ones);
        let expected = variance + (1.0 - self.share) * noise;
        let precision = expected.recip();
        self.det *= expected;
        // A logarithm takes longer than everything else here, and the product must not overflow.
        if !(1e-200..1e200).contains(&self.det) {
            self.log_det += self.det.ln();
            self.det = 1.0;
        }
        self.ones += new_one * new_one * precision;
        self.both += new_one * new_value * precision;
        self.values += new_value * new_value * precision;
        let gain = variance * precision;
        (self.of_values, self.of_ones) = (of_values + gain * new_value, of_ones + gain * new_one);
        self.variance = variance * (1.0 - gain);
    }

    fn end(self) -> Fit {
        let log_det = self.log_det + self.det.ln();
        // All equal: nothing moves, and the logarithm of the sum stays finite.
        Fit { log_det, ones: self.ones, residual: (self.values - self.both * self.both / self.ones).max(1e-12) }
    }
}

/// Relative precision of a half width, and a half width that counts as zero.
const HALF_WIDTH_ACCURACY: f64 = 1e-6;
const HALF_WIDTH_LEAST: f64 = 1e-3;

/// Where a mixture of normal distributions about 0, each with its weight and standard deviation, leaves 2.5 % on each
/// side.
fn mixture_half_width(all: &[(f64, f64)]) -> f64 {
    let normal = Normal::standard();
    let beyond = |half: f64| all.iter().map(|(weight, sd)| weight * normal.cdf(-half / sd)).sum::<f64>();
    let widest = all.iter().map(|(_, sd)| *sd).fold(0.0, f64::max);
    let (mut low, mut high) = (0.0, 10.0 * widest);
    while high - low > HALF_WIDTH_ACCURACY * high.max(HALF_WIDTH_LEAST) {
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
        let known = given(&VAGUE.weights, &Evidence::of_stretches(stretches).logs);
        over(&known, &stretches.iter().map(|stretch| (stretch.at_s, stretch.ios)).collect::<Vec<_>>())
    }

    /// The claim itself: how often the level's average lies within its half width, from a level that becomes
    /// independent within a visit to one that lasts as long as the run.
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
            // 95 %, minus two standard errors and the effect of a level as long as the run.
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
        // Twelve independent visits alone would give 0.13.
        assert!(long > 0.2, "{long}");
    }

    /// What four other steps of a run show, each with visits of its own of the same disk.
    fn others(random: &mut Random, sigma: f64, tau_s: f64) -> Belief {
        let evidence: Vec<Evidence> =
            (0..4).map(|_| Evidence::of_stretches(&visits(random, sigma, tau_s, 0.02).0)).collect();
        Belief::from_others(&evidence)
    }

    /// Half width of a visit of 4 s, by the others only.
    fn of_one_visit(belief: &Belief) -> f64 {
        let times: Vec<(f64, f64)> = (0..40).map(|at| (f64::from(at) / 10.0, 1.0)).collect();
        over(belief.theirs.as_ref().unwrap(), &times)
    }

    /// The average of a level over 4 s has a known distribution: the half width from others comes near 1.96 of its
    /// deviations.
    #[test]
    fn a_step_with_one_visit_has_the_spread_of_the_others() {
        let mut random = Random::new(14);
        for tau_s in [0.3, 1.0, 3.0, 10.0] {
            let ratio_of = |belief: &Belief| {
                let x = 4.0 / tau_s;
                let truth = 0.2 * (2.0 / x * (1.0 - (1.0 - f64::exp(-x)) / x)).sqrt();
                of_one_visit(belief) / (Z_975 * truth)
            };
            let mut ratios: Vec<f64> = (0..15).map(|_| ratio_of(&others(&mut random, 0.2, tau_s))).collect();
            ratios.sort_by(f64::total_cmp);
            assert!((0.8..1.7).contains(&ratios[7]), "tau {tau_s} s: {ratios:?}");
        }
        let still = of_one_visit(&others(&mut random, 0.0, 1.0));
        assert!(still < 0.03, "{still}");
    }

    #[test]
    fn what_others_saw_makes_a_half_width_sharper_and_the_own_still_decides() {
        let mut random = Random::new(15);
        let of = |belief: &Belief, stretches: &[Stretch]| {
            let times: Vec<(f64, f64)> = stretches.iter().map(|stretch| (stretch.at_s, stretch.ios)).collect();
            over(&given(&belief.weights, &Evidence::of_stretches(stretches).logs), &times)
        };
        let still = others(&mut random, 0.0, 1.0);
        let (mut among, mut alone) = (0.0, 0.0);
        for _ in 0..20 {
            let own = visits(&mut random, 0.0, 1.0, 0.02).0;
            (among, alone) = (among + of(&still, &own), alone + half_width_of(&own));
        }
        assert!(among < 0.95 * alone, "{among} {alone}");
        // A step that moves on a disk where the others do not keeps its own width.
        let moving = visits(&mut random, 0.2, 3.0, 0.02).0;
        let (alone, among) = (half_width_of(&moving), of(&still, &moving));
        assert!(among > 0.8 * alone, "{among} {alone}");
    }
}
