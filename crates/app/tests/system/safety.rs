//! A block device is never written but by a `--destroy` that names it, with nothing on it and nobody using it.
//!
//! Only on loop devices that the test made.

use std::fs::{self, File};
use std::os::unix::fs::{FileExt as _, symlink};
use std::path::Path;

use predicates::prelude::*;
use qd1_lab::{Loop, Mounted, tool};
use serde_json::Value;

use crate::common::fio::{Side, words};
use crate::common::refusal::refused;
use crate::common::{self, Place, find, int, is_root, list, or_skip, said, skip, test_name};

const SIZE: u64 = 64 << 20;

/// A loop device full of something that is no signature.
fn filled() -> Result<Loop, String> {
    let disk = Loop::new(SIZE, &[])?;
    let noise: Vec<u8> =
        (0..SIZE / 8).flat_map(|n| (n.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1).to_le_bytes()).collect();
    let file = File::options().write(true).open(disk.path()).unwrap();
    file.write_all_at(&noise, 0).unwrap();
    file.sync_all().unwrap();
    Ok(disk)
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
fn a_read_only_device_is_refused_for_writes_and_read() {
    // By losetup, whose flag goes with the file; what blockdev sets would stay on the device.
    let disk = or_skip!(Loop::new(SIZE, &["--read-only"]));
    let place = Place::new();
    let quick = ["--only", "qd1", "--runtime", "100ms"];
    let said = predicate::str::contains("read-only").and(predicate::str::contains("--setrw"));
    let destroy = [&["check", disk.path(), "--destroy", disk.path()], &quick[..]].concat();
    place.qd1(&destroy).assert().code(5).stdout("").stderr(said);
    place.qd1(&[&["check", disk.path()], &quick[..]].concat()).assert().success();
}

#[test]
fn without_destroy_a_device_is_only_read_and_the_rest_says_why() {
    let disk = or_skip!(filled());
    let before = disk.content();
    let place = Place::new();
    let report = common::json(place.qd1(&["check", disk.path(), "--runtime", "100ms", "--json"]));
    assert!(disk.content() == before, "the device was written");
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(ran, ["cold", "touch-16m", "again-16m", "qd1", "paced", "read32", "seqread"]);
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
    let disk = or_skip!(filled());
    destroy_refused(&disk, disk.path(), "/dev/vda1", "--destroy must name the same");
    destroy_refused(&disk, disk.path(), "/nonexistent", "--destroy must name the same");
}

#[test]
fn a_mounted_device_is_not_destroyed() {
    let mounted = or_skip!(Loop::ext4(SIZE).and_then(|disk| Mounted::new(disk, "defaults")));
    fs::write(mounted.path().join("precious"), "data").unwrap();
    tool("sync", &["--file-system", mounted.path().to_str().unwrap()]).unwrap();
    destroy_refused(&mounted.disk, mounted.disk.path(), mounted.disk.path(), mounted.path().to_str().unwrap());
    assert_eq!(fs::read_to_string(mounted.path().join("precious")).unwrap(), "data");
}

#[test]
fn a_device_with_a_filesystem_or_swap_is_not_destroyed() {
    let disk = or_skip!(Loop::ext4(SIZE));
    destroy_refused(&disk, disk.path(), disk.path(), "ext4");
    let disk = or_skip!(Loop::new(SIZE, &[]));
    or_skip!(tool("mkswap", &[disk.path()]));
    destroy_refused(&disk, disk.path(), disk.path(), "swap");
}

#[test]
fn a_disk_with_a_mounted_partition_is_not_destroyed() {
    let test = test_name!();
    let disk = or_skip!(Loop::new(SIZE, &[]));
    // The kernel is told of the partition, since not every one reads tables on loop devices.
    let (start, sectors) = (2048, SIZE / 512 - 2048);
    or_skip!(tool("addpart", &[disk.path(), "1", &start.to_string(), &sectors.to_string()]));
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
    let disk = or_skip!(Loop::new(SIZE, &[]));
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
fn a_blank_device_that_is_named_is_written_by_every_step() {
    let disk = or_skip!(Loop::new(SIZE, &[]));
    let place = Place::new();
    let args = ["check", disk.path(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "100ms", "--json"];
    let report = common::json(place.qd1(&args));
    let ran: Vec<&Value> = list(&report["record"]["steps"]).iter().map(|step| &step["name"]).collect();
    assert_eq!(
        ran,
        [
            &["cold", "touch-16m", "again-16m", "flush-4k", "flush-1m"][..],
            &["qd1", "commit1", "commit4", "wal", "paced", "read32", "write32", "seqread", "seqwrite", "buffered"]
        ]
        .concat()
    );
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
    let disk = or_skip!(Loop::new(SIZE, &[]));
    let place = Place::new();
    let link = place.beside("by-id");
    std::os::unix::fs::symlink(disk.path(), &link).unwrap();
    let args = ["check", link.to_str().unwrap(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "100ms"];
    place.qd1(&[&args[..], &["--only", "read32"]].concat()).assert().success();
}

#[test]
fn the_same_seed_writes_the_same_data() {
    let mut contents = Vec::new();
    for seed in ["7", "7", "8"] {
        let disk = or_skip!(Loop::new(SIZE, &[]));
        let args = ["check", disk.path(), "--destroy", disk.path(), "--size", "32MiB", "--runtime", "50ms"];
        Place::new().qd1(&[&args[..], &["--only", "read32", "--seed", seed]].concat()).assert().success();
        contents.push(disk.content());
    }
    // Not assert_eq: nobody wants to see 64 MiB.
    assert!(contents[0] == contents[1], "the same seed wrote other data");
    assert!(contents[0] != contents[2], "another seed wrote the same data");
}

#[test]
fn a_device_is_written_only_where_destroy_names_it() {
    let disk = or_skip!(Loop::new(16 << 20, &[]));
    let place = Place::new();
    let (before, device) = (disk.content(), disk.path());
    place.qd1(&["ping", device, "-c", "3", "-i", "1ms"]).assert().success();
    place.qd1(&["ping", device, "-c", "3", "-W"]).assert().code(4);
    place.qd1(&["ping", device, "-c", "3", "-W", "--destroy", "/dev/null"]).assert().code(4);
    assert!(disk.content() == before, "nothing was written");
    place.qd1(&["ping", device, "-c", "3", "-i", "1ms", "-W", "-D", "--destroy", device]).assert().success();
    assert!(disk.content() != before);
}

#[test]
fn a_mounted_device_is_refused_and_nothing_is_written() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "ro")));
    let place = Place::new();
    let before = mounted.disk.content();
    for rw in ["write", "randrw", "trim"] {
        let line = format!("--name=j --filename={} --rw={rw} --size=1m --bs=4k", mounted.disk.path());
        let output = Side::Ours.run(place.dir(), &line);
        assert_eq!(output.status.code(), Some(4), "{}", said(&output.stderr));
        assert!(said(&output.stderr).contains("mounted"), "{}", said(&output.stderr));
    }
    assert!(mounted.disk.content() == before, "something was written");
    // Reading does no harm.
    let line = format!("--name=j --filename={} --rw=read --size=1m --bs=4k", mounted.disk.path());
    assert!(Side::Ours.run(place.dir(), &line).status.success());
}

/// Root resolved another user's links by name: `-o` replaced the file they led to, a job wrote it, the history too.
#[test]
fn links_of_another_user_lead_root_nowhere() {
    let place = or_skip!(if is_root() { Ok(Place::new()) } else { Err("only root can make another user's link") });
    let another = |path: &Path| std::os::unix::fs::lchown(path, Some(65_534), Some(65_534)).unwrap();
    let (theirs, precious, made) = (place.beside("theirs"), place.beside("precious"), place.beside("made"));
    fs::create_dir(&theirs).unwrap();
    fs::write(&precious, "precious").unwrap();
    for (link, target) in [("result", &precious), ("new", &made), ("history.db", &made)] {
        symlink(target, theirs.join(link)).unwrap();
        another(&theirs.join(link));
    }
    another(&theirs);
    let quick = ["check", ".", "--size", "32MiB", "--runtime", "50ms", "--only", "qd1"];
    let result = theirs.join("result");
    let said = predicate::str::contains("belongs to another user");
    place.qd1(&[&quick[..], &["-o", result.to_str().unwrap()]].concat()).assert().code(2).stderr(said);
    let said = predicate::str::contains("will not be kept").and(predicate::str::contains("another user can change"));
    place.qd1(&quick).env("QD1_STORE", theirs.join("history.db")).assert().success().stderr(said);

    let job = place.beside("job.fio");
    fs::write(&job, "[j]\nfilename=new\nrw=write\nsize=64k\n").unwrap();
    let run = ["run", job.to_str().unwrap(), theirs.to_str().unwrap(), "--quiet"];
    place.qd1(&run).assert().code(4);
    fs::remove_file(theirs.join("new")).unwrap();
    let said = predicate::str::contains("root would create").and(predicate::str::contains("--destroy"));
    place.qd1(&run).assert().code(4).stderr(said);
    assert_eq!((fs::read_to_string(&precious).unwrap().as_str(), made.exists()), ("precious", false));
    place.qd1(&[&run[..], &["--destroy", theirs.to_str().unwrap()]].concat()).assert().success();
}

/// Root opened what another user's link led to, as long as it was no regular file.
#[test]
fn links_of_another_user_lead_root_to_no_special_file() {
    let place = or_skip!(if is_root() { Ok(Place::new()) } else { Err("only root can make another user's link") });
    let (theirs, fifo, log) = (place.beside("theirs"), place.beside("fifo"), place.beside("x_bw.1.log"));
    fs::create_dir(&theirs).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    let flags = rustix::fs::OFlags::RDONLY | rustix::fs::OFlags::NONBLOCK;
    let mut reader = File::from(rustix::fs::open(&fifo, flags, rustix::fs::Mode::empty()).unwrap());
    let links = [theirs.join("out"), theirs.join("dev"), log];
    for (link, target) in links.iter().zip([&fifo, Path::new("/dev"), &fifo]) {
        symlink(target, link).unwrap();
        std::os::unix::fs::lchown(link, Some(65_534), Some(65_534)).unwrap();
    }
    place.report(&["--only", "read32"]);
    for line in [
        "history export -o ../theirs/out",
        "history export -o ../theirs/dev/null",
        "check . --only read32 -o ../theirs/out",
        "fio --name=j --rw=read --size=64k --output=../theirs/out",
        "fio --name=j --rw=read --size=64k --output=../theirs/dev/null",
        "fio --name=j --rw=read --size=64k --output-format=json --write_bw_log=../x",
    ] {
        refused(&place.qd1(&words(line)).output().unwrap(), 2, &["belongs to another user"]);
    }
    // The writers are gone: what is in it came from them.
    assert_eq!(std::io::read_to_string(&mut reader).unwrap(), "");
}
