//! `qd1 sweep` from the command line to its result, on a real disk, too short for figures: what is asserted holds at any
//! length. Whether knees and crossovers are true is tested on simulated devices (src/sweep/truth.rs).

mod common;

use std::collections::BTreeSet;

use common::{Place, list, schema, text};
use predicates::prelude::*;
use serde_json::Value;

/// Two directions, two sizes, three depths, two passes: 24 steps of 40 ms.
const TINY: [&str; 10] =
    ["--size", "16MiB", "--runtime", "40ms", "--bs", "4k,16k", "--iodepth", "1,2,4", "--quiet", "--seed=7"];

fn sweep(place: &Place, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["sweep", place.dir_str()], &TINY[..], args].concat())
}

fn report(place: &Place, args: &[&str]) -> Value {
    common::json(sweep(place, &[args, &["--json"]].concat()))
}

fn names(report: &Value) -> Vec<String> {
    list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn every_combination_is_measured_in_every_pass_and_the_second_goes_the_other_way_round() {
    let place = Place::new();
    let report = report(&place, &["--max-p99", "2ms"]);
    place.assert_empty();
    let names = names(&report);
    assert_eq!((names.len(), names.iter().collect::<BTreeSet<_>>().len()), (24, 24));
    let (first, second) = names.split_at(12);
    let back: Vec<String> = second.iter().rev().map(|name| name.replace("-p2", "-p1")).collect();
    assert_eq!(first, back);
    let surface = &report["sweep"];
    assert_eq!((list(&surface["cells"]).len(), list(&surface["curves"]).len()), (12, 4));
    assert_eq!(surface["asked"]["max_p99_ns"], 2_000_000);
    for cell in list(&surface["cells"]) {
        assert_eq!((list(&cell["steps"]).len(), list(&cell["pass_iops"]).len()), (2, 2));
        assert!(cell["in_flight"].as_f64().unwrap() > 0.0);
    }
    assert!(list(&surface["curves"]).iter().all(|curve| curve["allowed"].is_object()));
    let schema = common::json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());
}

#[test]
fn the_history_shows_the_same_surface_again() {
    let place = Place::new();
    let report = report(&place, &["--passes", "1", "--rw", "randread"]);
    assert_eq!(names(&report).len(), 6);
    let id = report["record"]["id"].as_str().unwrap();
    assert_eq!(common::json(place.qd1(&["history", "show", id, "--json"])), report);
    let shown = text(place.qd1(&["history", "show", id]));
    assert!(shown.contains("randread: p99 latency") && shown.contains("Knees"), "{shown}");
}

#[test]
fn the_map_fits_into_80_columns_and_has_colour_only_where_it_is_wanted() {
    let place = Place::new();
    report(&place, &["--max-p99", "1us"]);
    let id = place.runs()[0]["id"].as_str().unwrap().to_owned();
    let plain = text(place.qd1(&["history", "show", &id]));
    let map = plain.split("Findings").next().unwrap();
    assert!(map.lines().all(|line| line.chars().count() <= 80), "{map}");
    assert!(map.contains("X: p99 is above 1.00 us") && map.contains("none"), "{map}");
    assert!(!plain.contains('\u{1b}'));
    let coloured = text(place.qd1(&["history", "show", &id, "--color", "always"]));
    assert!(coloured.contains("\u{1b}["));
    let mut without = String::new();
    let mut inside = false;
    for letter in coloured.chars() {
        inside |= letter == '\u{1b}';
        if !inside {
            without.push(letter);
        }
        inside &= letter != 'm';
    }
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(&without), words(&plain), "colour only wraps what is there");
    let mut forced = place.qd1(&["history", "show", &id]);
    forced.env("CLICOLOR_FORCE", "1").env("NO_COLOR", "1");
    assert!(!text(forced).contains('\u{1b}'));
}

#[test]
fn csv_has_a_row_for_each_cell_and_markdown_its_tables() {
    let place = Place::new();
    let csv = text(sweep(&place, &["--format", "csv"]));
    let rows: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 13);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{csv}");
    assert_eq!(rows[1][1..4], ["randread", "4096", "1"]);
    let id = rows[1][0];
    let markdown = text(place.qd1(&["history", "show", id, "--format", "markdown"]));
    assert!(markdown.contains("### Knees") && markdown.contains("| bs | 1 | 2 | 4 | best |"), "{markdown}");
}

#[test]
fn a_dry_run_says_what_it_takes_in_a_few_lines_and_does_nothing() {
    let place = Place::new();
    let said = text(place.qd1(&["sweep", place.dir_str(), "--dry-run"]));
    assert!(said.contains("iodepth   1, 2, 4, 8, 16, 32, 64") && said.contains("140 of up to"), "{said}");
    assert!(said.lines().count() < 15 && said.contains("time ") && said.contains("writes "), "{said}");
    place.assert_empty();
    assert!(!place.history().exists());
}

#[test]
fn a_file_is_only_read_and_what_does_not_run_is_said_in_one_line() {
    let place = Place::new();
    let file = place.beside("given");
    std::fs::write(&file, vec![7u8; 32 << 20]).unwrap();
    let shown = text(place.qd1(&[&["sweep", file.to_str().unwrap()], &TINY[..]].concat()));
    assert_eq!(shown.matches("not run:").count(), 1, "{shown}");
    assert!(!shown.contains("randwrite: "), "{shown}");
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let place = Place::new();
    for (args, word) in [
        (["--rw", "sideways"], "sideways"),
        (["--iodepth", "0"], "0"),
        (["--bs", "0"], "block size"),
        (["--bs", "x"], "x"),
        (["--max-p99", "soon"], "soon"),
    ] {
        sweep(&place, &args).assert().code(2).stderr(predicate::str::contains(word));
    }
}
