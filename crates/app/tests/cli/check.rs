//! `qd1 check` from the command line to the result: what it measures hangs together.
//!
//! The runs are too short for figures; that they add up holds at any length.

use std::fs;

use predicates::prelude::*;
use serde_json::Value;

use crate::common::{self, Place, find, float, int, intervals, list, skip, step, test_name, typed};
use crate::kept::kept;

const STEPS: [&str; 16] = [
    "cold",
    "touch-16m",
    "again-16m",
    "flush-4k",
    "flush-1m",
    "qd1",
    "commit1",
    "commit4",
    "wal",
    "paced",
    "read32",
    "write32",
    "seqread",
    "seqwrite",
    "files",
    "buffered",
];

#[test]
fn a_whole_check_measures_every_step_and_its_figures_add_up() {
    let report = &kept("check").report;
    let ran: Vec<&str> = list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!(ran, STEPS);
    assert_eq!(report["record"]["interrupted"], false);
    for step in list(&report["record"]["steps"]) {
        let plan = find(&report["record"]["plan"]["steps"], "name", step["name"].as_str().unwrap());
        intervals_have_gaps_between_visits_only(step, plan["visits"].as_u64().unwrap_or(1));
        histograms_and_intervals_agree(step);
    }
    commits_are_write_plus_sync(report);
    every_percentile_has_n_and_an_interval_or_is_unresolved(report);
    the_kernel_was_asked_what_we_measured(report);
}

fn intervals_have_gaps_between_visits_only(step: &Value, visits: u64) {
    let name = &step["name"];
    let (mut end, mut covered, mut gaps) = (0, 0, 0);
    for interval in &intervals(step) {
        let (start, length) = (int(&interval["start_ns"]), int(&interval["length_ns"]));
        assert!(start >= end, "{name}: an interval begins before the last one ended");
        assert!(length <= 100_000_000, "{name}: an interval of {length} ns");
        gaps += u64::from(start > end);
        (end, covered) = (start + length, covered + length);
    }
    // A disk that is slow gets more visits.
    assert!((visits - 1..2 * visits).contains(&gaps), "{name}: {gaps} gaps between {visits} visits");
    // Where the step ends with one fsync, nothing completes in that, and no interval is needed.
    assert!(covered + int(&step["end_fsync_ns"]) >= int(&step["runtime_ns"]), "{name}: {covered} ns are covered");
}

fn histograms_and_intervals_agree(step: &Value) {
    let name = &step["name"];
    assert!(!list(&step["streams"]).is_empty(), "{name} measured nothing");
    let (intervals, typed) = (intervals(step), typed(step));
    for (stream, typed) in list(&step["streams"]).iter().zip(&typed.streams) {
        let class = stream["class"].as_str().unwrap();
        let of_class =
            || intervals.iter().flat_map(|interval| list(&interval["streams"])).filter(|s| s["class"] == class);
        let sum = |key: &str| of_class().map(|part| int(&part[key])).sum::<u64>();
        assert_eq!(sum("ios"), int(&stream["lat"]["count"]), "{name} {class}: operations");
        assert_eq!(sum("bytes"), int(&stream["bytes"]), "{name} {class}: bytes");
        assert_eq!(sum("lat_sum_ns"), int(&stream["lat"]["sum_ns"]), "{name} {class}: sum of latencies");
        let binned: u64 = of_class().flat_map(|part| list(&part["bins"])).map(|bin| int(&bin[1])).sum();
        assert_eq!(binned, sum("ios"), "{name} {class}: coarse histograms");
        let slowest: Vec<u64> = typed.slowest.iter().map(|slow| slow.lat_ns).collect();
        assert!(slowest.is_sorted_by(|a, b| a >= b) && !slowest.is_empty(), "{name} {class}: {slowest:?}");
        assert!(slowest[0] <= int(&stream["lat"]["max_ns"]), "{name} {class}: slower than the slowest");
    }
}

fn commits_are_write_plus_sync(report: &Value) {
    for name in ["commit1", "commit4", "wal", "paced"] {
        let commit = find(&step(report, name)["streams"], "class", "commit");
        let (whole, write, sync) = (&commit["lat"], &commit["write_part"], &commit["sync_part"]);
        assert_eq!((&whole["count"], &whole["count"]), (&write["count"], &sync["count"]), "{name}");
        let [whole_ns, write_ns, sync_ns] = [whole, write, sync].map(|hist| int(&hist["sum_ns"]) as f64);
        // Between the two parts there is only our own time.
        assert!(write_ns + sync_ns <= whole_ns * 1.001, "{name}: {write_ns} + {sync_ns} > {whole_ns}");
        assert!(write_ns > 0.0 && sync_ns > 0.0, "{name}");
        assert!(int(&sync["max_ns"]) <= int(&whole["max_ns"]), "{name}: fsync is inside the commit");
    }
}

fn every_percentile_has_n_and_an_interval_or_is_unresolved(report: &Value) {
    for step in list(&report["summary"]["steps"]) {
        for stream in list(&step["streams"]) {
            for key in ["lat_p50_ns", "lat_p99_ns", "lat_p999_ns", "lat_p9999_ns"] {
                let figure = &stream[key];
                let what = format!("{} {} {key}: {figure}", step["name"], stream["class"]);
                assert_eq!(figure["n"], stream["ios"], "{what}");
                if figure["value"].is_null() {
                    assert!(int(&figure["n_needed"]) > int(&figure["n"]), "{what}");
                } else {
                    let [low, value, high] = ["low", "value", "high"].map(|key| float(&figure[key]));
                    assert!(low <= value && value <= high, "{what}");
                }
            }
        }
    }
}

/// Other programs may use the disk, and caches may answer: only what cannot be otherwise is asserted.
fn the_kernel_was_asked_what_we_measured(report: &Value) {
    for step in list(&report["record"]["steps"]) {
        let device = &step["device"];
        if device.is_null() || step["name"] == "files" {
            continue;
        }
        for (class, asked) in [("read", "asked_reads"), ("write", "asked_writes"), ("commit", "asked_syncs")] {
            if let Some(stream) = list(&step["streams"]).iter().find(|stream| stream["class"] == class) {
                // The ramp is asked for as well, and not measured.
                assert!(int(&device[asked]) >= int(&stream["lat"]["count"]), "{}: {device}", step["name"]);
            }
        }
        if step["direct"] == true && report["record"]["plan"]["target"]["filesystem"] == "ext4" {
            let counted = int(&device["counted"]["read_bytes"]) + int(&device["counted"]["write_bytes"]);
            let asked = int(&device["asked_read_bytes"]) + int(&device["asked_write_bytes"]);
            assert!(counted >= asked, "{}: the kernel counted {counted} B of {asked} B", step["name"]);
        }
    }
}

#[test]
fn without_a_command_it_is_check_of_this_directory() {
    let place = Place::new();
    let report = common::json(place.qd1(&["--size", "32MiB", "--runtime", "100ms", "--only", "read32", "--json"]));
    assert_eq!(report["record"]["plan"]["target"]["path"], place.dir().canonicalize().unwrap().to_str().unwrap());
    assert_eq!(report["record"]["command"][1], "check");
}

#[test]
fn the_same_seed_gives_the_same_plan_and_another_one_another() {
    let place = Place::new();
    let of = |seed: &str| place.report(&["--only", "read32,wal", "--seed", seed])["record"]["plan"].clone();
    let (first, second, other) = (of("7"), of("7"), of("8"));
    assert_eq!(first, second);
    assert_eq!(int(&first["seed"]), 7);
    assert_ne!(first, other);
}

#[test]
fn the_command_to_run_it_again_works_from_anywhere() {
    let place = Place::new();
    let path = std::path::Path::new(common::qd1()).parent().unwrap().to_str().unwrap().to_owned();
    for name in ["it's a name", "-dash"] {
        fs::create_dir(place.dir().join(name)).unwrap();
        let first =
            common::json(place.qd1(&["--json", "--size", "32MiB", "--runtime", "50ms", "--only", "qd1", "--", name]));
        let id = first["record"]["id"].as_str().unwrap();
        let shown = place.qd1(&["history", "show", id]).output().unwrap().stdout;
        let shown = String::from_utf8(shown).unwrap();
        let command = shown.lines().find(|line| line.starts_with("  qd1 check ")).expect("a command to paste");
        let mut shell = std::process::Command::new("sh");
        let shell_env = place.environment(&mut shell);
        shell_env.env("PATH", format!("{path}:/usr/bin:/bin")).current_dir("/").args(["-c", command]);
        let second = common::json(assert_cmd::Command::from_std(shell));
        assert_eq!(first["record"]["plan"], second["record"]["plan"]);
    }
}

#[test]
fn steps_left_out_are_named_with_the_reason() {
    let report = Place::new().report(&["--only", "read32,files"]);
    let skipped = &report["record"]["plan"]["skipped"];
    assert_eq!(list(skipped).len(), STEPS.len() - 2);
    assert_eq!(find(skipped, "name", "qd1")["why"], "left out by --only");
    // Nor is anything judged by them; where there is no disk, nothing is at all.
    for verdict in report["verdicts"].as_array().into_iter().flatten() {
        assert_eq!(verdict["title"], "web and file servers (by read32 alone)");
    }
}

#[test]
fn each_engine_asked_for_is_the_one_that_ran() {
    let place = Place::new();
    for engine in ["psync", "libaio", "io_uring"] {
        let output = place.brief(&["--json", "--only", "read32", "--engine", engine]).output().unwrap();
        if output.status.code() == Some(5) {
            let why = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(why.contains(engine), "{why}");
            skip(test_name!(), &format!("{engine} cannot be had here"));
            continue;
        }
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(step(&report, "read32")["engine"], engine);
        assert_eq!(find(&report["summary"]["steps"], "name", "read32")["engine"], engine);
    }
}

#[test]
fn the_null_engine_measures_the_instrument_and_asks_no_disk() {
    // Far more than a disk, unless the machine stands still.
    let is_fast = || {
        let report = Place::new().report(&["--only", "read32", "--engine", "null"]);
        let step = step(&report, "read32");
        assert_eq!(step["engine"], "null");
        int(&find(&step["streams"], "class", "read")["lat"]["count"]) > 1_000
    };
    assert!((0..3).any(|_| is_fast()), "at most a thousand requests in three runs");
}

#[test]
fn a_threshold_decides_the_exit_code_only_with_fail_on() {
    let place = Place::new();
    let thresholds = place.beside("mine.toml");
    // No disk reads in no time at all.
    fs::write(&thresholds, common::thresholds("qd1", "read", "lat_p50_ns", 0.0, 0.0)).unwrap();
    let args = ["--only", "qd1", "--thresholds", thresholds.to_str().unwrap()];
    place.brief(&args).assert().code(0).stdout(predicate::str::contains("mine"));
    place.brief(&[&args[..], &["--fail-on", "not-resolved"]].concat()).assert().code(3);
}

#[test]
fn a_given_file_is_only_read() {
    let place = Place::new();
    let file = place.beside("given.bin");
    let content: Vec<u8> = (0..32u32 << 20).map(|byte| (byte.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::write(&file, &content).unwrap();
    let args = ["check", file.to_str().unwrap(), "--runtime", "100ms", "--json"];
    let report = common::json(place.qd1(&args));
    assert!(fs::read(&file).unwrap() == content, "the file was changed");
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(ran, ["cold", "touch-16m", "again-16m", "qd1", "paced", "read32", "seqread"]);
    assert!(
        find(&report["record"]["plan"]["skipped"], "name", "commit1")["why"].as_str().unwrap().contains("only read")
    );
}
