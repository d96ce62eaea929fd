//! Periodic reports, for pipes and scripts.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_clock as clock;

use super::args::{Pace, WatchArgs};
use super::lines;
use super::reading::Watcher;
use crate::signals::{Signals, nap_until};
use crate::stream::written;

/// Prints reports until the requested number is reached or a signal arrives.
///
/// # Errors
/// If the disk is gone, or the output cannot be written.
pub(super) fn run(args: &WatchArgs, pace: Pace, watcher: &mut Watcher, signals: &Signals) -> Result<ExitCode> {
    let mut out = std::io::stdout().lock();
    let (begin_ns, mut number, mut is_first) = (clock::now_ns(), 0, true);
    loop {
        let reading = watcher.read()?;
        if !is_first || !args.skip_first {
            let mut text = String::new();
            if args.json {
                lines::push_json(&mut text, clock::wall_ns() as f64 / 1e9, &reading);
            } else {
                lines::push_text(&mut text, &reading, args.latencies);
            }
            number += 1;
            if !written(&mut out, &text)? || pace.count.is_some_and(|count| number >= count) {
                break;
            }
        }
        is_first = false;
        // Counted from the first reading, so that the time spent on printing does not accumulate.
        let intervals = (clock::now_ns() - begin_ns) / pace.interval_ns + 1;
        nap_until(begin_ns.saturating_add(intervals.saturating_mul(pace.interval_ns)), signals.stop());
        if signals.stop().load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}
