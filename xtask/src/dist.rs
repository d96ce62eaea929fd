//! `cargo xtask dist`: the binary as users get it, into dist/qd1, held against what is promised of it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use crate::{clock, cmd, elf, metadata, setup};

/// The most that the binary may weigh, in bytes: 8 MB.
pub(crate) const SIZE_MAX_BYTES: u64 = 8_000_000;
/// Runs of `--version` whose median is the start time.
const START_RUNS: usize = 50;

/// The binary as it ships, and its size.
pub(crate) struct Dist {
    pub(crate) binary: PathBuf,
    pub(crate) size_bytes: u64,
}

/// Builds, checks and describes the binary.
pub(crate) fn run() -> Result<()> {
    setup::run()?;
    let dist = build()?;
    let sum = cmd::capture(cmd::command("sha256sum").arg(&dist.binary))?;
    let sum = sum.split_whitespace().next().unwrap_or_default().to_owned();
    println!("dist/qd1: static, {} bytes ({:.2} MB; at most 8)", dist.size_bytes, megabytes(dist.size_bytes));
    println!("sha256:   {sum}");
    let start = start_time(&dist.binary)?;
    println!("start:    {:.2} ms (--version, median of {START_RUNS})", start.as_secs_f64() * 1e3);
    Ok(())
}

/// Builds dist/qd1; fails where it is not static or too large.
pub(crate) fn build() -> Result<Dist> {
    let built = build_release(&["--package", "qd1", "--bin", "qd1"], "qd1")?;
    let file = fs::read(&built).with_context(|| format!("cannot read {}", built.display()))?;
    ensure!(!elf::has_interpreter(&file)?, "{} is not static: it asks for a dynamic loader", built.display());
    let size_bytes = u64::try_from(file.len())?;
    ensure!(size_bytes <= SIZE_MAX_BYTES, "{size_bytes} bytes are more than the {SIZE_MAX_BYTES} promised");
    let dir = cmd::root().join("dist");
    fs::create_dir_all(&dir)?;
    let (fresh, binary) = (dir.join("qd1.new"), dir.join("qd1"));
    fs::copy(&built, &fresh)?;
    // Renamed into place: the old binary may be running.
    fs::rename(&fresh, &binary)?;
    Ok(Dist { binary, size_bytes })
}

/// Builds something for the target and with the profile of the released binary; returns the file at `place` below the
/// profile's directory.
pub(crate) fn build_release(what: &[&str], place: &str) -> Result<PathBuf> {
    cmd::run(cmd::cargo().args(["build", "--release", "--target", setup::MUSL]).args(what))?;
    let built = metadata::target_dir()?.join(setup::MUSL).join("release").join(place);
    ensure!(built.is_file(), "cargo built no {}", built.display());
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
