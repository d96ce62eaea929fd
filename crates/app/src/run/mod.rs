//! Carries out a Plan and brings back the Record: prepares the target, runs each step, reads the machine around it.

mod background;
pub(crate) mod counters;
mod step;

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::Result;
use qd1_engine::run::Wish;
use qd1_engine::target::{Target, fill};
use qd1_engine::{clock, reference};
use qd1_model::SCHEMA_VERSION;
use qd1_model::environment::Environment;
use qd1_model::plan::{FileUse, Plan, StepPlan, TargetKind, Work};
use qd1_model::record::{Ended, Interval, Prepare, Record, StepRecord};
use qd1_probe::Machine;

use crate::progress::Progress;
use counters::Counters;

/// What a run is besides its plan.
pub(crate) struct Circumstances<'a> {
    pub(crate) id: String,
    pub(crate) command: Vec<String>,
    pub(crate) machine: &'a Machine,
}

/// What the steps of a run share.
struct Run<'a> {
    plan: Plan,
    circumstances: &'a Circumstances<'a>,
    cancel: &'a AtomicBool,
    shared: Option<Target>,
    prepared: Option<Prepare>,
    /// What steps on files leave to the next; gone with the run.
    files: Option<step::Files>,
    counters: Counters<'a>,
    begin_ns: u64,
}

/// Decides while a run goes on what is measured next.
pub(crate) trait Guide {
    /// The steps as they were planned, once the target is prepared.
    fn begin(&mut self, _planned: Vec<StepPlan>) {}

    /// The next step and the pause before it, ns, from what the steps so far brought; nothing at the end.
    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)>;

    /// Whether the running step has seen enough.
    fn enough(&self, _intervals: &[Interval]) -> bool {
        false
    }
}

/// Runs the plan to its end, or until `cancel` is set: what was measured until then comes back.
///
/// # Errors
/// When the target cannot be made or an engine cannot be had. Failing requests are in the Record instead.
pub(crate) fn execute(
    plan: Plan,
    circumstances: &Circumstances<'_>,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Record> {
    carry_out(plan, circumstances, cancel, progress, None)
}

/// The same with steps that `guide` decides on the way. Those of `plan` are what it may come to, for the preparation; the
/// Record's plan has the ones that ran.
///
/// # Errors
/// As [`execute`].
pub(crate) fn explore(
    plan: Plan,
    circumstances: &Circumstances<'_>,
    cancel: &AtomicBool,
    progress: &mut Progress,
    guide: &mut dyn Guide,
) -> Result<Record> {
    carry_out(plan, circumstances, cancel, progress, Some(guide))
}

fn carry_out(
    plan: Plan,
    circumstances: &Circumstances<'_>,
    cancel: &AtomicBool,
    progress: &mut Progress,
    mut guide: Option<&mut dyn Guide>,
) -> Result<Record> {
    let environment = environment(circumstances.machine, &plan.target.path);
    let begin_ns = clock::now_ns();
    let started_unix_ns = clock::wall_ns();
    progress.begin(&plan);
    let counters = Counters::new(circumstances.machine, &environment.devices);
    let mut run = Run { plan, circumstances, cancel, shared: None, prepared: None, files: None, counters, begin_ns };
    run.open_shared(progress)?;
    let mut steps = Vec::new();
    if let Some(guide) = guide.as_deref_mut() {
        guide.begin(std::mem::take(&mut run.plan.steps));
    }
    for index in 0.. {
        if let Some(guide) = guide.as_deref_mut()
            && let Some((pause_ns, step)) = guide.next(&run.plan, &steps)
        {
            progress.insert(index, &step);
            run.plan.steps.push(step);
            pause(pause_ns, cancel);
        }
        if cancel.load(Ordering::Relaxed) || index >= run.plan.steps.len() {
            break;
        }
        let step = run.plan.steps[index].clone();
        // Where one step on files could not go on, the next would fail as well, or find too few of them.
        if matches!(step.work, Work::Files(_)) && has_failed_on_files(&run.plan, &steps) {
            continue;
        }
        progress.step(index, &step);
        let enough = |intervals: &[Interval]| guide.as_deref().is_some_and(|guide| guide.enough(intervals));
        let started_ns = clock::now_ns() - begin_ns;
        let record = match step::run(&mut run, &step, progress, &enough) {
            // What was measured so far is worth keeping; a first step that cannot run tells of the target as a whole.
            Err(error) if !steps.is_empty() => StepRecord::failed(&step.name, format!("{error:#}"), started_ns),
            outcome => outcome?,
        };
        // Stopped in its ramp, before anything was measured: the same as if it had not begun.
        if cancel.load(Ordering::Relaxed) && record.streams.is_empty() {
            break;
        }
        progress.step_done(&record);
        // A guide's pauses are a part of what it measures.
        let sort_ns = if guide.is_none() { sort_ns() } else { None };
        steps.push(StepRecord { sort_ns, ..record });
    }
    Ok(run.into_record(environment, started_unix_ns, steps))
}

/// The machine and the path to the disk, with what reading the clock costs and how fast the processor is; time is read in the
/// cheapest way that the machine has from here on.
pub(crate) fn environment(machine: &Machine, path: &Path) -> Environment {
    let mut environment = machine.environment(path);
    clock::use_tsc(&environment.clock.source);
    (environment.clock.read_cost_ns, environment.clock.resolution_ns) = clock::cost();
    environment.sort_ns = sort_ns();
    environment
}

/// How fast the processors are now: without it predictions would assume another machine's. Nothing from an unoptimised build,
/// which sorts twenty times as slowly.
pub(crate) fn sort_ns() -> Option<f64> {
    (!cfg!(debug_assertions)).then(reference::sort_ns)
}

fn has_failed_on_files(plan: &Plan, done: &[StepRecord]) -> bool {
    let on_files = |name: &str| plan.steps.iter().any(|step| step.name == name && matches!(step.work, Work::Files(_)));
    done.iter().any(|step| step.ended == Ended::Failed && on_files(&step.name))
}

/// Leaves the disk alone for a while.
fn pause(ns: u64, cancel: &AtomicBool) {
    let end_ns = clock::now_ns() + ns;
    while clock::now_ns() < end_ns && !cancel.load(Ordering::Relaxed) {
        let left_ns = end_ns.saturating_sub(clock::now_ns());
        std::thread::sleep(std::time::Duration::from_nanos(left_ns.min(50_000_000)));
    }
}

impl Run<'_> {
    /// Makes the shared file and writes it whole, or opens what is given.
    fn open_shared(&mut self, progress: &mut Progress) -> Result<()> {
        let target = &self.plan.target;
        let shared = match target.kind {
            TargetKind::Directory if !self.plan.needs_shared_file() => return Ok(()),
            TargetKind::Directory => Target::create_in(&target.path, &self.circumstances.id)?,
            TargetKind::File => {
                let given = Target::existing(&target.path);
                // Nothing was written: only what the extents say is of interest.
                let extents = given.extents(target.size.0);
                self.prepared = extents.is_some().then(|| Prepare { extents, ..Prepare::default() });
                given
            }
            TargetKind::BlockReadOnly => Target::existing(&target.path),
            TargetKind::BlockDestroy => Target::exclusive(&target.path)?,
        };
        if matches!(target.kind, TargetKind::Directory | TargetKind::BlockDestroy) {
            progress.prepare(target.size);
            let mut watch = |now: &qd1_engine::run::Progress<'_>| {
                progress.prepared(now);
                Wish::Continue
            };
            let (size, seed) = (target.size.0, self.plan.seed);
            let filled = fill(&shared, size, target.prepare_max_ns, target.direct, seed, self.cancel, &mut watch)?;
            if let Some(error) = filled.errors.first() {
                anyhow::bail!(
                    "writing the test file failed: {} at offset {}; the disk, or its quota, does not take {}",
                    error.error,
                    error.first_offset,
                    target.size
                );
            }
            self.shrink_to(filled.prepare.bytes.0);
            self.plan.steps.iter_mut().for_each(|step| background::ease(&mut step.background, &filled.prepare));
            self.prepared = Some(filled.prepare);
        }
        self.shared = Some(shared);
        Ok(())
    }

    /// On a disk too slow to write the whole file in time, all steps use what there is.
    fn shrink_to(&mut self, bytes: u64) {
        self.plan.target.size.0 = self.plan.target.size.0.min(bytes);
        let works = self.plan.steps.iter_mut().flat_map(StepPlan::works_mut);
        works.filter(|io| io.file == FileUse::Shared).for_each(|io| io.size.0 = io.size.0.min(bytes));
    }

    fn into_record(self, environment: Environment, started_unix_ns: u64, steps: Vec<StepRecord>) -> Record {
        Record {
            schema_version: SCHEMA_VERSION,
            id: self.circumstances.id.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: self.circumstances.command.clone(),
            started_unix_ns,
            elapsed_ns: clock::now_ns() - self.begin_ns,
            interrupted: self.cancel.load(Ordering::Relaxed),
            plan: self.plan,
            environment,
            prepare: self.prepared,
            app: None,
            steps,
            mounts: Vec::new(),
            programs: Vec::new(),
        }
    }
}
