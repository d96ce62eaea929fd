//! `qd1 run`: a suite that is built in, a suite's file, or a job file of fio's.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use crate::cli::{MeasureArgs, RunArgs};
use crate::measure::{self, Asked};
use crate::{fio, output, suites, thresholds};
use qd1_model::{Problem, Subject};

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
    measure::run(Asked { file, ..Asked::of("run", suite, &args.path, &args.how) })
}

/// A job file of fio's, with qd1's own report. PATH is where its files go, unless the file says it itself.
fn job_file(file: &Path, args: &RunArgs) -> Result<ExitCode> {
    let how = &args.how;
    only_of_suites(how)?;
    let thresholds = thresholds::of_run(Subject::Jobs, how.thresholds.as_deref())?;
    if let Some(path) = &how.common.output.output {
        output::check_destination(path)?;
    }
    let mut words: Vec<String> = how.only.iter().map(|name| format!("--section={name}")).collect();
    if args.path != Path::new(".") {
        words.push(format!("--directory={}", args.path.display()));
    }
    words.push(file.display().to_string());
    let invocation = fio::invocation(&words)?;
    if how.common.dry_run {
        output::write(&how.common.output, &fio::command_lines(&invocation))?;
        return Ok(ExitCode::SUCCESS);
    }
    if !how.common.quiet {
        for note in &invocation.notes {
            anstream::eprintln!("qd1: note: {note}");
        }
    }
    let store = if how.common.no_save { None } else { measure::open_store() };
    let ran = fio::execute(
        &invocation,
        fio::Manner::Own { quiet: how.common.quiet, destroy: how.device.destroy.as_deref() },
    )?;
    let code = measure::conclude(ran.record, &thresholds, store.as_ref(), &how.common.output, how.fail_on)?;
    Ok(ExitCode::from(ran.signal.unwrap_or(code)))
}

/// Flags that change a suite's steps. A job file says these things itself, and wins over options before it.
fn only_of_suites(how: &MeasureArgs) -> Result<()> {
    let given = [
        ("--quick", how.quick),
        ("--full", how.full),
        ("--size", how.size.is_some()),
        ("--runtime", how.runtime.is_some()),
        ("--engine", how.device.engine.is_some()),
        ("--seed", how.common.seed.is_some()),
    ];
    match given.iter().find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => {
            let option = flag.trim_start_matches('-').replace("engine", "ioengine").replace("seed", "randseed");
            let message = format!("{flag} is for suites; a job file says it itself: change its {option}=");
            Err(Problem::usage(message.replace("quick=", "runtime=").replace("full=", "runtime=")).into())
        }
    }
}
