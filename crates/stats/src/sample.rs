//! Visits at random times of a long span: a check over hours.
//!
//! Each visit comes at a random moment of its own equal part of the span, and is short compared with it: a stratified
//! random sample of one element per stratum. Its figures describe that span, not a process that might have gone
//! differently, so that no model of how the disk changes is needed: slow movements were seen, and movements between one
//! visit and the next show as differences between neighbours. Their mean square is the classic estimate of the variance
//! (von Neumann 1941; Wolter 1985, Introduction to Variance Estimation, section 8.2): a little too large if
//! neighbouring parts differ, with about two thirds of the degrees of freedom.

use qd1_model::record::Interval;

use crate::long_run::{BATCHES_MIN, LongRun};

/// Largest share of the span that the visits of a sample take together.
const SHARE_MAX: f64 = 0.01;
/// Shortest span, ns: 20 minutes.
const SPAN_MIN_NS: f64 = 1.2e12;

/// Whether the visits of `intervals` are a sample of their span.
pub(crate) fn is_one(intervals: &[Interval]) -> bool {
    let (Some(first), Some(last)) = (intervals.first(), intervals.last()) else { return false };
    let span_ns = last.start_ns.saturating_sub(first.start_ns) as f64;
    span_ns >= SPAN_MIN_NS
        && intervals.iter().map(|interval| interval.length_ns as f64).sum::<f64>() <= SHARE_MAX * span_ns
        && intervals.chunk_by(Interval::goes_on).count() >= BATCHES_MIN
}

/// Variance of the sum of `residuals`, one per visit in time order, which add up to zero; `None` for fewer than
/// [`BATCHES_MIN`].
pub(crate) fn variance(residuals: &[f64]) -> Option<LongRun> {
    let count = residuals.len() as f64;
    if residuals.len() < BATCHES_MIN {
        return None;
    }
    let squares: f64 = residuals.windows(2).map(|pair| (pair[1] - pair[0]).powi(2)).sum();
    Some(LongRun { variance: count * squares / (2.0 * (count - 1.0)), df: (2.0 * (count - 1.0) / 3.0).max(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    fn visits(count: u64, gap_s: u64) -> Vec<Interval> {
        let start_ns = |number| number * gap_s * 1_000_000_000;
        (0..count).map(|n| Interval { start_ns: start_ns(n), length_ns: 200_000_000, streams: Vec::new() }).collect()
    }

    #[test]
    fn only_what_is_short_against_a_long_span_is_a_sample() {
        assert!(is_one(&visits(16, 225)));
        assert!(!is_one(&visits(12, 5)), "a check of a minute");
        assert!(!is_one(&visits(100, 15)), "more than a hundredth of its time");
        assert!(!is_one(&visits(3, 3600)), "too few to tell anything");
        assert!(!is_one(&[]));
    }

    /// For a disk that follows the clock, everything is known except the differences from one visit to the next.
    #[test]
    fn a_slow_change_does_not_widen_and_noise_does() {
        let mut random = Random::new(3);
        let slow = |at: usize| (at as f64 / 200.0 * std::f64::consts::TAU).sin();
        let mut ratio = 0.0;
        for _ in 0..200 {
            let noisy: Vec<f64> = (0..200).map(|at| 10.0 * slow(at) + random.normal()).collect();
            ratio += variance(&noisy).unwrap().variance / 200.0 / 200.0;
        }
        assert!((0.95..1.15).contains(&ratio), "{ratio}");
    }
}
