//! Estimates with 95 % confidence intervals that hold for dependent samples.
//!
//! Every figure is a ratio of two sums over the intervals of a step: R = sum x / sum y. Its variance is that of
//! the residuals x_i - R y_i, long-run (see [`long_run`]), over (sum y)^2. For a quantile, x counts the
//! operations above it and y all of them; the ratio of the long-run variance to that of independent samples is
//! the *variance inflation factor* VIF, and n / VIF the effective number of samples, from which order-statistic
//! ranks are taken (see [`rank`]).

mod long_run;
mod rank;
mod series;

use qd1_model::record::{Interval, OpClass};
use qd1_model::{Estimate, Hist};

use long_run::{LongRun, Z_975, long_run};
use series::{Of, Series};

/// Operations beyond a quantile from which its VIF is estimated; a rarer quantile borrows from this one.
const PILOT_EXCEEDANCES: f64 = 60.0;

/// Standard deviations of its own estimate by which the VIF of a rare quantile must exceed the pilot's to be used.
const EXCESS_SIGMA: f64 = 1.5;

/// Quantile `q` (0..1) of `hist`, whose operations of `class` are spread over time as `intervals` say, ns.
///
/// The value is that at rank ceil(q n), as fio and HdrHistogram take it. Not resolved (no value, `n_needed`
/// given) when the effective number of samples is so small that the interval's upper limit would lie beyond the
/// largest value seen: 6 for the median, 368 for p99, 3,688 for p99.9 (see [`rank`]), or when there are fewer
/// than four intervals, so that nothing is known of autocorrelation. Where not resolved, `low` is still given if
/// there is one: a lower bound may be enough to fail a disk.
#[must_use]
pub fn quantile(hist: &Hist, intervals: &[Interval], class: OpClass, q: f64) -> Estimate {
    quantile_of(&Series::new(intervals, class), hist.count(), q, |rank| at_fractional_rank(hist, rank))
}

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
    let series = Series::new(intervals, class);
    quantile_of(&series, series.n, q, |rank| series.at_rank(rank))
}

/// Mean latency of `class`, ns: sum of latencies over operations. `hist` gives the exact mean.
#[must_use]
pub fn mean(hist: &Hist, intervals: &[Interval], class: OpClass) -> Estimate {
    let series = Series::new(intervals, class);
    let mut estimate = ratio(&series, Of::LatSum, Of::Ios);
    if hist.count() > 0 {
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
    ratio(&Series::new(intervals, class), Of::Ios, Of::Seconds)
}

/// Operations of `class` per second of their own time, for steps in which one worker does different things one
/// after another (create, then stat, then delete): operations over the sum of their latencies.
#[must_use]
pub fn rate_of_own_time(intervals: &[Interval], class: OpClass) -> Estimate {
    let series = Series::new(intervals, class);
    scaled(ratio(&series, Of::Ios, Of::LatSum), 1e9)
}

/// Bytes moved by `class` per second.
#[must_use]
pub fn byte_rate(intervals: &[Interval], class: OpClass) -> Estimate {
    ratio(&Series::new(intervals, class), Of::Bytes, Of::Seconds)
}

/// Whether the half width of the interval is at most `tolerance` times the value.
#[must_use]
pub fn precise_enough(estimate: &Estimate, tolerance: f64) -> bool {
    match (estimate.value, half_width(estimate)) {
        (Some(value), Some(half)) => value > 0.0 && half <= tolerance * value,
        _ => false,
    }
}

/// Half the width of the interval.
fn half_width(estimate: &Estimate) -> Option<f64> {
    Some((estimate.high? - estimate.low?) / 2.0)
}

/// `estimate` times `factor`.
pub(crate) fn scaled(estimate: Estimate, factor: f64) -> Estimate {
    let times = |value: Option<f64>| value.map(|v| v * factor);
    Estimate { value: times(estimate.value), low: times(estimate.low), high: times(estimate.high), ..estimate }
}

/// sum x / sum y with its interval; without one for fewer than four batches.
fn ratio(series: &Series, x: Of, y: Of) -> Estimate {
    let (x, y) = (series.each(x), series.each(y));
    let total: f64 = y.iter().sum();
    if series.n == 0 || total <= 0.0 {
        return Estimate { n_needed: 1, ..Estimate::default() };
    }
    let value = x.iter().sum::<f64>() / total;
    let n = series.n as f64;
    let Some(run) = residual_run(&x, &y, value) else {
        return Estimate { value: Some(value), n: series.n, ..Estimate::default() };
    };
    let error = run.variance.sqrt() / total;
    let factor = if value > 0.0 { (run.t_975() * error / value).exp() } else { 1.0 };
    let n_effective = if error > 0.0 { (value / error).powi(2).min(n) } else { n };
    Estimate {
        value: Some(value),
        low: Some(value / factor),
        high: Some(value * factor),
        n: series.n,
        n_effective,
        n_needed: 0,
    }
}

/// Long-run variance of x_i - `ratio` y_i.
fn residual_run(x: &[f64], y: &[f64], ratio: f64) -> Option<LongRun> {
    let residuals: Vec<f64> = x.iter().zip(y).map(|(x, y)| x - ratio * y).collect();
    long_run(&residuals)
}

/// How much dependence inflates the variance of the share of operations above a quantile.
#[derive(Clone, Copy, Debug)]
struct Inflation {
    /// Against independent samples; at least 1.
    vif: f64,
    /// The same, widened for the uncertainty of its own estimate (t instead of normal); at least 1.
    vif_t: f64,
    /// Degrees of freedom of the estimate.
    df: f64,
}

/// The quantile through `value_at`, which maps a fractional rank of 1..=n to a latency.
fn quantile_of(series: &Series, n: u64, q: f64, value_at: impl Fn(f64) -> f64) -> Estimate {
    let needed = rank::samples_needed(q);
    if n == 0 {
        return Estimate { n_needed: needed as u64, ..Estimate::default() };
    }
    let count = n as f64;
    let Some(inflation) = inflation(series, q) else {
        return Estimate { n, n_effective: 0.0, n_needed: needed.max(count * 4.0) as u64, ..Estimate::default() };
    };
    let ranks = rank::enclosing(count / inflation.vif_t, q);
    let limit = |share: Option<f64>| share.map(|share| value_at((share * (count + 1.0)).clamp(1.0, count)));
    let (low, high) = (limit(ranks.low), limit(ranks.high));
    let resolved = low.is_some() && high.is_some();
    Estimate {
        value: resolved.then(|| value_at((q * count).ceil().clamp(1.0, count))),
        low,
        high,
        n,
        n_effective: count / inflation.vif,
        n_needed: if resolved { 0 } else { (needed * inflation.vif_t).ceil() as u64 },
    }
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
    let ios = series.each(Of::Ios);
    let Some((edge, p)) = series.edge_for(share) else {
        // All in one bin: whatever varies is below the resolution, and there is nothing to be correlated.
        return (ios.len() >= long_run::BATCHES_MIN).then_some(Inflation {
            vif: 1.0,
            vif_t: 1.0,
            df: ios.len() as f64,
        });
    };
    let run = residual_run(&series.exceedances(edge), &ios, p)?;
    let vif = run.variance / (series.n as f64 * p * (1.0 - p));
    Some(Inflation { vif: vif.max(1.0), vif_t: (vif * (run.t_975() / Z_975).powi(2)).max(1.0), df: run.df })
}

/// The latency at fractional 1-based rank, linear between neighbouring order statistics, ns.
fn at_fractional_rank(hist: &Hist, rank: f64) -> f64 {
    let below = rank.floor();
    let low = hist.at_rank(below as u64) as f64;
    if rank <= below {
        return low;
    }
    low + (hist.at_rank(below as u64 + 1) as f64 - low) * (rank - below)
}
