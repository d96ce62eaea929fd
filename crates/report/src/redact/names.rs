//! Names of steps. A job is called after a customer, a ticket or a database as often as after what it does, and nobody can
//! tell which; so those of job files and of suites of the user's own are numbered, and the plan beside them says what each
//! did. Names of built-in suites stay.

use qd1_model::{Record, Subject};

use super::words::{is_device, is_plain};

/// What the steps of a run are called when it is shared.
pub(super) struct StepNames {
    /// `job` or `step`.
    word: &'static str,
    /// Whether the user gave them: then none stays.
    is_own: bool,
    /// Whether they are names of disks.
    are_disks: bool,
    /// All names, in the order of the plan.
    names: Vec<String>,
}

impl StepNames {
    pub(super) fn of(record: &Record) -> Self {
        let plan = &record.plan;
        let is_jobs = plan.subject == Subject::Jobs;
        let is_watch = plan.subject == Subject::Watch;
        let planned = plan.steps.iter().map(|step| &step.name).chain(plan.skipped.iter().map(|one| &one.name));
        let mut names: Vec<String> = Vec::new();
        for name in planned.chain(record.steps.iter().map(|step| &step.name)) {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        Self {
            word: if is_jobs { "job" } else { "step" },
            is_own: is_jobs || is_own_suite(record) || !is_watch && !is_plain(&plan.suite),
            are_disks: is_watch,
            names,
        }
    }

    /// Whether the user gave the names, and wrote the other texts of the suite.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Returns what a step is called.
    pub(super) fn shown(&self, name: &str) -> String {
        if !self.is_own && (is_plain(name) || self.are_disks && is_device(name)) {
            return name.to_owned();
        }
        let number = self.names.iter().position(|known| known == name);
        number.map_or_else(|| format!("<{}>", self.word), |at| format!("{}{}", self.word, at + 1))
    }

    /// Returns what a step does, for people: for a job, only fio's own line about it says that.
    pub(super) fn title(&self, title: &str) -> String {
        if let Some((name, line)) = title.split_once(": (g=").filter(|(_, line)| is_plain(line)) {
            return format!("{}: (g={line}", self.shown(name));
        }
        if self.is_own || !is_plain(title) { "<title>".to_owned() } else { title.to_owned() }
    }
}

/// Whether the run is of a suite's file, not of a built-in suite, which the command calls by its name.
fn is_own_suite(record: &Record) -> bool {
    let is_run = record.command.get(1).is_some_and(|command| command == "run");
    is_run && record.plan.subject != Subject::Jobs && !record.command[2..].contains(&record.plan.suite)
}
