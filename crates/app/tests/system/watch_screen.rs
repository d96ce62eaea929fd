//! The screen of `qd1 watch` in a terminal, and its latencies, on disks of known behaviour.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use qd1_engine::sim::Service;
use qd1_simdisk::{Fault, FaultEffect, RequestKind, Scenario};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::apps::disk_with_flushes_of;
use crate::common::disk::Disk;
use crate::common::{Running, is_root, or_skip, qd1, traced, wait_until};
use qd1_lab::{Loop, Terminal, tool};

/// A loop device on a simulated disk, with direct I/O. Fields are dropped in this order.
struct Device {
    device: Loop,
    _disk: Disk,
}

impl Device {
    fn new(scenario: Scenario) -> Result<Self, String> {
        let disk = Disk::new(scenario)?;
        let file = disk.place.dir().join("image");
        File::create(&file).unwrap().set_len(64 << 20).unwrap();
        Ok(Self { device: Loop::direct(&file)?, _disk: disk })
    }

    /// Reads of 4 KiB each by dd, with direct I/O.
    fn reads(&self, count: u32) -> Command {
        let mut dd = Command::new("dd");
        dd.arg(format!("if={}", self.device.path())).args(["of=/dev/null", "bs=4k", "iflag=direct"]);
        dd.args(["status=none", &format!("count={count}")]);
        dd
    }

    fn name(&self) -> String {
        self.device.path().trim_start_matches("/dev/").to_owned()
    }
}

/// A terminal that runs `qd1 watch`, and its directory.
pub(crate) struct Screen {
    pub(crate) terminal: Terminal,
    _dir: TempDir,
    status: PathBuf,
}

impl Screen {
    pub(crate) fn new(size: [u16; 2], before: &str, args: &str) -> Self {
        let dir = TempDir::new().unwrap();
        let status = dir.path().join("status");
        let script = format!("{before} {} watch --no-save {args}; echo $? >{}; sleep 600", qd1(), status.display());
        Self { terminal: Terminal::new(dir.path(), size, &script).unwrap(), _dir: dir, status }
    }

    /// Returns the screen as soon as `is_so` accepts it, or after some seconds.
    pub(crate) fn when(&self, is_so: impl Fn(&str) -> bool) -> String {
        let begin = qd1_lab::clock::now();
        loop {
            let screen = self.terminal.screen().unwrap();
            if is_so(&screen) || begin.elapsed() > Duration::from_secs(15) {
                return screen;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Quits with `q` and returns the exit code.
    pub(crate) fn ended(&self) -> String {
        self.terminal.type_keys(&["q"]).unwrap();
        self.when(|_| self.status.exists());
        std::fs::read_to_string(&self.status).unwrap_or_default().trim().to_owned()
    }
}

fn needs() -> Result<(), String> {
    if !is_root() {
        return Err("it needs root".to_owned());
    }
    Ok(tool("tmux", &["-V"]).map(drop)?)
}

#[test]
fn a_request_that_hangs_is_shown_with_who_waits_and_the_screen_stays_alive() {
    or_skip!(needs());
    let mut scenario = disk_with_flushes_of(100e3);
    let effect = FaultEffect::Hang(12_000);
    scenario.faults =
        vec![Fault { on: RequestKind::Read, what: effect, at: Some(8 << 20), rate: 1.0, after: 0, times: 1 }];
    let disk = or_skip!(Device::new(scenario));
    let screen = Screen::new([80, 24], "", &disk.name());
    assert!(screen.when(|screen| screen.contains("Device")).contains("r_await"));
    let mut dd = disk.reads(1);
    dd.arg("skip=2048");
    let _dd = Running::start(dd);
    let begin = qd1_lab::clock::now();
    let first = screen.when(|screen| screen.contains("WAITING"));
    let took = begin.elapsed();
    let what = format!(" s: read of 4 KiB on {} in the device, for dd ", disk.name());
    assert!(first.contains(&what), "{first}");
    // Two seconds on an idle machine, but other tests use the processors at the same time.
    assert!(took < Duration::from_secs(10), "{took:?}");
    let clock = |screen: &str| screen.lines().next().unwrap_or_default().to_owned();
    let later = screen.when(|screen| screen.contains("WAITING") && clock(screen) != clock(&first));
    assert_ne!(clock(&first), clock(&later), "the screen should keep updating");
    let over = screen.when(|screen| !screen.contains("WAITING"));
    assert!(!over.contains("WAITING"), "{over}");
    assert_eq!(screen.ended(), "0");
}

#[test]
fn processes_and_their_syncs_are_on_the_screen_and_keys_work() {
    or_skip!(needs());
    let disk = or_skip!(Disk::new(disk_with_flushes_of(20e6)));
    let file = disk.place.dir().join("image");
    File::create(&file).unwrap().set_len(256 << 20).unwrap();
    let device = or_skip!(Loop::direct(&file));
    or_skip!(device.make_filesystem("ext4"));
    let mounted = or_skip!(qd1_lab::Mounted::new(device, "defaults"));
    let screen = Screen::new([100, 30], "", mounted.path().to_str().unwrap());
    let mut dd = Command::new("dd");
    dd.arg(format!("of={}", mounted.path().join("file").display()));
    dd.args(["if=/dev/zero", "bs=4k", "oflag=dsync", "count=100000", "status=none"]);
    let _dd = Running::start(dd);
    let line = |screen: &str| screen.lines().find(|line| line.contains(" dd ")).unwrap_or_default().to_owned();
    let waits =
        |screen: &str| line(screen).split_whitespace().rev().nth(3).is_some_and(|ms| ms.parse().unwrap_or(0) > 500);
    let shown = screen.when(waits);
    assert!(waits(&shown), "nearly all of each second should go to syncs: {shown}");
    assert!(shown.contains("flush") && shown.contains("write "), "latencies by operation: {shown}");
    screen.terminal.type_keys(&["/", "x", "y", "z"]).unwrap();
    let filtered = screen.when(|screen| screen.contains("contains: xyz") && line(screen).is_empty());
    assert!(line(&filtered).is_empty() && filtered.contains("contains: xyz_"), "{filtered}");
    screen.terminal.type_keys(&["Escape"]).unwrap();
    // tmux waits for a while whether more bytes follow an escape.
    assert!(!line(&screen.when(|screen| !line(screen).is_empty())).is_empty(), "all processes should be shown again");
    screen.terminal.type_keys(&["h"]).unwrap();
    assert!(screen.when(|screen| screen.contains("Keys")).contains("this help"));
    assert_eq!(screen.ended(), "0");
}

/// Regression: it kept reading the end of its input forever, which used a whole processor.
#[test]
fn it_ends_when_its_terminal_is_closed() {
    or_skip!(needs());
    let dir = TempDir::new().unwrap();
    let pid = dir.path().join("pid");
    let script = format!("echo $$ >{}; exec {} watch --no-save", pid.display(), qd1());
    let terminal = Terminal::new(dir.path(), [80, 24], &script).unwrap();
    let is_drawn = || terminal.screen().unwrap().contains("Device");
    wait_until("the first screen", is_drawn);
    let process = format!("/proc/{}", std::fs::read_to_string(&pid).unwrap().trim());
    assert!(Path::new(&process).exists());
    drop(terminal);
    wait_until("its end", || !Path::new(&process).exists());
}

#[test]
fn an_ordinary_user_sees_the_counters_and_why_the_rest_is_missing() {
    or_skip!(needs());
    let screen = Screen::new([80, 24], "setpriv --reuid=65534 --regid=65534 --clear-groups", "");
    let shown = screen.when(|screen| screen.contains("no latencies"));
    assert!(shown.contains("no latencies, syncs or waits: ") && shown.contains("r_await"), "{shown}");
    assert_eq!(screen.ended(), "0");
}

/// The latencies of reads for each second, from before `reads` starts until after it ends.
fn totals_during(disk: &str, reads: &mut Command) -> Vec<Value> {
    let mut watch = Command::new(qd1());
    watch.args(["watch", disk, "--latencies", "--json", "--batch", "1"]);
    let mut watch = Running::start(watch);
    let mut lines = BufReader::new(watch.0.stdout.take().unwrap()).lines();
    // Once the first report arrives, recording has started.
    lines.next().expect("watch should start").unwrap();
    let mut reads = reads.spawn().unwrap();
    let (mut totals, mut after) = (Vec::new(), 0);
    while after < 2 {
        after += u32::from(reads.try_wait().unwrap().is_some());
        let report: Value = lines.next().expect("watch should go on").unwrap().parse().unwrap();
        totals.push(report["disk"][0]["latency"]["read"]["total"].clone());
    }
    assert!(reads.wait().unwrap().success());
    totals
}

/// Regression: without iostats, the kernel leaves the timestamp of an earlier request, so latencies came out seconds
/// too long.
#[test]
fn a_stale_timestamp_of_an_earlier_request_is_not_used() {
    or_skip!(needs());
    let disk = or_skip!(Loop::new(16 << 20, &[]));
    let from = format!("if={}", disk.path());
    let args = ["of=/dev/null", "bs=4k", "iflag=direct", "status=none", &from];
    tool("dd", &args).unwrap();
    let name = disk.path().trim_start_matches("/dev/");
    let _wbt = or_skip!(disk.set_queue("wbt_lat_usec", "0"));
    let _iostats = or_skip!(disk.set_queue("iostats", "0"));
    std::thread::sleep(Duration::from_secs(2));
    let totals = totals_during(name, Command::new("dd").args(args));
    let count: u64 = totals.iter().map(|total| total["count"].as_u64().unwrap_or(0)).sum();
    assert!(count >= 4000, "{totals:?}");
    // With the bug, every median was two seconds or more.
    let medians: Vec<u64> = totals.iter().filter_map(|total| total["p50_ns"].as_u64()).collect();
    assert!(medians.iter().all(|ns| *ns < 1_000_000_000), "{medians:?}");
}

#[test]
fn latencies_are_those_of_the_requests() {
    or_skip!(needs());
    let mut scenario = disk_with_flushes_of(100e3);
    scenario.device.read = Service::log_normal(4e6, 0.5);
    let disk = or_skip!(Device::new(scenario));
    // Both record the same requests, each with its own timestamps.
    let mut buckets: BTreeMap<u64, u64> = BTreeMap::new();
    let requests = traced(disk.device.path(), &["--op", "read"], || {
        for total in totals_during(&disk.name(), &mut disk.reads(600)) {
            for bucket in total["buckets"].as_array().into_iter().flatten() {
                *buckets.entry(bucket[0].as_u64().unwrap()).or_default() += bucket[1].as_u64().unwrap();
            }
        }
    });
    let mut totals: Vec<f64> = requests
        .iter()
        .filter(|request| request["type"] == "request")
        .map(|request| request["queue_ns"].as_f64().unwrap_or(0.0) + request["device_ns"].as_f64().unwrap())
        .collect();
    totals.sort_by(f64::total_cmp);
    let count: u64 = buckets.values().sum();
    // The kernel does not report every completion.
    assert!(count >= 590 && count.abs_diff(totals.len() as u64) <= 10, "{count} and {} of 600", totals.len());
    for share in [0.5, 0.9, 0.99] {
        let rank = (count as f64 * share) as u64;
        let mut seen = 0;
        let bucket = buckets.iter().find(|(_, count)| {
            seen += **count;
            seen > rank
        });
        let (ours, traced) = (*bucket.unwrap().0 as f64, totals[(totals.len() as f64 * share) as usize]);
        // `ours` is the lower end of a bucket that is a sixteenth wide, and each may have missed different requests.
        assert!((0.85..1.05).contains(&(ours / traced)), "{share}: {ours} by watch, {traced} by trace");
    }
}
