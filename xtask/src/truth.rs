//! `cargo xtask truth`: builds what qd1-truth and its campaigns need, optimised, since some disks serve a hundred
//! million requests, and runs qd1-truth with the same arguments.

use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use anyhow::{Context as _, Result};
use qd1_lab::{cmd, need_root};

use crate::{lab, metadata, setup};

/// What a campaign needs besides qd1-truth.
struct Needs {
    /// The option that requests it.
    option: &'static str,
    packages: &'static [&'static str],
    root: bool,
    /// Programs that `setup` installs.
    programs: bool,
}

const fn needs(option: &'static str, packages: &'static [&'static str]) -> Needs {
    Needs { option, packages, root: true, programs: false }
}

const SIMULATED: &[&str] = &["qd1", "qd1-simdisk"];
/// The first one whose option is given counts.
const NEEDS: [Needs; 10] = [
    Needs { root: false, ..needs("--kept", &["qd1"]) },
    Needs { programs: true, ..needs("--predict", SIMULATED) },
    needs("--pairs", SIMULATED),
    Needs { programs: true, ..needs("--times", SIMULATED) },
    Needs { root: false, ..needs("--agree", SIMULATED) },
    Needs { programs: true, ..needs("--programs", SIMULATED) },
    needs("--powercut", &[]),
    needs("--busy", &["qd1"]),
    needs("--real", &[]),
    Needs { root: false, ..needs("--intervals", &["qd1"]) },
];

/// Builds these packages, optimised.
fn release(packages: &[&str]) -> Result<()> {
    let each = packages.iter().flat_map(|package| ["--package", package]);
    cmd::run(cmd::cargo().args(["build", "--release", "--quiet"]).args(each))
}

/// The value of an option among the arguments, empty if it has none.
fn value<'a>(args: &'a [String], option: &str) -> Option<&'a str> {
    let at = args.iter().position(|arg| arg.split('=').next() == Some(option))?;
    let next = args.get(at + 1).map_or("", String::as_str);
    Some(args[at].split_once('=').map_or(next, |(_, value)| value))
}

/// Builds what these arguments need, and becomes qd1-truth.
pub(crate) fn run(args: &[OsString]) -> Result<()> {
    let words: Vec<String> = args.iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
    let value = |option: &str| value(&words, option);
    // Not worth an optimised build.
    if words.iter().any(|word| word == "--help" || word == "-h") {
        return cmd::run(cmd::cargo().args(["run", "--quiet", "--package", "qd1-truth", "--"]).args(args));
    }
    let mut packages = vec!["qd1-truth"];
    if let Some(needs) = NEEDS.iter().find(|needs| value(needs.option).is_some()) {
        if needs.root {
            need_root("this campaign")?;
        }
        if needs.programs {
            setup::run()?;
        }
        packages.extend(needs.packages);
    }
    release(&packages)?;
    let dir = metadata::target_dir()?.join("release");
    let mut truth = Command::new(dir.join("qd1-truth"));
    truth.args(args);
    if value("--intervals").is_some() {
        let example = ["--package", "qd1-simdisk", "--example", "campaign"];
        cmd::run(cmd::cargo().args(["build", "--release", "--quiet"]).args(example))?;
    }
    if value("--real").is_some() {
        // A throttle is slower than the unoptimised binary, and building the optimised one takes minutes.
        cmd::run(cmd::cargo().args(["build", "--quiet", "--package", "qd1"]))?;
        truth.arg("--unoptimised").arg(metadata::target_dir()?.join("debug/qd1"));
    }
    if value("--powercut").is_some() || value("--agree") == Some("lab") {
        let machine = lab::machine()?;
        truth.arg("--lab-packages").arg(machine.packages.root()).arg("--lab-binary").arg(&machine.binary);
    }
    // By exec, so that only qd1-truth receives signals and it can remove what it made.
    let error = truth.exec();
    Err(error).context("cannot start qd1-truth")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_of_an_option_is_behind_it_or_in_it() {
        let found = |line: &str, option: &str| {
            let args: Vec<String> = line.split(' ').map(str::to_owned).collect();
            value(&args, option).map(str::to_owned)
        };
        assert_eq!(found("6 --agree lab", "--agree").as_deref(), Some("lab"));
        assert_eq!(found("--agree=lab 6", "--agree").as_deref(), Some("lab"));
        assert_eq!(found("--real", "--real").as_deref(), Some(""));
        assert_eq!(found("--only repeat", "--real"), None);
    }
}
