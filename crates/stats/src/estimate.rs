//! Estimates with 95 % confidence intervals that hold for dependent samples.
//!
//! Every figure is a ratio of two sums over the intervals of a step: R = sum x / sum y. Its variance is that of the
//! residuals x_i - R y_i, long-run (see `long_run.rs`), over (sum y)^2. For a quantile, x counts the operations above
//! it and y all of them; the ratio of the long-run variance to that of independent samples is the *variance inflation
//! factor* VIF, and n / VIF the effective number of samples, from which order-statistic ranks are taken (see
//! `rank.rs`). A figure that depends on few slow phases or stalls gets a wide interval, however many operations there
//! are (see `episodes.rs`). How well all this works is measured in the `truth` crate (`coverage`), as is the effect of
//! checking every 500 ms and stopping when [`precise_enough`] is true, which does no harm.

use std::rc::Rc;

use qd1_model::op::OpClass;
use qd1_model::record::Interval;
use qd1_model::{Estimate, Hist};

use crate::episodes::EpisodeBasis;
use crate::invert::{self, Side};
use crate::level::{self, Belief, Widths};
use crate::long_run::{LongRun, Z_975, t_975};
use crate::rank;
use crate::series::{Quantity, Series};

/// Operations beyond a quantile from which its VIF is estimated. A rarer quantile uses the VIF of the quantile that has
/// as many: a handful of exceedances says little about how they cluster, and runs in which they happen not to cluster
/// would be the ones that resolve it.
const PILOT_EXCEEDANCES: f64 = 60.0;

/// VIF from which operations that all lie in one bin are considered dependent.
const VIF_DOUBTFUL: f64 = 2.0;
/// A mean or rate with an uncertainty of this factor or more is not resolved.
const FACTOR_MAX: f64 = 10.0;
/// Smallest number of degrees of freedom that few residuals leave.
const FEWEST: f64 = 2.0;
/// Standard deviations of its own estimate by which the VIF of a rare quantile must exceed the pilot's to be used.
const EXCESS_SIGMA: f64 = 1.5;

/// Quantile `q` (0..1) of `hist`, whose operations of `class` are spread over time as in `intervals`, ns.
///
/// The value is that at rank ceil(q n), as fio and HdrHistogram take it. Not resolved (no value, `n_needed` given) when
/// the effective number of samples is so small that the interval's upper limit would lie beyond the largest value seen:
/// 6 for the median, 368 for p99, 3,688 for p99.9 (see `rank.rs` and, for dependent samples, `invert.rs`); when there
/// are fewer than four intervals, so that nothing is known about autocorrelation. A quantile that depends on few slow
/// phases has a wide interval (see `episodes.rs`). If not resolved, `low` is still given if there is one: a lower bound
/// may be enough to fail a disk.
#[must_use]
pub fn quantile(hist: &Hist, intervals: &[Interval], class: OpClass, q: f64) -> Estimate {
    Quantiles::new(hist, intervals, class).at(q)
}

/// Several quantiles of one stream, whose histogram and intervals are traversed only once.
pub struct Quantiles {
    sorted: Sorted,
    n: u64,
    course: Rc<Course>,
}

/// The course of a stream over time, shared by its operations and each part of them.
struct Course {
    series: Series,
    widths: Widths,
}

impl Quantiles {
    /// Prepares for [`quantile`] of `hist`.
    #[must_use]
    pub fn new(hist: &Hist, intervals: &[Interval], class: OpClass) -> Self {
        Self::knowing(Belief::vague(), hist, Series::while_active(intervals, class))
    }

    /// The same, using what other steps of the run show about the level.
    pub fn knowing(belief: &Belief, hist: &Hist, series: Series) -> Self {
        let widths = belief.widths(&series, &series);
        Self { sorted: Sorted::new(hist), n: hist.count(), course: Rc::new(Course { series, widths }) }
    }

    /// Returns the course of the stream over time.
    #[must_use]
    pub fn series(&self) -> &Series {
        &self.course.series
    }

    /// The same for a part of each operation (the sync part of commits, or all but waits): `part` holds a value for
    /// each, and shares the dependence over time of the whole.
    #[must_use]
    pub fn of_part(&self, part: &Hist) -> Self {
        Self { sorted: Sorted::new(part), n: part.count(), course: Rc::clone(&self.course) }
    }

    /// Returns [`mean`] of `hist`, whose quantiles these are.
    #[must_use]
    pub fn mean(&self, hist: &Hist) -> Estimate {
        mean_of(&self.course.series, self.course.widths.mean, hist)
    }

    /// Returns [`quantile`] `q`.
    #[must_use]
    pub fn at(&self, q: f64) -> Estimate {
        let Course { series, widths } = &*self.course;
        let within = quantile_of(series, self.n, q, |rank| self.sorted.at(rank));
        level::beyond(within, self.sorted.at(0.5 * self.n as f64), q, widths.of_quantile(q))
    }

    /// Returns a lower bound of the median, and so of all higher quantiles, if there are too few operations to know
    /// more: the smallest of the medians of the visits, which are separate (a sign test); `None` for too few visits.
    #[must_use]
    pub fn least_of_visits(&self) -> Option<f64> {
        let series = &self.course.series;
        let medians: Vec<f64> = series.visits().into_iter().filter_map(|visit| series.median_of(visit)).collect();
        medians.iter().copied().reduce(f64::min).filter(|_| medians.len() >= VISITS_MIN)
    }
}

/// Fewest visits whose smallest median bounds the median: the chance that all six lie above it is 1.6 %.
const VISITS_MIN: usize = 6;

/// Quantile `q` of a part of each operation (the sync part of commits): `part` holds one value for each
/// operation of `class`, and shares the dependence over time of the whole.
#[must_use]
pub fn quantile_of_part(part: &Hist, intervals: &[Interval], class: OpClass, q: f64) -> Estimate {
    quantile(part, intervals, class, q)
}

/// [`quantile`] from the intervals alone, whose bins are 6.25 % wide; for a run in progress. Interpolates inside
/// the bin.
#[must_use]
pub fn quantile_coarse(intervals: &[Interval], class: OpClass, q: f64) -> Estimate {
    let series = Series::while_active(intervals, class);
    quantile_of(&series, series.n, q, |rank| series.at_rank(rank))
}

/// Mean latency of `class`, ns: sum of latencies over operations. `hist` gives the exact mean.
#[must_use]
pub fn mean(hist: &Hist, intervals: &[Interval], class: OpClass) -> Estimate {
    let series = Series::while_active(intervals, class);
    mean_of(&series, Belief::vague().widths(&series, &series).mean, hist)
}

fn mean_of(series: &Series, width: f64, hist: &Hist) -> Estimate {
    let mut estimate = widened(ratio(series, Quantity::LatSum, Quantity::Ios), width);
    if hist.count() > 0 && estimate.is_resolved() {
        let n = hist.count() as f64;
        estimate.n = hist.count();
        estimate.value = Some(hist.mean_ns());
        estimate.n_effective = match half_width(&estimate) {
            Some(half) if half > 0.0 => (hist.stdev_ns() * Z_975 / half).powi(2).min(n),
            _ => n,
        };
    }
    estimate
}

/// Operations of `class` per second.
#[must_use]
pub fn rate(intervals: &[Interval], class: OpClass) -> Estimate {
    let [ios] = per_second(Belief::vague(), intervals, class, [Quantity::Ios]);
    ios
}

/// [`rate`] and [`byte_rate`] using what other steps of the run show about the level.
#[must_use]
pub fn rates_knowing(belief: &Belief, intervals: &[Interval], class: OpClass) -> [Estimate; 2] {
    per_second(belief, intervals, class, [Quantity::Ios, Quantity::Bytes])
}

/// Operations of `class` per second of their own time, for steps in which one worker does different things one
/// after another (create, then stat, then delete): operations over the sum of their latencies.
#[must_use]
pub fn rate_of_own_time(intervals: &[Interval], class: OpClass) -> Estimate {
    let series = Series::while_active(intervals, class);
    scaled(ratio(&series, Quantity::Ios, Quantity::LatSum), 1e9)
}

/// Bytes moved by `class` per second.
#[must_use]
pub fn byte_rate(intervals: &[Interval], class: OpClass) -> Estimate {
    let [bytes] = per_second(Belief::vague(), intervals, class, [Quantity::Bytes]);
    bytes
}

/// Quantities per second.
fn per_second<const N: usize>(
    belief: &Belief,
    intervals: &[Interval],
    class: OpClass,
    quantities: [Quantity; N],
) -> [Estimate; N] {
    let series = Series::new(intervals, class);
    let width = belief.half_width(&series, level::Of::Rate, &series);
    quantities.map(|quantity| scaled(widened(ratio(&series, quantity, Quantity::Length), width), 1e9))
}

/// An interval combined with one more independent error of the logarithm, whose 95 % half width is `level`. Not
/// resolved if that alone is more than a factor of ten.
pub(crate) fn widened(estimate: Estimate, level: f64) -> Estimate {
    if level == 0.0 {
        return estimate;
    }
    if level > FACTOR_MAX.ln() {
        let longer = if level.is_finite() { (level / FACTOR_MAX.ln()).powi(2) } else { 4.0 };
        let n_needed = (estimate.n.max(1) as f64 * longer).ceil().max(estimate.n_needed as f64) as u64;
        let low = estimate.low.map(|low| low * (-level).exp()).filter(|low| *low > 0.0);
        return Estimate { n: estimate.n, n_needed, low, ..Estimate::default() };
    }
    let Some(value) = estimate.value.filter(|value| *value > 0.0) else {
        return Estimate { low: estimate.low.map(|low| low * (-level).exp()), ..estimate };
    };
    let joined = |limit: f64| (limit / value).ln().hypot(level);
    let low = estimate.low.map(|low| value * (-joined(low)).exp());
    let high = estimate.high.map(|high| value * joined(high).exp());
    with_limits(estimate, low, high)
}

/// `estimate` with wider limits, and correspondingly fewer effective samples.
pub(crate) fn with_limits(estimate: Estimate, low: Option<f64>, high: Option<f64>) -> Estimate {
    let width = |low: Option<f64>, high: Option<f64>| Some((high? / low?).ln());
    let narrower = match (width(estimate.low, estimate.high), width(low, high)) {
        (Some(before), Some(now)) if before.is_finite() && now > 0.0 => (before / now).powi(2),
        _ => 1.0,
    };
    Estimate { low, high, n_effective: estimate.n_effective * narrower, ..estimate }
}

/// Whether the half width of the interval is at most `tolerance` times the value; never if it is not resolved, so that
/// a run which has met a few stalls goes on until it has met enough of them, or its time is up.
#[must_use]
pub fn precise_enough(estimate: &Estimate, tolerance: f64) -> bool {
    match (estimate.value, half_width(estimate)) {
        (Some(value), Some(half)) => value > 0.0 && half <= tolerance * value,
        _ => false,
    }
}

/// Standard deviation of the logarithm, from the interval.
#[must_use]
pub fn sigma(estimate: &Estimate) -> Option<f64> {
    let (low, high) = (estimate.low?, estimate.high?);
    (low > 0.0 && high >= low).then(|| (high / low).ln() / (2.0 * Z_975))
}

/// Half the width of the interval.
fn half_width(estimate: &Estimate) -> Option<f64> {
    Some((estimate.high? - estimate.low?) / 2.0)
}

/// `estimate` times `factor`.
#[must_use]
pub fn scaled(estimate: Estimate, factor: f64) -> Estimate {
    let times = |value: Option<f64>| value.map(|v| v * factor);
    Estimate { value: times(estimate.value), low: times(estimate.low), high: times(estimate.high), ..estimate }
}

/// sum x / sum y with its interval; without one for fewer than four batches, without a value if it is known only within
/// a factor of ten.
///
/// The interval is symmetric in the logarithm (delta method: the error of ln R is that of R over R). Sums over slow
/// phases are skewed, as the logarithm is, and a mean latency and its inverse, the rate, get the same interval.
pub(crate) fn ratio(series: &Series, x: Quantity, y: Quantity) -> Estimate {
    let (x, y) = (series.each(x), series.each(y));
    let (n, total) = (series.n, y.iter().sum::<f64>());
    if n == 0 || total <= 0.0 {
        return Estimate { n_needed: 1, ..Estimate::default() };
    }
    let value = x.iter().sum::<f64>() / total;
    let residuals = residuals(&x, &y, value);
    let Some(mut run) = series.run(&residuals) else {
        return Estimate { value: Some(value), n, ..Estimate::default() };
    };
    run.df = run.df.min(few_that_weigh(&residuals));
    let relative = if value > 0.0 { run.variance.sqrt() / total / value } else { 0.0 };
    let n_effective = if relative > 0.0 { relative.powi(-2).min(n as f64) } else { n as f64 };
    let rests = ratio_basis(series, &residuals, run, x.iter().sum());
    let exponent = t_975(run.df.min(rests.degrees())).max(run.t_975() * rests.widen) * relative;
    let longer = (exponent / FACTOR_MAX.ln()).powi(2);
    if longer > 1.0 {
        let n_needed = (n as f64 * longer).ceil() as u64;
        return Estimate { n, n_effective, n_needed, ..Estimate::default() };
    }
    let factor = exponent.exp();
    Estimate { value: Some(value), low: Some(value / factor), high: Some(value * factor), n, n_effective, n_needed: 0 }
}

/// Degrees of freedom of a variance that few residuals determine: (sum d^2)^2 / sum d^4, as many as there would be of
/// equal size. Two stalls among hundreds of quiet moments say as much about future stalls as two numbers do.
fn few_that_weigh(residuals: &[f64]) -> f64 {
    let power = |of: i32| residuals.iter().map(|d| d.powi(of)).sum::<f64>();
    let (squares, fourths) = (power(2), power(4));
    if fourths > 0.0 { (squares * squares / fourths).max(FEWEST) } else { f64::INFINITY }
}

/// The episodes on which a ratio depends whose numerators add up to `sum`.
///
/// The operations beyond a level move a mean latency by the share of the latencies that they add beyond their own
/// number; and a rate, under closed load, by the same share (Little's law).
fn ratio_basis(series: &Series, residuals: &[f64], run: LongRun, sum: f64) -> EpisodeBasis {
    let (ios, latency) = series.above(0);
    let added = |level: usize| {
        let (above, slow) = series.above(level);
        sum * (slow / latency - above / ios)
    };
    series.episodes().under(residuals, run.t_975() * run.variance.sqrt(), f64::INFINITY, added)
}

/// x_i - `ratio` y_i.
pub(crate) fn residuals(x: &[f64], y: &[f64], ratio: f64) -> Vec<f64> {
    x.iter().zip(y).map(|(x, y)| x - ratio * y).collect()
}

/// By how much dependence inflates the variance of the share of operations above a quantile.
#[derive(Clone, Copy, Debug)]
struct Inflation {
    /// Compared with independent samples; at least 1.
    vif: f64,
    /// The same, widened for the uncertainty of its own estimate (t instead of normal); at least 1.
    vif_t: f64,
    /// Degrees of freedom of the estimate.
    df: f64,
}

impl Inflation {
    /// Widened for the episodes that the figure depends on.
    fn resting_on(self, rests: EpisodeBasis) -> f64 {
        let of_episodes = self.vif * (t_975(self.df.min(rests.degrees())) / Z_975).powi(2);
        of_episodes.max(self.vif_t * rests.widen.powi(2))
    }
}

/// The quantile through `value_at`, which maps a fractional rank of 1..=n to a latency.
pub(crate) fn quantile_of(series: &Series, n: u64, q: f64, value_at: impl Fn(f64) -> f64) -> Estimate {
    let needed = rank::samples_needed(q);
    if n == 0 {
        return Estimate { n_needed: needed as u64, ..Estimate::default() };
    }
    let count = n as f64;
    let Some(mut inflation) = inflation(series, q) else {
        return Estimate { n, n_effective: 0.0, n_needed: needed.max(count * 4.0) as u64, ..Estimate::default() };
    };
    let rests = basis_at(series, q, inflation.vif_t);
    inflation.vif_t = inflation.resting_on(rests);
    let ranks = rank::enclosing(count / inflation.vif_t, q);
    let low = ranks.low.map(|share| limit_at(series, q, share, inflation, |ranks| ranks.low));
    let low = low.or_else(|| invert::limit(series, q, Side::Lower));
    let high = ranks.high.map(|share| limit_at(series, q, share, inflation, |ranks| ranks.high));
    let high = high.or_else(|| invert::limit(series, q, Side::Upper));
    let at_share = |share: f64| value_at((share * (count + 1.0)).clamp(1.0, count));
    let resolved = low.is_some() && high.is_some();
    let n_needed = (needed * inflation.vif_t).ceil() as u64;
    let estimate = Estimate {
        value: resolved.then(|| value_at((q * count).ceil().clamp(1.0, count))),
        low: low.map(at_share),
        high: high.filter(|_| resolved).map(at_share),
        n,
        n_effective: count / inflation.vif,
        n_needed: if resolved { 0 } else { n_needed },
    };
    within_one_bin(series, estimate)
}

/// A quantile of operations that all lie in one coarse bin, which no edge divides: only their sums show how they depend
/// on each other, and each of them varies as if they were spread evenly over the bin. If they do depend, a run this
/// long determines the bin and no more.
fn within_one_bin(series: &Series, estimate: Estimate) -> Estimate {
    let Some((bottom, top)) = series.only_bin_ns().filter(|_| estimate.is_resolved()) else { return estimate };
    let (sums, ios) = (series.each(Quantity::LatSum), series.each(Quantity::Ios));
    let mean = sums.iter().sum::<f64>() / ios.iter().sum::<f64>();
    let Some(run) = series.run(&residuals(&sums, &ios, mean)) else {
        return estimate;
    };
    let vif = run.variance / (series.n as f64 * (top - bottom).powi(2) / 12.0);
    if vif < VIF_DOUBTFUL {
        return estimate;
    }
    let n_effective = estimate.n_effective / vif;
    Estimate {
        low: estimate.low.map(|low| low.min(bottom)),
        high: estimate.high.map(|high| high.max(top)),
        n_effective,
        ..estimate
    }
}

/// One limit of the interval, whose first guess is `share`, by the inflation there if that is larger.
///
/// A limit is the value for which the sample is just not yet surprising, so the spread of the exceedances *of that
/// value* counts. A run that met many slow phases has its p99 far up among the slow operations, where fewer exceed it
/// together than at the true p99.
fn limit_at(series: &Series, q: f64, share: f64, at_q: Inflation, side: fn(rank::Ranks) -> Option<f64>) -> f64 {
    let there = inflation(series, share).filter(|there| there.vif > at_q.vif);
    let vif_t = there.map(|there| at_q.vif_t * there.vif / at_q.vif);
    vif_t.and_then(|vif_t| side(rank::enclosing(series.n as f64 / vif_t, q))).unwrap_or(share)
}

/// The episodes that quantile `q` depends on.
fn basis_at(series: &Series, q: f64, vif_t: f64) -> EpisodeBasis {
    let Some((edge, p)) = series.edge_for(1.0 - q) else { return EpisodeBasis::NOTHING };
    let residuals = residuals(&series.exceedances(edge), &series.each(Quantity::Ios), p);
    let half_width = Z_975 * (series.n as f64 * p * (1.0 - p) * vif_t).sqrt();
    // Exceedances of the quantile among those of the level, minus the share that any operations have.
    let added = |level: usize| series.above(level.max(edge)).0 - p * series.above(level).0;
    series.episodes().under(&residuals, half_width, 0.5 * series.n as f64 * p.min(1.0 - p), added)
}

/// Inflation at quantile `q`; `None` for fewer than four batches.
fn inflation(series: &Series, q: f64) -> Option<Inflation> {
    let share = 1.0 - q;
    let at = inflation_at(series, share);
    let pilot_share = (PILOT_EXCEEDANCES / series.n.max(1) as f64).clamp(share.min(0.5), 0.5);
    if pilot_share <= share {
        return at;
    }
    let (at, pilot) = (at?, inflation_at(series, pilot_share)?);
    let excess = at.vif / (1.0 + EXCESS_SIGMA * (2.0 / at.df).sqrt());
    Some(if excess > pilot.vif { at } else { pilot })
}

/// Inflation at the bin edge that leaves about `share` above it.
fn inflation_at(series: &Series, share: f64) -> Option<Inflation> {
    let Some((edge, p)) = series.edge_for(share) else {
        // All in one bin: the variation is below the resolution, except for what their sums show (see
        // `within_one_bin`).
        let count = series.batches().len();
        return (count >= crate::long_run::BATCHES_MIN).then_some(Inflation { vif: 1.0, vif_t: 1.0, df: count as f64 });
    };
    let run = series.run_above(edge, p)?;
    let vif = run.variance / (series.n as f64 * p * (1.0 - p));
    Some(Inflation { vif: vif.max(1.0), vif_t: (vif * (run.t_975() / Z_975).powi(2)).max(1.0), df: run.df })
}

/// The sorted values of a histogram, for lookup by rank: traversing all its bins once per quantile is enough.
struct Sorted {
    /// Value in ns, and how many values are at or below it.
    bins: Vec<(f64, u64)>,
}

impl Sorted {
    fn new(hist: &Hist) -> Self {
        let mut below = 0;
        let cumulative = |(value, count): (u64, u64)| {
            below += count;
            (value as f64, below)
        };
        Self { bins: hist.bins().map(cumulative).collect() }
    }

    /// The value at a whole 1-based rank.
    fn at_whole(&self, rank: u64) -> f64 {
        let index = self.bins.partition_point(|(_, at_or_below)| *at_or_below < rank);
        self.bins.get(index).or(self.bins.last()).map_or(0.0, |(value, _)| *value)
    }

    /// The value at a fractional 1-based rank, linear between neighbouring order statistics.
    fn at(&self, rank: f64) -> f64 {
        let below = rank.floor();
        let low = self.at_whole(below as u64);
        low + (self.at_whole(below as u64 + 1) - low) * (rank - below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use proptest::prelude::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::record::IntervalStream;

    const CLASS: OpClass = OpClass::Read;

    /// A histogram and its intervals, from latencies in time order.
    fn run_of(intervals: &[Vec<u64>]) -> (Hist, Vec<Interval>) {
        let mut hist = Hist::new();
        let of = |(index, latencies): (usize, &Vec<u64>)| {
            let mut coarse = CoarseHist::default();
            latencies.iter().for_each(|lat| {
                coarse.record(*lat);
                hist.record(*lat);
            });
            let stream = IntervalStream {
                class: CLASS,
                ios: latencies.len() as u64,
                bytes: latencies.len() as u64 * 4096,
                lat_sum_ns: latencies.iter().sum(),
                lat_max_ns: latencies.iter().copied().max().unwrap_or(0),
                bins: coarse.sparse(),
            };
            Interval { start_ns: index as u64 * 100_000_000, length_ns: 100_000_000, streams: vec![stream] }
        };
        let intervals = intervals.iter().enumerate().map(of).collect();
        (hist, intervals)
    }

    /// Regression: a visit of a slow disk in which nothing was completed turned the bound of the median into a
    /// nanosecond.
    #[test]
    fn a_visit_without_operations_is_not_the_least() {
        let (hist, mut intervals) = run_of(&vec![vec![1_000_000; 3]; 7]);
        (0..).zip(&mut intervals).for_each(|(second, interval)| interval.start_ns = second * 1_000_000_000);
        intervals[3].streams.clear();
        let least_ns = Quantiles::new(&hist, &intervals, CLASS).least_of_visits().unwrap();
        assert!((least_ns / 1e6 - 1.0).abs() < 0.1, "{least_ns}");
        intervals[4].streams.clear();
        assert_eq!(Quantiles::new(&hist, &intervals, CLASS).least_of_visits(), None, "five are too few");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn values_lie_in_their_intervals_and_rise_with_the_quantile(
            latencies in prop::collection::vec(prop::collection::vec(1_000u64..100_000_000, 0..60), 1..30)
        ) {
            let (hist, intervals) = run_of(&latencies);
            let mut last = 0.0;
            for q in [0.5, 0.9, 0.99, 0.999] {
                let estimate = quantile(&hist, &intervals, CLASS, q);
                prop_assert!(estimate.n_effective <= estimate.n as f64);
                prop_assert_eq!(estimate.is_resolved(), estimate.n_needed == 0);
                if let Some(value) = estimate.value {
                    prop_assert!(estimate.low.unwrap() <= value && value <= estimate.high.unwrap());
                    prop_assert!(value >= last);
                    last = value;
                }
            }
        }

        #[test]
        fn the_coarse_quantile_is_within_a_bin_of_the_fine_one(
            latencies in prop::collection::vec(prop::collection::vec(1_000u64..100_000_000, 10..60), 8..30),
        ) {
            let (hist, intervals) = run_of(&latencies);
            let fine = quantile(&hist, &intervals, CLASS, 0.5).value;
            let coarse = quantile_coarse(&intervals, CLASS, 0.5).value;
            prop_assert_eq!(fine.is_some(), coarse.is_some());
            if let (Some(fine), Some(coarse)) = (fine, coarse) {
                prop_assert!((fine / coarse - 1.0).abs() < 0.07, "{} {}", fine, coarse);
            }
        }
    }

    #[test]
    fn p999_of_300_commits_is_not_resolved_and_says_what_it_needs() {
        let (stream, intervals) = samples::stream(CLASS, 4096, 15, 1_000_000);
        let estimate = quantile(&stream.lat, &intervals, CLASS, 0.999);
        assert_eq!((estimate.value, estimate.high, estimate.n), (None, None, 300));
        assert!(estimate.n_needed >= 3688, "{}", estimate.n_needed);
        assert!(estimate.low.is_some(), "a lower bound there is");
    }

    #[test]
    fn a_slow_half_of_the_run_counts_as_two_samples() {
        let shuffled: Vec<Vec<u64>> =
            (0..100).map(|_| (0..100).map(|op| 100_000 + 900_000 * (op % 2)).collect()).collect();
        let halves: Vec<Vec<u64>> = (0..100).map(|index| vec![100_000 + 900_000 * (index / 50); 100]).collect();
        let of = |latencies: &[Vec<u64>]| {
            let (hist, intervals) = run_of(latencies);
            quantile(&hist, &intervals, CLASS, 0.5).n_effective
        };
        assert!(of(&shuffled) > 9_000.0);
        assert!(of(&halves) < 20.0);
    }

    #[test]
    fn all_in_one_bin_is_no_proof_of_independence() {
        // One coarse bin holds both, and either half of the run has one of them.
        let of = |latency: &dyn Fn(usize, usize) -> u64| {
            let latencies: Vec<Vec<u64>> = (0..100).map(|at| (0..100).map(|op| latency(at, op)).collect()).collect();
            let (hist, intervals) = run_of(&latencies);
            assert!(intervals.iter().all(|interval| interval.streams[0].bins.len() == 1));
            quantile(&hist, &intervals, CLASS, 0.5)
        };
        let either = |is_late: bool| if is_late { 102_300 } else { 98_500 };
        let mixed = of(&|at, op| either((op * 7 + at) % 13 < 6));
        assert!(mixed.n_effective > 3_000.0, "{mixed:?}");
        let halves = of(&|at, _| either(at >= 50));
        assert!(halves.n_effective < 20.0, "{halves:?}");
        // From now on, the disk may behave like either half only.
        assert!(halves.low.unwrap() < 98_500.0 && halves.high.unwrap() > 102_300.0, "{halves:?}");
    }

    #[test]
    fn rates_count_time_and_means_count_operations() {
        let (stream, intervals) = samples::stream(CLASS, 4096, 50, 1_000_000);
        let rate = rate(&intervals, CLASS);
        assert_eq!(rate.value, Some(500.0));
        assert_eq!(byte_rate(&intervals, CLASS).value, Some(500.0 * 4096.0));
        let mean = mean(&stream.lat, &intervals, CLASS);
        assert!(mean.low.unwrap() <= stream.lat.mean_ns() && stream.lat.mean_ns() <= mean.high.unwrap());
        assert!(precise_enough(&mean, 0.05) && !precise_enough(&mean, 1e-6));
    }

    #[test]
    fn three_intervals_show_a_rate_but_pretend_no_interval() {
        let (stream, mut intervals) = samples::stream(CLASS, 4096, 50, 1_000_000);
        intervals.truncate(3);
        let rate = rate(&intervals, CLASS);
        assert_eq!((rate.value, rate.low, rate.high), (Some(500.0), None, None));
        assert!(!quantile(&stream.lat, &intervals, CLASS, 0.5).is_resolved());
    }

    #[test]
    fn no_operations_give_no_figures() {
        for estimate in [rate(&[], CLASS), mean(&Hist::new(), &[], CLASS), quantile_coarse(&[], CLASS, 0.5)] {
            assert_eq!((estimate.value, estimate.n), (None, 0));
        }
    }
}
