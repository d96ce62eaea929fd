//! `qd1 plot`: which charts there are, in which forms, and what is refused.

use std::fs;

use predicates::prelude::*;

use crate::common::Place;

const QUICK: [&str; 2] = ["--only", "read32"];

#[test]
fn every_chart_of_the_list_is_drawn_in_every_form() {
    let place = Place::new();
    place.report(&QUICK);
    let list = place.qd1(&["plot", "--list"]).output().unwrap();
    let list = String::from_utf8(list.stdout).unwrap();
    let names: Vec<&str> = list.lines().map(|line| line.split_whitespace().next().unwrap()).collect();
    assert!(names.contains(&"percentiles") && names.contains(&"heat-read32-read"), "{list}");
    for name in names {
        for (end, begins) in [("svg", &b"<svg"[..]), ("png", b"\x89PNG"), ("txt", b" ")] {
            let file = place.beside(&format!("a.{end}"));
            place.qd1(&["plot", "--chart", name, "-o", file.to_str().unwrap()]).assert().success().stderr("");
            assert!(fs::read(&file).unwrap().starts_with(begins), "{name} as {end}");
        }
    }
    // Without a name the first, in letters; without a locale plain ones.
    place
        .qd1(&["plot"])
        .env("LC_ALL", "C")
        .assert()
        .success()
        .stdout(predicate::str::contains("Latency percentiles").and(predicate::function(|text: &str| text.is_ascii())));
}

#[test]
fn wrong_words_are_one_clear_error() {
    let place = Place::new();
    let refused = |args: &[&str], what: &str| {
        let line =
            predicate::str::contains(what).and(predicate::function(|text: &str| text.trim().lines().count() == 1));
        place.qd1(&[&["plot"], args].concat()).assert().code(2).stdout("").stderr(line);
    };
    refused(&[], "the history is empty");
    place.report(&QUICK);
    refused(&["--chart", "percentile"], "did you mean percentiles?");
    refused(&["-o", place.beside("a.gif").to_str().unwrap()], "--format");
    refused(&["-o", "/nonexistent/a.svg"], "/nonexistent/a.svg");
    refused(&["nosuch"], "nosuch");
    place.qd1(&["plot", "--width", "9"]).assert().code(2).stderr(predicate::str::contains("200..=4000"));
}

#[test]
fn runs_by_class_of_workload_are_a_matrix_with_their_names() {
    let place = Place::new();
    let ids: Vec<String> =
        (0..2).map(|_| place.report(&["--only", "wal"])["record"]["id"].as_str().unwrap().to_owned()).collect();
    place.qd1(&["history", "tag", &ids[0], "old-disk"]).assert().success();
    let file = place.beside("disks.svg");
    let args = ["plot", "--matrix", "@old-disk", &ids[1], "-o", file.to_str().unwrap()];
    place.qd1(&args).assert().success().stdout("").stderr("");
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.contains(">old-disk<") && picture.contains("etcd / Kubernetes"), "{picture}");
    assert!(picture.contains("2 runs of check, ") && picture.contains(", qd1 "), "{picture}");
    for id in &ids {
        assert!(!picture.contains(&id[..8]), "no id: {picture}");
    }
    let refused = |place: &Place, args: &[&str], what: &str| {
        place.qd1(&[&["plot", "--matrix"], args].concat()).assert().code(2).stderr(predicate::str::contains(what));
    };
    refused(&place, &["@latest", "--chart", "percentiles"], "cannot be used with");
    let other = Place::new();
    other.qd1(&["meta", other.dir_str(), "--files", "50", "--quiet"]).assert().success();
    refused(&other, &["@latest"], "runs of `qd1 check` have them");
}

#[test]
fn a_figure_over_the_runs_of_the_history_is_drawn() {
    let place = Place::new();
    (0..3).for_each(|_| drop(place.report(&["--only", "read32"])));
    place.note_figure("read32", "read", "lat_p50_ns", 1e6);
    let file = place.beside("trend.svg");
    place.qd1(&["plot", "--trend", "read32.p50", "-o", file.to_str().unwrap()]).assert().success().stderr("");
    let picture = fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("p50 of reads in 3 runs of check"), "{picture}");
    let none = predicate::str::contains("no run matches these filters");
    place.qd1(&["plot", "--trend", "read32.p99", "--since", "2100-01-01"]).assert().code(2).stderr(none);
    let near = predicate::str::contains("no run has read23.p99; did you mean read32?");
    place.qd1(&["plot", "--trend", "read23.p99"]).assert().code(2).stderr(near);
    let without = predicate::str::contains("only with --trend");
    place.qd1(&["plot", "--suite", "check"]).assert().code(2).stderr(without);
}
