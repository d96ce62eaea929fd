//! `qd1 powercut` on disks that keep what was committed, and on some that do not: layers mounted as volatile, on which the
//! kernel ignores every sync. The cut is a copy of the device below, without what memory still held.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use qd1_lab::{Loop, Mount};
use rustix::process::{Pid, Signal, kill_process};

use crate::common::refusal::refused;
use crate::common::{Place, names, or_skip, qd1, said, wait_until};

/// Commits enough that the newest are in memory alone, if they can be.
const COMMITS: usize = 400;

/// Layers on an ext4 on a loop device.
struct Layers {
    overlay: Mount,
    below: Mount,
    disk: Loop,
}

impl Layers {
    fn new(options: &str) -> Result<Self, String> {
        let disk = Loop::ext4(256 << 20)?;
        // The kernel would write back in its own time.
        let below = Mount::new(&["-o", "commit=300", disk.path()])?;
        for dir in ["lower", "upper", "work"] {
            fs::create_dir(below.path().join(dir)).unwrap();
        }
        let at = |name: &str| below.path().join(name).display().to_string();
        let layers = format!("lowerdir={},upperdir={},workdir={}{options}", at("lower"), at("upper"), at("work"));
        let overlay = Mount::new(&["-t", "overlay", "-o", &layers, "overlay"])?;
        Ok(Self { overlay, below, disk })
    }
}

/// Waits until the witness has noted so many lines.
fn noted_at_least(notes: &Path, lines: usize) {
    wait_until("the witness notes commits", || {
        File::open(notes).map_or(0, |file| BufReader::new(file).lines().count()) >= lines
    });
}

/// Writes until the witness has noted enough, and cuts the power of its disk; what the check then says.
fn after_a_cut(options: &str) -> Result<Output, String> {
    let layers = Layers::new(options)?;
    let place = Place::new();
    let notes = place.beside("notes");
    let dir = layers.overlay.path().to_owned();
    let mut writer = place.command(&["powercut", "write", dir.to_str().unwrap()]);
    let mut writer = writer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut witness = place.command(&["powercut", "witness", notes.to_str().unwrap()]);
    let mut witness = witness.stdin(writer.stdout.take().unwrap()).stderr(Stdio::null()).spawn().unwrap();
    noted_at_least(&notes, 50);
    // What was written until now is on the disk in any case: the rest is up to the syncs.
    rustix::fs::syncfs(File::open(layers.below.path()).unwrap()).unwrap();
    noted_at_least(&notes, COMMITS);
    // The power of the disk goes while the writer is at work. It is held meanwhile: the copy takes a while, and a fast disk
    // would have more commits in it than the notes account for.
    kill_process(Pid::from_child(&writer), Signal::STOP).unwrap();
    let copy = place.beside("copy");
    fs::create_dir(&copy).unwrap();
    let noted = place.beside("noted");
    fs::copy(&notes, &noted).unwrap();
    let image = copy.join("cut");
    fs::copy(layers.disk.file(), &image).unwrap();
    writer.kill().unwrap();
    writer.wait().unwrap();
    assert!(witness.wait().unwrap().success(), "the witness ends with its writer");
    drop(layers);
    let mounted = Mount::new(&["-o", "loop", image.to_str().unwrap()])?;
    let upper = mounted.path().join("upper");
    let output = place
        .command(&["powercut", "check", "--disk-alone", upper.to_str().unwrap(), noted.to_str().unwrap()])
        .output()
        .unwrap();
    // What is lost stays to be looked at.
    assert_eq!(names(&upper).is_empty(), output.status.success());
    Ok(output)
}

#[test]
fn commits_outlive_a_cut_where_syncs_are_carried_out() {
    let output = or_skip!(after_a_cut(""));
    let text = said(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{text}{}", said(&output.stderr));
    assert!(text.starts_with("Kept: the last "), "{text}");
}

#[test]
fn commits_are_lost_where_syncs_are_ignored() {
    let mut all = String::new();
    for _ in 0..3 {
        let output = or_skip!(after_a_cut(",volatile"));
        let text = said(&output.stdout);
        all += &format!("{text}{}", said(&output.stderr));
        if output.status.code() == Some(3) {
            assert!(text.contains("acknowledged commits are not on the disk"), "{text}");
            return;
        }
        // Where others write much, the kernel writes out all that waits, also without a sync.
        assert!(text.starts_with("Kept: the last "), "{text}");
    }
    panic!("kept after three cuts: {all}");
}

#[test]
fn a_writer_that_is_ended_leaves_nothing_and_bad_calls_say_what_to_do() {
    let place = Place::new();
    let run = |args: &[&str]| place.command(args).stdin(Stdio::null()).output().unwrap();
    refused(&run(&["powercut", "write", "/nonexistent"]), 2, &["not a directory", "disk to test"]);
    refused(&run(&["powercut", "check", place.dir_str(), "/nonexistent"]), 2, &["cannot read the notes"]);
    refused(
        &run(&["powercut", "write", place.dir_str(), "--to", "127.0.0.1:1", "--token", "12345678"]),
        2,
        &["127.0.0.1:1"],
    );
    // Over TCP: the witness ends with its writer, whom SIGTERM ends.
    let notes = place.beside("notes");
    let mut command = place.command(&[
        "powercut",
        "witness",
        notes.to_str().unwrap(),
        "--listen",
        "127.0.0.1:0",
        "--token",
        "12345678",
    ]);
    let mut witness = command.stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(witness.stderr.take().unwrap()).read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let mut command = Command::new(qd1());
    let args = ["powercut", "write", place.dir_str(), "--to", address, "--token", "12345678"];
    let mut writer = place.environment(&mut command).args(args).stderr(Stdio::null()).spawn().unwrap();
    noted_at_least(&notes, 3);
    kill_process(Pid::from_child(&writer), Signal::TERM).unwrap();
    assert_eq!(writer.wait().unwrap().code(), Some(143));
    assert!(witness.wait().unwrap().success());
    place.assert_empty();
    refused(&run(&["powercut", "witness", notes.to_str().unwrap()]), 2, &["does not exist yet"]);
}
