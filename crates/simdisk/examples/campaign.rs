//! How often `check`'s intervals contain the truth: many runs of the real binary on a simulated disk, each with its own
//! seed. `cargo run -p qd1-simdisk --example campaign -- QD1 [RUNS] [SCENARIO] [RUNTIME] [IN PARALLEL]`
//!
//! QD1 is the binary. The default is 60 runs of `oversold-slow` with 300 s for each step, 30 in parallel: such a disk
//! hardly uses the processor, and p99.9 needs thousands of requests. The disk's seeds begin at 600,000, which no test
//! uses. Both sides run with real-time priority if that is granted, so that other programs on the machine do not count
//! as part of the disk. Disks are mounted one after another, since each then measures the cost of its path through
//! FUSE. Meanwhile a process of the lowest priority keeps each processor busy: a sleeping processor takes long to wake,
//! in a virtual machine up to a millisecond, which would be charged to the disk (its medians would be 3 % too slow).
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail};
use qd1_simdisk::compare::{Stated, Truth};
use qd1_simdisk::{Mounted, Scenario};

const FIRST_SEED: u64 = 600_000;
const DRAWS: usize = 1_000_000;

/// Held while a disk is mounted.
static MOUNTING: Mutex<()> = Mutex::new(());

/// How often a figure was stated, contained the truth, was not resolved, and was stated too low; and the sum of the
/// figures' relative errors.
#[derive(Default)]
struct Tally {
    stated: u32,
    held: u32,
    unresolved: u32,
    below: u32,
    beside: f64,
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(qd1) = arguments.first() else { bail!("usage: campaign QD1 [RUNS] [SCENARIO] [RUNTIME]") };
    let runs: u64 = arguments.get(1).map_or(Ok(60), |runs| runs.parse())?;
    let scenario = Scenario::named(arguments.get(2).map_or("oversold-slow", String::as_str))?;
    let runtime = arguments.get(3).map_or("300s", String::as_str);
    let at_once: usize = arguments.get(4).map_or(Ok(30), |count| count.parse())?;
    if let Some(why) = Mounted::unavailable() {
        bail!("cannot mount a disk: {why}");
    }
    let truth = Truth::new(&scenario.device, DRAWS);
    let _awake = Awake::keep();
    let mut tallies: BTreeMap<String, Tally> = BTreeMap::new();
    for (run, measured) in all(runs, at_once, |run| {
        let mut scenario = scenario.clone();
        scenario.device.seed = FIRST_SEED + run;
        measure(Path::new(qd1), &scenario, runtime)
    }) {
        let (report, late_ns) = measured?;
        let mut misses = Vec::new();
        for compared in truth.compare(&report) {
            let tally = tallies.entry(compared.what.clone()).or_default();
            let Some((stated, holds)) = compared.stated_ns.zip(compared.holds()) else {
                tally.unresolved += 1;
                continue;
            };
            tally.beside += stated.value / compared.truth_ns - 1.0;
            tally.stated += 1;
            tally.held += u32::from(holds);
            if !holds {
                tally.below += u32::from(stated.high < compared.truth_ns);
                let Stated { low, high, .. } = stated;
                misses.push(format!("{} [{low:.0}..{high:.0}] truth {:.0}", compared.what, compared.truth_ns));
            }
        }
        println!("run {run}: answers late by p50, p99, max {late_ns:?} ns; misses: {misses:?}");
    }
    println!(
        "\n{:28} {:>7} {:>6} {:>8} {:>12} {:>11} {:>11}",
        "figure", "stated", "held", "share", "too low", "unresolved", "mean error"
    );
    let (mut stated, mut held) = (0, 0);
    for (what, tally) in &tallies {
        let share = 100.0 * f64::from(tally.held) / f64::from(tally.stated.max(1));
        println!(
            "{what:28} {:>7} {:>6} {share:>6.1} % {:>12} {:>11} {:>+9.2} %",
            tally.stated,
            tally.held,
            tally.below,
            tally.unresolved,
            100.0 * tally.beside / f64::from(tally.stated.max(1))
        );
        stated += tally.stated;
        held += tally.held;
    }
    println!("all: {held} of {stated} = {:.1} %; target 93 %", 100.0 * f64::from(held) / f64::from(stated.max(1)));
    Ok(())
}

/// Busy loops at the lowest priority, one on each processor; they end with this program.
struct Awake(Vec<Child>);

impl Awake {
    fn keep() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        let idle = || Command::new("chrt").args(["--idle", "0", "sh", "-c", "while :; do :; done"]).spawn().ok();
        Self((0..processors).filter_map(|_| idle()).collect())
    }
}

impl Drop for Awake {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Makes all runs, several in parallel, in the order of their numbers.
fn all<T: Send>(runs: u64, at_once: usize, one: impl Fn(u64) -> T + Sync) -> Vec<(u64, T)> {
    let next = AtomicU64::new(0);
    let work = || {
        let mut mine = Vec::new();
        loop {
            let run = next.fetch_add(1, Ordering::Relaxed);
            if run >= runs {
                return mine;
            }
            mine.push((run, one(run)));
        }
    };
    let mut made: Vec<(u64, T)> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..at_once.max(1)).map(|_| scope.spawn(work)).collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("its panic is printed already")).collect()
    });
    made.sort_by_key(|(run, _)| *run);
    made
}

fn measure(qd1: &Path, scenario: &Scenario, runtime: &str) -> Result<(serde_json::Value, [u64; 3])> {
    let place = tempfile::tempdir()?;
    let dir = place.path().join("disk");
    std::fs::create_dir(&dir)?;
    let mounted = {
        let _alone = MOUNTING.lock().unwrap_or_else(PoisonError::into_inner);
        Mounted::new(scenario, &dir)?
    };
    let mut command = Command::new("chrt");
    command.args(["-f", "5"]).arg(qd1).arg("check").arg(&dir);
    command.args(["--only", "qd1,commit1", "--size", "16MiB", "--runtime", runtime, "--json", "--no-save"]);
    let output = command.output().context("cannot start chrt (util-linux)")?;
    if !output.status.success() {
        bail!("qd1 failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let late_ns = mounted.served().late_ns;
    Ok((serde_json::from_slice(&output.stdout)?, late_ns))
}
