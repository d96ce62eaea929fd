//! Predictions compared with the results of the programs themselves in the same Record.

use qd1_model::order::Order as _;
use std::collections::BTreeMap;

use qd1_model::hist::coarse_low_ns;
use qd1_model::op::OpClass;
use qd1_model::plan::Work;
use qd1_model::plan::program::{AppWork, Program};
use qd1_model::prediction::{Exactness, Predicted, Predicts, Verified};
use qd1_model::record::{Interval, StepRecord};
use qd1_model::{Estimate, Record};

use super::ETCD_BOUND_NS;
use crate::steal::{STEAL_CRITICAL, STEAL_TAIL};
use qd1_stats as stats;

const SECOND_NS: u64 = 1_000_000_000;
/// The smallest number that has a 99th percentile.
const P99_COUNT: u64 = 100;

/// The measured value of the figure for which `at_first` was predicted before; `None` if its program was not run, or
/// was disturbed.
pub(super) fn verified(record: &Record, row: &Predicted, at_first: Option<f64>) -> Option<Verified> {
    // A figure spoiled by the hypervisor does not describe the disk.
    let loads = || {
        let fair = record.steps.iter().filter(|step| step.steal < STEAL_CRITICAL);
        fair.filter_map(|step| match &record.plan.step(&step.name)?.work {
            Work::App(work) => Some((step, *work)),
            _ => None,
        })
    };
    let (value, exactness) = match row.what {
        Predicts::PostgresTps | Predicts::MysqlTps => {
            let program = row.what.program();
            let mine = |work: AppWork| work.program == program && work.clients == row.clients && work.rate.is_none();
            (rate(loads().find(|(_, work)| mine(*work))?.0, OpClass::Transaction), Exactness::Measured)
        }
        Predicts::EtcdRate => {
            let tried: Vec<(f64, f64)> = loads().filter_map(|(step, work)| rate_and_p99(step, work)).collect();
            crossing(&tried, ETCD_BOUND_NS)?
        }
        Predicts::SqliteWalFull | Predicts::SqliteWalNormal | Predicts::SqliteRollbackFull => {
            let name = sqlite_load(row.what);
            let mine = |step: &StepRecord, work: AppWork| work.program == Program::Sqlite && step.name == name;
            (rate(loads().find(|(step, work)| mine(step, *work))?.0, OpClass::Commit), Exactness::Measured)
        }
    };
    let measured = value.value?;
    let (predicted, low, high) = (row.value.value?, row.value.low?, row.value.high?);
    let holds = match exactness {
        Exactness::Measured => (low..=high).contains(&measured),
        Exactness::AtLeast => high >= measured,
        Exactness::Below => low <= measured,
    };
    let off = |predicted: f64| {
        let error = predicted / measured - 1.0;
        // Beyond the tested range, a prediction is wrong only if it is on the other side.
        match exactness {
            Exactness::Measured => error,
            Exactness::AtLeast => error.min(0.0),
            Exactness::Below => error.max(0.0),
        }
    };
    let (error, error_at_first) = (Some(off(predicted)), at_first.map(off));
    Some(Verified { value, exactness, error, holds, at_first, error_at_first })
}

/// The load of `qd1 app sqlite` that measures it.
const fn sqlite_load(what: Predicts) -> &'static str {
    match what {
        Predicts::SqliteWalNormal => "wal-normal",
        Predicts::SqliteRollbackFull => "delete-full",
        _ => "wal-full",
    }
}

fn rate(step: &StepRecord, class: OpClass) -> Estimate {
    stats::rate(&step.intervals, class)
}

/// A rate of puts, and the 99th percentile of their latency in a typical second, ns: an occasional stall of the machine
/// is not caused by the rate. `None` if they were too few for one, or spoiled by the hypervisor.
fn rate_and_p99(step: &StepRecord, work: AppWork) -> Option<(f64, f64)> {
    if step.steal >= STEAL_TAIL {
        return None;
    }
    let stream = step.stream(OpClass::Transaction).filter(|stream| stream.lat.count() >= P99_COUNT)?;
    let typical = typical_p99(&step.intervals).unwrap_or(stream.lat.quantile(0.99) as f64);
    Some((f64::from(work.rate?), typical))
}

/// The 99th percentile of the median second, ns; `None` if no second has enough for one.
fn typical_p99(intervals: &[Interval]) -> Option<f64> {
    let mut seconds = p99s(intervals);
    seconds.order_by(f64::total_cmp);
    seconds.get(seconds.len() / 2).copied()
}

/// The 99th percentile of each second, or of each longer time that has enough for one, ns. The remainder at the end
/// does not count.
fn p99s(intervals: &[Interval]) -> Vec<f64> {
    let mut p99s = Vec::new();
    let (mut length_ns, mut bins) = (0, BTreeMap::<u16, u64>::new());
    for interval in intervals {
        length_ns += interval.length_ns;
        for stream in interval.streams.iter().filter(|stream| stream.class == OpClass::Transaction) {
            stream.bins.iter().for_each(|(bin, count)| *bins.entry(*bin).or_default() += u64::from(*count));
        }
        let count: u64 = bins.values().sum();
        if length_ns < SECOND_NS || count < P99_COUNT {
            continue;
        }
        let mut above = count / 100;
        let bin = bins.iter().rev().find_map(|(bin, count)| {
            let found = *count > above;
            above = above.saturating_sub(*count);
            found.then_some(usize::from(*bin))
        });
        let bin = bin.expect("they are more than a hundredth of themselves");
        p99s.push((coarse_low_ns(bin) as f64 + coarse_low_ns(bin + 1) as f64) / 2.0);
        (length_ns, bins) = (0, BTreeMap::new());
    }
    p99s
}

/// Where the second of each pair passes `bound`, the first being raised: the pairs made monotonic (pool adjacent
/// violators), and a straight line in logarithms between the two on both sides of the bound.
fn crossing(tried: &[(f64, f64)], bound: f64) -> Option<(Estimate, Exactness)> {
    let once = |value: f64| Estimate { value: Some(value), ..Estimate::default() };
    let mut sorted: Vec<(f64, f64)> = tried.iter().map(|(rate, ns)| (rate.ln(), ns.max(1.0).ln())).collect();
    sorted.order_by(|a, b| a.0.total_cmp(&b.0));
    let rising = rising(&sorted.iter().map(|(_, ns)| *ns).collect::<Vec<_>>());
    let above = rising.iter().position(|ns| *ns > bound.ln());
    match above {
        None => sorted.last().map(|(rate, _)| (once(rate.exp()), Exactness::AtLeast)),
        Some(0) => Some((once(sorted[0].0.exp()), Exactness::Below)),
        Some(at) => {
            let share = (bound.ln() - rising[at - 1]) / (rising[at] - rising[at - 1]);
            let rate = sorted[at - 1].0 + share * (sorted[at].0 - sorted[at - 1].0);
            Some((once(rate.exp()), Exactness::Measured))
        }
    }
}

/// The nearest rising values, by least squares: neighbours that fall are replaced by their mean.
fn rising(values: &[f64]) -> Vec<f64> {
    let mut pools: Vec<(f64, usize)> = Vec::new();
    for value in values {
        pools.push((*value, 1));
        while let [.., (before, many), (last, count)] = pools[..]
            && before > last
        {
            let all = many + count;
            let mean = (before * many as f64 + last * count as f64) / all as f64;
            pools.truncate(pools.len() - 2);
            pools.push((mean, all));
        }
    }
    pools.into_iter().flat_map(|(value, count)| std::iter::repeat_n(value, count)).collect()
}

#[cfg(test)]
mod tests {
    use qd1_model::hist::CoarseHist;
    use qd1_model::plan::{Rw, Sync};
    use qd1_model::record::IntervalStream;

    use super::*;
    use crate::testing;

    #[test]
    fn the_rate_lies_where_the_line_passes_the_bound() {
        let (rate, exactness) = crossing(&[(100.0, 2e6), (400.0, 5e6), (1600.0, 20e6)], 10e6).unwrap();
        assert_eq!(exactness, Exactness::Measured);
        assert!((rate.value.unwrap() - 800.0).abs() < 1.0, "{rate:?}");
    }

    #[test]
    fn a_stalled_second_does_not_decide_over_the_others() {
        let second = |ns: u64| {
            let mut coarse = CoarseHist::default();
            (0..200).for_each(|_| coarse.record(1_000_000));
            (0..4).for_each(|_| coarse.record(ns));
            let (class, ios, bytes) = (OpClass::Transaction, 204, 0);
            let stream = IntervalStream { class, ios, bytes, lat_sum_ns: 0, lat_max_ns: ns, bins: coarse.sparse() };
            Interval { start_ns: 0, length_ns: SECOND_NS, streams: vec![stream] }
        };
        let seconds = [second(5_000_000), second(80_000_000), second(6_000_000)];
        let typical = typical_p99(&seconds).unwrap();
        assert!((typical / 6e6 - 1.0).abs() < 0.05, "{typical}");
        let p99s = p99s(&seconds);
        for (p99_ns, truth) in p99s.iter().zip([5e6, 80e6, 6e6]) {
            assert!((p99_ns / truth - 1.0).abs() < 0.05, "{p99s:?}");
        }
        assert_eq!(p99s.len(), 3);
    }

    #[test]
    fn a_tail_of_too_few_puts_or_of_the_hypervisors_making_is_none() {
        let found = |per_interval: u64, steal: f64| {
            let mut record = testing::empty();
            let io = testing::io(Rw::Randread, 4096, Sync::None, false);
            let step = testing::step(&mut record, "puts", io, per_interval, 2_000_000);
            step.steal = steal;
            step.streams[0].class = OpClass::Transaction;
            rate_and_p99(step, AppWork { program: Program::Etcd, clients: 1, rate: Some(40) })
        };
        let (rate, p99_ns) = found(50, 0.0).unwrap();
        assert!(rate == 40.0 && (2e6..3e6).contains(&p99_ns), "{p99_ns}");
        assert_eq!((found(4, 0.0), found(50, 0.05)), (None, None));
    }

    #[test]
    fn one_stall_at_a_low_rate_does_not_decide() {
        let (rate, _) = crossing(&[(100.0, 12e6), (200.0, 4e6), (400.0, 4e6), (1600.0, 64e6)], 10e6).unwrap();
        assert!(rate.value.unwrap() > 400.0, "{rate:?}");
    }

    #[test]
    fn beyond_what_was_tried_only_a_bound_is_known() {
        let (least, exactness) = crossing(&[(100.0, 2e6), (400.0, 5e6)], 10e6).unwrap();
        assert_eq!((least.value.unwrap().round(), exactness), (400.0, Exactness::AtLeast));
        let (most, exactness) = crossing(&[(100.0, 20e6), (400.0, 50e6)], 10e6).unwrap();
        assert_eq!((most.value.unwrap().round(), exactness), (100.0, Exactness::Below));
        assert_eq!(crossing(&[], 10e6), None);
    }
}
