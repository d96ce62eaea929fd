//! `qd1 trace --record`, `--play` and `summary`: a known load is found again in the file, and in the job made from it.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use qd1_lab::Loop;
use serde_json::Value;

use crate::common::{Place, Running, int, or_skip, said, wait_until};

/// Records what `work` does to a disk.
fn record(disk: &Loop, file: &Path, args: &[&str], work: impl FnOnce()) {
    let place = Place::new();
    let to = file.to_str().unwrap();
    let mut trace = Running::start(place.command(&[&["trace", disk.path(), "--record", to], args].concat()));
    // The first block is written once the capture has begun.
    wait_until("the file begins", || fs::metadata(file).is_ok_and(|found| found.len() > 12));
    work();
    rustix::process::kill_process(trace.pid(), rustix::process::Signal::INT).unwrap();
    let _ = trace.0.wait().unwrap();
    let said = std::io::read_to_string(trace.0.stderr.take().unwrap()).unwrap();
    assert!(said.contains("bytes each"), "{said}");
}

/// Runs fio with a job on a disk.
fn fio(disk: &Loop, args: &[&str]) {
    let target = format!("--filename={}", disk.path());
    let output = Command::new("fio").args(args).arg(target).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stdout));
}

fn summary(place: &Place, file: &Path) -> Value {
    let output = place.command(&["trace", "summary", "--json", file.to_str().unwrap()]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Shares of the job: reads, 4 KiB and 16 KiB among reads, and sequential ones.
fn shape(summary: &Value) -> [f64; 4] {
    let read = &summary["operations"][0];
    let size = |bytes: u64| {
        let sizes = read["sizes"].as_array().unwrap();
        let count = sizes.iter().find(|size| size[0] == bytes).map_or(0, |size| int(&size[1]));
        count as f64 / int(&read["requests"]) as f64
    };
    let of = |key: &str| summary["all"][key].as_f64().unwrap();
    [of("read_share"), size(4096), size(16_384), of("sequential_share")]
}

#[test]
fn a_load_is_found_again_in_the_file_and_in_the_job_made_from_it() {
    let disk = or_skip!(Loop::new(128 << 20, &[]));
    let place = Place::new();
    let dir = tempfile::tempdir().unwrap();
    let [first, second] = ["first.trace", "second.trace"].map(|name| dir.path().join(name));
    record(&disk, &first, &["--syscalls"], || {
        let job =
            ["--name=mixed", "--rw=randrw", "--rwmixread=70", "--bssplit=4k/60:16k/40", "--direct=1", "--size=96m"];
        let more = ["--ioengine=libaio", "--iodepth=4", "--io_size=24m", "--fsync=32"];
        fio(&disk, &[&job[..], &more].concat());
    });
    let found = summary(&place, &first);
    let [read, small, large, sequential] = shape(&found);
    // Adjacent requests are merged, so a few are larger.
    assert!((read - 0.7).abs() < 0.05 && (small - 0.6).abs() < 0.08 && (large - 0.4).abs() < 0.08, "{found}");
    assert!(sequential < 0.1, "{found}");
    assert!(int(&found["syncs"][0]["syncs"]) > 10, "{found}");
    assert!(found["programs"].as_array().unwrap().iter().any(|program| program["name"] == "fio"), "{found}");
    // The job made from it does the same.
    let job = dir.path().join("again.fio");
    let output = place.command(&["trace", "summary", "--fio", first.to_str().unwrap()]).output().unwrap();
    fs::write(&job, &output.stdout).unwrap();
    record(&disk, &second, &[], || fio(&disk, &[job.to_str().unwrap(), "--runtime=2"]));
    let again = shape(&summary(&place, &second));
    assert!(shape(&found).iter().zip(again).all(|(one, other)| (one - other).abs() < 0.1), "{found} {again:?}");
}

/// Requests that are completed before the trace is set up must not come before its beginning.
#[test]
fn a_trace_that_begins_under_load_lasts_as_long_as_it_did() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let place = Place::new();
    let file = tempfile::NamedTempFile::new().unwrap();
    let target = format!("--filename={}", disk.path());
    let load = ["--name=load", "--rw=randread", "--bs=4k", "--direct=1", "--ioengine=libaio", "--iodepth=16"];
    let mut fio = Command::new("fio");
    let mut fio = fio.args(load).args(["--time_based", "--runtime=60", &target]).stdout(Stdio::null()).spawn().unwrap();
    let before = qd1_lab::clock::now();
    record(&disk, file.path(), &["--count", "20000"], || {});
    let most = before.elapsed();
    fio.kill().unwrap();
    fio.wait().unwrap();
    let span_ns = int(&summary(&place, file.path())["span_ns"]);
    assert!(u128::from(span_ns) <= most.as_nanos(), "{span_ns}");
}

#[test]
fn a_recorded_trace_shows_what_was_seen_and_a_cut_one_what_is_left() {
    let disk = or_skip!(Loop::new(64 << 20, &[]));
    let place = Place::new();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a b.trace");
    let from = format!("if={}", disk.path());
    record(&disk, &file, &["--comm", "dd", "--hash"], || {
        qd1_lab::tool("dd", &["status=none", &from, "of=/dev/null", "bs=8k", "count=500", "iflag=direct"]).unwrap();
    });
    let play = |file: &Path, args: &[&str]| {
        let args = [&["trace", "--play", file.to_str().unwrap()], args].concat();
        place.command(&args).output().unwrap()
    };
    let output = play(&file, &["--json"]);
    let objects: Vec<Value> = said(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let shown = objects.len() as u64 - 2;
    let end = objects.last().unwrap();
    let not_shown = int(&end["unseen"]) + int(&end["in_flight"]);
    assert!((500 - not_shown..=500).contains(&shown), "{shown} {end}");
    assert!(objects[1]["comm"].as_str().unwrap().starts_with('h') && objects[1]["bytes"] == 8192, "{}", objects[1]);
    assert!(objects[1]["disk"].as_str().unwrap().starts_with("loop"), "{}", objects[1]);
    let csv = said(&play(&file, &["--format", "csv", "--op", "write"]).stdout);
    assert_eq!(csv.lines().count(), 1, "{csv}");
    // Without names, later; the input is not overwritten.
    let again = dir.path().join("again.trace");
    let output = play(&file, &["--record", again.to_str().unwrap(), "--hash"]);
    assert!(output.status.success(), "{}", said(&output.stderr));
    let requests = |file: &Path| int(&summary(&place, file)["all"]["requests"]);
    assert_eq!(requests(&again), requests(&file));
    let output = play(&file, &["--record", file.to_str().unwrap()]);
    assert!(output.status.code() == Some(2) && said(&output.stderr).contains("is read"), "{}", said(&output.stderr));
    let precious = dir.path().join("precious");
    fs::write(&precious, "data").unwrap();
    let output = play(&file, &["--record", precious.to_str().unwrap()]);
    assert!(output.status.code() == Some(2) && said(&output.stderr).contains("exists"), "{}", said(&output.stderr));
    assert_eq!(fs::read_to_string(&precious).unwrap(), "data");
    let output = place.command(&["trace", file.to_str().unwrap()]).output().unwrap();
    assert!(said(&output.stderr).contains("is a recorded trace; --play"), "{}", said(&output.stderr));
    // A file that ends in the middle.
    let whole = fs::read(&file).unwrap();
    let cut = dir.path().join("cut.trace");
    fs::write(&cut, &whole[..whole.len() - 10]).unwrap();
    let output = play(&cut, &[]);
    let message = said(&output.stderr);
    assert!(
        output.status.success() && message.contains("read up to byte") && message.contains("ends within"),
        "{message}"
    );
    // Not a trace, and a file that would be overwritten.
    for (args, expected) in [
        (&["trace", "summary", "/etc/passwd"][..], "it is none of"),
        (&["trace", "summary", "/nonexistent"], "No such file"),
        (&["trace", "summary", "/tmp"], "a directory"),
    ] {
        let output = place.command(args).output().unwrap();
        let message = said(&output.stderr);
        assert!(output.status.code() == Some(2) || output.status.code() == Some(5), "{args:?}: {message}");
        assert!(message.contains(expected), "{args:?}: {message}");
    }
}
