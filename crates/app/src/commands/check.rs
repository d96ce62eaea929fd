//! `qd1 check`: the main job, which is the suite `check`.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;

use crate::args::MeasureArgs;
use crate::command_line::CommandLine;
use crate::suite_job::{Overrides, run_builtin};

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measures the disk and judges it.
///
/// # Errors
/// When the run cannot be started or fails.
pub(crate) fn run(args: &CheckArgs, typed: &CommandLine) -> Result<ExitCode> {
    let with_load = args.how.with_load || args.how.full;
    run_builtin("check", typed, &args.path, &args.how, Overrides { with_load, ..(&args.how).into() })
}
