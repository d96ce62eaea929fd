//! A program's loads as a run, or as part of another command's run: planned, measured, recorded.

use std::path::Path;

use anyhow::{Context as _, Result, anyhow};
use qd1_clock as clock;
use qd1_engine::backing::{DirectIo, PathKind};
use qd1_model::op::{Ended, RequestCounts};
use qd1_model::plan::{Plan, StepPlan, TargetKind, TargetPlan};
use qd1_model::record::StepRecord;
use qd1_model::record::program::{AppRecord, AppStep};
use qd1_model::{Bytes, Problem, ProblemKind, Record, Subject};
use qd1_probe::Machine;
use qd1_probe::sampler::Counters;
use qd1_runner::place::{self, Place};
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, environment, plan, sort_ns};
use qd1_system::child::{self, Cancelled};

use crate::program::{Driver, Site};

/// A program that can be run repeatedly.
pub struct ProgramRun(Box<dyn Driver>);

impl ProgramRun {
    /// Creates a run after checking the driver.
    ///
    /// # Errors
    /// When a setting makes no sense or a program is missing.
    pub fn new(driver: impl Driver + 'static) -> Result<Self> {
        let mut run = Self(Box::new(driver));
        run.0.check()?;
        Ok(run)
    }

    /// Returns the program's title.
    pub fn title(&self) -> &'static str {
        self.0.program().title()
    }

    /// Returns its loads.
    pub fn steps(&self) -> Vec<StepPlan> {
        self.0.steps()
    }

    /// Returns the maximum space it takes.
    pub fn space(&self) -> Bytes {
        self.0.space()
    }

    /// Describes what is changed and what remains, for `--dry-run`.
    pub fn caution(&self) -> String {
        self.0.caution()
    }

    /// Returns the directory it works in, as given.
    pub fn path(&self) -> &Path {
        self.0.path().unwrap_or(Path::new("."))
    }

    /// Inspects the place. The directory of a foreign server is not written to, so only its path and filesystem are
    /// read.
    ///
    /// # Errors
    /// When it is not a directory, or cannot be read.
    pub fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        let path = self.path();
        let place = if self.space().0 == 0 {
            let path = std::fs::canonicalize(path).with_context(|| format!("cannot open {}", path.display()))?;
            let filesystem = machine.filesystem(&path).unwrap_or_default();
            let direct = DirectIo { supported: true, align: 512 };
            Place { path, kind: PathKind::Directory, filesystem, direct, leave_free: None }
        } else {
            place::inspect(machine, path, id)?
        };
        if !matches!(place.kind, PathKind::Directory) {
            let (path, title) = (place.path.display(), self.title());
            return Err(Problem::usage(format!("{path} is not a directory, but {title} needs one for its data")).into());
        }
        Ok(place)
    }

    /// Returns its loads as a plan.
    ///
    /// # Errors
    /// When the place is too small; the message has the space needed.
    pub fn plan(&self, place: &Place, seed: u64) -> Result<Plan> {
        let (needed, space) = (self.space(), plan::space(place));
        let name = self.0.program().name();
        if needed.0 > space.usable {
            let message = format!(
                "not enough space in {}: {} {}, or choose a smaller load (see `qd1 app {name} --help`)",
                place.path.display(),
                self.title(),
                space.shortage(needed.0),
            );
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
        let target = TargetPlan {
            path: place.path.clone(),
            kind: TargetKind::Directory,
            filesystem: place.filesystem.kind.clone(),
            size: Bytes(0),
            direct: place.direct.supported,
            align: place.direct.align,
            prepare_max_ns: 0,
        };
        let plan = Plan::new(format!("app-{name}"), Subject::Program, target, seed);
        Ok(Plan { steps: self.steps(), ..plan })
    }

    /// Creates the program's data, runs its loads, and removes everything again.
    ///
    /// # Errors
    /// When it does not start, or its first load fails.
    pub fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Record> {
        let driver = self.0.as_mut();
        child::adopt_orphans();
        let environment = environment(context.machine, &plan.target.path);
        let (begin_ns, started_unix_ns) = (clock::now_ns(), clock::wall_ns());
        watch.begin(&plan);
        let counters = Counters::new(context.machine, &environment.devices);
        let site = Site { path: &plan.target.path, id: &context.id, seed: plan.seed, cancel: context.cancel };
        let program = driver.program();
        let mut about = AppRecord { program, version: String::new(), settings: Vec::new(), prepare_ns: 0 };
        let measured = (|| {
            (about.version, about.settings) = driver.prepare(&site, watch)?;
            about.prepare_ns = clock::now_ns() - begin_ns;
            loads(driver, &plan, &site, &counters, begin_ns, watch)
        })();
        let ended = driver.end();
        child::end_orphans();
        let mut steps = match measured {
            Err(error) if error.is::<Cancelled>() => Vec::new(),
            outcome => outcome?,
        };
        // Results are kept even if something could not be removed, but the run has still failed.
        if let Err(error) = ended {
            let last = steps.last_mut().ok_or_else(|| anyhow!("{error:#}"))?;
            last.ended = Ended::Failed;
            last.fault = format!("{error:#}");
        }
        Ok(Record {
            elapsed_ns: clock::now_ns() - begin_ns,
            interrupted: context.is_cancelled(),
            app: Some(about),
            steps,
            ..context.begin(started_unix_ns, plan, environment)
        })
    }
}

/// Runs the loads one after the other; ends with the first that fails, since the next would fail as well.
fn loads(
    driver: &mut dyn Driver,
    plan: &Plan,
    site: &Site<'_>,
    counters: &Counters<'_>,
    begin_ns: u64,
    watch: &mut dyn Watch,
) -> Result<Vec<StepRecord>> {
    let mut records: Vec<StepRecord> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        if site.is_cancelled() {
            break;
        }
        watch.step(index, step);
        let (before, started_ns) = (counters.now(), clock::now_ns() - begin_ns);
        let loaded = match driver.load(step, site, watch) {
            Ok(loaded) => loaded,
            Err(error) if error.is::<Cancelled>() => break,
            Err(error) if records.is_empty() => return Err(error.context(format!("load {}", step.name))),
            Err(error) => {
                records.push(StepRecord::failed(&step.name, format!("{error:#}"), started_ns));
                break;
            }
        };
        let change = counters.since(&before, &RequestCounts::default());
        let device = change.device.map(|device| device.counted);
        let record = StepRecord {
            name: step.name.clone(),
            started_ns,
            runtime_ns: loaded.runtime_ns,
            ended: loaded.ended,
            fault: loaded.fault,
            streams: loaded.streams,
            intervals: loaded.intervals,
            errors: loaded.errors,
            steal: change.steal,
            busy: change.busy,
            pressure: change.pressure,
            app: Some(AppStep { device, ..loaded.app }),
            sort_ns: sort_ns(),
            ..StepRecord::default()
        };
        watch.step_done(&record);
        let failed = record.ended == Ended::Failed;
        records.push(record);
        if failed {
            break;
        }
    }
    Ok(records)
}
