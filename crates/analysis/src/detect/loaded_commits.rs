//! How much longer commits take while other programs write and read: fsync on an idle disk is misleading.
//!
//! Compares a step of commits that ran under a background load with the step that did the same work without a load.
//! Formula: the ratio of their p99, else of their p99.9, else of their medians; its interval is the widest the two
//! intervals allow (low under load over high without load, and high over low), which is wider than 95 %. Reported as
//! slower from a lower end of 1.2 up, as steady where the upper end for p99 is at most 1.5 and neither of the others is
//! slower.
//!
//! It cannot distinguish the load from a neighbour that became active between the two steps, and other loads may slow
//! commits down more.

use qd1_model::FindingId;
use qd1_model::op::OpClass;
use qd1_model::{Estimate, Finding, LoadSummary, Record, Severity, StepSummary, Summary};

use super::base_finding;
use super::paired::format_estimate;

/// Lower end of the ratio from which commits are slower under load.
const SLOWER: f64 = 1.2;
/// Factor from which it is a warning.
const WARNING: f64 = 2.0;
/// Upper end of the ratio up to which they are not.
const STEADY: f64 = 1.5;

pub(super) fn detect(record: &Record, summary: &Summary) -> Vec<Finding> {
    let step = |name: &str| summary.steps.iter().find(|step| step.name == name);
    let pairs = summary.steps.iter().filter_map(|loaded| {
        let idle = record.plan.without_load(&loaded.name)?;
        compare(step(&idle.name)?, loaded)
    });
    pairs.collect()
}

fn compare(idle: &StepSummary, loaded: &StepSummary) -> Option<Finding> {
    let commits = |step: &StepSummary| step.streams.iter().find(|stream| stream.class == OpClass::Commit).cloned();
    let (before, under) = (commits(idle)?, commits(loaded)?);
    let load = loaded.background.iter().map(rate).collect::<Vec<_>>().join(" and ");
    let figures = [
        ("p99", before.lat_p99_ns, under.lat_p99_ns),
        ("p99.9", before.lat_p999_ns, under.lat_p999_ns),
        ("the median", before.lat_p50_ns, under.lat_p50_ns),
    ];
    let slower = figures.iter().find_map(|(what, before, under)| {
        let least = under.low? / before.high?;
        (least >= SLOWER).then_some((*what, *before, *under, least))
    });
    let steady = figures.first().filter(|(_, before, under)| {
        under.high.zip(before.low).is_some_and(|(under, before)| under / before <= STEADY)
    });
    let evidence = |what: &str, before: &Estimate, under: &Estimate| {
        format!("{what} {} alone, {} with {load}", format_estimate(before), format_estimate(under))
    };
    if let Some((what, before, under, least)) = slower {
        let ratio = under.value.zip(before.value).map_or(least, |(under, before)| under / before);
        let severity = if least >= WARNING { Severity::Warning } else { Severity::Info };
        let about = if under.is_resolved() { "" } else { "at least " };
        return Some(Finding {
            step: loaded.name.clone(),
            title: format!("under load, {what} of commits is {about}{ratio:.1} times that in {}", idle.name),
            evidence: evidence(what, &before, &under),
            advice:
                "Judge the disk for a database or etcd by the figures under load, and give their logs a separate disk \
                     if these are too slow."
                    .to_owned(),
            ..base_finding(FindingId::LoadedCommitsSlower, severity, 0.95)
        });
    }
    let (what, before, under) = steady?;
    Some(Finding {
        step: loaded.name.clone(),
        title: format!("commits are no slower under load than in {}", idle.name),
        evidence: evidence(what, before, under),
        ..base_finding(FindingId::LoadedCommitsSteady, Severity::Info, 0.95)
    })
}

fn rate(load: &LoadSummary) -> String {
    match load.class {
        OpClass::Write => format!("{:.1} MB/s of buffered writes", load.bytes_per_second / 1e6),
        class => format!("{:.0} {}s a second", load.iops, class.name()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::Bytes;
    use qd1_model::plan::{Rw, Sync, Work};
    use qd1_model::record::Background;

    /// Commits of 1.5 ms alone, and of `lat_ns` together with 32 MB/s.
    fn record(lat_ns: u64) -> Record {
        let mut record = testing::record();
        let work = testing::io(Rw::Write, 4096, Sync::Fdatasync, false);
        let (mut stream, _) = testing::stream(OpClass::Write, 1 << 20, 3, 1_000_000);
        stream.bytes = Bytes(64_000_000);
        let step = testing::step(&mut record, "commits-load", work.clone(), 50, lat_ns);
        step.background.push(Background { runtime_ns: 2_000_000_000, streams: vec![stream], errors: Vec::new() });
        record.plan.steps.last_mut().unwrap().background.push(testing::io(Rw::Write, 1 << 20, Sync::None, false));
        record
    }

    #[test]
    fn slower_commits_under_load_are_reported_with_their_ratio() {
        let found = testing::run(detect, &record(6_000_000));
        assert_eq!(testing::ids(&found), ["loaded_commits.slower"]);
        assert!(found[0].title.contains("4.0 times that in commits"), "{}", found[0].title);
        assert!(found[0].evidence.contains("32.0 MB/s of buffered writes"), "{}", found[0].evidence);
        assert_eq!((found[0].severity, found[0].step.as_str()), (Severity::Warning, "commits-load"));
    }

    #[test]
    fn commits_that_hold_up_under_load_are_reported_as_steady() {
        assert_eq!(testing::ids(&testing::run(detect, &record(1_500_000))), ["loaded_commits.steady"]);
    }

    #[test]
    fn a_small_slowdown_is_not_reported() {
        assert_eq!(testing::ids(&testing::run(detect, &record(2_250_000 - 480_000))), [] as [&str; 0]);
    }

    #[test]
    fn other_work_is_no_comparison() {
        let mut record = record(6_000_000);
        let Work::Io(io) = &mut record.plan.steps.last_mut().unwrap().work else { unreachable!() };
        io.numjobs = 4;
        assert_eq!(testing::ids(&testing::run(detect, &record)), [] as [&str; 0]);
    }
}
