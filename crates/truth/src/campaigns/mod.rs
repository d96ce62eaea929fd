//! Campaigns: the binary, and what others wrote, on disks that are made on this machine, in real time.

pub(crate) mod agree;
pub(crate) mod busy;
mod cluster;
pub(crate) mod pairs;
pub(crate) mod predict;
pub(crate) mod programs;
pub(crate) mod real;
pub(crate) mod times;

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::cmd;

/// What starts programs in a throttled group: on a machine that does other work as well, 20,000 requests a second want
/// their turn.
const AHEAD: [&str; 3] = ["nice", "-n", "-10"];

/// The directory that has these binaries: that of this program, where cargo put them before it was started.
fn binaries(names: &[&str]) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let dir = program.parent().context("a program is in a directory")?;
    for name in names {
        ensure!(dir.join(name).is_file(), "there is no {name} in {}; `cargo xtask truth` builds it", dir.display());
    }
    Ok(dir.to_owned())
}

/// How often the intervals of `check` hold the truth on simulated disks in real time; see the example that it runs.
pub(crate) fn intervals() -> Result<()> {
    let dir = binaries(&["qd1", "examples/campaign"])?;
    cmd::run(Command::new(dir.join("examples/campaign")).arg(dir.join("qd1")))
}
