//! Runs a Plan and returns its Record: prepares the target, runs each step, reads the machine around it.

use qd1_model::order::Order as _;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::Subject;
use qd1_model::op::Ended;
use qd1_model::plan::{Plan, Visit, Work};
use qd1_model::record::{Interval, Record, StepRecord};

use crate::context::{Run, RunContext, RunFiles};
use crate::environment::sort_ns;
use crate::step::{self, Follower};
use crate::watch::{AdaptiveSteps, Watch};

/// Runs the plan to its end, or until the run is cancelled, and returns what was measured and the files it was measured on.
///
/// # Errors
/// When the target cannot be created or an engine is not available. Failed requests are in the Record instead.
pub fn execute(plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<(Record, RunFiles)> {
    run(plan, context, watch, None)
}

/// Runs steps that `adaptive` chooses during the run. Those of `plan` are the possible ones, for the preparation; the
/// Record's plan has those that ran.
///
/// # Errors
/// As [`execute`].
pub fn execute_adaptive(
    plan: Plan,
    context: &RunContext<'_>,
    watch: &mut dyn Watch,
    adaptive: &mut dyn AdaptiveSteps,
) -> Result<(Record, RunFiles)> {
    run(plan, context, watch, Some(adaptive))
}

fn run(
    plan: Plan,
    context: &RunContext<'_>,
    watch: &mut dyn Watch,
    mut adaptive: Option<&mut dyn AdaptiveSteps>,
) -> Result<(Record, RunFiles)> {
    let mut run = Run::new(plan, context);
    let (begin_ns, started_unix_ns) = (run.begin_ns, clock::wall_ns());
    watch.begin(&run.plan);
    run.open_shared(watch)?;
    let mut steps: Vec<StepRecord> = Vec::new();
    // A time that the user gave is not extended.
    let has_own_time = context.command.iter().any(|word| word == "--runtime" || word.starts_with("--runtime="));
    let may_extend = adaptive.is_none() && run.plan.subject == Subject::Check && !has_own_time;
    let mut is_extended = false;
    let mut first_error = None;
    let mut visits: VecDeque<Visit> = match adaptive.as_deref_mut() {
        Some(adaptive) => {
            adaptive.begin(std::mem::take(&mut run.plan.steps));
            VecDeque::new()
        }
        None => run.plan.schedule().into(),
    };
    loop {
        if let Some(adaptive) = adaptive.as_deref_mut()
            && let Some((pause_ns, step)) = adaptive.next(&run.plan, &steps)
        {
            let index = run.plan.steps.len();
            watch.insert(index, &step);
            run.plan.steps.push(step);
            visits.push_back(Visit { step: index, number: 0 });
            pause(pause_ns, context.cancel);
        }
        if may_extend && !is_extended && are_visits_over(&run.plan, &visits) {
            is_extended = true;
            let elapsed_ns = clock::now_ns() - begin_ns;
            let so_far = run.record(started_unix_ns, steps.clone());
            let more = (context.more_visits)(&so_far, visits.make_contiguous(), elapsed_ns);
            more.into_iter().rev().for_each(|visit| visits.push_front(visit));
        }
        let Some(visit) = visits.pop_front().filter(|_| !context.is_cancelled()) else { break };
        let step = run.plan.steps[visit.step].clone();
        // After a failed step on files, the next one would fail as well, or find too few of them.
        if matches!(step.work, Work::Files(_)) && has_failed_on_files(&run.plan, &steps) {
            continue;
        }
        watch.step(visit.step, &step);
        let enough = |intervals: &[Interval]| adaptive.as_deref().is_some_and(|adaptive| adaptive.enough(intervals));
        let started_ns = clock::now_ns() - begin_ns;
        let earlier = steps.iter().find(|record| record.name == step.name);
        let so_far = earlier.map_or(&[][..], |earlier| &earlier.intervals);
        let follower = Follower { watch: &mut *watch, so_far, enough: &enough };
        let record = match step::run(&mut run, &step, visit, follower) {
            Ok(record) => record,
            // What was measured so far is worth keeping. If the first step cannot run, the target as a whole is at fault.
            Err(error) => {
                let failed = StepRecord::failed(&step.name, format!("{error:#}"), started_ns);
                let has_begun = steps.iter().any(|step| step.fault.is_empty() || !step.streams.is_empty());
                if !has_begun {
                    let is_drawn = step.visits > 1 && visits.iter().any(|later| later.step != visit.step);
                    excuse(error, is_drawn, &mut first_error)?;
                }
                failed
            }
        };
        // Stopped in its ramp, before anything was measured: treated as if it had not begun.
        if context.is_cancelled() && record.streams.is_empty() {
            break;
        }
        // The pauses of an adaptive run are a part of what it measures.
        let sort_ns = if adaptive.is_none() { sort_ns() } else { None };
        let record = StepRecord { sort_ns, ..record }.add_to(&mut steps);
        assert_eq!(record.name, step.name, "a step's record has the step's name");
        // What failed once is not tried again.
        if record.ended == Ended::Failed {
            visits.retain(|later| later.step != visit.step);
        }
        if visits.iter().all(|later| later.step != visit.step) {
            watch.step_done(record);
        }
    }
    let place = |step: &StepRecord| run.plan.steps.iter().position(|planned| planned.name == step.name);
    steps.order_by_key(place);
    Ok((run.record(started_unix_ns, steps), run.into_files()))
}

/// Whether all planned visits of the steps that have several are over.
fn are_visits_over(plan: &Plan, left: &VecDeque<Visit>) -> bool {
    let has_several = |step: usize| plan.steps[step].visits > 1;
    (0..plan.steps.len()).any(has_several) && !left.iter().any(|visit| has_several(visit.step))
}

/// Lets a run continue whose first step could not run, if that step was drawn at random and was the first to fail.
///
/// # Errors
/// The first error, where the run cannot go on.
fn excuse(error: anyhow::Error, is_drawn: bool, first_error: &mut Option<anyhow::Error>) -> Result<()> {
    if first_error.is_some() || !is_drawn {
        return Err(first_error.take().unwrap_or(error));
    }
    *first_error = Some(error);
    Ok(())
}

fn has_failed_on_files(plan: &Plan, done: &[StepRecord]) -> bool {
    let on_files = |name: &str| plan.steps.iter().any(|step| step.name == name && matches!(step.work, Work::Files(_)));
    done.iter().any(|step| step.ended == Ended::Failed && on_files(&step.name))
}

/// Waits with the disk idle, or until the run is cancelled.
fn pause(ns: u64, cancel: &AtomicBool) {
    let end_ns = clock::now_ns() + ns;
    while clock::now_ns() < end_ns && !cancel.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(clock::now_ns());
        std::thread::sleep(std::time::Duration::from_nanos(left_ns.min(50_000_000)));
    }
}
