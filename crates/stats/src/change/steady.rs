//! Steady state: from when a rate may be called sustained.
//!
//! SNIA's criteria (Solid State Storage Performance Test Specification 2.0.1, "steady state"): over a window of five
//! rounds, the largest and smallest round differ by at most 20 % of their average, and the least-squares line moves by
//! at most 10 % of it. fio's `steadystate` has the same two (`iops:20%`, `iops_slope`). SNIA's round is a minute; a
//! step is short, so here the window is the rest of the step from the earliest moment that passes, at least
//! [`WINDOW_MIN_NS`], in five rounds. Rate and median latency must both pass.

use qd1_model::Estimate;
use qd1_model::op::OpClass;
use qd1_model::record::StepRecord;

use super::trace::{CLASSES, Trace};
use crate as stats;

/// Rounds of a window.
const ROUNDS: usize = 5;
/// Largest range of the rounds, of their average (SNIA).
const RANGE_MAX: f64 = 0.20;
/// Largest move of the line over the window, of the average (SNIA).
const SLOPE_MAX: f64 = 0.10;
/// Shortest window, ns: rounds of a second.
pub const WINDOW_MIN_NS: u64 = 5_000_000_000;
/// Number of starts tried: the window begins at one of this many equal parts of the step.
const STARTS: usize = 40;

/// The steady state of one kind of operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Steady {
    /// Kind of operation.
    pub class: OpClass,
    /// Its beginning, ns from the start of the step's measurement, to its end.
    pub since_ns: u64,
    /// Length of the window, ns.
    pub window_ns: u64,
    /// (max - min) / average of the rounds' rates.
    pub range: f64,
    /// Move of the line through the rounds' rates over the window, of their average; negative when falling.
    pub slope: f64,
    /// Operations per second in the window: the figure that may be called sustained.
    pub rate: Estimate,
    /// Bytes per second in the window.
    pub bytes: Estimate,
}

/// The steady state `step` ended in, for the most frequent kind of operation; `None` if it never settled, or is shorter
/// than [`WINDOW_MIN_NS`].
#[must_use]
pub fn steady_state(step: &StepRecord) -> Option<Steady> {
    let ops = |class: &OpClass| step.stream(*class).map_or(0, |stream| stream.lat.count());
    let class = CLASSES.into_iter().filter(|class| ops(class) > 0).max_by_key(ops)?;
    steady_state_of(step, class)
}

/// [`steady_state`] of one kind of operation.
#[must_use]
pub fn steady_state_of(step: &StepRecord, class: OpClass) -> Option<Steady> {
    let trace = Trace::new(&step.intervals, class);
    let count = trace.points.len();
    let part = count.div_ceil(STARTS).max(1);
    (0..count).step_by(part).find_map(|from| {
        let start_ns = trace.points[from].start_ns;
        let window_ns = trace.end_ns() - start_ns;
        if count - from < 2 * ROUNDS || window_ns < WINDOW_MIN_NS {
            return None;
        }
        let rates: Vec<f64> = trace.points[from..].iter().map(|point| point.log_rate.exp()).collect();
        let medians: Vec<f64> = trace.points[from..].iter().map(|point| point.log_median.exp()).collect();
        let ((range, slope), of_latency) = (settled(&rates), settled(&medians));
        let passes = |(range, slope): (f64, f64)| range <= RANGE_MAX && slope.abs() <= SLOPE_MAX;
        if !passes((range, slope)) || !passes(of_latency) {
            return None;
        }
        let window = trace.intervals(&step.intervals, from, count);
        let (rate, bytes) = (stats::rate(window, class), stats::byte_rate(window, class));
        Some(Steady { class, since_ns: start_ns, window_ns, range, slope, rate, bytes })
    })
}

/// Range of the rounds and move of their line, both of the average.
fn settled(values: &[f64]) -> (f64, f64) {
    let bounds: Vec<usize> = (0..=ROUNDS).map(|round| round * values.len() / ROUNDS).collect();
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let rounds: Vec<f64> = bounds.windows(2).map(|pair| mean(&values[pair[0]..pair[1]])).collect();
    let average = mean(&rounds);
    let (least, most) = rounds.iter().fold((f64::INFINITY, 0.0f64), |(l, m), v| (l.min(*v), m.max(*v)));
    // Least squares over -2..2: the sum of squares is 10, and the line spans four rounds.
    let slope: f64 = rounds.iter().enumerate().map(|(i, v)| (i as f64 - 2.0) * v).sum::<f64>() / 10.0;
    ((most - least) / average, 4.0 * slope / average)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_criteria_are_those_of_the_specification() {
        let rounds = |five: [f64; 5]| five.iter().flat_map(|v| [*v; 4]).collect::<Vec<_>>();
        let (range, slope) = settled(&rounds([96.0, 98.0, 100.0, 102.0, 104.0]));
        assert!((range - 0.08).abs() < 1e-12 && (slope - 0.08).abs() < 1e-12);
        let (range, slope) = settled(&rounds([100.0, 89.0, 100.0, 111.0, 100.0]));
        assert!((range - 0.22).abs() < 1e-12 && slope < 0.1);
    }
}
