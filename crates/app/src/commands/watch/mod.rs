//! `qd1 watch`: what the machine and its disks are doing, on a screen or as reports with columns of iostat and vmstat.

mod args;
mod batch;
mod ending;
mod json;
mod limits;
mod processes;
mod reading;
mod recording;
mod screen;
mod source;
mod summing;
mod text;

pub(crate) use args::{EXAMPLE, WatchArgs};

use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Problem;
use qd1_probe::Machine;

use crate::command_line::CommandLine;
use crate::named_disk::topmost_disk;
use crate::signals::Signals;
use ending::{Begun, Goes};
use reading::{Wanted, Watcher};
use recording::{Player, Recorder};
use source::{Origin, Source};
use summing::Sum;

/// Shows what the disks are doing until a signal arrives, `q` is pressed or the last report is printed.
///
/// # Errors
/// If the disk or the interval is invalid, requested latencies are not available, or the output cannot be written.
pub(crate) fn run(args: &WatchArgs, typed: &CommandLine) -> Result<ExitCode> {
    let pace = args.pace().map_err(Problem::usage)?;
    let is_screen = args.is_screen();
    let is_kept = args.play.is_none() && !args.no_save;
    let goes = match (is_screen, args.record.is_some() && is_kept) {
        (true, _) => Some(Goes::ToStdout { is_kept, is_recorded: args.record.is_some() }),
        (false, true) => Some(Goes::ToHistory),
        (false, false) => None,
    };
    let (origin, begun) = match &args.play {
        Some(path) => (Origin::Played(Player::open(path)?), goes.map(|_| Begun::elsewhere())),
        None => live(args, is_screen, goes.is_some())?,
    };
    let mut source = Source { origin, sum: goes.map(|_| Sum::default()) };
    let signals = Signals::install()?;
    let ended = if is_screen {
        screen::run(pace, &mut source, &signals)
    } else {
        batch::run(args, pace, &mut source, &signals)
    };
    if args.play.is_some() && signals.exit_code().is_some() {
        // Whoever ended a long recording with a signal waits for no report of it.
        source.sum = None;
    }
    let (Some(goes), Some(begun), Some(sum)) = (goes, begun, source.end()) else { return ended };
    let reported = ending::finish(sum, begun, typed, goes);
    // Whoever ended it with a signal may have closed the terminal as well.
    if signals.exit_code().is_none() {
        reported?;
    }
    ended
}

/// Begins to watch this machine.
fn live(args: &WatchArgs, is_screen: bool, is_reported: bool) -> Result<(Origin, Option<Begun>)> {
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| topmost_disk(&machine, target)).transpose()?;
    let wanted = match (is_screen || args.record.is_some(), args.latencies) {
        (_, true) if !is_screen => Wanted::Latencies { with_waits: args.record.is_some() },
        (true, _) => Wanted::Everything,
        (false, _) => Wanted::Counters,
    };
    let begun = is_reported.then(|| Begun::here(&machine, args.target.as_deref(), disk.as_deref()));
    let watcher = Watcher::begin(machine, disk, wanted)?;
    let recorder = args.record.as_deref().map(Recorder::begin).transpose()?;
    Ok((Origin::Live(Box::new(watcher), recorder), begun))
}
