//! What the programs themselves did in the same Record, beside what was predicted of them.

use qd1_model::app::{AppWork, Program};
use qd1_model::plan::Work;
use qd1_model::prediction::{Exactness, Predicted, Predicts, Verified};
use qd1_model::record::{OpClass, StepRecord};
use qd1_model::{Estimate, Record};

use super::ETCD_BOUND_NS;
use crate::stats;

/// What was measured of the same figure; nothing where its program was not run.
pub(super) fn verified(record: &Record, row: &Predicted) -> Option<Verified> {
    let loads = || {
        record.steps.iter().filter_map(|step| match &record.plan.step(&step.name)?.work {
            Work::App(work) => Some((step, *work)),
            _ => None,
        })
    };
    let (value, exactness) = match row.what {
        Predicts::PostgresTps => {
            let mine = |work: AppWork| work.program == Program::Postgres && work.clients == row.clients;
            (rate(loads().find(|(_, work)| mine(*work))?.0, OpClass::Transaction), Exactness::Measured)
        }
        Predicts::EtcdRate => {
            let tried: Vec<(f64, f64)> = loads().filter_map(|(step, work)| tried(step, work)).collect();
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
    // Beyond what was tried only a prediction on the other side of it is off.
    let error = match exactness {
        Exactness::Measured => Some(predicted / measured - 1.0),
        Exactness::AtLeast => Some((predicted / measured - 1.0).min(0.0)),
        Exactness::Below => Some((predicted / measured - 1.0).max(0.0)),
    };
    Some(Verified { value, exactness, error, holds })
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

/// A rate of puts, and the 99th percentile that came of it, ns.
fn tried(step: &StepRecord, work: AppWork) -> Option<(f64, f64)> {
    let stream = step.stream(OpClass::Transaction)?;
    Some((f64::from(work.rate?), stream.lat.quantile(0.99) as f64))
}

/// Where the second of each pair passes `bound`, the first being raised: the pairs made to rise (pool adjacent violators), and
/// a straight line in logarithms between the two on both sides of the bound.
fn crossing(tried: &[(f64, f64)], bound: f64) -> Option<(Estimate, Exactness)> {
    let once = |value: f64| Estimate { value: Some(value), ..Estimate::default() };
    let mut sorted: Vec<(f64, f64)> = tried.iter().map(|(rate, ns)| (rate.ln(), ns.max(1.0).ln())).collect();
    sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
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
    use super::*;

    #[test]
    fn the_rate_lies_where_the_line_passes_the_bound() {
        let (rate, exactness) = crossing(&[(100.0, 2e6), (400.0, 5e6), (1600.0, 20e6)], 10e6).unwrap();
        assert_eq!(exactness, Exactness::Measured);
        assert!((rate.value.unwrap() - 800.0).abs() < 1.0, "{rate:?}");
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
