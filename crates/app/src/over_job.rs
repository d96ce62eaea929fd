//! The job of `qd1 check --over`: rounds spread over hours, each kept in the history as soon as it is over.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_engine::backing::PathKind;
use qd1_engine::clock;
use qd1_model::plan::{Plan, TargetKind};
use qd1_model::record::over::{OverRecord, Round};
use qd1_model::{Problem, ProblemKind, Record};
use qd1_probe::Machine;
use qd1_runner::over::{Keep, execute_over};
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, destroy, plan};
use qd1_store::{Store, Taken};

use crate::command_line::CommandLine;
use crate::message;
use crate::session::{self, Job, Measured};
use crate::suite_job::{Overrides, SuiteJob};

/// A check over hours, new or resumed.
pub(crate) struct OverJob<'a> {
    how: How<'a>,
    store: Store,
}

enum How<'a> {
    New(SuiteJob<'a>),
    Resumed { record: Box<Record>, destroy: Option<PathBuf> },
}

impl<'a> OverJob<'a> {
    /// A new one.
    ///
    /// # Errors
    /// When there is no history to keep its rounds.
    pub(crate) fn new(typed: &'a CommandLine, path: &'a Path, overrides: Overrides) -> Result<Self> {
        let suite = SuiteJob::new(typed, path, overrides, |_, _| Ok(qd1_suites::over()));
        Ok(Self { how: How::New(suite), store: history()? })
    }

    /// The rest of the one whose id begins with `id`.
    ///
    /// # Errors
    /// When there is none, or its time is over.
    pub(crate) fn resume(id: &str, destroy: Option<PathBuf>) -> Result<Self> {
        let store = history()?;
        let record = store.load(id)?;
        let refuse = |why: &str| Err(Problem::usage(format!("run {} {why}", record.id)).into());
        if record.plan.over.is_none() {
            return refuse("is not a check over hours; only `qd1 check --over` can be resumed");
        }
        if !record.is_unfinished() {
            return refuse(&format!("is over; `qd1 history show {}` prints it", record.id));
        }
        let age_ns = clock::wall_ns().saturating_sub(record.started_unix_ns);
        let busy_ns = record.over.as_ref().map_or(0, OverRecord::busy_ns) + record.plan.target.prepare_max_ns;
        if record.plan.over.is_some_and(|over| age_ns >= over.duration_ns || busy_ns >= over.busy_max_ns) {
            return refuse(&format!("has no time left; `qd1 history show {}` prints what it measured", record.id));
        }
        Ok(Self { how: How::Resumed { record: Box::new(record), destroy }, store })
    }
}

fn history() -> Result<Store> {
    session::history().context("a check over hours is kept after each round, so that it can be resumed")
}

impl Job for OverJob<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        match &self.how {
            How::New(suite) => suite.place(machine, id),
            How::Resumed { record, destroy } => {
                let place = qd1_runner::place::inspect(machine, &record.plan.target.path, id)?;
                is_the_same(&place, record, destroy.as_deref())?;
                Ok(place)
            }
        }
    }

    fn plan(&mut self, place: &Place, seed: u64) -> Result<Plan> {
        match &mut self.how {
            How::New(suite) => suite.plan(place, seed),
            How::Resumed { record, .. } => {
                let (plan, space) = (&record.plan, plan::space(place));
                let needed = plan.space_max().0;
                if plan.target.kind == TargetKind::Directory && needed > space.usable {
                    let message =
                        format!("not enough space in {}: the test {}", place.path.display(), space.shortage(needed));
                    return Err(Problem::new(ProblemKind::Unsafe, message).into());
                }
                Ok(plan.clone())
            }
        }
    }

    fn resumes(&self) -> Option<String> {
        match &self.how {
            How::New(_) => None,
            How::Resumed { record, .. } => Some(record.id.clone()),
        }
    }

    fn execute(&mut self, plan: Plan, context: &RunContext<'_>, watch: &mut dyn Watch) -> Result<Option<Measured>> {
        let earlier = match &self.how {
            How::New(_) => None,
            How::Resumed { record, .. } => Some(Record::clone(record)),
        };
        let (record, failure) = execute_over(plan, context, watch, &mut Kept { store: &self.store }, earlier)?;
        if failure.as_ref().is_some_and(|error| error.is::<Taken>()) {
            // What is kept is the other's.
            return Err(Taken.into());
        }
        if record.is_unfinished() && record.over.is_some() {
            message::print(format_args!("qd1: to go on: qd1 check --resume {}", record.id));
        }
        let is_empty = record.steps.iter().all(|step| step.streams.is_empty() && step.fault.is_empty());
        Ok((!is_empty).then_some(Measured { record, failure, files: None }))
    }
}

/// Refuses to go on at another place: what was measured before would be mixed with it.
fn is_the_same(place: &Place, record: &Record, named: Option<&Path>) -> Result<()> {
    let target = &record.plan.target;
    let path = place.path.display();
    if destroy::is_allowed(place, named)? != (target.kind == TargetKind::BlockDestroy) {
        let message = match target.kind {
            TargetKind::BlockDestroy => format!("this run overwrites {path}; to go on, add --destroy {path}"),
            _ => format!("this run does not overwrite {path}; leave --destroy out"),
        };
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    let before = &record.environment;
    let is_same = match place.kind {
        PathKind::Block(bytes) => before.devices.first().is_some_and(|device| device.size.0 == bytes),
        _ => (&place.filesystem.kind, place.filesystem.size) == (&before.filesystem.kind, before.filesystem.size),
    };
    if is_same {
        return Ok(());
    }
    let (now, then) = (&place.filesystem, &before.filesystem);
    let message = format!(
        "{path} leads to another disk than this run measured ({} of {} now, {} of {} then); is it mounted?",
        now.kind, now.size, then.kind, then.size
    );
    Err(Problem::usage(message).into())
}

/// Keeps each round in the history.
struct Kept<'a> {
    store: &'a Store,
}

impl Keep for Kept<'_> {
    fn begin(&mut self, record: &Record) -> Result<()> {
        self.store.begin(record)
    }

    /// A round that cannot be kept is not lost while the run goes on: it is in the whole that is kept at the end.
    fn round(&mut self, id: &str, round: &Round) -> Result<()> {
        match self.store.add_round(id, round) {
            Err(error) if !error.is::<Taken>() => {
                message::print(format_args!("qd1: a round was not kept yet: {error:#}"));
                Ok(())
            }
            kept => kept,
        }
    }
}
