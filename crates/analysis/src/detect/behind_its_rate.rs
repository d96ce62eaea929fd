//! A program was sent operations at a rate and did not answer all of them: what was measured is a queue that grows.
//!
//! Concludes from what was due and what was answered. qd1's own loads know what was due ([`AppStep::due`]), and one
//! without an answer is enough; of pgbench's only the mean is known, so that a shortfall must be more than four standard
//! deviations of a Poisson count, and at least 1 %. The latencies leave out what was not answered, so that their tail is
//! too good; the finding says by how much. It cannot tell a disk that is too slow from a processor that is.

use qd1_model::op::Ended;
use qd1_model::plan::Work;
use qd1_model::record::StepRecord;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, plan_of};
use crate::apps;

/// Least shortfall that counts where what was due is known as a mean alone.
const SHARE_MIN: f64 = 0.01;
/// Standard deviations that it must have then.
const Z_MIN: f64 = 4.0;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    record.steps.iter().filter_map(|step| behind(record, step)).collect()
}

fn behind(record: &Record, step: &StepRecord) -> Option<Finding> {
    let Work::App(work) = &plan_of(record, step)?.work else { return None };
    let rate = f64::from(work.rate?);
    if step.ended == Ended::Interrupted {
        return None;
    }
    let answered = apps::timed(step)?;
    let due = step.app.as_ref().and_then(|app| app.due);
    let expected = due.map_or(rate * step.runtime_ns as f64 / 1e9, |due| due.count as f64);
    let missing = expected - answered;
    let is_sure = due.is_some() || (missing > Z_MIN * expected.sqrt() && missing > SHARE_MIN * expected);
    if missing < 1.0 || !is_sure {
        return None;
    }
    let share = missing / expected;
    let waited = due.map(|due| format_ns(due.drain_ns as f64));
    let when = waited.as_ref().map_or_else(|| "when the time was up".to_owned(), |waited| format!("{waited} later"));
    // Each of them is above every percentile that its share leaves room for.
    let hidden =
        [("p50", 0.5), ("p95", 0.05), ("p99", 0.01), ("p99.9", 0.001)].into_iter().find(|(_, top)| share > *top);
    let tail = hidden.map(|(name, _)| match &waited {
        Some(waited) => format!("; they are in no percentile here: with them {name} is more than {waited}"),
        None => format!("; they are in no percentile here: {name} and those above are too low"),
    });
    Some(Finding {
        step: step.name.clone(),
        title: format!("step {} did not keep up with {rate:.0} a second", step.name),
        evidence: format!(
            "{missing:.0} of {}{expected:.0} due were not answered {when} ({:.2} %){}",
            if due.is_some() { "" } else { "about " },
            100.0 * share,
            tail.unwrap_or_default()
        ),
        advice:
            "Measure at a lower rate: where requests come faster than they are answered, latency grows for as long as \
                 that goes on."
                .to_owned(),
        ..base_finding("behind_its_rate", Severity::Warning, 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::op::OpClass;
    use qd1_model::plan::program::{AppWork, Program};
    use qd1_model::record::program::{AppStep, Due};

    /// A load of 100 a second for 2 s, in which `answered` were answered.
    fn load(answered: u64, due: Option<u64>) -> Record {
        let mut record = testing::record();
        record.plan.steps[0].work = Work::App(AppWork { program: Program::Mysql, clients: 1, rate: Some(100) });
        let (stream, intervals) = testing::stream(OpClass::Transaction, 0, answered / testing::INTERVALS, 1_000_000);
        let step = &mut record.steps[0];
        (step.streams, step.intervals, step.runtime_ns) = (vec![stream], intervals, 2_000_000_000);
        step.app = Some(AppStep { due: due.map(|count| Due { count, drain_ns: 2_000_000_000 }), ..AppStep::default() });
        record
    }

    #[test]
    fn what_was_not_answered_is_said_with_the_percentile_that_it_hides() {
        let found = testing::run(detect, &load(180, Some(200)));
        assert_eq!(testing::ids(&found), ["behind_its_rate"]);
        let evidence = &found[0].evidence;
        assert!(evidence.contains("20 of 200 due were not answered 2.00 s later (10.00 %)"), "{evidence}");
        assert!(evidence.contains("with them p95 is more than 2.00 s"), "{evidence}");
    }

    #[test]
    fn a_single_one_is_enough_where_it_is_known_and_noise_where_it_is_not() {
        assert_eq!(testing::run(detect, &load(180, Some(181))).len(), 1);
        assert!(testing::run(detect, &load(180, Some(180))).is_empty());
        // 200 are expected, give or take 14.
        assert!(testing::run(detect, &load(160, None)).is_empty());
        assert_eq!(testing::run(detect, &load(120, None)).len(), 1);
    }

    #[test]
    fn a_load_without_a_rate_or_one_that_was_stopped_is_not_behind() {
        let mut record = load(100, Some(200));
        record.steps[0].ended = Ended::Interrupted;
        assert!(testing::run(detect, &record).is_empty());
        let mut record = load(100, Some(200));
        record.plan.steps[0].work = Work::App(AppWork { program: Program::Mysql, clients: 1, rate: None });
        assert!(testing::run(detect, &record).is_empty());
    }
}
