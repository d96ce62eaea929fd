//! Rounds: in each one the substrate is prepared, then every treatment is applied, measured and undone, in a different
//! order each time. All rounds become one Record.

use std::path::Path;

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::Record;
use qd1_model::plan::Plan;
use qd1_model::record::Prepare;
use qd1_model::record::mounts::MountRecord;
use qd1_model::units::format_span_ns;
use qd1_runner::RunContext;
use qd1_runner::watch::Watch;
use qd1_system::journal::Journal;

use crate::treatment::{Substrate, Treatment, TreatmentSite};
use crate::workload::Workload;

/// Time a treatment takes in addition to its steps, to be applied and undone, ns.
const TREATMENT_NS: u64 = 2_000_000_000;
/// Time each step takes in addition to its own, ns.
const STEP_NS: u64 = 100_000_000;

/// An experiment, ready to run.
pub struct Experiment<'a> {
    /// The whole plan; its steps are those of one treatment.
    pub plan: &'a Plan,
    /// The order of each round, as positions in `treatments`.
    pub order: &'a [Vec<u32>],
    /// The treatments that are compared.
    pub treatments: &'a [&'a dyn Treatment],
    /// What is measured under each treatment.
    pub workloads: &'a mut [Workload],
    /// What the treatments are applied to.
    pub substrate: &'a dyn Substrate,
    /// The experiment's own directory, removed with it.
    pub scratch: &'a Path,
    /// Records each change and undoes it.
    pub journal: &'a mut Journal,
    /// The context of the run.
    pub context: &'a RunContext<'a>,
    /// Follows the progress.
    pub watch: &'a mut dyn Watch,
}

impl Experiment<'_> {
    /// Runs all rounds, or those before a signal. Returns what was measured, and the error that ended it early, if any.
    ///
    /// # Errors
    /// When an error ended it before anything was measured.
    pub fn run(mut self) -> Result<(Record, Option<anyhow::Error>)> {
        for order in self.order {
            assert!(
                order.iter().all(|at| (*at as usize) < self.treatments.len()),
                "the order of a round refers to existing treatments"
            );
        }
        let begin_ns = clock::now_ns();
        let mut record = self.empty();
        let mut failure = None;
        for round in 1..=self.order.len() as u32 {
            if self.context.is_cancelled() {
                break;
            }
            if let Err(error) = self.round(round, begin_ns, &mut record) {
                failure = Some(error);
                break;
            }
        }
        self.substrate.clear();
        record.elapsed_ns = clock::now_ns() - begin_ns;
        record.interrupted = self.context.is_cancelled();
        match failure {
            Some(error) if record.steps.is_empty() => Err(error),
            failure => Ok((record, failure)),
        }
    }

    /// Returns the Record of a run in which nothing has been measured yet.
    fn empty(&self) -> Record {
        let mut plan = self.plan.clone();
        plan.steps.clear();
        let environment = self.context.machine.environment(&plan.target.path);
        self.context.begin(clock::wall_ns(), plan, environment)
    }

    fn round(&mut self, round: u32, begin_ns: u64, record: &mut Record) -> Result<()> {
        let seed = self.plan.seed.wrapping_add(u64::from(round).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let rounds = self.order.len();
        self.watch.heading(&format!("round {round} of {rounds}: {}", self.substrate.preparation()));
        let prepared = self.substrate.prepare(seed, self.context, self.watch)?;
        if round == 1 && !self.context.is_cancelled() {
            let about = format_span_ns(self.about_ns(&prepared));
            self.watch.heading(&format!("about {about} in all, judging by the speed of that write"));
        }
        record.prepare.get_or_insert(prepared);
        for at in &self.order[round as usize - 1] {
            let treatment = self.treatments[*at as usize];
            // A treatment that failed once will fail in the next round as well.
            let failed = record.mounts.iter().any(|mount| mount.name == treatment.name() && !mount.fault.is_empty());
            if failed {
                continue;
            }
            if self.context.is_cancelled() {
                break;
            }
            self.watch.heading(&format!("round {round} of {rounds}: {}", treatment.name()));
            self.measure_one(treatment, round, seed, begin_ns, record)?;
        }
        Ok(())
    }

    /// How long all rounds take if the substrate is always prepared as fast as this time, ns.
    fn about_ns(&self, prepared: &Prepare) -> u64 {
        let file_ns = match self.plan.needs_shared_file() {
            true => {
                let share = self.plan.target.size.0 as f64 / prepared.bytes.0.max(1) as f64;
                self.plan.target.prepare_max_ns.min((prepared.elapsed_ns as f64 * share) as u64)
            }
            false => 0,
        };
        let steps_ns: u64 = self.plan.steps.iter().map(|step| step.duration_max_ns() + STEP_NS).sum();
        let round = |order: &Vec<u32>| prepared.elapsed_ns + order.len() as u64 * (TREATMENT_NS + file_ns + steps_ns);
        self.order.iter().map(round).sum()
    }

    /// Measures one treatment in one round. If it cannot be measured, the Record has the reason.
    ///
    /// # Errors
    /// When something could not be undone: it would affect all later treatments.
    fn measure_one(
        &mut self,
        treatment: &dyn Treatment,
        round: u32,
        seed: u64,
        begin_ns: u64,
        record: &mut Record,
    ) -> Result<()> {
        let mut mount = MountRecord { name: treatment.name().to_owned(), round, ..MountRecord::default() };
        let depth = self.journal.depth();
        let measured = self.apply_and_measure(treatment, seed, begin_ns, &mut mount, record);
        let undone = self.journal.undo_to(depth);
        debug_assert!(undone.is_err() || self.journal.depth() == depth, "a treatment must leave no change behind");
        if let Err(error) = measured {
            mount.fault = format!("{error:#}");
            self.watch.heading(&format!("  {}: {}", treatment.name(), mount.fault));
        }
        // Stopped before anything was measured with it: treated as if it had not begun.
        if !mount.steps.is_empty() || !mount.fault.is_empty() {
            record.mounts.push(mount);
        }
        undone
    }

    fn apply_and_measure(
        &mut self,
        treatment: &dyn Treatment,
        seed: u64,
        begin_ns: u64,
        mount: &mut MountRecord,
        record: &mut Record,
    ) -> Result<()> {
        let dir = self.scratch.join(treatment.name());
        std::fs::create_dir_all(&dir)?;
        let mut site = TreatmentSite { context: self.context, dir: &dir, scratch: self.scratch, journal: self.journal };
        let applied = treatment.apply(&mut site, mount)?;
        let counted = || self.context.machine.device_counters(&applied.device);
        let before = counted();
        for workload in self.workloads.iter_mut() {
            let started_ns = clock::now_ns() - begin_ns;
            if self.context.is_cancelled() {
                break;
            }
            let part = workload.measure(&applied.dir, seed, self.plan.subject, self.context, self.watch)?;
            add(record, mount, part, started_ns);
        }
        mount.counted = counted().zip(before).map(|(now, before)| now.since(&before));
        Ok(())
    }
}

/// Adds a treatment's measurements to the Record of all.
fn add(record: &mut Record, mount: &mut MountRecord, part: Record, started_ns: u64) {
    mount.filesystem = part.environment.filesystem;
    mount.devices = part.environment.devices;
    mount.direct = part.plan.target.direct;
    mount.prepare = part.prepare.or(mount.prepare.take());
    mount.app = part.app.or(mount.app.take());
    if record.environment.clock.read_cost_ns == 0.0 {
        record.environment.clock = part.environment.clock;
    }
    let ran: Vec<String> = part.steps.iter().map(|step| step.name.clone()).collect();
    for mut step in part.plan.steps.into_iter().filter(|step| ran.contains(&step.name)) {
        step.name = mount.step_name(&step.name);
        record.plan.steps.push(step);
    }
    for mut step in part.steps {
        step.name = mount.step_name(&step.name);
        debug_assert!(record.steps.iter().all(|other| other.name != step.name), "a step runs once on each mount");
        step.started_ns += started_ns;
        mount.steps.push(step.name.clone());
        record.steps.push(step);
    }
}
