//! `cargo xtask truth --real`: limits that the kernel sets on a loop device, and what `qd1 limits` finds.
//!
//! A version 1 cgroup throttles reads and writes by separate settings, so that five runs give ten figures. The device's
//! file is in memory, since a throttle does not make up for time lost while a shared disk stalled. The binary is the
//! unoptimised one: a throttle is slower than that, and building the optimised product takes minutes.

use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use qd1_lab::{Loop, Throttle, as_root, cmd, interrupted, quiet_dir};
use serde_json::Value;

use super::AHEAD;

const DISK_BYTES: u64 = 1 << 30;
/// The target: the largest error allowed.
const TARGET: f64 = 0.03;

/// One setting: the kernel's name for it, its value, and where the result reports it.
struct Setting {
    kernel: &'static str,
    value: u64,
    direction: &'static str,
    quantity: &'static str,
}

const fn iops(direction: &'static str, kernel: &'static str, value: u64) -> Setting {
    Setting { kernel, value, direction, quantity: "requests" }
}

const fn bytes(direction: &'static str, kernel: &'static str, megabytes: u64) -> Setting {
    Setting { kernel, value: megabytes * 1_000_000, direction, quantity: "bytes" }
}

/// From 100 requests a second to 20,000 and from 5 MB/s to 400.
const RUNS: [[Setting; 2]; 5] = [
    [iops("read", "read_iops", 100), bytes("write", "write_bps", 5)],
    [bytes("read", "read_bps", 20), iops("write", "write_iops", 500)],
    [iops("read", "read_iops", 2000), bytes("write", "write_bps", 80)],
    [bytes("read", "read_bps", 200), iops("write", "write_iops", 8000)],
    [iops("read", "read_iops", 20_000), bytes("write", "write_bps", 400)],
];

/// Measures and prints the table.
pub(crate) fn run(binary: &Path) -> Result<()> {
    as_root("a loop device and a cgroup")?;
    println!("limits set by the kernel on a loop device, and what qd1 limits reports (target: within 3 %)");
    println!("  {:<20}{:>14}{:>16}{:>9}  95 % interval", "", "set", "measured", "error");
    let mut worst: f64 = 0.0;
    for settings in &RUNS {
        interrupted()?;
        let report = measure(binary, settings)?;
        for setting in settings {
            worst = worst.max(row(&report, setting)?);
        }
    }
    println!("  worst error: {:.2} %", worst * 100.0);
    ensure!(worst <= TARGET, "the target of 3 % was missed");
    Ok(())
}

fn measure(binary: &Path, settings: &[Setting]) -> Result<Value> {
    let disk = Loop::filled(quiet_dir()?, DISK_BYTES)?;
    let limits: Vec<_> = settings.iter().map(|setting| (setting.kernel, setting.value)).collect();
    let group = Throttle::new("real", &disk, &limits)?;
    let mut command = group.command(&AHEAD, binary);
    command.arg("limits").arg(disk.device()).arg("--destroy").arg(disk.device());
    command.args(["--size", "256MiB", "--json", "--no-save", "--quiet"]);
    cmd::json(&mut command)
}

/// Prints the limit found for one setting and returns its error; 1 if none was found.
fn row(report: &Value, setting: &Setting) -> Result<f64> {
    let limits = report["limits"]["limits"].as_array().context("the result contains no limits")?;
    let is_it = |limit: &&Value| limit["direction"] == setting.direction && limit["quantity"] == setting.quantity;
    let limit = limits
        .iter()
        .find(is_it)
        .with_context(|| format!("no limit on {} of {}s", setting.quantity, setting.direction))?;
    let scale = if setting.quantity == "bytes" { 1e-6 } else { 1.0 };
    let figure = |name: &str| limit["sustained"][name].as_f64().unwrap_or(f64::NAN) * scale;
    let set = setting.value as f64 * scale;
    let error = figure("value") / set - 1.0;
    let unit = if setting.quantity == "bytes" { "MB/s" } else { "IOPS" };
    let reached = limit["reached"] == true;
    let note = if reached { "" } else { "  NOT REACHED" };
    println!(
        "  {:<20}{:>9.0} {unit}{:>11.2} {unit}{:>+7.2} %  {:.2} to {:.2}{note}",
        setting.kernel,
        set,
        figure("value"),
        error * 100.0,
        figure("low"),
        figure("high")
    );
    if !reached {
        for evidence in limit["evidence"].as_array().into_iter().flatten().filter(|one| one["speaks_for"] == false) {
            println!("    {}: {}", evidence["id"], evidence["text"]);
        }
    }
    Ok(if reached { error.abs() } else { 1.0 })
}
