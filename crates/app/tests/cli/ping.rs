//! `qd1 ping`: a line for each request as it comes, a summary however it ends, and nothing written that should not be.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _};

use rustix::process::Signal;
use serde_json::Value;

use crate::common::{Place, Running, int, list, text, wait_until};

/// A few requests, quickly.
const BRIEF: [&str; 4] = ["--interval", "1ms", "--area", "1MiB"];

fn ping(place: &Place, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["ping", place.dir_str()], &BRIEF[..], args].concat())
}

fn objects(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).expect("each line is an object")).collect()
}

#[test]
fn each_request_has_a_line_and_the_summary_sums_them_up() {
    let place = Place::new();
    let said = text(ping(&place, &["-c", "5"]));
    assert!(said.starts_with("PING "), "{said}");
    let lines: Vec<&str> = said.lines().filter(|line| line.contains("request=")).collect();
    assert_eq!(lines.len(), 5, "{said}");
    assert!(lines[0].ends_with("(warmup)") && lines[4].starts_with("4 KiB read: request=5 time="), "{said}");
    assert!(said.contains("5 requests (1 of them for warm-up), 0 failed"), "{said}");
    for word in ["min ", "max ", "stddev ", "avg ", "p50 ", "p99 "] {
        assert!(said.contains(word), "{word}: {said}");
    }
    assert!(said.lines().all(|line| line.chars().count() <= 100) && !said.contains('\u{1b}'), "{said}");
    place.assert_untouched();
}

#[test]
fn json_lines_hold_the_same_in_nanoseconds() {
    let place = Place::new();
    let objects = objects(&text(ping(&place, &["-c", "40", "--write", "--warmup", "0", "--json"])));
    assert_eq!((objects.len(), &objects[0]["type"]), (42, &Value::from("start")));
    assert_eq!((&objects[0]["size"], &objects[0]["sync"]), (&Value::from(4096), &Value::from("fdatasync")));
    let requests = &objects[1..41];
    for (number, request) in (1..).zip(requests) {
        assert_eq!((&request["type"], int(&request["request"])), (&Value::from("request"), number));
        assert_eq!(request["operation"], "write");
        assert!(int(&request["sync_ns"]) <= int(&request["lat_ns"]), "{request}");
        assert!(int(&request["offset"]).is_multiple_of(4096) && int(&request["offset"]) < 1 << 20);
    }
    let offsets: std::collections::BTreeSet<u64> = requests.iter().map(|one| int(&one["offset"])).collect();
    assert!(offsets.len() > 10, "they go anywhere");
    let summary = &objects[41];
    assert_eq!((int(&summary["requests"]), int(&summary["failed"])), (40, 0));
    let writes = &list(&summary["operations"])[0];
    let mean = requests.iter().map(|one| int(&one["lat_ns"]) as f64).sum::<f64>() / 40.0;
    assert_eq!(int(&writes["lat_mean_ns"]["n"]), 40);
    // One stall among forty, and their mean is not resolved.
    if let Some(told) = writes["lat_mean_ns"]["value"].as_f64() {
        assert!((told / mean - 1.0).abs() < 0.01, "{writes} {mean}");
    }
    let most = requests.iter().map(|one| int(&one["lat_ns"])).max().unwrap();
    // The histogram keeps three digits.
    assert!((int(&writes["lat_max_ns"]) as f64 / most as f64 - 1.0).abs() < 0.01);
}

#[test]
fn reads_and_writes_by_turns_are_summed_up_apart() {
    let place = Place::new();
    let objects = objects(&text(ping(&place, &["-c", "20", "-G", "-a", "0", "--json", "--quiet"])));
    assert_eq!(objects.len(), 2, "quiet leaves the requests out");
    let operations = list(&objects[1]["operations"]);
    assert_eq!(operations.iter().map(|one| int(&one["requests"])).collect::<Vec<_>>(), [10, 10]);
    assert_eq!((&operations[0]["operation"], &operations[1]["operation"]), (&"read".into(), &"write".into()));
}

#[test]
fn the_interval_and_the_deadline_are_kept() {
    let place = Place::new();
    let has_several = || {
        let objects = objects(&text(ping(&place, &["-i", "100ms", "-w", "1s", "--json"])));
        let requests = objects.len() - 2;
        assert!(requests <= 10, "{requests} requests in a second");
        let at: Vec<u64> = objects[1..=requests].iter().map(|one| int(&one["at_ns"])).collect();
        assert!(at.windows(2).all(|pair| pair[1] - pair[0] >= 100_000_000), "{at:?}");
        requests >= 2
    };
    // A disk that stalls may answer one request in a second, but not in each of three.
    assert!((0..3).any(|_| has_several()), "one request in a second, three times");
}

#[test]
fn a_seed_repeats_the_places() {
    let place = Place::new();
    let run = || {
        let objects = objects(&text(ping(&place, &["-c", "10", "--seed", "42", "--json"])));
        objects[1..11].iter().map(|one| int(&one["offset"])).collect::<Vec<_>>()
    };
    assert_eq!(run(), run());
}

#[test]
fn lines_come_as_they_are_made_and_ctrl_c_prints_the_summary() {
    let place = Place::new();
    let mut run = Running::start(place.command(&["ping", place.dir_str(), "-i", "10ms", "--area", "1MiB"]));
    let mut stdout = BufReader::new(run.0.stdout.take().unwrap());
    let mut said = String::new();
    while !said.contains("request=3 ") {
        assert!(stdout.read_line(&mut said).unwrap() > 0, "it ended: {said}");
    }
    assert!(run.is_running(), "a line is there while it goes on");
    run.signal(Signal::INT);
    stdout.read_to_string(&mut said).unwrap();
    wait_until("it ends", || !run.is_running());
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    assert!(said.contains("ping statistics ---") && said.contains("0 failed"), "{said}");
    place.assert_empty();
}

#[test]
fn a_reader_who_goes_away_ends_it_without_an_error() {
    let place = Place::new();
    let mut run = Running::start(place.command(&["ping", place.dir_str(), "-i", "1ms", "--area", "1MiB"]));
    let mut stdout = BufReader::new(run.0.stdout.take().unwrap());
    stdout.read_line(&mut String::new()).unwrap();
    drop(stdout);
    wait_until("it ends", || !run.is_running());
    let mut stderr = String::new();
    run.0.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!((run.0.wait().unwrap().code(), stderr.as_str()), (Some(0), ""));
    place.assert_empty();
}

#[test]
fn a_file_is_read_and_never_written() {
    let place = Place::new();
    let file = place.beside("given");
    fs::write(&file, vec![7u8; 1 << 20]).unwrap();
    let path = file.to_str().unwrap();
    place.qd1(&["ping", path, "-c", "3", "-i", "1ms"]).assert().success();
    assert!(fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
}
