//! `qd1 fio`: fio's command line, job files and reports, on qd1's engines.

mod disks;
mod eta;
mod logs;
mod sink;
mod watch;
mod world;

use std::io::IsTerminal as _;
use std::os::unix::fs::FileTypeExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Result, bail};
use qd1_clock as clock;
use qd1_fio::engines::EngineName;
use qd1_fio::{FioJob, Format, Invocation, Request, help, output, parse_args};
use qd1_jobs::{JobCounters, RunStart, Surroundings, ThreadResult, Watcher as _};
use qd1_model::Record;
use qd1_model::job::JobStat;
use qd1_probe::Machine;
use rustix::io::Errno;

use crate::bounds::Bounds;
use crate::message;
use crate::session;
use crate::signals::Signals;
use qd1_model::{Problem, ProblemKind};
use qd1_runner::id::random_id;
use qd1_store::Store;
use qd1_system::{inputs, trust};
use sink::Sink;
use watch::Watch;
use world::RealWorld;

/// The version that `--version` and reports print: programs that read fio's reports look for `fio-3`, people for `qd1`.
pub(crate) const VERSION: &str = concat!("fio-3.33-qd1-", env!("CARGO_PKG_VERSION"));

/// Runs fio's command line, given without the program's name.
///
/// # Errors
/// When options or job files are invalid, or a target cannot or must not be used.
pub(crate) fn run(args: &[String]) -> Result<ExitCode> {
    match parse_args(args, &RealWorld).map_err(|errors| Problem::usage(errors.to_string()))? {
        Request::Help => print(&help::usage()),
        Request::Version => print(&format!("{VERSION}\n")),
        Request::CmdHelp(name) => print(&help::cmdhelp(&name).map_err(Problem::usage)?),
        Request::EngHelp(name) => print(&help::enghelp(&name).map_err(Problem::usage)?),
        Request::Run(invocation) => start(&invocation),
    }
}

fn print(text: &str) -> Result<ExitCode> {
    Sink::stdout().write(text)?;
    Ok(ExitCode::SUCCESS)
}

fn start(invocation: &Invocation) -> Result<ExitCode> {
    let flags = &invocation.flags;
    if flags.showcmd {
        return print(&format!("{}\n", command_lines(invocation).trim_end()));
    }
    if flags.parse_only {
        return Ok(ExitCode::SUCCESS);
    }
    if invocation.jobs.is_empty() {
        return Err(no_jobs().into());
    }
    note_files(&invocation.jobs);
    let mut sink = match &flags.output {
        Some(path) => Sink::file(Path::new(path))?,
        None => Sink::stdout(),
    };
    let normal = flags.output_format.contains(&Format::Normal);
    if normal {
        sink.write(&banner(invocation))?;
    }
    let outcome = execute(invocation, RunStyle::Fio(&mut sink))?;
    let kept_in = keep(&outcome.record);
    let printed = sink.write(&render(invocation, &outcome, flags.status_interval.is_some()));
    // Only after the output is written: this takes a while for a run of hours.
    if let Some(store) = kept_in {
        note_found(&store, &outcome.record);
    }
    let code = u8::from(outcome.has_failed());
    session::exit_code(printed.and(outcome.unwritten.map_or(Ok(code), Err)))
}

/// Parses a command line of fio that has jobs.
///
/// # Errors
/// When it or a file it names is invalid, or there are no jobs.
pub(crate) fn invocation(args: &[String]) -> Result<Box<Invocation>> {
    match parse_args(args, &RealWorld).map_err(|errors| Problem::usage(errors.to_string()))? {
        Request::Run(invocation) if !invocation.jobs.is_empty() => {
            note_files(&invocation.jobs);
            Ok(invocation)
        }
        _ => Err(no_jobs().into()),
    }
}

/// Notes the files that jobs read or write, so that no report replaces one.
fn note_files(jobs: &[FioJob]) {
    for job in jobs.iter().filter(|job| job.ioengine.moves_data()) {
        let names = (0..job.numjobs).flat_map(|clone| job.file_names(clone));
        names.take(NOTED_MAX).for_each(|name| inputs::note(Path::new(&name)));
    }
}

/// Most files of a job that are noted: noting more takes longer than a user would wait for an error message.
const NOTED_MAX: usize = 1 << 16;

fn no_jobs() -> Problem {
    Problem::usage("no jobs are defined; name a job file, or give --name= (see fio --help)")
}

/// Returns the jobs as command lines of `fio`.
pub(crate) fn command_lines(invocation: &Invocation) -> String {
    help::showcmd(&invocation.globals, &invocation.jobs)
}

/// The style of a run: fio's or qd1's.
pub(crate) enum RunStyle<'a> {
    /// fio's: progress and interim reports as in fio; a device that is not in use is written without further consent.
    Fio(&'a mut Sink),
    /// qd1's: no output except the report, and what existed before is changed only if `--destroy` names it.
    Own {
        /// Whether to show no progress.
        quiet: bool,
        /// The device, the file, or the directory of files that may be overwritten.
        destroy: Option<&'a Path>,
    },
}

/// The result of a run of jobs.
pub(crate) struct JobsOutcome {
    pub(crate) results: Vec<ThreadResult>,
    pub(crate) record: Record,
    disks: Vec<output::DiskUtil>,
    /// What could not be written while it ran: a log, an interim report.
    pub(crate) unwritten: Option<anyhow::Error>,
}

impl JobsOutcome {
    /// Returns true when a job failed.
    fn has_failed(&self) -> bool {
        self.results.iter().any(|result| result.fault.is_some() || result.stat.error != 0)
    }
}

/// Runs the jobs.
///
/// # Errors
/// When a job cannot begin. A failure during a job is in its result.
pub(crate) fn execute(invocation: &Invocation, style: RunStyle<'_>) -> Result<JobsOutcome> {
    let machine = Machine::new();
    let jobs = &invocation.jobs;
    let place = place(jobs);
    let mut environment = machine.environment(&place);
    clock::use_tsc(&environment.clock.source);
    (environment.clock.read_cost_ns, environment.clock.resolution_ns) = clock::cost();
    let signals = Signals::install()?;
    let start = RunStart { id: random_id()?, unix_ns: clock::wall_ns(), ns: clock::now_ns(), command: command() };
    let watched = disks::Disks::begin(&machine, jobs);
    let named = match &style {
        RunStyle::Fio(_) => None,
        RunStyle::Own { destroy, .. } => Some(*destroy),
    };
    let may_change = |path: &Path| may_change(&machine, path, named);
    let around = Surroundings {
        cancel: signals.stop(),
        thread_cost: qd1_probe::thread_cost,
        may_change: &may_change,
        removes_new_files: named.is_some(),
        drawn: u64::from_str_radix(&start.id, 16).unwrap_or(1),
        status_interval: invocation.flags.status_interval,
    };
    let mut kernel = JobCounters::new(&machine, &environment.devices, jobs.len());
    let may_replace = |log: &Path| named.is_none_or(|named| named.is_some_and(|named| covers(named, log, false)));
    let mut watch = Watch::new(invocation, style, &watched, &mut kernel, &may_replace)?;
    let results = qd1_jobs::run(jobs, &around, &mut watch).map_err(|error| {
        let kind = match error.errno {
            _ if error.target_is_unsafe => ProblemKind::Unsafe,
            errno if [Errno::NOSPC, Errno::DQUOT].contains(&Errno::from_raw_os_error(errno)) => ProblemKind::Unsafe,
            errno if [Errno::ACCESS, Errno::PERM].contains(&Errno::from_raw_os_error(errno)) => ProblemKind::Capability,
            _ => ProblemKind::Usage,
        };
        Problem::new(kind, error.to_string())
    })?;
    for fault in results.iter().filter_map(|result| result.fault.as_ref()) {
        watch.warn(&fault.to_string());
    }
    let unwritten = watch.finish().err();
    let disks = watched.end();
    let interrupted = signals.exit_code().is_some();
    let record = qd1_jobs::record(jobs, &results, environment, &start, &place, &kernel, interrupted);
    Ok(JobsOutcome { results, record, disks, unwritten })
}

/// Returns the place that represents the whole run: the first file, or the directory where it will be.
fn place(jobs: &[FioJob]) -> PathBuf {
    let first = jobs.iter().filter(|job| job.ioengine != EngineName::Null).find_map(|job| job.file_names(0).next());
    let path = trust::existing_part(Path::new(first.as_deref().unwrap_or_default()));
    std::fs::canonicalize(&path).unwrap_or(path)
}

/// Returns the command as typed, with files by their absolute paths, so that it can be run again elsewhere.
fn command() -> Vec<String> {
    let mut command = vec!["qd1".to_owned()];
    command.extend(std::env::args_os().skip(1).map(|word| with_absolute_path(&word.to_string_lossy())));
    if command.get(1).is_none_or(|word| word != "fio" && word != "run") {
        command.insert(1, "fio".to_owned());
    }
    command
}

/// Returns a word of the command line, with the name of an existing file as its absolute path.
fn with_absolute_path(word: &str) -> String {
    let file = Some(Path::new(word)).filter(|path| !word.starts_with('-') && path.is_file());
    let absolute = file.and_then(|file| std::fs::canonicalize(file).ok());
    absolute.map_or_else(|| word.to_owned(), |file| file.to_string_lossy().into_owned())
}

/// Checks whether a block device or a file may be made or changed. In fio's style it may, unless it is a device in use;
/// in qd1's style `named` must cover what existed before, and a device must not have recognisable content either.
fn may_change(machine: &Machine, path: &Path, named: Option<Option<&Path>>) -> Result<(), String> {
    if let Some(named) = named
        && path.symlink_metadata().is_err()
    {
        return may_make(path, named);
    }
    let is_device = path.metadata().is_ok_and(|found| found.file_type().is_block_device());
    if named.is_some_and(|named| !named.is_some_and(|named| covers(named, path, is_device))) {
        let what = if is_device { "overwritten" } else { "overwritten or deleted, and it existed before" };
        let path = path.display();
        let hint = if is_device { "" } else { " (or the directory, for all files of the jobs in it)" };
        return Err(format!("{path} would be {what}; if all data on it may be lost, add --destroy {path}{hint}"));
    }
    if !is_device {
        let over = if named.is_some() { machine.loops_of_file(path) } else { Vec::new() };
        let Some(device) = over.first() else { return Ok(()) };
        let path = path.display();
        let advice = format!("detach it first (losetup -d /dev/{device})");
        return Err(format!("{path} would be overwritten, but it is in use as /dev/{device}; {advice}"));
    }
    let uses = machine.block_uses(path);
    match uses.iter().find(|in_use| named.is_some() || !in_use.is_only_content()) {
        None => Ok(()),
        Some(in_use) => Err(in_use.to_string()),
    }
}

/// Checks whether root may make a file in its directory: its name is opened again later, and whoever can change the
/// directory can put a link there.
fn may_make(path: &Path, named: Option<&Path>) -> Result<(), String> {
    let dir = trust::existing_part(path);
    let is_named = named.is_some_and(|named| std::fs::canonicalize(named).ok() == std::fs::canonicalize(&dir).ok());
    let Some(changeable) = trust::leads_root_astray(&dir).filter(|_| !is_named) else { return Ok(()) };
    let (path, dir, changeable) = (path.display(), dir.display(), changeable.display());
    Err(format!(
        "root would create {path}, but another user can change {changeable} and so redirect root elsewhere; run this \
         as that user, name a directory that only root can change, or add --destroy {dir}"
    ))
}

/// Returns true if `--destroy` with this name is about the path: the same file or device, or the directory of the file.
fn covers(named: &Path, path: &Path, is_device: bool) -> bool {
    let (Ok(named), Ok(path)) = (std::fs::canonicalize(named), std::fs::canonicalize(path)) else { return false };
    named == path || (!is_device && path.parent() == Some(&named))
}

/// Returns fio's text before a run, with a note for each option that takes effect differently than written.
fn banner(invocation: &Invocation) -> String {
    let plans = qd1_jobs::threads(&invocation.jobs, 0);
    let lines: Vec<(&FioJob, u32)> = invocation
        .jobs
        .iter()
        .enumerate()
        .map(|(index, job)| (job, plans.iter().find(|plan| plan.job == index).map_or(0, |plan| plan.group)))
        .collect();
    let notes: String = invocation.notes.iter().map(|note| format!("note: {note}\n")).collect();
    notes + &output::banner(VERSION, &lines)
}

/// Returns all requested reports, in fio's order.
fn render(invocation: &Invocation, outcome: &JobsOutcome, one_line: bool) -> String {
    let stats: Vec<(usize, JobStat)> =
        outcome.results.iter().map(|result| (result.plan.job, result.stat.clone())).collect();
    render_stats(invocation, &stats, outcome.disks.clone(), one_line)
}

/// Returns all requested reports from counters of a run that may still be active.
fn render_stats(
    invocation: &Invocation,
    stats: &[(usize, JobStat)],
    disks: Vec<output::DiskUtil>,
    one_line: bool,
) -> String {
    let jobs = &invocation.jobs;
    let grouped = grouped(jobs, stats);
    let wall_ns = clock::wall_ns();
    let report = output::Report {
        version: VERSION,
        timestamp: wall_ns / 1_000_000_000,
        timestamp_ms: wall_ns / 1_000_000,
        time: world::ctime(wall_ns),
        globals: &invocation.globals,
        jobs: grouped
            .iter()
            .filter(|(job, _)| jobs[*job].stats)
            .map(|(job, stat)| output::JobReport { job: &jobs[*job], stat, eta_s: eta_s(&jobs[*job]) })
            .collect(),
        disk_util: disks,
    };
    let mut text = String::new();
    let formats = &invocation.flags.output_format;
    if formats.contains(&Format::Terse) {
        text += &output::terse(&report, invocation.flags.terse_version);
    }
    let plus = formats.contains(&Format::JsonPlus);
    if plus || formats.contains(&Format::Json) {
        let json = output::json(&report, plus);
        text += &if one_line { sink::on_one_line(&json) } else { json };
    }
    if formats.contains(&Format::Normal) {
        text += &output::normal(&report);
    }
    text
}

/// Returns the time left that fio reports for a finished job: 0 if it is bounded by time, else its value for unknown.
fn eta_s(job: &FioJob) -> u64 {
    if job.runtime.is_zero() { i32::MAX as u64 } else { 0 }
}

/// Returns the counters of each clone, or of each reporting group of jobs with `group_reporting`.
fn grouped(jobs: &[FioJob], stats: &[(usize, JobStat)]) -> Vec<(usize, JobStat)> {
    let mut grouped: Vec<(usize, JobStat)> = Vec::new();
    for (job, stat) in stats {
        let known = grouped.iter_mut().find(|(first, known)| {
            jobs[*job].group_reporting && jobs[*first].group_reporting && known.groupid == stat.groupid
        });
        match known {
            Some((_, known)) => known.merge(stat),
            None => grouped.push((*job, stat.clone())),
        }
    }
    grouped
}

/// Saves the run in the history, and returns the history. An error is only reported on a terminal: scripts take output
/// on stderr for a failure.
fn keep(record: &Record) -> Option<Store> {
    let kept = qd1_runs::history::open().and_then(|store| store.save(record).map(|()| store));
    if let Err(error) = &kept
        && std::io::stderr().is_terminal()
    {
        message::print(format_args!("qd1: this run was not kept: {error:#}"));
    }
    kept.ok()
}

/// Saves what lists and comparisons show of a run; otherwise they compute it each time.
fn note_found(store: &Store, record: &Record) {
    let report = Bounds::of_run(record.plan.subject, None).and_then(|bounds| bounds.judge(record.clone(), false));
    if let Ok(report) = report {
        session::note(store, &report);
        session::note_measured(store, record, &session::measured_of(&report));
    }
}

/// Returns the command line as text: job files and options are UTF-8 in every report.
///
/// # Errors
/// When an argument is not UTF-8.
pub(crate) fn text_args(args: impl Iterator<Item = std::ffi::OsString>) -> Result<Vec<String>> {
    let mut texts = Vec::new();
    for arg in args {
        match arg.into_string() {
            Ok(text) => texts.push(text),
            Err(arg) => bail!(Problem::usage(format!("{arg:?} is not UTF-8; rename the file"))),
        }
    }
    Ok(texts)
}
