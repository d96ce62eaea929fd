//! However a run of `qd1 filesystems` ends, no mount, loop device, file or journal is left: by a signal, by the helper,
//! by `qd1 restore` or by the next run.

use predicates::prelude::*;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::apps::children;
use crate::common::filesystems::{assert_nothing_left, can, filesystems, journals, quiet, upon};
use crate::common::{Place, Running, list, names, or_skip, text, wait_until};

/// A run that would take minutes, waited for until it measures on a mounted filesystem.
fn long_run(place: &Place, only: &str) -> Running {
    let args = ["--only", only, "--rounds", "3", "--size", "16MiB", "--disk", "400MiB", "--runtime", "60s", "--json"];
    let args = [&args[..], &["--in-memory"]].concat();
    let mut command = place.command(&[&["filesystems", place.dir_str()], &args[..]].concat());
    command.env("TMPDIR", place.dir());
    let mut run = Running::start(command);
    wait_until("a filesystem is mounted", || {
        run.assert_running();
        upon(place).len() == 2
    });
    run.wait_until_it_measures();
    run
}

#[test]
fn sigint_and_sigterm_keep_what_was_measured_and_leave_nothing() {
    or_skip!(can(&["mkfs.ext4"]));
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let (_dir, place) = quiet();
        let mut run = long_run(&place, "ext4");
        run.signal(signal);
        let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
        assert_eq!(run.0.wait().unwrap().code(), Some(code));
        assert_eq!(report["record"]["interrupted"], true);
        assert_eq!(list(&report["record"]["steps"]).len(), 1);
        assert_nothing_left(&place);
        assert_eq!(place.runs().len(), 1);
    }
}

#[test]
fn after_sigkill_the_helper_leaves_nothing() {
    or_skip!(can(&["mkfs.ext4"]));
    let (_dir, place) = quiet();
    let mut run = long_run(&place, "ext4");
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("the helper is done", || {
        upon(&place).is_empty() && names(place.dir()).is_empty() && journals(&place).is_empty()
    });
}

/// Kills a run and all its helpers while a filesystem is mounted, as a power cut would but for the reboot.
fn killed_with_its_helpers(place: &Place) {
    let mut run = long_run(place, "ext4");
    let helpers = children(run.0.id());
    assert!(!helpers.is_empty(), "it has a helper");
    for helper in helpers {
        rustix::process::kill_process(helper, Signal::KILL).unwrap();
    }
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert_eq!((upon(place).len(), journals(place).len()), (2, 1));
}

#[test]
fn what_a_killed_run_and_helper_left_is_undone_by_restore() {
    or_skip!(can(&["mkfs.ext4"]));
    let (_dir, place) = quiet();
    killed_with_its_helpers(&place);
    let planned = text(place.qd1(&["restore", "--dry-run"]));
    assert!(planned.contains("would undo") && upon(&place).len() == 2, "{planned}");
    let said = text(place.qd1(&["restore"]));
    assert!(said.contains("unmounted") && said.contains("detached") && said.contains("removed"), "{said}");
    assert_nothing_left(&place);
    assert_eq!(text(place.qd1(&["restore"])), "nothing to undo\n");
}

#[test]
fn what_a_killed_run_and_helper_left_is_undone_by_the_next_run() {
    or_skip!(can(&["mkfs.ext4"]));
    let (_dir, place) = quiet();
    killed_with_its_helpers(&place);
    let said = predicate::str::contains("from an earlier run: unmounted");
    filesystems(&place, &["--only", "ext4", "--rounds", "1", "--steps", "read"]).assert().success().stderr(said);
    assert_nothing_left(&place);
}

#[test]
fn restore_leaves_an_active_run_alone() {
    or_skip!(can(&["mkfs.ext4"]));
    let (_dir, place) = quiet();
    let mut run = long_run(&place, "ext4");
    let said = text(place.qd1(&["restore"]));
    assert!(said.contains("1 run is still active"), "{said}");
    assert!(run.is_running() && upon(&place).len() == 2);
    run.signal(Signal::TERM);
    std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
    run.0.wait().unwrap();
    assert_nothing_left(&place);
}
