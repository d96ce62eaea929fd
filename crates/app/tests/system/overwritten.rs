//! No disk is overwritten by what only names a place for results, and a disk that is written is held.

use std::fs;

use qd1_lab::{Loop, Mounted, tool};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::process::Signal;

use crate::common::fio::words;
use crate::common::refusal::refused;
use crate::common::{Place, Running, json, names, or_skip, said, wait_until};

/// `-o` and fio's `--output` wrote a report over the superblock of a mounted filesystem.
#[test]
fn a_result_is_never_written_to_a_disk() {
    let mounted = or_skip!(Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "ro")));
    let blank = or_skip!(Loop::new(16 << 20, &[]));
    let place = Place::new();
    place.report(&["--only", "read32"]);
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    for disk in [&mounted.disk, &blank] {
        let before = disk.content();
        let (device, link) = (disk.path(), place.beside("link"));
        let _ = fs::remove_file(&link);
        std::os::unix::fs::symlink(device, &link).unwrap();
        let log = place.beside("x_bw.1.log");
        let _ = fs::remove_file(&log);
        std::os::unix::fs::symlink(device, &log).unwrap();
        for line in [
            format!("history show {id} --json -o {device}"),
            format!("history show {id} -o {}", link.display()),
            format!("check --only read32 --size 32MiB --runtime 100ms -o {device}"),
            format!("fio --name=j --rw=read --size=64k --output={device}"),
            "fio --name=j --rw=read --size=64k --output-format=json --write_bw_log=../x".to_owned(),
        ] {
            let output = place.qd1(&words(&line)).output().unwrap();
            refused(&output, 4, &["is a block device", "name a file"]);
        }
        assert!(disk.content() == before, "{device} was written");
    }
    place.assert_empty();
}

/// What was on the mounted loop device was destroyed through its file.
#[test]
fn a_file_behind_a_loop_device_is_not_overwritten() {
    let disk = or_skip!(Loop::ext4(64 << 20));
    let place = Place::new();
    let (before, file) = (disk.content(), disk.file());
    let name = file.file_name().unwrap().to_str().unwrap();
    let job = format!("[j]\ndirectory={}\nfilename={name}\nrw=write\nsize=1m\n", file.parent().unwrap().display());
    fs::write(place.beside("job.fio"), job).unwrap();
    let destroy = file.to_str().unwrap();
    let output = place.qd1(&["run", "../job.fio", "--quiet", "--destroy", destroy]).output().unwrap();
    refused(&output, 4, &["in use as /dev/loop", "losetup -d"]);
    assert!(disk.content() == before);
}

/// A container's own file, which is a mount point, cannot be replaced: the run was lost, and half of a name left.
#[test]
fn a_result_file_that_cannot_be_replaced_is_written_or_refused() {
    let place = Place::new();
    place.report(&["--only", "read32"]);
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let (source, file) = (place.beside("source"), place.beside("result.json"));
    fs::write(&source, "old, and longer than nothing").unwrap();
    fs::write(&file, "").unwrap();
    let [from, to] = [&source, &file].map(|path| path.to_str().unwrap());
    or_skip!(tool("mount", &["--bind", from, to]));
    let written = place.qd1(&["history", "show", &id, "--json", "-o", to]).output().unwrap();
    tool("umount", &[to]).unwrap();
    assert!(written.status.success(), "{}", said(&written.stderr));
    assert!(fs::read_to_string(&source).unwrap().contains("schema_version"));
    assert!(!names(file.parent().unwrap()).iter().any(|name| name.starts_with(".qd1-")));

    let dir = place.beside("appended");
    fs::create_dir(&dir).unwrap();
    fs::write(dir.join("x.json"), "old").unwrap();
    for (attribute, frozen) in [("a", dir.clone()), ("i", dir.join("x.json"))] {
        let [frozen, out] = [frozen, dir.join("x.json")].map(|path| path.to_str().unwrap().to_owned());
        // Some filesystems have no such attributes.
        if tool("chattr", &[&format!("+{attribute}"), &frozen]).is_err() {
            return;
        }
        let output = place.qd1(&["check", ".", "--only", "read32", "-o", &out]).output().unwrap();
        tool("chattr", &[&format!("-{attribute}"), &frozen]).unwrap();
        refused(&output, 2, &["append-only", "choose another place"]);
    }
    assert_eq!(names(&dir), ["x.json"]);
}

/// While a job of `qd1 run` wrote it, mkfs and mount took the device.
#[test]
fn a_device_that_a_job_writes_is_held() {
    let disk = or_skip!(Loop::new(16 << 20, &[]));
    let place = Place::new();
    let job = format!("[j]\nfilename={}\nrw=randwrite\nbs=4k\ntime_based\nruntime=60\n", disk.path());
    fs::write(place.beside("job.fio"), job).unwrap();
    for args in [&["run", "../job.fio", "--quiet", "--destroy", disk.path()][..], &["fio", "../job.fio"]] {
        let mut run = Running::start(place.command(args));
        wait_until("it writes", || run.bytes_written() > 1 << 20);
        // Not for the children of other tests, which would hold it as well.
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let exclusive = || rustix::fs::open(disk.path(), flags, Mode::empty());
        assert_eq!(exclusive().err(), Some(Errno::BUSY), "mkfs and mount ask so");
        run.signal(rustix::process::Signal::INT);
        let _ = std::io::read_to_string(run.0.stdout.take().unwrap());
        assert_eq!(run.0.wait().unwrap().code(), Some(130));
        wait_until("nobody holds it any more", || exclusive().is_ok());
        // What was written may look like anything.
        fs::write(disk.path(), vec![0; 16 << 20]).unwrap();
    }
}

/// Another disk of the same size and model, which had taken the first one's name, was overwritten.
#[test]
fn a_check_over_hours_goes_on_with_no_other_device() {
    let [mut disk, other] = [or_skip!(Loop::new(64 << 20, &[])), or_skip!(Loop::new(64 << 20, &[]))];
    let place = Place::new();
    let device = disk.path().to_owned();
    let line = format!("check {device} --destroy {device} --over 1h --size 32MiB --only qd1,commit1 --quiet");
    let mut run = Running::start(place.command(&words(&line)));
    let rounds = |id: &str| json(place.qd1(&["history", "show", id, "--json"]))["record"]["over"]["rounds"].clone();
    let first = || place.runs().first().map(|run| run["id"].as_str().unwrap().to_owned());
    wait_until("a round is kept", || {
        first().is_some_and(|id| rounds(&id).as_array().is_some_and(|all| !all.is_empty()))
    });
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    let id = first().unwrap();

    let before = other.content();
    let own = disk.file().to_owned();
    or_skip!(disk.lead_to(other.file()));
    let resume = format!("check --resume {id} --destroy {device} --quiet");
    let output = place.qd1(&words(&resume)).output().unwrap();
    refused(&output, 2, &["is not on the disk that this run measured"]);
    assert!(other.content() == before, "another disk was overwritten");

    or_skip!(disk.lead_to(&own));
    let starts =
        || json(place.qd1(&["history", "show", &id, "--json"]))["record"]["over"]["starts"].as_array().map(Vec::len);
    let mut again = Running::start(place.command(&words(&resume)));
    wait_until("it goes on", || {
        again.assert_running();
        starts() == Some(2)
    });
}
