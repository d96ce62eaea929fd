//! `cargo xtask truth --agree WHERE`: consecutive checks of one disk, and whether they agree.
//!
//! WHERE is a directory; `loop`: a loop device whose limits change every few seconds between three regimes (kernel
//! throttling of a cgroup); `simdisk`: a simulated disk whose speed changes from one second to the next; or `lab`: an
//! emulated machine's disks, one throttled by QEMU and one delayed by dm-delay. The models behind the kernel's
//! throttle, QEMU and dm-delay were not written by us.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Error, Result};
use qd1_lab::machine::{Machine, REPEATED};
use qd1_lab::{Loop, Mounted, Simulated, Throttle, as_root, cmd, interrupted, temp_dir};
use qd1_truth::agree;

use super::AHEAD;

const DISK_BYTES: u64 = 3 << 30;
/// Reads and writes per second, and for how long.
const REGIMES: [(u64, u64, u64); 3] = [(8000, 3000, 5), (4000, 1500, 3), (2000, 800, 4)];

/// A network block device whose level varies by 20 %, with a correlation time of three seconds, and that stalls about
/// every 20 s.
const MOVING: &str = r#"
about = "a network block device with neighbours"
size_mib = 4096

[device]
seed = 4117
channels = 64
read = { modes = [{ median_us = 1100, sigma = 0.35 }], per_kib_us = 1.0 }
write = { modes = [{ median_us = 1300, sigma = 0.35 }], per_kib_us = 1.0 }
flush = { modes = [{ median_us = 1500, sigma = 0.4 }] }
neighbours = { sigma = 0.2, memory_ms = 3000, stalls_per_s = 0.05, stall_ms = 50, stall_sigma = 0.5 }

[expect]
check = ""
findings = ["not_a_disk"]
"#;

/// Runs this many checks and prints the table; `machine` is the one that `lab` runs on.
pub(crate) fn run(place: &str, count: u64, machine: impl FnOnce() -> Result<Machine>) -> Result<()> {
    let target = super::binaries(&["qd1", "qd1-simdisk"])?;
    let results = temp_dir()?;
    let table = |files: &[PathBuf]| -> Result<()> {
        println!("{}", agree::table(files).map_err(Error::msg)?);
        Ok(())
    };
    match place {
        "lab" => {
            let machine = machine()?;
            let reports = |name| machine.reports(name, &results.path().join(name));
            REPEATED.into_iter().try_for_each(|name| table(&reports(name)?))
        }
        "simdisk" => {
            let disk = Simulated::mount(&target, MOVING)?;
            table(&in_turn(&target.join("qd1"), &disk.dir, count, results.path())?)
        }
        "loop" => table(&on_loop(&target.join("qd1"), count, results.path())?),
        dir => table(&in_turn(&target.join("qd1"), Path::new(dir), count, results.path())?),
    }
}

/// Runs this many checks; returns the files with their reports.
fn in_turn(binary: &Path, place: &Path, count: u64, results: &Path) -> Result<Vec<PathBuf>> {
    (0..count).map(|run| check(Command::new(binary), place, run, results)).collect()
}

/// Runs one check; returns the file with its report.
fn check(mut command: Command, place: &Path, run: u64, results: &Path) -> Result<PathBuf> {
    let file = results.join(format!("{run}.json"));
    command.arg("check").arg(place).args(["--json", "--no-save", "--quiet", "--output"]).arg(&file);
    let steps = "qd1,commit1,commit4,wal,paced,read32,seqread,seqwrite";
    cmd::run(command.args(["--only", steps]))?;
    println!("agree: check {} is done", run + 1);
    Ok(file)
}

fn on_loop(binary: &Path, count: u64, results: &Path) -> Result<Vec<PathBuf>> {
    as_root("a loop device and a cgroup")?;
    let disk = Mounted::filled("ext4", temp_dir()?, DISK_BYTES)?;
    let throttle = Throttle::new("agree", &disk.disk, &[("read_iops", REGIMES[0].0), ("write_iops", REGIMES[0].1)])?;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| change(&throttle, &disk.disk, &is_over));
        let runs = (0..count).map(|run| {
            interrupted()?;
            check(throttle.command(&AHEAD, binary), disk.path(), run, results)
        });
        let files = runs.collect::<Result<Vec<_>>>();
        is_over.store(true, Ordering::Relaxed);
        changes.join().expect("its panic is printed already")?;
        files
    })
}

/// Switches from one regime to the next until the checks are over.
fn change(throttle: &Throttle, disk: &Loop, is_over: &AtomicBool) -> Result<()> {
    for (reads, writes, seconds) in REGIMES.into_iter().cycle() {
        throttle.set(disk, "read_iops", reads)?;
        throttle.set(disk, "write_iops", writes)?;
        for _ in 0..seconds * 10 {
            if is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
    Ok(())
}
