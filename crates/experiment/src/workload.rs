//! What is measured under each treatment: a list, of which each entry returns a Record of its own.

use std::path::Path;

use anyhow::Result;
use qd1_model::spec::Spec;
use qd1_model::{Record, Subject};
use qd1_programs::{ProgramRun, open_to_others};
use qd1_runner::place::{self, Place};
use qd1_runner::plan::{self, Space};
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, execute};

/// One of them.
pub enum Workload {
    /// The steps of a suite, through the ordinary planner and runner.
    Suite(Box<Spec>),
    /// A real program's loads, on data made for them.
    Program(ProgramRun),
}

impl Workload {
    /// Measures it in `dir`, which goes with the run. `seed` is the same for every treatment of a round.
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
        let place = without_reserve(place::look(context.machine, dir, &context.id)?);
        match self {
            Self::Suite(spec) => {
                let spec = Spec { path: dir.to_owned(), ..(**spec).clone() };
                let mut plan = plan::decide(&spec, &place, seed)?;
                plan.subject = subject;
                execute(plan, context, watch)
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

/// On a filesystem that goes with the run nothing has to stay free: the planner is given that much more.
fn without_reserve(mut place: Place) -> Place {
    let Space { leave, .. } = plan::space(&place);
    place.filesystem.available.0 += leave;
    place
}
