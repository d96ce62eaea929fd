//! The user's own suites and thresholds, which are TOML files.

use std::path::Path;

use anyhow::Result;
use qd1_model::spec::Suite;
use qd1_model::verdict::Thresholds;
use qd1_model::{Problem, Subject, printable};
use qd1_suites::thresholds;
use qd1_system::source::{self, Kind};

/// Files written by hand are much shorter.
const BYTES_MAX: u64 = 1 << 20;
const SUITE: Kind = Kind { name: "a suite", most: BYTES_MAX };
const THRESHOLDS: Kind = Kind { name: "a thresholds file", most: BYTES_MAX };

/// Reads the suite in a file.
///
/// # Errors
/// When it cannot be read or is not a suite; the message has the file and the line.
pub(crate) fn suite(path: &Path) -> Result<Suite, Problem> {
    qd1_suites::parse(&printable(&path.to_string_lossy()), &source::read_text(path, SUITE)?)
}

/// Returns the thresholds for a run about `subject`: the user's own, or the built-in ones.
///
/// # Errors
/// When the user's own cannot be read or are invalid.
pub(crate) fn thresholds(subject: Subject, own: Option<&Path>) -> Result<Thresholds, Problem> {
    match own {
        Some(path) => thresholds::own(&printable(&path.to_string_lossy()), &source::read_text(path, THRESHOLDS)?),
        None => Ok(thresholds::of_run(subject)),
    }
}
