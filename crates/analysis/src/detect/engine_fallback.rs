//! `auto` could not use the engine it preferred, so another one ran: runs with different engines are not comparable.
//!
//! Concludes from `engine_why`, which then starts with "fell back" (engine/select.rs). One finding for all steps with
//! the same reason. Threads in place of a queue cost more processor time, so they warn; libaio in place of io_uring is
//! only mentioned.

use qd1_model::FindingId;
use qd1_model::plan::EngineKind;
use qd1_model::{Finding, Record, Severity, Summary};

use super::base_finding;

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let mut all: Vec<(Finding, Vec<&str>)> = Vec::new();
    for step in record.steps.iter().filter(|step| step.engine_why.starts_with("fell back")) {
        if let Some((_, steps)) = all.iter_mut().find(|(finding, _)| finding.evidence == step.engine_why) {
            steps.push(&step.name);
            continue;
        }
        let engine = step.engine.map_or("another engine", EngineKind::name);
        let severity = if step.engine == Some(EngineKind::Psync) { Severity::Warning } else { Severity::Info };
        let finding = Finding {
            title: format!("{engine} ran instead of the preferred engine"),
            evidence: step.engine_why.clone(),
            advice: "Compare only with runs that used the same engine. Containers often block io_uring; it works on \
                     the host or with a seccomp profile that allows it."
                .to_owned(),
            ..base_finding(FindingId::EngineFallback, severity, 1.0)
        };
        all.push((finding, vec![&step.name]));
    }
    all.into_iter()
        .map(|(finding, steps)| match steps.as_slice() {
            [one] => Finding { step: (*one).to_owned(), ..finding },
            many => Finding { evidence: format!("{} (steps {})", finding.evidence, many.join(", ")), ..finding },
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn one_reason_is_said_once() {
        let mut record = testing::record();
        for step in &mut record.steps {
            step.engine = Some(EngineKind::Libaio);
            step.engine_why = "fell back from io_uring: EPERM".to_owned();
        }
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["engine_fallback"]);
        assert!(found[0].evidence.ends_with("(steps reads, commits)"));
    }

    #[test]
    fn the_wanted_engine_is_not_a_finding() {
        assert_eq!(testing::run(detect, &testing::record()), []);
    }
}
