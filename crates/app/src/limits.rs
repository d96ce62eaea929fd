//! `qd1 limits`: carries out the procedure of `qd1_analysis::limits` on a real disk.

use std::process::ExitCode;

use anyhow::Result;
use qd1_analysis::limits::{Measured, Options, Probe, Procedure, of_record};
use qd1_model::limits::{Direction, Limits};
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, FileUse, IoWork, Order, Plan, Rw, StepPlan, Stop, Sync, TargetKind, Work,
};
use qd1_model::record::{Ended, Interval, StepRecord};
use qd1_model::spec::{Effort, Job, PerEffort, Span, Spec, Suite};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Finding, Record, Report, SCHEMA_VERSION, Subject};
use qd1_probe::Machine;
use serde::Serialize;

use crate::cli::{LimitsArgs, OutputArgs};
use crate::progress::Progress;
use crate::report::Format;
use crate::run::{self, Circumstances, Guide};
use crate::signals::Signals;
use crate::{measure, output, place, plan, report, thresholds};
use qd1_model::{Problem, ProblemKind};

/// Name of the suite in Records.
const SUITE: &str = "limits";
/// Longest time for writing the test file.
const PREPARE: Span = Span(10_000_000_000);

/// What `--json` prints.
#[derive(Serialize)]
struct Document<'a> {
    schema_version: u32,
    limits: &'a Limits,
    findings: &'a [Finding],
    record: &'a Record,
}

/// Measures and reports.
///
/// # Errors
/// Each says what to do; `problem.rs` knows its exit code.
pub(crate) fn run(args: &LimitsArgs) -> Result<ExitCode> {
    let format = args.common.output.format();
    if !matches!(format, Format::Human | Format::Json) {
        return Err(Problem::usage("qd1 limits prints text or JSON: choose --format human or json").into());
    }
    if let Some(path) = &args.common.output.output {
        output::check_destination(path)?;
    }
    let thresholds = thresholds::of_run(Subject::Limits, None)?;
    let id = measure::random_id()?;
    let machine = Machine::new();
    let place = place::look(&machine, &args.path, &id)?;
    let seed = args.common.seed.unwrap_or_else(|| measure::seed_of(&id));
    let mut plan = plan::decide(&spec(args), &place, seed)?;
    if plan.target.kind == TargetKind::BlockDestroy {
        place::may_destroy(&machine, &plan.target.path)?;
    }
    let options = options(args, &plan);
    let procedure = Procedure::new(options);
    let engine = args.device.engine.unwrap_or_default();
    plan.steps = procedure.outline().iter().map(|probe| step(probe, &plan, engine)).collect();
    if args.common.dry_run {
        output::write(&args.common.output, &dry_run(&plan, args.burst.is_some()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = if args.common.no_save { None } else { measure::open_store() };
    let signals = Signals::install()?;
    let circumstances = Circumstances { id, command: command(args, &plan), machine: &machine };
    let mut progress = Progress::new(args.common.quiet);
    let mut guide = Adaptive { procedure, engine, probe: None };
    let record = run::explore(plan, &circumstances, signals.stop(), &mut progress, &mut guide)?;
    drop(progress);
    if let Some(store) = &store {
        measure::keep(store, &record);
    }
    let mut report = qd1_analysis::analyse(record, &thresholds);
    print(&args.common.output, &mut report)?;
    let has_failed = report.record.steps.iter().any(|step| step.ended == Ended::Failed);
    let code = if has_failed { ProblemKind::Failed.exit_code() } else { 0 };
    Ok(ExitCode::from(signals.exit_code().unwrap_or(code)))
}

/// Whether a Record is one of this command, kept or new.
pub(crate) fn is_of(record: &Record) -> bool {
    record.plan.subject == Subject::Limits
}

/// Writes what a Record of this command says, in its formats: text and JSON.
///
/// # Errors
/// When it cannot be written.
pub(crate) fn print(args: &OutputArgs, report: &mut Report) -> Result<()> {
    let limits = of_record(&report.record);
    if args.redact {
        report::redact(report);
    }
    let text = match args.format() {
        Format::Json => {
            let (findings, record) = (&report.findings[..], &report.record);
            let document = Document { schema_version: SCHEMA_VERSION, limits: &limits, findings, record };
            serde_json::to_string_pretty(&document)? + "\n"
        }
        _ => report::limits(&limits, report, &output::style(args)),
    };
    output::write(args, &text)
}

fn options(args: &LimitsArgs, plan: &Plan) -> Options {
    let writes = matches!(plan.target.kind, TargetKind::Directory | TargetKind::BlockDestroy);
    let directions = if writes { Direction::ALL.to_vec() } else { vec![Direction::Read] };
    match args.burst {
        Some(look_ns) => Options::burst(directions, plan.target.align, look_ns),
        None => Options::brief(directions, plan.target.align),
    }
}

/// Runs a procedure's probes as steps.
struct Adaptive {
    procedure: Procedure,
    engine: EngineChoice,
    /// The one that runs.
    probe: Option<Probe>,
}

impl Guide for Adaptive {
    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)> {
        if self.probe.is_some()
            && let (Some(step), Some(record)) = (plan.steps.last(), done.last())
        {
            // A step that could do nothing but fail would fail again, as would those that follow from it.
            if record.ended == Ended::Failed {
                return None;
            }
            self.procedure.feed(Measured::of(step, record)?);
        }
        let probe = self.procedure.next()?;
        let step = step(&probe, plan, self.engine);
        let pause_ns = probe.pause_ns;
        self.probe = Some(probe);
        Some((pause_ns, step))
    }

    fn enough(&self, intervals: &[Interval]) -> bool {
        self.probe.as_ref().is_some_and(|probe| self.procedure.enough(probe, intervals))
    }
}

/// A probe as a step. No ramp: a burst shows in the first intervals or never.
fn step(probe: &Probe, plan: &Plan, ioengine: EngineChoice) -> StepPlan {
    let (rw, rwmixread, what) = match (probe.direction, probe.sequential) {
        (Direction::Read, false) => (Rw::Randread, 100, "random reads"),
        (Direction::Read, true) => (Rw::Read, 100, "sequential reads"),
        (Direction::Write, false) => (Rw::Randwrite, 0, "random writes"),
        (Direction::Write, true) => (Rw::Write, 0, "sequential writes"),
        (Direction::Both, false) => (Rw::Randrw, 50, "random, half reads, half writes"),
        (Direction::Both, true) => (Rw::Rw, 50, "sequential, half reads, half writes"),
    };
    let work = IoWork {
        ioengine,
        rw,
        rwmixread,
        order: if probe.sequential { Order::Sequential } else { Order::Random },
        blocks: vec![BlockShare { bytes: probe.block, weight: 1 }],
        iodepth: probe.iodepth,
        numjobs: 1,
        direct: plan.target.direct,
        sync: Sync::None,
        file: FileUse::Shared,
        size: plan.target.size,
        io_size: Bytes(probe.bytes_max),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    };
    let pause = match probe.pause_ns {
        0 => String::new(),
        ns => format!(", after {} of rest", format_span_ns(ns)),
    };
    StepPlan {
        name: probe.name(),
        title: format!("{what}, {}, {} in flight{pause}", Bytes(u64::from(probe.block)), probe.iodepth),
        work: Work::Io(work),
        background: Vec::new(),
        stop: Stop { min_ns: 0, max_ns: probe.max_ns, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 },
        writes_max: Bytes(if rw.writes() { probe.bytes_max * (100 - u64::from(rwmixread)) / 100 } else { 0 }),
    }
}

/// A suite of one step, so that the planner looks at the target and makes its refusals.
fn spec(args: &LimitsArgs) -> Spec {
    fn same<T: Copy>(value: T) -> PerEffort<T> {
        PerEffort { quick: value, default: value, full: value }
    }
    let job = Job { name: "read-small".to_owned(), rw: Some(Rw::Randread), ..Job::default() };
    Spec {
        suite: Suite {
            name: SUITE.to_owned(),
            subject: Subject::Limits,
            title: "rate limits".to_owned(),
            source: String::new(),
            size: same(args.size),
            prepare: same(PREPARE),
            job: vec![job],
            criteria: Vec::new(),
            sweep: None,
        },
        path: args.path.clone(),
        effort: Effort::Default,
        size: None,
        runtime_ns: None,
        only: Vec::new(),
        engine: args.device.engine,
        seed: args.common.seed,
        destroy: args.device.destroy.clone(),
        with_load: false,
    }
}

/// The command that does the same again, from anywhere.
fn command(args: &LimitsArgs, plan: &Plan) -> Vec<String> {
    let mut words = vec!["qd1".to_owned(), "limits".to_owned(), plan.target.path.to_string_lossy().into_owned()];
    if let Some(ns) = args.burst {
        words.push(format!("--burst={}ms", ns / 1_000_000));
    }
    words.extend(["--size".to_owned(), args.size.0.to_string()]);
    if let Some(device) = &args.device.destroy {
        words.extend(["--destroy".to_owned(), device.to_string_lossy().into_owned()]);
    }
    if let Some(EngineChoice::Kind(kind)) = args.device.engine {
        words.extend(["--engine".to_owned(), kind.name().to_owned()]);
    }
    words.extend(["--seed".to_owned(), plan.seed.to_string()]);
    words
}

