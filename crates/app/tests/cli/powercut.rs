//! `qd1 powercut` beside others who stall, say nothing, or look for its token.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::fs::OFlags;
use rustix::process::Signal;

use crate::common::fio::words;
use crate::common::refusal::refused;
use crate::common::{Place, Running, names, said, wait_until};

/// A file that only its owner can read.
fn token_file(place: &Place, token: &str) -> PathBuf {
    let file = place.beside("token");
    fs::write(&file, token).unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600)).unwrap();
    file
}

/// A witness on a port of its own, and what it says from then on.
fn witness(place: &Place, line: &str) -> (Running, BufReader<std::process::ChildStderr>, String) {
    let line = format!("powercut witness ../notes --listen 127.0.0.1:0 {line}");
    let mut witness = Running::start(place.command(&words(&line)));
    let mut stderr = BufReader::new(witness.0.stderr.take().unwrap());
    let mut first = String::new();
    stderr.read_line(&mut first).unwrap();
    let address = first.trim().rsplit(' ').next().unwrap().to_owned();
    (witness, stderr, address)
}

/// The first signal was ignored, as the writer waited for the witness, and its file was left.
#[test]
fn a_witness_that_stalls_does_not_keep_a_writer_from_ending() {
    let place = Place::new();
    // Full from the start: the first line is not taken.
    let (reader, mut full) = std::io::pipe().unwrap();
    rustix::fs::fcntl_setfl(&full, OFlags::NONBLOCK).unwrap();
    while full.write(&[0; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&full, OFlags::empty()).unwrap();
    let mut command = place.command(&["powercut", "write", place.dir_str()]);
    let mut writer = Running(command.stdout(full).stderr(Stdio::piped()).spawn().unwrap());
    let mut line = String::new();
    BufReader::new(writer.0.stderr.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("committing to"), "{line}");
    writer.signal(Signal::INT);
    wait_until("it ends", || !writer.is_running());
    assert_eq!(writer.0.wait().unwrap().code(), Some(130));
    place.assert_empty();
    drop(reader);
}

#[test]
fn a_writer_that_stalls_does_not_keep_a_witness_from_ending() {
    let place = Place::new();
    let mut command = place.command(&["powercut", "witness", "../notes"]);
    let mut witness = Running(command.stdin(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap());
    let mut stdin = witness.0.stdin.take().unwrap();
    stdin.write_all(b"qd1-powercut 1 run=0000000000000007 boot=b\n1\n2\n").unwrap();
    let noted = || fs::read_to_string(place.beside("notes")).unwrap_or_default();
    wait_until("it is noted", || noted().ends_with("\n1\n2\n"));
    witness.signal(Signal::INT);
    wait_until("it ends", || !witness.is_running());
    assert!(witness.0.wait().unwrap().success());
    drop(stdin);
}

/// Whoever connected and said nothing was waited for, and the writer had to give up.
#[test]
fn idle_connections_do_not_lock_a_writer_out() {
    let place = Place::new();
    let token = token_file(&place, "3f0c91ab\n");
    let (mut witness, mut stderr, address) = witness(&place, "--token-file ../token");
    let idle: Vec<TcpStream> = (0..8).map(|_| TcpStream::connect(&address).unwrap()).collect();
    let args = ["powercut", "write", place.dir_str(), "--to", &address, "--token-file", token.to_str().unwrap()];
    let mut writer = Running::start(place.command(&args));
    wait_until("commits are noted", || {
        writer.assert_running();
        fs::read_to_string(place.beside("notes")).is_ok_and(|notes| notes.lines().count() > 3)
    });
    // Neither has the token among its arguments.
    for run in [&writer, &witness] {
        let arguments = fs::read(format!("/proc/{}/cmdline", run.0.id())).unwrap();
        assert!(!said(&arguments).contains("3f0c91ab"));
    }
    writer.signal(Signal::TERM);
    assert_eq!(writer.0.wait().unwrap().code(), Some(143));
    assert!(witness.0.wait().unwrap().success());
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stderr, &mut rest).unwrap();
    assert!(rest.contains("the writer is connected"), "{rest}");
    drop(idle);
    place.assert_empty();
}

#[test]
fn a_witness_that_waits_for_a_writer_is_ended_by_a_signal() {
    let place = Place::new();
    let file = token_file(&place, "3f0c91ab");
    let (mut witness, _stderr, address) = witness(&place, "--token-file ../token");
    let _idle = TcpStream::connect(address).unwrap();
    witness.signal(Signal::INT);
    wait_until("it ends", || !witness.is_running());
    assert_eq!(witness.0.wait().unwrap().code(), Some(130));
    assert_eq!(names(file.parent().unwrap()), ["state", "target", "token"]);
}

#[test]
fn a_token_comes_from_a_file_or_a_variable_that_others_cannot_read() {
    let place = Place::new();
    let write = |line: &str, variable: Option<&str>| {
        let mut command = place.command(&words(&format!("powercut write . --to 127.0.0.1:1 {line}")));
        command.env_remove("QD1_TOKEN").envs(variable.map(|token| ("QD1_TOKEN", token)));
        command.output().unwrap()
    };
    let no_witness = "cannot reach a witness at 127.0.0.1:1";
    refused(&write("", None), 2, &["--token-file FILE", "QD1_TOKEN"]);
    refused(&write("", Some("short")), 2, &["QD1_TOKEN: a token has at least 8 characters"]);
    refused(&write("", Some("3f0c91ab")), 2, &[no_witness]);
    refused(&write("--token 3f0c91ab", None), 2, &[no_witness]);
    let file = token_file(&place, "3f0c91ab\nsecond line\n");
    refused(&write("--token-file ../token", None), 2, &[no_witness]);
    for mode in [0o604, 0o640, 0o666] {
        fs::set_permissions(&file, fs::Permissions::from_mode(mode)).unwrap();
        refused(&write("--token-file ../token", Some("3f0c91ab")), 2, &["other users can read", "chmod 600 ../token"]);
    }
    token_file(&place, "");
    refused(&write("--token-file ../token", None), 2, &["at least 8 characters"]);
    refused(&write("--token-file /dev/zero", None), 2, &["not a regular file"]);
    fs::remove_file(&file).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    refused(&write("--token-file ../token", None), 2, &["not a regular file"]);
    let output = place.qd1(&words("powercut write . --token 3f0c91ab")).output().unwrap();
    refused(&output, 2, &["add --to HOST:PORT"]);
}

/// A fifo was waited for, without an end.
#[test]
fn what_is_no_regular_file_has_no_notes() {
    let place = Place::new();
    let fifo = place.beside("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    for notes in [fifo.to_str().unwrap(), "/dev/zero", "."] {
        let output = place.qd1(&["powercut", "check", ".", notes]).output().unwrap();
        refused(&output, 2, &["not a regular file"]);
    }
}
