//! `qd1 trace summary`: what a recorded trace was.

use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_analysis::trace_summary::{Known, Summarizer};
use qd1_report::{Detail, trace_summary_human, trace_summary_json};
use qd1_trace::Entry;
use qd1_trace::file::{Ending, Kind};

use super::args::SummaryArgs;
use super::play::{name, open, report_ending};
use crate::signals::Signals;
use crate::{message, output};

/// Reads the trace and prints its summary.
///
/// # Errors
/// If a file cannot be read, or the output cannot be written.
pub(super) fn run(args: &SummaryArgs) -> Result<ExitCode> {
    if let Some(path) = &args.to.output {
        output::check_destination(path)?;
    }
    let mut recording = open(&args.files)?;
    let signals = Signals::install()?;
    let about = recording.about().clone();
    let known = Known {
        queue: about.sees_queue,
        device: about.sees_device,
        syncs: about.has_syncs,
        positions: !about.is_hashed,
        files: recording.kind() == Kind::Iolog,
    };
    let mut summarizer = Summarizer::new(known);
    let mut taken = 0;
    for entry in recording.by_ref() {
        taken += 1;
        match &entry {
            Entry::Request(request) => summarizer.push(request),
            Entry::Sync(sync, _) => summarizer.push_sync(sync),
        }
        if signals.stop().load(Ordering::Relaxed) {
            break;
        }
    }
    let title = name(&args.files);
    let ending = recording.ending();
    report_ending(&title, &ending);
    let file_name = |device| recording.name(device).unwrap_or("-").to_owned();
    let summary = summarizer.end(file_name, qd1_suites::shapes());
    let text = if args.json {
        trace_summary_json(&summary)
    } else if args.fio {
        summary.fio_job.clone()
    } else {
        trace_summary_human(&summary, &title, &output::style(&args.to, Detail::All))
    };
    output::write(&args.to, &text)?;
    if summary.all.requests == 0 && taken > 0 {
        message::print("qd1: the file has calls only; record without --op, or with --syscalls, for a summary");
    }
    let is_empty = summary.all.requests == 0 && summary.syncs.is_empty();
    if is_empty && recording.kind() == Kind::Blktrace {
        message::print("qd1: no request was seen from issue to completion; name the files of all processors");
    }
    let is_bad = is_empty && matches!(ending, Ending::Incomplete { .. });
    Ok(ExitCode::from(signals.exit_code().unwrap_or(u8::from(is_bad))))
}
