//! `qd1 check`: the main job, from flags to the verdict.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use qd1_model::plan::{Plan, TargetKind};
use qd1_model::record::Ended;
use qd1_model::spec::{Effort, Spec};
use qd1_model::units::format_span_ns;
use qd1_model::verdict::Grade;
use qd1_model::{Record, Report};
use qd1_probe::Machine;

use crate::cli::{CheckArgs, FailOn};
use crate::problem::Kind;
use crate::progress::Progress;
use crate::run::{self, Circumstances};
use crate::signals::Signals;
use crate::store::{Store, default_path};
use crate::{output, place, plan, suites, thresholds};

pub(crate) fn run(args: &CheckArgs) -> Result<ExitCode> {
    // What can be found wrong is found before anything is measured.
    let thresholds = match &args.thresholds {
        Some(path) => thresholds::load(path)?,
        None => thresholds::builtin(),
    };
    if let Some(path) = &args.output.output {
        output::check_destination(path)?;
    }
    let spec = spec(args)?;
    let id = random_id()?;
    let machine = Machine::new();
    let place = place::look(&machine, &spec.path, &id)?;
    let seed = match spec.seed {
        Some(seed) => seed,
        None => u64::from_str_radix(&id, 16).unwrap_or(1) >> 16,
    };
    let plan = plan::decide(&spec, &place, seed)?;
    if plan.target.kind == TargetKind::BlockDestroy {
        place::may_destroy(&machine, &plan.target.path)?;
    }
    if args.dry_run {
        output::write(&args.output, &dry_run(&plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = if args.no_save { None } else { open_store() };
    let signals = Signals::install()?;
    let circumstances = Circumstances { id, command: command_line(&plan.target.path, args), machine: &machine };
    let mut progress = Progress::new(args.quiet);
    let record = run::execute(plan, &circumstances, signals.stop(), &mut progress)?;
    drop(progress);
    if let Some(store) = store {
        keep(&store, &record);
    }
    let mut report = qd1_analysis::analyse(record, &thresholds);
    output::report(&args.output, &mut report)?;
    Ok(ExitCode::from(signals.exit_code().unwrap_or_else(|| outcome_code(&report, args.fail_on))))
}

fn spec(args: &CheckArgs) -> Result<Spec> {
    Ok(Spec {
        suite: suites::parse(suites::CHECK)?,
        path: args.path.clone(),
        effort: match (args.quick, args.full) {
            (true, _) => Effort::Quick,
            (_, true) => Effort::Full,
            _ => Effort::Default,
        },
        size: args.size,
        runtime_ns: args.runtime,
        only: args.only.clone(),
        engine: args.engine,
        seed: args.seed,
        destroy: args.destroy.clone(),
    })
}

/// Twelve hexadecimal digits from the kernel.
pub(crate) fn random_id() -> Result<String> {
    let mut bytes = [0u8; 6];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Options of `check` whose value is the next word.
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
];

/// The command as typed, with the path that was meant: it has to work from anywhere.
fn command_line(path: &Path, args: &CheckArgs) -> Vec<String> {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    from_anywhere(words, &args.path.to_string_lossy(), &path.to_string_lossy())
}

fn from_anywhere(mut words: Vec<String>, given: &str, absolute: &str) -> Vec<String> {
    if words.first().is_some_and(|word| word == "check") {
        words.remove(0);
    }
    let is_value = |at: usize| at > 0 && VALUED.contains(&words[at - 1].as_str());
    match (0..words.len()).rev().find(|at| words[*at] == given && !is_value(*at)) {
        Some(at) => words[at] = absolute.to_owned(),
        None => words.push(absolute.to_owned()),
    }
    ["qd1".to_owned(), "check".to_owned()].into_iter().chain(words).collect()
}

/// The history is a comfort: without it the run goes on, with a word about why.
fn open_store() -> Option<Store> {
    let opened = default_path(|name| std::env::var_os(name)).and_then(|path| Store::open(&path));
    opened.inspect_err(|error| anstream::eprintln!("qd1: this run will not be kept: {error:#}")).ok()
}

fn keep(store: &Store, record: &Record) {
    if let Err(error) = store.save(record) {
        anstream::eprintln!("qd1: this run was not kept: {error:#}");
    }
}

/// 1 when a step could do nothing but fail, 3 when a verdict is as bad as `--fail-on` says.
fn outcome_code(report: &Report, fail_on: Option<FailOn>) -> u8 {
    if report.record.steps.iter().any(|step| step.ended == Ended::Failed) {
        return Kind::Failed as u8;
    }
    let bad: &[Grade] = match fail_on {
        None => &[],
        Some(FailOn::Fail) => &[Grade::Fail],
        Some(FailOn::NotResolved) => &[Grade::Fail, Grade::NotResolved],
        Some(FailOn::Marginal) => &[Grade::Fail, Grade::NotResolved, Grade::Marginal],
    };
    if report.verdicts.iter().any(|verdict| bad.contains(&verdict.grade)) { Kind::Threshold as u8 } else { 0 }
}

/// What would be done.
fn dry_run(plan: &Plan) -> String {
    use std::fmt::Write as _;
    let target = &plan.target;
    let mut text = String::new();
    let place = match target.kind {
        TargetKind::Directory => format!("unnamed files in {} ({})", target.path.display(), target.filesystem),
        TargetKind::File => format!("{}, only read", target.path.display()),
        TargetKind::BlockReadOnly => format!("{}, only read", target.path.display()),
        TargetKind::BlockDestroy => format!("{}, OVERWRITTEN", target.path.display()),
    };
    let _ = writeln!(text, "plan of {}: {place}", plan.suite);
    if plan.needs_shared_file() {
        let longest = format_span_ns(target.prepare_max_ns);
        let _ = writeln!(text, "  prepare   up to {longest:>7}  writes {} of random data", target.size);
    }
    for step in &plan.steps {
        let longest = format_span_ns(step.stop.ramp_ns + step.stop.max_ns);
        let _ = writeln!(text, "  {:<9} up to {longest:>7}  {}", step.name, step.title);
    }
    for skipped in &plan.skipped {
        let _ = writeln!(text, "  {:<9} not run: {}", skipped.name, skipped.why);
    }
    let _ = writeln!(text, "time      at most {}", format_span_ns(plan.duration_max_ns()));
    let _ = writeln!(text, "writes    at most {} (on the fastest of disks)", plan.writes_max());
    let _ = writeln!(text, "space     {} while it runs, nothing after it", plan.space_max());
    let _ = writeln!(
        text,
        "direct    {}",
        if target.direct { "O_DIRECT works here" } else { "no O_DIRECT here: the page cache is measured too" }
    );
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::sample;

    #[test]
    fn the_command_to_run_again_works_from_anywhere() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let again = |text: &str, given: &str| from_anywhere(words(text), given, "/srv/files").join(" ");
        assert_eq!(again("files --only files", "files"), "qd1 check /srv/files --only files");
        assert_eq!(again("check --quick .", "."), "qd1 check --quick /srv/files");
        assert_eq!(from_anywhere(Vec::new(), ".", "/srv").join(" "), "qd1 check /srv");
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
}
