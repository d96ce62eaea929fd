//! fio's own example jobs, which a test reads: Debian packs them apart, and images that drop documentation drop them.
//!
//! They are GPL and stay outside the repository: the package is unpacked beside the pinned tools, not installed.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::tools::{make_once, tools_dir};
use crate::{cmd, debian};

const PACKAGE: &str = "fio-examples";
/// Where the package keeps them.
const INSIDE: &str = "usr/share/doc/fio/examples";

/// Their directory, once they are there.
pub(crate) fn dir() -> Result<PathBuf> {
    Ok(tools_dir()?.join(PACKAGE))
}

/// Fetches them if they are missing. Without them one test is skipped, aloud: no reason to fail.
pub(crate) fn fetch() -> Result<()> {
    if cmd::find("apt-get").is_none() || cmd::find("dpkg-deb").is_none() {
        return Ok(());
    }
    let outcome = make_once(&dir()?, PACKAGE, |fresh| {
        debian::download(&[PACKAGE], fresh)?;
        let files = fs::read_dir(fresh)?.filter_map(|entry| Some(entry.ok()?.path()));
        let package = files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "deb"));
        let package = package.context("apt-get download left no package")?;
        cmd::capture(cmd::command("dpkg-deb").arg("-x").arg(&package).arg(fresh))?;
        Ok(fresh.join(INSIDE))
    });
    if let Err(error) = outcome {
        println!("setup: no {PACKAGE}: {}", error.to_string().lines().next().unwrap_or_default());
    }
    Ok(())
}
