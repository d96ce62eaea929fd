//! Python packages of the tests. fio-plot and bench-fio with what they need: tests let them drive our binary as `fio` and
//! draw what it wrote. Prometheus' own reader of OpenMetrics.
//!
//! They lie beside the pinned tools in a directory that `PYTHONPATH` takes, which needs neither root nor a virtual
//! environment. Compiled packages are for one version of Python, which is therefore a part of the directory's name.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use anyhow::Result;

use crate::tools::{make_once, tools_dir};
use crate::{cmd, pip};

/// Plots and drives fio.
const PLOT: &str = "fio-plot==1.1.21";

/// All that it imports, down to the last, and `six`, which `fio_jsonplus_clat2csv` (Debian: package fio) imports.
/// Exact, since a newer library must not turn an untouched commit red.
const PACKAGES: &[&str] = &[
    PLOT,
    "contourpy==1.3.3",
    "cycler==0.12.1",
    "fonttools==4.68.0",
    "kiwisolver==1.5.1",
    "markdown-it-py==4.3.0",
    "matplotlib==3.11.2",
    "mdurl==0.1.2",
    "numpy==2.4.6",
    "packaging==26.3",
    "pillow==13.0.0",
    // Reads OpenMetrics as its specification has it.
    "prometheus-client==0.26.0",
    "Pygments==2.21.0",
    "pyparsing==3.3.3",
    "python-dateutil==4.0.0",
    "rich==15.0.0",
    "six==1.17.0",
];

/// Their directory for the Python of this machine; nothing where there is no Python.
pub(crate) fn dir() -> Result<Option<PathBuf>> {
    if cmd::find("python3").is_none() {
        return Ok(None);
    }
    let ask = ["-c", "import sys; print('%d.%d' % sys.version_info[:2])"];
    let version = cmd::capture(cmd::command("python3").args(ask))?;
    // Another list is another directory.
    let mut list = DefaultHasher::new();
    PACKAGES.hash(&mut list);
    Ok(Some(tools_dir()?.join(format!("python{}-{:016x}", version.trim(), list.finish()))))
}

/// Whether they are missing.
pub(crate) fn are_missing() -> Result<bool> {
    Ok(dir()?.is_none_or(|dir| !dir.is_dir()))
}

/// Installs them if they are missing. Without them some tests are skipped, aloud: no reason to fail.
pub(crate) fn fetch() -> Result<()> {
    let Some(dir) = dir()? else {
        println!("setup: no {PLOT}: there is no python3");
        return Ok(());
    };
    // Only fio-plot, all Python, comes as source; to compile the others would take half an hour.
    let options = ["--only-binary=:all:", "--no-binary=fio-plot"];
    let packages: Vec<String> = PACKAGES.iter().map(|package| (*package).to_owned()).collect();
    let outcome = make_once(&dir, PLOT, |fresh| {
        pip::install(fresh, &options, &packages)?;
        Ok(fresh.to_owned())
    });
    if let Err(error) = outcome {
        println!("setup: no {PLOT}: {error:#}");
    }
    Ok(())
}
