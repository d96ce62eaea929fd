//! `qd1 limits`: runs the procedure of `qd1_analysis::limits` on a real disk.

use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_analysis::limits::{Measured as Measurement, Options, Probe, Procedure};
use qd1_model::limits::Direction;
use qd1_model::op::Ended;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, FileUse, IoWork, Order, Plan, Rw, StepPlan, Stop, Sync, TargetKind, Work,
};
use qd1_model::record::{Interval, StepRecord};
use qd1_model::spec::{Effort, Job as JobSpec, PerEffort, Span, Spec, Suite};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Subject};
use qd1_probe::Machine;
use qd1_runner::place::Place;
use qd1_runner::watch::{AdaptiveSteps, Watch};
use qd1_runner::{RunContext, destroy, execute_adaptive, plan};

use crate::args::{CommonArgs, DeviceArgs, duration};
use crate::command_line::CommandLine;
use crate::session::{self, Job, Measured, Request, Session};

/// Longest time for writing the test file.
const PREPARE: Span = Span(10_000_000_000);

#[derive(Debug, Args)]
pub(crate) struct LimitsArgs {
    /// Directory, file (only read) or block device (only read, unless --destroy) to measure
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    /// Wait this long for the end of a burst, separately for reads and writes and for small and large requests. Writes
    /// more data: see --dry-run
    #[arg(long, value_name = "TIME", value_parser = duration, num_args = 0..=1, require_equals = true, default_missing_value = "120s")]
    pub(crate) burst: Option<u64>,
    /// Size of the test file
    #[arg(long, value_name = "SIZE", default_value = "512MiB")]
    pub(crate) size: Bytes,
    #[command(flatten)]
    pub(crate) device: DeviceArgs,
    #[command(flatten)]
    pub(crate) common: CommonArgs,
}

/// Measures and reports.
///
/// # Errors
/// When the options contradict each other, or the run fails.
pub(crate) fn run(args: &LimitsArgs, typed: &CommandLine) -> Result<ExitCode> {
    let common = &args.common;
    let session = Session::begin(Request { typed, subject: Subject::Limits, common, thresholds: None, fail_on: None })?;
    session.run(&mut Search { args, typed, procedure: None })
}

/// A search for limits.
struct Search<'a> {
    args: &'a LimitsArgs,
    typed: &'a CommandLine,
    procedure: Option<Procedure>,
}

impl Search<'_> {
    fn engine(&self) -> EngineChoice {
        self.args.device.engine.unwrap_or_default()
    }
}

impl Job for Search<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        destroy::refuse_mismatch(&self.args.path, self.args.device.destroy.as_deref())?;
        session::inspect(self.typed, machine, &self.args.path, id)
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        let mut plan = plan::decide(&spec(self.args), place, seed)?;
        let procedure = Procedure::new(options(self.args, &plan));
        let engine = self.engine();
        plan.steps = procedure.outline().iter().map(|probe| step(probe, &plan, engine)).collect();
        self.procedure = Some(procedure);
        Ok(plan)
    }

    fn dry_run(&self, plan: &Plan) -> String {
        qd1_report::plan::limits(plan)
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        let engine = self.engine();
        let procedure = self.procedure.take().expect("a search is planned before it is run");
        let measured = execute_adaptive(plan, context, watch, &mut Probing { procedure, engine, probe: None })?;
        Ok(Some(measured.into()))
    }
}

fn options(args: &LimitsArgs, plan: &Plan) -> Options {
    let writes = matches!(plan.target.kind, TargetKind::Directory | TargetKind::BlockDestroy);
    let directions = if writes { Direction::ALL.to_vec() } else { vec![Direction::Read] };
    match args.burst {
        Some(wait_ns) => Options::burst(directions, plan.target.align, wait_ns),
        None => Options::brief(directions, plan.target.align),
    }
}

/// Runs a procedure's probes as steps.
struct Probing {
    procedure: Procedure,
    engine: EngineChoice,
    /// The probe that is running.
    probe: Option<Probe>,
}

impl AdaptiveSteps for Probing {
    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)> {
        if self.probe.is_some()
            && let (Some(step), Some(record)) = (plan.steps.last(), done.last())
        {
            debug_assert_eq!(step.name, record.name, "the last record is that of the last step");
            // A failed step would fail again, as would those that depend on it.
            if record.ended == Ended::Failed {
                return None;
            }
            self.procedure.feed(Measurement::of(step, record)?);
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

/// Returns a probe as a step, without a ramp: a burst shows in the first intervals or not at all.
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
        visits: 1,
        writes_max: Bytes(if rw.writes() { probe.bytes_max * (100 - u64::from(rwmixread)) / 100 } else { 0 }),
    }
}

/// Returns a suite of one step, with which the planner checks the target.
fn spec(args: &LimitsArgs) -> Spec {
    fn same<T: Copy>(value: T) -> PerEffort<T> {
        PerEffort { quick: value, default: value, full: value }
    }
    let job = JobSpec { name: "read-small".to_owned(), rw: Some(Rw::Randread), ..JobSpec::default() };
    Spec {
        suite: Suite {
            name: "limits".to_owned(),
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
        seed: None,
        destroy: args.device.destroy.clone(),
        with_load: false,
        over_ns: None,
    }
}
