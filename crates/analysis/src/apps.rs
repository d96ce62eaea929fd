//! Figures from a real program's own counters, histograms and reports.
//!
//! Latencies and rates that qd1 timed itself have intervals from [`qd1_stats`], like any others. This module handles
//! what only the program knows: how often its log was synced, where a percentile lies among the buckets it chose, and
//! whether it passes by the rules of its own documentation.

use qd1_model::Record;
use qd1_model::app::{AppCheck, AppLoad, AppSummary, BucketQuantile};
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::program::{AppWork, Program};
use qd1_model::plan::{StepPlan, Work};
use qd1_model::record::StepRecord;
use qd1_model::record::program::{AppStep, AppUnit, Buckets, Counter, ETCD_WAL_FSYNC};
use qd1_model::verdict::Grade;

use qd1_stats::Z_975;

/// etcd's documentation: the 99th percentile of `wal_fsync_duration` should be below this.
const FSYNC_P99_MAX_NS: f64 = 10e6;
/// `etcdctl check perf` fails at or below this share of the writes it sends.
const THROUGHPUT_SHARE: f64 = 0.9;
/// It fails if the slowest request took longer.
const SLOWEST_MAX_NS: f64 = 0.5e9;
/// It fails if the standard deviation of the requests' times is larger.
const STDDEV_MAX_NS: f64 = 0.1e9;

/// Summarises the program that `record` ran, if it ran one.
#[must_use]
pub fn summarize(record: &Record) -> Option<AppSummary> {
    let program = record.app.as_ref()?.program;
    let load = |step: &StepRecord| {
        let app = step.app.as_ref()?;
        let quantiles: Vec<BucketQuantile> =
            app.buckets.iter().flat_map(|buckets| [0.5, 0.99].map(|q| quantile(buckets, q))).collect();
        let checks = if program == Program::Etcd { etcd_checks(app, &quantiles) } else { Vec::new() };
        Some(AppLoad { step: step.name.clone(), facts: facts(step, app), quantiles, checks })
    };
    Some(AppSummary { loads: record.steps.iter().filter_map(load).collect() })
}

/// Derives figures for each operation from the counters.
fn facts(step: &StepRecord, app: &AppStep) -> Vec<Counter> {
    let mut facts = Vec::new();
    let mut fact = |name: &str, unit, value: f64| {
        if value.is_finite() {
            facts.push(Counter::new(name, unit, value));
        }
    };
    let operations = app.counter("operations").or_else(|| timed(step)).filter(|count| *count > 0.0);
    if let Some(syncs) = app.counter("wal_sync") {
        fact("wal_syncs", AppUnit::Count, syncs);
        if let Some(time_ns) = app.counter("wal_sync_time").filter(|time_ns| syncs > 0.0 && *time_ns > 0.0) {
            fact("wal_sync_mean", AppUnit::Ns, time_ns / syncs);
        }
        if let Some(operations) = operations {
            fact("wal_syncs_per_operation", AppUnit::PerOperation, syncs / operations);
        }
    }
    if let (Some(bytes), Some(operations)) = (app.counter("wal_bytes"), operations) {
        fact("wal_bytes_per_operation", AppUnit::BytesPerOperation, bytes / operations);
    }
    if let (Some(device), Some(operations)) = (&app.device, operations) {
        fact("disk_bytes_written_per_operation", AppUnit::BytesPerOperation, device.write_bytes as f64 / operations);
        fact("disk_flushes_per_operation", AppUnit::PerOperation, device.flushes as f64 / operations);
    }
    for name in ["checkpoints_timed", "checkpoints_requested", "leader_changes", "slow_requests", "slow_syncs"] {
        if let Some(count) = app.counter(name) {
            fact(name, AppUnit::Count, count);
        }
    }
    facts
}

/// The part of a load at a fixed rate that was never answered.
///
/// qd1's own loads know what was due ([`AppStep::due`]), and one without an answer is enough; of pgbench's only the mean is
/// known, so that a shortfall must be more than four standard deviations of a Poisson count, and at least 1 %.
pub(crate) struct Shortfall {
    pub(crate) rate: u32,
    pub(crate) due: f64,
    pub(crate) missing: f64,
    /// The shortest time that each of those has waited, ns, if known.
    pub(crate) waited_ns: Option<f64>,
}

impl Shortfall {
    /// Smallest shortfall that counts if only the mean of what was due is known.
    const SHARE_MIN: f64 = 0.01;
    /// Standard deviations that it must then exceed.
    const Z_MIN: f64 = 4.0;

    /// `None` if everything was answered, or the load was stopped before its end.
    pub(crate) fn of(plan: &StepPlan, step: &StepRecord) -> Option<Self> {
        let Work::App(AppWork { rate: Some(rate), .. }) = plan.work else { return None };
        if step.ended == Ended::Interrupted {
            return None;
        }
        let known = step.app.as_ref().and_then(|app| app.due);
        let answered = timed(step).or(known.map(|_| 0.0))?;
        let due = known.map_or(f64::from(rate) * step.runtime_ns as f64 / 1e9, |due| due.count as f64);
        let missing = due - answered;
        let is_sure = known.is_some() || (missing > Self::Z_MIN * due.sqrt() && missing > Self::SHARE_MIN * due);
        let waited_ns = known.map(|due| due.drain_ns as f64);
        (missing >= 1.0 && is_sure).then_some(Self { rate, due, missing, waited_ns })
    }

    /// Its share of all operations due.
    pub(crate) fn share(&self) -> f64 {
        self.missing / self.due
    }

    /// Whether quantile `q` of all operations due lies among those not answered.
    pub(crate) fn hides(&self, q: f64) -> bool {
        1.0 - q < self.share()
    }
}

/// Operations that qd1 timed in the load.
fn timed(step: &StepRecord) -> Option<f64> {
    let wanted = |class: OpClass| matches!(class, OpClass::Transaction | OpClass::Commit);
    let stream = step.streams.iter().find(|stream| wanted(stream.class))?;
    Some(stream.lat.count() as f64)
}

/// The bucket, or buckets, in which quantile `q` lies with 95 % confidence.
///
/// The ranks of the interval are those of independent values (normal approximation of the binomial): a program that
/// keeps buckets alone does not say when each value came, so nothing is known of dependence.
#[must_use]
pub fn quantile(buckets: &Buckets, q: f64) -> BucketQuantile {
    let n: u64 = buckets.counts.iter().sum();
    let empty = BucketQuantile { name: buckets.name.clone(), q, above_ns: None, at_most_ns: None, n };
    if n == 0 {
        return empty;
    }
    let count = n as f64;
    let half = Z_975 * (count * q * (1.0 - q)).sqrt();
    // Without a value beyond the upper rank, nothing bounds the percentile from above.
    let bucket_of = |rank: f64| {
        let mut seen = 0.0;
        buckets.counts.iter().position(|bucket| {
            seen += *bucket as f64;
            seen >= rank
        })
    };
    let low = bucket_of((count * q - half).floor().max(1.0)).unwrap_or(0);
    let above_ns = (low > 0).then(|| buckets.bounds_ns[low - 1]);
    let upper = (count * q + half).ceil() + 1.0;
    let at_most_ns =
        if upper > count { None } else { bucket_of(upper).and_then(|at| buckets.bounds_ns.get(at).copied()) };
    BucketQuantile { above_ns, at_most_ns, ..empty }
}

/// Checks by the rules of `etcdctl check perf` and of etcd's documentation.
fn etcd_checks(app: &AppStep, quantiles: &[BucketQuantile]) -> Vec<AppCheck> {
    let rule = "etcdctl check perf";
    let mut checks = Vec::new();
    let mut exact = |name: &str, unit, value: Option<f64>, bound: f64, at_least: bool| {
        let Some(value) = value else { return };
        let own = app.reported(&format!("{name}_passed")).map(|passed| passed > 0.0);
        // The figures it prints are rounded; its own verdict uses exact ones.
        let good = own.unwrap_or(if at_least { value > bound } else { value <= bound });
        let grade = if good { Grade::Pass } else { Grade::Fail };
        let known = Some(value);
        let (name, source) = (name.to_owned(), rule.to_owned());
        checks.push(AppCheck { name, unit, value: known, low: known, high: known, bound, at_least, grade, source });
    };
    if let Some(asked) = app.reported("asked_writes_per_second") {
        let bound = THROUGHPUT_SHARE * asked;
        exact("throughput", AppUnit::PerSecond, app.reported("writes_per_second"), bound, true);
    }
    exact("slowest", AppUnit::Ns, app.reported("slowest"), SLOWEST_MAX_NS, false);
    exact("stddev", AppUnit::Ns, app.reported("stddev"), STDDEV_MAX_NS, false);
    let fsync = quantiles.iter().find(|quantile| quantile.name == ETCD_WAL_FSYNC && quantile.q > 0.9);
    if let Some(fsync) = fsync.filter(|fsync| fsync.n > 0) {
        let (low, high) = (fsync.above_ns.map(|ns| ns as f64), fsync.at_most_ns.map(|ns| ns as f64));
        let grade = match (low, high) {
            (_, Some(high)) if high <= FSYNC_P99_MAX_NS => Grade::Pass,
            (Some(low), _) if low >= FSYNC_P99_MAX_NS => Grade::Fail,
            _ => Grade::NotResolved,
        };
        checks.push(AppCheck {
            name: "wal_fsync_p99".to_owned(),
            unit: AppUnit::Ns,
            value: None,
            low,
            high,
            bound: FSYNC_P99_MAX_NS,
            at_least: false,
            grade,
            source: "etcd docs and runbook".to_owned(),
        });
    }
    checks
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buckets(counts: [u64; 6]) -> Buckets {
        let bounds_ns = [1, 2, 4, 8, 16].map(|ms| ms * 1_000_000).to_vec();
        Buckets { name: ETCD_WAL_FSYNC.to_owned(), bounds_ns, counts: counts.to_vec(), sum_ns: 0 }
    }

    fn bounds(counts: [u64; 6], q: f64) -> (Option<u64>, Option<u64>) {
        let found = quantile(&buckets(counts), q);
        (found.above_ns.map(|ns| ns / 1_000_000), found.at_most_ns.map(|ns| ns / 1_000_000))
    }

    #[test]
    fn a_percentile_of_buckets_is_bounded_by_their_edges() {
        assert_eq!(bounds([0, 9_000, 1_000, 0, 0, 0], 0.5), (Some(1), Some(2)));
        assert_eq!(bounds([0, 9_000, 1_000, 0, 0, 0], 0.99), (Some(2), Some(4)));
        assert_eq!(bounds([10_000, 0, 0, 0, 0, 0], 0.99), (None, Some(1)));
    }

    #[test]
    fn too_few_values_or_too_large_ones_leave_the_upper_end_open() {
        assert_eq!(bounds([100, 0, 0, 0, 0, 0], 0.99), (None, None), "p99 of 100 values may lie above all of them");
        assert_eq!(bounds([0, 0, 0, 0, 5_000, 5_000], 0.99), (Some(16), None));
        assert_eq!(bounds([0; 6], 0.99), (None, None));
    }

    #[test]
    fn a_rank_near_the_edge_of_a_bucket_spans_both() {
        // One in a hundred lies above 2 ms: the true p99 may be on either side.
        assert_eq!(bounds([0, 9_900, 100, 0, 0, 0], 0.99), (Some(1), Some(4)));
    }

    fn graded(counts: [u64; 6]) -> Grade {
        let app = AppStep { buckets: vec![buckets(counts)], ..AppStep::default() };
        let quantiles = [quantile(&app.buckets[0], 0.99)];
        etcd_checks(&app, &quantiles).into_iter().find(|check| check.name == "wal_fsync_p99").unwrap().grade
    }

    #[test]
    fn etcds_fsync_bound_is_judged_only_where_its_buckets_can_tell() {
        assert_eq!(graded([0, 9_950, 50, 0, 0, 0]), Grade::Pass);
        assert_eq!(graded([0, 0, 0, 0, 0, 10_000]), Grade::Fail);
        assert_eq!(graded([0, 0, 0, 0, 10_000, 0]), Grade::NotResolved, "8 to 16 ms may be either side of 10");
    }

    #[test]
    fn check_perf_fails_at_nine_tenths_and_above_its_times() {
        let figure = |name: &str, unit, value| Counter::new(name, unit, value);
        let grades = |writes, slowest, stddev| {
            let reported = vec![
                figure("asked_writes_per_second", AppUnit::PerSecond, 150.0),
                figure("writes_per_second", AppUnit::PerSecond, writes),
                figure("slowest", AppUnit::Ns, slowest),
                figure("stddev", AppUnit::Ns, stddev),
            ];
            let app = AppStep { reported, ..AppStep::default() };
            etcd_checks(&app, &[]).into_iter().map(|check| check.grade).collect::<Vec<_>>()
        };
        assert_eq!(grades(150.0, 0.09e9, 0.01e9), [Grade::Pass; 3]);
        assert_eq!(grades(135.0, 0.51e9, 0.2e9), [Grade::Fail; 3], "135 is nine tenths of 150");
    }

    #[test]
    fn log_syncs_are_counted_for_each_operation() {
        let counter = |name: &str, value| Counter::new(name, AppUnit::Count, value);
        let counters = [("operations", 1000.0), ("wal_sync", 250.0), ("wal_sync_time", 500e6)];
        let app = AppStep { counters: counters.map(|(n, v)| counter(n, v)).to_vec(), ..AppStep::default() };
        let facts = facts(&StepRecord::default(), &app);
        let fact = |name: &str| facts.iter().find(|fact| fact.name == name).unwrap().value;
        assert_eq!((fact("wal_syncs_per_operation"), fact("wal_sync_mean")), (0.25, 2e6));
    }
}
