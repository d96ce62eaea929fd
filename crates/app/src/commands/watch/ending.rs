//! The end of a watch: its report, as of every other command, and its place in the history.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::environment::Filesystem;
use qd1_model::plan::{Plan, TargetKind, TargetPlan};
use qd1_model::{Bytes, Environment, Record, Subject};
use qd1_probe::Machine;
use qd1_report::{Detail, Format};
use qd1_runner::id;

use super::summing::Sum;
use crate::args::{DestinationArgs, OutputArgs, When};
use crate::bounds::Bounds;
use crate::command_line::CommandLine;
use crate::message;
use crate::session::{keep, measured_of, note, note_measured, open_store, show};

/// A watch that is shorter and was not recorded was only a glance, and is not kept, ns.
const GLANCE_NS: u64 = 10_000_000_000;

/// The target of a watch without one.
const ALL: &str = "all disks";

/// What a run has besides its readings.
pub(super) struct Begun {
    started_unix_ns: u64,
    target: PathBuf,
    environment: Environment,
}

impl Begun {
    /// A watch of this machine that begins now.
    pub(super) fn here(machine: &Machine, target: Option<&Path>, disk: Option<&str>) -> Self {
        let named = disk.map(|disk| Path::new("/dev").join(disk));
        let typed = target.and_then(|target| target.canonicalize().ok());
        let target = typed.or(named);
        let mut environment = machine.environment(target.as_deref().unwrap_or(Path::new("/")));
        if target.is_none() {
            (environment.devices, environment.filesystem) = (Vec::new(), Filesystem::default());
        }
        let target = target.unwrap_or_else(|| PathBuf::from(ALL));
        Self { started_unix_ns: clock::wall_ns(), target, environment }
    }

    /// A recording, which does not say where it was made.
    pub(super) fn elsewhere() -> Self {
        Self { started_unix_ns: 0, target: PathBuf::from(ALL), environment: Environment::default() }
    }
}

/// Where the report of a watch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Goes {
    /// To stdout, and to the history if the watch was recorded or long enough.
    ToStdout { is_kept: bool, is_recorded: bool },
    /// To the history: stdout has the reports of the intervals.
    ToHistory,
}

/// Reports a watch, and keeps it.
///
/// # Errors
/// If the report cannot be written.
pub(super) fn finish(sum: Sum, begun: Begun, typed: &CommandLine, goes: Goes) -> Result<()> {
    if sum.readings() == 0 {
        return Ok(());
    }
    let is_kept = match goes {
        Goes::ToStdout { is_kept, is_recorded } => is_kept && (is_recorded || sum.watched_ns() >= GLANCE_NS),
        Goes::ToHistory => true,
    };
    let started_unix_ns = if begun.started_unix_ns > 0 { begun.started_unix_ns } else { sum.began_unix_ns() };
    let target = TargetPlan {
        path: begun.target,
        kind: TargetKind::BlockReadOnly,
        filesystem: String::new(),
        size: Bytes(0),
        direct: false,
        align: 0,
        prepare_max_ns: 0,
    };
    let plan = Plan::new("watch", Subject::Watch, target, 0);
    let command = typed.rerun_command(&[]);
    let elapsed_ns = sum.watched_ns();
    let (watched, steps) = sum.finish();
    let record = Record {
        elapsed_ns,
        steps,
        watched: Some(watched),
        ..Record::begin(id::random_id()?, command, started_unix_ns, plan, begun.environment)
    };
    let store = if is_kept { open_store() } else { None };
    let is_kept = store.as_ref().is_some_and(|store| keep(store, &record));
    let bounds = Bounds::of_run(Subject::Watch, None)?;
    let report = match goes {
        Goes::ToStdout { .. } => {
            let to = DestinationArgs { output: None, verbose: false, color: When::Auto };
            let output = OutputArgs { format: Format::Human, json: false, to, redact: false };
            show(record, &bounds, &output, Detail::Screen { is_kept, lines: None })?
        }
        Goes::ToHistory => bounds.judge(record, false)?,
    };
    if let (Some(store), true) = (&store, is_kept) {
        note(store, &report);
        note_measured(store, &report.record, &measured_of(&report));
        if goes == Goes::ToHistory {
            message::print(format_args!("qd1: kept in the history; `qd1 report {}` shows it", report.record.id));
        }
    }
    Ok(())
}
