//! `qd1 sync` from the command line to its result: on a real disk too briefly for figures, on a simulated one in real time with
//! its truth.

mod common;

use std::fs;
use std::path::Path;

use common::{Place, json, list, schema, skip, text};
use predicates::prelude::*;
use qd1_model::Report;
use qd1_model::plan::Sync;
use qd1_simdisk::truth::Law;
use qd1_simdisk::{Mounted, Scenario};
use serde_json::Value;
use tempfile::TempDir;

/// Every step for a moment.
const BRIEF: [&str; 7] = ["--quick", "--size", "16MiB", "--runtime", "30ms", "--quiet", "--seed=7"];

fn sync(place: &Place, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["sync", place.dir_str()], &BRIEF[..], args].concat())
}

fn rows(report: &Value) -> &[Value] {
    list(&report["sync"]["rows"])
}

#[test]
fn every_method_is_measured_and_the_history_shows_the_same_table_again() {
    let place = Place::new();
    let report = json(sync(&place, &["--json"]));
    place.assert_empty();
    let skipped = list(&report["record"]["plan"]["skipped"]).len();
    let methods: Vec<&Value> = rows(&report)
        .iter()
        .filter(|row| row["writes_per_sync"] == 1 && row["block"] == 8192 && row["committers"] == 1)
        .filter(|row| row["layout"] == "overwrite")
        .collect();
    // Where O_DIRECT is refused, half of them are left out and said to be.
    assert_eq!(2 * methods.len() + skipped, 24, "{methods:?}");
    for row in rows(&report) {
        assert_eq!(row["durable"], row["sync"] != "sync_file_range", "{row}");
        let has_call = ["fdatasync", "fsync", "sync_file_range"].iter().any(|call| row["sync"] == *call);
        assert_eq!(row["sync_p50_ns"].is_object(), has_call, "{row}");
        assert!(row["lat_p50_ns"]["n"].as_u64().unwrap() > 0, "{row}");
    }
    let of = |key: &str, value: &str| rows(&report).iter().filter(|row| row[key] == value).count();
    assert_eq!((of("layout", "append"), of("layout", "preallocated")), (1, 1));
    assert!(rows(&report).iter().any(|row| row["committers"] == 16 && row["shared"] == true));
    assert_eq!(list(&report["sync"]["files"]).len(), 2);
    let best = &report["sync"]["best"];
    assert!(best.is_object() && best["sync"] != "sync_file_range", "{best}");
    let schema = json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());
    let id = report["record"]["id"].as_str().unwrap();
    assert_eq!(json(place.qd1(&["history", "show", id, "--json"])), report);
    let shown = text(place.qd1(&["history", "show", id]));
    let body = shown.split("\nRun it again").next().unwrap();
    assert!(body.lines().all(|line| line.chars().count() <= 80), "{shown}");
    for words in ["NOT DURABLE", "wal_sync_method=fdatasync", "sync_file_range makes nothing durable", "Committers"] {
        assert!(body.contains(words), "{words}: {shown}");
    }
    assert!(!shown.contains('\u{1b}'), "no colour through a pipe");
}

#[test]
fn lines_of_json_have_a_row_each_and_markdown_its_tables() {
    let place = Place::new();
    let lines = text(sync(&place, &["--only", "fdatasync-p1,fsync-p1,file", "--format", "ndjson"]));
    let kinds: Vec<String> = lines
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned())
        .collect();
    let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
    assert_eq!((count("sync"), count("sync_files"), count("record")), (2, 1, 1), "{kinds:?}");
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let markdown = text(place.qd1(&["history", "show", &id, "--format", "markdown"]));
    assert!(markdown.contains("### Methods") && markdown.contains("| fdatasync (n="), "{markdown}");
}

#[test]
fn a_dry_run_says_what_it_takes_in_a_few_lines_and_does_nothing() {
    let place = Place::new();
    let said = text(place.qd1(&["sync", place.dir_str(), "--dry-run"]));
    assert!(said.contains("methods") && said.contains("time ") && said.contains("writes "), "{said}");
    // The path is as long as it is.
    let mut others = said.lines().filter(|line| !line.contains(place.dir_str()));
    assert!(said.lines().count() < 25 && others.all(|line| line.chars().count() <= 80), "{said}");
    place.assert_untouched();
}

#[test]
fn where_o_direct_means_nothing_it_is_left_out_with_the_reason() {
    let test = "where_o_direct_means_nothing_it_is_left_out_with_the_reason";
    let Ok(memory) = TempDir::new_in("/dev/shm") else { return skip(test, "no /dev/shm") };
    let found = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !found.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return skip(test, "/dev/shm is no tmpfs");
    }
    let place = Place::at(memory.path());
    let shown = text(sync(&place, &["--only", "fdatasync*,o_dsync*"]));
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("not run: fdatasync-direct-p1"), "{shown}");
    assert!(shown.contains("tmpfs keeps files in memory, and O_DIRECT means nothing there"), "{shown}");
    place.assert_empty();
}

#[test]
fn what_is_only_read_is_refused_by_name_and_not_touched() {
    let place = Place::new();
    let file = place.beside("given");
    fs::write(&file, vec![7u8; 32 << 20]).unwrap();
    let said = predicate::str::contains("files that exist are only read");
    place.qd1(&["sync", file.to_str().unwrap()]).assert().code(4).stdout("").stderr(said);
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
    place.qd1(&["sync", "/nonexistent"]).assert().code(2);
    let unknown = predicate::str::contains("fdatasync-p1");
    sync(&place, &["--only", "fdata"]).assert().code(2).stderr(unknown);
    place.assert_untouched();
}

#[test]
fn a_wrong_number_of_writes_in_a_suite_is_refused_by_name() {
    let place = Place::new();
    let suite = place.beside("s.toml");
    for (keys, word) in [
        ("rw = \"write\"\nwrites_per_sync = 2", "needs a sync"),
        ("rw = \"randrw\"\nsync = \"fsync\"\nwrites_per_sync = 2", "only write"),
        ("rw = \"write\"\nsync = \"fsync\"\nwrites_per_sync = 0", "at least 1"),
        ("rw = \"write\"\nsync = \"fsync\"\nwrites_per_sync = 2\niodepth = 4", "numjobs"),
    ] {
        fs::write(&suite, format!("name = \"s\"\n[[job]]\nname = \"a\"\n{keys}\n")).unwrap();
        let mut command = place.qd1(&["run", suite.to_str().unwrap(), place.dir_str(), "--dry-run"]);
        command.assert().code(2).stderr(predicate::str::contains(word));
    }
}

/// A run of some steps on a simulated disk.
fn on(disk: &Path, only: &str, runtime: &str) -> Report {
    let place = Place::at(disk);
    let args = ["sync", place.dir_str(), "--quick", "--size", "16MiB", "--only", only, "--runtime", runtime];
    let report = json(place.qd1(&[&args[..], &["--json", "--quiet", "--no-save"]].concat()));
    place.assert_empty();
    serde_json::from_value(report).unwrap()
}

#[test]
fn on_a_disk_with_a_known_law_a_commit_takes_what_the_law_says_and_sync_file_range_skips_the_flush() {
    let test = "on_a_disk_with_a_known_law_a_commit_takes_what_the_law_says_and_sync_file_range_skips_the_flush";
    if let Some(why) = Mounted::unavailable() {
        return skip(test, &why);
    }
    let dir = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on_dir = dir.path().join("disk");
    fs::create_dir(&on_dir).unwrap();
    let scenario = Scenario::named("network-block").unwrap();
    let mounted = Mounted::new(&scenario, &on_dir).expect("FUSE is there, so a disk can be mounted");
    let report = on(&on_dir, "fdatasync-p1,o_dsync-p1,rwf_dsync-p1,sync_file_range-p1,fdatasync-x2-p1", "2s");
    let table = report.sync.unwrap();
    let median = |sync: Sync, writes: u32| {
        let alike = |row: &&qd1_model::sync::SyncRow| row.method.sync == sync && row.writes_per_sync == writes;
        let row = table.rows.iter().find(alike).unwrap_or_else(|| panic!("{sync:?} is not in {:?}", table.rows));
        row.lat_p50_ns.value.or(row.lat_mean_ns.value).unwrap_or(f64::NAN)
    };
    let commit = Law::commits(&scenario.device, 8192, 100_000).quantile(0.5);
    let write = Law::writes(&scenario.device, 8192, 100_000).quantile(0.5);
    drop(mounted);
    // A busy machine adds to it, and takes nothing away.
    for sync in [Sync::Fdatasync, Sync::ODsync, Sync::RwfDsync] {
        let told = median(sync, 1);
        assert!((0.8 * commit..2.0 * commit).contains(&told), "{sync:?}: {told} ns, by the law {commit} ns");
    }
    let twice = median(Sync::Fdatasync, 2) - median(Sync::Fdatasync, 1);
    assert!(twice > 0.5 * write, "the second write is in the commit: {twice} ns more, a write takes {write} ns");
    assert!(median(Sync::SyncFileRange, 1) < 0.8 * median(Sync::Fdatasync, 1), "no flush is sent: {:?}", table.rows);
    assert!(table.best.is_some_and(|best| best.sync != Sync::SyncFileRange), "{:?}", table.best);
}
