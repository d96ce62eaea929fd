//! `qd1 sweep` from the command line to its result, on a real disk, too short for figures: what is asserted holds at
//! any length. Whether knees and crossovers are true is tested on simulated devices (the crate truth).

use std::collections::BTreeSet;

use serde_json::Value;

use crate::common::{Place, list, text};
use crate::kept::kept;

#[test]
fn every_combination_is_measured_in_every_pass_forth_and_back() {
    let report = &kept("sweep").report;
    let names: Vec<&str> = list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect();
    assert_eq!((names.len(), names.iter().collect::<BTreeSet<_>>().len()), (24, 24));
    let (first, second) = names.split_at(12);
    let back: Vec<String> = second.iter().rev().map(|name| name.replace("-p2", "-p1")).collect();
    assert_eq!(first, back);
    // A machine that stalls may end a step so short before its first request does: such a step is in no cell.
    let measured = |step: &&Value| !list(&step["streams"]).is_empty();
    let measured = list(&report["record"]["steps"]).iter().filter(measured).count();
    let surface = &report["sweep"];
    assert!((1..=12).contains(&list(&surface["cells"]).len()) && measured >= 12, "{measured} steps were measured");
    assert_eq!(list(&surface["curves"]).len(), 4);
    assert_eq!(surface["asked"]["max_p99_ns"], 1_000);
    let mut in_cells = 0;
    for cell in list(&surface["cells"]) {
        let passes = list(&cell["pass_iops"]).len();
        assert_eq!(list(&cell["steps"]).len(), passes);
        assert!((1..=2).contains(&passes) && cell["in_flight"].as_f64().unwrap() > 0.0, "{cell}");
        in_cells += passes;
    }
    assert_eq!(in_cells, measured);
    assert!(list(&surface["curves"]).iter().all(|curve| curve["allowed"].is_object()));
}

#[test]
fn a_file_is_only_read_and_what_is_left_out_is_one_line() {
    let place = Place::new();
    let file = place.beside("given");
    std::fs::write(&file, vec![7u8; 32 << 20]).unwrap();
    let tiny = ["--size=16MiB", "--runtime=40ms", "--bs=4k", "--iodepth=1,2", "--quiet", "-v"];
    let shown = text(place.qd1(&[&["sweep", file.to_str().unwrap()], &tiny[..]].concat()));
    assert_eq!(shown.matches("not run:").count(), 1, "{shown}");
    assert!(!shown.contains("randwrite: "), "{shown}");
    assert!(std::fs::read(&file).unwrap().iter().all(|byte| *byte == 7));
}

#[test]
fn csv_has_a_row_for_each_cell_and_markdown_its_tables() {
    let shown = &kept("sweep").shown;
    let rows: Vec<Vec<&str>> = shown["csv"].lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(rows.len(), 13);
    assert!(rows.iter().all(|row| row.len() == rows[0].len()), "{}", shown["csv"]);
    assert_eq!(rows[1][1..4], ["randread", "4096", "1"]);
    let markdown = &shown["markdown"];
    assert!(markdown.contains("### Knees") && markdown.contains("| bs | 1 | 2 | 4 | best |"), "{markdown}");
}
