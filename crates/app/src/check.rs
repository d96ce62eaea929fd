//! `qd1 check`: the main job, which is the suite `check`.

use std::process::ExitCode;

use anyhow::{Context as _, Result};

use crate::cli::CheckArgs;
use crate::measure::{self, Asked};
use crate::suites;

/// Measures and judges.
///
/// # Errors
/// When the run cannot be made or fails.
pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    let suite = suites::builtin(suites::CHECK).context("the suite of the check is built in")?;
    measure::run(Asked::of("check", suite, &args.path, &args.how))
}
