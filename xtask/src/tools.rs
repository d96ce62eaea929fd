//! Programs that `xtask` runs, pinned: a newer dictionary must not make an unchanged commit fail.
//!
//! They are in the user's cache directory, one directory for each version, next to other things that setup fetches.

use std::env;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use qd1_lab::{clock, cmd};

use crate::{metadata, pip};

/// A program at exactly this version.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    source: Source,
}

/// Where a tool comes from.
enum Source {
    /// `cargo install`, unoptimised: these tools run for a second, and build three times faster so.
    Crate,
    /// A Python wheel with the binary: takes seconds, while a build takes minutes. The crate with the second name
    /// provides the same, for machines without a wheel.
    Wheel(&'static str, &'static str),
}

/// Licences, bans and sources of dependencies.
pub(crate) static DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", source: Source::Crate };
/// Unused dependencies. Later ones need a newer compiler.
pub(crate) static SHEAR: Tool = Tool { name: "cargo-shear", version: "1.11.2", source: Source::Crate };
/// Spelling.
pub(crate) static TYPOS: Tool = Tool { name: "typos", version: "1.52.0", source: Source::Wheel("typos", "typos-cli") };
/// House rules: it finds patterns in the syntax of sources.
pub(crate) static AST_GREP: Tool =
    Tool { name: "ast-grep", version: "0.51.1", source: Source::Wheel("ast-grep-cli", "ast-grep") };
/// Links of documents.
pub(crate) static RUMDL: Tool = Tool { name: "rumdl", version: "0.3.0", source: Source::Wheel("rumdl", "rumdl") };
/// A C compiler and linker for other architectures, and the tool that makes cargo use it. Only `dist` installs them.
pub(crate) static ZIG: Tool = Tool { name: "ziglang", version: "0.13.0", source: Source::Wheel("ziglang", "ziglang") };
pub(crate) static ZIGBUILD: Tool =
    Tool { name: "cargo-zigbuild", version: "0.24.1", source: Source::Wheel("cargo-zigbuild", "cargo-zigbuild") };
/// The site of the documents. Only `docs --site` installs it.
pub(crate) static MDBOOK: Tool = Tool { name: "mdbook", version: "0.5.4", source: Source::Crate };
/// Fuzzing. Only `fuzz` installs it.
pub(crate) static FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", source: Source::Crate };

/// The tools that `check` runs and setup therefore installs: with pip in seconds, with cargo in a minute each.
pub(crate) static CHECKERS: [&Tool; 5] = [&TYPOS, &AST_GREP, &RUMDL, &DENY, &SHEAR];

/// Where the pinned tools are, one directory for each version. It is outside the target directory, so that it survives
/// `cargo clean` and is shared between clones.
pub(crate) fn tools_dir() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Ok(match cache {
        Some(cache) => cache.join("qd1-xtask"),
        None => metadata::target_dir()?.join("tools"),
    })
}

/// Creates `dir`, called `what` in messages, if it is missing. `fill` gets an empty directory and returns which
/// directory in it becomes `dir`; only then is that moved into place, so an interrupted install leaves nothing that
/// looks complete. Waits for another process that creates the same directory.
pub(crate) fn make_once(dir: &Path, what: &str, fill: impl FnOnce(&Path) -> Result<PathBuf>) -> Result<()> {
    if dir.is_dir() {
        return Ok(());
    }
    let base = dir.parent().context("the tools' directory has no parent")?;
    fs::create_dir_all(base).with_context(|| format!("cannot make {}", base.display()))?;
    let name = dir.file_name().context("a tool's directory has no name")?.to_string_lossy();
    let lock_path = base.join(format!(".{name}.lock"));
    let lock = File::create(&lock_path).with_context(|| format!("cannot make {}", lock_path.display()))?;
    lock.lock().with_context(|| format!("cannot lock {}", lock_path.display()))?;
    if dir.is_dir() {
        return Ok(());
    }
    println!("setup: fetching {what}");
    let fresh = tempfile::Builder::new().prefix("install-").tempdir_in(base)?;
    let (outcome, took) = clock::timed(|| fill(fresh.path()));
    fs::rename(outcome?, dir).with_context(|| format!("cannot move {what} into place"))?;
    println!("setup: fetched {what} ({:.0} s)", took.as_secs_f64());
    Ok(())
}

impl Tool {
    /// Where it is.
    pub(crate) fn dir(&self) -> Result<PathBuf> {
        Ok(tools_dir()?.join(format!("{}-{}", self.name, self.version)))
    }

    /// A command of the tool.
    pub(crate) fn command(&self) -> Result<Command> {
        Ok(cmd::command(self.dir()?.join("bin").join(self.name)))
    }

    /// Whether pip installs it.
    pub(crate) fn is_wheel(&self) -> bool {
        matches!(self.source, Source::Wheel(..))
    }

    /// Whether it is installed.
    pub(crate) fn is_installed(&self) -> Result<bool> {
        Ok(self.dir()?.is_dir())
    }

    /// Installs it if it is missing.
    pub(crate) fn install(&self) -> Result<()> {
        let what = format!("{} {}", self.name, self.version);
        let outcome = make_once(&self.dir()?, &what, |fresh| {
            match self.source {
                Source::Crate => self.install_crate(self.name, fresh)?,
                Source::Wheel(wheel, source) => self.install_wheel(wheel, source, fresh)?,
            }
            Ok(fresh.to_owned())
        });
        outcome.with_context(|| format!("cannot install {what}"))
    }

    fn install_crate(&self, name: &str, root: &Path) -> Result<()> {
        let build = tempfile::tempdir()?;
        let mut install = cmd::cargo();
        install.args(["install", "--locked", "--debug", "--quiet", "--root"]).arg(root);
        install.arg("--target-dir").arg(build.path()).arg(format!("{name}@{}", self.version));
        // Debug information takes half of the time and nearly all of the space.
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").env_remove("RUSTFLAGS");
        cmd::capture(&mut install).map(drop)
    }

    fn install_wheel(&self, wheel: &str, source: &str, root: &Path) -> Result<()> {
        let wheel = format!("{wheel}=={}", self.version);
        let Err(error) = pip::install(root, &["--only-binary=:all:", &wheel]) else { return Ok(()) };
        // Without pip the user has to act; without a wheel the only way is to build.
        if !error.is::<pip::NoWheel>() {
            return Err(error);
        }
        println!("setup: {error}; building {source} from source");
        self.install_crate(source, root)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_failed_half_way_leaves_nothing_and_what_is_there_is_not_made_again() {
        let base = tempfile::tempdir().unwrap();
        let dir = base.path().join("thing-1");
        let half = |fresh: &Path| -> Result<PathBuf> {
            fs::write(fresh.join("half"), "")?;
            anyhow::bail!("no network")
        };
        assert_eq!(make_once(&dir, "thing", half).unwrap_err().to_string(), "no network");
        assert!(!dir.exists());
        let whole = |fresh: &Path| {
            fs::create_dir(fresh.join("inner"))?;
            Ok(fresh.join("inner"))
        };
        make_once(&dir, "thing", whole).unwrap();
        assert!(dir.is_dir());
        make_once(&dir, "thing", |_| panic!("it is there")).unwrap();
    }
}
