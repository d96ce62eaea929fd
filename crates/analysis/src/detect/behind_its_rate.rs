//! A program was sent operations at a fixed rate and did not answer all of them, so the run measured a growing queue.
//!
//! Concludes from what was due and what was answered ([`Shortfall`]). The summary gives no percentile that falls among
//! the unanswered operations. It cannot tell whether the disk or the processor is too slow.

use qd1_model::FindingId;
use qd1_model::units::format_ns;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, plan_of};
use crate::apps::Shortfall;

/// Percentiles that reports show.
const SHOWN: [(&str, f64); 3] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)];

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let behind = record.steps.iter().filter_map(|step| Some((step, Shortfall::of(plan_of(record, step)?, step)?)));
    behind.map(|(step, shortfall)| finding(&step.name, &shortfall)).collect()
}

fn finding(step: &str, shortfall: &Shortfall) -> Finding {
    let Shortfall { rate, due, missing, waited_ns } = *shortfall;
    let when = waited_ns.map_or_else(
        || "by the end of the step".to_owned(),
        |waited| format!("within {} of the end of the step", format_ns(waited)),
    );
    let hidden = SHOWN.into_iter().find(|(_, q)| shortfall.hides(*q));
    let tail = hidden.map(|(name, _)| format!("; {name} of all requests due, and anything above it, is unknown"));
    let about = if waited_ns.is_some() { "" } else { "about " };
    let share = match 100.0 * shortfall.share() {
        small if small < 0.1 => "less than 0.1 %".to_owned(),
        large => format!("{large:.1} %"),
    };
    Finding {
        step: step.to_owned(),
        title: format!(
            "step {step} did not keep up with {rate} requests a second: {about}{share} of them were not answered"
        ),
        evidence: format!(
            "{missing:.0} of {about}{due:.0} requests due had no answer {when}{}",
            tail.unwrap_or_default()
        ),
        advice:
            "Measure at a lower rate: when requests arrive faster than they are answered, latency keeps growing for as \
                 long as the step runs."
                .to_owned(),
        ..base_finding(FindingId::BehindItsRate, Severity::Warning, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::op::{Ended, OpClass};
    use qd1_model::plan::Work;
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
        assert!(
            found[0].title.ends_with("with 100 requests a second: 10.0 % of them were not answered"),
            "{}",
            found[0].title
        );
        let evidence = &found[0].evidence;
        assert!(
            evidence.contains("20 of 200 requests due had no answer within 2.00 s of the end of the step"),
            "{evidence}"
        );
        assert!(evidence.contains("p99 of all requests due, and anything above it, is unknown"), "{evidence}");
    }

    /// A load whose every answer was due in the warm-up failed as a whole, and said that nothing had been completed.
    #[test]
    fn none_answered_is_a_finding_too() {
        let mut record = load(180, Some(200));
        record.steps[0].streams.clear();
        let found = testing::run(detect, &record);
        assert!(found[0].title.contains("100.0 % of them were not answered"), "{}", found[0].title);
    }

    #[test]
    fn a_single_one_is_enough_where_it_is_known_and_noise_where_it_is_not() {
        assert_eq!(testing::run(detect, &load(180, Some(181))).len(), 1);
        assert!(testing::run(detect, &load(180, Some(180))).is_empty());
        // 200 are expected, give or take 14.
        assert!(testing::run(detect, &load(160, None)).is_empty());
        assert_eq!(testing::run(detect, &load(120, None)).len(), 1);
    }

    /// The summary of a load whose answers took so long, and of which a tenth was never answered.
    fn medians(lat_ns: u64) -> [qd1_model::Estimate; 2] {
        let mut record = load(1800, Some(2000));
        let (stream, intervals) = testing::stream(OpClass::Transaction, 0, 90, lat_ns);
        (record.steps[0].streams, record.steps[0].intervals) = (vec![stream], intervals);
        let name = record.steps[0].name.clone();
        let summary = crate::summarize(&record);
        let stream = summary.stream(&name, OpClass::Transaction).unwrap();
        [stream.lat_p50_ns, stream.lat_p99_ns]
    }

    #[test]
    fn a_percentile_counts_where_those_without_an_answer_are_known_to_be_above_it() {
        let [p50, p99] = medians(1_000_000);
        assert!(p50.value.is_some_and(|ns| (1e6..1.25e6).contains(&ns)), "{p50:?}");
        assert_eq!((p99.value, p99.low), (None, Some(2e9)));
        // They had waited for two seconds, and may have been answered in less than three.
        let [p50, p99] = medians(3_000_000_000);
        assert_eq!((p50.value, p99.value), (None, None));
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
