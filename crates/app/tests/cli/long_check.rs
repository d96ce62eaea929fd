//! `qd1 check --over`: what is kept after each round, and how a run goes on. What later rounds measure is tested in the
//! runner, where an hour takes seconds.

use std::path::Path;

use predicates::prelude::*;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::{self, Place, Running, int, list, wait_until};

const HOUR: [&str; 7] = ["--over", "1h", "--size", "32MiB", "--only", "qd1,commit1", "--quiet"];

/// Starts a check over an hour and waits until its first round, which comes at once, is kept.
fn after_its_first_round(place: &Place) -> (Running, String) {
    let run = Running::start(place.command(&HOUR));
    wait_until("a round is kept", || place.runs().first().is_some_and(|run| rounds(place, id(run)) > 0));
    let id = id(&place.runs()[0]).to_owned();
    (run, id)
}

fn catches_sigint(run: &Running) -> bool {
    // Before it is qd1 it is a copy of this process, which catches some too.
    let is_qd1 =
        std::fs::read_link(format!("/proc/{}/exe", run.0.id())).is_ok_and(|exe| exe == Path::new(common::qd1()));
    let status = std::fs::read_to_string(format!("/proc/{}/status", run.0.id())).unwrap();
    let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
    let bit = 1 << (Signal::INT.as_raw() - 1);
    is_qd1 && u64::from_str_radix(caught.trim(), 16).unwrap() & bit != 0
}

fn id(run: &Value) -> &str {
    run["id"].as_str().unwrap()
}

fn shown(place: &Place, id: &str) -> Value {
    common::json(place.qd1(&["history", "show", id, "--json"]))
}

fn rounds(place: &Place, id: &str) -> usize {
    shown(place, id)["record"]["over"]["rounds"].as_array().map_or(0, Vec::len)
}

#[test]
fn what_was_measured_before_a_sigkill_is_there_and_the_run_goes_on() {
    let place = Place::new();
    let (mut run, id) = after_its_first_round(&place);
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let report = shown(&place, &id);
    assert_eq!(report["record"]["interrupted"], true);
    assert_eq!(
        (int(&report["over"]["rounds"]), &report["over"]["rounds_planned"]),
        (1, &report["record"]["plan"]["over"]["rounds"])
    );
    let hours = list(&report["over"]["criteria"]);
    assert!(hours.iter().all(|hours| list(&hours["hours"]).len() == 1 && hours["criterion"]["step"] != "seqread"));

    // It goes on, until a signal ends it: the next round is minutes away.
    let mut again = Running::start(place.command(&["check", "--resume", &id[..6], "--quiet", "--json"]));
    wait_until("it catches signals", || catches_sigint(&again));
    again.signal(Signal::INT);
    let stdout = std::io::read_to_string(again.0.stdout.take().unwrap()).unwrap();
    assert_eq!(again.0.wait().unwrap().code(), Some(130));
    let again: Value = serde_json::from_str(&stdout).expect("a whole document");
    assert_eq!(again["record"]["id"], report["record"]["id"], "one run");
    assert_eq!(again["record"]["command"], report["record"]["command"]);
    assert_eq!(again["record"]["steps"], report["record"]["steps"], "nothing is lost");
    assert_eq!(place.runs().len(), 1);
    place.assert_empty();
}

#[test]
fn an_interrupted_one_says_how_to_go_on() {
    let place = Place::new();
    let (mut run, id) = after_its_first_round(&place);
    run.signal(Signal::TERM);
    let stderr = std::io::read_to_string(run.0.stderr.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(143));
    assert!(stderr.contains(&format!("qd1 check --resume {id}")), "{stderr}");
    let text = place.qd1(&["history", "show", &id]).output().unwrap();
    let text = String::from_utf8_lossy(&text.stdout).replace("\n  ", " ");
    assert!(text.contains("from 1 of") && text.contains("worst hour"), "{text}");
    place.assert_empty();
}

#[test]
fn only_a_check_over_hours_can_be_resumed() {
    let place = Place::new();
    let id = place.report(&["--only", "read32"])["record"]["id"].as_str().unwrap().to_owned();
    let refused = |args: &[&str], code: i32, why: &str| {
        place.qd1(args).assert().code(code).stderr(predicate::str::contains(why));
    };
    refused(&["check", "--resume", &id], 2, "only runs of `qd1 check --over` can be resumed");
    refused(&["check", "--resume", "zzzz"], 2, "`qd1 history` lists");
    refused(&["check", "--resume", &id, place.dir_str()], 2, "cannot be used with");
    refused(&["check", "--over", "30m", place.dir_str()], 2, "between 1h and 14d");
    refused(&["check", "--over", "1h", "--no-save", place.dir_str()], 2, "cannot be used with");
    refused(&["check", "--over", "1h", "--quick", place.dir_str()], 2, "cannot be used with");
    assert_eq!(place.runs().len(), 1);
}

/// Killed or stopped before its first round was kept, it was "over".
#[test]
fn a_run_that_was_killed_before_its_first_round_can_go_on() {
    let place = Place::new();
    let mut run = Running::start(place.command(&HOUR));
    wait_until("it is kept", || !place.runs().is_empty());
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let id = id(&place.runs()[0]).to_owned();
    assert_eq!(place.runs()[0]["interrupted"], true);
    let mut again = Running::start(place.command(&["check", "--resume", &id, "--quiet"]));
    wait_until("its first round is kept", || {
        again.assert_running();
        rounds(&place, &id) > 0
    });
}

/// Both measured, each the other's neighbour.
#[test]
fn one_process_at_a_time_measures_a_run() {
    let place = Place::new();
    let (mut run, id) = after_its_first_round(&place);
    let refused = place.qd1(&["check", "--resume", &id, "--quiet"]).assert().failure();
    refused.stderr(predicate::str::contains("another qd1 is measuring this run"));
    assert_eq!(rounds(&place, &id), 1);
    run.assert_running();
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let mut again = Running::start(place.command(&["check", "--resume", &id, "--quiet"]));
    wait_until("it catches signals", || catches_sigint(&again));
    again.signal(Signal::INT);
    assert_eq!(again.0.wait().unwrap().code(), Some(130), "a kill leaves nothing in its way");
}
