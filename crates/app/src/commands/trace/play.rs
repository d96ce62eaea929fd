//! `--play`: shows a recorded trace as if it were captured now.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_model::{Problem, printable};
use qd1_report::thousands;
use qd1_system::source;
use qd1_trace::file::{Ending, Recording};
use qd1_trace::{Counts, Entry};

use super::args::{Filter, TraceArgs};
use super::lines::Lines;
use super::shown::Shown;
use super::sink::Sink;
use crate::message;
use crate::signals::Signals;

/// What these files are called in messages; they are read as a stream, so they may be of any size.
const KIND: source::Kind = source::Kind { name: "a recorded trace", most: u64::MAX };
/// Entries between two writes.
const AT_ONCE: u64 = 1000;

/// Opens a recorded trace, of one file or of blktrace's files.
///
/// # Errors
/// If a file cannot be read, or is not a trace.
pub(super) fn open(files: &[PathBuf]) -> Result<Recording<BufReader<File>>> {
    let inputs = files
        .iter()
        .map(|path| Ok(BufReader::with_capacity(1 << 20, source::open(path, KIND)?)))
        .collect::<Result<Vec<_>>>()?;
    Recording::open(inputs).map_err(|error| Problem::usage(format!("{}: {error:#}", name(files))).into())
}

/// The files, as messages name them.
pub(super) fn name(files: &[PathBuf]) -> String {
    let first = files.first().map_or_else(String::new, |path| printable(&path.to_string_lossy()).into_owned());
    if files.len() > 1 { format!("{first} and {} more", files.len() - 1) } else { first }
}

/// Prints how a trace ended, if something is missing.
pub(super) fn report_ending(name: &str, ending: &Ending) {
    match ending {
        Ending::Whole(Counts { lost, unseen, .. }) if lost + unseen > 0 => message::print(format_args!(
            "qd1: {name}: {} requests were lost while it was recorded, {} not seen from start to end",
            thousands(*lost),
            thousands(*unseen)
        )),
        Ending::Incomplete { why, read } => {
            message::print(format_args!("qd1: {name}: read up to byte {read}: {}", printable(why)));
        }
        Ending::Whole(_) | Ending::Unmarked => {}
    }
}

/// Shows what the filters select.
///
/// # Errors
/// If a file cannot be read, or the output cannot be written.
pub(super) fn run(args: &TraceArgs) -> Result<ExitCode> {
    let mut recording = open(&args.play)?;
    let signals = Signals::install()?;
    let has_syncs = args.has_syncs();
    let lines = Lines::new(args.format(), None, 0, has_syncs);
    let mut shown = Shown::new(Filter { args, cgroup: None }, Sink::lines(lines, recording.about().sees_queue));
    let mut out = std::io::stdout().lock();
    let mut taken = 0;
    while let Some(entry) = recording.next() {
        let device = match &entry {
            Entry::Request(request) => request.device,
            Entry::Sync(sync, _) => sync.device,
        };
        if let Some(name) = recording.name(device) {
            shown.sink.name(device, || name.to_owned());
        }
        if has_syncs || matches!(entry, Entry::Request(_)) {
            shown.show(entry);
        }
        taken += 1;
        let is_over = signals.stop().load(Ordering::Relaxed) || shown.is_full();
        if is_over || taken % AT_ONCE == 0 && !shown.sink.write_to(&mut out, 0)? {
            break;
        }
    }
    let ending = recording.ending();
    let counts =
        if let Ending::Whole(counts) = ending { counts } else { Counts { completed: taken, ..Counts::default() } };
    shown.sink.end(&mut out, counts, 0)?;
    if !args.quiet {
        report_ending(&name(&args.play), &ending);
        if let Some(answer) = shown.answer.words() {
            message::print(format_args!("qd1: {answer}"));
        }
    }
    Ok(ExitCode::from(signals.exit_code().unwrap_or(0)))
}
