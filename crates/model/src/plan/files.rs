//! The files that a plan creates.

use crate::plan::{Plan, StepPlan, Work};

impl Plan {
    /// Returns the maximum number of inodes in use at one time, for files and their directories: a filesystem may run
    /// out of these first.
    pub fn inodes_max(&self) -> u64 {
        let of = |step: &StepPlan| match &step.work {
            Work::Io(_) | Work::App(_) => 0,
            Work::Files(files) => files.inodes(),
        };
        self.steps.iter().map(of).max().unwrap_or(0)
    }
}
