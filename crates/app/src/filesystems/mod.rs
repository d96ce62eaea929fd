//! `qd1 filesystems`: the same work on ext4, xfs, btrfs and zfs, made one after another on the same disk, in rounds, and one
//! table of what differs (docs/method.md).
//!
//! The rounds are `rounds.rs`; what is measured is the list of `workload.rs`, and any later one a variant there. The table is
//! the analysis' work, from the Record alone, so that `qd1 history show` prints it again.

pub(crate) mod args;
mod ground;
mod kinds;
mod planned;
mod rounds;
mod workload;
mod zfs;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use qd1_engine::target::PathKind;
use qd1_model::record::Ended;
use qd1_model::{Record, Report, Subject};
use qd1_probe::Machine;

use crate::journal::Journal;
use crate::place::Place;
use crate::progress::Progress;
use crate::scratch::Scratch;
use crate::signals::Signals;
use crate::{measure, output, place, system, thresholds};
use args::FilesystemsArgs;
use ground::Ground;
use kinds::Field;
use planned::Planned;
use qd1_model::{Problem, ProblemKind};
use rounds::Course;
use workload::Workload;

/// Programs that are needed whatever is compared, and their Debian packages.
const PROGRAMS: [(&str, &str); 2] = [("losetup", "mount"), ("wipefs", "util-linux")];

/// Measures and reports.
///
/// # Errors
/// Each says what to do; `problem.rs` knows its exit code.
pub(crate) fn run(args: &FilesystemsArgs) -> Result<ExitCode> {
    if let Some(path) = &args.common.output.output {
        output::check_destination(path)?;
    }
    let field = field(args)?;
    let id = measure::random_id()?;
    let machine = Machine::new();
    let place = look(args, &machine, &id)?;
    let seed = args.common.seed.unwrap_or_else(|| measure::seed_of(&id));
    let program = planned::program(args)?;
    let planned = planned::decide(args, &place, &field, program.as_ref(), seed)?;
    if args.common.dry_run {
        output::write(&args.common.output, &planned::dry_run(&planned, &field))?;
        return Ok(ExitCode::SUCCESS);
    }
    may_run(args, &place, &machine)?;
    if !args.common.quiet {
        for (name, why) in &field.missing {
            anstream::eprintln!("qd1: {name} is not measured: {why}");
        }
    }
    let store = if args.common.no_save { None } else { measure::open_store() };
    let signals = Signals::install()?;
    let mut progress = Progress::new(args.common.quiet);
    let mut workloads = vec![Workload::Suite(Box::new(planned.spec.clone()), planned.asked.clone())];
    workloads.extend(program.map(|part| Workload::Postgres(part, planned.asked.clone())));
    let (record, failure) =
        carry_out(args, (&machine, &id, &field), &planned, &place, &mut workloads, &signals, &mut progress)?;
    drop(progress);
    if record.steps.is_empty() {
        return nothing(&record, &signals);
    }
    if let Some(store) = &store {
        measure::keep(store, &record);
    }
    let mut report = qd1_analysis::analyse(record, &thresholds::of_run(Subject::Filesystems, None)?);
    output::report(&args.common.output, &mut report)?;
    if let Some(error) = failure {
        return Err(error);
    }
    let code = if has_failed(&report) { ProblemKind::Failed.exit_code() } else { 0 };
    Ok(ExitCode::from(signals.exit_code().unwrap_or(code)))
}

/// Who takes part.
fn field(args: &FilesystemsArgs) -> Result<Field> {
    let field = Field::of(&args.only).map_err(Problem::usage)?;
    // What was named has to be there; of all that there are, some may be missing.
    let asked = !args.only.is_empty();
    if let Some((name, why)) = field.missing.first().filter(|_| asked || field.entries.is_empty()) {
        let message = format!("{name} cannot be measured: {why}; install it, or leave it out (--only)");
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    Ok(field)
}

fn look(args: &FilesystemsArgs, machine: &Machine, id: &str) -> Result<Place> {
    let place = place::look(machine, &args.path, id)?;
    let path = place.path.display();
    let same = |named: &PathBuf| std::fs::canonicalize(named).is_ok_and(|named| named == place.path);
    match (place.kind, &args.device.destroy) {
        (PathKind::Directory, None) => Ok(place),
        (PathKind::Block(_), Some(named)) if same(named) => Ok(place),
        (PathKind::Block(_), None) => {
            let message = format!(
                "filesystems made on {path} would destroy what is on it; name it again with --destroy {path}, or name a \
                 directory"
            );
            Err(Problem::new(ProblemKind::Unsafe, message).into())
        }
        (PathKind::Directory | PathKind::Block(_), Some(_)) => {
            let message = format!("--destroy has to name the same block device as PATH ({path}); nothing was written");
            Err(Problem::new(ProblemKind::Unsafe, message).into())
        }
        _ => Err(Problem::usage(format!("{path} is a file; name a directory in which filesystems can be made")).into()),
    }
}

/// Refuses what this user or machine cannot do, and a device that is in use.
fn may_run(args: &FilesystemsArgs, place: &Place, machine: &Machine) -> Result<()> {
    if !rustix::process::geteuid().is_root() {
        let message = "qd1 filesystems makes filesystems and mounts them, which only root can: run it as root (sudo), \
                       or with --dry-run to see what it would do";
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    for (program, package) in PROGRAMS {
        if system::find(program).is_none() {
            let message = format!("{program} is not installed (Debian package {package}); install it");
            return Err(Problem::new(ProblemKind::Capability, message).into());
        }
    }
    let on_loop = place.kind == PathKind::Directory;
    if on_loop && !Path::new("/dev/loop-control").exists() {
        let message = "there are no loop devices here (/dev/loop-control is missing, as in many containers); name a block \
                       device with --destroy instead, or load the module loop";
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    if args.device.destroy.is_some() {
        place::may_destroy(machine, &place.path)?;
    }
    Ok(())
}

fn carry_out(
    args: &FilesystemsArgs,
    (machine, id, field): (&Machine, &str, &Field),
    planned: &Planned,
    place: &Place,
    workloads: &mut [Workload],
    signals: &Signals,
    progress: &mut Progress,
) -> Result<(Record, Option<anyhow::Error>)> {
    let command = planned::again(args, planned);
    let mut journal = Journal::open(id, &command.join(" "))?;
    let on_loop = planned.asked.on_loop;
    let base = if on_loop { place.path.clone() } else { std::env::temp_dir() };
    let scratch = Scratch::journalled(&base, id, &mut journal)?;
    let ground = match on_loop {
        true => Ground::File { path: scratch.path().join("disk.img"), direct: place.direct.supported },
        false => Ground::Device(place.path.clone()),
    };
    let course = Course {
        machine,
        id,
        field,
        planned,
        workloads,
        ground: &ground,
        scratch: scratch.path(),
        journal: &mut journal,
        cancel: signals.stop(),
        progress,
    };
    course.run(command)
}

/// No filesystem could be measured: why.
fn nothing(record: &Record, signals: &Signals) -> Result<ExitCode> {
    if let Some(code) = signals.exit_code() {
        anstream::eprintln!("qd1: stopped before anything was measured");
        return Ok(ExitCode::from(code));
    }
    let faults: Vec<String> = record.mounts.iter().map(|mount| format!("{}: {}", mount.name, mount.fault)).collect();
    Err(Problem::new(ProblemKind::Failed, format!("no filesystem could be measured; {}", faults.join("; "))).into())
}

fn has_failed(report: &Report) -> bool {
    let record = &report.record;
    record.steps.iter().any(|step| step.ended == Ended::Failed)
        || record.mounts.iter().any(|mount| !mount.fault.is_empty())
}
