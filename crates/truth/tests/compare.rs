//! `compare` on disks whose truth is known, on a sample of the table that `cargo xtask truth --only compare` prints.

use qd1_truth::Seeds;
use qd1_truth::compare::{Case, disks, outcome, study};

/// One pair of single runs of each disk. If 5 % of pairs are wrong, more than three of fourteen are in one of 250 samples; on
/// the last disk runs differ.
#[test]
fn equal_disks_are_hardly_ever_said_to_differ() {
    let count = disks().len() as u64;
    let total = study(Case { runs: 1, factor: 1.0 }, Seeds::Tuning, count, &[]);
    assert!(total.wrong <= 3, "{:?}", total.errors);
    assert!(total.held as f64 >= 0.93 * total.intervals as f64, "{} of {}", total.held, total.intervals);
}

/// A steady disk, three runs of each side: ten percent are found, and the intervals hold them.
#[test]
fn a_difference_of_ten_percent_is_found_on_a_steady_disk() {
    let found = outcome(Case { runs: 3, factor: 1.1 }, Seeds::Tuning, 0, &[]);
    assert!(found.right > 5 && found.wrong.is_empty(), "{found:?}");
    assert!(found.held as f64 >= 0.93 * found.intervals as f64, "{found:?}");
}

/// The last disk has a level of its own in each run, which single runs do not know.
#[test]
fn runs_that_differ_by_themselves_need_repeats() {
    let at = disks().len() as u64 - 1;
    let twice = outcome(Case { runs: 3, factor: 2.0 }, Seeds::Tuning, at, &[]);
    assert!(twice.right > 5 && twice.wrong.is_empty(), "{twice:?}");
    let equal = outcome(Case { runs: 3, factor: 1.0 }, Seeds::Tuning, at, &[]);
    assert!(equal.wrong.is_empty() && equal.right == 0, "{equal:?}");
}

/// Two places on a disk whose level moves by 20 % with a memory of three seconds: what moves both cancels.
#[test]
fn in_turn_a_quarter_is_found_on_a_disk_that_moves() {
    let moves = 3;
    let found = outcome(Case { runs: 0, factor: 1.25 }, Seeds::Tuning, moves, &[]);
    assert!(found.right > 3 && found.wrong.is_empty(), "{found:?}");
    // Of fifty intervals that hold with 95 % two standard errors fewer may.
    assert!(found.held as f64 >= 0.88 * found.intervals as f64, "{found:?}");
    let equal = outcome(Case { runs: 0, factor: 1.0 }, Seeds::Tuning, moves, &[]);
    assert!(equal.wrong.is_empty() && equal.right == 0, "{equal:?}");
}
