//! Python's pip: it brings programs of PyPI into a directory of ours, for which neither root nor a virtual environment
//! is needed.

use std::path::Path;

use anyhow::{Result, bail};
use qd1_lab::cmd;

use crate::debian::{self, Package};

/// The Debian package that brings pip, and Python where that is missing too.
pub(crate) const PACKAGE: Package =
    Package { program: "pip3", name: "python3-pip", purpose: "the way to PyPI: typos (check) and fio-plot (tests)" };

/// There is no wheel of what was asked for that fits this machine.
#[derive(Debug)]
pub(crate) struct NoWheel(String);

impl std::fmt::Display for NoWheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no wheel ({})", self.0)
    }
}

impl std::error::Error for NoWheel {}

/// Whether the machine's Python has pip: asked of Python, since a `pip3` may belong to another.
pub(crate) fn is_there() -> bool {
    let version = cmd::output(cmd::command("python3").args(["-m", "pip", "--version"]));
    version.is_ok_and(|output| output.status.success())
}

/// Installs exactly what the arguments name, and nothing that it depends on, into `dir`; pip itself first, where root
/// may.
pub(crate) fn install(dir: &Path, args: &[&str]) -> Result<()> {
    if !is_there() {
        debian::install(&[PACKAGE], &[])?;
    }
    let mut pip = cmd::command("python3");
    // Compiling thousands of modules takes longer than fetching them; Python does it for those that are imported.
    pip.args(["-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--disable-pip-version-check"]);
    pip.args(["--retries", "1", "--root-user-action", "ignore"]).args(args).arg("--target").arg(dir);
    let Err(error) = cmd::capture(&mut pip) else { return Ok(()) };
    let text = format!("{error:#}");
    // pip's own reason is the last line that says ERROR.
    let why = text.lines().rfind(|line| line.contains("ERROR")).or(text.lines().last()).unwrap_or_default().to_owned();
    if text.contains("No matching distribution") {
        return Err(NoWheel(why).into());
    }
    bail!("{why}")
}
