//! `qd1 meta`: measures file operations, or runs bonnie++'s whole job. It runs like any suite, and the analysis makes
//! the table.

mod args;
mod trial;

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Subject;
use qd1_model::plan::Plan;
use qd1_model::units::format_span_ns;
use qd1_probe::Machine;
use qd1_runner::RunContext;
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;
use qd1_suites::meta::{bonnie, files};
use qd1_system::tool::memory;

pub(crate) use args::MetaArgs;
use args::SuiteName;

use crate::command_line::CommandLine;
use crate::session::{Job, Measured, Request, Session};
use crate::suite_job::{Overrides, SuiteJob};

/// Measures the file operations.
///
/// # Errors
/// When the options contradict each other, or the run fails.
pub(crate) fn run(args: &MetaArgs, typed: &CommandLine) -> Result<ExitCode> {
    args.check()?;
    let options = args.options();
    let suite = match args.suite {
        SuiteName::Files => files(&options),
        SuiteName::Bonnie => bonnie(&options, memory())?,
    };
    let subject = if args.suite == SuiteName::Bonnie { Subject::Bonnie } else { Subject::Meta };
    let overrides = Overrides {
        effort: options.effort,
        size: None,
        runtime_ns: args.runtime,
        only: Vec::new(),
        engine: args.device.engine,
        destroy: args.device.destroy.clone(),
        with_load: false,
        over_ns: None,
    };
    let session = Session::begin(Request { typed, subject, common: &args.common, thresholds: None, fail_on: None })?;
    let suite = SuiteJob::new(typed, &args.path, overrides, |_, _| Ok(suite));
    session.run(&mut MetaJob { suite })
}

/// The suite, preceded by a trial that estimates how long it will take.
struct MetaJob<'a> {
    suite: SuiteJob<'a>,
}

impl Job for MetaJob<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        self.suite.place(machine, id)
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        self.suite.plan(place, seed)
    }

    fn decided(&self, plan: &Plan) -> Vec<(&'static str, String)> {
        self.suite.decided(plan)
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        if let Some(about_ns) = trial::estimate(&plan, &context.id, context.cancel) {
            watch.heading(&format!("about {}, estimated by a short trial", format_span_ns(about_ns)));
        }
        self.suite.execute(plan, context, watch)
    }
}
