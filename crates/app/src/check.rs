//! `qd1 check`: the main job, from flags to the verdict.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use qd1_model::plan::{Plan, TargetKind};
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
    Ok(ExitCode::from(signals.exit_code().unwrap_or_else(|| grade_code(&report, args.fail_on))))
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
fn random_id() -> Result<String> {
    let mut bytes = [0u8; 6];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty()).context("no random numbers")?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The command as typed, with the path that was meant: it has to work from anywhere.
fn command_line(path: &Path, args: &CheckArgs) -> Vec<String> {
    let absolute = path.to_string_lossy().into_owned();
    let given = args.path.to_string_lossy().into_owned();
    let mut words: Vec<String> = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    match words.iter_mut().rev().find(|word| **word == given) {
        Some(word) => *word = absolute,
        None => words.push(absolute),
    }
    if words.first().is_none_or(|word| word != "check") {
        words.insert(0, "check".to_owned());
    }
    words.insert(0, "qd1".to_owned());
    words
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

fn grade_code(report: &Report, fail_on: Option<FailOn>) -> u8 {
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
    let _ = writeln!(text, "direct    {}", if target.direct { "O_DIRECT works here" } else { "no O_DIRECT here: the page cache is measured too" });
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

