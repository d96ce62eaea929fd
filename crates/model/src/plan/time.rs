//! How long a plan takes, including the overhead of its steps: what a run and its dry run announce.

use super::arrival::PACE_PROBE_NS;
use super::{Plan, StepPlan, Work};
use crate::plan::program::Program;

/// Time a run takes in addition to its steps, ns: it inspects the machine, opens files, and stores and judges the
/// results.
pub const OVERHEAD_NS: u64 = 400_000_000;
/// Time each visit of a step takes in addition to its own, ns: reading counters, and waiting for requests that are
/// under way at its end.
pub const VISIT_NS: u64 = 90_000_000;
/// Time a server takes in addition to a load, ns: etcd is restarted for each. PostgreSQL makes a checkpoint before the
/// load and another at its end, which takes longer.
const SERVER_NS: u64 = 1_000_000_000;

impl StepPlan {
    /// Returns the longest time that the step takes, ns.
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
    /// Returns the longest time that a run of it takes, ns.
    pub fn longest_ns(&self) -> u64 {
        if self.over.is_some() {
            // Rounds at random times already include their pauses.
            return self.duration_max_ns() + OVERHEAD_NS;
        }
        let steps_ns: u64 = self.steps.iter().map(StepPlan::longest_ns).sum();
        let file_ns = if self.needs_shared_file() { self.target.prepare_max_ns } else { 0 };
        steps_ns + file_ns + OVERHEAD_NS
    }

    /// Returns how long it takes on most disks if steps may end after half of their time, like those of `limits`, ns.
    pub fn likely_ns(&self) -> u64 {
        self.duration_max_ns() / 20 * 11
    }
}
