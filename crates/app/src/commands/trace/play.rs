//! `--play`: shows a recorded trace as if it were captured now.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::Ordering;

use anyhow::Result;
use qd1_model::{Problem, printable};
use qd1_report::thousands;
use qd1_system::source;
use qd1_trace::file::{About, Ending, Recording, is_compact};
use qd1_trace::{Counts, Entry};

use super::args::{Filter, TraceArgs};
use super::lines::Lines;
use super::recorder::{Names, Recorder};
use super::shown::Shown;
use super::sink::Sink;
use super::wrote;
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

/// Whether a path leads to a file of `--record`.
pub(super) fn is_recorded(path: &Path) -> bool {
    path.is_file() && source::open(path, KIND).is_ok_and(is_compact)
}

/// The files, as messages name them.
pub(super) fn name(files: &[PathBuf]) -> String {
    let first = files.first().map_or_else(String::new, |path| printable(&path.to_string_lossy()).into_owned());
    if files.len() > 1 { format!("{first} and {} more", files.len() - 1) } else { first }
}

/// Prints how a trace ended, if something is missing.
pub(super) fn report_ending(name: &str, ending: &Ending) {
    match ending {
        Ending::Whole(Counts { lost, .. }) if *lost > 0 => message::print(format_args!(
            "qd1: {name}: {} requests are missing, because they came too fast to be recorded",
            thousands(*lost)
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
    // A part of a trace keeps its syncs, too.
    let has_syncs = args.has_syncs() || args.record.is_some() && recording.about().has_syncs;
    let about = recording.about().clone();
    let known: RefCell<HashMap<(u32, u32), String>> = RefCell::default();
    let names: Names<'_> =
        Box::new(|device| known.borrow().get(&device).cloned().unwrap_or_else(|| format!("{}:{}", device.0, device.1)));
    let sink = match args.record.as_deref() {
        Some(path) => {
            let about = About { has_syncs: about.has_syncs && has_syncs, ..about };
            Sink::File(Box::new(Recorder::check(path, args.hash)?.begin(about, 0, names)?))
        }
        None => Sink::lines(Lines::recorded(args.format(), has_syncs, about.sees_device), about.sees_queue),
    };
    let mut shown = Shown::new(Filter { args, cgroup: None }, sink);
    let mut out = std::io::stdout().lock();
    let (mut taken, mut requests, mut is_stopped) = (0, 0, false);
    while let Some(entry) = recording.next() {
        let device = match &entry {
            Entry::Request(request) => request.device,
            Entry::Sync(sync, _) => sync.device,
        };
        if !known.borrow().contains_key(&device)
            && let Some(name) = recording.name(device)
        {
            known.borrow_mut().insert(device, name.to_owned());
            shown.sink.name(device, name);
        }
        let is_request = matches!(entry, Entry::Request(_));
        if has_syncs || is_request {
            shown.show(entry);
        }
        taken += 1;
        requests += u64::from(is_request);
        let is_over = signals.stop().load(Ordering::Relaxed) || shown.is_full();
        if is_over || taken % AT_ONCE == 0 && !shown.sink.write_to(&mut out, 0)? {
            is_stopped = true;
            break;
        }
    }
    let ending = recording.ending();
    let counts =
        if let Ending::Whole(counts) = ending { counts } else { Counts { completed: requests, ..Counts::default() } };
    let Shown { sink, answer, count, .. } = shown;
    let file = sink.end(&mut out, counts, 0, !is_stopped && !matches!(ending, Ending::Incomplete { .. }))?;
    if !args.quiet {
        if let Some((path, bytes)) = file {
            message::print(format_args!("qd1: {}", wrote(&path, count, bytes)));
        }
        report_ending(&name(&args.play), &ending);
        if count == 0 && taken > 0 {
            let (requests, calls) = (thousands(requests), thousands(taken - requests));
            message::print(format_args!("qd1: none of {requests} requests and {calls} calls is selected"));
        }
        if let Some(answer) = answer.words() {
            message::print(format_args!("qd1: {answer}"));
        }
    }
    let is_bad = taken == 0 && matches!(ending, Ending::Incomplete { .. });
    Ok(ExitCode::from(signals.exit_code().unwrap_or(u8::from(is_bad))))
}
