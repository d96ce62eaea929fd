//! `qd1 run`: runs a built-in suite, a suite file, or a fio job file.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_model::{Problem, Subject};
use qd1_system::source::{self, Kind};

use crate::args::MeasureArgs;
use crate::command_line::CommandLine;
use crate::commands::fio;
use crate::given;
use crate::message;
use crate::session::{Measured, Session};
use crate::suite_job::{Overrides, SuiteJob, request};

/// As large as the job files that `qd1 fio` accepts.
const JOB_FILE: Kind = Kind { name: "a job file", most: qd1_fio::Limits::FILE_BYTES as u64 };

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// Name of a built-in suite (see `qd1 suites`), a suite file that ends in .toml, or a fio job file
    #[arg(value_name = "SUITE|JOB")]
    pub(crate) what: String,
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Runs the suite or job file that `SUITE|JOB` names.
///
/// # Errors
/// When there is no such suite, its file is invalid, or the run fails.
pub(crate) fn run(args: &RunArgs, typed: &CommandLine) -> Result<ExitCode> {
    let file = Path::new(&args.what);
    let has = |extension: &str| file.extension().is_some_and(|found| found == extension);
    let builtin = qd1_suites::builtin(&args.what);
    let is_file = builtin.is_none();
    let suite = match builtin {
        Some(suite) => suite,
        None if has("toml") => given::suite(file)?,
        None if file.is_file() || has("fio") || has("job") => return job_file(file, args, typed),
        None => return Err(qd1_suites::unknown(&args.what).into()),
    };
    let session = Session::begin(request(typed, suite.subject, &args.how))?;
    let job = SuiteJob::new(typed, &args.path, Overrides::from(&args.how), |_, _| Ok(suite));
    session.run(&mut if is_file { job.read_from(file) } else { job })
}

/// Runs a fio job file, with qd1's own report. PATH is where its files go, unless the job file sets a directory.
fn job_file(file: &Path, args: &RunArgs, typed: &CommandLine) -> Result<ExitCode> {
    let how = &args.how;
    only_of_suites(how)?;
    // `qd1 fio` waits for a writer to a fifo, as fio does; here a fifo must be a mistake.
    if file.exists() {
        source::open(file, JOB_FILE)?;
    }
    let session = Session::begin(request(typed, Subject::Jobs, how))?;
    let mut words: Vec<String> = how.only.iter().map(|name| format!("--section={name}")).collect();
    if args.path != Path::new(".") {
        words.push(format!("--directory={}", args.path.display()));
    }
    words.push(file.display().to_string());
    let invocation = fio::invocation(&words)?;
    session.check_output()?;
    let is_used = |directory: &String| Path::new(directory) == args.path;
    if args.path != Path::new(".") && !invocation.jobs.iter().any(|job| job.directory.iter().any(is_used)) {
        let path = args.path.display();
        let file = file.display();
        let message = format!("{file} sets its own directory, so {path} would not be used; leave out one of them");
        return Err(Problem::usage(message).into());
    }
    if how.common.dry_run {
        return session.show_plan(&fio::command_lines(&invocation));
    }
    if !how.common.quiet {
        for note in &invocation.notes {
            message::print(format_args!("qd1: note: {note}"));
        }
    }
    let store = session.store();
    let style = fio::RunStyle::Own { quiet: how.common.quiet, destroy: how.device.destroy.as_deref() };
    let ran = fio::execute(&invocation, style)?;
    let measured = Measured { record: ran.record, failure: ran.unwritten, files: None };
    session.finish(measured, store.as_ref())
}

/// Refuses flags that change a suite's steps. A job file sets these things itself, and overrides options before it.
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
            let message = format!("{flag} is for suites; a job file sets this itself: change its {option}=");
            Err(Problem::usage(message.replace("quick=", "runtime=").replace("full=", "runtime=")).into())
        }
    }
}
