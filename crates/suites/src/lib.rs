//! Suites: lists of steps as TOML (docs/suites.md). Each built-in suite is one file, documented by the comment at its
//! top; users write their own in the same format. The suites of `sweep`, `sync` and `meta` are generated.
//! Thresholds are read here as well. Pure: the caller reads the user's file and passes its text.
#![forbid(unsafe_code)]

mod axes;
mod criteria;
mod keys;
pub mod meta;
mod order;
mod read;
mod shapes;
pub mod sweep;
pub mod sync;
pub mod thresholds;

pub use order::order;
pub use shapes::shapes;

use qd1_model::plan::FileUse;
use qd1_model::spec::{Effort, Suite};
use qd1_model::suggest::nearest;

use qd1_model::Problem;

/// A suite that comes with qd1.
struct Builtin {
    name: &'static str,
    text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!($name, ".toml")) }),*]
    };
}

/// All built-in suites, in the order in which `qd1 suites` lists them.
static BUILTIN: &[Builtin] = builtin![
    "check",
    "vps-latency",
    "etcd-wal",
    "p99bench",
    "digitalocean",
    "vultr-nvme",
    "vultr-hdd",
    "yabs",
    "kdiskmark",
    "dd",
    "identify",
    "caches",
    "filesystems",
    "predict",
];

/// Part of `check`; not a suite that can be run on its own.
const OVER: &str = include_str!("over.toml");

/// Returns the names of the built-in suites, in the order in which they are listed.
pub fn names() -> impl Iterator<Item = &'static str> {
    BUILTIN.iter().map(|builtin| builtin.name)
}

/// Returns the TOML of the built-in suite called `name`, with its documentation at the top.
pub fn text(name: &str) -> Option<&'static str> {
    BUILTIN.iter().find(|builtin| builtin.name == name).map(|builtin| builtin.text)
}

/// Returns the built-in suite called `name`.
pub fn builtin(name: &str) -> Option<Suite> {
    Some(read::suite(text(name)?).expect("the built-in suites are checked by a test"))
}

/// Returns the rounds of `check --over`.
pub fn over() -> Suite {
    read::suite(OVER).expect("the built-in suites are checked by a test")
}

/// Reads a suite's text; `file` is what messages call it.
///
/// # Errors
/// When it is not a suite; the message names the file and the line.
pub fn parse(file: &str, text: &str) -> Result<Suite, Problem> {
    read::suite(text).map_err(|fault| Problem::usage(fault.message(file, text)))
}

/// Returns the error for an unknown suite.
pub fn unknown(name: &str) -> Problem {
    let hint = match nearest(name, names()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => {
            format!("choose from {}, or name a file ending in .toml", names().collect::<Vec<_>>().join(", "))
        }
    };
    Problem::usage(format!("there is no suite {name:?}; {hint}"))
}

/// Returns the longest time of all steps and of writing the test file, ns.
pub fn longest_ns(suite: &Suite, effort: Effort) -> u64 {
    let jobs = || suite.job.iter().filter(|job| job.runs_at(effort));
    let steps: u64 = jobs().map(|job| job.runtime_ns(effort)).sum();
    let shares = |file: Option<FileUse>| file.unwrap_or_default() == FileUse::Shared;
    let prepares = jobs().any(|job| job.rw.is_some() && shares(job.file));
    steps + if prepares { suite.prepare.get(effort).0 } else { 0 }
}

#[cfg(test)]
mod tests;
