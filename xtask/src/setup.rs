//! `cargo xtask setup`: installs what check, test, bench and dist need.
//!
//! Idempotent, and quick when nothing is missing: each thing is looked for by the file that it brings. The tools are
//! pinned, since a newer lint or dictionary must not turn an untouched commit red.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::{clock, cmd, examples, lab, metadata, python, servers};

/// The target of the released binary.
pub(crate) const MUSL: &str = "x86_64-unknown-linux-musl";

/// A Debian package: the program that shows it is there, its name, and what it is for.
type Package = (&'static str, &'static str, &'static str);

/// What nothing goes without.
const PACKAGES: &[Package] = &[
    ("fio", "fio", "the peer that tests and benches compare with"),
    ("jq", "jq", "how scripts read the reports (tests)"),
    ("valgrind", "valgrind", "instruction counts (bench cost)"),
    ("musl-gcc", "musl-tools", "the C parts of the static binary (dist)"),
    ("mkfs.ext4", "e2fsprogs", "filesystems on loop devices (tests)"),
    ("tmux", "tmux", "a terminal for tests of the display"),
];

/// What only some things need, which say so where it is missing.
const WISHED: &[Package] = &[
    (lab::packages::QEMU.0, lab::packages::QEMU.1, "another kernel and other devices (lab, its test)"),
    ("bpftrace", "bpftrace", "the kernel's own timing (bench ebpf)"),
    ("ioping", "ioping", "the peer of qd1 ping (bench peers, tests)"),
    ("bonnie++", "bonnie++", "the peer of qd1 meta (bench peers, tests)"),
    ("fusermount3", "fuse3", "simulated disks for users other than root (tests)"),
    ("mkfs.xfs", "xfsprogs", "filesystems to compare (tests)"),
    ("mkfs.btrfs", "btrfs-progs", "filesystems to compare (tests)"),
];

/// A program that comes prebuilt or is built from source, at exactly this version.
pub(crate) struct Tool {
    name: &'static str,
    version: &'static str,
    source: Source,
}

/// Where a tool comes from.
enum Source {
    /// `cargo install`, unoptimised: these tools run for a second, and build three times faster so.
    Crate,
    /// A wheel that holds the binary: seconds, where a build costs minutes.
    Wheel,
}

/// Licences, bans, duplicates, sources.
pub(crate) static DENY: Tool = Tool { name: "cargo-deny", version: "0.20.2", source: Source::Crate };
/// Unused dependencies. Newer versions want a newer Rust than ours.
pub(crate) static SHEAR: Tool = Tool { name: "cargo-shear", version: "1.11.2", source: Source::Crate };
/// Spelling.
pub(crate) static TYPOS: Tool = Tool { name: "typos", version: "1.52.0", source: Source::Wheel };
/// Fuzzing. Only `fuzz` installs it.
pub(crate) static FUZZ: Tool = Tool { name: "cargo-fuzz", version: "0.13.2", source: Source::Crate };

static TOOLS: &[&Tool] = &[&DENY, &SHEAR, &TYPOS];

/// Installs whatever is missing, and says what it did.
pub(crate) fn run() -> Result<()> {
    let (outcome, took) = clock::timed(|| {
        debian_packages(PACKAGES)?;
        if let Err(error) = debian_packages(WISHED) {
            println!("setup: {}; what needs them is left out", error.to_string().lines().next().unwrap_or_default());
        }
        if let Err(error) = servers::install() {
            println!("setup: {}", error.to_string().lines().next().unwrap_or_default());
        }
        musl_target()?;
        if let Err(error) = lab::packages::fetch() {
            println!("setup: no lab: {}", error.to_string().lines().next().unwrap_or_default());
        }
        examples::fetch()?;
        python::fetch()?;
        tools()
    });
    outcome?;
    println!("setup: all is there ({:.1} s)", took.as_secs_f64());
    Ok(())
}

/// Installs the tools of `check`.
fn tools() -> Result<()> {
    TOOLS.iter().try_for_each(|tool| tool.install())
}

fn debian_packages(packages: &[Package]) -> Result<()> {
    let missing: Vec<_> = packages.iter().filter(|(program, ..)| cmd::find(program).is_none()).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = missing.iter().map(|(_, package, _)| *package).collect();
    if !cmd::is_root() || cmd::find("apt-get").is_none() {
        for (program, package, purpose) in &missing {
            eprintln!("missing: {program} (Debian package {package}): {purpose}");
        }
        bail!("install these, then run this again. On Debian, as root: apt-get install {}", names.join(" "));
    }
    println!("setup: apt-get install {}", names.join(" "));
    let apt = || {
        let mut apt = cmd::command("apt-get");
        apt.env("DEBIAN_FRONTEND", "noninteractive");
        apt
    };
    cmd::capture(apt().args(["update", "-q"]))?;
    cmd::capture(apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(&names))?;
    Ok(())
}

fn musl_target() -> Result<()> {
    if cmd::find("rustup").is_none() {
        // A distribution's Rust: the standard library for the target lies in its sysroot or is not there.
        let sysroot = cmd::capture(cmd::command("rustc").args(["--print", "sysroot"]))?;
        let library = PathBuf::from(sysroot.trim()).join("lib/rustlib").join(MUSL);
        if !library.is_dir() {
            bail!("the Rust target {MUSL} is missing and there is no rustup; install it with the system's packages");
        }
        return Ok(());
    }
    let installed = cmd::capture(cmd::command("rustup").args(["target", "list", "--installed"]))?;
    if installed.lines().any(|target| target == MUSL) {
        return Ok(());
    }
    println!("setup: rustup target add {MUSL}");
    cmd::capture(cmd::command("rustup").args(["target", "add", MUSL])).map(drop)
}

/// Where pinned tools lie, one directory for each version.
pub(crate) fn tools_dir() -> Result<PathBuf> {
    let cache = env::var_os("XDG_CACHE_HOME").filter(|dir| !dir.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| env::var_os("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Ok(match cache {
        Some(cache) => cache.join("qd1-xtask"),
        None => metadata::target_dir()?.join("tools"),
    })
}

impl Tool {
    /// The directory of this very version. It lies outside the target directory, so that `cargo clean` and a second
    /// clone keep it.
    fn dir(&self) -> Result<PathBuf> {
        let base = tools_dir()?;
        Ok(base.join(format!("{}-{}", self.name, self.version)))
    }

    /// The tool's program.
    pub(crate) fn program(&self) -> Result<PathBuf> {
        Ok(self.dir()?.join("bin").join(self.name))
    }

    /// A command of the tool.
    pub(crate) fn command(&self) -> Result<Command> {
        Ok(cmd::command(self.program()?))
    }

    /// Installs the tool beside its final place and moves it there, so that an interrupted install leaves nothing that
    /// looks complete.
    pub(crate) fn install(&self) -> Result<()> {
        if self.program()?.is_file() {
            return Ok(());
        }
        println!("setup: installing {} {}", self.name, self.version);
        let dir = self.dir()?;
        let base = dir.parent().context("the tools' directory has no parent")?;
        fs::create_dir_all(base).with_context(|| format!("cannot make {}", base.display()))?;
        let fresh = tempfile::Builder::new().prefix("install-").tempdir_in(base)?;
        let (outcome, took) = clock::timed(|| match self.source {
            Source::Crate => self.install_crate(fresh.path()),
            Source::Wheel => self.install_wheel(fresh.path()),
        });
        outcome.with_context(|| format!("cannot install {} {}", self.name, self.version))?;
        if dir.exists() {
            fs::remove_dir_all(&dir)?;
        }
        fs::rename(fresh.path(), &dir).with_context(|| format!("cannot move {} into place", self.name))?;
        println!("setup: installed {} {} ({:.0} s)", self.name, self.version, took.as_secs_f64());
        Ok(())
    }

    fn install_crate(&self, root: &std::path::Path) -> Result<()> {
        let build = tempfile::tempdir()?;
        let mut install = cmd::cargo();
        install.args(["install", "--locked", "--debug", "--quiet", "--root"]).arg(root);
        install.arg("--target-dir").arg(build.path()).arg(format!("{}@{}", self.name, self.version));
        // Debug information is half of the time and all of the space.
        install.env("CARGO_PROFILE_DEV_DEBUG", "0").env_remove("RUSTFLAGS");
        cmd::capture(&mut install).map(drop)
    }

    fn install_wheel(&self, root: &std::path::Path) -> Result<()> {
        let mut pip = cmd::command("python3");
        pip.args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-deps",
            "--disable-pip-version-check",
            "--only-binary=:all:",
        ]);
        pip.arg("--target").arg(root).arg(format!("{}=={}", self.name, self.version));
        if let Err(error) = cmd::capture(&mut pip) {
            println!(
                "setup: no wheel ({}); building from source",
                error.to_string().lines().next().unwrap_or_default()
            );
            let source = Tool { name: "typos-cli", version: self.version, source: Source::Crate };
            return source.install_crate(root);
        }
        Ok(())
    }
}
