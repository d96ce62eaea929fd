//! The job of `qd1 check --over`: rounds spread over hours, each saved in the history as soon as it ends.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_clock as clock;
use qd1_model::plan::{Plan, TargetKind};
use qd1_model::record::long_check::{LongCheckRecord, Round};
use qd1_model::{Problem, ProblemKind, Record};
use qd1_probe::Machine;
use qd1_runner::long_check::{Keep, execute_long_check};
use qd1_runner::place::Place;
use qd1_runner::watch::Watch;
use qd1_runner::{RunContext, destroy, plan};
use qd1_store::{Store, Taken};
use qd1_system::lock::Lock;

use crate::command_line::CommandLine;
use crate::message;
use crate::session::{Job, Measured};
use crate::suite_job::{Overrides, SuiteJob};

/// A check over hours, new or resumed.
pub(crate) struct LongCheckJob<'a> {
    how: How<'a>,
    store: Store,
    /// Held until the run is saved for the last time.
    taken: Option<Lock>,
}

enum How<'a> {
    New(SuiteJob<'a>),
    Resumed { record: Box<Record>, destroy: Option<PathBuf> },
}

impl<'a> LongCheckJob<'a> {
    /// Starts a new check.
    ///
    /// # Errors
    /// When there is no history to keep its rounds.
    pub(crate) fn new(typed: &'a CommandLine, path: &'a Path, overrides: Overrides) -> Result<Self> {
        let suite = SuiteJob::new(typed, path, overrides, |_, _| Ok(qd1_suites::over()));
        Ok(Self { how: How::New(suite), store: history()?, taken: None })
    }

    /// Continues the check whose id begins with `id`.
    ///
    /// # Errors
    /// When there is no such check, or its time is over.
    pub(crate) fn resume(id: &str, destroy: Option<PathBuf>) -> Result<Self> {
        let store = history()?;
        let taken = take(&store, &store.load(id)?.id)?;
        // Another process may have held it until just now.
        let record = store.load(id)?;
        let refuse = |why: &str| Err(Problem::usage(format!("run {} {why}", record.id)).into());
        if record.plan.over.is_none() {
            return refuse("was not started with --over; only runs of `qd1 check --over` can be resumed");
        }
        if !record.is_unfinished() {
            return refuse(&format!("has already finished; `qd1 history show {}` prints it", record.id));
        }
        let age_ns = clock::wall_ns().saturating_sub(record.started_unix_ns);
        let busy_ns = record.over.as_ref().map_or(0, LongCheckRecord::busy_ns) + record.plan.target.prepare_max_ns;
        if record.plan.over.is_some_and(|over| age_ns >= over.duration_ns || busy_ns >= over.busy_max_ns) {
            return refuse(&format!("has no time left; `qd1 history show {}` prints what it measured", record.id));
        }
        Ok(Self { how: How::Resumed { record: Box::new(record), destroy }, store, taken: Some(taken) })
    }
}

fn history() -> Result<Store> {
    qd1_runs::history::path()
        .and_then(|path| Store::open_for_rounds(&path))
        .context("qd1 check --over needs the history: it saves each round there, so that the check can be resumed")
}

impl Job for LongCheckJob<'_> {
    fn place(&self, machine: &Machine, id: &str) -> Result<Place> {
        match &self.how {
            How::New(suite) => suite.place(machine, id),
            How::Resumed { record, destroy } => {
                let place = qd1_runner::place::inspect(machine, &record.plan.target.path, id)?;
                is_the_same(machine, &place, record, destroy.as_deref())?;
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
        if self.taken.is_none() {
            self.taken = Some(take(&self.store, &context.id)?);
        }
        let (record, failure) = execute_long_check(
            plan,
            context,
            watch,
            &mut Kept { store: &mut self.store, taken: &mut self.taken, reopen: &history, is_behind: false },
            earlier,
        )?;
        if failure.as_ref().is_some_and(|error| error.is::<Taken>()) {
            // The saved run belongs to the other process.
            return Err(Taken.into());
        }
        if record.is_unfinished() && record.over.is_some() {
            message::print(format_args!("qd1: to continue, run: qd1 check --resume {}", record.id));
        }
        let is_empty = record.steps.iter().all(|step| step.streams.is_empty() && step.fault.is_empty());
        Ok((!is_empty).then_some(Measured { record, failure, files: None }))
    }
}

/// Refuses to continue at another place, whose results would be mixed with those measured before.
fn is_the_same(machine: &Machine, place: &Place, record: &Record, named: Option<&Path>) -> Result<()> {
    let target = &record.plan.target;
    let path = place.path.display();
    if destroy::is_allowed(place, named)? != (target.kind == TargetKind::BlockDestroy) {
        let message = match target.kind {
            TargetKind::BlockDestroy => format!("this run overwrites {path}; to continue, add --destroy {path}"),
            _ => format!("this run does not overwrite {path}; leave out --destroy"),
        };
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    let (then, now) = (&record.environment, &machine.environment(&place.path));
    if let Some(difference) = qd1_probe::same_disk::difference(then, now) {
        let message = format!("{path} is not on the disk that this run measured ({difference}); is that disk mounted?");
        return Err(Problem::usage(message).into());
    }
    // A disk to overwrite must be identified for certain, and device names may change with each boot.
    let [before, after] = [then, now].map(|machine| machine.devices.first().map(|device| device.identity.as_str()));
    if target.kind == TargetKind::BlockDestroy && (before != after || before.is_none_or(str::is_empty)) {
        let message = format!(
            "{path} has no serial number to recognise it by, so this run cannot overwrite it any further; \
             `qd1 history show {}` prints what it measured",
            record.id
        );
        return Err(Problem::new(ProblemKind::Unsafe, message).into());
    }
    Ok(())
}

/// Locks a run for this process.
///
/// # Errors
/// [`Taken`] when another process has it; otherwise when nothing can be written next to the history.
fn take(store: &Store, id: &str) -> Result<Lock> {
    Lock::take(&store.lock_file(id))?.ok_or_else(|| Taken.into())
}

/// Saves each round in the history.
struct Kept<'a> {
    store: &'a mut Store,
    taken: &'a mut Option<Lock>,
    reopen: &'a dyn Fn() -> Result<Store>,
    /// Whether a round could not be saved.
    is_behind: bool,
}

impl Keep for Kept<'_> {
    fn begin(&mut self, record: &Record) -> Result<()> {
        self.store.begin(record)
    }

    /// A round that cannot be saved is not lost while the run continues: it is saved with the next one.
    fn round(&mut self, before: &Record, round: &Round) -> Result<()> {
        let mut keep = || {
            // Somebody has removed the history, or put another one in its place.
            if !self.store.is_in_place() {
                let store = (self.reopen)()?;
                // The lock of the old one is useless, and must not block that of the new one.
                *self.taken = None;
                *self.taken = Some(take(&store, &before.id)?);
                store.begin(before)?;
                (*self.store, self.is_behind) = (store, false);
            }
            if self.is_behind {
                self.store.begin(before)?;
                self.is_behind = false;
            }
            self.store.add_round(&before.id, round)
        };
        match keep() {
            Err(error) if !error.is::<Taken>() => {
                self.is_behind = true;
                message::print(format_args!("qd1: a round was not kept; it is saved with the next one: {error:#}"));
                Ok(())
            }
            kept => kept,
        }
    }
}

#[cfg(test)]
mod tests {

    use qd1_report::samples;

    use super::*;

    /// Saves three rounds, and does something before the second and the third; returns the numbers of the rounds saved.
    fn rounds_kept(before_second: impl FnOnce(&Path), before_third: impl FnOnce(&Path)) -> Vec<u32> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let mut store = Store::open(&path).unwrap();
        let mut kept = Kept { store: &mut store, taken: &mut None, reopen: &|| Store::open(&path), is_behind: false };
        let mut record = samples::over_an_hour();
        kept.begin(&record).unwrap();
        let mut keep = |number| {
            kept.round(&record, &samples::round(number)).unwrap();
            record.add_round(samples::round(number));
        };
        keep(0);
        before_second(&path);
        keep(1);
        before_third(&path);
        keep(2);
        let found = Store::read(&path).unwrap().load(&record.id).unwrap();
        found.over.unwrap().rounds.iter().map(|round| round.number).collect()
    }

    /// Regression: rounds saved after somebody had removed the history were lost with the process.
    #[test]
    fn a_removed_history_is_started_again_with_everything_measured() {
        assert_eq!(rounds_kept(|path| std::fs::remove_file(path).unwrap(), |_| {}), [0, 1, 2]);
    }

    /// Regression: a round that could not be saved at once was lost, and one whose run was missing from the history
    /// ended the run as if another process had it.
    #[test]
    fn a_round_that_could_not_be_kept_is_kept_with_the_next() {
        let change = |path: &Path, sql: &str| rusqlite::Connection::open(path).unwrap().execute_batch(sql).unwrap();
        let refuse = "CREATE TRIGGER full BEFORE INSERT ON round BEGIN SELECT RAISE(ABORT, 'full'); END";
        assert_eq!(rounds_kept(|path| change(path, refuse), |path| change(path, "DROP TRIGGER full")), [0, 1, 2]);
        let forget = "PRAGMA foreign_keys = OFF; DELETE FROM round; DELETE FROM run";
        assert_eq!(rounds_kept(|path| change(path, forget), |_| {}), [0, 1, 2]);
    }
}
