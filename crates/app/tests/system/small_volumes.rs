//! Volumes that are small, or full: each command answers, or says in one sentence what to do.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Output;

use qd1_lab::{Loop, Mounted};

use crate::common::refusal::refused;
use crate::common::{self, BRIEF, Place, names, or_skip, said};

/// Takes all the space of a filesystem, to the last block that a file can have.
fn fill(dir: &Path) {
    let mut file = File::create(dir.join("full")).unwrap();
    for block in [1 << 20, 4096, 512] {
        let data = vec![0xa5_u8; block];
        while file.write_all(&data).and_then(|()| file.sync_data()).is_ok() {}
    }
}

/// Nothing could be measured on it, not even by `ping`: a gibibyte had to stay free.
#[test]
fn a_volume_of_600_megabytes_is_measured() {
    let mounted = or_skip!(Loop::ext4(600_000_000).and_then(|disk| Mounted::new(disk, "defaults")));
    let place = Place::at(mounted.path());
    for command in ["check", "sweep", "sync", "identify", "predict", "limits", "run kdiskmark", "run yabs", "meta"] {
        let words: Vec<&str> = command.split(' ').chain([place.dir_str(), "--dry-run"]).collect();
        let output = place.qd1(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{command}: {}", said(&output.stderr));
    }
    let args = [&["check", place.dir_str(), "--only", "qd1,commit1,wal", "--quiet"], &BRIEF[..]].concat();
    let output = place.qd1(&args).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", said(&output.stderr));
    place.on("ping", &["-c", "1"]).assert().success();
    place.assert_empty();
}

#[test]
fn how_much_stays_free_can_be_said() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "defaults")));
    let place = Place::at(mounted.path());
    let ping = |more: &[&str]| place.on("ping", &[&["-c", "1", "--area", "24MiB"], more].concat()).output().unwrap();
    refused(&ping(&["--leave-free", "40M"]), 4, &["not enough space", "must stay free", "--leave-free", "has only"]);
    assert_eq!(ping(&["--leave-free", "0"]).status.code(), Some(0));
}

/// It said "Error code 4874: xShmMap", and `prune` could not make room. With some KiB left, of which SQLite's shared index got
/// three of four pages without a block, the process was killed by SIGBUS.
#[test]
fn a_history_on_a_full_disk_is_read_and_pruned() {
    for left_kib in [0, 9, 48] {
        let disk = or_skip!(Loop::ext4(64 << 20));
        reads_and_prunes(&or_skip!(Mounted::new(disk, "defaults")), left_kib);
    }
}

fn reads_and_prunes(mounted: &Mounted, left_kib: usize) {
    let place = Place::new();
    let history = mounted.path().join("history.db");
    let qd1 = |args: &[&str]| -> Output { place.qd1(args).env("QD1_STORE", &history).output().unwrap() };
    let check = [&["check", place.dir_str(), "--only", "commit1", "--quiet"], &BRIEF[..]].concat();
    for _ in 0..3 {
        assert_eq!(qd1(&check).status.code(), Some(0));
    }
    let left = mounted.path().join("left");
    fs::write(&left, vec![0xa5; left_kib << 10]).unwrap();
    fill(mounted.path());
    fs::remove_file(&left).unwrap();
    rustix::fs::sync();
    let listed = qd1(&["history", "--json"]);
    assert_eq!(listed.status.code(), Some(0), "{}", said(&listed.stderr));
    let runs: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(common::list(&runs).len(), 3);
    assert_eq!(qd1(&["history", "show"]).status.code(), Some(0));
    assert_eq!(qd1(&["compare", "@latest", "@previous"]).status.code(), Some(0));
    // A run that cannot be kept is measured and reported all the same.
    let unkept = qd1(&check);
    assert_eq!(unkept.status.code(), Some(0));
    let why = said(&unkept.stderr);
    assert!(left_kib > 0 || why.contains("disk is full") && why.contains("qd1 history prune"), "{why}");
    let pruned = qd1(&["history", "prune", "--keep", "1"]);
    assert_eq!(pruned.status.code(), Some(0), "{}", said(&pruned.stderr));
    assert!(said(&pruned.stdout).contains(" runs removed"), "{}", said(&pruned.stdout));
    let left: serde_json::Value = serde_json::from_slice(&qd1(&["history", "--json"]).stdout).unwrap();
    assert_eq!(common::list(&left).len(), 1);
}

#[test]
fn each_command_refuses_a_full_disk_in_one_sentence() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "defaults")));
    fill(mounted.path());
    let place = Place::at(mounted.path());
    for command in ["check", "sweep", "sync", "identify", "predict", "limits", "run kdiskmark", "meta", "ping"] {
        let words: Vec<&str> = command.split(' ').chain([place.dir_str()]).collect();
        let output = place.qd1(&words).output().unwrap();
        assert_eq!(output.status.code(), Some(4), "{command}: {}", said(&output.stderr));
        refused(&output, 4, &["not enough space", "--leave-free"]);
    }
    let to = mounted.path().join("result.json");
    let elsewhere = Place::new();
    let report = ["check", elsewhere.dir_str(), "--only", "commit1", "--quiet", "-o", to.to_str().unwrap()];
    // What was measured goes to stdout instead.
    let output = elsewhere.qd1(&[&report, &BRIEF[..]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(said(&output.stderr).contains("result.json"), "{}", said(&output.stderr));
    assert!(said(&output.stdout).contains("Commits"), "{}", said(&output.stdout));
    assert_eq!(names(mounted.path()), ["full"]);
    fs::remove_file(mounted.path().join("full")).unwrap();
}
