//! A block device is never written but by a `--destroy` that names it, with nothing on it and nobody using it.
//!
//! Only on loop devices that the test made.

mod common;

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use common::device::{Loop, Mounted, tool};
use common::{Place, find, int, list, skip};
use predicates::prelude::*;
use serde_json::Value;

const SIZE: u64 = 64 << 20;

/// A loop device full of something that is no signature, or the test is skipped.
fn filled(test: &str) -> Option<Loop> {
    match Loop::new(SIZE, &[]) {
        Ok(disk) => {
            let noise: Vec<u8> =
                (0..SIZE / 8).flat_map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1).to_le_bytes()).collect();
            let file = File::options().write(true).open(disk.path()).unwrap();
            file.write_all_at(&noise, 0).unwrap();
            file.sync_all().unwrap();
            Some(disk)
        }
        Err(why) => {
            skip(test, &why);
            None
        }
    }
}

/// `qd1 check DEVICE --destroy NAMED` is refused with exit code 4 for the reason `why`, and not a byte changed.
#[track_caller]
fn destroy_refused(disk: &Loop, device: &str, named: &str, why: &str) {
    let place = Place::new();
    let before = disk.content();
    let said = predicate::str::contains(why).and(predicate::str::contains(device));
    place.qd1(&["check", device, "--destroy", named, "--runtime", "100ms"]).assert().code(4).stdout("").stderr(said);
    assert!(disk.content() == before, "{device} was written");
    place.assert_untouched();
}

#[test]
fn a_device_that_takes_no_writes_is_refused_with_the_reason_and_measured_by_reads() {
    let test = "a_device_that_takes_no_writes_is_refused_with_the_reason_and_measured_by_reads";
    // By losetup, whose flag goes with the file; what blockdev sets would stay on the device.
    let disk = match Loop::new(SIZE, &["--read-only"]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    let quick = ["--only", "qd1", "--runtime", "100ms"];
    let said = predicate::str::contains("read-only").and(predicate::str::contains("--setrw"));
    let destroy = [&["check", disk.path(), "--destroy", disk.path()], &quick[..]].concat();
    place.qd1(&destroy).assert().code(5).stdout("").stderr(said);
    place.qd1(&[&["check", disk.path()], &quick[..]].concat()).assert().success();
}

#[test]
fn without_destroy_a_device_is_only_read_and_writing_steps_say_why_they_did_not_run() {
    let test = "without_destroy_a_device_is_only_read_and_writing_steps_say_why_they_did_not_run";
    let Some(disk) = filled(test) else { return };
    let before = disk.content();
    let place = Place::new();
    let report = common::json(place.qd1(&["check", disk.path(), "--runtime", "100ms", "--json"]));
    assert!(disk.content() == before, "the device was written");
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(ran, ["qd1", "read32", "seqread"]);
    for step in list(&report["record"]["steps"]) {
        assert_eq!(int(&step["device"]["asked_writes"]) + int(&step["device"]["counted"]["writes"]), 0, "{step}");
        assert!(int(&step["device"]["counted"]["reads"]) > 0, "{step}");
    }
    for name in ["commit1", "commit4", "wal", "write32", "seqwrite", "buffered"] {
        let why = find(&report["record"]["plan"]["skipped"], "name", name)["why"].as_str().unwrap().to_owned();
        assert!(why.contains("only read"), "{name}: {why}");
    }
    assert!(
        find(&report["record"]["plan"]["skipped"], "name", "files")["why"].as_str().unwrap().contains("filesystem")
    );
    // And a person is told the same.
    let id = report["record"]["id"].as_str().unwrap();
    place
        .qd1(&["history", "show", id])
        .assert()
        .stdout(predicate::str::contains("not run").and(predicate::str::contains("only read")));
}

#[test]
fn destroy_with_another_name_writes_nothing() {
    let Some(disk) = filled("destroy_with_another_name_writes_nothing") else { return };
    destroy_refused(&disk, disk.path(), "/dev/vda1", "--destroy has to name the same");
    destroy_refused(&disk, disk.path(), "/nonexistent", "--destroy has to name the same");
}

#[test]
fn destroy_of_a_directory_or_a_file_is_refused() {
    let place = Place::new();
    let file = place.beside("file");
    let content = vec![1u8; 32 << 20];
    fs::write(&file, &content).unwrap();
    for path in [place.dir(), &file] {
        let path = path.to_str().unwrap();
        place.qd1(&["check", path, "--destroy", path]).assert().code(4).stderr(predicate::str::contains("--destroy"));
    }
    assert!(fs::read(&file).unwrap() == content);
    place.assert_untouched();
}

#[test]
fn a_mounted_device_is_not_destroyed() {
    let mounted = match Loop::ext4(SIZE).and_then(|disk| Mounted::new(disk, "defaults")) {
        Ok(mounted) => mounted,
        Err(why) => return skip("a_mounted_device_is_not_destroyed", &why),
    };
    fs::write(mounted.path().join("precious"), "data").unwrap();
    tool("sync", &["--file-system", mounted.path().to_str().unwrap()]).unwrap();
    destroy_refused(&mounted.disk, mounted.disk.path(), mounted.disk.path(), mounted.path().to_str().unwrap());
    assert_eq!(fs::read_to_string(mounted.path().join("precious")).unwrap(), "data");
}

#[test]
fn a_device_with_a_filesystem_or_swap_signature_is_not_destroyed() {
    let test = "a_device_with_a_filesystem_or_swap_signature_is_not_destroyed";
    match Loop::ext4(SIZE) {
        Ok(disk) => destroy_refused(&disk, disk.path(), disk.path(), "ext4"),
        Err(why) => return skip(test, &why),
    }
    let disk = Loop::new(SIZE, &[]).unwrap();
    match tool("mkswap", &[disk.path()]) {
        Ok(_) => destroy_refused(&disk, disk.path(), disk.path(), "swap"),
        Err(why) => skip(test, &why),
    }
}

#[test]
fn a_disk_with_a_mounted_partition_is_not_destroyed() {
    let test = "a_disk_with_a_mounted_partition_is_not_destroyed";
    let disk = match Loop::new(SIZE, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    // The kernel is told of the partition, since not every one reads tables on loop devices.
    let (start, sectors) = (2048, SIZE / 512 - 2048);
    if let Err(why) = tool("addpart", &[disk.path(), "1", &start.to_string(), &sectors.to_string()]) {
        return skip(test, &why);
    }
    let partition = format!("{}p1", disk.path());
    let outcome = std::panic::catch_unwind(|| {
        if !common::comes_true(200, || fs::metadata(&partition).is_ok()) {
            return skip(test, "nobody makes the node of a partition here");
        }
        tool("mkfs.ext4", &["-q", &partition]).unwrap();
        destroy_refused(&disk, disk.path(), disk.path(), "ext4");
        let dir = tempfile::tempdir().unwrap();
        tool("mount", &[&partition, dir.path().to_str().unwrap()]).unwrap();
        let refused = std::panic::catch_unwind(|| {
            destroy_refused(&disk, disk.path(), disk.path(), dir.path().to_str().unwrap());
        });
        tool("umount", &[dir.path().to_str().unwrap()]).unwrap();
        refused.unwrap();
    });
    tool("delpart", &[disk.path(), "1"]).unwrap();
    outcome.unwrap();
}

#[test]
fn a_device_with_a_partition_table_is_not_destroyed() {
    let test = "a_device_with_a_partition_table_is_not_destroyed";
    let disk = match Loop::new(SIZE, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    // In the form of 1983: one entry of type Linux from sector 2048 to the end, and the signature.
    let mut sector = [0u8; 512];
    sector[446 + 4] = 0x83;
    sector[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    sector[446 + 12..446 + 16].copy_from_slice(&((SIZE / 512) as u32 - 2048).to_le_bytes());
    sector[510..].copy_from_slice(&[0x55, 0xAA]);
    File::options().write(true).open(disk.path()).unwrap().write_all_at(&sector, 0).unwrap();
    destroy_refused(&disk, disk.path(), disk.path(), "partition table");
}

#[test]
fn a_blank_device_is_destroyed_when_named_and_every_step_but_files_runs() {
    let test = "a_blank_device_is_destroyed_when_named_and_every_step_but_files_runs";
    let disk = match Loop::new(SIZE, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    let args = ["check", disk.path(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "100ms", "--json"];
    let report = common::json(place.qd1(&args));
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(ran, ["qd1", "commit1", "commit4", "wal", "read32", "write32", "seqread", "seqwrite", "buffered"]);
    for step in list(&report["record"]["steps"]) {
        assert_eq!(list(&step["errors"]), &[] as &[Value], "{}", step["name"]);
    }
    assert_eq!(int(&report["record"]["prepare"]["bytes"]), 32 << 20);
    let content = disk.content();
    assert!(content[..32 << 20].chunks(4096).all(|block| block != [0; 4096]), "not all was written");
    assert!(content[32 << 20..].chunks(4096).all(|block| block == [0; 4096]), "written beyond --size");
}

#[test]
fn a_link_that_leads_to_the_device_names_it_as_well() {
    let test = "a_link_that_leads_to_the_device_names_it_as_well";
    let disk = match Loop::new(SIZE, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    let link = place.beside("by-id");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    let args = ["check", link.to_str().unwrap(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "100ms"];
    place.qd1(&[&args[..], &["--only", "read32"]].concat()).assert().success();
}

#[test]
fn the_same_seed_writes_the_same_data() {
    let test = "the_same_seed_writes_the_same_data";
    let mut contents = Vec::new();
    for seed in ["7", "7", "8"] {
        let disk = match Loop::new(SIZE, &[]) {
            Ok(disk) => disk,
            Err(why) => return skip(test, &why),
        };
        let args = ["check", disk.path(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "50ms"];
        Place::new().qd1(&[&args[..], &["--only", "read32", "--seed", seed]].concat()).assert().success();
        contents.push(disk.content());
    }
    // Not assert_eq: nobody wants to see 64 MiB.
    assert!(contents[0] == contents[1], "the same seed wrote other data");
    assert!(contents[0] != contents[2], "another seed wrote the same data");
}
