//! The job of every command that runs a suite of steps.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use qd1_model::plan::{EngineChoice, Plan};
use qd1_model::spec::{Effort, Spec, Suite};
use qd1_model::{Bytes, Subject};
use qd1_probe::Machine;
use qd1_runner::place::Place;
use qd1_runner::watch::{AdaptiveSteps, Watch};
use qd1_runner::{RunContext, destroy, execute, execute_adaptive, plan};

use crate::args::MeasureArgs;
use crate::command_line::CommandLine;
use crate::session::{self, Job, Measured, Request, Session};

/// The flags that change a suite's steps.
#[derive(Clone, Debug)]
pub(crate) struct Overrides {
    pub(crate) effort: Effort,
    pub(crate) size: Option<Bytes>,
    pub(crate) runtime_ns: Option<u64>,
    pub(crate) only: Vec<String>,
    pub(crate) engine: Option<EngineChoice>,
    pub(crate) destroy: Option<PathBuf>,
    pub(crate) with_load: bool,
    pub(crate) over_ns: Option<u64>,
}

impl From<&MeasureArgs> for Overrides {
    fn from(args: &MeasureArgs) -> Self {
        Self {
            effort: args.effort(),
            size: args.size,
            runtime_ns: args.runtime,
            only: args.only.clone(),
            engine: args.device.engine,
            destroy: args.device.destroy.clone(),
            with_load: args.with_load,
            over_ns: None,
        }
    }
}

/// Makes the suite, once the place and the seed are known.
type MakeSuite<'a> = Box<dyn FnOnce(&Place, u64) -> Result<Suite> + 'a>;

/// A suite to be run at a place.
pub(crate) struct SuiteJob<'a> {
    typed: &'a CommandLine,
    path: &'a Path,
    overrides: Overrides,
    suite: Option<MakeSuite<'a>>,
    adaptive: Option<&'a mut dyn AdaptiveSteps>,
    /// Absolute path of the suite's file, if it came from one.
    file: Option<String>,
}

impl<'a> SuiteJob<'a> {
    pub(crate) fn new(
        typed: &'a CommandLine,
        path: &'a Path,
        overrides: Overrides,
        suite: impl FnOnce(&Place, u64) -> Result<Suite> + 'a,
    ) -> Self {
        Self { typed, path, overrides, suite: Some(Box::new(suite)), adaptive: None, file: None }
    }

    /// Adds a source of steps that are decided during the run.
    pub(crate) fn adaptive(self, adaptive: &'a mut dyn AdaptiveSteps) -> Self {
        Self { adaptive: Some(adaptive), ..self }
    }

    /// Records that the suite came from `file`.
    pub(crate) fn read_from(self, file: &Path) -> Self {
        let file = std::fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
        Self { file: Some(file.to_string_lossy().into_owned()), ..self }
    }
}

impl Job for SuiteJob<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        destroy::refuse_mismatch(self.path, self.overrides.destroy.as_deref())?;
        session::inspect(self.typed, machine, self.path, id)
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        let make = self.suite.take().expect("a job is planned once");
        let Overrides { effort, size, runtime_ns, only, engine, destroy, with_load, over_ns } = self.overrides.clone();
        let spec = Spec {
            suite: make(place, seed)?,
            path: self.path.to_owned(),
            effort,
            size,
            runtime_ns,
            only,
            engine,
            seed: Some(seed),
            destroy,
            with_load,
            over_ns,
        };
        plan::decide(&spec, place, seed)
    }

    fn decided(&self, _plan: &Plan) -> Vec<(&'static str, String)> {
        self.file.iter().map(|file| ("what", file.clone())).collect()
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        let measured = match &mut self.adaptive {
            Some(adaptive) => execute_adaptive(plan, context, watch, *adaptive)?,
            None => execute(plan, context, watch)?,
        };
        Ok(Some(measured.into()))
    }
}

/// The request of a command that takes [`MeasureArgs`].
pub(crate) fn request<'a>(typed: &'a CommandLine, subject: Subject, args: &'a MeasureArgs) -> Request<'a> {
    Request { typed, subject, common: &args.common, thresholds: args.thresholds.as_deref(), fail_on: args.fail_on }
}

/// Runs a built-in suite.
///
/// # Errors
/// When the run cannot be started or fails.
pub(crate) fn run_builtin(
    name: &str,
    typed: &CommandLine,
    path: &Path,
    args: &MeasureArgs,
    overrides: Overrides,
) -> Result<ExitCode> {
    let suite = builtin(name)?;
    let session = Session::begin(request(typed, suite.subject, args))?;
    session.run(&mut SuiteJob::new(typed, path, overrides, |_, _| Ok(suite)))
}

/// Returns a built-in suite that a command depends on.
///
/// # Errors
/// When there is no built-in suite of that name, which is a fault in this program.
pub(crate) fn builtin(name: &str) -> Result<Suite> {
    qd1_suites::builtin(name).with_context(|| format!("the built-in suite {name} is missing"))
}
