//! `qd1 meta`: measures file operations, or runs bonnie++'s whole job. It runs like any suite, and the analysis makes
//! the table.

mod args;

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Subject;
use qd1_suites::meta::{bonnie, files};
use qd1_system::tool::memory;

pub(crate) use args::MetaArgs;
use args::SuiteName;

use crate::command_line::CommandLine;
use crate::session::{Request, Session};
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
    session.run(&mut SuiteJob::new(typed, &args.path, overrides, |_, _| Ok(suite)))
}
