//! Python's pip: installs programs from PyPI into a directory of our own, which needs neither root nor a virtual
//! environment.

use std::path::Path;

use anyhow::{Result, bail};
use qd1_lab::cmd;

use crate::debian::{self, Package};

/// The Debian package that provides pip, and Python if that is missing too.
pub(crate) const PACKAGE: Package =
    Package { program: "pip3", name: "python3-pip", purpose: "installs from PyPI: typos (check) and fio-plot (tests)" };

/// There is no wheel of the requested package for this machine.
#[derive(Debug)]
pub(crate) struct NoWheel(String);

impl std::fmt::Display for NoWheel {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "no wheel for this machine ({})", self.0)
    }
}

impl std::error::Error for NoWheel {}

/// Whether the machine's Python has pip: asks Python itself, since a `pip3` may belong to another one.
pub(crate) fn is_there() -> bool {
    let version = cmd::output(cmd::command("python3").args(["-m", "pip", "--version"]));
    version.is_ok_and(|output| output.status.success())
}

/// Installs exactly what the arguments name, without dependencies, into `dir`; as root it installs pip first if that is
/// missing.
pub(crate) fn install(dir: &Path, args: &[&str]) -> Result<()> {
    if !is_there() {
        debian::install(&[PACKAGE], &[])?;
    }
    let mut pip = cmd::command("python3");
    // Compiling thousands of modules takes longer than fetching them; Python compiles the ones that are imported.
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
