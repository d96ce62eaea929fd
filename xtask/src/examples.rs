//! fio's own example jobs, which a test reads: Debian packs them apart, and images that drop documentation drop them.
//!
//! They are GPL and stay outside the repository: the package is unpacked beside the pinned tools, not installed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

use crate::{cmd, setup};

const PACKAGE: &str = "fio-examples";
/// Where the package keeps them.
const INSIDE: &str = "usr/share/doc/fio/examples";

/// Their directory, once they are there.
pub(crate) fn dir() -> Result<PathBuf> {
    Ok(setup::tools_dir()?.join(PACKAGE))
}

/// Fetches them if they are missing. Without them one test is skipped, aloud: no reason to fail.
pub(crate) fn fetch() -> Result<()> {
    let dir = dir()?;
    if dir.is_dir() || cmd::find("apt-get").is_none() || cmd::find("dpkg-deb").is_none() {
        return Ok(());
    }
    match unpack(&dir) {
        Ok(()) => println!("setup: unpacked {PACKAGE}"),
        Err(error) => println!("setup: no {PACKAGE}: {}", error.to_string().lines().next().unwrap_or_default()),
    }
    Ok(())
}

fn unpack(dir: &Path) -> Result<()> {
    let base = dir.parent().context("the tools' directory has no parent")?;
    fs::create_dir_all(base).with_context(|| format!("cannot make {}", base.display()))?;
    let fresh = tempfile::Builder::new().prefix("unpack-").tempdir_in(base)?;
    let download = || cmd::capture(cmd::command("apt-get").args(["download", "-q", PACKAGE]).current_dir(fresh.path()));
    if download().is_err() {
        // A new machine knows of no packages before its first update.
        cmd::capture(cmd::command("apt-get").args(["update", "-q"]))?;
        download()?;
    }
    let files = fs::read_dir(fresh.path())?.filter_map(|entry| Some(entry.ok()?.path()));
    let package = files.into_iter().find(|path| path.extension().is_some_and(|extension| extension == "deb"));
    let package = package.context("apt-get download left no package")?;
    cmd::capture(cmd::command("dpkg-deb").arg("-x").arg(&package).arg(fresh.path()))?;
    fs::rename(fresh.path().join(INSIDE), dir).context("the package holds no examples")
}
