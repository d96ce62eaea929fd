//! `qd1 meta` from the command line to its result, on real filesystems, with few files: what is asserted holds for any
//! number.

use std::fs;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{self, Place, Running, find, float, int, json, list, names, wait_until};
use crate::kept::kept;

const FEW: [&str; 5] = ["--files", "600", "--per-dir", "100", "--quiet"];
const OPS: [&str; 7] = ["create", "stat", "open", "list", "rename", "link", "delete"];

fn row<'a>(report: &'a Value, step: &str) -> &'a Value {
    find(&report["meta"]["rows"], "step", step)
}

#[test]
fn every_operation_is_measured_in_both_orders() {
    let report = &kept("meta").report;
    let steps: Vec<&str> = list(&report["meta"]["rows"]).iter().map(|row| row["step"].as_str().unwrap()).collect();
    let expected: Vec<String> = ["seq", "rand"].iter().flat_map(|o| OPS.map(|op| format!("{o}-{op}"))).collect();
    assert_eq!(steps, expected);
    for row in list(&report["meta"]["rows"]) {
        let wanted = if row["op"] == "list" { 1000 } else { 600 };
        assert_eq!((int(&row["ios"]), &row["ended"], int(&row["errors"])), (wanted, &Value::from("done"), 0), "{row}");
        assert!(float(&row["seen_per_second"]) > 0.0 && float(&row["cpu_share"]) >= 0.0);
        assert_eq!(int(&row["lat_p50_ns"]["n"]), wanted);
        assert_eq!(row["bytes_per_second"].is_object(), row["op"] == "create" || row["op"] == "open", "{row}");
    }
    // Both orders make the same files, since their names and sizes come from the seed.
    let bytes = |step| int(&find(&common::step(report, step)["streams"], "class", "open")["bytes"]);
    assert!(bytes("seq-open") > 600 * 1024 && bytes("rand-open") > 600 * 1024);
}

#[test]
fn syncs_are_shown_beside_the_operations_that_wait_for_them() {
    let place = Place::new();
    let args = [&FEW[..], &["--ops", "rename", "--order", "sequential", "--fsync", "files,dir", "--json"]].concat();
    let report = json(place.on("meta", &args));
    for (step, syncs) in [("seq-create", 1200), ("seq-rename", 600), ("seq-delete", 600)] {
        let row = row(&report, step);
        // A machine that stalls may leave either unresolved.
        if let (Some(sync), Some(whole)) = (row["sync_p50_ns"]["value"].as_f64(), row["lat_p50_ns"]["value"].as_f64()) {
            assert!(sync <= whole, "{row}");
        }
        let device = &common::step(&report, step)["device"];
        if !device.is_null() {
            assert_eq!(int(&device["asked_syncs"]), syncs);
        }
    }
}

/// A run of so many files that it is under way for a while; returns once some are there.
fn under_way(place: &Place) -> Running {
    let mut run = Running::start(place.command(&["meta", place.dir_str(), "--files", "1M", "--file-size", "0", "-v"]));
    wait_until("files are made", || {
        run.assert_running();
        names(place.dir()).iter().any(|name| {
            let group = place.dir().join(name).join("files-1/d000001");
            group.exists() && fs::read_dir(group).is_ok_and(|files| files.count() > 100)
        })
    });
    run
}

#[test]
fn a_run_that_is_stopped_prints_its_part_and_removes_its_files() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let place = Place::new();
        let mut run = under_way(&place);
        run.signal(signal);
        let stdout = run.0.stdout.take().unwrap();
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
        wait_until("it ends", || !run.is_running());
        assert_eq!(run.0.wait().unwrap().code(), Some(code));
        assert!(reader.join().unwrap().contains("interrupted after"));
        place.assert_empty();
        assert_eq!(place.runs().len(), 1);
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_file() {
    let place = Place::new();
    let mut run = under_way(&place);
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("its files are gone", || names(place.dir()).is_empty());
}
