//! What is left of a watch: a recording that can be played, and a run in the history, with the cause of a known stall.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;

use qd1_simdisk::{Fault, FaultEffect, RequestKind};
use serde_json::Value;

use crate::common::apps::disk_with_flushes_of;
use crate::common::disk::Disk;
use crate::common::{Place, Running, in_group, is_root, or_skip, said};
use crate::watch_screen::Screen;
use qd1_lab::{Loop, Mounted, Throttle, tool};

/// An ext4 filesystem on a simulated disk. Fields are dropped in this order.
struct Ext4 {
    mounted: Mounted,
    _disk: Disk,
}

impl Ext4 {
    fn new(scenario: qd1_simdisk::Scenario) -> Result<Self, String> {
        if !is_root() {
            return Err("it needs root".to_owned());
        }
        let disk = Disk::new(scenario)?;
        let file = disk.place.dir().join("image");
        File::create(&file).unwrap().set_len(256 << 20).unwrap();
        let device = Loop::direct(&file)?;
        device.make_filesystem("ext4")?;
        Ok(Self { mounted: Mounted::new(device, "defaults")?, _disk: disk })
    }

    fn dir(&self) -> &str {
        self.mounted.path().to_str().unwrap()
    }

    fn disk(&self) -> &str {
        self.mounted.disk.path().trim_start_matches("/dev/")
    }

    /// dd, which makes each 4 KiB durable.
    fn commits(&self, mut dd: Command) -> Running {
        dd.args(["if=/dev/zero", "bs=4k", "oflag=dsync", "status=none", "count=100000"]);
        dd.arg(format!("of={}/file", self.dir()));
        Running::start(dd)
    }

    /// Watches the disk for six seconds and records it; returns the file.
    fn recorded(&self, place: &Place, name: &str) -> PathBuf {
        let file = place.dir().join(name);
        let args = ["watch", self.dir(), "--batch", "200ms", "30", "-y", "--record", file.to_str().unwrap()];
        let output = place.command(&args).output().unwrap();
        let error = said(&output.stderr);
        assert!(output.status.success() && error.contains("wrote 30 reports"), "{output:?}");
        assert!(error.contains("kept in the history"), "{error}");
        file
    }
}

#[test]
fn a_watch_is_a_run_that_names_who_waited_for_syncs() {
    let disk = or_skip!(Ext4::new(disk_with_flushes_of(20e6)));
    let place = Place::new();
    let dd = disk.commits(Command::new("dd"));
    let file = disk.recorded(&place, "first");
    disk.recorded(&place, "second");
    drop(dd);
    let show = |args: &[&str]| {
        let output = place.command(&[&["history", "show", "@latest"], args].concat()).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        said(&output.stdout)
    };
    let report: Value = serde_json::from_str(&show(&["--format", "json"])).unwrap();
    let flush = report["watch"]["rows"].as_array().unwrap().iter().find(|row| row["class"] == "flush").unwrap();
    let p50_ns = flush["lat_p50_ns"].as_f64().unwrap();
    assert!((18e6..60e6).contains(&p50_ns), "flushes take 20 ms: {flush}");
    let program = &report["watch"]["programs"][0];
    let share = program["sync_ns"].as_f64().unwrap() / report["watch"]["watched_ns"].as_f64().unwrap();
    assert!(program["comm"] == "dd" && (0.7..1.1).contains(&share), "all of its time is spent on syncs: {program}");
    // On a busy machine, the simulated disk may stand still for a while, which is a finding, too.
    let finding =
        report["findings"].as_array().unwrap().iter().find(|finding| finding["id"] == "watched.syncs").unwrap();
    assert!(finding["title"].as_str().unwrap().starts_with("syncs of dd"), "{finding}");
    for format in ["human", "markdown", "csv", "ndjson", "post"] {
        let text = show(&["--format", format]);
        assert!(text.contains("flush"), "{format}: {text}");
    }
    let shared = show(&["--redact"]);
    assert!(!shared.contains("dd ") && shared.contains("<program>"), "{shared}");
    let page = place.dir().join("page.html");
    let output = place.command(&["report", "@latest", "-o", page.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success() && fs::read_to_string(&page).unwrap().contains("<svg"), "{output:?}");
    let runs = place.runs();
    let [first, second] = [0, 1].map(|at| runs[at]["id"].as_str().unwrap().to_owned());
    let output = place.command(&["compare", &first, &second]).output().unwrap();
    let said_of = said(&output.stdout);
    assert!(output.status.code() == Some(0) && said_of.contains("flush"), "{output:?}");
    // What was recorded is what is played.
    let output = place.command(&["watch", "--play", file.to_str().unwrap(), "--json"]).output().unwrap();
    assert_eq!(said(&output.stdout), fs::read_to_string(&file).unwrap());
    let screen = Screen::new([80, 24], "", &format!("--play {}", file.display()));
    screen.when(|screen| screen.contains("report 2 of 30"));
    screen.terminal.type_keys(&["End"]).unwrap();
    let end = screen.when(|screen| screen.contains("end of the recording, 30 reports"));
    assert!(end.contains("end of the recording") && end.contains(" dd "), "{end}");
    screen.terminal.type_keys(&["Home"]).unwrap();
    let first = screen.when(|screen| screen.contains("report 1 of 30"));
    assert!(first.contains("PAUSED, report 1 of 30"), "{first}");
    assert_eq!(screen.ended(), "0");
    let report = screen.when(|screen| screen.contains("sync wait"));
    assert!(report.split_whitespace().collect::<Vec<_>>().join(" ").contains("dd waited"), "{report}");
}

#[test]
fn the_screen_says_what_a_sync_that_hangs_waits_for() {
    let mut scenario = disk_with_flushes_of(100e3);
    let effect = FaultEffect::Hang(6_000);
    scenario.faults = vec![Fault { on: RequestKind::Flush, what: effect, at: None, rate: 1.0, after: 40, times: 1 }];
    let disk = or_skip!(Ext4::new(scenario));
    or_skip!(tool("tmux", &["-V"]).map(drop));
    let screen = Screen::new([100, 24], "", disk.disk());
    screen.when(|screen| screen.contains("Device"));
    let _dd = disk.commits(Command::new("dd"));
    let is_there = |screen: &str| screen.contains("waits for the journal's commit");
    let shown = screen.when(is_there);
    assert!(is_there(&shown) && shown.contains(" in the device, for "), "{shown}");
    screen.when(|screen| !screen.contains("WAITING"));
    assert_eq!(screen.ended(), "0");
    let report = screen.when(|screen| screen.contains("at least"));
    assert!(report.contains("for the journal's commit"), "{report}");
}

#[test]
fn the_screen_names_the_limit_that_holds_a_sync_back() {
    let disk = or_skip!(Ext4::new(disk_with_flushes_of(100e3)));
    or_skip!(tool("tmux", &["-V"]).map(drop));
    let group = or_skip!(Throttle::new("watch", &disk.mounted.disk, &[("write_iops", 1)]));
    let screen = Screen::new([100, 24], "", disk.disk());
    screen.when(|screen| screen.contains("Device"));
    let _dd = disk.commits(in_group(&group, "dd", &[]));
    let is_there = |screen: &str| screen.contains("waits for its control group's limit (wiops=1)");
    let shown = screen.when(is_there);
    assert!(is_there(&shown), "{shown}");
    assert_eq!(screen.ended(), "0");
}
