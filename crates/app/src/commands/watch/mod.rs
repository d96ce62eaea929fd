//! `qd1 watch`: what the machine and its disks do, a report each interval, in the columns of iostat and vmstat.

mod args;
mod lines;

pub(crate) use args::{EXAMPLE, WatchArgs};

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::{Problem, printable};
use qd1_probe::Machine;
use qd1_probe::activity::{Activity, DiskRates};

use crate::named_disk::named_disk;
use crate::signals::{Signals, nap_until};
use crate::stream::written;

/// Prints reports until there are as many as were asked for, or a signal ends it.
///
/// # Errors
/// When the disk or the pace is not understood, or the output cannot be written.
pub(crate) fn run(args: &WatchArgs) -> Result<ExitCode> {
    let pace = args.pace().map_err(Problem::usage)?;
    let machine = Machine::new();
    let disk = args.target.as_deref().map(|target| named_disk(&machine, target)).transpose()?;
    let signals = Signals::install()?;
    let mut out = std::io::stdout().lock();
    let begin = machine.activity();
    let (mut before, mut number) = (None::<Activity>, 0);
    let mut now = begin.clone();
    loop {
        let rates = now.rates(before.as_ref());
        let is_shown = |disk_rates: &&DiskRates| match &disk {
            Some(name) => disk_rates.name == *name,
            None => disk_rates.is_used && machine.is_whole_disk(&disk_rates.name),
        };
        let disks: Vec<&DiskRates> = rates.disks.iter().filter(is_shown).collect();
        if before.is_some()
            && let (Some(name), []) = (&disk, &disks[..])
        {
            return Err(Problem::usage(format!("{} is gone", printable(name))).into());
        }
        if before.is_some() || !args.skip_first {
            let mut text = String::new();
            if args.json {
                lines::push_json(&mut text, clock::wall_ns() as f64 / 1e9, &now, &rates, &disks);
            } else {
                lines::push_text(&mut text, &now, &rates, &disks);
            }
            number += 1;
            if !written(&mut out, &text)? || pace.count.is_some_and(|count| number >= count) {
                break;
            }
        }
        before = Some(now);
        // From the first reading on, so that the time of writing does not add up.
        let intervals = (clock::now_ns() - begin.at_ns) / pace.interval_ns + 1;
        nap_until(begin.at_ns.saturating_add(intervals.saturating_mul(pace.interval_ns)), signals.stop());
        if signals.stop().load(Ordering::Relaxed) {
            break;
        }
        now = machine.activity();
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}
