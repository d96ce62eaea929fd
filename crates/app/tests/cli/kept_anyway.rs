//! A run that was measured is kept and shown as far as it can be, whatever cannot be written; what was there before a
//! run is as it was after it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use qd1_lab::tool;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::filesystems::journals;
use crate::common::fio::words;
use crate::common::refusal::refused;
use crate::common::{
    BRIEF, Place, Running, int, is_root, list, names, or_skip, qd1, said, skip, test_name, wait_until,
};

fn full() -> Stdio {
    fs::File::options().write(true).open("/dev/full").unwrap().into()
}

/// `qd1 fio` with the words of `line`.
fn fio(place: &Place, line: &str) -> Command {
    place.command(&[&["fio"], &words(line)[..]].concat())
}

#[track_caller]
fn exits(output: &Output, code: i32) {
    assert_eq!(output.status.code(), Some(code), "{}{}", said(&output.stdout), said(&output.stderr));
}

/// Its report had no room, and minutes of measuring were gone.
#[test]
fn fios_run_is_kept_where_its_report_has_no_room() {
    let place = Place::new();
    for line in ["--name=j --rw=write --size=1m --output-format=json", "--name=j --rw=read --size=1m --minimal"] {
        let output = fio(&place, line).stdout(full()).output().unwrap();
        exits(&output, 1);
        assert!(said(&output.stderr).contains("No space left"), "{}", said(&output.stderr));
    }
    assert_eq!(place.runs().len(), 2);
}

/// It was found out after the run, which was thrown away.
#[test]
fn a_log_that_cannot_be_written_is_known_before_measuring() {
    let place = Place::new();
    for option in ["--write_bw_log=/nonexistent/x", "--write_lat_log=/dev/null/x", "--write_hist_log=/nonexistent/x"] {
        let output = fio(&place, &format!("--name=j --rw=write --size=1m --output-format=json {option}")).output();
        refused(&output.unwrap(), 2, &["the log /", "choose another place"]);
    }
    place.assert_untouched();
    // Those of a later thread, and of all together.
    for (taken, options) in [("x_bw.2.log", "--write_bw_log=x --numjobs=2"), ("agg-write_bw.log", "--bandwidth-log")] {
        fs::create_dir(place.dir().join(taken)).unwrap();
        let output = fio(&place, &format!("--name=j --rw=write --size=1m --output-format=json {options}")).output();
        refused(&output.unwrap(), 2, &[taken, "is a directory"]);
        fs::remove_dir(place.dir().join(taken)).unwrap();
    }
    place.assert_untouched();
}

/// A log that fails on the way is reported last, after the report.
#[test]
fn a_log_that_fills_up_costs_neither_the_report_nor_the_run() {
    let place = Place::new();
    std::os::unix::fs::symlink("/dev/full", place.dir().join("x_bw.1.log")).unwrap();
    let line = "--name=j --rw=write --size=1m --output-format=json --write_bw_log=x";
    let output = fio(&place, line).output().unwrap();
    exits(&output, 1);
    assert!(said(&output.stderr).contains("x_bw.1.log"), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("a whole report");
    assert!(int(&report["jobs"][0]["write"]["total_ios"]) > 0);
    assert_eq!(place.runs().len(), 1);
}

/// `eprintln` panics there: exit code 101, and nothing was kept.
#[test]
fn a_run_whose_messages_nobody_can_read_is_a_run() {
    let place = Place::new();
    let check = [&["check", place.dir_str()], &BRIEF[..], &["--only", "read32"]].concat();
    for (stdout, code) in [(Stdio::null(), 0), (full(), 1)] {
        exits(&place.command(&check).stdout(stdout).stderr(full()).output().unwrap(), code);
    }
    exits(&fio(&place, "--name=j --rw=write --size=1m --eta=always").stderr(full()).output().unwrap(), 0);
    exits(&place.command(&["check", "/nonexistent"]).stderr(full()).output().unwrap(), 2);
    assert_eq!(place.runs().len(), 3);
}

#[test]
fn a_terminal_that_is_closed_ends_the_run_by_its_signal() {
    let place = Place::new();
    let mut command = place.command(&["--size", "32MiB", "--runtime", "60s", "--only", "qd1"]);
    // After SIGHUP a terminal takes no more output.
    let mut run = Running(command.stdin(Stdio::null()).stdout(full()).stderr(full()).spawn().unwrap());
    run.wait_until_it_measures();
    run.signal(Signal::HUP);
    wait_until("it ends", || !run.is_running());
    assert_eq!(run.0.wait().unwrap().code(), Some(129));
    assert_eq!(place.runs()[0]["interrupted"], true);
    place.assert_empty();
}

/// A private result became readable to all.
#[test]
fn a_result_file_keeps_the_permissions_it_had() {
    let place = Place::new();
    let mode = |name: &str| fs::metadata(place.beside(name)).unwrap().permissions().mode() & 0o777;
    place.report(&["--only", "read32"]);
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    fs::write(place.beside("old.json"), "old").unwrap();
    fs::set_permissions(place.beside("old.json"), fs::Permissions::from_mode(0o600)).unwrap();
    for (umask, name) in [("022", "old.json"), ("077", "private.json"), ("022", "new.json")] {
        let script = format!("umask {umask}; exec \"$0\" history show {id} --json -o ../{name}");
        let mut command = Command::new("sh");
        let output = place.environment(&mut command).args(["-c", &script, qd1()]).output().unwrap();
        exits(&output, 0);
    }
    assert_eq!([mode("old.json"), mode("private.json"), mode("new.json")], [0o600, 0o600, 0o644]);
    assert!(fs::read_to_string(place.beside("old.json")).unwrap().contains(&id));
}

/// 100,000 bytes became 4,096.
#[test]
fn files_that_filestat_finds_keep_their_length() {
    let place = Place::new();
    fs::write(place.dir().join("long"), vec![7; 100_000]).unwrap();
    fs::write(place.dir().join("short"), "x").unwrap();
    let line = "--name=j --ioengine=filestat --filename=long:short --filesize=4k --nrfiles=2 --output-format=json";
    exits(&fio(&place, line).output().unwrap(), 0);
    assert!(fs::read(place.dir().join("long")).unwrap() == vec![7; 100_000]);
    assert_eq!(fs::metadata(place.dir().join("short")).unwrap().len(), 4096);
}

/// A job file was run, and a file that had its job's name was gone.
#[test]
fn a_job_file_changes_no_file_that_was_there_unless_it_is_named() {
    let place = Place::new();
    let theirs = place.dir().join("theirs");
    for (job, changed) in [
        ("rw=write\nsize=64k\n", true),
        ("rw=randrw\nsize=64k\n", true),
        ("rw=read\nsize=1m\n", true),
        ("ioengine=filedelete\nfilesize=4k\n", true),
        ("rw=read\nsize=64k\nunlink=1\n", true),
        ("rw=read\nsize=64k\n", false),
    ] {
        fs::write(&theirs, vec![7; 100_000]).unwrap();
        fs::write(place.beside("job.fio"), format!("[j]\nfilename=theirs\n{job}")).unwrap();
        let run = |args: &[&str]| place.command(&[&["run", "../job.fio", "--quiet"], args].concat()).output().unwrap();
        if !changed {
            exits(&run(&[]), 0);
            continue;
        }
        refused(&run(&[]), 4, &["theirs", "existed before", "--destroy"]);
        refused(&run(&["--destroy", "other"]), 4, &["--destroy"]);
        assert!(fs::read(&theirs).unwrap() == vec![7; 100_000], "{job}: it was changed");
        exits(&run(&["--destroy", if job.contains("rw=write") { "." } else { "theirs" }]), 0);
        assert!(!fs::read(&theirs).is_ok_and(|now| now == vec![7; 100_000]), "{job}: it was not changed");
    }
    // What is not there may be made, and fio's own command does as fio.
    fs::write(place.beside("job.fio"), "[j]\nfilename=new\nrw=write\nsize=64k\n").unwrap();
    // It is removed again, so that the command that is printed to run it again does.
    place.qd1(&["run", "../job.fio", "--quiet"]).assert().success();
    place.qd1(&["run", "../job.fio", "--quiet"]).assert().success();
    fs::write(place.beside("job.fio"), "[j]\nfilename=new\nrw=write\nsize=64k\ncreate_only=1\n").unwrap();
    place.qd1(&["run", "../job.fio", "--quiet"]).assert().success();
    exits(&fio(&place, "--name=j --filename=theirs --rw=write --size=64k --output-format=json").output().unwrap(), 0);
    assert_eq!(names(place.dir()), ["new", "theirs"]);
}

/// It measured the job's directory, and said nothing of the other one.
#[test]
fn a_path_that_a_job_file_does_not_use_is_refused() {
    let place = Place::new();
    fs::write(place.beside("job.fio"), format!("[j]\ndirectory={}\nrw=read\nsize=64k\n", place.dir_str())).unwrap();
    let other = place.beside("other");
    fs::create_dir(&other).unwrap();
    let output = place.qd1(&["run", "../job.fio", other.to_str().unwrap()]).output().unwrap();
    refused(&output, 2, &["sets its own directory", "leave out one"]);
    assert!(names(place.dir()).is_empty() && names(&other).is_empty());
}

#[test]
fn a_job_file_that_cannot_be_laid_out_leaves_nothing() {
    let place = Place::new();
    let job = "[global]\nrw=read\n[a]\nfilename=one\nsize=64k\n[b]\nfilename=two\nsize=16m\n";
    fs::write(place.beside("job.fio"), job).unwrap();
    let mut limited = Command::new("prlimit");
    limited.args(["--fsize=9000000", qd1(), "run", "../job.fio", "--quiet"]).current_dir(place.dir());
    let output = place.environment(&mut limited).output().unwrap();
    assert!(!output.status.success() && said(&output.stderr).contains("EFBIG"), "{}", said(&output.stderr));
    place.assert_empty();
}

#[test]
fn a_log_that_was_there_is_replaced_only_where_it_is_named() {
    let place = Place::new();
    let log = place.dir().join("x_bw.log");
    fs::write(place.beside("job.fio"), "[j]\nfilename=new\nrw=write\nsize=64k\nwrite_bw_log=x\nper_job_logs=0\n")
        .unwrap();
    fs::write(&log, "theirs").unwrap();
    let run = |args: &[&str]| place.command(&[&["run", "../job.fio", "--quiet"], args].concat()).output().unwrap();
    refused(&run(&[]), 4, &["x_bw.log", "exists and would be overwritten", "--destroy"]);
    assert_eq!(fs::read_to_string(&log).unwrap(), "theirs");
    exits(&run(&["--destroy", "x_bw.log"]), 0);
    assert_ne!(fs::read_to_string(&log).unwrap(), "theirs");
}

/// Workers that had been started waited for ever for the one that had not, and no signal ended them.
#[test]
fn threads_that_cannot_be_made_are_an_error_and_no_hang() {
    if !is_root() {
        return skip(test_name!(), "a limit of processes for a user of its own needs root");
    }
    let place = Place::open_to_all();
    fs::set_permissions(place.dir(), fs::Permissions::from_mode(0o777)).unwrap();
    let suite = "name = \"many\"\ntitle = \"many threads\"\nsize = \"32MiB\"\n[[job]]\nname = \"many\"\n\
                 title = \"many\"\nrw = \"randread\"\nnumjobs = 64\nruntime = \"300ms\"\n";
    fs::write(place.beside("many.toml"), suite).unwrap();
    fs::write(place.beside("many.fio"), "[j]\nrw=randread\nsize=64k\nnumjobs=64\nfilename=new\n").unwrap();
    let binary = place.beside("qd1");
    or_skip!(tool("cp", &[qd1(), binary.to_str().unwrap()]));
    for (number, what) in ["many.toml", "many.fio"].into_iter().enumerate() {
        // A user that nobody else is, so that the limit counts this run alone.
        let user = format!("{}", 2_000_000_000 + std::process::id() * 2 + number as u32);
        let mut command = Command::new("setpriv");
        command.args([
            &format!("--reuid={user}"),
            &format!("--regid={user}"),
            "--clear-groups",
            "prlimit",
            "--nproc=30",
        ]);
        command.args(["timeout", "--signal=KILL", "60", binary.to_str().unwrap(), "run", "--quiet"]);
        command.arg(place.beside(what));
        if what == "many.toml" {
            command.arg(place.dir());
        }
        let output = place.environment(&mut command).output().unwrap();
        // Of a job file the other jobs ran.
        exits(&output, if what == "many.toml" { 5 } else { 1 });
        assert!(said(&output.stderr).contains("thread"), "{}", said(&output.stderr));
    }
    assert!(list(&Value::Array(place.runs())).len() <= 1, "only the job file's run has figures");
}

/// A program that failed took what had been measured before it along.
#[test]
fn a_verification_that_fails_leaves_the_commits_kept() {
    let place = Place::new();
    let programs = place.beside("bin");
    fs::create_dir(&programs).unwrap();
    let etcd =
        "#!/bin/sh\ncase \"$*\" in *version*) echo etcd Version: 3.5.0; exit 0;; esac\necho it is broken >&2\nexit 1\n";
    // Put there by another process: a program that another test starts meanwhile would hold what this one writes open.
    let (aside, program) = (place.beside("etcd.sh"), programs.join("etcd"));
    fs::write(&aside, etcd).unwrap();
    tool("install", &["-m", "755", aside.to_str().unwrap(), program.to_str().unwrap()]).unwrap();
    let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap());
    let args = ["predict", place.dir_str(), "--verify=etcd", "--quick", "--runtime", "300ms", "--json"];
    let output = place.qd1(&args).env("PATH", path).output().unwrap();
    exits(&output, 1);
    let report: Value = serde_json::from_slice(&output.stdout).expect("a whole report");
    let steps = list(&report["record"]["steps"]);
    assert!(steps.iter().any(|step| step["name"] == "commit1" && step["ended"] != "failed"));
    let failed: Vec<&Value> = steps.iter().filter(|step| step["ended"] == "failed").collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert!(failed[0]["fault"].as_str().unwrap().contains("it is broken"), "{}", failed[0]["fault"]);
    assert_eq!(place.runs().len(), 1);
    place.assert_empty();
}

/// With 24 descriptors a comparison of filesystems left two journals behind: each was made with the last descriptor, and
/// its directory could not be opened after that.
#[test]
fn however_few_descriptors_there_are_no_journal_is_left() {
    let place = Place::new();
    let mut refused = 0;
    for limit in 6.. {
        let qd1 = place.command(&["app", "sqlite", place.dir_str(), "--runtime", "50ms", "--quiet"]);
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={limit}")).arg(qd1.get_program()).args(qd1.get_args());
        let output = place.environment(&mut command).output().unwrap();
        assert_eq!(journals(&place), Vec::<String>::new(), "with {limit}: {}", said(&output.stderr));
        if output.status.success() {
            break;
        }
        refused += 1;
    }
    assert!(refused > 0, "some are too few");
}
