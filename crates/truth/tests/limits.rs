//! A few seeds of the table of limits, in every test run. Tuning seeds: those of the table stay unseen.

use qd1_truth::{Seeds, fingerprints, limits};

#[test]
fn limits_of_simulated_tiers_are_found_within_the_target() {
    // Those that take the fewest requests: a burst from credits, and none.
    let numbers = ["gp2", "DigitalOcean"].map(|tier| limits::numbers_of(Seeds::Tuning, tier, 1)).concat();
    let tally = limits::with_limits(Seeds::Tuning, numbers);
    // Reads and writes, of which gp2 has no limit on bytes.
    assert_eq!((tally.iops.len(), tally.bytes.len()), (4, 2), "{tally:?}");
    assert!(tally.volume.len() == 1 && !tally.refill.is_empty(), "{tally:?}");
    assert!(tally.iops.iter().chain(&tally.bytes).all(|error| *error <= 0.03), "{:?}", tally.notes);
    assert!(tally.volume.iter().all(|error| *error <= 0.05), "{:?}", tally.notes);
    assert_eq!((tally.missed, tally.invented), (0, 0), "{:?}", tally.notes);
}

#[test]
fn no_limit_is_invented_where_there_is_none_and_little_is_spent() {
    // A rotating disk, whose rate no size of small requests and no depth changes, and a network volume.
    let tally = limits::without_limits(Seeds::Tuning, 2..4);
    assert_eq!(tally.false_disks, 0, "{:?}", tally.notes);
    assert!(tally.seconds_max <= 120.0 && tally.written_max <= 20_000_000_000, "{tally:?}");
}

#[test]
fn a_check_shows_a_limit_where_there_is_one_and_only_there() {
    let numbers = limits::numbers_of(Seeds::Tuning, "DigitalOcean", 1);
    let said = fingerprints::with_limits(Seeds::Tuning, numbers);
    assert!(said.disks == (1, 1) && said.limited.1 >= 2, "{said:?}");
    let said = fingerprints::without_limits(Seeds::Tuning, 2..4);
    assert_eq!(said.free.1, 0, "{:?}", said.notes);
}
