//! `cargo xtask lab`: the binary on another kernel and on devices that this machine lacks, in one boot of a virtual
//! machine; each scenario is a file in `crates/lab/scenarios`, which also states the expected result.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use qd1_lab::machine::{Machine, Scenario, Unpacked};
use qd1_lab::{catch_signals, cmd};

use crate::chosen::chosen;
use crate::packages::{self, QEMU};
use crate::{metadata, setup};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only these scenarios (default: all); `list` prints their names
    names: Vec<String>,
    /// Only the short set, which the tests run
    #[arg(long)]
    short: bool,
    /// Use this binary instead of building a static one
    #[arg(long, value_name = "FILE")]
    binary: Option<PathBuf>,
    /// Boot another kernel: 5.10 or 6.12
    #[arg(long, value_name = "VERSION")]
    kernel: Option<String>,
    /// Keep each run's output in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Boots, runs the scenarios, and reports those that did not come out as expected. False if there were any.
pub(crate) fn run(args: &Args) -> Result<bool> {
    let all = Scenario::all()?;
    if args.names.iter().any(|name| name == "list") {
        for scenario in &all {
            println!("{:<16} {}{}", scenario.name, scenario.about, if scenario.short { " (short)" } else { "" });
        }
        return Ok(true);
    }
    let mut scenarios = chosen(all, |scenario| &scenario.name, &args.names, "scenario")?;
    scenarios.retain(|scenario| scenario.short || !args.short);
    let packages = match available().and_then(|own| args.kernel.as_deref().map_or(Ok(own), packages::with_kernel)) {
        Ok(packages) => packages,
        Err(why) => {
            println!("SKIPPED: {}", format!("{why:#}").lines().next().unwrap_or_default());
            return Ok(true);
        }
    };
    let binary = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => build()?,
    };
    catch_signals()?;
    Machine { packages, binary }.run(&scenarios, args.keep.as_deref())
}

/// The machine with a binary built for it; an error if it cannot run here.
pub(crate) fn machine() -> Result<Machine> {
    Ok(Machine { packages: available()?, binary: build()? })
}

/// The packages, fetched if necessary; or why the lab cannot run here.
fn available() -> Result<Unpacked> {
    ensure!(QEMU.is_there(), "{} is missing (Debian package {})", QEMU.program, QEMU.name);
    packages::fetch()?;
    packages::found()?.context("the lab's packages are gone")
}

/// The static binary, unoptimised: it is built in a fraction of the time, and its speed does not matter here.
fn build() -> Result<PathBuf> {
    setup::run()?;
    cmd::run(cmd::cargo().args(["build", "--package", "qd1", "--bin", "qd1", "--target", setup::MUSL]))?;
    let binary = metadata::target_dir()?.join(setup::MUSL).join("debug/qd1");
    ensure!(cmd::is_static(&binary)?, "{} is not static", binary.display());
    Ok(binary)
}
