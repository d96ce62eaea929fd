//! `qd1 app NAME PATH`: real programs on the disk. The seam is [`App`]: one file, or directory, for each program.
//!
//! A program's loads are the steps of an ordinary run, so that plan, progress, record, summary, history and every report
//! format serve them too. What a program issues is its own I/O; the engine has no part in it.

pub(crate) mod args;
pub(crate) mod child;
mod etcd;
mod find;
pub(crate) mod part;
mod postgres;
mod puts;
mod rocksdb;
mod sqlite;
mod sysbench;
mod tally;
mod text;
mod user;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context as _, Result, anyhow};
use qd1_engine::clock;
use qd1_engine::run::Asked;
use qd1_engine::target::{DirectIo, PathKind};
use qd1_model::app::{AppRecord, AppStep, AppWork, Program, Setting};
use qd1_model::plan::{Plan, StepPlan, Stop, TargetKind, TargetPlan, Work};
use qd1_model::record::{Ended, Interval, IoErrors, StepRecord, Stream};
use qd1_model::units::format_span_ns;
use qd1_model::verdict::Thresholds;
use qd1_model::{Bytes, Record, SCHEMA_VERSION, Subject};
use qd1_probe::Machine;

use crate::place::{self, Place};
use crate::progress::Progress;
use crate::run::counters::Counters;
use crate::run::{environment, sort_ns};
use crate::scratch::Scratch;
use crate::signals::Signals;
use crate::{measure, output, plan};
use args::{AppCommand, AppCommon};
use child::Cancelled;
use qd1_model::{Problem, ProblemKind};

/// Suites of these runs are called `app-` and the program's name.
const SUITE: &str = "app-";

/// A program that can be run.
trait App {
    fn program(&self) -> Program;

    /// Where it works; `None` where it needs no directory of its own.
    fn path(&self) -> Option<&Path>;

    /// What is asked of all programs.
    fn common(&self) -> &AppCommon;

    /// Its loads, in order.
    fn steps(&self) -> Vec<StepPlan>;

    /// Space it takes at most, as far as can be told.
    fn space(&self) -> Bytes;

    /// Refuses what cannot go well, before anything is done: programs that are missing, settings that make no sense.
    ///
    /// # Errors
    /// Each says what to do.
    fn check(&mut self) -> Result<()>;

    /// The options with which the same is done again, without PATH and `--seed`.
    fn options(&self) -> Vec<String>;

    /// A word about what is left alone or changed, for `--dry-run`.
    fn caution(&self) -> String {
        "nothing after it: data, sockets and server go with the run".to_owned()
    }

    /// Makes its data and starts it; its version and settings.
    ///
    /// # Errors
    /// When it does not start. [`Cancelled`] when it was stopped.
    fn prepare(&mut self, world: &World<'_>, progress: &mut Progress) -> Result<(String, Vec<Setting>)>;

    /// Runs one load.
    ///
    /// # Errors
    /// When nothing could be measured. [`Cancelled`] likewise.
    fn load(&mut self, step: &StepPlan, world: &World<'_>, progress: &mut Progress) -> Result<Loaded>;

    /// Ends the server, and removes what it made.
    ///
    /// # Errors
    /// When something is left that has to be told.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }
}

/// What a program gets to know of the run.
struct World<'a> {
    /// The directory that is measured, as resolved.
    path: &'a Path,
    id: &'a str,
    seed: u64,
    cancel: &'a AtomicBool,
}

impl World<'_> {
    fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// A directory on the disk that is measured, gone when dropped, that a server's user can pass through.
    ///
    /// # Errors
    /// When it cannot be made.
    fn scratch(&self) -> Result<Scratch> {
        let scratch = Scratch::create(self.path, self.id)?;
        opened_up(scratch.path())?;
        Ok(scratch)
    }

    /// The same in the system's place for temporary files, for what is not to be on the disk: sockets, logs. Its name is
    /// short, since that of a socket may have no more than 107 bytes.
    ///
    /// # Errors
    /// When it cannot be made.
    fn scratch_aside(&self) -> Result<Scratch> {
        self.scratch_aside_for("t")
    }

    /// Another of that kind.
    ///
    /// # Errors
    /// When it cannot be made.
    fn scratch_aside_for(&self, what: &str) -> Result<Scratch> {
        let usual = std::env::temp_dir();
        let dir = if usual.as_os_str().len() > 50 { PathBuf::from("/tmp") } else { usual };
        let scratch = Scratch::create(&dir, &format!("{}-{what}", self.id))?;
        opened_up(scratch.path())?;
        Ok(scratch)
    }
}

/// A directory in memory, gone when dropped; `None` where the machine has none.
fn scratch_in_memory(id: &str) -> Option<Scratch> {
    let scratch = Scratch::create(Path::new("/dev/shm"), &format!("{id}-m")).ok()?;
    opened_up(scratch.path()).ok().map(|()| scratch)
}

/// Lets everybody pass through a directory, whatever umask it was made with.
fn opened_up(dir: &Path) -> Result<()> {
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir, mode).with_context(|| format!("cannot open {} to others", dir.display()))
}

/// What a load brought.
#[derive(Default)]
struct Loaded {
    streams: Vec<Stream>,
    intervals: Vec<Interval>,
    runtime_ns: u64,
    ended: Ended,
    fault: String,
    errors: Vec<IoErrors>,
    app: AppStep,
}

/// Runs one of them.
///
/// # Errors
/// Each says what to do; `problem.rs` knows its exit code.
pub(crate) fn run(command: AppCommand) -> Result<ExitCode> {
    let mut app: Box<dyn App> = match command {
        AppCommand::Postgres(args) => Box::new(postgres::Postgres::new(*args)?),
        AppCommand::Etcd(args) => Box::new(etcd::Etcd::new(args)),
        AppCommand::Sqlite(args) => Box::new(sqlite::Sqlite::new(args)),
        AppCommand::Rocksdb(args) => Box::new(rocksdb::Rocksdb::new(args)),
        AppCommand::Sysbench(args) => Box::new(sysbench::Sysbench::new(args)),
    };
    measure(app.as_mut())
}

fn measure(app: &mut dyn App) -> Result<ExitCode> {
    if let Some(path) = &app.common().run.output.output {
        output::check_destination(path)?;
    }
    app.check()?;
    let id = measure::random_id()?;
    let seed = app.common().run.seed.unwrap_or_else(|| measure::seed_of(&id));
    let machine = Machine::new();
    let place = look(app, &machine, &id)?;
    let plan = decide(app, &place, seed)?;
    if app.common().run.dry_run {
        output::write(&app.common().run.output, &dry_run(app, &plan))?;
        return Ok(ExitCode::SUCCESS);
    }
    let store = if app.common().run.no_save { None } else { measure::open_store() };
    let signals = Signals::install()?;
    let mut progress = Progress::new(app.common().run.quiet);
    let record = carry_out(app, plan, &id, &machine, signals.stop(), &mut progress)?;
    drop(progress);
    let (thresholds, common) = (Thresholds { class: Vec::new() }, app.common());
    let code = measure::conclude(record, &thresholds, store.as_ref(), &common.run.output, common.fail_on)?;
    Ok(ExitCode::from(signals.exit_code().unwrap_or(code)))
}

/// The place, looked at. A server of others' is not ours to write beside, so its directory is only named.
fn look(app: &dyn App, machine: &Machine, id: &str) -> Result<Place> {
    let path = app.path().unwrap_or(Path::new("."));
    let place = if app.space().0 == 0 {
        let path = std::fs::canonicalize(path).with_context(|| format!("cannot look at {}", path.display()))?;
        let filesystem = machine.filesystem(&path).unwrap_or_default();
        Place { path, kind: PathKind::Directory, filesystem, direct: DirectIo { supported: true, align: 512 } }
    } else {
        place::look(machine, path, id)?
    };
    if !matches!(place.kind, PathKind::Directory) {
        let (path, title) = (place.path.display(), app.program().title());
        return Err(Problem::usage(format!("{path} is no directory, and {title} needs one for its data")).into());
    }
    Ok(place)
}

fn decide(app: &dyn App, place: &Place, seed: u64) -> Result<Plan> {
    let (needed, space) = (app.space(), plan::space(place));
    if needed.0 > space.usable {
        let message = format!(
            "not enough space in {}: {} needs about {needed}, and {} may be used ({} free, of which {} stay free); free \
             some space, or choose a smaller load (see `qd1 app {} --help`)",
            place.path.display(),
            app.program().title(),
            Bytes(space.usable),
            Bytes(space.free),
            Bytes(space.leave),
            app.program().name()
        );
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    Ok(Plan {
        suite: format!("{SUITE}{}", app.program().name()),
        subject: Subject::Program,
        target: TargetPlan {
            path: place.path.clone(),
            kind: TargetKind::Directory,
            filesystem: place.filesystem.kind.clone(),
            size: Bytes(0),
            direct: place.direct.supported,
            align: place.direct.align,
            prepare_max_ns: 0,
        },
        steps: app.steps(),
        skipped: Vec::new(),
        seed,
        criteria: Vec::new(),
        sweep: None,
        filesystems: None,
        prediction: None,
    })
}

fn carry_out(
    app: &mut dyn App,
    plan: Plan,
    id: &str,
    machine: &Machine,
    cancel: &AtomicBool,
    progress: &mut Progress,
) -> Result<Record> {
    child::adopt_orphans();
    let environment = environment(machine, &plan.target.path);
    let (begin_ns, started_unix_ns) = (clock::now_ns(), clock::wall_ns());
    progress.begin(&plan);
    let counters = Counters::new(machine, &environment.devices);
    let world = World { path: &plan.target.path, id, seed: plan.seed, cancel };
    let mut about = AppRecord { program: app.program(), version: String::new(), settings: Vec::new(), prepare_ns: 0 };
    let measured = (|| {
        (about.version, about.settings) = app.prepare(&world, progress)?;
        about.prepare_ns = clock::now_ns() - begin_ns;
        loads(app, &plan, &world, &counters, begin_ns, progress)
    })();
    let ended = app.end();
    child::end_orphans();
    let mut steps = match measured {
        Err(error) if error.is::<Cancelled>() => Vec::new(),
        outcome => outcome?,
    };
    // What was measured is not lost where something could not be removed; the run has failed all the same.
    if let Err(error) = ended {
        let last = steps.last_mut().ok_or_else(|| anyhow!("{error:#}"))?;
        last.ended = Ended::Failed;
        last.fault = format!("{error:#}");
    }
    Ok(Record {
        schema_version: SCHEMA_VERSION,
        id: id.to_owned(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        command: again(app, &plan),
        started_unix_ns,
        elapsed_ns: clock::now_ns() - begin_ns,
        interrupted: cancel.load(Ordering::Relaxed),
        plan,
        environment,
        prepare: None,
        app: Some(about),
        steps,
        mounts: Vec::new(),
        programs: Vec::new(),
    })
}

/// Runs the loads one after the other; ends with the first that fails, since the next would fail alike.
fn loads(
    app: &mut dyn App,
    plan: &Plan,
    world: &World<'_>,
    counters: &Counters<'_>,
    begin_ns: u64,
    progress: &mut Progress,
) -> Result<Vec<StepRecord>> {
    let mut records: Vec<StepRecord> = Vec::new();
    for (index, step) in plan.steps.iter().enumerate() {
        if world.is_cancelled() {
            break;
        }
        progress.step(index, step);
        let (before, started_ns) = (counters.now(), clock::now_ns() - begin_ns);
        let loaded = match app.load(step, world, progress) {
            Ok(loaded) => loaded,
            Err(error) if error.is::<Cancelled>() => break,
            Err(error) if records.is_empty() => return Err(error.context(format!("load {}", step.name))),
            Err(error) => {
                records.push(StepRecord::failed(&step.name, format!("{error:#}"), started_ns));
                break;
            }
        };
        let change = counters.since(&before, &Asked::default());
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
        progress.step_done(&record);
        let failed = record.ended == Ended::Failed;
        records.push(record);
        if failed {
            break;
        }
    }
    Ok(records)
}

/// The command that does the same again, from anywhere.
fn again(app: &dyn App, plan: &Plan) -> Vec<String> {
    let mut words = ["qd1", "app", app.program().name()].map(str::to_owned).to_vec();
    words.push(plan.target.path.to_string_lossy().into_owned());
    words.extend(app.options());
    words.extend(["--seed".to_owned(), plan.seed.to_string()]);
    words
}

/// A load as a step of the plan.
fn step(program: Program, name: String, title: String, clients: u32, ramp_ns: u64, max_ns: u64) -> StepPlan {
    StepPlan {
        name,
        title,
        work: Work::App(AppWork { program, clients, rate: None }),
        background: Vec::new(),
        stop: Stop { min_ns: max_ns, max_ns, ramp_ns, quantile: 0.0, tolerance: 0.0 },
        writes_max: Bytes(0),
    }
}

