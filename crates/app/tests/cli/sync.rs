//! `qd1 sync` from the command line to its result, too briefly for figures.

use std::fs;

use serde_json::Value;
use tempfile::TempDir;

use crate::common::{Place, list, skip, test_name, text};
use crate::kept::kept;

fn rows(report: &Value) -> &[Value] {
    list(&report["sync"]["rows"])
}

#[test]
fn every_method_of_making_writes_durable_is_measured() {
    let report = &kept("sync").report;
    let skipped = list(&report["record"]["plan"]["skipped"]).len();
    let methods: Vec<&Value> = rows(report)
        .iter()
        .filter(|row| row["writes_per_sync"] == 1 && row["block"] == 8192 && row["committers"] == 1)
        .filter(|row| row["layout"] == "overwrite")
        .collect();
    // Where O_DIRECT is refused, half of them are left out and said to be.
    assert_eq!(2 * methods.len() + skipped, 24, "{methods:?}");
    for row in rows(report) {
        assert_eq!(row["durable"], row["sync"] != "sync_file_range", "{row}");
        let has_call = ["fdatasync", "fsync", "sync_file_range"].iter().any(|call| row["sync"] == *call);
        assert_eq!(row["sync_p50_ns"].is_object(), has_call, "{row}");
        assert!(row["lat_p50_ns"]["n"].as_u64().unwrap() > 0, "{row}");
    }
    let of = |key: &str, value: &str| rows(report).iter().filter(|row| row[key] == value).count();
    // A step of a moment in which the machine stood still has no row.
    let stalled = list(&report["record"]["steps"]).iter().filter(|step| list(&step["streams"]).is_empty()).count();
    let layouts = [of("layout", "append"), of("layout", "preallocated")];
    assert!(layouts.iter().all(|rows| *rows <= 1) && layouts.iter().sum::<usize>() + stalled >= 2, "{layouts:?}");
    assert!(rows(report).iter().any(|row| row["committers"] == 16 && row["shared"] == true));
    assert_eq!(list(&report["sync"]["files"]).len(), 2);
    let best = &report["sync"]["best"];
    assert!(best.is_object() && best["sync"] != "sync_file_range", "{best}");
}

#[test]
fn lines_of_json_have_a_row_each_and_markdown_its_tables() {
    let run = kept("sync");
    let kind = |line: &str| serde_json::from_str::<Value>(line).unwrap()["type"].as_str().unwrap().to_owned();
    let kinds: Vec<String> = run.shown["ndjson"].lines().map(kind).collect();
    let count = |kind: &str| kinds.iter().filter(|known| *known == kind).count();
    let (methods, files) = (rows(&run.report).len(), list(&run.report["sync"]["files"]).len());
    assert_eq!((count("sync"), count("sync_files"), count("record")), (methods, files, 1), "{kinds:?}");
    let markdown = &run.shown["markdown"];
    assert!(markdown.contains("### Methods") && markdown.contains("| fdatasync (n="), "{markdown}");
}

#[test]
fn where_o_direct_means_nothing_it_is_left_out_with_the_reason() {
    let test = test_name!();
    let Ok(memory) = TempDir::new_in("/dev/shm") else { return skip(test, "no /dev/shm") };
    let found = fs::read_to_string("/proc/mounts").unwrap_or_default();
    if !found.lines().any(|line| line.contains(" /dev/shm tmpfs ")) {
        return skip(test, "/dev/shm is no tmpfs");
    }
    let place = Place::at(memory.path());
    let args = [
        "--quick",
        "--size",
        "16MiB",
        "--runtime",
        "30ms",
        "--quiet",
        "-v",
        "--in-memory",
        "--only",
        "fdatasync*,o_dsync*",
    ];
    let shown = text(place.on("sync", &args));
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("not run: fdatasync-direct-p1"), "{shown}");
    assert!(shown.contains("tmpfs keeps files in memory, where O_DIRECT has no meaning"), "{shown}");
    place.assert_empty();
}
