//! `cargo xtask truth --pairs`: pairs of consecutive short checks of the same disk, and of a slower one, with the whole
//! product: on a simulated disk behind FUSE and on a loop device that the kernel throttles.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{Mounted, Simulated, Throttle, as_root, cmd, interrupted, quiet_dir};
use serde_json::Value;

use super::AHEAD;
use super::predict::{DISK_BYTES, commits_of};

/// The steps that are measured, each with visits.
const STEPS: &str = "qd1,commit1,read32";
/// Flush times of the simulated disk, us, and of one that is slower by a quarter.
const FLUSH_US: u32 = 2000;
const SLOWER_US: u32 = 2500;

/// Measures `count` pairs on each disk; half as many with the slower one.
pub(crate) fn run(count: u64) -> Result<()> {
    as_root("a loop device and a mount")?;
    let dir = super::binaries(&["qd1", "qd1-simdisk"])?;
    let qd1 = dir.join("qd1");
    println!("  {:<34}{:>7}{:>18}{:>18}", "", "pairs", "better or worse", "of which spoilt");
    {
        let disk = Simulated::mount(&dir, &commits_of(FLUSH_US))?;
        let same = || measured(Command::new(&qd1), &disk.dir);
        report("simulated disk, unchanged", count, || Ok((same()?, same()?)), &qd1)?;
        let slower = Simulated::mount(&dir, &commits_of(SLOWER_US))?;
        let pair = || Ok((same()?, measured(Command::new(&qd1), &slower.dir)?));
        report("simulated disk, commits +25 %", count.div_ceil(2), pair, &qd1)?;
    }
    let disk = Mounted::filled("ext4", quiet_dir()?, DISK_BYTES)?;
    let group = Throttle::new("pairs", &disk.disk, &[("write_iops", 500)])?;
    let same = || measured(group.command(&AHEAD, &qd1), disk.path());
    report("throttled to 500 IOPS, unchanged", count, || Ok((same()?, same()?)), &qd1)
}

/// The report of a short check of `dir`, as JSON.
fn measured(mut qd1: Command, dir: &Path) -> Result<Vec<u8>> {
    interrupted()?;
    qd1.arg("check").arg(dir).args(["--quick", "--quiet", "--no-save", "--json", "--only", STEPS]);
    let output = qd1.current_dir(cmd::root()).stdin(Stdio::null()).output().context("qd1 check")?;
    ensure!(output.status.success(), "qd1 check: {}", String::from_utf8_lossy(&output.stderr));
    Ok(output.stdout)
}

/// Compares the pairs and prints a line, plus one for each figure that is reported to differ.
fn report(name: &str, count: u64, pair: impl Fn() -> Result<(Vec<u8>, Vec<u8>)>, qd1: &Path) -> Result<()> {
    let (mut apart, mut spoilt, mut said) = (0, 0, Vec::new());
    for _ in 0..count {
        let (one, other) = pair()?;
        let place = tempfile::tempdir()?;
        let [first, second] = ["a.json", "b.json"].map(|name| place.path().join(name));
        std::fs::write(&first, one)?;
        std::fs::write(&second, other)?;
        let output = Command::new(qd1).arg("compare").args([&first, &second]).arg("--json").output()?;
        ensure!(output.status.success(), "qd1 compare: {}", String::from_utf8_lossy(&output.stderr));
        let compared: Value = serde_json::from_slice(&output.stdout)?;
        let differing = differing(&compared);
        let is_spoilt = list(&compared["differences"]).any(|one| one["aspect"] == "spoiled");
        apart += usize::from(!differing.is_empty());
        spoilt += usize::from(!differing.is_empty() && is_spoilt);
        said.extend(differing);
    }
    println!("  {name:<34}{count:>7}{apart:>18}{spoilt:>18}");
    said.iter().for_each(|figure| println!("    {figure}"));
    Ok(())
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// The primary figures that are reported to be better or worse, and the overall result.
fn differing(compared: &Value) -> Vec<String> {
    let is_apart = |effect: &Value| matches!(effect["word"].as_str(), Some("better" | "worse"));
    let show = |name: &str, effect: &Value| {
        let ratio = |key: &str| effect["ratio"][key].as_f64().unwrap_or(f64::NAN);
        format!("{name} {:.3} [{:.3}..{:.3}]", ratio("value"), ratio("low"), ratio("high"))
    };
    let text = |row: &Value, key: &str| row[key].as_str().unwrap_or_default().to_owned();
    let rows = list(&compared["rows"]).filter(|row| row["is_primary"] == true && is_apart(&row["effects"][0]));
    let rows = rows.map(|row| show(&format!("{} {}", text(row, "step"), text(row, "metric")), &row["effects"][0]));
    let whole = list(&compared["overall"]).filter(|effect| is_apart(effect)).map(|effect| show("overall", effect));
    rows.chain(whole).collect()
}
