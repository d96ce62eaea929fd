//! More visits for the steps that decide, if their planned visits did not.
//!
//! A disk of 20 ms a commit does three hundred in the time a fast one does a hundred thousand, and the slow one is the
//! one to judge with care; and a disk whose p99 is near a bound needs more measurements than others. What is left of
//! the time of the run goes to the steps whose p99 is not resolved, or whose figures have a bound within their
//! interval.

use qd1_model::metric::metric;
use qd1_model::plan::criterion::Criterion;
use qd1_model::plan::{StepPlan, Visit, Work};
use qd1_model::record::StepRecord;
use qd1_model::{Record, Thresholds};

use crate::grade::is_decided;
use crate::judge::judged_figure;
use crate::summarize;
use qd1_stats as stats;

/// Longest duration of a check, and of a quick one, ns.
const CHECK_NS: u64 = 75_000_000_000;
const QUICK_NS: u64 = 20_000_000_000;
/// A plan that takes longer than a quick check and less than a long one.
const QUICK_MAX_NS: u64 = 30_000_000_000;
const CHECK_MAX_NS: u64 = 100_000_000_000;
/// The percentile that decides.
const QUANTILE: f64 = 0.99;

/// Returns further visits, in turn, of the steps whose p99 is not resolved, or whose grade by `thresholds` is not
/// certain, as many as they need and as there is time for: `elapsed_ns` of the run have passed, `record` has the steps
/// so far, and the visits in `left` are still to come.
#[must_use]
pub fn more_visits(record: &Record, left: &[Visit], elapsed_ns: u64, thresholds: &Thresholds) -> Vec<Visit> {
    let plan = &record.plan;
    let planned_ns = plan.longest_ns();
    if planned_ns > CHECK_MAX_NS {
        return Vec::new();
    }
    // And no longer than announced beforehand.
    let most_ns = planned_ns.min(if planned_ns < QUICK_MAX_NS { QUICK_NS } else { CHECK_NS });
    let left_ns: u64 = left.iter().map(|visit| one_visit_ns(&plan.steps[visit.step])).sum();
    let mut spare_ns = most_ns.saturating_sub(elapsed_ns + left_ns);
    if spare_ns == 0 {
        return Vec::new();
    }
    let undecided = undecided(record, thresholds);
    let mut wanted: Vec<(usize, u32)> = plan
        .steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| {
            let record = record.step(&step.name)?;
            if step.visits < 2 || step.is_open() || !record.fault.is_empty() || !may_write_more(step, record) {
                return None;
            }
            let as_many = undecided.contains(&step.name).then_some(step.visits);
            Some((at, missing_visits(step, record).max(as_many)?))
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

/// Whether as many visits again write no more than announced beforehand: for a step with an `io_size`, the announcement
/// counted another one in place of its ramp.
fn may_write_more(step: &StepPlan, record: &StepRecord) -> bool {
    let is_bounded = matches!(&step.work, Work::Io(io) if io.io_size.0 > 0);
    !is_bounded || step.stop.ramp_ns > 0 && !record.is_without_ramp
}

/// The steps with a figure that has a bound within its interval.
fn undecided(record: &Record, thresholds: &Thresholds) -> Vec<String> {
    let summary = summarize(record);
    let criteria = thresholds.class.iter().flat_map(|class| &class.criterion);
    let is_open = |of: &&Criterion| {
        let metric = metric(&of.metric);
        let figure = judged_figure(record, &summary, of);
        metric.zip(figure).is_some_and(|(metric, figure)| !is_decided(metric, of, &figure))
    };
    criteria.filter(is_open).map(|of| of.step.clone()).collect()
}

/// How many more visits a step needs for the percentile that decides, no more than it had; `None` if it is known.
fn missing_visits(step: &StepPlan, record: &StepRecord) -> Option<u32> {
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
    use qd1_model::OpClass;
    use qd1_model::plan::{Rw, Sync};
    use qd1_model::verdict::ThresholdClass;

    const SECOND: u64 = 1_000_000_000;

    /// A step of twelve visits with the given number of commits in each interval.
    fn record(commits: u64) -> Record {
        let mut record = testing::empty();
        let work = testing::io(Rw::Write, 4096, Sync::Fdatasync, true);
        testing::step(&mut record, "commit1", work, commits, 20_000_000);
        record.plan.steps[0].visits = 12;
        record.plan.steps[0].stop.max_ns = 7 * SECOND;
        record
    }

    fn more(record: &Record, elapsed_ns: u64) -> Vec<Visit> {
        more_visits(record, &[], elapsed_ns, &Thresholds::default())
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

    /// Regression: etcd's grade of disks with a p99 of 1.85 ms was not certain, with eight seconds to spare.
    #[test]
    fn a_step_with_a_bound_in_its_interval_gets_what_time_is_left() {
        let mut known = record(400);
        // It takes a fifth longer in every third interval.
        let (slower, intervals) = testing::stream(OpClass::Commit, 4096, 400, 24_000_000);
        known.steps[0].streams[0].lat.merge(&slower.lat);
        known.steps[0].intervals.iter_mut().zip(intervals).step_by(3).for_each(|(mine, slower)| *mine = slower);
        let bounded = |pass: f64, fail: f64| {
            let criterion = Criterion {
                step: "commit1".to_owned(),
                op: OpClass::Commit,
                metric: "lat_p99_ns".to_owned(),
                pass,
                fail,
                published: None,
                label: String::new(),
                source: String::new(),
            };
            let class = ThresholdClass { name: "mine".into(), title: "mine".into(), criterion: vec![criterion] };
            more_visits(&known, &[], 5 * SECOND, &Thresholds { class: vec![class] })
        };
        let figure = summarize(&known).stream("commit1", OpClass::Commit).unwrap().lat_p99_ns;
        let (low, high) = (figure.low.unwrap(), figure.high.unwrap());
        assert!(bounded((low + high) / 2.0, high * 5.0).len() > 2, "{low}..{high}");
        assert!(bounded(high * 2.0, high * 5.0).is_empty() && bounded(low / 9.0, low / 5.0).is_empty());
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
