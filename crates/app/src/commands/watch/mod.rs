//! `qd1 watch`: what the machine and its disks are doing, on a screen or as reports with columns of iostat and vmstat.

mod args;
mod batch;
mod lines;
mod processes;
mod reading;
mod screen;

pub(crate) use args::{EXAMPLE, WatchArgs};

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Problem;
use qd1_probe::Machine;

use crate::named_disk::named_disk;
use crate::signals::Signals;
use reading::{Wanted, Watcher};

/// Shows what the disks are doing until a signal arrives, `q` is pressed or the last report is printed.
///
/// # Errors
/// If the disk or the interval is invalid, requested latencies are not available, or the output cannot be written.
pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode> {
    let pace = args.pace().map_err(Problem::usage)?;
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| named_disk(&machine, target)).transpose()?;
    let is_screen = args.is_screen();
    let wanted = match (is_screen, args.latencies) {
        (true, _) => Wanted::Everything,
        (false, true) => Wanted::Latencies,
        (false, false) => Wanted::Counters,
    };
    let signals = Signals::install()?;
    let mut watcher = Watcher::begin(machine, disk, wanted)?;
    if is_screen { screen::run(pace, &mut watcher, &signals) } else { batch::run(args, pace, &mut watcher, &signals) }
}
