//! The figures of `check` on disks that change, on a sample of the table that `cargo xtask truth --only repeat` prints:
//! what is printed holds the figure of the long run.

use qd1_truth::Seeds;
use qd1_truth::repeat::{cells, study};

/// Runs of a disk. Of 30, fewer than 24 hold the truth in one of 10,000 samples, if 95 % of all do.
const RUNS: u64 = 30;
const HELD_MIN: f64 = 0.8;

/// Asserts it for every figure of every step on the disk of this name; returns how much the widest interval spans.
fn holds(name: &str) -> f64 {
    let cell = cells().into_iter().find(|cell| cell.name == name).expect("there is such a disk");
    let rows = study(&cell, Seeds::Tuning, RUNS);
    assert_eq!(rows.len(), 25, "five kinds of operation, five figures");
    for row in &rows {
        let coverage = row.coverage();
        assert!(coverage >= HELD_MIN, "{name}: {} {}: {} of {}", row.step, row.figure, row.held, row.printed);
        assert!(
            row.printed as f64 >= 0.8 * RUNS as f64,
            "{name}: {} {}: {} printed",
            row.step,
            row.figure,
            row.printed
        );
    }
    rows.iter().map(|row| row.ratio).fold(1.0, f64::max)
}

#[test]
fn figures_of_a_steady_disk_hold_and_are_narrow() {
    let widest = holds("independent");
    assert!(widest < 1.3, "{widest}");
}

#[test]
fn figures_of_a_disk_whose_level_moves_in_seconds_hold() {
    holds("level, 3 s");
}

#[test]
fn figures_of_a_disk_with_rare_stalls_hold() {
    holds("a stall in 5 s");
}
