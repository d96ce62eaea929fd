//! The context of a run, and the state that its steps share.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_clock as clock;
use qd1_engine::files::Tree;
use qd1_model::Environment;
use qd1_model::plan::{Plan, Visit};
use qd1_model::record::{Prepare, Record, StepRecord};
use qd1_probe::Machine;
use qd1_probe::sampler::Counters;
use qd1_system::scratch::Scratch;

use crate::environment::environment;
use crate::test_file::TestFile;
use crate::witness::Witness;

/// Chooses visits beyond those planned, when the planned ones are over: from what was measured so far, the visits that are left
/// and the time since the run began, ns.
pub type MoreVisits<'a> = dyn Fn(&Record, &[Visit], u64) -> Vec<Visit> + 'a;

/// Everything a run needs besides its plan.
pub struct RunContext<'a> {
    /// Random identifier of the run.
    pub id: String,
    /// The command that repeats the run.
    pub command: Vec<String>,
    /// Reads facts about the machine.
    pub machine: &'a Machine,
    /// Set when the run should stop.
    pub cancel: &'a AtomicBool,
    /// Chooses visits beyond those planned.
    pub more_visits: &'a MoreVisits<'a>,
    /// Sees who else uses the disk, if that is possible.
    pub witness: Option<&'a dyn Witness>,
}

impl RunContext<'_> {
    /// Returns true if the run should stop.
    pub fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Returns the record of the run as it begins.
    pub fn begin(&self, started_unix_ns: u64, plan: Plan, environment: Environment) -> Record {
        Record::begin(self.id.clone(), self.command.clone(), started_unix_ns, plan, environment)
    }
}

/// The state that the steps of a run share.
pub(crate) struct Run<'a> {
    pub(crate) plan: Plan,
    pub(crate) context: &'a RunContext<'a>,
    pub(crate) shared: Option<TestFile>,
    pub(crate) prepared: Option<Prepare>,
    /// Files that one step leaves for the next; removed at the end of the run.
    pub(crate) files: Option<Files>,
    /// The files that belong to one step alone, by its name, kept from one of its visits to the next.
    pub(crate) kept: BTreeMap<String, Vec<TestFile>>,
    /// What the disk sustains with one request at a time, in requests per second, by the steps whose pace it sets.
    pub(crate) sustained: BTreeMap<String, f64>,
    pub(crate) counters: Counters<'a>,
    pub(crate) environment: Environment,
    /// When it, or its current round, began, by the clock used for requests.
    pub(crate) begin_ns: u64,
    /// How old the run was then, ns; only in a run over hours not 0.
    pub(crate) earlier_ns: u64,
}

/// The files that a run made. Dropping it removes them, which takes a while if there are many, so save what was
/// measured first.
#[must_use = "dropping it removes the run's files"]
pub struct RunFiles {
    _shared: Option<TestFile>,
    _files: Option<Files>,
    _kept: BTreeMap<String, Vec<TestFile>>,
}

/// Files kept from one step to the next, in a directory that is removed with them however the run ends.
pub(crate) struct Files {
    /// Closed before its directory is removed.
    pub(crate) tree: Tree,
    pub(crate) _scratch: Scratch,
}

impl<'a> Run<'a> {
    /// Returns a run that begins now, with the machine as it is before anything is done.
    pub(crate) fn new(plan: Plan, context: &'a RunContext<'a>) -> Self {
        let environment = environment(context.machine, &plan.target.path);
        let counters = Counters::new(context.machine, &environment.devices);
        Self {
            plan,
            context,
            shared: None,
            prepared: None,
            files: None,
            kept: BTreeMap::new(),
            sustained: BTreeMap::new(),
            counters,
            environment,
            begin_ns: clock::now_ns(),
            earlier_ns: 0,
        }
    }

    /// Returns the files that are left to be removed.
    pub(crate) fn into_files(self) -> RunFiles {
        RunFiles { _shared: self.shared, _files: self.files, _kept: self.kept }
    }

    /// Returns the measurements with everything else that belongs to the run.
    pub(crate) fn record(&self, started_unix_ns: u64, steps: Vec<StepRecord>) -> Record {
        Record {
            elapsed_ns: clock::now_ns() - self.begin_ns,
            interrupted: self.context.is_cancelled(),
            prepare: self.prepared.clone(),
            steps,
            ..self.context.begin(started_unix_ns, self.plan.clone(), self.environment.clone())
        }
    }
}
