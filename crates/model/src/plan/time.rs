//! How long a plan takes, what its steps take beside their own time included: what a run and its dry run promise.

use super::arrival::PACE_PROBE_NS;
use super::{Plan, StepPlan, Work};
use crate::plan::program::Program;

/// What a run takes beside its steps: it looks at the machine, opens files, and keeps and judges what was measured. Ns.
pub const OVERHEAD_NS: u64 = 400_000_000;
/// What each visit of a step takes beside its time: counters are read, and what is under way at its end is waited for. Ns.
pub const VISIT_NS: u64 = 90_000_000;
/// What a server takes beside a load, ns: etcd starts anew for each. PostgreSQL makes a checkpoint before and ends with one,
/// which takes it longer.
const SERVER_NS: u64 = 1_000_000_000;

impl StepPlan {
    /// Returns the longest that the step takes, ns.
    pub fn longest_ns(&self) -> u64 {
        let beside_ns = match &self.work {
            Work::App(work) => match work.program {
                Program::Postgres => 4 * SERVER_NS,
                Program::Mysql | Program::Etcd => SERVER_NS,
                _ => VISIT_NS,
            },
            _ => VISIT_NS * u64::from(self.visits.max(1)) + if self.pace_probe().is_some() { PACE_PROBE_NS } else { 0 },
        };
        self.duration_max_ns() + beside_ns
    }
}

impl Plan {
    /// Returns the longest that a run of it takes, ns.
    pub fn longest_ns(&self) -> u64 {
        if self.over.is_some() {
            // Rounds at random times have their own pauses.
            return self.duration_max_ns() + OVERHEAD_NS;
        }
        let steps_ns: u64 = self.steps.iter().map(StepPlan::longest_ns).sum();
        let file_ns = if self.needs_shared_file() { self.target.prepare_max_ns } else { 0 };
        steps_ns + file_ns + OVERHEAD_NS
    }

    /// Returns how long it takes on most disks where steps may end at half of their time, as those of `limits`, ns.
    pub fn likely_ns(&self) -> u64 {
        self.duration_max_ns() / 20 * 11
    }
}
