//! However a run ends, it leaves no file, and the history holds whole runs only.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{self, Place, Running, find, int, intervals, list, names, wait_until};

/// A run that would take a minute.
const LONG: [&str; 7] = ["--size", "32MiB", "--runtime", "60s", "--only", "qd1,write32", "--json"];

/// Interrupts a long run while it reads; its exit code and what it printed.
fn interrupted_by(place: &Place, signal: Signal) -> (Option<i32>, Value) {
    let mut run = Running::start(place.command(&LONG));
    run.wait_until_it_measures();
    run.signal(signal);
    let stdout = run.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    wait_until("it ends", || !run.is_running());
    let text = reader.join().unwrap();
    (run.0.wait().unwrap().code(), serde_json::from_str(&text).expect("the partial result is a whole document"))
}

#[test]
fn the_first_sigint_prints_and_keeps_what_was_measured_so_far() {
    let place = Place::new();
    let (code, report) = interrupted_by(&place, Signal::INT);
    assert_eq!(code, Some(130));
    assert_eq!(report["record"]["interrupted"], true);
    let steps = list(&report["record"]["steps"]);
    assert_eq!(steps.len(), 1, "the step after it was not begun");
    assert_eq!(steps[0]["ended"], "interrupted");
    assert!(int(&steps[0]["runtime_ns"]) < int(&report["record"]["plan"]["steps"][0]["stop"]["max_ns"]));
    let reads = find(&steps[0]["streams"], "class", "read");
    let all = intervals(&steps[0]);
    let in_intervals = all.iter().flat_map(|interval| list(&interval["streams"]));
    let in_intervals: u64 = in_intervals.filter(|part| part["class"] == "read").map(|part| int(&part["ios"])).sum();
    assert_eq!(in_intervals, int(&reads["lat"]["count"]));
    let kept = place.runs();
    assert_eq!((kept.len(), &kept[0]["id"], &kept[0]["interrupted"]), (1, &report["record"]["id"], &Value::Bool(true)));
    place.assert_empty();
    let shown = place.qd1(&["history", "show", kept[0]["id"].as_str().unwrap()]).output().unwrap();
    assert!(String::from_utf8_lossy(&shown.stdout).contains("nterrupted"), "a person is told");
}

#[test]
fn sigterm_does_the_same_and_exits_with_143() {
    let place = Place::new();
    let (code, report) = interrupted_by(&place, Signal::TERM);
    assert_eq!((code, &report["record"]["interrupted"]), (Some(143), &Value::Bool(true)));
    assert_eq!(place.runs().len(), 1);
    place.assert_empty();
}

/// Both places are left clean, both runs are kept, and what was measured is compared.
#[test]
fn sigint_in_turn_keeps_both_runs_and_cleans_both_places() {
    let place = Place::new();
    let other = place.beside("other");
    fs::create_dir(&other).unwrap();
    let mut args = vec!["compare", "--in-turn", place.dir_str(), other.to_str().unwrap()];
    args.extend(["--size", "32MiB", "--runtime", "10s", "--only", "qd1", "--json"]);
    let mut run = Running::start(place.command(&args));
    run.wait_until_it_measures();
    // A few visits of either.
    std::thread::sleep(Duration::from_secs(4));
    run.signal(Signal::INT);
    let stdout = run.0.stdout.take().unwrap();
    let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
    wait_until("it ends", || !run.is_running());
    let text = reader.join().unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    let compared: Value = serde_json::from_str(&text).expect("the comparison is a whole document");
    assert_eq!(compared["basis"], "pairs");
    let kept = place.runs();
    assert!(kept.len() == 2 && kept.iter().all(|row| row["interrupted"] == true), "{kept:?}");
    place.assert_empty();
    assert_eq!(names(&other), Vec::<String>::new());
}

/// `nohup qd1 check &`, and the terminal was closed: the run ended.
#[test]
fn what_was_ignored_from_the_start_does_not_end_a_run() {
    let place = Place::new();
    let quick = place.command(&["--size", "32MiB", "--runtime", "2s", "--only", "qd1"]);
    let mut command = std::process::Command::new("sh");
    command.args(["-c", "trap '' HUP INT; exec \"$@\"", "sh"]).arg(quick.get_program()).args(quick.get_args());
    for (name, value) in quick.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(place.dir());
    let mut run = Running::start(command);
    run.wait_until_it_reads();
    run.signal(Signal::HUP);
    run.signal(Signal::INT);
    assert!(run.0.wait().unwrap().success());
    assert_eq!(place.runs()[0]["interrupted"], false);
}

#[test]
fn sigint_while_the_test_file_is_written_leaves_nothing() {
    let place = Place::new();
    let args = ["--size", "1GiB", "--runtime", "60s", "--only", "read32"];
    let mut run = Running::start(place.command(&args));
    let files = format!("/proc/{}/fd", run.0.id());
    wait_until("it writes", || {
        let open =
            fs::read_dir(&files).into_iter().flatten().flatten().filter_map(|file| fs::metadata(file.path()).ok());
        open.filter(fs::Metadata::is_file).any(|file| file.nlink() == 0 && file.blocks() * 512 > 4 << 20)
    });
    run.signal(Signal::INT);
    let printed = std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    assert!(!printed.contains("the test file is"), "no slow disk made it smaller: {printed}");
    place.assert_empty();
}

#[test]
fn sigint_as_a_step_begins_leaves_no_step_without_figures() {
    let place = Place::new();
    let mut run = Running::start(place.command(&LONG));
    run.wait_until_it_reads();
    run.signal(Signal::INT);
    let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    assert_eq!(report["record"]["interrupted"], true);
    for step in list(&report["record"]["steps"]) {
        assert!(!list(&step["streams"]).is_empty(), "{step}");
    }
}

#[test]
fn a_second_sigint_ends_at_once() {
    let place = Place::new();
    let mut run = Running::start(place.command(&LONG));
    // Nobody reads the result, so that the run hangs in its last work after the first signal.
    rustix::pipe::fcntl_setpipe_size(run.0.stdout.as_ref().unwrap(), 4096).unwrap();
    run.wait_until_it_measures();
    run.signal(Signal::INT);
    wait_until("the run is kept", || place.history().exists() && !place.runs().is_empty());
    std::thread::sleep(Duration::from_millis(800));
    assert!(run.is_running(), "the first signal lets it finish");
    run.signal(Signal::INT);
    wait_until("it ends", || !run.is_running());
    assert_eq!(run.0.wait().unwrap().signal(), Some(2));
    place.assert_empty();
}

/// `timeout` sends a signal to its child and to its group: two runs in ten had nothing printed and nothing kept.
#[test]
fn the_same_signal_twice_at_once_is_one_request() {
    let place = Place::new();
    for _ in 0..5 {
        let mut run = Running::start(place.command(&LONG));
        run.wait_until_it_measures();
        run.signal(Signal::TERM);
        std::thread::sleep(Duration::from_millis(2));
        run.signal(Signal::TERM);
        let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
        assert_eq!(report["record"]["interrupted"], true);
        assert_eq!(run.0.wait().unwrap().code(), Some(143));
    }
    assert_eq!(place.runs().len(), 5);
    place.assert_empty();
}

/// Kills a run with `args` at `share` of `whole_ns`; nothing may be left.
fn killed_at(place: &Place, args: &[&str], share: f64, whole_ns: u64) {
    let mut command = place.command(args);
    let mut run = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    std::thread::sleep(Duration::from_nanos((share * whole_ns as f64) as u64));
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until(&format!("what was killed at {share} is gone: {:?}", names(place.dir())), || {
        names(place.dir()).is_empty()
    });
}

fn assert_history_is_whole(place: &Place) {
    let open = rusqlite::Connection::open(place.history()).unwrap();
    let said: String = open.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(said, "ok");
}

#[test]
fn sigkill_at_any_moment_leaves_no_file_and_a_whole_history() {
    let place = Place::new();
    let brief = ["--size", "32MiB", "--runtime", "60ms", "--json"];
    let whole = common::json(place.qd1(&brief));
    let first = whole["record"]["id"].as_str().unwrap().to_owned();
    let whole_ns = int(&whole["record"]["elapsed_ns"]);
    let mut random = common::random(0x51D1);
    for moment in 0..12 {
        // A little beyond the end, where the run is saved and printed.
        killed_at(&place, &brief, (f64::from(moment) + random()) / 12.0 * 1.1, whole_ns);
        assert!(place.runs().iter().any(|run| run["id"] == first.as_str()), "an earlier run is gone");
    }
    assert_history_is_whole(&place);
    let shown = common::json(place.qd1(&["history", "show", &first, "--json"]));
    assert_eq!(shown["record"], whole["record"], "an earlier run was changed");
}

#[test]
fn sigkill_while_files_have_names_leaves_none_of_them() {
    let place = Place::new();
    let files = ["--runtime", "300ms", "--only", "files", "--json"];
    let whole_ns = int(&common::json(place.qd1(&files))["record"]["elapsed_ns"]);
    let mut random = common::random(0xF11E);
    for moment in 0..10 {
        killed_at(&place, &files, (f64::from(moment) + random()) / 10.0, whole_ns);
    }
    assert_history_is_whole(&place);
}

/// Starts a run with files that have names, and kills it and its helper, as a power cut would.
fn killed_with_its_helper(place: &Place, args: &[&str]) {
    let mut run = Running::start(place.command(args));
    let children = format!("/proc/{0}/task/{0}/children", run.0.id());
    let mut helper = None;
    wait_until("files and their helper are there", || {
        run.assert_running();
        let text = fs::read_to_string(&children).unwrap_or_default();
        helper = text.split_whitespace().next().and_then(|pid| rustix::process::Pid::from_raw(pid.parse().ok()?));
        let scratch = names(place.dir()).first().map(|name| place.dir().join(name));
        helper.is_some() && scratch.is_some_and(|dir| names(&dir).len() > 1)
    });
    rustix::process::kill_process(helper.unwrap(), Signal::KILL).unwrap();
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert_eq!(names(place.dir()).len(), 1, "with the helper dead, the directory is left");
}

/// A run that makes files for a long time.
const WITH_NAMES: [&str; 6] = ["meta", ".", "--files", "1M", "--file-size", "0"];

#[test]
fn what_a_killed_helper_left_is_cleared_by_the_next_run() {
    let place = Place::new();
    killed_with_its_helper(&place, &WITH_NAMES);
    place.qd1(&["--runtime", "50ms", "--only", "files"]).assert().success();
    place.assert_empty();
}

/// `restore` knew the directories of `filesystems` alone.
#[test]
fn what_a_killed_helper_left_is_cleared_by_restore() {
    let place = Place::new();
    killed_with_its_helper(&place, &WITH_NAMES);
    let said = common::text(place.qd1(&["restore"]));
    assert!(said.contains("removed") && said.contains(".qd1-scratch-"), "{said}");
    place.assert_empty();
    assert_eq!(common::text(place.qd1(&["restore"])), "nothing to undo\n");
}
