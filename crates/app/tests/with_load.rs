//! `--with-load`: commits while buffered writes and reads go on, from the command line to the report. What it shows on a disk with a
//! known law is in simdisk.rs.

mod common;

use common::{Place, find, int, list, step};
use predicates::prelude::*;

#[test]
fn each_step_of_commits_comes_again_under_load_and_the_plan_says_so() {
    let place = Place::new();
    let dry = |args: &[&str]| {
        let output = place.qd1(&[&["check", place.dir_str(), "--dry-run"], args].concat()).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    for args in [&["--with-load"][..], &["--full"], &["--with-load", "--only", "commit1,commit4,wal"]] {
        let plan = dry(args);
        for name in ["commit1-load", "commit4-load", "wal-load"] {
            assert!(plan.contains(&format!("  {name} ")), "{args:?}:\n{plan}");
        }
        assert_eq!(plan.matches("-load ").count(), 3, "and nothing else: {plan}");
    }
    assert!(!dry(&[]).contains("-load"));
}

#[test]
fn a_suite_without_commits_has_nothing_to_load() {
    let place = Place::new();
    let refused = place.qd1(&["run", "vultr-nvme", place.dir_str(), "--with-load"]);
    { refused }.assert().code(2).stderr(predicate::str::contains("--with-load measures commits again"));
}

#[test]
fn the_load_is_in_the_record_and_beside_the_figures() {
    let place = Place::new();
    let args = ["check", place.dir_str(), "--size", "32MiB", "--runtime", "1s", "--only", "commit1", "--with-load"];
    let report = common::json(place.qd1(&[&args[..], &["--json"]].concat()));
    let loaded = step(&report, "commit1-load");
    let background = list(&loaded["background"]);
    assert_eq!(background.len(), 2, "{loaded}");
    let written = int(&find(&background[0]["streams"], "class", "write")["bytes"]);
    let reads = int(&find(&background[1]["streams"], "class", "read")["lat"]["count"]);
    assert!(written > 0 && reads > 0, "{written} bytes written, {reads} reads");
    assert!(step(&report, "commit1")["background"].is_null(), "none beside the other");
    let id = report["record"]["id"].as_str().unwrap();
    for (format, words) in [("human", "written, "), ("markdown", "; load: "), ("csv", "commit1-load")] {
        let shown = place.qd1(&["history", "show", id, "--format", format]);
        { shown }.assert().success().stdout(predicate::str::contains(words));
    }
    place.assert_empty();
}
