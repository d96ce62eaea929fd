//! Python packages for the tests: fio-plot and bench-fio with their dependencies, which drive our binary as `fio` and
//! plot what it wrote; and Prometheus's own OpenMetrics parser.
//!
//! They are next to the pinned tools in a directory for `PYTHONPATH`, which needs neither root nor a virtual
//! environment. Compiled packages are for one version of Python, which is therefore part of the directory's name.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use qd1_lab::cmd;

use crate::pip;
use crate::tools::{make_once, tools_dir};

/// The list of packages, in pip's format.
const LIST: &str = "xtask/python.txt";
const WHAT: &str = "fio-plot and other Python packages";

/// Their directory for this machine's Python; `None` if there is no Python.
pub(crate) fn dir() -> Result<Option<PathBuf>> {
    if cmd::find("python3").is_none() {
        return Ok(None);
    }
    let ask = ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"];
    let version = cmd::capture(cmd::command("python3").args(ask))?;
    // A different list means a different directory.
    let mut list = DefaultHasher::new();
    fs::read(cmd::root().join(LIST)).with_context(|| LIST.to_owned())?.hash(&mut list);
    Ok(Some(tools_dir()?.join(format!("python{}-{:016x}", version.trim(), list.finish()))))
}

/// Whether they are missing.
pub(crate) fn are_missing() -> Result<bool> {
    Ok(dir()?.is_none_or(|dir| !dir.is_dir()))
}

/// Installs them if they are missing. Without them some tests are skipped with a message, so this does not fail.
pub(crate) fn fetch() -> Result<()> {
    let Some(dir) = dir()? else {
        println!("setup: cannot install {WHAT}: there is no python3");
        return Ok(());
    };
    // Only fio-plot, which is pure Python, comes as source; compiling the others would take half an hour.
    let options = ["--only-binary=:all:", "--no-binary=fio-plot", "--requirement", LIST];
    let outcome = make_once(&dir, WHAT, |fresh| {
        pip::install(fresh, &options)?;
        Ok(fresh.to_owned())
    });
    if let Err(error) = outcome {
        println!("setup: cannot install {WHAT}: {error:#}");
    }
    Ok(())
}
