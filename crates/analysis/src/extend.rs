//! More visits for the steps that decide, where a disk is so slow that its planned ones have too few operations.
//!
//! A disk of 20 ms a commit does three hundred in the time in which a fast one does a hundred thousand, and the slow one is
//! the one to judge with care. What is left of the time of the run goes to the steps whose p99 is not resolved.

use qd1_model::plan::{Plan, StepPlan, Visit};
use qd1_model::record::StepRecord;

use crate::stats;

/// Longest that a check takes, and a quick one, ns.
const CHECK_NS: u64 = 75_000_000_000;
const QUICK_NS: u64 = 20_000_000_000;
/// A plan that takes longer than a quick check and less than a long one.
const QUICK_MAX_NS: u64 = 30_000_000_000;
const CHECK_MAX_NS: u64 = 100_000_000_000;
/// The percentile that decides.
const QUANTILE: f64 = 0.99;

/// Returns further visits, in turn, of the steps whose p99 is not resolved, as many as they need and as there is time for:
/// `elapsed_ns` of the run are over, and the visits in `left` are still to come.
#[must_use]
pub fn more_visits(plan: &Plan, steps: &[StepRecord], left: &[Visit], elapsed_ns: u64) -> Vec<Visit> {
    let planned_ns = plan.longest_ns();
    if planned_ns > CHECK_MAX_NS {
        return Vec::new();
    }
    let most_ns = if planned_ns < QUICK_MAX_NS { QUICK_NS } else { CHECK_NS };
    let left_ns: u64 = left.iter().map(|visit| one_visit_ns(&plan.steps[visit.step])).sum();
    let mut spare_ns = most_ns.saturating_sub(elapsed_ns + left_ns);
    let mut wanted: Vec<(usize, u32)> = plan
        .steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| {
            let missing = missing_visits(step, steps.iter().find(|record| record.name == step.name)?)?;
            Some((at, missing))
        })
        .collect();
    let mut visits = Vec::new();
    while wanted.iter().any(|(_, missing)| *missing > 0) {
        let before = visits.len();
        for (at, missing) in wanted.iter_mut().filter(|(_, missing)| *missing > 0) {
            let takes_ns = one_visit_ns(&plan.steps[*at]);
            if takes_ns > spare_ns {
                continue;
            }
            spare_ns -= takes_ns;
            let earlier = visits.iter().filter(|visit: &&Visit| visit.step == *at).count() as u32;
            visits.push(Visit { step: *at, number: plan.steps[*at].visits + earlier });
            *missing -= 1;
        }
        if visits.len() == before {
            break;
        }
    }
    visits
}

fn one_visit_ns(step: &StepPlan) -> u64 {
    step.longest_ns() / u64::from(step.visits.max(1))
}

/// How many more visits a step needs for the percentile that decides, no more than it had; `None` of one that knows it, or
/// whose requests come at their own times.
fn missing_visits(step: &StepPlan, record: &StepRecord) -> Option<u32> {
    if step.visits < 2 || step.is_open() || !record.fault.is_empty() {
        return None;
    }
    let stream = record.streams.iter().max_by_key(|stream| stream.lat.count())?;
    let p99 = stats::quantile(&stream.lat, &record.intervals, stream.class, QUANTILE);
    if p99.value.is_some() {
        return None;
    }
    let times = p99.n_needed as f64 / p99.n.max(1) as f64 - 1.0;
    Some((times.clamp(0.0, 1.0) * f64::from(step.visits)).ceil() as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::Record;
    use qd1_model::plan::{Rw, Sync};

    const SECOND: u64 = 1_000_000_000;

    /// A step of twelve visits with so many commits in each interval.
    fn record(commits: u64) -> Record {
        let mut record = testing::empty();
        let work = testing::io(Rw::Write, 4096, Sync::Fdatasync, true);
        testing::step(&mut record, "commit1", work, commits, 20_000_000);
        record.plan.steps[0].visits = 12;
        record.plan.steps[0].stop.max_ns = 7 * SECOND;
        record
    }

    fn more(record: &Record, elapsed_ns: u64) -> Vec<Visit> {
        more_visits(&record.plan, &record.steps, &[], elapsed_ns)
    }

    #[test]
    fn a_step_with_too_few_commits_gets_more_visits_while_there_is_time() {
        let slow = record(3);
        let visits = more(&slow, 5 * SECOND);
        assert!((1..=12).contains(&visits.len()), "{}", visits.len());
        assert_eq!(visits[0], Visit { step: 0, number: 12 });
        assert!(visits.windows(2).all(|pair| pair[1].number == pair[0].number + 1));
        assert!(more(&slow, 74 * SECOND).is_empty(), "there is no time left");
        assert!(more(&record(400), 5 * SECOND).is_empty(), "its p99 is known");
    }

    #[test]
    fn a_step_that_failed_or_is_measured_in_one_go_gets_none() {
        let mut failed = record(3);
        failed.steps[0].fault = "no space".to_owned();
        assert!(more(&failed, 0).is_empty());
        let mut once = record(3);
        once.plan.steps[0].visits = 1;
        assert!(more(&once, 0).is_empty());
    }
}
