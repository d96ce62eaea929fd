//! `cargo xtask truth --programs FILE`: what PostgreSQL, etcd and SQLite felt on randomly drawn disks, and what `qd1
//! check` says about them.
//!
//! Each disk is simulated, in real time. FILE gets a line of JSON for each: the disk, the figures that criteria may
//! use, and what the programs felt. A disk that already has a line is skipped, so that a campaign can be interrupted
//! and continued; for one whose line has no `etcd`, only that part is measured. If a disk has several lines, the last
//! counts.

use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::{Context as _, Result};
use qd1_lab::{Simulated, as_root, cmd, interrupted};
use serde_json::{Value, json};

use super::cluster;

/// The first seed of the disks used to set thresholds, and of those used once to test them.
pub(crate) const TUNING: u64 = 1000;
pub(crate) const UNSEEN: u64 = 2000;
/// Distance between the seeds of the disks in one cluster.
const OTHER: u64 = 1_000_000;
/// Disks measured in parallel: the programs wait for a simulated disk nearly all of the time. Those that need the
/// processors yield to those that are timed to the millisecond elsewhere ([`NICE`]).
const LANES: usize = 3;
/// Niceness of PostgreSQL and SQLite, whose clients wait for milliseconds anyway.
const NICE: &str = "10";
/// The figures taken from the check: step, kind of operation, metric.
const FIGURES: [(&str, &str, &str); 14] = [
    ("qd1", "read", "lat_p50_ns"),
    ("qd1", "read", "lat_p99_ns"),
    ("qd1", "read", "lat_p999_ns"),
    ("commit1", "commit", "lat_p50_ns"),
    ("commit1", "commit", "lat_p99_ns"),
    ("commit1", "commit", "lat_p999_ns"),
    ("commit4", "commit", "lat_p50_ns"),
    ("commit4", "commit", "lat_p99_ns"),
    ("commit4", "commit", "lat_p999_ns"),
    ("wal", "commit", "sync_p99_ns"),
    ("paced", "commit", "stall_share"),
    ("paced", "commit", "stall_longest_ns"),
    ("read32", "read", "iops"),
    ("read32", "read", "lat_p99_ns"),
];
/// A commit and hardly anything else.
const COMMIT_ONLY: &str = "\\set aid random(1, 100000 * :scale)\n\
                           UPDATE pgbench_accounts SET abalance = abalance + 1 WHERE aid = :aid;\n";

/// Numbers drawn one after another (SplitMix64).
struct Dice(u64);

impl Dice {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) >> 11) as f64 / (1u64 << 53) as f64
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low + self.unit() * (high - low)
    }

    fn log_between(&mut self, low: f64, high: f64) -> f64 {
        self.between(low.ln(), high.ln()).exp()
    }
}

/// The scenario of a disk.
pub(super) fn scenario(seed: u64) -> String {
    let mut dice = Dice(seed);
    let flush_us = dice.log_between(100.0, 15_000.0);
    let write_us = flush_us * dice.log_between(0.05, 0.5);
    let read_us = dice.log_between(80.0, 10_000.0);
    let sigma = dice.between(0.15, 0.7);
    let slow = (dice.unit() < 0.5).then(|| (dice.log_between(0.002, 0.05), dice.log_between(4.0, 30.0)));
    let law = |median_us: f64| {
        let tail = slow.map_or_else(String::new, |(weight, factor)| {
            format!(", {{ weight = {weight:.4}, median_us = {:.0}, sigma = {sigma:.2} }}", median_us * factor)
        });
        let weight = 1.0 - slow.map_or(0.0, |(weight, _)| weight);
        format!("{{ modes = [{{ weight = {weight:.4}, median_us = {median_us:.0}, sigma = {sigma:.2} }}{tail}] }}")
    };
    let mut device = format!(
        "seed = {seed}\nchannels = {:.0}\nread = {}\nwrite = {}\nflush = {}\n",
        dice.log_between(8.0, 64.0),
        law(read_us),
        law(write_us),
        law(flush_us)
    );
    if dice.unit() < 0.4 {
        let (per_s, length_ms) = (dice.log_between(0.05, 1.0), dice.log_between(30.0, 1500.0));
        device += &format!(
            "neighbours = {{ sigma = 0.0, memory_ms = 1000, stalls_per_s = {per_s:.3}, stall_ms = {length_ms:.0}, stall_sigma = 0.5 }}\n"
        );
    }
    if dice.unit() < 0.25 {
        let rate = dice.log_between(300.0, 5000.0);
        device += &format!("iops = {{ rate = {rate:.0}, burst = {:.0} }}\n", rate * dice.log_between(0.02, 2.0));
    }
    format!(
        "about = \"disk {seed}\"\nsize_mib = 4096\n[device]\n{device}[expect]\ncheck = \"\"\nfindings = [\"not_a_disk\"]\n"
    )
}

/// Measures `count` disks with seeds starting at `from`.
pub(crate) fn run(file: &Path, from: u64, count: u64) -> Result<()> {
    as_root("a FUSE mount and other users' servers")?;
    let binaries = super::binaries(&["qd1", "qd1-simdisk"])?;
    let known: BTreeMap<u64, Value> = fs::read_to_string(file)
        .unwrap_or_default()
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|line| Some((line["seed"].as_u64()?, line)))
        .collect();
    let out = Mutex::new(OpenOptions::new().create(true).append(true).open(file)?);
    let next = AtomicU64::new(from);
    std::thread::scope(|scope| {
        let lane = || -> Result<()> {
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= from + count {
                    return Ok(());
                }
                let before = known.get(&seed);
                if before.is_some_and(|line| line["etcd"].is_object()) {
                    continue;
                }
                interrupted()?;
                let line = measure(&binaries, seed, before).with_context(|| format!("disk {seed}"));
                let line = match line {
                    Ok(line) => line,
                    Err(error) => {
                        interrupted()?;
                        eprintln!("programs: {error:#}");
                        continue;
                    }
                };
                println!("programs: disk {seed} is done");
                writeln!(out.lock().expect("no lane panics"), "{line}")?;
            }
        };
        let lanes: Vec<_> = (0..LANES).map(|_| scope.spawn(lane)).collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("its panic is printed already"))
    })
}

/// The line of a disk; if it lacks only etcd's part, that part is added.
fn measure(binaries: &Path, seed: u64, before: Option<&Value>) -> Result<Value> {
    let mut line = before.map_or_else(|| check_and_databases(binaries, seed), |line| Ok(line.clone()))?;
    line["etcd"] = or_its_error(etcd(binaries, seed))?;
    Ok(line)
}

/// Three members, each with its own disk: the same law, different random times.
fn etcd(binaries: &Path, seed: u64) -> Result<Value> {
    let disk = |number: u64| {
        let own = format!("seed = {}\n", seed + number * OTHER);
        Simulated::mount(binaries, &scenario(seed).replace(&format!("seed = {seed}\n"), &own))
    };
    let disks = [disk(0)?, disk(1)?, disk(2)?];
    cluster::run(&disks.each_ref().map(|disk| &disk.dir), disks[0].place())
}

fn check_and_databases(binaries: &Path, seed: u64) -> Result<Value> {
    let text = scenario(seed);
    let disk = Simulated::mount(binaries, &text)?;
    let qd1 = binaries.join("qd1");
    let script = disk.place().join("commit.sql");
    fs::write(&script, COMMIT_ONLY)?;
    let json = ["--json", "--no-save", "--quiet"];
    let check = |args: &[&str]| cmd::json(Command::new(&qd1).arg("check").arg(&disk.dir).args(args).args(json));
    let app = |name: &str, args: &[&str]| {
        let mut nice = Command::new("nice");
        nice.args(["-n", NICE]).arg(&qd1).args(["app", name]).arg(&disk.dir);
        felt(cmd::json(nice.args(args).args(json)))
    };
    let check = check(&["--size", "256MiB", "--only", "qd1,commit1,commit4,wal,paced,read32"])?;
    let figures: Vec<Value> = FIGURES
        .iter()
        .map(|(step, op, metric)| json!({ "step": step, "op": op, "metric": metric, "figure": figure(&check, step, op, metric) }))
        .collect();
    let postgres = |more: &[&str]| app("postgres", &[&["--clients", "10", "--warmup", "2s"], more].concat());
    let script = script.to_string_lossy();
    // Small, since filling the tables takes most of the time on a slow disk.
    let read_write = postgres(&["--scale", "5", "--runtime", "8s"])?;
    let commits = postgres(&["--scale", "1", "--runtime", "8s", "--script", &script])?;
    let at_own_times = postgres(&["--scale", "5", "--runtime", "20s", "--rate", "50"])?;
    let sqlite = |journal| {
        let rows = ["--runtime", "4s", "--rows", "20000", "--synchronous", "full", "--journal", journal];
        app("sqlite", &rows)
    };
    let (sqlite_wal, sqlite_delete) = (sqlite("wal")?, sqlite("delete")?);
    Ok(json!({
        "seed": seed,
        "scenario": text,
        "figures": figures,
        "postgres": read_write,
        "postgres_commits": commits,
        "postgres_at_own_times": at_own_times,
        "sqlite_wal": sqlite_wal,
        "sqlite_delete": sqlite_delete,
    }))
}

/// One figure of a report: value, low, high.
fn figure(report: &Value, step: &str, op: &str, metric: &str) -> Value {
    let named = |list: &Value, key: &str, name: &str| {
        list.as_array().into_iter().flatten().find(|one| one[key] == name).cloned().unwrap_or_default()
    };
    let stream = named(&named(&report["summary"]["steps"], "name", step)["streams"], "class", op);
    let figure = &stream[metric];
    json!({ "value": figure["value"], "low": figure["low"], "high": figure["high"] })
}

/// What the clients of a program felt under its first load: requests per second, and their latencies.
fn felt(report: Result<Value>) -> Result<Value> {
    or_its_error(report.map(|report| {
        let rate = &report["summary"]["steps"][0]["streams"][0]["iops"]["value"];
        json!({ "rate": rate, "lat": report["record"]["steps"][0]["streams"][0]["lat"] })
    }))
}

/// A program that could not run on a disk counts as well.
fn or_its_error(felt: Result<Value>) -> Result<Value> {
    felt.or_else(|error| {
        interrupted()?;
        Ok(json!({ "error": format!("{error:#}") }))
    })
}
