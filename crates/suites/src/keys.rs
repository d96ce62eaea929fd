//! The keys that a suite's file may have, and what is said about one it may not.
//!
//! One table for the reader, for "did you mean", and for the test that docs/suites.md explains each.

use std::ops::Range;

use qd1_model::suggest::nearest;
use toml::de::DeTable;

/// At the top.
pub(super) const SUITE: &[&str] = &["name", "title", "source", "size", "prepare", "job"];
/// In each `[[job]]`.
pub(super) const JOB: &[&str] = &[
    "name",
    "title",
    "rw",
    "rwmixread",
    "bs",
    "bssplit",
    "iodepth",
    "numjobs",
    "direct",
    "sync",
    "writes_per_sync",
    "file",
    "size",
    "io_size",
    "full_coverage",
    "zero_buffers",
    "buffer_compress_percentage",
    "dedupe_percentage",
    "zipf_theta",
    "rate_iops",
    "poisson",
    "ioengine",
    "with_load",
    "files",
    "effort",
    "runtime",
    "ramp_time",
    "adaptive",
    "stop_percentile",
    "sweep",
    "criterion",
];
/// In each `[[job.criterion]]`.
pub(super) const CRITERION: &[&str] = &["metric", "op", "where", "bound", "tolerance", "marginal", "label", "source"];
/// In `files`.
pub(super) const FILES: &[&str] = &[
    "size",
    "count",
    "size_min",
    "per_dir",
    "workers",
    "sync",
    "fsync",
    "chunk",
    "ops",
    "order",
    "long_names",
    "seeks",
];
/// In a time or size that depends on `--quick` and `--full`.
pub(super) const EFFORT: &[&str] = &["quick", "default", "full"];
/// Keys of a job that a sweep cannot vary: they name or hold other keys.
pub(super) const NOT_SWEPT: &[&str] = &["name", "title", "files", "bssplit", "effort", "runtime", "sweep", "criterion"];

/// What is wrong with a suite's text, and where.
#[derive(Debug)]
pub(super) struct Fault {
    at: Option<Range<usize>>,
    message: String,
    /// Whether the line itself is shown: TOML's reader speaks of a value without naming it.
    shows_line: bool,
}

impl Fault {
    /// A fault of the bytes `at` of the text.
    pub(super) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at: Some(at), message: message.into(), shows_line: false }
    }

    /// `FILE, line N: what is wrong`.
    pub(super) fn message(&self, file: &str, text: &str) -> String {
        match &self.at {
            Some(at) => {
                let before = text.as_bytes().get(..at.start).unwrap_or(text.as_bytes());
                let number = before.iter().filter(|byte| **byte == b'\n').count();
                let line = text.lines().nth(number).unwrap_or_default().trim();
                let shown = if self.shows_line && !line.is_empty() { format!(": {line}") } else { String::new() };
                format!("{file}, line {}: {}{shown}", number + 1, self.message)
            }
            None => format!("{file}: {}", self.message),
        }
    }
}

impl From<toml::de::Error> for Fault {
    fn from(error: toml::de::Error) -> Self {
        // serde quotes names with backticks, and lists what it expected in several lines.
        let message = error.message().split_whitespace().collect::<Vec<_>>().join(" ");
        Self { at: error.span(), message, shows_line: true }
    }
}

/// Refuses a key of `table` that is not among `known`.
pub(super) fn check(table: &DeTable<'_>, known: &[&str], place: &str) -> Result<(), Fault> {
    let mut unknown: Vec<_> = table.keys().filter(|key| !known.contains(&key.get_ref().as_ref())).collect();
    unknown.sort_by_key(|key| key.span().start);
    let Some(key) = unknown.first() else { return Ok(()) };
    let name = key.get_ref();
    let hint = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("known are {}", known.join(", ")),
    };
    Err(Fault::new(key.span(), format!("unknown key {:?} in {place}; {hint}", name.as_ref())))
}
