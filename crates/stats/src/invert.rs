//! A limit for a percentile whose own neighbourhood is too dependent to give one.
//!
//! The upper limit of p99 is a latency that at most 1 % of operations can exceed, given what was seen: a test turned
//! around. Near p99 itself, a few slow phases may leave the exceeded share quite open; far above it, where a handful of
//! operations in one or two episodes lie, it is clearly below 1 %, however they cluster. So the limit is searched
//! upwards: at the level that c operations exceed in K effective episodes (see `episodes.rs`), the true share may be as
//! high as U(K) / K times c / n, where U is the upper 97.5 % limit of a Poisson count. If that is at most 1 %, the
//! level is a limit. Lower limits are found likewise, downwards.

use crate::episodes::upper_limit;
use crate::series::{Quantity, Series};

/// Cosines for the variance of a level: as in `episodes.rs`.
const COSINES: usize = 16;
const COSINES_MAX: usize = 48;

/// Which limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Above the percentile: levels that few exceed.
    Upper,
    /// Below it: levels that few fail to reach.
    Lower,
}

/// The share of operations (0..1, from the fastest on) at which the limit of quantile `q` on `side` lies; `None` when
/// even the extreme operations cannot be one.
pub(crate) fn limit(series: &Series, q: f64, side: Side) -> Option<f64> {
    let n = series.n as f64;
    let allowed = if side == Side::Upper { 1.0 - q } else { q };
    let at = |beyond: f64| if side == Side::Upper { 1.0 - beyond } else { beyond };
    let mut largest = 1.0f64;
    let mut share = allowed / 2.0;
    while share * n >= 1.0 {
        if let Some((edge, above)) = series.edge_for(if side == Side::Upper { share } else { 1.0 - share }) {
            let beyond = if side == Side::Upper { above } else { 1.0 - above };
            let episodes = episodes(series, edge, above, beyond * n);
            largest = largest.max(beyond * n / episodes);
            if beyond * upper_limit(episodes) / episodes <= allowed {
                return Some(at(beyond));
            }
        }
        share /= 2.0;
    }
    // None seen beyond the extreme one; the next episode may be as long as the longest.
    (upper_limit(0.0) * largest / n <= allowed).then_some(at(0.0))
}

/// Effective episodes in which `count` operations lie beyond bin `edge`, which the share `above` of all reach: by their
/// variance, and no more than there are separate rows of batches with any (or, if most have some, batches).
fn episodes(series: &Series, edge: usize, above: f64, count: f64) -> f64 {
    let ios = series.each(Quantity::Ios);
    let reach = series.exceedances(edge);
    let residuals: Vec<f64> = reach.iter().zip(&ios).map(|(x, y)| x - above * y).collect();
    let independent = series.n as f64 * above * (1.0 - above);
    let inflation = |run: &super::long_run::LongRun| run.variance / independent;
    let vif = series
        .runs(&residuals, COSINES, COSINES_MAX)
        .map_or(f64::INFINITY, |runs| runs.iter().map(inflation).fold(1.0, f64::max));
    let few_reach = above <= 0.5;
    let beyond = |(reach, all): (&f64, &f64)| if few_reach { *reach > 0.0 } else { *all > *reach };
    let busy: Vec<bool> = reach.iter().zip(&ios).map(beyond).collect();
    let rows = busy.iter().zip(std::iter::once(&false).chain(&busy)).filter(|(now, before)| **now && !**before).count();
    let batches = busy.iter().filter(|busy| **busy).count();
    // If most batches contain some, or each is a separate moment, rows of them say nothing.
    let most = if 2 * batches > busy.len() || series.is_sample() { batches } else { rows };
    (count / vif).min(most.max(1) as f64).max(f64::MIN_POSITIVE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::op::OpClass;
    use qd1_model::record::{Interval, IntervalStream};

    /// A hundred intervals of a thousand operations; in those of `phases` half are slow, and `extreme` ones slowest.
    fn series(phases: &[usize], extreme: u64) -> Series {
        let interval = |index: usize| {
            let mut coarse = CoarseHist::default();
            let slow = if phases.contains(&index) { 500 } else { 0 };
            (0..1000).for_each(|op| coarse.record(if op < slow { 10_000_000 } else { 100_000 }));
            if phases.first() == Some(&index) {
                (0..extreme).for_each(|_| coarse.record(1_000_000_000));
            }
            let bins = coarse.sparse();
            let ios = bins.iter().map(|(_, count)| u64::from(*count)).sum();
            let stream = IntervalStream { class: OpClass::Read, ios, bytes: 0, lat_sum_ns: 0, lat_max_ns: 0, bins };
            Interval { start_ns: index as u64 * 100, length_ns: 100, streams: vec![stream] }
        };
        Series::new(&(0..100).map(interval).collect::<Vec<_>>(), OpClass::Read)
    }

    #[test]
    fn a_few_extreme_operations_of_one_phase_still_bound_p99() {
        // 1.5 % are slow, in three phases: p99 lies among them, and its own limit is open. Twenty of 100,000 are
        // extreme.
        let found = limit(&series(&[20, 50, 80], 20), 0.99, Side::Upper).unwrap();
        assert!(found > 0.999, "{found}");
    }

    #[test]
    fn one_phase_that_holds_half_of_the_tail_allows_no_limit() {
        // 0.5 % are slow, all in one phase: the share may equally be 5.6 times that.
        assert_eq!(limit(&series(&[20], 0), 0.99, Side::Upper), None);
    }

    #[test]
    fn slow_phases_bound_the_median_from_neither_side_too_tightly() {
        // Nearly all operations are fast, in every interval: the median is among them.
        let series = series(&[20, 50, 80], 0);
        let (low, high) = (limit(&series, 0.5, Side::Lower), limit(&series, 0.5, Side::Upper));
        assert!(low.is_none_or(|low| low < 0.5) && high.is_some_and(|high| high > 0.5), "{low:?} {high:?}");
    }
}
