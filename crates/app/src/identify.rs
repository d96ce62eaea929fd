//! `qd1 identify`: what kind of storage it is. The suite `identify`, whose report begins with the answer.

use std::os::unix::fs::FileTypeExt as _;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use qd1_model::Bytes;

use crate::cli::CheckArgs;
use crate::measure::{self, Asked};
use crate::suites;

/// The suite's name.
pub(crate) const SUITE: &str = "identify";

/// Measures and says what it is.
///
/// # Errors
/// When the run cannot be made or fails.
pub(crate) fn run(mut args: CheckArgs) -> Result<ExitCode> {
    let suite = suites::builtin(SUITE).context("the suite of identify is built in")?;
    let is_device = std::fs::metadata(&args.path).is_ok_and(|data| data.file_type().is_block_device());
    if is_device && args.how.device.destroy.is_none() && args.how.size.is_none() {
        // Nothing has to be written first, so a head may go all the way: the planner takes what there is.
        args.how.size = Some(Bytes(u64::MAX));
    }
    measure::run(Asked::of(SUITE, suite, &args.path, &args.how))
}
