//! Figures as other tools state them.

use qd1_model::Estimate;
use qd1_model::figure::QUANTILES;

/// 97.5 % quantile of the standard normal distribution.
const Z_975: f64 = 1.959_963_984_540_054;
/// Names of the metrics of [`QUANTILES`].
const PERCENTILES: [&str; 4] = ["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "lat_p9999_ns"];

/// Whether a number can be a figure: not negative, and below a petabyte per second or eleven days in ns.
pub(crate) fn is_plausible(number: f64) -> bool {
    (0.0..1e15).contains(&number)
}

/// A figure without an interval.
pub(crate) fn bare(value: f64, n: u64) -> Estimate {
    Estimate { value: Some(value), n, ..Estimate::default() }
}

/// The longest latency that fio's histograms hold, ns, which it prints for all longer ones, in units of at most 1 ms.
const LONGEST_NS: f64 = 17.11e9;

/// A percentile of `n` operations; not resolved if there are so few that it would be the slowest one. A value at fio's
/// maximum is only known to be at least that.
fn percentile(value_ns: f64, q: f64, n: u64) -> Estimate {
    if value_ns >= LONGEST_NS {
        return Estimate { low: Some(value_ns), n, n_needed: n, ..Estimate::default() };
    }
    // From this n on, the largest of n values lies above the quantile with 97.5 % probability.
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

/// The percentiles of syncs that qd1 has, from a list like that.
pub(crate) fn sync_percentiles(list: &[(f64, f64)], n: u64) -> impl Iterator<Item = (&'static str, Estimate)> {
    let named = |(name, figure)| match name {
        "lat_p50_ns" => Some(("sync_p50_ns", figure)),
        "lat_p99_ns" => Some(("sync_p99_ns", figure)),
        _ => None,
    };
    percentiles(list, n).filter_map(named)
}

/// Samples of a rate that a tool took over time: their number, mean and standard deviation, in any unit.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Samples {
    pub(crate) count: f64,
    pub(crate) mean: f64,
    pub(crate) deviation: f64,
}

impl Samples {
    /// The samples of a sum over this many processes, whose rate is `total` in the same unit. fio adds up the means of
    /// a group's processes but not their deviations, and counts the samples of all of them; if it averages the means,
    /// everything refers to one process.
    pub(crate) fn of_sum(self, total: f64, processes: u32) -> Self {
        let processes = f64::from(processes);
        let off = |mean: f64| (total / mean).ln().abs();
        let is_sum = self.mean > 0.0 && total > 0.0 && off(self.mean) < off(self.mean * processes);
        if !is_sum {
            return self;
        }
        Self { count: self.count / processes, deviation: self.deviation * processes.sqrt(), ..self }
    }

    /// Combines these samples with those of something that ran at the same time.
    pub(crate) fn beside(self, other: Self) -> Self {
        Self {
            count: self.count.min(other.count),
            mean: self.mean + other.mean,
            deviation: self.deviation.hypot(other.deviation),
        }
    }
}

/// A rate, or the mean latency of requests at a constant number in flight, with the interval that samples of the rate
/// allow, assuming independent samples; without an interval for fewer than eight samples, or if they all agree to the
/// last digit. The standard deviation of single operations, which tools report, gives no interval: neighbouring
/// operations depend on each other.
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

/// What is missing in all results.
pub(crate) const NO_TIMES: &str =
    "the tool does not record figures over time; any intervals assume that operations are independent of each other";
/// What is missing if there are percentiles.
pub(crate) const NO_SPREAD: &str = "the tool gives no intervals for its percentiles; repeat the run and compare groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_of_few_is_no_percentile() {
        assert_eq!(percentile(1e6, 0.999, 512).value, None);
        assert_eq!(percentile(1e6, 0.999, 512).n_needed, 3688);
        assert_eq!(percentile(1e6, 0.99, 512).value, Some(1e6));
    }

    /// 16 processes with samples of 100 +- 40 each were reported as 1600 +- 40, 320 times.
    #[test]
    fn deviations_of_processes_are_added_up_as_they_are_independent() {
        let stated = Samples { count: 320.0, mean: 1600.0, deviation: 40.0 };
        let iops = rate(1600.0, 16_000, stated.of_sum(1600.0, 16));
        assert_eq!((iops.low.unwrap().round(), iops.high.unwrap().round()), (1531.0, 1672.0));
        let of_each = Samples { mean: 100.0, ..stated };
        assert_eq!(of_each.of_sum(1600.0, 16).deviation, 40.0, "an average over processes is of one");
        let one = Samples { count: 20.0, mean: 100.0, deviation: 40.0 };
        let four = (0..3).fold(one, |sum, _| sum.beside(one));
        assert_eq!((four.count, four.mean, four.deviation.round()), (20.0, 400.0, 80.0));
    }

    #[test]
    fn a_percentile_as_long_as_fio_can_say_is_a_lower_limit() {
        for value_ns in [17_112_760_320.0, 17_113e6] {
            let figure = percentile(value_ns, 0.99, 100_000);
            assert_eq!((figure.value, figure.low), (None, Some(value_ns)));
        }
        assert_eq!(percentile(16.9e9, 0.99, 100_000).value, Some(16.9e9));
    }

    #[test]
    fn a_rate_is_as_sure_as_its_samples_allow() {
        let of = |count| rate(1000.0, 60_000, Samples { count, mean: 500.0, deviation: 50.0 });
        let (low, high) = (of(100.0).low.unwrap(), of(100.0).high.unwrap());
        assert!((low - 980.6).abs() < 0.1 && (high - 1019.8).abs() < 0.1, "{low} {high}");
        assert_eq!(of(4.0).low, None);
    }
}
