//! Ends before the end: signals, full filesystems, targets that must not be written.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

use crate::common::device::{Loop, Mounted};
use crate::common::{Place, Running, int, names, skip, wait_until};
use crate::side::{Side, text, words};

#[test]
fn sigint_prints_what_was_measured_so_far() {
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let place = Place::new();
        let line = "--name=j --rw=write --size=1m --bs=4k --time_based --runtime=60 --output-format=json --name=k \
                    --stonewall --rw=write --size=1m";
        let mut run = Running::start(Side::Ours.command(place.dir(), &words(line)));
        wait_until("it writes", || place.dir().join("j.0.0").metadata().is_ok_and(|file| file.blocks() > 0));
        std::thread::sleep(Duration::from_millis(500));
        run.signal(signal);
        let stdout = std::io::read_to_string(run.0.stdout.take().unwrap()).unwrap();
        assert_eq!(run.0.wait().unwrap().code(), Some(code));
        let report: Value = serde_json::from_str(&stdout).expect("a whole document");
        assert!(int(&report["jobs"][0]["write"]["total_ios"]) > 0);
        assert!(int(&report["jobs"][0]["write"]["runtime"]) < 60_000);
        assert_eq!(report["jobs"][0]["error"], 0);
    }
}

#[test]
fn a_mounted_device_is_refused_and_nothing_is_written() {
    let test = "a_mounted_device_is_refused_and_nothing_is_written";
    let mounted = match Loop::ext4(64 << 20).and_then(|disk| Mounted::new(disk, "ro")) {
        Ok(mounted) => mounted,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    let before = mounted.disk.content();
    for rw in ["write", "randrw", "trim"] {
        let line = format!("--name=j --filename={} --rw={rw} --size=1m --bs=4k", mounted.disk.path());
        let output = Side::Ours.run(place.dir(), &line);
        assert_eq!(output.status.code(), Some(4), "{}", text(&output.stderr));
        assert!(text(&output.stderr).contains("mounted"), "{}", text(&output.stderr));
    }
    assert!(mounted.disk.content() == before, "something was written");
    // Reading does no harm.
    let line = format!("--name=j --filename={} --rw=read --size=1m --bs=4k", mounted.disk.path());
    assert!(Side::Ours.run(place.dir(), &line).status.success());
}

#[test]
fn a_full_filesystem_fails_the_job_with_its_name() {
    let test = "a_full_filesystem_fails_the_job_with_its_name";
    let mounted = match Loop::ext4(32 << 20).and_then(|disk| Mounted::new(disk, "rw")) {
        Ok(mounted) => mounted,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(mounted.path());
    // Laid out, it is known before; written without space set aside, in the middle.
    for (line, code) in
        [("--name=j --rw=read --size=64m", 2), ("--name=j --rw=write --size=64m --bs=64k --fallocate=none", 1)]
    {
        let output = Side::Ours.run(place.dir(), line);
        let stderr = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{line}: {stderr}");
        assert!(stderr.contains("ENOSPC") || stderr.contains("MiB free"), "{line}: {stderr}");
        for name in names(mounted.path()) {
            std::fs::remove_file(mounted.path().join(name)).unwrap();
        }
    }
}
