//! Requests failed or were cut short: the step measured a broken path, not a disk.
//!
//! Concludes from `StepRecord::errors` alone; any failed request counts. It cannot distinguish broken media from a full
//! filesystem or a quota; the error's name does.

use qd1_model::FindingId;
use qd1_model::plan::Work;
use qd1_model::record::StepRecord;
use qd1_model::{Finding, Record, Severity, Summary};

use super::{base_finding, plan_of};

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let failed = record.steps.iter().filter(|step| !step.errors.is_empty() || !step.fault.is_empty());
    failed
        .map(|step| {
            if !step.fault.is_empty() {
                return Finding {
                    step: step.name.clone(),
                    title: format!("step {} could not run", step.name),
                    evidence: step.fault.clone(),
                    advice: if is_of_program(record, step) {
                        "Look at what the program printed: the disk may not be the cause.".to_owned()
                    } else {
                        advice(["ENOSPC"].into_iter().filter(|error| step.fault.contains(error)))
                    },
                    ..base_finding(FindingId::ShortOrFailedIoStep, Severity::Critical, 1.0)
                };
            }
            let total: u64 = step.errors.iter().map(|error| error.count).sum();
            let each: Vec<String> = step
                .errors
                .iter()
                .map(|error| format!("{} x {}, first at offset {}", error.count, error.error, error.first_offset))
                .collect();
            Finding {
                step: step.name.clone(),
                title: format!("{total} requests of step {} failed or were cut short", step.name),
                evidence: each.join("; "),
                advice: advice(step.errors.iter().map(|error| error.error.as_str())),
                ..base_finding(FindingId::ShortOrFailedIo, Severity::Critical, 1.0)
            }
        })
        .collect()
}

fn is_of_program(record: &Record, step: &StepRecord) -> bool {
    plan_of(record, step).is_some_and(|plan| matches!(plan.work, Work::App(_)))
}

fn advice<'a>(mut errors: impl Iterator<Item = &'a str>) -> String {
    if errors.any(|error| matches!(error, "ENOSPC" | "EDQUOT")) {
        return "Free some space or raise the quota, then measure again.".to_owned();
    }
    "Read the kernel log (dmesg) for errors of this device, and do not trust any figure of this step.".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::record::IoErrors;

    #[test]
    fn failed_requests_are_critical_and_named() {
        let mut record = testing::record();
        record.steps[0].errors.push(IoErrors { error: "EIO".to_owned(), count: 3, first_offset: 8192 });
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["short_or_failed_io"]);
        assert_eq!(found[0].severity, Severity::Critical);
        assert!(found[0].evidence.contains("3 x EIO, first at offset 8192"));
    }

    #[test]
    fn a_step_that_could_not_run_is_reported_with_its_reason() {
        let mut record = testing::record();
        let fault = "writing its file failed: ENOSPC at offset 4096".to_owned();
        record.steps[1] = qd1_model::record::StepRecord::failed("commits", fault, 0);
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["short_or_failed_io.step"]);
        assert!(found[0].evidence.contains("ENOSPC") && found[0].advice.contains("Free some space"));
    }

    #[test]
    fn a_clean_run_has_none() {
        assert_eq!(testing::run(detect, &testing::record()), []);
    }
}
