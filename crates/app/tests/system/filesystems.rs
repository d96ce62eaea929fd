//! `qd1 filesystems` on real filesystems, too short for figures. How it ends, and that nothing is left then, is in
//! filesystems_end.rs.
//!
//! Needs root, and whichever of mkfs.ext4, mkfs.xfs, mkfs.btrfs and zfs are there.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use predicates::prelude::*;
use qd1_engine::sim::Service;
use qd1_lab::{Loop, Throttle, tool};
use qd1_simdisk::Scenario;
use serde_json::Value;

use crate::common::disk::Disk;
use crate::common::filesystems::{TINY, assert_nothing_left, can, filesystems, journals, quiet, upon};
use crate::common::{self, Place, find, in_group, int, json, list, names, or_skip, schema, text};

#[test]
fn each_filesystem_is_measured_in_every_round_and_shown_again() {
    or_skip!(can(&["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]));
    let (_dir, place) = quiet();
    let report = json(filesystems(&place, &["--only", "ext4,xfs,btrfs", "--rounds", "2", "--json"]));
    assert_nothing_left(&place);
    let table = &report["filesystems"];
    for name in ["ext4", "xfs", "btrfs"] {
        let one = find(&table["filesystems"], "name", name);
        assert_eq!((one["kind"].as_str().unwrap(), int(&one["rounds"])), (name, 2));
        assert!(!list(&one["commands"]).is_empty() && !list(&one["options"]).is_empty() && one["tool"] != "");
    }
    assert_eq!(list(&report["record"]["mounts"]).len(), 6);
    let steps = ["read", "write", "commit1", "commit8", "seqread", "seqwrite", "files"];
    assert_eq!(list(&report["record"]["steps"]).len(), 6 * steps.len());
    let rounds_of = |step: &str| -> Vec<usize> {
        let row = list(&table["rows"]).iter().find(|row| row["step"] == step && row["leads"] == true).unwrap();
        list(&row["cells"]).iter().map(|cell| list(&cell["rounds"]).len()).collect()
    };
    let rounds: Vec<Vec<usize>> = steps.into_iter().map(rounds_of).collect();
    // A step of 300 ms may lie in a stall of the machine, and has no figure then.
    let missing: usize = rounds.iter().flatten().map(|count| 2 - count).sum();
    assert!(rounds.iter().all(|row| row.len() == 3) && missing <= 4, "{rounds:?}");
    // Both orders are of all three, and each mount says on what it was.
    for order in list(&report["record"]["plan"]["filesystems"]["order"]) {
        let mut order: Vec<u64> = list(order).iter().map(int).collect();
        order.sort_unstable();
        assert_eq!(order, [0, 1, 2]);
    }
    for mount in list(&report["record"]["mounts"]) {
        assert_eq!(mount["filesystem"]["kind"], mount["name"]);
        assert_eq!(mount["devices"][0]["kind"], "loop");
    }
    let schema = json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());

    let id = report["record"]["id"].as_str().unwrap();
    assert_eq!(json(place.qd1(&["history", "show", id, "--json"])), report);
    let shown = text(place.qd1(&["history", "show", id]));
    let table = shown.split("Run it again").next().unwrap();
    assert!(table.lines().all(|line| line.chars().count() <= 80), "{shown}");
    assert!(
        shown.contains("What differs for sure") && shown.contains("mkfs.btrfs") && !shown.contains('\u{1b}'),
        "{shown}"
    );
    let csv = text(place.qd1(&["history", "show", id, "--format", "csv"]));
    assert!(csv.lines().any(|line| line.contains(",commit1,commit,lat_p50_ns,true,xfs,xfs,")), "{csv}");
    let redacted = text(place.qd1(&["history", "show", id, "--redact", "--json"]));
    assert!(!redacted.contains(place.dir_str()), "a path is left");
}

#[test]
fn fair_tuning_is_in_force_and_stated() {
    or_skip!(can(&["mkfs.ext4", "mkfs.btrfs"]));
    let (_dir, place) = quiet();
    let args = ["--only", "ext4,btrfs", "--fair", "--rounds", "1", "--steps", "read"];
    let report = json(filesystems(&place, &[&args[..], &["--json"]].concat()));
    for (name, option) in [("ext4", "noatime"), ("btrfs", "noatime"), ("btrfs", "nodatacow")] {
        let one = find(&report["filesystems"]["filesystems"], "name", name);
        assert!(list(&one["options"]).iter().any(|known| known == option), "{one}");
        assert!(one["asked_options"].as_str().unwrap().contains(option), "{one}");
    }
    let command: Vec<&str> = list(&report["record"]["command"]).iter().filter_map(Value::as_str).collect();
    assert!(command.contains(&"--fair") && command.contains(&"ext4,btrfs"), "{command:?}");
    assert_nothing_left(&place);
}

/// zfs-fuse is one for the whole machine: what was there before stays, and ours goes.
fn zfs_programs() -> Vec<i32> {
    let all = fs::read_dir("/proc").unwrap().flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let is_it = |pid: &i32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.contains("(zfs-fuse)") && !stat.contains(") Z ")
    };
    all.filter(is_it).collect()
}

#[test]
fn zfs_is_served_measured_and_ended_again() {
    or_skip!(can(&["zpool", "zfs-fuse"]));
    let before = zfs_programs();
    let (_dir, place) = quiet();
    let args = ["--only", "zfs", "--fair", "--rounds", "1", "--steps", "read,commit1,files", "--json"];
    let report = json(filesystems(&place, &args));
    let one = find(&report["filesystems"]["filesystems"], "name", "zfs");
    assert!(one["kind"].as_str().unwrap().contains("zfs"), "{one}");
    let properties: Vec<&str> = list(&one["properties"]).iter().filter_map(Value::as_str).collect();
    assert!(properties.contains(&"recordsize=8K") && properties.contains(&"logbias=throughput"), "{properties:?}");
    assert_nothing_left(&place);
    assert_eq!(zfs_programs(), before);
}

/// A limit counts requests in slices of 20 to 100 ms. More than one a slice come in gusts, the rate of which is no
/// figure.
const ONE_A_SLICE: u32 = 10;

/// Slows reads of the device of `name` down whenever that is mounted, until told to stop.
fn slow_down(name: &str, group: &Path, over: &AtomicBool) {
    let file = group.join("blkio.throttle.read_iops_device");
    let limit = |number: &str, iops: u32| {
        let _ = fs::write(&file, format!("{number} {iops}"));
    };
    let mut slowed: Option<String> = None;
    while !over.load(Ordering::Relaxed) {
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
        let of = |line: &&str| line.split(' ').nth(4).is_some_and(|point| point.ends_with(&format!("/{name}")));
        // btrfs has a number of its own; ext4 that of its device.
        let now = mounts.lines().find(of).and_then(|line| line.split(' ').nth(2)).map(str::to_owned);
        if now != slowed {
            if let Some(number) = &slowed {
                limit(number, 0);
            }
            if let Some(number) = &now {
                limit(number, ONE_A_SLICE);
            }
            slowed = now;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The leading row of a step, as (name, rank, low, high) of each filesystem. Absent where one is not resolved.
fn ranked(report: &Value, step: &str, metric: &str) -> Option<Vec<(String, u64, f64, f64)>> {
    let table = &report["filesystems"];
    let row = list(&table["rows"]).iter().find(|row| row["step"] == step && row["metric"] == metric).unwrap();
    let cells = list(&table["filesystems"]).iter().zip(list(&row["cells"]));
    cells
        .map(|(one, cell)| {
            let over = &cell["over_rounds"];
            let name = one["name"].as_str().unwrap().to_owned();
            Some((name, cell["rank"].as_u64().unwrap_or(0), over["low"].as_f64()?, over["high"].as_f64()?))
        })
        .collect()
}

#[test]
fn equal_filesystems_are_equal_and_on_a_slower_device_slower() {
    or_skip!(can(&["mkfs.ext4"]));
    let group = or_skip!(Throttle::group("filesystems"));
    // Every read takes the same time, whatever else the machine does; the machine's own disk is not equal to itself.
    let mut scenario = Scenario::named("network-block").unwrap();
    scenario.device.read = Service::log_normal(4e6, 0.05);
    let disk = or_skip!(Disk::new(scenario));
    let place = &disk.place;
    let args = ["--only", "ext4,ext4,ext4", "--rounds", "4", "--steps", "read", "--runtime", "2s", "--json"];
    let measure = || -> Value {
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| slow_down("ext4-3", group.dir(), &over));
            let whole = [&["filesystems", place.dir_str()], &TINY[..], &args[..]].concat();
            let output = place.environment(&mut in_group(&group, common::qd1(), &whole)).output();
            over.store(true, Ordering::Relaxed);
            let output = output.unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            serde_json::from_slice(&output.stdout).unwrap()
        })
    };
    // Twenty reads of the slow one in a round may not be enough where the machine is busy: then there is no figure.
    // Where it stalls, rounds differ, and intervals are wide. Equals are told apart by chance once in twenty runs, and
    // so at most one of them is second.
    let mut seen = Vec::new();
    let is_in_order = |seen: &mut Vec<_>| {
        let Some(ranks) = ranked(&measure(), "read", "iops") else { return false };
        let [one, two, slow] = ranks.as_slice() else { panic!("{ranks:?}") };
        assert!(slow.1 != 1 || one.1.min(two.1) == 1, "the slow one is never first alone: {ranks:?}");
        let are_equal = one.2 <= two.3 && two.2 <= one.3;
        let is_slower = slow.3 < one.2 && slow.3 < two.2;
        let is_in_order = slow.1 == 3 && one.1.min(two.1) == 1 && are_equal && is_slower;
        seen.push(ranks);
        is_in_order
    };
    assert!((0..3).any(|_| is_in_order(&mut seen)), "the order in three runs: {seen:?}");
    assert_eq!(upon(place), [place.dir_str()], "only the disk itself is still mounted");
}

#[test]
fn a_device_is_used_only_if_named_twice_and_left_blank() {
    or_skip!(can(&["mkfs.ext4"]));
    let disk = or_skip!(Loop::new(400 << 20, &[]));
    let (_dir, place) = quiet();
    let rest = [
        "--only",
        "ext4",
        "--rounds",
        "2",
        "--steps",
        "read",
        "--size",
        "16MiB",
        "--disk",
        "300MiB",
        "--runtime",
        "200ms",
    ];
    let with = |more: &[&str]| place.qd1(&[&["filesystems", disk.path()], &rest[..], more].concat());
    with(&[]).assert().code(4).stderr(predicate::str::contains("--destroy"));
    with(&["--destroy", "/dev/null"]).assert().code(4).stderr(predicate::str::contains("nothing was written"));
    tool("mkfs.ext4", &["-q", "-F", disk.path()]).unwrap();
    with(&["--destroy", disk.path()]).assert().code(4).stderr(predicate::str::contains("ext4"));
    tool("wipefs", &["--all", "--quiet", disk.path()]).unwrap();
    let report = json(with(&["--destroy", disk.path(), "--json"]));
    let mounts = list(&report["record"]["mounts"]);
    assert!(mounts.len() == 2 && mounts.iter().all(|mount| mount["loop_direct"].is_null()), "{mounts:?}");
    assert_eq!(tool("wipefs", &[disk.path()]).unwrap(), "");
    assert_nothing_left(&place);
}

#[test]
fn a_filesystem_larger_than_the_place_is_refused() {
    or_skip!(can(&["mkfs.ext4"]));
    let (_dir, place) = quiet();
    let tiny = ["--only", "ext4", "--rounds", "1", "--steps", "read", "--size", "16MiB", "--disk", "8GiB", "--quiet"];
    let disk = or_skip!(qd1_lab::Mounted::ext4("noatime"));
    let path = disk.path().to_str().unwrap();
    let said = predicate::str::contains("not enough space").and(predicate::str::contains("--disk"));
    place.qd1(&[&["filesystems", path], &tiny[..]].concat()).assert().code(4).stderr(said);
    assert_eq!(names(disk.path()), Vec::<String>::new());
}

#[test]
fn filesystems_on_a_disk_that_runs_full_give_one_clear_error() {
    or_skip!(can(&["mkfs.ext4"]));
    let disk = or_skip!(Disk::named("full"));
    let place = &disk.place;
    let output = filesystems(place, &["--only", "ext4", "--rounds", "2", "--steps", "read"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("ENOSPC") && said.lines().count() == 1, "{said}");
    place.assert_empty();
    assert_eq!(journals(place), Vec::<String>::new());
}

/// The second filesystem was refused because of the first, and at the end whatever lay there was removed.
#[test]
fn a_device_takes_several_filesystems_and_is_blank_again() {
    or_skip!(can(&["mkfs.ext4", "mkfs.btrfs"]));
    let disk = or_skip!(Loop::new(600 << 20, &[]));
    let place = Place::new();
    let args = ["filesystems", disk.path(), "--destroy", disk.path(), "--only", "ext4,btrfs", "--rounds", "2"];
    let args = [&args[..], &TINY, &["--steps", "read", "--json"]].concat();
    let report = common::json(assert_cmd::Command::from_std(place.real_time(&args)));
    let mounts = list(&report["record"]["mounts"]);
    assert_eq!(mounts.len(), 4);
    assert!(mounts.iter().all(|mount| mount["fault"].is_null()), "{mounts:?}");
    assert_eq!(tool("wipefs", &["--noheadings", disk.path()]).unwrap(), "");
    // What is there before is refused and stays.
    tool("mkfs.ext4", &["-q", disk.path()]).unwrap();
    let before = disk.content();
    assert_cmd::Command::from_std(place.real_time(&args)).assert().code(4);
    assert!(disk.content() == before, "it was changed");
}
