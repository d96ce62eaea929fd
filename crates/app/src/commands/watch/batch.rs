//! Periodic reports, for pipes and scripts.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_clock as clock;

use super::args::{Pace, WatchArgs};
use super::reading::Reading;
use super::source::{Origin, Source};
use super::{json, text};
use crate::signals::{Signals, nap_until};
use crate::stream::written;

/// Prints reports until the requested number is reached, a recording ends, or a signal arrives.
///
/// # Errors
/// If the disk is gone, or the output cannot be written.
pub(super) fn run(args: &WatchArgs, pace: Pace, source: &mut Source, signals: &Signals) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let mut printed = 0;
    let mut print = |reading: &Reading| -> Result<bool> {
        let mut text = String::new();
        if args.json {
            json::push(&mut text, reading, args.record.is_some() || args.play.is_some());
        } else {
            text::push(&mut text, reading, args.latencies);
        }
        printed += 1;
        Ok(written(&mut out, &text)? && pace.count.is_none_or(|count| printed < count))
    };
    let is_live = matches!(source.origin, Origin::Live(..));
    let begin_ns = clock::now_ns();
    let first = source.since_start()?.filter(|_| !args.skip_first);
    let mut goes_on = first.as_ref().map_or(Ok(true), &mut print)?;
    while goes_on {
        if is_live {
            // Counted from the first reading, so that the time spent on printing does not accumulate.
            let intervals = (clock::now_ns() - begin_ns) / pace.interval_ns + 1;
            nap_until(begin_ns.saturating_add(intervals.saturating_mul(pace.interval_ns)), signals.stop());
        }
        if signals.stop().load(Ordering::Relaxed) {
            break;
        }
        let Some(reading) = source.next()? else { break };
        goes_on = print(&reading)?;
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}
