//! A check over a day, on the slow VPS: a bad night, and an hour that is not resolved.

use qd1_model::part::Part;

use qd1_model::long_check::{Hour, Hours, LongCheckSummary};
use qd1_model::metric::{Better, metric};
use qd1_model::plan::LongCheckPlan;
use qd1_model::record::long_check::{LongCheckRecord, Round, RoundRecord, Use};
use qd1_model::verdict::Judged;
use qd1_model::{Bytes, Estimate, Grade, Record, Report};

use super::slow_vps;

const HOUR_NS: u64 = 3_600_000_000_000;

/// 370 of 375 rounds, resumed once.
pub fn over_a_day() -> Report {
    let mut report = slow_vps();
    let record = &mut report.record;
    let (duration_ns, busy_max_ns) = (24 * HOUR_NS, 432_000_000_000);
    record.plan.over = Some(LongCheckPlan { duration_ns, rounds: 375, round_max_ns: 1_120_000_000, busy_max_ns });
    record.elapsed_ns = duration_ns;
    let at_ns = |number: u32| u64::from(number) * duration_ns / 375;
    let used = |at_ns| Use { at_ns, busy_ns: 980_000_000, written: Bytes::mib(5) };
    let round = |number| RoundRecord { number, used: used(at_ns(number)) };
    let rounds = (0..200).chain(205..375).map(round).collect();
    record.over = Some(LongCheckRecord { starts: [0, 11 * HOUR_NS].map(used).to_vec(), rounds });
    let started = record.started_unix_ns;
    let judged = report.verdicts.iter().flat_map(|verdict| verdict.judged.iter().map(|one| (&verdict.class, one)));
    let criteria = judged.map(|(class, judged)| Hours {
        class: class.clone(),
        criterion: judged.criterion.clone(),
        hours: (0..24).filter_map(|hour| of_hour(judged, hour, started)).collect(),
    });
    report.parts.push(Part::LongCheck(LongCheckSummary {
        duration_ns,
        rounds_planned: 375,
        rounds: 370,
        unseen_hours: 0,
        busy_share: 0.0042,
        written_bytes: Bytes::gib(3).0,
        resumed: 1,
        criteria: criteria.collect(),
    }));
    report
}

/// A check over an hour that has begun, in which nothing was measured yet.
#[must_use]
pub fn over_an_hour() -> Record {
    let mut record = Record { steps: Vec::new(), interrupted: true, elapsed_ns: 1, ..slow_vps().record };
    let (duration_ns, busy_max_ns) = (HOUR_NS, HOUR_NS / 200);
    record.plan.over = Some(LongCheckPlan { duration_ns, rounds: 14, round_max_ns: 1_000_000_000, busy_max_ns });
    record
}

/// One of its rounds, every 200 s.
#[must_use]
pub fn round(number: u32) -> Round {
    let at_ns = u64::from(number) * 200_000_000_000;
    let mut steps = slow_vps().record.steps;
    steps.iter_mut().for_each(|step| step.started_ns = at_ns);
    Round { round: RoundRecord { number, used: Use { at_ns, busy_ns: 7, written: Bytes(9) } }, steps }
}

fn of_hour(judged: &Judged, hour: u64, started_unix_ns: u64) -> Option<Hour> {
    let of_day = judged.figure?;
    let factor = match hour {
        2..=4 => 3.0 + 0.1 * hour as f64,
        _ => 0.6 + 0.01 * hour as f64,
    };
    let is_lower = metric(&judged.criterion.metric)?.better == Better::Lower;
    let factor = if is_lower { factor } else { 1.0 / factor };
    let times = |value: Option<f64>| value.map(|value| value * factor);
    let figure = match hour {
        20 => Estimate { n: of_day.n / 24, n_needed: of_day.n, ..Estimate::default() },
        _ => Estimate { value: times(of_day.value), low: times(of_day.low), high: times(of_day.high), ..of_day },
    };
    let is_met = |limit: f64| figure.value.map(|value| if is_lower { value <= limit } else { value >= limit });
    let grade = match (is_met(judged.criterion.pass), is_met(judged.criterion.fail)) {
        (None, _) | (_, None) => Grade::NotResolved,
        (Some(true), _) => Grade::Pass,
        (_, Some(true)) => Grade::Marginal,
        _ => Grade::Fail,
    };
    Some(Hour { from_unix_ns: started_unix_ns + hour * HOUR_NS, rounds: 15, figure: Some(figure), grade })
}
