//! `qd1 check`: runs the suite `check`, or with `--over` rounds of it spread over hours.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::Subject;

use crate::args::{MeasureArgs, duration};
use crate::command_line::CommandLine;
use crate::long_check_job::LongCheckJob;
use crate::session::Session;
use crate::suite_job::{Overrides, request, run_builtin};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Measure in one-second rounds at random times over this period, 1h to 14d; uses at most 0.5 % of the disk's time
    #[arg(long, value_name = "TIME", value_parser = duration,
          conflicts_with_all = ["quick", "full", "runtime", "with_load", "no_save"])]
    pub(crate) over: Option<u64>,
    /// Continue the --over run with this id, after an interruption or a reboot
    #[arg(long, value_name = "ID",
          conflicts_with_all = ["over", "path", "quick", "full", "runtime", "with_load", "no_save", "size", "only",
                                "engine", "seed", "dry_run"])]
    pub(crate) resume: Option<String>,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measures the disk and judges it.
///
/// # Errors
/// When the run cannot be started or fails.
pub(crate) fn run(args: &CheckArgs, typed: &CommandLine) -> Result<ExitCode> {
    let with_load = args.how.with_load || args.how.full;
    let overrides = Overrides { with_load, over_ns: args.over, ..(&args.how).into() };
    if args.over.is_none() && args.resume.is_none() {
        return run_builtin("check", typed, &args.path, &args.how, overrides);
    }
    let session = Session::begin(request(typed, Subject::Check, &args.how))?;
    let mut job = match &args.resume {
        Some(id) => LongCheckJob::resume(id, args.how.device.destroy.clone())?,
        None => LongCheckJob::new(typed, &args.path, overrides)?,
    };
    session.run(&mut job)
}
