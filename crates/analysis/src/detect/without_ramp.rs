//! The storage is so fast that a step's ramp would have used up all that the step may write or read.
//!
//! Concludes from [`StepRecord::is_without_ramp`](qd1_model::record::StepRecord): the runner measured these steps again
//! from their beginning. Their first requests, which met an empty queue, are included in the figures.

use qd1_model::FindingId;
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let steps: Vec<&str> =
        record.steps.iter().filter(|step| step.is_without_ramp).map(|step| step.name.as_str()).collect();
    if steps.is_empty() {
        return Vec::new();
    }
    vec![Finding {
        title: "some steps were measured without a ramp, because the ramp would have used up their io_size".to_owned(),
        evidence: steps.join(", "),
        advice: "Their first requests, sent to an empty queue, are included in the figures; a larger io_size leaves \
                 them out."
            .to_owned(),
        ..base_finding(FindingId::WithoutRamp, Severity::Info, 1.0)
    }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn steps_without_their_ramp_are_named() {
        let mut record = testing::record();
        assert_eq!(testing::run(detect, &record), []);
        record.steps[1].is_without_ramp = true;
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["without_ramp"]);
        assert_eq!(found[0].evidence, record.steps[1].name);
    }
}
