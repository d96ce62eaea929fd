//! The plan of a comparison: the steps on each filesystem, the size of their disk, the order in each round; and its
//! description as text.

use std::fmt::Write as _;

use anyhow::{Context as _, Result};
use qd1_engine::backing::{DirectIo, PathKind};
use qd1_model::Bytes;
use qd1_model::environment::Filesystem;
use qd1_model::plan::filesystems::FilesystemsPlan;
use qd1_model::plan::{Plan, Skipped, TargetKind, TargetPlan, Work};
use qd1_model::spec::{Effort, PerEffort, Span, Spec, Suite};
use qd1_model::units::{format_span_ns, short_size};

use super::Options;
use super::kinds::{Participant, Participants};
use qd1_model::{Problem, ProblemKind, Subject};
use qd1_programs::options::PostgresOptions;
use qd1_programs::{Postgres, ProgramRun};
use qd1_runner::place::Place;
use qd1_runner::plan;

/// Name of the suite, and of these runs in the history.
pub(super) const SUITE: &str = "filesystems";
const ROUNDS: PerEffort<u32> = PerEffort { quick: 3, default: 5, full: 10 };
/// A copy-on-write filesystem needs room for copies: the disk is this many times as large as the steps need.
const DISK_FACTOR: u64 = 3;
/// Added to that for logs and tables.
const EXTRA: u64 = 512 << 20;
/// A program creates its own data and knows its size; the disk is half as large again (numerator, denominator).
const APP_FACTOR: (u64, u64) = (3, 2);
/// Settings of PostgreSQL: the clients of each load, pgbench's scale, and the warm-up and measured time of each load.
const CLIENTS: [u32; 2] = [10, 100];
const SCALE: u32 = 100;
const WARMUP: PerEffort<Span> =
    PerEffort { quick: Span(1_000_000_000), default: Span(3_000_000_000), full: Span(5_000_000_000) };
const LOAD: PerEffort<Span> =
    PerEffort { quick: Span(5_000_000_000), default: Span(15_000_000_000), full: Span(30_000_000_000) };
/// Test files are not reduced below this size to fit.
const SIZE_LEAST: u64 = 64 << 20;

/// The plan of a whole run, and the inputs for planning each part.
pub(super) struct Planned {
    /// The whole plan; its steps are those of one filesystem.
    pub(super) plan: Plan,
    pub(super) comparison: FilesystemsPlan,
    /// Describes the steps on each filesystem.
    pub(super) spec: Spec,
}

/// Returns the additional program to run; `None` unless requested.
///
/// # Errors
/// When it is not installed.
pub(super) fn program(options: &Options) -> Result<Option<ProgramRun>> {
    if !options.postgres {
        return Ok(None);
    }
    let effort = options.effort;
    let load_ns = options.runtime_ns.map_or(LOAD.get(effort).0, |ns| ns.max(1_000_000_000));
    let warmup_ns = WARMUP.get(effort).0.min(load_ns);
    let postgres = PostgresOptions {
        clients: CLIENTS.to_vec(),
        scale: Some(options.scale.unwrap_or(SCALE)),
        warmup_ns,
        runtime_ns: load_ns,
        ..PostgresOptions::default()
    };
    ProgramRun::new(Postgres::new(postgres)?).map(Some)
}

/// Plans the comparison.
///
/// # Errors
/// When it does not fit, or a step is unknown.
pub(super) fn decide(
    options: &Options,
    place: &Place,
    participants: &Participants,
    program: Option<&ProgramRun>,
    seed: u64,
) -> Result<Planned> {
    let effort = options.effort;
    let of_program = program.map_or(0, |part| part.space().0);
    let mut spec = spec(options, effort)?;
    let on_loop = place.kind == PathKind::Directory;
    let usable = match place.kind {
        PathKind::Block(bytes) => bytes,
        _ => plan::space(place).usable,
    };
    let least = participants.entries.iter().map(|entry| entry.kind.least.0).max().unwrap_or(0);
    let (mut steps, mut disk);
    loop {
        steps = plan::decide(&spec, &unlimited(place), seed)?;
        // The test file is removed before the program creates its data.
        let needed = steps.space_max().0.max(of_program);
        let wanted = (steps.space_max().0 * DISK_FACTOR).max(of_program * APP_FACTOR.0 / APP_FACTOR.1) + EXTRA;
        disk = options.disk.map_or(wanted.max(least), |disk| disk.0);
        disk = disk / (1 << 20) * (1 << 20);
        let smaller = steps.target.size.0 / 2;
        if disk <= usable || options.size.is_some() || options.disk.is_some() || smaller < SIZE_LEAST {
            check(options, place, participants, (needed, disk, usable))?;
            break;
        }
        spec.size = Some(Bytes(smaller));
    }
    steps.steps.extend(program.map(ProgramRun::steps).unwrap_or_default());
    // The same for each filesystem, however much of the disk it takes for itself.
    spec.size = Some(steps.target.size);
    let rounds = options.rounds.unwrap_or_else(|| ROUNDS.get(effort));
    let names: Vec<String> = participants.entries.iter().map(|entry| entry.name.clone()).collect();
    let order = qd1_suites::order(&vec![0; names.len()], rounds, seed);
    let order = order.iter().map(|round| round.iter().map(|at| *at as u32).collect()).collect();
    let comparison = FilesystemsPlan { rounds, names, order, fair: options.fair, disk: Bytes(disk), on_loop };
    steps.target = TargetPlan {
        path: place.path.clone(),
        kind: if on_loop { TargetKind::Directory } else { TargetKind::BlockDestroy },
        filesystem: place.filesystem.kind.clone(),
        direct: place.direct.supported,
        align: place.direct.align,
        ..steps.target
    };
    let missing = participants.missing.iter().map(|(name, why)| Skipped::because(name, why));
    // Steps excluded by the user are not listed as skipped.
    steps.skipped = missing.collect();
    steps.filesystems = Some(comparison.clone());
    Ok(Planned { plan: steps, comparison, spec })
}

fn spec(options: &Options, effort: Effort) -> Result<Spec> {
    Ok(Spec {
        suite: Suite { subject: Subject::Filesystems, ..qd1_suites::builtin(SUITE).context("its suite is built in")? },
        path: options.path.clone(),
        effort,
        size: options.size,
        runtime_ns: options.runtime_ns,
        only: options.steps.clone(),
        engine: options.engine,
        seed: None,
        destroy: None,
        with_load: false,
        over_ns: None,
    })
}

/// Returns a directory on a filesystem that has yet to be created, without a space limit.
fn unlimited(place: &Place) -> Place {
    let endless = Bytes(1 << 60);
    Place {
        path: place.path.clone(),
        kind: PathKind::Directory,
        filesystem: Filesystem { size: Bytes(0), available: endless, ..Filesystem::default() },
        direct: DirectIo { supported: true, align: place.direct.align },
        leave_free: None,
    }
}

/// Refuses a disk that is too small for the steps, or too large for its place.
fn check(
    options: &Options,
    place: &Place,
    participants: &Participants,
    (needed, disk, usable): (u64, u64, u64),
) -> Result<()> {
    let (path, shown) = (place.path.display(), Bytes(disk));
    if disk > usable {
        let message = format!(
            "not enough space on {path}: the filesystems need {shown} there, but only {} may be used{}; give a \
             smaller --size or --disk",
            Bytes(usable),
            if place.kind == PathKind::Directory { " (a tenth, at least 1 and at most 4 GiB, stays free)" } else { "" }
        );
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    let small = |entry: &&Participant| entry.kind.least.0 > disk;
    if let Some(entry) = participants.entries.iter().find(small) {
        let message = format!(
            "--disk {shown} is too small for {}, which needs {}; give a larger --disk, or leave it out with --only",
            entry.kind.name, entry.kind.least
        );
        return Err(Problem::usage(message).into());
    }
    // The filesystem's own logs and tables are added.
    if needed + needed / 4 + (64 << 20) > disk {
        let wanted = Bytes((needed + needed / 4 + (64 << 20)).next_multiple_of(1 << 20));
        let what = if options.disk.is_some() { "--disk" } else { "the device" };
        let message =
            format!("{what} {shown} is too small: the steps need {}, so at least {wanted} is required", Bytes(needed));
        return Err(Problem::usage(message).into());
    }
    Ok(())
}

/// Describes what would be done.
pub(super) fn dry_run(planned: &Planned, participants: &Participants) -> String {
    let Planned { plan, comparison, .. } = planned;
    let mut text = String::new();
    let path = plan.target.path.display();
    let place = match comparison.on_loop {
        true => format!("a file in {path} ({}) with a loop device on it", plan.target.filesystem),
        false => format!("{path}, OVERWRITTEN"),
    };
    let _ = writeln!(text, "plan of {SUITE}: on {place}");
    let _ = writeln!(text, "each round: write {} of random data, then for each filesystem", comparison.disk);
    let _ = writeln!(text, "  create, mount, run the steps below, unmount");
    for entry in &participants.entries {
        let made = entry.kind.command("DEVICE", (!comparison.on_loop).then_some(comparison.disk)).join(" ");
        let options = entry.kind.options(comparison.fair).join(",");
        let options = if options.is_empty() { String::new() } else { format!("; {options}") };
        let _ = writeln!(text, "  {:<9} {made}{options}", entry.name);
        if comparison.fair {
            let _ = writeln!(text, "  {:<9} ({})", "", entry.kind.fair_why);
        }
    }
    for (name, why) in &participants.missing {
        let _ = writeln!(text, "  {name:<9} not measured: {why}");
    }
    let _ = writeln!(text, "steps");
    if plan.needs_shared_file() {
        let longest = format_span_ns(plan.target.prepare_max_ns);
        let _ = writeln!(text, "  {:<9} up to {longest:>7}  writes {} of random data", "prepare", plan.target.size);
    }
    for step in &plan.steps {
        let longest = format_span_ns(step.duration_max_ns());
        let _ = writeln!(text, "  {:<9} up to {longest:>7}  {}", step.name, step.title);
    }
    let count = u64::from(comparison.rounds) * comparison.names.len() as u64;
    let _ = writeln!(
        text,
        "rounds    {} of {} filesystems: {count} times these steps",
        comparison.rounds,
        comparison.names.len()
    );
    for (round, order) in comparison.order.iter().enumerate() {
        let names: Vec<&str> = order.iter().map(|at| comparison.names[*at as usize].as_str()).collect();
        let _ = writeln!(text, "          {}: {}", round + 1, names.join(", "));
    }
    let longest = format_span_ns(count * plan.duration_max_ns());
    let filled = Bytes(u64::from(comparison.rounds) * comparison.disk.0);
    let _ = writeln!(text, "time      at most {longest}, plus the time to write {filled}");
    let writes = Bytes(filled.0 + count * plan.writes_max().0);
    let more = if plan.steps.iter().any(|step| matches!(step.work, Work::App(_))) {
        ", and what PostgreSQL writes"
    } else {
        ""
    };
    let _ = writeln!(text, "writes    at most {writes} (on a very fast disk){more}");
    let _ = writeln!(text, "space     {} while it runs, none afterwards", comparison.disk);
    let _ = writeln!(text, "changes   mounts, loop devices; all undone at the end, or by `qd1 restore`");
    let _ = writeln!(text, "seed      {}", plan.seed);
    text
}

/// Returns the options in effect, by their names on the command line: elsewhere other filesystems may be available, and
/// the disk would get another size.
pub(super) fn decided(options: &Options, planned: &Planned) -> Vec<(&'static str, String)> {
    let Planned { plan, comparison, .. } = planned;
    let kinds = if options.only.is_empty() { &comparison.names } else { &options.only };
    vec![
        ("only", kinds.join(",")),
        ("rounds", comparison.rounds.to_string()),
        ("size", short_size(plan.target.size)),
        ("disk", short_size(comparison.disk)),
    ]
}
