//! `--with-load`: commits while buffered writes and reads go on, from the command line to the report. What it shows on
//! a disk with a known law is in simdisk.rs.

use crate::common::{Place, find, int, list, step};
use crate::kept::kept;

#[test]
fn each_step_of_commits_is_planned_again_under_load() {
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
        let loaded = plan.lines().filter(|line| line.contains("-load "));
        assert!(loaded.clone().all(|line| !line.contains("visits")), "after all others, in one go: {plan}");
    }
    assert!(!dry(&[]).contains("-load"));
}

#[test]
fn the_load_is_in_the_record_and_beside_the_figures() {
    let run = kept("load");
    let loaded = step(&run.report, "commit1-load");
    let background = list(&loaded["background"]);
    assert_eq!(background.len(), 2, "{loaded}");
    let written = int(&find(&background[0]["streams"], "class", "write")["bytes"]);
    let reads = int(&find(&background[1]["streams"], "class", "read")["lat"]["count"]);
    assert!(written > 0 && reads > 0, "{written} bytes written, {reads} reads");
    assert!(step(&run.report, "commit1")["background"].is_null(), "none beside the other");
    assert!(run.shown["markdown"].contains("; load: "), "{}", run.shown["markdown"]);
    assert!(run.shown["csv"].contains("commit1-load"), "{}", run.shown["csv"]);
}
