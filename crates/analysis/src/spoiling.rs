//! The largest part of a figure, or of a difference, that the spoiling of a run can explain.
//!
//! What spoils a run mostly makes it slower by an unknown amount. Waits for a processor are known: the kernel counts
//! how long the workers waited, and the hypervisor how much it took from them. Both are a sum of time, and however it
//! was spread over the operations, a figure without it lies no further away than the worst spread puts it:
//!
//! - A mean, and a rate's inverse, can have been raised by no more than the sum over the number of operations.
//! - A percentile can have been x instead of Q only if every operation up to it that now takes longer than x took x. The
//!   sum of their excess over x is the waiting that this assumes, so x is bounded from below (the worst case of the
//!   Wasserstein distance between the two distributions, since waits only add).
//!
//! An operation that is in flight while its worker waits is delayed as well, so waits count once for each request in
//! flight. A difference that is larger than that is one of the disks, and a figure that misses a bound by more is the
//! disk's; from less, nothing is concluded. How much other things explain is not known: reads and writes of others, a
//! limit that took effect, a cache that answered.

use qd1_model::measured::Explained;
use qd1_model::metric::{Better, Metric};
use qd1_model::plan::IoWork;
use qd1_model::record::{StepRecord, Stream};
use qd1_model::{Detector, FindingId};
use qd1_model::{Finding, Hist, Record};

use crate::detect;

/// A bound above this is useless.
const FACTOR_MAX: f64 = 100.0;

/// How far an interval of the logarithm of a ratio has to be widened, downwards and upwards.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Slack {
    pub(crate) down: f64,
    pub(crate) up: f64,
}

impl Slack {
    /// For a side divided by the first one, whose figures may both be this many times as good.
    pub(crate) fn of(first: f64, other: f64, better: Better) -> Self {
        let (first, other) = (first.ln(), other.ln());
        match better {
            Better::Lower => Self { down: other, up: first },
            Better::Higher => Self { down: first, up: other },
        }
    }

    /// The larger of both as a factor; `None` if there is nothing to allow for.
    pub(crate) fn factor(self) -> Option<f64> {
        let most = self.down.max(self.up);
        (most > 0.0).then(|| most.exp())
    }
}

/// The largest part of each figure of a step that these findings explain; empty if one of them may explain anything.
pub(crate) fn explained(record: &Record, step: &StepRecord, findings: &[&Finding]) -> Vec<Explained> {
    let Some(io) = detect::io_of(record, step) else { return Vec::new() };
    let Some(waited) = Waited::of(record, step, io, findings) else { return Vec::new() };
    let of_stream = |stream: &Stream| {
        let figures = waited.figures(stream);
        let class = stream.class;
        figures.into_iter().map(move |(metric, factor)| Explained { class, metric: metric.to_owned(), factor })
    };
    step.streams.iter().flat_map(of_stream).filter(|explained| explained.factor <= FACTOR_MAX).collect()
}

/// Returns the metric's direction if it is one of those that are bounded.
pub(crate) fn slack(metric: &Metric, first: Option<f64>, other: Option<f64>) -> Option<Slack> {
    Some(Slack::of(first?, other?, metric.better))
}

/// The longest time that the workers of a step may have waited for a processor.
struct Waited {
    /// All operations together, ns.
    sum_ns: f64,
    /// Share of the workers' time, 0..1.
    share: f64,
}

impl Waited {
    /// `None` if a finding is about something else.
    fn of(record: &Record, step: &StepRecord, io: &IoWork, findings: &[&Finding]) -> Option<Self> {
        let workers = detect::workers(io, step) as f64;
        let workers_ns = workers * step.runtime_ns as f64;
        let has = |id| findings.iter().any(|finding| finding.id == id);
        if !findings.iter().all(|finding| finding.id.detector() == Detector::CpuSpoiled) || workers_ns <= 0.0 {
            return None;
        }
        // Time taken from any processor may have been taken from a worker's.
        let stolen_ns = step.steal * step.runtime_ns as f64 * f64::from(record.environment.cpus.max(1));
        let stolen_ns = if has(FindingId::CpuSpoiledSteal) { stolen_ns } else { 0.0 };
        let waited_ns = (step.cost.run_delay_ns as f64 + stolen_ns).min(workers_ns);
        Some(Self { sum_ns: waited_ns * f64::from(io.in_flight()) / workers, share: waited_ns / workers_ns })
    }

    /// The largest factor by which each figure may be better without the waits.
    fn figures(&self, stream: &Stream) -> Vec<(&'static str, f64)> {
        let lat = &stream.lat;
        let ios = lat.count().max(1) as f64;
        let mean = lat.mean_ns() / (lat.mean_ns() - self.sum_ns / ios).max(0.0);
        let rate = 1.0 / (1.0 - self.share);
        let percentiles = [("lat_p50_ns", 0.5), ("lat_p99_ns", 0.99), ("lat_p999_ns", 0.999), ("lat_p9999_ns", 0.9999)];
        let mut all = vec![("lat_mean_ns", mean), ("iops", rate), ("bytes_per_second", rate)];
        all.extend(percentiles.map(|(name, q)| (name, times_less(lat, q, self.sum_ns))));
        if let Some(sync) = &stream.sync_part {
            let of_sync = [("sync_p50_ns", 0.5), ("sync_p99_ns", 0.99)];
            all.extend(of_sync.map(|(name, q)| (name, times_less(sync, q, self.sum_ns))));
        }
        all.retain(|(_, factor)| factor.is_finite());
        all
    }
}

/// The largest factor by which a percentile may be lower without delays of `sum_ns` in all, however they were spread.
fn times_less(hist: &Hist, q: f64, sum_ns: f64) -> f64 {
    let rank = (q * hist.count() as f64).ceil().max(1.0) as u64;
    let value = hist.quantile(q) as f64;
    // The operations up to the percentile, from the slowest down: how far all of those above a level can be lowered to it.
    let mut left = rank;
    let mut bins: Vec<(f64, u64)> = Vec::new();
    for (value, count) in hist.bins() {
        let of_bin = count.min(left);
        bins.push((value as f64, of_bin));
        left -= of_bin;
        if left == 0 {
            break;
        }
    }
    let (mut level, mut above, mut spare_ns) = (value, 0.0, sum_ns);
    for (value, count) in bins.into_iter().rev() {
        let cost_ns = above * (level - value).max(0.0);
        if cost_ns > spare_ns {
            break;
        }
        spare_ns -= cost_ns;
        level = level.min(value);
        above += count as f64;
    }
    let least = level - spare_ns / above.max(1.0);
    if least > 0.0 && value > 0.0 { value / least } else { f64::INFINITY }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn hist(values_ns: &[u64]) -> Hist {
        let mut hist = Hist::new();
        values_ns.iter().for_each(|value| hist.record(*value));
        hist
    }

    #[test]
    fn a_percentile_falls_no_further_than_the_worst_spread_of_the_waits() {
        // 100 operations of 1 ms: lowering the median to x takes 50 (1 ms - x), so 5 ms in all explain 0.1 ms of it.
        let alike = hist(&[1_000_000; 100]);
        assert!((times_less(&alike, 0.5, 5e6) - 1.0 / 0.9).abs() < 0.01, "{}", times_less(&alike, 0.5, 5e6));
        // The slowest of ten takes all of it.
        let one_slow =
            hist(&[100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 100_000, 1_000_000]);
        let of_last = times_less(&one_slow, 1.0, 450_000.0);
        assert!((of_last - 1.0 / 0.55).abs() < 0.01, "{of_last}");
        assert!((times_less(&one_slow, 0.5, 50_000.0) - 1.0 / 0.9).abs() < 0.01, "five operations of 100 us, 50 us");
        assert!(times_less(&alike, 0.5, 0.0) <= 1.001);
        assert!(times_less(&alike, 0.5, 60e6).is_infinite(), "all of it may be waits");
    }

    #[test]
    fn a_side_that_waited_may_be_better_and_the_other_worse_than_it_looks() {
        let slack = Slack::of(1.0, 1.2, Better::Lower);
        assert!((slack.down - 1.2_f64.ln()).abs() < 1e-12 && slack.up == 0.0);
        let slack = Slack::of(1.0, 1.2, Better::Higher);
        assert!((slack.up - 1.2_f64.ln()).abs() < 1e-12 && slack.down == 0.0);
        assert_eq!(Slack::default().factor(), None);
    }

    #[test]
    fn only_waits_for_a_processor_have_a_bound() {
        let mut record = testing::record();
        record.steps[0].cost.run_delay_ns = record.steps[0].runtime_ns / 10;
        let finding = |id| detect::base_finding(id, qd1_model::Severity::Warning, 1.0);
        let (waits, traffic) = (finding(FindingId::CpuSpoiledRunDelay), finding(FindingId::OtherTraffic));
        let of = |findings: &[&Finding]| explained(&record, &record.steps[0], findings);
        let rate = of(&[&waits]).into_iter().find(|one| one.metric == "iops").unwrap();
        assert!((rate.factor - 1.0 / 0.9).abs() < 1e-6, "{rate:?}");
        assert!(of(&[&waits, &traffic]).is_empty());
    }
}
