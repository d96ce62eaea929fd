//! The machine as it is when a run begins.

use std::path::Path;

use qd1_engine::{clock, reference};
use qd1_model::Environment;
use qd1_probe::Machine;

/// The machine and the path to the disk, with what reading the clock costs and how fast the processor is; time is read in the
/// cheapest way that the machine has from here on.
pub fn environment(machine: &Machine, path: &Path) -> Environment {
    let mut environment = machine.environment(path);
    clock::use_tsc(&environment.clock.source);
    (environment.clock.read_cost_ns, environment.clock.resolution_ns) = clock::cost();
    environment.sort_ns = sort_ns();
    environment
}

/// How fast the processors are now: without it predictions would assume another machine's. Nothing from an unoptimised build,
/// which sorts twenty times as slowly.
pub fn sort_ns() -> Option<f64> {
    (!cfg!(debug_assertions)).then(reference::sort_ns)
}
