//! `qd1 filesystems` on real filesystems, too short for figures. How it ends, and that nothing is left then, is in
//! filesystems_end.rs.
//!
//! Needs root, and whichever of mkfs.ext4, mkfs.xfs, mkfs.btrfs and zfs are there.

mod common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use common::device::{Loop, tool};
use common::filesystems::{TINY, assert_nothing_left, can, filesystems, journals, quiet, upon};
use common::{Place, find, int, is_root, json, list, names, schema, skip, text};
use predicates::prelude::*;
use qd1_engine::sim::Service;
use qd1_simdisk::{Mounted, Scenario};
use serde_json::Value;

#[test]
fn each_filesystem_is_measured_in_every_round_and_the_history_shows_the_table_again() {
    let test = "each_filesystem_is_measured_in_every_round_and_the_history_shows_the_table_again";
    if !can(test, &["mkfs.ext4", "mkfs.xfs", "mkfs.btrfs"]) {
        return;
    }
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
    for step in steps {
        let row = list(&table["rows"]).iter().find(|row| row["step"] == step && row["leads"] == true).unwrap();
        assert!(list(&row["cells"]).iter().all(|cell| list(&cell["rounds"]).len() == 2), "{row}");
    }
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
    if !can("fair_tuning_is_in_force_and_stated", &["mkfs.ext4", "mkfs.btrfs"]) {
        return;
    }
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

#[test]
fn postgresql_runs_on_each_filesystem_and_is_a_row_of_the_table() {
    let test = "postgresql_runs_on_each_filesystem_and_is_a_row_of_the_table";
    if !can(test, &["mkfs.ext4"]) {
        return;
    }
    let (dir, place) = quiet();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let free = rustix::fs::statvfs(dir.path()).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if free < 5 << 30 {
        return skip(test, "too little space for a server");
    }
    let args = ["--only", "ext4", "--rounds", "1", "--steps", "read", "--postgres", "--scale", "1", "--size", "16MiB"];
    let rest = ["--disk", "1800MiB", "--runtime", "1s", "--quick", "--quiet", "--json"];
    let output = place.qd1(&[&["filesystems", place.dir_str()], &args[..], &rest].concat()).output().unwrap();
    if output.status.code() == Some(5) {
        return skip(test, String::from_utf8_lossy(&output.stderr).trim());
    }
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let steps: Vec<&str> = list(&report["record"]["steps"]).iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(steps, ["ext4/r1/read", "ext4/r1/10 clients", "ext4/r1/100 clients"]);
    let rows = list(&report["filesystems"]["rows"]);
    assert!(rows.iter().any(|row| row["op"] == "transaction" && row["leads"] == true && row["step"] == "100 clients"));
    let one = find(&report["filesystems"]["filesystems"], "name", "ext4");
    assert!(one["app"]["version"].as_str().is_some_and(|version| !version.is_empty()), "{one}");
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
    let test = "zfs_is_served_measured_and_ended_again";
    if !can(test, &["zpool", "zfs-fuse"]) {
        return;
    }
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

/// A limit counts requests in slices of 20 to 100 ms. More than one a slice come in gusts, the rate of which is no figure.
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

/// The leading row of a step, as (name, rank, low, high) of each filesystem.
fn ranked(report: &Value, step: &str, metric: &str) -> Vec<(String, u64, f64, f64)> {
    let table = &report["filesystems"];
    let row = list(&table["rows"]).iter().find(|row| row["step"] == step && row["metric"] == metric).unwrap();
    let cells = list(&table["filesystems"]).iter().zip(list(&row["cells"]));
    cells
        .map(|(one, cell)| {
            let over = &cell["over_rounds"];
            let name = one["name"].as_str().unwrap().to_owned();
            (name, cell["rank"].as_u64().unwrap_or(0), common::float(&over["low"]), common::float(&over["high"]))
        })
        .collect()
}

#[test]
fn the_same_filesystem_twice_is_equal_and_on_a_slower_device_it_is_slower() {
    let test = "the_same_filesystem_twice_is_equal_and_on_a_slower_device_it_is_slower";
    if !can(test, &["mkfs.ext4"]) {
        return;
    }
    let group = Path::new("/sys/fs/cgroup/blkio").join(format!("qd1-test-{}-filesystems", std::process::id()));
    if !group.parent().unwrap().join("blkio.throttle.read_iops_device").exists()
        && !group.parent().unwrap().join("cgroup.procs").exists()
    {
        return skip(test, "no blkio controller of cgroup v1 here");
    }
    if let Some(why) = Mounted::unavailable() {
        return skip(test, &why);
    }
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on = dir.path().join("disk");
    fs::create_dir(&on).unwrap();
    // Every read takes the same time, whatever else the machine does; the machine's own disk is not equal to itself.
    let mut scenario = Scenario::named("network-block").unwrap();
    scenario.device.read = Service::log_normal(4e6, 0.05);
    let _disk = Mounted::new(&scenario, &on).expect("FUSE is there, so a disk can be mounted");
    let place = Place::at(&on);
    let args = ["--only", "ext4,ext4,ext4", "--rounds", "4", "--steps", "read", "--runtime", "2s", "--json"];
    fs::create_dir(&group).unwrap();
    let over = AtomicBool::new(false);
    let report: Value = std::thread::scope(|scope| {
        scope.spawn(|| slow_down("ext4-3", &group, &over));
        let mut shell = Command::new("sh");
        let script = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", group.display());
        let whole = [&["filesystems", place.dir_str()], &TINY[..], &args[..]].concat();
        let output = place.environment(&mut shell).arg("-c").arg(script).arg(common::qd1()).args(whole).output();
        over.store(true, Ordering::Relaxed);
        let output = output.unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    });
    let gone = || fs::remove_dir(&group).is_ok();
    assert!(common::comes_true(100, gone), "the control group stays");
    let ranks = ranked(&report, "read", "iops");
    let [one, two, slow] = ranks.as_slice() else { panic!("{ranks:?}") };
    // Equals are told apart by chance once in twenty runs, and so at most one of them is second.
    assert!(slow.1 == 3 && one.1.min(two.1) == 1, "{ranks:?}");
    assert!(one.2 <= two.3 && two.2 <= one.3, "the intervals of equals overlap: {ranks:?}");
    assert!(slow.3 < one.2 && slow.3 < two.2, "{ranks:?}");
    assert_eq!(upon(&place), [place.dir_str()], "only the disk itself is still mounted");
}

#[test]
fn a_device_is_used_only_if_named_twice_and_left_without_a_filesystem() {
    let test = "a_device_is_used_only_if_named_twice_and_left_without_a_filesystem";
    if !can(test, &["mkfs.ext4"]) {
        return;
    }
    let disk = match Loop::new(400 << 20, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
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
    let test = "a_filesystem_larger_than_the_place_is_refused";
    if !can(test, &["mkfs.ext4"]) {
        return;
    }
    let (_dir, place) = quiet();
    let tiny = ["--only", "ext4", "--rounds", "1", "--steps", "read", "--size", "16MiB", "--disk", "8GiB", "--quiet"];
    let disk = match common::device::Mounted::ext4("noatime") {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let path = disk.path().to_str().unwrap();
    let said = predicate::str::contains("not enough space").and(predicate::str::contains("--disk"));
    place.qd1(&[&["filesystems", path], &tiny[..]].concat()).assert().code(4).stderr(said);
    assert_eq!(names(disk.path()), Vec::<String>::new());
}

#[test]
fn a_disk_that_runs_full_gives_one_clear_error_and_nothing_is_left_of_it() {
    let test = "a_disk_that_runs_full_gives_one_clear_error_and_nothing_is_left_of_it";
    if !can(test, &["mkfs.ext4"]) {
        return;
    }
    if let Some(why) = Mounted::unavailable() {
        return skip(test, &why);
    }
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let on = dir.path().join("disk");
    fs::create_dir(&on).unwrap();
    let _disk = Mounted::new(&Scenario::named("full").unwrap(), &on).expect("FUSE is there, so a disk can be mounted");
    let place = Place::at(&on);
    let output = filesystems(&place, &["--only", "ext4", "--rounds", "2", "--steps", "read"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{said}");
    assert!(said.contains("ENOSPC") && said.lines().count() == 1, "{said}");
    place.assert_empty();
    assert_eq!(journals(&place), Vec::<String>::new());
}

#[test]
fn wrong_words_are_refused_before_anything_is_done() {
    let (_dir, place) = quiet();
    let refused = |args: &[&str], code: i32, said: &str| {
        filesystems(&place, args).assert().code(code).stdout("").stderr(predicate::str::contains(said));
        place.assert_untouched();
        assert_eq!(journals(&place), Vec::<String>::new());
    };
    refused(&["--only", "ntfs"], 2, "choose from ext4, xfs, btrfs, zfs");
    refused(&["--only", "ext4", "--steps", "reed"], 2, "choose from read");
    refused(&["--only", "ext4", "--rounds", "0"], 2, "--rounds");
    refused(&["--only", "ext4", "--destroy", "/dev/null"], 4, "same block device");
    refused(&["--only", "ext4", "--disk", "20MiB"], 2, "too small");
}

#[test]
fn a_dry_run_needs_no_root_and_says_what_is_made_and_when() {
    let (_dir, place) = quiet();
    let said = text(filesystems(&place, &["--only", "ext4,ext4", "--rounds", "2", "--dry-run"]));
    for part in ["mkfs.ext4", "400 MiB", "rounds    2 of 2", "time ", "writes ", "space ", "ext4-2", "qd1 restore"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    place.assert_untouched();
}

#[test]
fn an_ordinary_user_is_told_in_one_message_that_root_is_needed() {
    let test = "an_ordinary_user_is_told_in_one_message_that_root_is_needed";
    if is_root() && !Path::new("/usr/bin/setpriv").exists() {
        return skip(test, "setpriv is missing");
    }
    let (_dir, place) = quiet();
    let own = [&["filesystems", place.dir_str(), "--only", "ext4"], &TINY[..]].concat();
    let mut command = if is_root() {
        fs::set_permissions(place.dir(), std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
        // The build directory may be closed to others; the binary is copied to where they get.
        let open = tempfile::TempDir::new().unwrap();
        let binary: PathBuf = open.keep().join("qd1");
        fs::copy(common::qd1(), &binary).unwrap();
        fs::set_permissions(binary.parent().unwrap(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&binary);
        command
    } else {
        Command::new(common::qd1())
    };
    let output = place.environment(&mut command).args(own).output().unwrap();
    if is_root() {
        let binary = command.get_args().nth(3).map(PathBuf::from).unwrap();
        fs::remove_dir_all(binary.parent().unwrap()).unwrap();
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(said.lines().count() == 1 && said.contains("root"), "{said}");
    place.assert_empty();
}
