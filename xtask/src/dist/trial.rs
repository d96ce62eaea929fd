//! `cargo xtask dist --try`: the packages as users get them, each installed, run, upgraded and purged in its own
//! system; and the aarch64 binary with other page sizes, emulated.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{clock, cmd};
use serde_json::Value;

use super::machine;
use super::package::Release;
use super::place::{self, DEBIANS};
use super::target::{TARGETS, Target};
use super::tree::Entry;
use crate::debian;
use qd1_lab::open_up;

/// The user under whom packages are tried.
const NOBODY: u32 = 65534;
/// The version to upgrade from.
const OLD: &str = "0.0.1";
const SCRIPT: &str = include_str!("trial.sh");

/// Tries all packages of a release; fails if one does not do what it should.
pub(super) fn run(release: &Release, common: &[Entry], binaries: &[PathBuf]) -> Result<()> {
    debian::install(&debian::missing(&place::PACKAGES), &[])?;
    let work = tempfile::Builder::new().prefix("qd1-try-").tempdir_in(&release.dir)?;
    open_up(work.path())?;
    let older = Release { version: OLD.to_owned(), epoch: release.epoch.clone(), dir: work.path().join("old") };
    fs::create_dir(&older.dir)?;
    for (target, binary) in TARGETS.iter().zip(binaries) {
        older.make(target, binary, common)?;
    }
    tries(release, binaries, work.path())
}

fn tries(release: &Release, binaries: &[PathBuf], work: &Path) -> Result<()> {
    for debian in &DEBIANS {
        let target = TARGETS.iter().find(|target| target.deb == debian.arch).context("there is no binary for it")?;
        let root = work.join("root");
        cmd::capture(cmd::command("cp").arg("-a").arg(debian.fetch()?).arg(&root))?;
        let name = |version: &str| format!("qd1_{version}_{}.deb", target.deb);
        install(debian.name, "deb", &root, release, target, &name)?;
        fs::remove_dir_all(&root)?;
    }
    for target in &TARGETS {
        let root = work.join("root");
        fs::create_dir(&root)?;
        let name = |version: &str| format!("qd1-{version}-1.{}.rpm", target.rpm);
        install(&format!("RPM alone, {}", target.rpm), "rpm", &root, release, target, &name)?;
        fs::remove_dir_all(&root)?;
    }
    let foreign = binaries.last().context("there is a binary for aarch64")?;
    large_pages(foreign, work)?;
    for debian in DEBIANS.iter().filter(|debian| debian.is_foreign()) {
        machine::boot(debian, foreign, work)?;
    }
    Ok(())
}

/// Installs, runs, upgrades and purges a package in a root, and checks the results.
fn install(
    place: &str,
    kind: &str,
    root: &Path,
    release: &Release,
    target: &Target,
    name: &dyn Fn(&str) -> String,
) -> Result<()> {
    let script = root.with_extension("sh");
    fs::write(&script, SCRIPT)?;
    // Systems of other architectures are left with a link to the machine's own.
    if root.join("proc").is_symlink() {
        fs::remove_file(root.join("proc"))?;
    }
    // Root there is an unprivileged user here: a package cannot touch this machine's devices, files or settings.
    cmd::capture(cmd::command("chown").args(["-R", &format!("{NOBODY}:{NOBODY}")]).arg(root))?;
    let mut run = cmd::command("setpriv");
    run.arg(format!("--reuid={NOBODY}")).arg(format!("--regid={NOBODY}")).args(["--clear-groups", "unshare"]);
    run.args(["--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child", "sh"]).arg(&script);
    let old = root.with_file_name("old").join(name(OLD));
    run.arg(kind).arg(root).arg(&release.dir).arg(old.strip_prefix(&release.dir)?).arg(name(&release.version));
    if target.triple != TARGETS[0].triple {
        run.arg(place::emulator()?);
    }
    let (outcome, took) = clock::timed(|| cmd::capture(&mut run));
    let read = |file: &str| fs::read_to_string(root.join("tmp/trial").join(file)).unwrap_or_default();
    outcome.with_context(|| {
        let said = ["install", "upgrade", "errors", "purge", "script"].map(read).concat();
        format!("{place}: the trial stopped; its output: {said}")
    })?;
    ensure!(read("old").trim() == OLD && read("new").trim() == release.version, "{place}: it was not upgraded");
    ensure!(read("version").contains(&release.version), "{place}: qd1 --version said {}", read("version"));
    let list = |file: &str| read(file).lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (before, installed, after) = (list("before"), list("installed"), list("after"));
    let left: Vec<_> = after.symmetric_difference(&before).collect();
    ensure!(left.is_empty(), "{place}: the purge left behind or wrongly removed {left:?}");
    let came = installed.difference(&before).count();
    ensure!(installed.contains("./usr/bin/qd1") && came > 20, "{place}: only {came} files were installed");
    if kind == "deb" {
        ensure!(read("script").contains("installed /usr/local/bin/qd1"), "{place}: install.sh said {}", read("script"));
    }
    let verdict = verdict(&read("report.json")).with_context(|| format!("{place}: {}", read("errors")))?;
    // 3: a disk that fails; either way, it was judged.
    ensure!(matches!(read("status").trim(), "0" | "3"), "{place}: qd1 exited with {}", read("status"));
    ensure!(read("history").contains("check"), "{place}: the history is empty");
    println!("ok     {place}: {came} files, upgraded, purged; {verdict} ({:.0} s)", took.as_secs_f64());
    Ok(())
}

/// What a report says, in a few words; an error if it is not a report.
pub(super) fn verdict(report: &str) -> Result<String> {
    let report: Value = serde_json::from_str(report).context("qd1 printed no report")?;
    let steps = report["record"]["steps"].as_array().context("the report has no steps")?;
    let timed = steps.iter().filter(|step| step["streams"].as_array().is_some_and(|streams| !streams.is_empty()));
    let timed = timed.count();
    ensure!(timed > 0 && timed == steps.len(), "only {timed} of {} steps were measured", steps.len());
    let classes = report["verdicts"].as_array().map_or(0, Vec::len);
    ensure!(classes > 0, "the report has no verdict");
    Ok(format!("check: {timed} steps, {classes} verdicts"))
}

/// The aarch64 binary with 64 KiB pages: a full `check`.
fn large_pages(binary: &Path, work: &Path) -> Result<()> {
    let mut run: Command = cmd::command(place::emulator()?);
    run.args(["-p", "65536"]).arg(binary).args(["check", "--json"]).arg(work);
    run.env("QD1_STORE", work.join("history.db"));
    let (output, took) = clock::timed(|| cmd::output(&mut run));
    let output = output?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(matches!(output.status.code(), Some(0 | 3)), "64 KiB pages: {}: {said}", output.status);
    let verdict = verdict(&String::from_utf8_lossy(&output.stdout)).with_context(|| format!("64 KiB pages: {said}"))?;
    println!("ok     aarch64 with 64 KiB pages: {verdict} ({:.0} s)", took.as_secs_f64());
    Ok(())
}
