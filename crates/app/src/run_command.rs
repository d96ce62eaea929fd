//! `qd1 run`: a suite that is built in, a suite's file, or (later in `qd1 fio`'s hands) a job file.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::RunArgs;
use crate::measure::{self, Asked};
use crate::problem::Problem;
use crate::suites;

/// Runs what `SUITE` names.
///
/// # Errors
/// When there is no such suite, it is wrong, or the run fails.
pub(crate) fn run(args: &RunArgs) -> Result<ExitCode> {
    let file = Path::new(&args.what);
    let (suite, file) = if let Some(suite) = suites::builtin(&args.what) {
        (suite, None)
    } else if file.extension().is_some_and(|extension| extension == "toml") {
        (suites::load(file)?, Some(args.what.as_str()))
    } else if file.is_file() || file.extension().is_some_and(|extension| extension == "fio" || extension == "job") {
        return job_file(file, args);
    } else {
        return Err(suites::unknown(&args.what).into());
    };
    measure::run(Asked { command: "run", suite, file, path: &args.path, how: &args.how })
}

/// fio's job files are `qd1 fio`'s.
fn job_file(file: &Path, _args: &RunArgs) -> Result<ExitCode> {
    let message = format!("{} is not a suite (those end in .toml); job files: use qd1 fio", file.display());
    Err(Problem::usage(message).into())
}
