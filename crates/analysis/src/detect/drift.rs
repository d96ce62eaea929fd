//! A rate or a median latency that creeps over a whole step, so that its figures depend on how long it ran.
//!
//! Concludes from the robust slope of [`qd1_stats::change`] (Theil and Sen, block bootstrap; docs/method.md), if a line
//! describes the step at least as well as changes of level do. Reported from 15 % over the step.
//!
//! It cannot distinguish a disk that slows down under load (a cache filling, a flash translation layer without free
//! blocks, heat) from a neighbour with a growing load, and a slope over a few seconds may be the start of a slower
//! wave.

use qd1_model::FindingId;
use qd1_model::record::StepRecord;
use qd1_model::{Finding, Record, Severity};

use super::{base_finding, percent};
use qd1_stats::change::{Course, Drift, StepCourse};

/// Smallest drift over the step that is reported: the larger end divided by the smaller.
const FACTOR_MIN: f64 = 1.15;
/// Factor from which it warns.
const WARNING: f64 = 1.4;

pub(super) fn detect(record: &Record, courses: &[StepCourse]) -> Vec<Finding> {
    record.steps.iter().zip(courses).filter_map(|(step, course)| drifting(step, &course.courses)).collect()
}

fn drifting(step: &StepRecord, all: &[Course]) -> Option<Finding> {
    let of = |course: &Course| {
        let rate = course.rate_drift.map(|drift| ("rate", drift));
        rate.or(course.latency_drift.map(|drift| ("median latency", drift)))
    };
    let drifts = all.iter().filter_map(|course| of(course).map(|(what, drift)| (course.class, what, drift)));
    let (class, what, drift) =
        drifts.filter(|(.., drift)| size(drift) >= FACTOR_MIN).max_by(|a, b| size(&a.2).total_cmp(&size(&b.2)))?;
    let (verb, worse) = match (drift.factor < 1.0, what) {
        (true, "rate") => ("fell", true),
        (true, _) => ("fell", false),
        (false, "rate") => ("rose", false),
        (false, _) => ("rose", true),
    };
    let signed = |factor: f64| format!("{}{}", if factor < 1.0 { "-" } else { "+" }, percent((factor - 1.0).abs()));
    Some(Finding {
        step: step.name.clone(),
        title: format!(
            "the {what} of {}s {verb} steadily over step {}, by {} in {:.0} s",
            class.name(),
            step.name,
            percent((drift.factor - 1.0).abs()),
            step.runtime_ns as f64 / 1e9
        ),
        evidence: format!(
            "{what} at the end {} compared with the start (95 %: {} to {}); a line fits at least as well as steps",
            signed(drift.factor),
            signed(drift.low),
            signed(drift.high)
        ),
        advice: "Run longer, until the rate settles: the figures of this step depend on how long it ran, and none of \
                 them is sustained."
            .to_owned(),
        ..base_finding(
            FindingId::Drift,
            if worse && size(&drift) >= WARNING { Severity::Warning } else { Severity::Info },
            if drift.low > 1.05 || drift.high < 0.95 { 0.9 } else { 0.75 },
        )
    })
}

/// The larger end divided by the smaller.
fn size(drift: &Drift) -> f64 {
    drift.factor.max(1.0 / drift.factor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    /// The healthy record with a first step of 30 s, over which the rate falls by `lost`.
    fn tiring(lost: f64) -> Record {
        let mut record = testing::record();
        let step = &mut record.steps[0];
        let template = step.intervals.clone();
        step.intervals = (0..300)
            .map(|i| {
                let mut interval = template[i % template.len()].clone();
                interval.start_ns = i as u64 * 100_000_000;
                let left = 1.0 - lost * i as f64 / 300.0;
                interval.streams[0].ios = (left * (800 + (i as u64 * 7919) % 83) as f64) as u64;
                interval
            })
            .collect();
        step.runtime_ns = 30_000_000_000;
        record
    }

    #[test]
    fn a_rate_that_falls_steadily_is_a_drift_and_not_steps() {
        let record = tiring(0.4);
        let found = testing::run_along(detect, &record);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
        assert!(found[0].title.starts_with("the rate of reads fell steadily over step reads, by "));
        assert!(found[0].title.ends_with("in 30 s"), "{}", found[0].title);
        assert_eq!(testing::run_along(super::super::rate_changed::detect, &record), []);
    }

    #[test]
    fn a_rate_that_keeps_its_level_does_not_drift() {
        assert_eq!(testing::run_along(detect, &tiring(0.0)), []);
        assert_eq!(testing::run_along(detect, &tiring(0.05)), []);
        assert_eq!(testing::run_along(detect, &testing::record()), []);
    }
}
