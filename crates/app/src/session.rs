//! The procedure of a run, the same for all commands: destination, place, seed, plan, dry run, store, signals,
//! progress, saving, analysis, report, exit code.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, Result};
use qd1_analysis::compare;
use qd1_analysis::trend::kept_figures;
use qd1_model::environment::FilesystemClass;
use qd1_model::op::Ended;
use qd1_model::part::Part;
use qd1_model::plan::{Plan, TargetKind, Visit};
use qd1_model::record::StepRecord;
use qd1_model::{Grade, Problem, ProblemKind, Record, Report, Subject, printable_lines};
use qd1_probe::Machine;
use qd1_report::Detail;
use qd1_runner::place::{self, Place};
use qd1_runner::watch::Watch;
use qd1_runner::witness::Witness;
use qd1_runner::{RunContext, RunFiles, destroy, id};
use qd1_store::Store;
use qd1_system::inputs;

use crate::args::{CommonArgs, FailOn, OutputArgs};
use crate::bounds::Bounds;
use crate::command_line::{CommandLine, PATH};
use crate::message;
use crate::output;
use crate::progress::Progress;
use crate::signals::{self, Signals};
use crate::terminal;
use crate::witness::DiskWitness;

/// The settings of a run that every command specifies.
pub(crate) struct Request<'a> {
    /// The command line as typed.
    pub(crate) typed: &'a CommandLine,
    /// The kind of run.
    pub(crate) subject: Subject,
    pub(crate) common: &'a CommonArgs,
    /// The user's thresholds file.
    pub(crate) thresholds: Option<&'a Path>,
    /// The mildest grade that makes the exit code report a failed threshold.
    pub(crate) fail_on: Option<FailOn>,
}

/// What a command measures.
pub(crate) trait Job {
    /// Inspects the place to measure.
    ///
    /// # Errors
    /// When it cannot be measured; the message says what to do.
    fn place(&self, machine: &Machine, id: &str) -> Result<Place>;

    /// Decides what will be done there.
    ///
    /// # Errors
    /// When the request is refused; the message says what to do.
    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan>;

    /// Describes what would be done, for `--dry-run`.
    fn dry_run(&self, plan: &Plan) -> String {
        qd1_report::plan::dry_run(plan)
    }

    /// Returns the options that the run decided on, by identifier; the command that runs it again needs them.
    fn decided(&self, _plan: &Plan) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Returns the id of the run that it continues; `None` for a new run.
    fn resumes(&self) -> Option<String> {
        None
    }

    /// Refuses a run that is not possible here and now. Not called for a dry run.
    ///
    /// # Errors
    /// When the run is refused; the message says what to do.
    fn may_run(&self, _place: &Place, _machine: &Machine) -> Result<()> {
        Ok(())
    }

    /// Measures. Returns `None` when it was stopped before anything was measured.
    ///
    /// # Errors
    /// When nothing could be measured.
    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>>;
}

/// The result of a job.
pub(crate) struct Measured {
    pub(crate) record: Record,
    /// The error that ended it early, if any.
    pub(crate) failure: Option<Error>,
    /// Files to remove once the record is saved.
    pub(crate) files: Option<RunFiles>,
}

impl From<Record> for Measured {
    fn from(record: Record) -> Self {
        Self { record, failure: None, files: None }
    }
}

impl From<(Record, RunFiles)> for Measured {
    fn from((record, files): (Record, RunFiles)) -> Self {
        Self { record, failure: None, files: Some(files) }
    }
}

/// A request whose thresholds and destination were checked, so that mistakes are reported before anything is measured.
pub(crate) struct Session<'a> {
    request: Request<'a>,
    bounds: Bounds,
}

/// Notes what a command measures, so that no output replaces it: the path, and the backing files of loop devices below
/// it.
pub(crate) fn note_place(machine: &Machine, path: &Path) {
    inputs::note(path);
    for device in machine.environment(path).devices.iter().filter(|device| !device.backing.is_empty()) {
        inputs::note(Path::new(&device.backing));
    }
}

impl<'a> Session<'a> {
    /// Reads the thresholds and checks the destination.
    ///
    /// # Errors
    /// When either is not usable.
    pub(crate) fn begin(request: Request<'a>) -> Result<Self> {
        let bounds = Bounds::of_run(request.subject, request.thresholds)?;
        let session = Self { request, bounds };
        session.check_output()?;
        Ok(session)
    }

    /// Checks the destination; called again once it is known which files the command reads.
    ///
    /// # Errors
    /// When it cannot be written, or is one of the files that are read or measured.
    pub(crate) fn check_output(&self) -> Result<()> {
        self.request.common.output.to.output.iter().try_for_each(|path| output::check_destination(path))
    }

    /// Measures what the job plans, saves the run, and reports it.
    ///
    /// # Errors
    /// When the job is refused or fails, or the report cannot be written; the error has its exit code.
    pub(crate) fn run(&self, job: &mut dyn Job) -> Result<ExitCode> {
        let common = self.request.common;
        needs_proc()?;
        let id = job.resumes().map_or_else(id::random_id, Ok)?;
        let machine = Machine::new();
        let place = Place { leave_free: common.leave_free, ..job.place(&machine, &id)? };
        refuse_memory(&place, common.in_memory)?;
        let seed = common.seed.unwrap_or_else(|| id::seed_of(&id));
        let plan = job.plan(&place, seed)?;
        if plan.target.kind == TargetKind::BlockDestroy {
            destroy::refuse_in_use(&machine, &plan.target.path)?;
        }
        note_place(&machine, &plan.target.path);
        self.check_output()?;
        if common.dry_run {
            return self.show_plan(&qd1_report::fitted(&job.dry_run(&plan), terminal::columns(std::io::stdout())));
        }
        job.may_run(&place, &machine)?;
        let store = self.store();
        let signals = Signals::install()?;
        let path = plan.target.path.to_string_lossy().into_owned();
        let mut changes = vec![(PATH, path)];
        changes.extend(job.decided(&plan));
        let command = self.request.typed.rerun_command(&changes);
        let more_visits = |record: &Record, left: &[Visit], elapsed_ns: u64| {
            qd1_analysis::extend::more_visits(record, left, elapsed_ns, self.bounds.thresholds())
        };
        // The programs that these start are no others.
        let starts_programs = matches!(plan.subject, Subject::Program | Subject::Predict | Subject::Filesystems);
        let witness = if starts_programs { None } else { DiskWitness::of(&machine, &plan.target.path) };
        let context = RunContext {
            id,
            command,
            machine: &machine,
            cancel: signals.stop(),
            more_visits: &more_visits,
            witness: witness.as_ref().map(|witness| witness as &dyn Witness),
        };
        let mut progress = Progress::new(common.quiet);
        let measured = job.execute(plan, &context, &mut progress)?;
        drop(progress);
        match measured {
            Some(measured) => self.finish(measured, store.as_ref()),
            None => {
                message::print("qd1: stopped before anything was measured");
                Ok(ExitCode::from(signals.exit_code().unwrap_or(ProblemKind::Failed.exit_code())))
            }
        }
    }

    /// Prints the description of a dry run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn show_plan(&self, text: &str) -> Result<ExitCode> {
        output::write(&self.request.common.output.to, &printable_lines(text))?;
        Ok(ExitCode::SUCCESS)
    }

    /// Opens the history; `None` when this run is not saved.
    pub(crate) fn store(&self) -> Option<Store> {
        if self.request.common.no_save { None } else { open_store() }
    }

    /// Saves a run, analyses and reports it. The exit code of a signal takes precedence over all others.
    ///
    /// # Errors
    /// When the report cannot be written, or an error ended the run early.
    pub(crate) fn finish(&self, measured: Measured, store: Option<&Store>) -> Result<ExitCode> {
        let Measured { record, failure, files } = measured;
        assert_eq!(record.plan.subject, self.request.subject, "the plan's subject is that of the request");
        let is_kept = store.is_some_and(|store| keep(store, &record));
        drop(files);
        let reported = self.report(record, Detail::Screen { is_kept, lines: None });
        if let (Ok(report), Some(store), true) = (&reported, store, is_kept) {
            note(store, report);
            if !self.request.common.output.is_redacted() && !report.record.is_unfinished() {
                note_measured(store, &report.record, &measured_of(report));
            }
        }
        let reported = reported.and_then(|report| failure.map_or(Ok(report), Err));
        exit_code(reported.map(|report| outcome_code(&report, self.request.fail_on)))
    }

    /// Analyses a run and reports it.
    fn report(&self, record: Record, detail: Detail) -> Result<Report> {
        show(record, &self.bounds, &self.request.common.output, detail)
    }
}

/// Saves a run's headline and figures, so that lists and trends need not analyse the run again.
pub(crate) fn note(store: &Store, report: &Report) {
    let _ = store.note_headline(&report.record.id, &qd1_report::headline(report));
    let _ = store.note_figures(&report.record.id, &kept_figures(&report.summary));
}

/// Saves what `compare` needs from a run, so that it need not be computed again.
pub(crate) fn note_measured(store: &Store, record: &Record, run: &qd1_model::measured::Measured) {
    let _ = store.note_measured(&record.id, compare::MEASURED_BY, run);
}

/// Returns the part of a run that can be compared.
pub(crate) fn measured_of(report: &Report) -> qd1_model::measured::Measured {
    let spoilers = compare::spoilers(&report.record, &report.summary);
    compare::measured(&report.record, &report.summary, &spoilers)
}

/// Refuses a machine without `/proc`, on which nothing can be measured: test files are reopened by their descriptors.
///
/// # Errors
/// Where there is no `/proc`.
pub(crate) fn needs_proc() -> Result<()> {
    if Path::new("/proc/self/fd").exists() {
        return Ok(());
    }
    let message = "/proc is not mounted, and qd1 needs it; run: mount -t proc proc /proc";
    Err(Problem::new(ProblemKind::Capability, message).into())
}

/// Returns the exit code of a run: that of the signal that ended it, whatever else went wrong and even if nobody read
/// its report; otherwise that of the outcome.
///
/// # Errors
/// The error of the outcome, if there was no signal.
pub(crate) fn exit_code(outcome: Result<u8>) -> Result<ExitCode> {
    match (outcome, signals::received()) {
        (outcome, None) => outcome.map(ExitCode::from),
        (Ok(_), Some(code)) => Ok(ExitCode::from(code)),
        (Err(error), Some(code)) => {
            message::print(format_args!("qd1: {error:#}"));
            Ok(ExitCode::from(code))
        }
    }
}

/// Refuses a place that keeps its files in memory, unless the user wants to measure that.
///
/// # Errors
/// When it is refused.
pub(crate) fn refuse_memory(place: &Place, is_wanted: bool) -> Result<(), Problem> {
    let filesystem = &place.filesystem;
    if is_wanted || filesystem.class != FilesystemClass::Memory {
        return Ok(());
    }
    Err(Problem::usage(format!(
        "{} is on {}, which keeps files in memory: there is no disk to measure; choose a directory on a disk (such as \
         /var/tmp), or add --in-memory to measure memory",
        place.path.display(),
        filesystem.kind
    )))
}

/// Inspects the place that a command names.
///
/// # Errors
/// When it cannot be measured.
pub(crate) fn inspect(typed: &CommandLine, machine: &Machine, path: &Path, id: &str) -> Result<Place> {
    or_missing(typed, path, || place::inspect(machine, path, id))
}

/// Calls `inspect` if `path` exists; a path that does not may be a mistyped command.
///
/// # Errors
/// When the path does not exist, or `inspect` fails.
pub(crate) fn or_missing<T>(typed: &CommandLine, path: &Path, inspect: impl FnOnce() -> Result<T>) -> Result<T> {
    let found = std::fs::metadata(path);
    let is_missing = found.is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound);
    if is_missing { Err(typed.missing(path).into()) } else { inspect() }
}

/// Analyses a run with the current analysis and reports it.
///
/// # Errors
/// When the report cannot be redacted or written.
pub(crate) fn show(record: Record, bounds: &Bounds, to: &OutputArgs, detail: Detail) -> Result<Report> {
    let report = bounds.judge(record, to.is_redacted())?;
    output::report(to, &report, detail)?;
    Ok(report)
}

/// Opens the history if possible. The run does not depend on it: without it the reason is printed and the run
/// continues.
pub(crate) fn open_store() -> Option<Store> {
    qd1_runs::history::open()
        .inspect_err(|error| message::print(format_args!("qd1: this run will not be kept: {error:#}")))
        .ok()
}

/// Saves a run, or prints why that is not possible. Returns whether it is saved.
pub(crate) fn keep(store: &Store, record: &Record) -> bool {
    // A history that was removed or replaced during the run is opened again.
    let saved = if store.is_in_place() {
        store.save(record)
    } else {
        qd1_runs::history::open().and_then(|store| store.save(record))
    };
    saved.inspect_err(|error| message::print(format_args!("qd1: this run was not kept: {error:#}"))).is_ok()
}

/// Returns 1 when a step or a request failed or a filesystem could not be made, 3 when a verdict, a criterion or a
/// program's own rule is as bad as `--fail-on` or worse, otherwise 0.
fn outcome_code(report: &Report, fail_on: Option<FailOn>) -> u8 {
    let record = &report.record;
    if has_failed(record) || record.mounts.iter().any(|mount| !mount.fault.is_empty()) {
        return ProblemKind::Failed.exit_code();
    }
    let bad: &[Grade] = match fail_on {
        None => &[],
        Some(FailOn::Fail) => &[Grade::Fail],
        Some(FailOn::NotResolved) => &[Grade::Fail, Grade::NotResolved],
        Some(FailOn::Marginal) => &[Grade::Fail, Grade::NotResolved, Grade::Marginal],
    };
    let verdicts = report.verdicts.iter().map(|verdict| verdict.grade);
    let rules = report.parts.iter().flat_map(Part::grades);
    // A class that could not be judged because there is no disk counts as not resolved.
    let unjudged = report.no_disk().filter(|_| report.record.plan.subject == Subject::Check);
    let verdicts = verdicts.chain(unjudged.map(|_| Grade::NotResolved));
    let mut grades = verdicts.chain(report.criteria.iter().map(|judged| judged.grade)).chain(rules);
    if grades.any(|grade| bad.contains(&grade)) { ProblemKind::Threshold.exit_code() } else { 0 }
}

/// Returns true if a step or a request failed.
pub(crate) fn has_failed(record: &Record) -> bool {
    record.steps.iter().any(|step| step.ended == Ended::Failed || !step.fault.is_empty() || failed_requests(step) > 0)
}

/// Returns how many requests of a step and of its load failed.
fn failed_requests(step: &StepRecord) -> u64 {
    let of_load = step.background.iter().flat_map(|load| &load.errors);
    step.errors.iter().chain(of_load).map(|error| error.count).sum()
}

#[cfg(test)]
mod tests {
    use qd1_model::record::IoErrors;
    use qd1_report::samples;

    use super::*;

    #[test]
    fn a_step_that_could_only_fail_fails_the_run() {
        let mut report = samples::fast_nvme();
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 0);
        report.record.steps[0].ended = Ended::Failed;
        assert_eq!(outcome_code(&report, None), 1);
    }

    /// Regression: a disk that sometimes returned EIO gave exit code 0, even with `--fail-on fail`.
    #[test]
    fn a_request_that_failed_fails_the_run() {
        let mut report = samples::fast_nvme();
        IoErrors::once("EIO".to_owned(), 4096).add_to(&mut report.record.steps[0].errors);
        assert_eq!((outcome_code(&report, None), outcome_code(&report, Some(FailOn::Fail))), (1, 1));
    }

    #[test]
    fn a_failed_verdict_is_an_exit_code_only_when_asked() {
        let mut report = samples::fast_nvme();
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 0);
        report.verdicts[0].grade = Grade::Fail;
        assert_eq!(outcome_code(&report, None), 0);
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 3);
    }

    #[test]
    fn a_failed_criterion_of_the_suite_counts_as_a_verdict_does() {
        let mut report = samples::fast_nvme();
        let mut judged = report.verdicts[0].judged[0].clone();
        judged.grade = Grade::Fail;
        report.criteria.push(judged);
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 3);
        assert_eq!(outcome_code(&report, None), 0);
    }
}
