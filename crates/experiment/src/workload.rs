//! The workloads measured with each treatment; each returns its own Record.

use std::path::Path;

use anyhow::Result;
use qd1_model::spec::Spec;
use qd1_model::{Bytes, Record, Subject};
use qd1_programs::{ProgramRun, open_to_others};
use qd1_runner::place::{self, Place};
use qd1_runner::plan;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, execute};

/// A workload of an experiment.
pub enum Workload {
    /// The steps of a suite, through the ordinary planner and runner.
    Suite(Box<Spec>),
    /// A real program's loads, on data created for them.
    Program(ProgramRun),
}

impl Workload {
    /// Measures it in `dir`, which is removed with the run. `seed` is the same for every treatment of a round.
    ///
    /// # Errors
    /// When nothing could be measured.
    pub(crate) fn measure(
        &mut self,
        dir: &Path,
        seed: u64,
        subject: Subject,
        context: &RunContext<'_>,
        watch: &mut dyn Watch,
    ) -> Result<Record> {
        // The filesystem is removed with the run, so no space has to stay free.
        let place = Place { leave_free: Some(Bytes(0)), ..place::inspect(context.machine, dir, &context.id)? };
        match self {
            Self::Suite(spec) => {
                let spec = Spec { path: dir.to_owned(), ..(**spec).clone() };
                let mut plan = plan::decide(&spec, &place, seed)?;
                plan.subject = subject;
                execute(plan, context, watch).map(|(record, _files)| record)
            }
            Self::Program(program) => {
                open_to_others(dir)?;
                let mut plan = program.plan(&place, seed)?;
                plan.subject = subject;
                program.execute(plan, context, watch)
            }
        }
    }
}
