//! On filesystems that this test made and mounted: what their options and their room do to a run.

use std::fs;
use std::os::unix::fs::MetadataExt as _;

use predicates::prelude::*;
use qd1_lab::{Loop, Mount, Mounted, Zram, tool};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::fio::Side;
use crate::common::refusal::{as_ordinary_user, path_refused, refused};
use crate::common::{self, BRIEF, Place, Running, int, json, list, names, or_skip, said, step, text, wait_until};

#[test]
fn on_ext4_the_test_file_is_written_whole_and_not_sparse() {
    let mounted = or_skip!(qd1_lab::Mounted::ext4("defaults"));
    let report = Place::at(mounted.path()).report(&["--only", "read32"]);
    let prepare = &report["record"]["prepare"];
    assert_eq!(int(&prepare["bytes"]), 32 << 20);
    assert_eq!(prepare["extents"]["written"], prepare["bytes"]);
    assert_eq!(int(&prepare["extents"]["hole"]) + int(&prepare["extents"]["unwritten"]), 0);
    assert_eq!(int(&prepare["lat"]["count"]), 32);
}

/// The report of a check of commits, in real time: where the processor was short, nothing is said of flushes.
fn commits(mounted: &Mounted) -> Value {
    let place = Place::at(mounted.path());
    let args = [&["check", place.dir_str(), "--json", "--only", "commit1"], &BRIEF[..]].concat();
    json(assert_cmd::Command::from_std(place.real_time(&args)))
}

/// Says that there is no disk, and judges nothing, on the filesystem at `path`; `what` names what it is.
fn assert_no_disk(path: &std::path::Path, what: &str) {
    let place = Place::at(path);
    let args = [&["--in-memory", "--only", "qd1,commit1", "--size", "16MiB"], &BRIEF[..]].concat();
    let output = place.qd1(&[&["--fail-on", "not-resolved", "--json"], &args[..]].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{what}: {}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(list(&report["verdicts"]).is_empty(), "{what}: {}", report["verdicts"]);
    let shown = said(&place.qd1(&args).output().unwrap().stdout);
    let first = shown.split("\n\n").next().unwrap().replace('\n', " ");
    assert!(first.contains("Nothing is judged: ") && first.contains(what), "{what}: {shown}");
}

/// An overlay on tmpfs and a loop device over it passed for databases, web and bulk.
#[test]
fn where_there_is_no_disk_nothing_is_judged() {
    let memory = or_skip!(Mount::new(&["-t", "tmpfs", "-o", "size=6g,mode=777", "tmpfs"]));
    let ramfs = or_skip!(Mount::new(&["-t", "ramfs", "ramfs"]));
    assert_no_disk(memory.path(), "tmpfs keeps its files in memory");
    path_refused(ramfs.path().to_str().unwrap(), 2, &["ramfs", "no disk to measure", "choose"]);
    for dir in ["lower", "upper", "work"] {
        fs::create_dir(memory.path().join(dir)).unwrap();
    }
    let at = |name: &str| memory.path().join(name).display().to_string();
    let layers = format!("lowerdir={},upperdir={},workdir={}", at("lower"), at("upper"), at("work"));
    let overlay = or_skip!(Mount::new(&["-t", "overlay", "-o", &layers, "overlay"]));
    assert_no_disk(overlay.path(), "overlay over tmpfs keeps its files in memory");
    drop(overlay);
    fs::File::create(memory.path().join("disk")).unwrap().set_len(2 << 30).unwrap();
    or_skip!(tool("mkfs.ext4", &["-q", &at("disk")]));
    let on_loop = or_skip!(Mount::new(&["-o", "loop", &at("disk")]));
    assert_no_disk(on_loop.path(), "is a loop device over a file in memory");
    drop(on_loop);
    // Its filesystem is detached: the path leads to another one, the kernel knows better.
    let gone = or_skip!(Mount::new(&["-t", "tmpfs", "-o", "size=6g,mode=777", "tmpfs"]));
    let file = gone.path().join("disk").display().to_string();
    fs::File::create(&file).unwrap().set_len(2 << 30).unwrap();
    or_skip!(tool("mkfs.ext4", &["-q", &file]));
    let on_loop = or_skip!(Mount::new(&["-o", "loop", &file]));
    or_skip!(tool("umount", &["--lazy", gone.path().to_str().unwrap()]));
    assert_no_disk(on_loop.path(), "is a loop device over a file in memory");
    drop(on_loop);
    // The directory is told relative to nobody knows what.
    let mut relative = std::process::Command::new("mount");
    let over = common::open_to_all();
    let options = "lowerdir=lower,upperdir=upper,workdir=work";
    relative.args(["-t", "overlay", "-o", options, "overlay"]).arg(over.path()).current_dir(memory.path());
    if relative.status().is_ok_and(|status| status.success()) {
        assert_no_disk(over.path(), "cannot see whether");
        or_skip!(tool("umount", &[over.path().to_str().unwrap()]));
    }
    let zram = or_skip!(Zram::ext4(2 << 30));
    let mounted = or_skip!(Mount::new(&[zram.path()]));
    assert_no_disk(mounted.path(), "is a device in memory");
}

/// Its file is a node in /dev, which is in memory; the disk is what that leads to.
#[test]
fn a_loop_device_over_another_on_a_disk_is_judged() {
    let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let file = dir.path().join("disk").display().to_string();
    fs::File::create(&file).unwrap().set_len(2 << 30).unwrap();
    or_skip!(tool("mkfs.ext4", &["-q", &file]));
    let below = or_skip!(tool("losetup", &["--find", "--show", &file]));
    let above = tool("losetup", &["--find", "--show", &below]);
    let seen = above.and_then(|above| {
        let mounted = Mount::new(&[&above]);
        let report = mounted.map(|mounted| Place::at(mounted.path()).report(&["--only", "qd1", "--size", "16MiB"]));
        tool("losetup", &["--detach", &above]).and(report)
    });
    or_skip!(tool("losetup", &["--detach", &below]));
    let report = or_skip!(seen);
    if report["record"]["environment"]["devices"].as_array().is_none_or(|devices| devices.len() < 3) {
        return common::skip(common::test_name!(), "the tests' directory is on no disk that is seen");
    }
    assert!(!list(&report["verdicts"]).is_empty(), "{}", report["findings"]);
}

/// The ids of all findings.
fn findings(report: &Value) -> Vec<&str> {
    list(&report["findings"]).iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

#[test]
fn commits_without_barriers_are_called_unsafe() {
    let mounted = or_skip!(Mounted::ext4("nodiscard,barrier=0"));
    let is_told = || {
        let report = commits(&mounted);
        assert_eq!(int(&step(&report, "commit1")["device"]["counted"]["flushes"]), 0, "no flush reached the device");
        let found = findings(&report);
        assert!(found.contains(&"mount_options.no_barrier"), "{found:?}");
        found.iter().any(|id| id.starts_with("flush_ignored"))
    };
    // In a stall of the machine there are too few commits to say so.
    assert!((0..3).any(|_| is_told()), "no flush_ignored in three runs");
}

#[test]
fn commits_with_barriers_are_not_called_unsafe() {
    let mounted = or_skip!(Mounted::ext4("nodiscard"));
    let has_flushes = || {
        let report = commits(&mounted);
        let found = findings(&report);
        let is_told = found.iter().any(|id| id.starts_with("flush_ignored") || id.starts_with("mount_options"));
        assert!(!is_told, "{found:?}");
        int(&step(&report, "commit1")["device"]["counted"]["flushes"]) > 0
    };
    // A stall of the machine may take all of a step that short.
    assert!((0..3).any(|_| has_flushes()), "no flush was counted in three runs");
}

#[test]
fn online_discard_is_named() {
    let mounted = or_skip!(Mounted::ext4("discard"));
    let report = commits(&mounted);
    assert!(findings(&report).contains(&"mount_options.discard"), "{:?}", findings(&report));
}

#[test]
fn a_block_device_is_not_read_by_a_user_who_may_not() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let output = or_skip!(as_ordinary_user(&Place::open_to_all(), &["check", disk.path()]));
    refused(&output, 5, &[disk.path(), "EACCES"]);
}

#[test]
fn a_read_only_filesystem_is_a_missing_capability() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "ro")));
    path_refused(mounted.path().to_str().unwrap(), 5, &["EROFS"]);
}

#[test]
fn a_filesystem_with_too_little_space_is_not_filled() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "defaults")));
    path_refused(mounted.path().to_str().unwrap(), 4, &["not enough space", "must stay free", "has only"]);
    assert_eq!(common::names(mounted.path()), Vec::<String>::new());
}

/// Cause: `-o` replaced the image below the loop device that was measured, and all on it was lost.
#[test]
fn the_file_below_a_loop_device_stays() {
    let mounted = or_skip!(Mounted::ext4("rw"));
    let place = Place::at(mounted.path());
    let (image, mount) = (mounted.disk.file().to_str().unwrap(), place.dir_str());
    let before = fs::metadata(image).unwrap().ino();
    for args in [
        &["check", mount, "-o", image][..],
        &["check", mounted.disk.path(), "-o", image],
        &["compare", "--in-turn", mount, mount, "-o", image],
        &["compare", "--in-turn", mount, mount, "-vo", image],
    ] {
        let args = &[args, &["--dry-run", "--size", "16MiB", "--runtime", "100ms", "--only", "qd1"]].concat();
        refused(&place.qd1(args).output().unwrap(), 2, &["is read or measured by this command"]);
    }
    assert_eq!(fs::metadata(image).unwrap().ino(), before);
}

#[test]
fn a_filesystem_that_runs_full_is_told_and_left_clean() {
    let disk = or_skip!(Mounted::ext4("rw"));
    let place = Place::at(disk.path());
    let args = ["meta", place.dir_str(), "--files", "100k", "--file-size", "4k", "--no-save"];
    let mut run = Running::start(place.command(&args));
    wait_until("files are made", || {
        run.assert_running();
        names(place.dir()).iter().any(|name| place.dir().join(name).join("files-1/d000001/f00001500").exists())
    });
    // Somebody else takes the rest of the space, which no planner can foresee, before it is done.
    run.signal(Signal::STOP);
    let hog = fs::File::create(place.dir().join("hog")).unwrap();
    let mut piece = 1 << 30;
    let mut taken = 0;
    while piece >= 4096 {
        match rustix::fs::fallocate(&hog, rustix::fs::FallocateFlags::empty(), taken, piece) {
            Ok(()) => taken += piece,
            Err(_) => piece /= 2,
        }
    }
    run.signal(Signal::CONT);
    wait_until("it ends", || !run.is_running());
    let output = (std::io::read_to_string(run.0.stdout.take().unwrap()), run.0.stderr.take().unwrap());
    assert_eq!(run.0.wait().unwrap().code(), Some(1));
    let (stdout, stderr) = (output.0.unwrap(), std::io::read_to_string(output.1).unwrap());
    assert!(stdout.contains("ENOSPC") && stdout.contains("no space"), "{stdout}");
    assert!(stderr.contains("FAILED") && stderr.contains("ENOSPC"), "{stderr}");
    assert_eq!(names(place.dir()), ["hog"]);
}

#[test]
fn more_files_than_inodes_are_refused_before_any_is_made() {
    let disk = Loop::new(2 << 30, &[]).and_then(|disk| {
        tool("mkfs.ext4", &["-q", "-N", "2000", "-E", "lazy_itable_init=0,nodiscard", disk.path()])?;
        Mounted::new(disk, "rw")
    });
    let disk = or_skip!(disk);
    let place = Place::at(disk.path());
    let few = ["--files", "100", "--ops", "stat", "--quiet"];
    place.on("meta", &few).assert().success();
    place.on("meta", &["--files", "5000"]).assert().code(4).stderr(predicate::str::contains("not enough inodes"));
    place
        .on("meta", &["--files", "500", "--file-size", "1G"])
        .assert()
        .code(4)
        .stderr(predicate::str::contains("not enough space").and(predicate::str::contains("smaller files")));
    place.assert_empty();
}

#[test]
fn cached_pings_read_the_page_cache_and_direct_ones_the_disk() {
    let disk = or_skip!(Mounted::ext4("noatime"));
    let place = Place::at(disk.path());
    // Sectors read, of the kernel's block/stat.
    let stat = format!("/sys/dev/block/{}/stat", disk.disk.number());
    let read = || fs::read_to_string(&stat).unwrap().split_whitespace().nth(2).unwrap().parse::<u64>().unwrap() * 512;
    let ask = |letter: &str| {
        let before = read();
        text(place.on("ping", &["--interval", "1ms", "--area", "1MiB", "-c", "200", letter]));
        read() - before
    };
    let (cached, direct) = (ask("-C"), ask("-D"));
    assert!(direct >= 200 * 4096, "each from the disk: {direct}");
    assert!(cached < 20 * 4096, "only the filesystem's own: {cached}");
}

#[test]
fn a_full_filesystem_fails_the_job_with_its_name() {
    let mounted = or_skip!(Loop::ext4(32 << 20).and_then(|disk| Mounted::new(disk, "rw")));
    let place = Place::at(mounted.path());
    // Laid out, it is known before; written without space set aside, in the middle.
    for (line, code) in
        [("--name=j --rw=read --size=64m", 4), ("--name=j --rw=write --size=64m --bs=64k --fallocate=none", 1)]
    {
        let output = Side::Ours.run(place.dir(), line);
        let stderr = said(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains("ENOSPC") || stderr.contains("MiB free"), "{line}: {stderr}");
        for name in names(mounted.path()) {
            std::fs::remove_file(mounted.path().join(name)).unwrap();
        }
    }
}

/// Data that was read in order is cached in large folios, of which dropping 4 KiB drops nothing: ping read memory and said
/// "dropped from the page cache first".
#[test]
fn a_ping_of_a_file_reads_the_disk_also_where_the_file_is_cached() {
    let mounted = or_skip!(Mounted::ext4("nodiscard"));
    let file = mounted.path().join("data");
    fs::write(&file, vec![7; 64 << 20]).unwrap();
    or_skip!(tool("sync", &["-f", file.to_str().unwrap()]));
    assert_eq!(fs::read(&file).unwrap().len(), 64 << 20, "all of it is cached");
    let number = fs::metadata(&file).unwrap().dev();
    let (major, minor) = (rustix::fs::major(number), rustix::fs::minor(number));
    let reads = || -> u64 {
        let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).unwrap();
        stat.split_whitespace().next().unwrap().parse().unwrap()
    };
    let before = reads();
    let place = Place::at(mounted.path());
    let args = ["ping", file.to_str().unwrap(), "--count", "60", "--interval", "1ms", "--json"];
    let output = place.qd1(&args).output().unwrap();
    assert!(output.status.success());
    assert!(reads() - before >= 55, "the disk saw {} of 60 reads", reads() - before);
    let text = String::from_utf8(output.stdout).unwrap();
    let summary: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(summary["from_page_cache"].as_f64().unwrap() < 0.1, "{summary}");
}

/// What was measured before would have been mixed with what another disk does.
#[test]
fn a_run_does_not_go_on_on_another_filesystem_of_the_same_size() {
    let mounted = or_skip!(Mounted::ext4("nodiscard"));
    let place = Place::at(mounted.path());
    let mut run = Running::start(place.command(&["--over", "1h", "--size", "32MiB", "--only", "qd1", "--quiet"]));
    wait_until("it is kept", || !place.runs().is_empty());
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let at = mounted.path().to_str().unwrap();
    // The kernel closes the files of a killed process's io_uring when it comes to it.
    wait_until("it is unmounted", || tool("umount", &[at]).is_ok());
    for (command, args) in [
        ("mkfs.ext4", vec!["-q", "-F", "-E", "nodiscard", mounted.disk.path()]),
        ("mount", vec![mounted.disk.path(), at]),
    ] {
        tool(command, &args).unwrap();
    }
    let refused = place.qd1(&["check", "--resume", &id]).assert().code(2);
    refused.stderr(predicate::str::contains("is not on the disk that this run measured"));
}

/// An XFS made anew was taken for the one before, and one that had grown for another.
#[test]
fn an_xfs_is_known_by_its_uuid() {
    const UUID: &str = "6f0e1c9a-3d24-4b57-9c1e-52a7f1b0d6e8";
    let disk = or_skip!(Loop::new(3 << 30, &[]));
    or_skip!(tool("mkfs.xfs", &["-q", "-K", "-m", &format!("uuid={UUID}"), disk.path()]));
    let mounted = or_skip!(Mounted::new(disk, "defaults"));
    let report = Place::at(mounted.path()).report(&["--only", "read32"]);
    let environment = &report["record"]["environment"];
    assert_eq!(environment["filesystem"]["id"], UUID.replace('-', ""));
    let identity = environment["devices"][0]["identity"].as_str().unwrap();
    assert!(identity.starts_with(mounted.disk.file().to_str().unwrap()), "{identity}");
}
