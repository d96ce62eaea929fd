//! Figures as other tools state them.

use qd1_model::Estimate;
use qd1_model::figure::QUANTILES;

/// 97.5 % quantile of the standard normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;
/// Names of the metrics of [`QUANTILES`].
const PERCENTILES: [&str; 4] = ["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "lat_p9999_ns"];

/// Whether a number can be a figure: no less than nothing, and below a petabyte per second or eleven days in ns.
pub(crate) fn is_plausible(number: f64) -> bool {
    (0.0..1e15).contains(&number)
}

/// A figure without an interval.
pub(crate) fn bare(value: f64, n: u64) -> Estimate {
    Estimate { value: Some(value), n, ..Estimate::default() }
}

/// A percentile of `n` operations; not resolved where so few do not have one: it would be their slowest.
fn percentile(value_ns: f64, q: f64, n: u64) -> Estimate {
    // The largest of n lies above the quantile with 97.5 % probability from this n on.
    let n_needed = (0.025_f64.ln() / q.ln()).ceil() as u64;
    if n < n_needed { Estimate { n, n_needed, ..Estimate::default() } } else { bare(value_ns, n) }
}

/// The percentiles that qd1 has, from a tool's list of (percent, ns).
pub(crate) fn percentiles(list: &[(f64, f64)], n: u64) -> impl Iterator<Item = (&'static str, Estimate)> {
    QUANTILES.into_iter().zip(PERCENTILES).filter_map(move |(q, name)| {
        let (_, value_ns) = list.iter().find(|(percent, _)| (percent - 100.0 * q).abs() < 1e-6)?;
        Some((name, percentile(*value_ns, q, n)))
    })
}

/// The percentiles of syncs that qd1 has, from such a list.
pub(crate) fn sync_percentiles(list: &[(f64, f64)], n: u64) -> impl Iterator<Item = (&'static str, Estimate)> {
    let named = |(name, figure)| match name {
        "lat_p50_ns" => Some(("sync_p50_ns", figure)),
        "lat_p99_ns" => Some(("sync_p99_ns", figure)),
        _ => None,
    };
    percentiles(list, n).filter_map(named)
}

/// Samples of a rate that a tool took over time: how many, their mean and standard deviation in any unit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

/// A rate, or a mean latency of requests of which so many are always in flight, with the interval that samples of the rate
/// allow, as if they did not depend on each other; without one for fewer than eight, or where they all agree to the last
/// digit. What tools state of single operations (their standard deviation) gives none: neighbours depend on each other.
pub(crate) fn rate(value: f64, n: u64, samples: Samples) -> Estimate {
    let Samples { count, mean, deviation } = samples;
    let are_plausible = [count, mean, deviation].into_iter().all(is_plausible);
    if !are_plausible || count < 8.0 || mean <= 0.0 || deviation <= 0.0 {
        return bare(value, n);
    }
    let factor = (Z_975 * deviation / mean / count.sqrt()).exp();
    Estimate {
        value: Some(value),
        low: Some(value / factor),
        high: Some(value * factor),
        n,
        n_effective: count,
        n_needed: 0,
    }
}

/// What is missing in all of them.
pub(crate) const NO_TIMES: &str = "the tool keeps no course over time; intervals, where there are any, are as if operations did not depend on each other";
/// What is missing where there are percentiles.
pub(crate) const NO_SPREAD: &str = "the tool gives its percentiles no interval; repeat the run, and compare groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_few_is_no_percentile() {
        assert_eq!(percentile(1e6, 0.999, 512).value, None);
        assert_eq!(percentile(1e6, 0.999, 512).n_needed, 3688);
        assert_eq!(percentile(1e6, 0.99, 512).value, Some(1e6));
    }

    #[test]
    fn a_rate_is_as_sure_as_its_samples_allow() {
        let of = |count| rate(1000.0, 60_000, Samples { count, mean: 500.0, deviation: 50.0 });
        let (low, high) = (of(100.0).low.unwrap(), of(100.0).high.unwrap());
        assert!((low - 980.6).abs() < 0.1 && (high - 1019.8).abs() < 0.1, "{low} {high}");
        assert_eq!(of(4.0).low, None);
    }
}
