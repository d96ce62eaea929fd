//! The keys that a suite's file may have, and the message about unknown ones.
//!
//! The same tables serve the reader, "did you mean", and the test that docs/suites.md explains each key.

use qd1_model::order::Order as _;
use std::ops::Range;

use qd1_model::suggest::nearest;
use toml::de::DeTable;

/// Keys of the suite itself.
pub(super) const SUITE: &[&str] = &["name", "subject", "title", "source", "size", "prepare", "job"];
/// Keys of each `[[job]]`.
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
    "load_max",
    "ioengine",
    "with_load",
    "files",
    "effort",
    "runtime",
    "visits",
    "ramp_time",
    "adaptive",
    "stop_percentile",
    "sweep",
    "criterion",
];
/// Keys of each `[[job.criterion]]`.
pub(super) const CRITERION: &[&str] = &["metric", "op", "where", "bound", "tolerance", "marginal", "label", "source"];
/// Keys of `files`.
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
/// Keys of a time or size that depends on `--quick` and `--full`.
pub(super) const EFFORT: &[&str] = &["quick", "default", "full"];
/// Keys of a job that a sweep cannot vary: they are names or contain other keys.
pub(super) const NOT_SWEPT: &[&str] =
    &["name", "title", "files", "bssplit", "effort", "runtime", "visits", "sweep", "criterion"];

/// An error in a suite's text, with its position.
#[derive(Debug)]
pub(super) struct Fault {
    at: Option<Range<usize>>,
    message: String,
    /// Whether the line itself is shown: messages of the TOML parser do not name the value.
    shows_line: bool,
}

impl Fault {
    /// Creates a fault of the bytes `at` of the text.
    pub(super) fn new(at: Range<usize>, message: impl Into<String>) -> Self {
        Self { at: Some(at), message: message.into(), shows_line: false }
    }

    /// Returns the message: `FILE, line N: what is wrong`.
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
    unknown.order_by_key(|key| key.span().start);
    let Some(key) = unknown.first() else { return Ok(()) };
    let name = key.get_ref();
    let hint = match nearest(name, known.iter().copied()) {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("choose from {}", known.join(", ")),
    };
    Err(Fault::new(key.span(), format!("unknown key {:?} in {place}; {hint}", name.as_ref())))
}
