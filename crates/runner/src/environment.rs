//! The state of the machine when a run begins.

use std::path::Path;

use qd1_clock as clock;
use qd1_engine::reference;
use qd1_model::Environment;
use qd1_probe::Machine;

/// Returns the machine and the path to the disk, with the cost of reading the clock and the speed of the processor.
/// From this call on, time is read in the cheapest way that the machine has.
pub fn environment(machine: &Machine, path: &Path) -> Environment {
    let mut environment = machine.environment(path);
    clock::use_tsc(&environment.clock.source);
    (environment.clock.read_cost_ns, environment.clock.resolution_ns) = clock::cost();
    environment.sort_ns = sort_ns();
    environment
}

/// Measures how fast the processors are now: without it predictions would assume those of another machine. `None` in an
/// unoptimised build, which sorts twenty times as slowly.
pub fn sort_ns() -> Option<f64> {
    (!cfg!(debug_assertions)).then(reference::sort_ns)
}
