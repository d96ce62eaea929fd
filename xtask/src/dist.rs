//! `cargo xtask dist`: puts everything users get into dist/: static binaries and packages for each architecture, their
//! checksums, and a script that installs the right one; and checks that they are as promised.

mod machine;
mod package;
mod place;
mod sbom;
mod target;
mod tree;
mod trial;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use qd1_lab::{clock, cmd};

use crate::debian::{self, Package};
use crate::{metadata, setup};
use package::Release;
use target::TARGETS;

/// The tool that makes RPM packages; dpkg-deb, tar and gzip exist wherever this runs.
const RPM: Package = Package { program: "rpmbuild", name: "rpm", purpose: "RPM packages (dist)" };
/// The installation script.
const SCRIPT: &str = "install.sh";
const SUMS: &str = "SHA256SUMS";

/// How much of it to build.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only the binary for this machine, dist/qd1
    #[arg(long)]
    binary: bool,
    /// Afterwards install, run, upgrade and purge the packages in Debian systems, and run the aarch64 binary under
    /// emulation; ten minutes, as root
    #[arg(long = "try", conflicts_with = "binary")]
    is_tried: bool,
    /// Only the binary for this machine, built a second time from a clone in another directory; both must be identical
    #[arg(long = "reproduce", conflicts_with_all = ["binary", "is_tried"])]
    is_reproduced: bool,
}

/// Maximum size of a binary, in bytes: 12 MB, including pages, pictures and a real SQLite.
pub(crate) const SIZE_MAX_BYTES: u64 = 12_000_000;
/// Number of `--version` runs whose median is the start time.
const START_RUNS: usize = 50;

/// The binary as it ships, and its size.
pub(crate) struct Dist {
    pub(crate) binary: PathBuf,
    pub(crate) size_bytes: u64,
}

/// Builds, checks and describes the binary, then makes the packages.
pub(crate) fn run(args: &Args) -> Result<()> {
    setup::run()?;
    let dist = build()?;
    println!("dist/qd1: static, {} bytes ({:.2} MB; at most 12)", dist.size_bytes, megabytes(dist.size_bytes));
    println!("sha256:   {}", sha256(&dist.binary)?);
    let start = start_time(&dist.binary)?;
    println!("start:    {:.2} ms (--version, median of {START_RUNS})", start.as_secs_f64() * 1e3);
    match args {
        Args { is_reproduced: true, .. } => reproduce(&dist),
        Args { binary: true, .. } => Ok(()),
        Args { is_tried, .. } => packages(&dist.binary, *is_tried),
    }
}

/// Builds the binary from a clone elsewhere, with nothing from this build; fails if it differs.
fn reproduce(dist: &Dist) -> Result<()> {
    let changed = cmd::capture(cmd::command("git").args(["status", "--porcelain", "--untracked-files=no"]))?;
    ensure!(changed.trim().is_empty(), "a clone contains only what is committed; commit first");
    let elsewhere = tempfile::tempdir()?;
    let clone = elsewhere.path().join("a clone of it");
    cmd::capture(cmd::command("git").args(["clone", "--quiet"]).arg(cmd::root()).arg(&clone))?;
    let target = elsewhere.path().join("target");
    let mut build = cmd::cargo();
    build.args(["build", "--quiet", "--release", "--target", setup::MUSL, "--package", "qd1", "--bin", "qd1"]);
    cmd::run(build.current_dir(&clone).env("CARGO_TARGET_DIR", &target))?;
    let again = sha256(&target.join(setup::MUSL).join("release/qd1"))?;
    ensure!(again == sha256(&dist.binary)?, "the binary differs when built in another directory: {again}");
    println!("again:    {again}, built in another directory");
    Ok(())
}

/// Makes all packages of all targets, and the files that go with them.
fn packages(native: &Path, is_tried: bool) -> Result<()> {
    debian::install(&debian::missing(&[RPM]), &[])?;
    let dir = cmd::root().join("dist");
    let version = metadata::workspace()?["packages"]
        .as_array()
        .and_then(|packages| packages.iter().find(|package| package["name"] == "qd1"))
        .and_then(|package| package["version"].as_str())
        .context("cargo reports no version of qd1")?
        .to_owned();
    let epoch = cmd::capture(cmd::command("git").args(["log", "-1", "--format=%ct"]))?.trim().to_owned();
    let work = tempfile::tempdir()?;
    let common = tree::common(native, work.path())?;
    let release = Release { version, epoch, dir: dir.clone() };
    let (mut files, mut binaries) = (Vec::new(), Vec::new());
    for target in &TARGETS {
        let binary = target.build()?;
        files.extend(release.make(target, &binary, &common)?);
        binaries.push(binary);
    }
    for name in ["qd1.cdx.json", "THIRD-PARTY.txt"] {
        let to = dir.join(name);
        fs::copy(work.path().join(name), &to)?;
        files.push(to);
    }
    let script = dir.join(SCRIPT);
    fs::copy(cmd::root().join("packaging").join(SCRIPT), &script)?;
    files.push(script);
    let mut sums = String::new();
    for file in &files {
        let name = file.file_name().context("a package has a name")?.to_string_lossy();
        let line = format!("{}  {name}\n", sha256(file)?);
        println!("  {:>5.2} MB  {name}", megabytes(fs::metadata(file)?.len()));
        sums += &line;
    }
    fs::write(dir.join(SUMS), sums)?;
    println!("dist/{SUMS} has their checksums; to install: sh dist/{SCRIPT}");
    if is_tried { trial::run(&release, &common, &binaries) } else { Ok(()) }
}

/// The checksum of a file.
fn sha256(file: &Path) -> Result<String> {
    let sum = cmd::capture(cmd::command("sha256sum").arg(file))?;
    Ok(sum.split_whitespace().next().unwrap_or_default().to_owned())
}

/// Builds dist/qd1; fails if it is not static or too large.
pub(crate) fn build() -> Result<Dist> {
    let built = build_binary()?;
    let dir = cmd::root().join("dist");
    fs::create_dir_all(&dir)?;
    let (fresh, binary) = (dir.join("qd1.new"), dir.join("qd1"));
    fs::copy(&built, &fresh)?;
    // Renamed into place: the old binary may be running.
    fs::rename(&fresh, &binary)?;
    let size_bytes = fs::metadata(&binary)?.len();
    Ok(Dist { binary, size_bytes })
}

/// Builds the binary for CI's architecture; fails if it is not as promised.
pub(crate) fn build_binary() -> Result<PathBuf> {
    as_promised(build_release(&["--package", "qd1", "--bin", "qd1"], "qd1")?)
}

/// Fails if a binary is not static or too large.
fn as_promised(binary: PathBuf) -> Result<PathBuf> {
    ensure!(cmd::is_static(&binary)?, "{} is not static: it asks for a dynamic loader", binary.display());
    let size = fs::metadata(&binary)?.len();
    ensure!(size <= SIZE_MAX_BYTES, "{}: {size} bytes is more than the promised {SIZE_MAX_BYTES}", binary.display());
    Ok(binary)
}

/// Builds something for the target and with the profile of the released binary; returns the file at `place` below the
/// profile's directory.
pub(crate) fn build_release(what: &[&str], place: &str) -> Result<PathBuf> {
    cmd::run(cmd::cargo().args(["build", "--release", "--target", setup::MUSL]).args(what))?;
    let built = metadata::target_dir()?.join(setup::MUSL).join("release").join(place);
    ensure!(built.is_file(), "cargo did not build {}", built.display());
    Ok(built)
}

/// The median time from fork to exit of `--version`.
pub(crate) fn start_time(binary: &Path) -> Result<Duration> {
    let mut times = Vec::with_capacity(START_RUNS);
    for _ in 0..START_RUNS {
        let mut version = Command::new(binary);
        version.arg("--version").stdin(Stdio::null()).stdout(Stdio::null());
        let (status, took) = clock::timed(|| version.status());
        ensure!(status?.success(), "{} --version failed", binary.display());
        times.push(took);
    }
    times.sort_unstable();
    Ok(times[times.len() / 2])
}

/// Bytes as megabytes of a million, for printing.
#[allow(clippy::cast_precision_loss, reason = "a file size is far below 2^52")]
pub(crate) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}
