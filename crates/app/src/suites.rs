//! Suites: lists of steps as TOML (docs/suites.md). Those built in are one file each, whose top comment is its
//! documentation; a user's own is a file of the same form.

mod criteria;
mod keys;
mod read;
mod sweep;

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;
use qd1_model::Subject;
use qd1_model::plan::FileUse;
use qd1_model::spec::{Effort, Suite};
use qd1_model::suggest::nearest;

use crate::cli::{OutputArgs, SuitesArgs};
use crate::{output, report};
use qd1_model::Problem;

/// The suite behind `qd1 check`.
pub(crate) const CHECK: &str = "check";

/// A suite that comes with qd1.
struct Builtin {
    name: &'static str,
    text: &'static str,
}

macro_rules! builtin {
    ($($name:literal),* $(,)?) => {
        &[$(Builtin { name: $name, text: include_str!(concat!("suites/", $name, ".toml")) }),*]
    };
}

/// All of them, in the order in which `qd1 suites` lists them.
static BUILTIN: &[Builtin] = builtin![
    "check",
    "vps-latency",
    "etcd-wal",
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

/// The built-in suite called `name`.
pub(crate) fn builtin(name: &str) -> Option<Suite> {
    let found = BUILTIN.iter().find(|builtin| builtin.name == name)?;
    let suite = read::suite(found.text).expect("the built-in suites are checked by a test");
    Some(Suite { subject: Subject::of_builtin(name), ..suite })
}

/// The suite in the file at `path`.
///
/// # Errors
/// With file and line, when it cannot be read or is not one.
pub(crate) fn load(path: &Path) -> Result<Suite> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Problem::usage(format!("cannot read the suite {file}: {error}")))?;
    read::suite(&text).map_err(|fault| Problem::usage(fault.told(&file, &text)).into())
}

/// What to say of a name that no suite has.
pub(crate) fn unknown(name: &str) -> Problem {
    let names = || BUILTIN.iter().map(|builtin| builtin.name);
    let hint = match nearest(name, names()) {
        Some(meant) => format!("did you mean {meant}?"),
        None => format!("built in are {}; a file of your own ends in .toml", names().collect::<Vec<_>>().join(", ")),
    };
    Problem::usage(format!("there is no suite {name:?}; {hint}"))
}

/// `qd1 suites`: the list, or the TOML of one.
///
/// # Errors
/// When there is no such suite, or stdout cannot be written.
pub(crate) fn show(args: &SuitesArgs) -> Result<ExitCode> {
    let to_stdout = OutputArgs::stdout();
    let text = match &args.name {
        Some(name) => {
            let found = BUILTIN.iter().find(|builtin| builtin.name == name);
            found.ok_or_else(|| unknown(name))?.text.to_owned()
        }
        None => {
            let suites: Vec<Suite> = BUILTIN.iter().filter_map(|known| builtin(known.name)).collect();
            let rows = suites.iter().map(|suite| {
                (suite, [Effort::Default, Effort::Quick, Effort::Full].map(|effort| longest_ns(suite, effort)))
            });
            report::suites(&rows.collect::<Vec<_>>(), &output::style(&to_stdout))
        }
    };
    output::write(&to_stdout, &text)?;
    Ok(ExitCode::SUCCESS)
}

/// The longest time of all steps and of writing the test file, ns.
fn longest_ns(suite: &Suite, effort: Effort) -> u64 {
    let jobs = || suite.job.iter().filter(|job| job.runs_at(effort));
    let steps: u64 = jobs().map(|job| job.runtime_ns(effort)).sum();
    let shares = |file: Option<FileUse>| file.unwrap_or_default() == FileUse::Shared;
    let prepares = jobs().any(|job| job.rw.is_some() && shares(job.file));
    steps + if prepares { suite.prepare.get(effort).0 } else { 0 }
}

#[cfg(test)]
mod tests;
