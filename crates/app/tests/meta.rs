//! `qd1 meta` from the command line to its result, on real filesystems, with few files: what is asserted holds for any number.

mod common;

use std::fs;
use std::process::Command;

use common::device::{Loop, Mounted, tool};
use common::{Place, Running, find, float, int, list, names, schema, skip, wait_until};
use predicates::prelude::*;
use rustix::process::Signal;
use serde_json::Value;

const FEW: [&str; 5] = ["--files", "600", "--per-dir", "100", "--quiet"];
const OPS: [&str; 7] = ["create", "stat", "open", "list", "rename", "link", "delete"];

fn meta(place: &Place, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["meta", place.dir_str()], args].concat())
}

fn report(place: &Place, args: &[&str]) -> Value {
    common::json(meta(place, &[args, &["--json"]].concat()))
}

fn row<'a>(report: &'a Value, step: &str) -> &'a Value {
    find(&report["meta"]["rows"], "step", step)
}

#[test]
fn every_operation_is_measured_in_both_orders_and_nothing_is_left() {
    let place = Place::new();
    let report = report(&place, &[&FEW[..], &["--workers", "2", "--file-size", "1k..9k", "--seed", "7"]].concat());
    place.assert_empty();
    let steps: Vec<&str> = list(&report["meta"]["rows"]).iter().map(|row| row["step"].as_str().unwrap()).collect();
    let expected: Vec<String> = ["seq", "rand"].iter().flat_map(|o| OPS.map(|op| format!("{o}-{op}"))).collect();
    assert_eq!(steps, expected);
    for row in list(&report["meta"]["rows"]) {
        let wanted = if row["op"] == "list" { 1000 } else { 600 };
        assert_eq!((int(&row["ios"]), &row["ended"], int(&row["errors"])), (wanted, &Value::from("done"), 0), "{row}");
        assert!(float(&row["seen_per_second"]) > 0.0 && float(&row["cpu_share"]) >= 0.0);
        assert_eq!(int(&row["lat_p50_ns"]["n"]), wanted);
        assert_eq!(row["bytes_per_second"].is_object(), row["op"] == "create" || row["op"] == "open", "{row}");
    }
    // Both orders make the same files, since their names and sizes come from the seed.
    let bytes = |step| int(&find(&common::step(&report, step)["streams"], "class", "open")["bytes"]);
    assert!(bytes("seq-open") > 600 * 1024 && bytes("rand-open") > 600 * 1024);
    let schema = common::json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());
    let id = report["record"]["id"].as_str().unwrap();
    assert_eq!(common::json(place.qd1(&["history", "show", id, "--json"])), report);
}

#[test]
fn syncs_are_shown_beside_the_operations_that_wait_for_them() {
    let place = Place::new();
    let args = [&FEW[..], &["--ops", "rename", "--order", "sequential", "--fsync", "files,dir"]].concat();
    let report = report(&place, &args);
    for (step, syncs) in [("seq-create", 1200), ("seq-rename", 600), ("seq-delete", 600)] {
        let row = row(&report, step);
        assert!(row["sync_p50_ns"]["value"].as_f64().unwrap() <= float(&row["lat_p50_ns"]["value"]), "{row}");
        let device = &common::step(&report, step)["device"];
        if !device.is_null() {
            assert_eq!(int(&device["asked_syncs"]), syncs);
        }
    }
}

#[test]
fn the_text_fits_a_terminal_says_what_was_done_and_has_no_colour_in_a_pipe() {
    let place = Place::new();
    let output = meta(&place, &FEW).assert().success().get_output().stdout.clone();
    let text = String::from_utf8(output).unwrap();
    assert!(
        text.starts_with("file operations, 600 files of 4 KiB, 100 in a directory, nothing made durable."),
        "{text}"
    );
    assert!(text.contains("Random order") && !text.contains('\u{1b}'), "{text}");
    let shown = text.split("Run it again").next().unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_dry_run_tells_what_would_be_made_and_makes_nothing() {
    let place = Place::new();
    meta(&place, &["--files", "1M", "--file-size", "0", "--dry-run"])
        .assert()
        .success()
        .stdout(predicate::str::contains("1001001").and(predicate::str::contains("rand-delete")));
    place.assert_untouched();
}

#[test]
fn wrong_use_is_refused_with_what_to_do_instead() {
    let place = Place::new();
    let file = place.beside("a-file");
    fs::write(&file, "x").unwrap();
    for (args, word) in [
        (&["meta", file.to_str().unwrap()][..], "no directory"),
        (&["meta", "/nonexistent/place"], "does not exist"),
        (&["meta", "--size", "4G"], "--file-size"),
        (&["meta", "--files", "0"], "--files"),
        (&["meta", "--ops", "creat"], "rename"),
        (&["meta", "--suite", "bonnie", "--size", "16M"], "--ram"),
        (&["meta", "--suite", "bonnie", "--ram", "0", "--files", "1000"], "1024"),
    ] {
        place.qd1(args).assert().code(2).stderr(predicate::str::contains(word));
    }
    place.assert_untouched();
}

/// A run of so many files that it is under way for a while; returns once some are there.
fn under_way(place: &Place) -> Running {
    let mut run = Running::start(place.command(&["meta", place.dir_str(), "--files", "3M", "--file-size", "0"]));
    wait_until("files are made", || {
        assert!(run.is_running(), "it ended early");
        names(place.dir()).iter().any(|name| {
            let group = place.dir().join(name).join("files-1/d000001");
            group.exists() && fs::read_dir(group).is_ok_and(|files| files.count() > 100)
        })
    });
    run
}

#[test]
fn a_run_that_is_stopped_prints_what_it_measured_and_removes_its_files() {
    for (signal, code) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        let place = Place::new();
        let mut run = under_way(&place);
        run.signal(signal);
        let stdout = run.0.stdout.take().unwrap();
        let reader = std::thread::spawn(move || std::io::read_to_string(stdout).unwrap());
        wait_until("it ends", || !run.is_running());
        assert_eq!(run.0.wait().unwrap().code(), Some(code));
        assert!(reader.join().unwrap().contains("interrupted after"));
        place.assert_empty();
        assert_eq!(place.runs().len(), 1);
    }
}

#[test]
fn a_run_that_is_killed_leaves_no_file() {
    let place = Place::new();
    let mut run = under_way(&place);
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("its files are gone", || names(place.dir()).is_empty());
}

#[test]
fn a_filesystem_that_runs_full_is_told_and_left_clean() {
    let test = "a_filesystem_that_runs_full_is_told_and_left_clean";
    let disk = match Mounted::ext4("rw") {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(disk.path());
    let args = ["meta", place.dir_str(), "--files", "100k", "--file-size", "4k", "--no-save"];
    let mut run = Running::start(place.command(&args));
    wait_until("files are made", || {
        assert!(run.is_running(), "it ended early");
        names(place.dir()).iter().any(|name| place.dir().join(name).join("files-1/d000001/f00001500").exists())
    });
    // Somebody else takes the rest of the space, which no planner can foresee.
    let hog = fs::File::create(place.dir().join("hog")).unwrap();
    let mut piece = 1 << 30;
    let mut taken = 0;
    while piece >= 4096 {
        match rustix::fs::fallocate(&hog, rustix::fs::FallocateFlags::empty(), taken, piece) {
            Ok(()) => taken += piece,
            Err(_) => piece /= 2,
        }
    }
    wait_until("it ends", || !run.is_running());
    let output = (std::io::read_to_string(run.0.stdout.take().unwrap()), run.0.stderr.take().unwrap());
    assert_eq!(run.0.wait().unwrap().code(), Some(1));
    let (stdout, stderr) = (output.0.unwrap(), std::io::read_to_string(output.1).unwrap());
    assert!(stdout.contains("ENOSPC") && stdout.contains("no space"), "{stdout}");
    assert!(stderr.contains("FAILED") && stderr.contains("ENOSPC"), "{stderr}");
    assert_eq!(names(place.dir()), ["hog"]);
}

#[test]
fn more_files_than_there_are_inodes_are_refused_before_any_is_made() {
    let test = "more_files_than_there_are_inodes_are_refused_before_any_is_made";
    let disk = Loop::new(2 << 30, &[]).and_then(|disk| {
        tool("mkfs.ext4", &["-q", "-N", "2000", "-E", "lazy_itable_init=0,nodiscard", disk.path()])?;
        Mounted::new(disk, "rw")
    });
    let disk = match disk {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(disk.path());
    let few = ["--files", "100", "--ops", "stat", "--quiet"];
    meta(&place, &few).assert().success();
    meta(&place, &["--files", "5000"]).assert().code(4).stderr(predicate::str::contains("not enough inodes"));
    meta(&place, &["--files", "500", "--file-size", "1G"])
        .assert()
        .code(4)
        .stderr(predicate::str::contains("not enough space").and(predicate::str::contains("smaller files")));
    place.assert_empty();
}

/// bonnie++'s job, small enough for a test.
const SMALL: [&str; 10] = ["--suite", "bonnie", "--size", "64M", "--ram", "32M", "--files", "8192", "--format", "csv"];

fn bonnie_line(place: &Place) -> String {
    let output = meta(place, &[&SMALL[..], &["--quiet"]].concat()).assert().success().get_output().stdout.clone();
    String::from_utf8(output).unwrap()
}

#[test]
fn bonnies_own_programs_read_the_line() {
    let test = "bonnies_own_programs_read_the_line";
    let place = Place::new();
    let line = bonnie_line(&place);
    place.assert_empty();
    let kept = place.beside("line.csv");
    fs::write(&kept, &line).unwrap();
    let fields: Vec<&str> = line.trim_end().split(',').collect();
    assert_eq!((fields.len(), fields[0], fields[5], fields[21]), (50, "1.98", "64M", "8"));
    for (program, wanted) in [("bon_csv2html", "</html>"), ("bon_csv2txt", "64M")] {
        let Ok(output) = Command::new(program).stdin(fs::File::open(&kept).unwrap()).output() else {
            return skip(test, &format!("{program} is missing (Debian package bonnie++)"));
        };
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && output.stderr.is_empty() && text.contains(wanted), "{output:?}");
        // A latency of ours stands where bonnie++'s would.
        assert!(text.contains(fields[39]), "{program}: {text}");
    }
}

#[test]
fn bonnies_figures_and_ours_are_of_one_kind() {
    let test = "bonnies_figures_and_ours_are_of_one_kind";
    let place = Place::new();
    let user = if common::is_root() { &["-u", "root"][..] } else { &[] };
    // So many files that at least making and deleting them takes the half second below which bonnie++ tells nothing.
    let peer = |place: &Place| {
        let mut bonnie = Command::new("bonnie++");
        bonnie.args(user).args(["-q", "-d", place.dir_str(), "-s", "0", "-n", "24"]);
        let output = bonnie.output().map_err(|error| format!("bonnie++: {error} (Debian package bonnie++)"))?;
        Ok::<String, String>(String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let ours = |place: &Place| {
        let args = ["--suite", "bonnie", "--size", "0", "--files", "24576", "--json", "--quiet"];
        report(place, &args)
    };
    let theirs = match peer(&place) {
        Ok(line) => line,
        Err(why) => return skip(test, &why),
    };
    let fields: Vec<f64> = theirs.trim_end().split(',').map(|field| field.parse().unwrap_or(f64::NAN)).collect();
    assert_eq!(fields.len(), 50, "{theirs}");
    let report = ours(&place);
    let steps = ["seq-create", "seq-stat", "seq-delete", "rand-create", "rand-stat", "rand-delete"];
    let pairs = steps.iter().zip((26..).step_by(2)).map(|(step, field)| (step, fields[field]));
    let known = pairs.filter(|(_, peer)| peer.is_finite());
    let mut ratios: Vec<f64> = known.map(|(step, peer)| float(&row(&report, step)["seen_per_second"]) / peer).collect();
    place.assert_empty();
    if ratios.len() < 3 {
        return skip(test, "this filesystem is so fast that bonnie++ prints hardly a figure for 24,576 files");
    }
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!((0.2..5.0).contains(&median), "median {median} of {ratios:?}");
}
