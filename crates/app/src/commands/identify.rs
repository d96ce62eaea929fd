//! `qd1 identify`: finds the kind of storage. Runs the suite `identify`, whose report begins with the answer.

use std::os::unix::fs::FileTypeExt as _;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::Bytes;

use crate::args::MeasureArgs;
use crate::command_line::CommandLine;
use crate::suite_job::{Overrides, run_builtin};

#[derive(Debug, Args)]
pub(crate) struct IdentifyArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to identify
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measures the storage and reports its kind.
///
/// # Errors
/// When the run cannot be started or fails.
pub(crate) fn run(args: &IdentifyArgs, typed: &CommandLine) -> Result<ExitCode> {
    let mut overrides = Overrides::from(&args.how);
    let is_device = std::fs::metadata(&args.path).is_ok_and(|data| data.file_type().is_block_device());
    if is_device && overrides.destroy.is_none() && overrides.size.is_none() {
        // Nothing has to be written first, so seeks may span the whole device: the planner limits the size to it.
        overrides.size = Some(Bytes(u64::MAX));
    }
    run_builtin("identify", typed, &args.path, &args.how, overrides)
}
