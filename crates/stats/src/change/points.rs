//! Change points: when a rate or a median latency changed its level, by how much, and what kind of change it looks
//! like.
//!
//! The segmentation ([`super::segment`]) proposes; a test confirms or rejects. Between the stretches on both sides of a
//! proposal the mean logarithms are compared, wild points clipped, by Welch's t. Two variances of these means allow for
//! dependence: the long-run variance of each stretch ([`crate`]), which has few degrees of freedom in a short one, and
//! each stretch's own variance times an inflation taken from the whole series; the smaller chance counts. The least
//! certain proposal is dropped first, its stretches become one, and the others are tested again, until all are beyond
//! [`DOUBT`] and at least [`STEP_MIN`] in size.
//!
//! Sizes are ratios of the figures of both stretches, the points next to the change left out; their intervals come from
//! the figures' own intervals ([`crate`]), added as independent errors of the logarithms.

use qd1_model::Estimate;
use qd1_model::op::OpClass;
use qd1_model::record::Interval;
use statrs::distribution::{ContinuousCDF, StudentsT};

use super::segment::{Costs, STRETCH_MIN};
use super::trace::{Trace, median};
use crate as stats;
use crate::long_run::long_run;

/// Largest chance of a step of this size in an unchanged series, for each change.
const DOUBT: f64 = 1e-4;
/// Smallest step reported, in logarithms: a tenth.
const STEP_MIN: f64 = 0.095;
/// Degrees of freedom of a variance that borrows the inflation of the whole series.
const INFLATION_DF: f64 = 15.0;
/// Points clip at this many robust standard deviations from their stretch's median.
const CLIP: f64 = 4.0;
/// Changes of rate and latency this many points apart are one.
const TOGETHER: usize = 5;
/// A stretch whose rate deviates from its median by no more than this (robust standard deviation), or by one operation
/// a point, is flat: governed by a limit and not by a disk.
const FLAT: f64 = 0.015;

/// A ratio with its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ratio {
    /// After divided by before.
    pub value: f64,
    /// Lower limit.
    pub low: f64,
    /// Upper limit.
    pub high: f64,
}

/// The figures of a kind of operation between two changes.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Start, ns since the step's measurement began.
    pub from_ns: u64,
    /// End, ns.
    pub to_ns: u64,
    /// Operations per second.
    pub rate: Estimate,
    /// Median latency, ns.
    pub median_ns: Estimate,
    /// Whether the rate stays at one value, as only a limit makes it.
    pub flat: bool,
}

/// The kind of change it looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    /// The rate fell to one exact value and stayed there to the end: saved-up tokens are spent.
    BurstSpent,
    /// The disk became slower: another user of it, a cache that is full, a warmer device.
    Slower,
    /// The disk became faster: a neighbour left, a cache filled, a device woke up.
    Faster,
    /// The rate stayed and the latency moved: requests at a fixed rate.
    LatencyOnly,
}

/// One change of level.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// What changed.
    pub class: OpClass,
    /// When, ns since the step's measurement began.
    pub at_ns: u64,
    /// The 95 % range of that, ns.
    pub at_low_ns: u64,
    /// Its end.
    pub at_high_ns: u64,
    /// Of the rate.
    pub rate: Option<Ratio>,
    /// Of the median latency.
    pub latency: Option<Ratio>,
    /// The stretch before.
    pub before: Stretch,
    /// The stretch after.
    pub after: Stretch,
    /// The kind of change it looks like.
    pub kind: ChangeKind,
    /// Chance of such a step in an unchanged series, per proposal.
    pub doubt: f64,
}

/// A change that passed the test.
#[derive(Clone, Copy, Debug)]
pub(super) struct Confirmed {
    pub(super) at: usize,
    doubt: f64,
    low: usize,
    high: usize,
}

/// Returns the changes of `values` that pass the test, rising.
pub(super) fn confirmed(values: &[f64]) -> Vec<Confirmed> {
    if values.len() < 2 * STRETCH_MIN { Vec::new() } else { tested(values, &Costs::new(values), DOUBT) }
}

/// The same for a few dozen values, each far in time from the next: too few to estimate how far neighbours depend on
/// each other, which is known only for each stretch. `doubt` is the chance of such a step in an unchanged series that
/// is accepted.
pub(super) fn confirmed_of_few(values: &[f64], doubt: f64) -> Vec<Confirmed> {
    if values.len() < 2 * STRETCH_MIN {
        return Vec::new();
    }
    let mut costs = Costs::new(values);
    costs.inflation = 1.0;
    tested(values, &costs, doubt)
}

fn tested(values: &[f64], costs: &Costs, most_doubt: f64) -> Vec<Confirmed> {
    let mut places = costs.changes();
    loop {
        let ends = |i: usize, places: &[usize]| {
            let from = if i == 0 { 0 } else { places[i - 1] };
            (from, places.get(i + 1).copied().unwrap_or(values.len()))
        };
        let tested: Vec<(f64, f64)> = (0..places.len())
            .map(|i| {
                let (from, to) = ends(i, &places);
                difference(&values[from..places[i]], &values[places[i]..to], costs.inflation)
            })
            .collect();
        let weak = |(step, doubt): &(f64, f64)| step.abs() < STEP_MIN || *doubt > most_doubt;
        let rank = |(step, doubt): &(f64, f64)| if step.abs() < STEP_MIN { 2.0 - step.abs() } else { *doubt };
        let worst = (0..places.len())
            .filter(|i| weak(&tested[*i]))
            .max_by(|a, b| rank(&tested[*a]).total_cmp(&rank(&tested[*b])));
        if let Some(worst) = worst {
            places.remove(worst);
            continue;
        }
        return (0..places.len())
            .map(|i| {
                let (from, to) = ends(i, &places);
                let (at, low, high) = costs.place(from, to);
                Confirmed { at, doubt: tested[i].1, low, high }
            })
            .collect();
    }
}

/// Clipped to [`CLIP`] robust standard deviations from the median.
fn clipped(values: &[f64]) -> (f64, Vec<f64>) {
    let middle = median(&mut values.to_vec());
    let spread = spread(values, middle).max(0.005) * CLIP;
    let clipped: Vec<f64> = values.iter().map(|v| v.clamp(middle - spread, middle + spread)).collect();
    (clipped.iter().sum::<f64>() / clipped.len() as f64, clipped)
}

/// Robust standard deviation about `middle`: 1.4826 times the median deviation.
fn spread(values: &[f64], middle: f64) -> f64 {
    1.4826 * median(&mut values.iter().map(|v| (v - middle).abs()).collect::<Vec<_>>())
}

fn variance(mean: f64, values: &[f64]) -> f64 {
    values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / (values.len() as f64 - 1.0).max(1.0)
}

/// Step from `before` to `after` and its chance in an unchanged series (two-sided).
fn difference(before: &[f64], after: &[f64], inflation: f64) -> (f64, f64) {
    // The mean, and two (variance, degrees of freedom).
    let of = |values: &[f64]| {
        let (mean, clipped) = clipped(values);
        let residuals: Vec<f64> = clipped.iter().map(|v| v - mean).collect();
        let run = long_run(&residuals).expect("a stretch has ten points");
        let count = values.len() as f64;
        // Rounding to whole operations and bins causes an error that a series without any spread does not show.
        let own = (run.variance / count.powi(2) + 1e-8, run.df);
        let borrowed = (variance(mean, &clipped) * inflation / count + 1e-8, INFLATION_DF.min(count - 1.0));
        (mean, [own, borrowed])
    };
    let ((a, before), (b, after)) = (of(before), of(after));
    let doubt = |((va, da), (vb, db)): ((f64, f64), (f64, f64))| {
        let df = (va + vb).powi(2) / (va * va / da + vb * vb / db);
        let t = (b - a).abs() / (va + vb).sqrt();
        StudentsT::new(0.0, 1.0, df.max(1.0)).map_or(1.0, |law| 2.0 * law.cdf(-t))
    };
    (b - a, before.into_iter().zip(after).map(doubt).fold(1.0, f64::min))
}

/// Changes of `class` over `intervals`.
pub(super) fn changes(intervals: &[Interval], trace: &Trace, class: OpClass) -> Vec<Change> {
    let mut all: Vec<(Confirmed, bool, bool)> =
        confirmed(&trace.rates()).into_iter().map(|found| (found, true, false)).collect();
    for found in confirmed(&trace.medians()) {
        match all.iter_mut().find(|(known, ..)| known.at.abs_diff(found.at) <= TOGETHER) {
            Some((known, _, latency)) => {
                if found.high - found.low < known.high - known.low {
                    *known = found;
                }
                *latency = true;
            }
            None => all.push((found, false, true)),
        }
    }
    all.sort_by_key(|(found, ..)| found.at);
    let mut ends = vec![0];
    ends.extend(all.iter().map(|(found, ..)| found.at));
    ends.push(trace.points.len());
    let stretches: Vec<Stretch> =
        ends.windows(2).map(|pair| stretch(intervals, trace, class, pair[0], pair[1])).collect();
    let at_ns = |index: usize| trace.points.get(index).map_or(trace.end_ns(), |point| point.start_ns);
    let change = |(i, (found, of_rate, of_latency)): (usize, &(Confirmed, bool, bool))| {
        let (before, after) = (stretches[i].clone(), stretches[i + 1].clone());
        let rate = ratio(&before.rate, &after.rate).filter(|_| *of_rate);
        let latency = ratio(&before.median_ns, &after.median_ns).filter(|_| *of_latency);
        let last = i + 1 == all.len();
        let slower = rate.map_or_else(|| latency.is_some_and(|r| r.value > 1.0), |r| r.value < 1.0);
        let kind = match (rate.is_some(), slower) {
            (false, _) => ChangeKind::LatencyOnly,
            (true, true) if after.flat && last => ChangeKind::BurstSpent,
            (true, true) => ChangeKind::Slower,
            (true, false) => ChangeKind::Faster,
        };
        Change {
            class,
            at_ns: at_ns(found.at),
            at_low_ns: at_ns(found.low.saturating_sub(1)),
            at_high_ns: at_ns(found.high + 1),
            rate,
            latency,
            before,
            after,
            kind,
            doubt: found.doubt,
        }
    };
    all.iter().enumerate().map(change).collect()
}

/// Figures of points `from..to`, one point left out at each end that is a change.
fn stretch(intervals: &[Interval], trace: &Trace, class: OpClass, from: usize, to: usize) -> Stretch {
    let inner_from = if from > 0 && to - from > 4 { from + 1 } else { from };
    let inner_to = if to < trace.points.len() && to - from > 4 { to - 1 } else { to };
    let part = trace.intervals(intervals, inner_from, inner_to);
    let rates: Vec<f64> = trace.points[inner_from..inner_to].iter().map(|point| point.log_rate).collect();
    let middle = median(&mut rates.clone());
    let seconds = trace.points[inner_from].length_ns as f64 / 1e9;
    let one_more = 1.0 / (middle.exp() * seconds).max(1.0);
    Stretch {
        from_ns: trace.points[from].start_ns,
        to_ns: trace.points.get(to).map_or(trace.end_ns(), |point| point.start_ns),
        rate: stats::rate(part, class),
        median_ns: stats::quantile_coarse(part, class, 0.5),
        flat: spread(&rates, middle) <= FLAT.max(one_more),
    }
}

/// `after` divided by `before`, if both are resolved.
fn ratio(before: &Estimate, after: &Estimate) -> Option<Ratio> {
    let (from, to) = (before.value.filter(|v| *v > 0.0)?, after.value.filter(|v| *v > 0.0)?);
    let error = |of: &Estimate, value: f64| match (of.low, of.high) {
        (Some(low), Some(high)) if low > 0.0 => (high / value).ln().max((value / low).ln()),
        _ => 0.0,
    };
    let value = to / from;
    let factor = error(before, from).hypot(error(after, to)).exp();
    Some(Ratio { value, low: value / factor, high: value * factor })
}
