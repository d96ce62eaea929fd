//! A disk does not sustain requests sent at a fixed rate.
//!
//! Concludes from the rate that one request after another reached just before the step ([`qd1_model::plan::Pace`]): at
//! most half of it was offered, so that no queue of ours looks like stalls of the disk. It cannot distinguish a disk
//! that is always this slow from one that was slow at that moment.

use qd1_model::FindingId;
use qd1_model::plan::{Pace, Work};
use qd1_model::record::StepRecord;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, plan_of};

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    record.steps.iter().filter_map(|step| finding(record, step, step.pace?)).collect()
}

fn finding(record: &Record, step: &StepRecord, pace: Pace) -> Option<Finding> {
    let Pace { asked_iops, sustained_iops, offered_iops } = pace;
    if sustained_iops >= asked_iops {
        return None;
    }
    let reads = match plan_of(record, step).map(|plan| &plan.work) {
        Some(Work::Io(io)) => f64::from(io.rwmixread) / 100.0,
        _ => 0.0,
    };
    let commits = |iops: f64| (iops * (1.0 - reads)).round();
    Some(Finding {
        step: step.name.clone(),
        title: format!(
            "the disk sustains {} commits a second, one after another, not {}",
            commits(sustained_iops),
            commits(asked_iops)
        ),
        evidence: format!(
            "{sustained_iops:.1} of {asked_iops:.0} requests a second just before step {}, which then ran at \
             {offered_iops:.1} instead",
            step.name
        ),
        ..base_finding(FindingId::Pace, Severity::Warning, 0.9)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn found(sustained_iops: f64) -> Vec<Finding> {
        let mut record = testing::record();
        let pace = Pace { asked_iops: 120.0, sustained_iops, offered_iops: sustained_iops.min(240.0) / 2.0 };
        record.steps[1].pace = Some(pace);
        testing::run(detect, &record)
    }

    #[test]
    fn what_a_disk_does_not_sustain_is_said_and_what_it_does_is_not() {
        let slow = found(63.0);
        assert_eq!(testing::ids(&slow), ["pace"]);
        assert_eq!(slow[0].title, "the disk sustains 63 commits a second, one after another, not 120");
        assert!(slow[0].evidence.contains("ran at 31.5 instead"), "{}", slow[0].evidence);
        assert_eq!(found(150.0), []);
    }
}
