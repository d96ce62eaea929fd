//! Debian packages: finds out which are missing, and installs all of them together.
//!
//! Only root can install; others get a list of what to install.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail, ensure};
use qd1_lab::{clock, cmd};

use crate::servers;

/// A Debian package.
#[derive(Clone, Copy)]
pub(crate) struct Package {
    /// The program whose presence shows that the package is installed.
    pub(crate) program: &'static str,
    /// The package's name.
    pub(crate) name: &'static str,
    /// What it is for.
    pub(crate) purpose: &'static str,
}

impl Package {
    /// Whether its program is in PATH or in the directories where Debian keeps each version of PostgreSQL.
    pub(crate) fn is_there(&self) -> bool {
        let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
        cmd::find(self.program).is_some()
            || versions.into_iter().any(|version| version.path().join("bin").join(self.program).is_file())
    }
}

/// Those of `packages` that are missing.
pub(crate) fn missing(packages: &[Package]) -> Vec<Package> {
    packages.iter().filter(|package| !package.is_there()).copied().collect()
}

/// Installs packages without any of their services. An error if one of `needed` is not available; those of `wished`
/// that are not available are named, and whatever needs them is left out.
pub(crate) fn install(needed: &[Package], wished: &[Package]) -> Result<()> {
    let names = |packages: &[Package]| packages.iter().map(|package| package.name).collect::<Vec<_>>();
    let all = [names(needed), names(wished)].concat();
    if all.is_empty() {
        return Ok(());
    }
    if !cmd::is_root() || cmd::find("apt-get").is_none() {
        for Package { program, name, purpose } in needed.iter().chain(wished) {
            println!("missing: {program} (Debian package {name}): {purpose}");
        }
        let how = format!("On Debian, as root: apt-get install {}", all.join(" "));
        if needed.is_empty() {
            println!("setup: skipping everything that needs these. {how}");
            return Ok(());
        }
        bail!("install these packages, then run this again. {how}");
    }
    println!("setup: apt-get install {}", all.join(" "));
    let (outcome, took) = clock::timed(|| {
        update()?;
        if servers::without_services(&all, install_now).is_ok() {
            return Ok(());
        }
        // A package that this release of Debian lacks must not prevent installing the others.
        servers::without_services(&names(needed), install_now)?;
        for package in wished {
            if let Err(error) = servers::without_services(&[package.name], install_now) {
                let why = error.to_string();
                println!("setup: cannot install {}: {}", package.name, why.lines().last().unwrap_or_default());
            }
        }
        Ok(())
    });
    println!("setup: apt-get is done ({:.0} s)", took.as_secs_f64());
    outcome
}

fn install_now(names: &[&str]) -> Result<()> {
    if names.is_empty() {
        return Ok(());
    }
    cmd::capture(apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(names)).map(drop)
}

/// Updates the package lists, once: a new machine has none, and those of an old one name packages that are gone.
pub(crate) fn update() -> Result<()> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    if !*done {
        cmd::capture(apt().args(["update", "-q"])).context("cannot update Debian's package lists")?;
        *done = true;
    }
    Ok(())
}

/// Fetches packages and unpacks them below `root`, without installing anything.
pub(crate) fn unpack(names: &[&str], root: &Path) -> Result<()> {
    for tool in ["apt-get", "apt-cache", "dpkg-deb"] {
        ensure!(cmd::find(tool).is_some(), "{tool}, which fetches Debian packages, is missing");
    }
    let fetched = tempfile::tempdir()?;
    let fetch = || cmd::capture(apt().args(["download", "-q"]).args(names).current_dir(fetched.path()));
    fetch().or_else(|_| update().and_then(|()| fetch()))?;
    for package in fs::read_dir(fetched.path())? {
        cmd::capture(cmd::command("dpkg-deb").arg("-x").arg(package?.path()).arg(root))?;
    }
    Ok(())
}

/// Fetches a package of another release of Debian and unpacks it below `root`: the one that `name` depends on, found by
/// `choose` in the output of `apt-cache depends`. The lists of that release are kept apart from this machine's.
pub(crate) fn unpack_of(release: &str, name: &str, choose: impl Fn(&str) -> Result<String>, root: &Path) -> Result<()> {
    let dir = tempfile::tempdir()?;
    for part in ["lists/partial", "cache/archives/partial", "fetched"] {
        fs::create_dir_all(dir.path().join(part))?;
    }
    // Where this machine gets its own packages from.
    let targets = cmd::capture(apt().args(["indextargets", "--format", "$(SITE) $(REPO_URI) $(COMPONENT)"]))?;
    let own = targets.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let (uri, component) = (words.next()?, words.next()?);
        (component == "main" && !uri.contains("security")).then(|| uri.to_owned())
    });
    let own = own.context("apt knows no archive of Debian")?;
    let list = dir.path().join("sources.list");
    let key = "/usr/share/keyrings/debian-archive-keyring.gpg";
    fs::write(&list, format!("deb [signed-by={key}] {own} {release} main\n"))?;
    let apart = |program: &str| {
        let mut command = if program == "apt-get" { apt() } else { cmd::command(program) };
        let option = |name: &str, path: &Path| format!("{name}={}", path.display());
        command.args(["-o", &option("Dir::Etc::sourcelist", &list)]);
        command.args(["-o", "Dir::Etc::sourceparts=/nonexistent", "-o", "APT::Sandbox::User=root"]);
        command.args(["-o", &option("Dir::State::lists", &dir.path().join("lists"))]);
        command.args(["-o", &option("Dir::Cache", &dir.path().join("cache"))]);
        command
    };
    cmd::capture(apart("apt-get").args(["update", "-q"])).with_context(|| format!("cannot read {release}'s lists"))?;
    let package = choose(&cmd::capture(apart("apt-cache").args(["depends", name]))?)?;
    let fetched = dir.path().join("fetched");
    cmd::capture(apart("apt-get").args(["download", "-q", &package]).current_dir(&fetched))?;
    for package in fs::read_dir(&fetched)? {
        cmd::capture(cmd::command("dpkg-deb").arg("-x").arg(package?.path()).arg(root))?;
    }
    Ok(())
}

/// Non-interactive, and waits for another apt-get to finish.
fn apt() -> Command {
    let mut apt = cmd::command("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive").args(["-o", "DPkg::Lock::Timeout=300"]);
    apt
}
