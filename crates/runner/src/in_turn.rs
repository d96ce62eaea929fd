//! Two places measured in turn, visit by visit, in one run, so that any change meets both.
//!
//! Each place has a run of its own, with its plan, its test file, its counters and its Record; only the time is shared. While
//! one is measured the other rests.

use qd1_model::order::Order as _;
use std::collections::BTreeSet;

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::Bytes;
use qd1_model::op::Ended;
use qd1_model::plan::{InTurn, Plan, StepPlan, Visit};
use qd1_model::record::{Interval, Record, StepRecord};

use crate::context::{Run, RunContext, RunFiles};
use crate::environment::sort_ns;
use crate::step::{self, Follower};
use crate::watch::Watch;

/// What was measured.
pub struct MeasuredInTurn {
    /// The run of each place, and the files it was measured on.
    pub runs: [(Record, RunFiles); 2],
    /// The visits of both places that were made next to each other, without their intervals.
    pub pairs: Vec<(StepRecord, StepRecord)>,
}

/// Returns the plans of both places as they are carried out in turn, with the steps that both have: the same number of
/// visits, and equally long, at both.
#[must_use]
pub fn plans_in_turn(plans: [Plan; 2]) -> [InTurn; 2] {
    let names = |plan: &Plan| plan.steps.iter().map(|step| step.name.clone()).collect::<BTreeSet<String>>();
    let both: BTreeSet<String> = names(&plans[0]).intersection(&names(&plans[1])).cloned().collect();
    plans.map(|mut plan| {
        plan.steps.retain(|step| both.contains(&step.name));
        plan.in_turn()
    })
}

/// Returns both plans as one, to follow the run or to tell what it takes; steps are named with their place.
#[must_use]
pub fn as_one(plans: [&Plan; 2]) -> Plan {
    let mut whole = plans[0].clone();
    let named = plans.iter().zip(PLACES).flat_map(|(plan, place)| {
        plan.steps.iter().map(move |step| StepPlan { name: of_place(&step.name, place), ..step.clone() })
    });
    whole.steps = named.collect();
    whole.target.size = Bytes(plans.iter().map(|plan| plan.target.size.0).sum());
    whole.target.prepare_max_ns =
        plans.iter().filter(|plan| plan.needs_shared_file()).map(|plan| plan.target.prepare_max_ns).sum();
    whole
}

/// What the places are called where a step is named.
const PLACES: [&str; 2] = ["first", "second"];

fn of_place(step: &str, place: &str) -> String {
    format!("{step}, {place}")
}

/// Carries out both plans in turn until they end or the run is cancelled; `None` if that was before both had been
/// measured.
///
/// # Errors
/// When a target cannot be created, or the first step of a place cannot run. Failed requests are in the Records instead.
pub fn execute_in_turn(
    plans: [InTurn; 2],
    contexts: [&RunContext<'_>; 2],
    watch: &mut dyn Watch,
) -> Result<Option<MeasuredInTurn>> {
    let order = plans[0].clone();
    let [first, second] = plans;
    // The second begins after the first, in the history too.
    let begin = |plan: Plan, context| (clock::wall_ns(), Run::new(plan, context));
    let (first_ns, first) = begin(first.plan, contexts[0]);
    let (second_ns, second) = begin(second.plan, contexts[1]);
    let mut runs = [first, second];
    watch.begin(&as_one([&runs[0].plan, &runs[1].plan]));
    for run in &mut runs {
        run.open_shared(watch)?;
    }
    let mut steps: [Vec<StepRecord>; 2] = [Vec::new(), Vec::new()];
    let mut pairs = Vec::new();
    let mut failed: BTreeSet<usize> = BTreeSet::new();
    for visit in &order.visits {
        if contexts[0].is_cancelled() {
            break;
        }
        if failed.contains(&visit.step) {
            continue;
        }
        let sides = if order.is_first_first(*visit) { [0, 1] } else { [1, 0] };
        at_one_pace(&mut runs, *visit, watch)?;
        let mut pair: [Option<StepRecord>; 2] = [None, None];
        for side in sides {
            pair[side] = Some(one(&mut runs, side, *visit, &steps[side], watch)?);
        }
        let [Some(first), Some(second)] = pair else { continue };
        // Stopped before both were measured: there is no pair.
        if contexts[0].is_cancelled() && (first.streams.is_empty() || second.streams.is_empty()) {
            break;
        }
        if first.ended == Ended::Failed || second.ended == Ended::Failed {
            failed.insert(visit.step);
        }
        let is_last = visit.number + 1 >= order.plan.steps[visit.step].visits || failed.contains(&visit.step);
        for ((steps, record), place) in steps.iter_mut().zip([&first, &second]).zip(PLACES) {
            let record = record.clone().add_to(steps);
            if is_last {
                watch.step_done(&StepRecord { name: of_place(&record.name, place), ..record.clone() });
            }
        }
        if !failed.contains(&visit.step) {
            pairs.push((without_course(first), without_course(second)));
        }
    }
    if steps.iter().any(Vec::is_empty) {
        return Ok(None);
    }
    let [first, second] = runs;
    let [of_first, of_second] = steps;
    let end = |run: Run<'_>, started_unix_ns: u64, mut steps: Vec<StepRecord>| {
        steps.order_by_key(|step| run.plan.steps.iter().position(|planned| planned.name == step.name));
        (run.record(started_unix_ns, steps), run.into_files())
    };
    Ok(Some(MeasuredInTurn { runs: [end(first, first_ns, of_first), end(second, second_ns, of_second)], pairs }))
}

/// One visit at one place.
fn one(
    runs: &mut [Run<'_>; 2],
    side: usize,
    visit: Visit,
    done: &[StepRecord],
    watch: &mut dyn Watch,
) -> Result<StepRecord> {
    let of_first = runs[0].plan.steps.len();
    let run = &mut runs[side];
    let step = run.plan.steps[visit.step].clone();
    watch.step(side * of_first + visit.step, &step);
    let so_far = done.iter().find(|record| record.name == step.name).map_or(&[][..], |record| &record.intervals);
    let started_ns = clock::now_ns() - run.begin_ns;
    let enough = |_: &[Interval]| false;
    match step::run(run, &step, visit, Follower { watch, so_far, enough: &enough }) {
        Ok(record) => Ok(StepRecord { sort_ns: sort_ns(), ..record }),
        // If nothing could be measured at a place, the place as a whole is at fault.
        Err(error) if done.is_empty() => Err(error),
        Err(error) => Ok(StepRecord::failed(&step.name, format!("{error:#}"), started_ns)),
    }
}

/// Sets the pace of a step that depends on the disk to what both places sustain: another pace would be another load.
fn at_one_pace(runs: &mut [Run<'_>; 2], visit: Visit, watch: &mut dyn Watch) -> Result<()> {
    let enough = |_: &[Interval]| false;
    let mut sustained: Vec<f64> = Vec::new();
    for run in runs.iter_mut() {
        let step = run.plan.steps[visit.step].clone();
        if visit.number > 0 || step.pace_probe().is_none() {
            return Ok(());
        }
        let mut follower = Follower { watch: &mut *watch, so_far: &[], enough: &enough };
        sustained.extend(step::sustained(run, &step, visit, &mut follower)?);
    }
    if let Some(both) = sustained.into_iter().reduce(f64::min) {
        for run in runs.iter_mut() {
            let name = run.plan.steps[visit.step].name.clone();
            run.sustained.insert(name, both);
        }
    }
    Ok(())
}

/// Returns what a pair needs of a visit.
fn without_course(record: StepRecord) -> StepRecord {
    StepRecord { intervals: Vec::new(), machine: Vec::new(), ..record }
}
