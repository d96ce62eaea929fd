//! Measuring, the same for every command that runs a suite: from flags to the report and the exit code.

use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use qd1_model::plan::{Plan, TargetKind, Work};
use qd1_model::record::Ended;
use qd1_model::spec::{Effort, Spec, Suite};
use qd1_model::units::format_span_ns;
use qd1_model::verdict::{Grade, Thresholds};
use qd1_model::{Record, Report, Subject};
use qd1_probe::Machine;

use crate::cli::{FailOn, MeasureArgs, OutputArgs};
use crate::place::Place;
use crate::progress::Progress;
use crate::run::{self, Circumstances, Guide};
use crate::signals::Signals;
use crate::store::{Store, default_path};
use crate::{output, place, plan, thresholds};
use qd1_model::ProblemKind;

/// What a command asks to be measured.
pub(crate) struct Asked<'a> {
    /// The command's name.
    pub(crate) command: &'static str,
    pub(crate) suite: Suite,
    /// The suite's file as typed, where it came from one.
    pub(crate) file: Option<&'a str>,
    pub(crate) path: &'a Path,
    pub(crate) how: &'a MeasureArgs,
    /// Who decides on the way what the steps are, where the suite does not say it all.
    pub(crate) guide: Option<&'a mut dyn Guide>,
    /// What is done with the disk after the steps, where there is more to do.
    pub(crate) sequel: Option<&'a mut dyn Sequel>,
}

impl<'a> Asked<'a> {
    /// A suite as it stands, and nothing after it.
    pub(crate) fn of(command: &'static str, suite: Suite, path: &'a Path, how: &'a MeasureArgs) -> Self {
        Self { command, suite, file: None, path, how, guide: None, sequel: None }
    }
}

/// What follows the steps of a suite, and goes into the same Record.
pub(crate) trait Sequel {
    /// Refuses what cannot go well at this place.
    ///
    /// # Errors
    /// Each says what to do.
    fn check(&self, place: &Place, seed: u64) -> Result<()>;

    /// Lines for `--dry-run`.
    fn planned(&self) -> Vec<String>;

    /// Does it.
    ///
    /// # Errors
    /// When it cannot be done; what was measured before is lost then.
    fn follow(&mut self, record: &mut Record, with: &With<'_>, progress: &mut Progress) -> Result<()>;
}

/// What a sequel is given.
pub(crate) struct With<'a> {
    pub(crate) machine: &'a Machine,
    pub(crate) place: &'a Place,
    pub(crate) cancel: &'a AtomicBool,
}

/// Measures and reports.
///
/// # Errors
/// Each says what to do; `problem.rs` knows its exit code.
pub(crate) fn run(mut asked: Asked<'_>) -> Result<ExitCode> {
    let args = asked.how;
    let (guide, sequel) = (asked.guide.take(), asked.sequel.take());
    // What can be found wrong is found before anything is measured.
    let thresholds = thresholds::of_run(asked.suite.subject, args.thresholds.as_deref())?;
    if let Some(path) = &args.common.output.output {
        output::check_destination(path)?;
    }
    let words = Words::of(&asked);
    let spec = spec(asked);
    let id = random_id()?;
    let machine = Machine::new();
    let place = place::look(&machine, &spec.path, &id)?;
    let seed = spec.seed.unwrap_or_else(|| seed_of(&id));
    let plan = plan::decide(&spec, &place, seed)?;
    if plan.target.kind == TargetKind::BlockDestroy {
        place::may_destroy(&machine, &plan.target.path)?;
    }
    if let Some(sequel) = &sequel {
        sequel.check(&place, seed)?;
    }
    if args.common.dry_run {
        let more = sequel.map(|sequel| sequel.planned()).unwrap_or_default();
        let more: String = more.into_iter().map(|line| format!("then      {line}\n")).collect();
        output::write(&args.common.output, &(dry_run(&plan) + &more))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = if args.common.no_save { None } else { open_store() };
    let signals = Signals::install()?;
    let circumstances = Circumstances { id, command: words.valid_anywhere(&plan.target.path), machine: &machine };
    let mut progress = Progress::new(args.common.quiet);
    let mut record = match guide {
        Some(guide) => run::explore(plan, &circumstances, signals.stop(), &mut progress, guide)?,
        None => run::execute(plan, &circumstances, signals.stop(), &mut progress)?,
    };
    if let Some(sequel) = sequel.filter(|_| !record.interrupted) {
        let with = With { machine: &machine, place: &place, cancel: signals.stop() };
        sequel.follow(&mut record, &with, &mut progress)?;
    }
    drop(progress);
    let code = conclude(record, &thresholds, store.as_ref(), &args.common.output, args.fail_on)?;
    Ok(ExitCode::from(signals.exit_code().unwrap_or(code)))
}

/// Keeps a run, judges it and reports it. The exit code is that of a run that was not interrupted.
///
/// # Errors
/// When the report cannot be written.
pub(crate) fn conclude(
    record: Record,
    thresholds: &Thresholds,
    store: Option<&Store>,
    to: &OutputArgs,
    fail_on: Option<FailOn>,
) -> Result<u8> {
    if let Some(store) = store {
        keep(store, &record);
    }
    let mut report = qd1_analysis::analyse(record, thresholds);
    output::report(to, &mut report)?;
    Ok(outcome_code(&report, fail_on))
}

/// How much time to spend.
pub(crate) fn effort(args: &MeasureArgs) -> Effort {
    effort_of(args.quick, args.full)
}

/// The same from the two flags.
pub(crate) const fn effort_of(quick: bool, full: bool) -> Effort {
    match (quick, full) {
        (true, _) => Effort::Quick,
        (_, true) => Effort::Full,
        _ => Effort::Default,
    }
}

fn spec(asked: Asked<'_>) -> Spec {
    let args = asked.how;
    Spec {
        suite: asked.suite,
        path: asked.path.to_owned(),
        effort: effort(args),
        size: args.size,
        runtime_ns: args.runtime,
        only: args.only.clone(),
        engine: args.device.engine,
        seed: args.common.seed,
        destroy: args.device.destroy.clone(),
        with_load: args.with_load || (args.full && asked.command == "check"),
    }
}

/// Options whose value is the next word.
const VALUED: &[&str] = &[
    "--size",
    "--runtime",
    "--only",
    "--engine",
    "--seed",
    "--destroy",
    "--thresholds",
    "--fail-on",
    "--format",
    "--output",
    "-o",
    "--color",
    "--bs",
    "--iodepth",
    "--rw",
    "--passes",
    "--max-p99",
    "--suite",
    "--files",
    "--file-size",
    "--per-dir",
    "--workers",
    "--fsync",
    "--ops",
    "--order",
    "--ram",
    "--chunk",
    "--scale",
];

/// The command line as typed, and which of its words are places.
struct Words {
    typed: Vec<String>,
    command: &'static str,
    /// The suite's file as typed, and where that is.
    file: Option<(String, String)>,
    path: String,
}

impl Words {
    fn of(asked: &Asked<'_>) -> Self {
        let absolute = |file: &str| match std::fs::canonicalize(file) {
            Ok(path) => path.to_string_lossy().into_owned(),
            Err(_) => file.to_owned(),
        };
        Self {
            typed: std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect(),
            command: asked.command,
            file: asked.file.map(|file| (file.to_owned(), absolute(file))),
            path: asked.path.to_string_lossy().into_owned(),
        }
    }

    /// The command with the places that were meant: it has to work from anywhere.
    fn valid_anywhere(self, path: &Path) -> Vec<String> {
        let mut words = self.typed;
        if words.first().is_some_and(|word| word == self.command) {
            words.remove(0);
        }
        let is_value = |words: &[String], at: usize| at > 0 && VALUED.contains(&words[at - 1].as_str());
        // The suite comes before the path, so the first such word is the one and the last the other.
        let mut file_at = None;
        if let Some((typed, absolute)) = self.file {
            file_at = (0..words.len()).find(|at| words[*at] == typed && !is_value(&words, *at));
            if let Some(at) = file_at {
                words[at] = absolute;
            }
        }
        let path = path.to_string_lossy().into_owned();
        let typed = |at: &usize| words[*at] == self.path && Some(*at) != file_at && !is_value(&words, *at);
        match (0..words.len()).rev().find(typed) {
            Some(at) => words[at] = path,
            None => words.push(path),
        }
        ["qd1", self.command].map(str::to_owned).into_iter().chain(words).collect()
    }
}

/// The history is a comfort: without it the run goes on, with a word about why.
pub(crate) fn open_store() -> Option<Store> {
    let opened = default_path(|name| std::env::var_os(name)).and_then(|path| Store::open(&path));
    opened.inspect_err(|error| anstream::eprintln!("qd1: this run will not be kept: {error:#}")).ok()
}

pub(crate) fn keep(store: &Store, record: &Record) {
    if let Err(error) = store.save(record) {
        anstream::eprintln!("qd1: this run was not kept: {error:#}");
    }
}

/// 1 when a step could do nothing but fail, 3 when a verdict, a criterion or a program's own rule is as bad as `--fail-on` says.
fn outcome_code(report: &Report, fail_on: Option<FailOn>) -> u8 {
    if report.record.steps.iter().any(|step| step.ended == Ended::Failed) {
        return ProblemKind::Failed.exit_code();
    }
    let bad: &[Grade] = match fail_on {
        None => &[],
        Some(FailOn::Fail) => &[Grade::Fail],
        Some(FailOn::NotResolved) => &[Grade::Fail, Grade::NotResolved],
        Some(FailOn::Marginal) => &[Grade::Fail, Grade::NotResolved, Grade::Marginal],
    };
    let verdicts = report.verdicts.iter().map(|verdict| verdict.grade);
    let rules = report.app.iter().flat_map(|app| &app.loads).flat_map(|load| &load.checks).map(|check| check.grade);
    let mut grades = verdicts.chain(report.criteria.iter().map(|judged| judged.grade)).chain(rules);
    if grades.any(|grade| bad.contains(&grade)) { ProblemKind::Threshold.exit_code() } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    fn again(command: &'static str, typed: &str, file: Option<&str>, path: &str) -> String {
        let typed = typed.split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        let file = file.map(|file| (file.to_owned(), "/home/me/mine.toml".to_owned()));
        Words { typed, command, file, path: path.to_owned() }.valid_anywhere(Path::new("/srv/files")).join(" ")
    }

    #[test]
    fn the_command_to_run_again_works_from_anywhere() {
        assert_eq!(again("check", "files --only files", None, "files"), "qd1 check /srv/files --only files");
        assert_eq!(again("check", "check --quick .", None, "."), "qd1 check --quick /srv/files");
        assert_eq!(again("check", "", None, "."), "qd1 check /srv/files");
    }

    #[test]
    fn a_suites_file_and_the_path_are_both_found_again() {
        let mine = Some("mine.toml");
        assert_eq!(again("run", "run mine.toml", mine, "."), "qd1 run /home/me/mine.toml /srv/files");
        assert_eq!(
            again("run", "run -o mine.toml mine.toml .", mine, "."),
            "qd1 run -o mine.toml /home/me/mine.toml /srv/files"
        );
        assert_eq!(again("run", "run yabs yabs", None, "yabs"), "qd1 run yabs /srv/files");
    }

    #[test]
    fn a_step_that_could_only_fail_fails_the_run() {
        let mut report = sample::fast_nvme();
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 0);
        report.record.steps[0].ended = Ended::Failed;
        assert_eq!(outcome_code(&report, None), 1);
    }

    #[test]
    fn a_failed_verdict_is_an_exit_code_only_when_asked() {
        let report = sample::slow_vps();
        assert_eq!(outcome_code(&report, None), 0);
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 3);
    }

    #[test]
    fn a_failed_criterion_of_the_suite_counts_as_a_verdict_does() {
        let mut report = sample::fast_nvme();
        let mut judged = report.verdicts[0].judged[0].clone();
        judged.grade = Grade::Fail;
        report.criteria.push(judged);
        assert_eq!(outcome_code(&report, Some(FailOn::Fail)), 3);
        assert_eq!(outcome_code(&report, None), 0);
    }
}
