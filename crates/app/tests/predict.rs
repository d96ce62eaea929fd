//! `qd1 predict` from the command line to its result, and held against the program itself.

mod common;

use common::apps::{Ground, disk_with_flushes_of};
use common::{Place, float, json, list, skip};
use predicates::prelude::*;
use qd1_simdisk::Mounted;
use qd1_simdisk::truth::Law;
use serde_json::Value;

fn row<'a>(report: &'a Value, what: &str, clients: u64) -> &'a Value {
    let is_it = |row: &&Value| row["what"] == what && row["clients"] == clients;
    list(&report["prediction"]["rows"]).iter().find(is_it).unwrap_or_else(|| panic!("no {what}: {report}"))
}

/// A predicted figure and its interval.
fn predicted(report: &Value, what: &str, clients: u64) -> (f64, f64, f64) {
    let value = &row(report, what, clients)["value"];
    (float(&value["value"]), float(&value["low"]), float(&value["high"]))
}

#[test]
fn on_a_disk_with_slow_flushes_databases_are_predicted_to_wait_for_them_and_sqlite_does() {
    let test = "on_a_disk_with_slow_flushes_databases_are_predicted_to_wait_for_them_and_sqlite_does";
    if let Some(why) = Mounted::unavailable() {
        return skip(test, &why);
    }
    let scenario = disk_with_flushes_of(10e6);
    let on = Place::new();
    let mounted = Mounted::new(&scenario, on.dir()).unwrap();
    let Some(ground) = Ground::new(test, Place::at(mounted.dir()), &[]) else { return };
    let args = ["predict", ground.place.dir_str(), "--quick", "--verify=sqlite", "--json", "--quiet"];
    let report = json(ground.place.qd1(&args));
    let commits = 1e9 / Law::commits(&scenario.device, 4096, 100_000).quantile(0.5);
    let (one, low, high) = predicted(&report, "postgres_tps", 1);
    assert!(
        low < one && one < high && one < 1.05 * commits,
        "a client waits for its commit: {one}, {commits} commits/s"
    );
    assert_eq!(row(&report, "postgres_tps", 1)["bound"], "commits");
    let (many, ..) = predicted(&report, "postgres_tps", 100);
    assert!(many > 10.0 * one, "clients share flushes: {many} against {one}");
    let (puts, ..) = predicted(&report, "etcd_rate", 1);
    assert!(puts < 1.0, "a put takes longer than 10 ms: {puts}");
    for what in ["sqlite_wal_full", "sqlite_rollback_full"] {
        let verified = &row(&report, what, 1)["verified"];
        let error = float(&verified["error"]);
        assert!(error.abs() < 0.35, "{what} is off by {error}: {verified}");
        assert!(float(&verified["at_first"]) > 0.0 && verified["error_at_first"].is_f64(), "{verified}");
    }
    // It ran between two rounds of commits.
    let steps = list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect::<Vec<_>>();
    let at = |name: &str| steps.iter().position(|step| *step == name).unwrap_or_else(|| panic!("no {name}: {steps:?}"));
    assert!(at("commit1") < at("wal-full") && at("wal-full") < at("commit1-r2"), "{steps:?}");
    ground.assert_clean();
    let id = report["record"]["id"].as_str().unwrap();
    let shown = String::from_utf8(ground.place.qd1(&["history", "show", id]).output().unwrap().stdout).unwrap();
    assert!(shown.contains("What to expect") && shown.contains("SQLite commits/s, WAL FULL"), "{shown}");
    let (answer, _) = shown.split_once("\nSteps").unwrap();
    assert!(answer.lines().all(|line| line.chars().count() <= 80), "{answer}");
    let again = json(ground.place.qd1(&["predict", "--from", id, "--json", "--no-save"]));
    assert_eq!(predicted(&again, "postgres_tps", 1).0, one, "the same Record says the same");
}

#[test]
fn what_cannot_be_predicted_from_is_said() {
    let place = Place::new();
    let nobody = place.qd1(&["predict", "--from", "000000000000"]).assert().failure().code(2);
    nobody.stderr(predicate::str::contains("000000000000"));
    let args =
        ["check", place.dir_str(), "--quick", "--only", "seqread", "--size", "16MiB", "--runtime", "50ms", "--json"];
    let report = json(place.qd1(&args));
    let id = report["record"]["id"].as_str().unwrap();
    let without = place.qd1(&["predict", "--from", id]).assert().failure().code(2);
    without.stderr(predicate::str::contains("has no step commit1"));
    place.qd1(&["predict", "--from", id, "--verify"]).assert().failure().code(2);
}
