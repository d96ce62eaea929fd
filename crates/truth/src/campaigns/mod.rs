//! Campaigns: the binary and other programs on disks that are created on this machine, in real time.

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

/// The launcher of programs in a throttled group: on a machine that also does other work, 20,000 requests a second need
/// priority.
const AHEAD: [&str; 3] = ["nice", "-n", "-10"];

/// The directory with these binaries: that of this program, where cargo put them before it was started.
fn binaries(names: &[&str]) -> Result<PathBuf> {
    let program = std::env::current_exe()?;
    let dir = program.parent().context("a program is in a directory")?;
    for name in names {
        ensure!(dir.join(name).is_file(), "{name} is not in {}; `cargo xtask truth` builds it", dir.display());
    }
    Ok(dir.to_owned())
}

/// How often the intervals of `check` contain the truth on simulated disks in real time; see the example that it runs.
pub(crate) fn intervals() -> Result<()> {
    let dir = binaries(&["qd1", "examples/campaign"])?;
    cmd::run(Command::new(dir.join("examples/campaign")).arg(dir.join("qd1")))
}
