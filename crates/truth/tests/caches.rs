//! A few seeds of the table of caches, in every test run. Tuning seeds: those of the table stay unseen.

use qd1_truth::Seeds;
use qd1_truth::caches::{Property, Steps, tally};

#[test]
fn caches_before_the_disk_are_found_where_they_are() {
    for property in
        [Property::HostCache, Property::IgnoredFlush, Property::Unwritten, Property::Compressible, Property::FirstWrite]
    {
        let tally = tally(Seeds::Tuning, Steps::Caches, property, 200..202);
        assert_eq!((tally.with.found, tally.with.of), (2, 2), "{property:?}: {:?}", tally.notes);
        assert_eq!((tally.without.found, tally.without.of), (0, 2), "{property:?}: {:?}", tally.notes);
    }
}

#[test]
fn a_check_finds_a_host_cache_and_flushes_that_cost_nothing_in_eight_seconds() {
    for property in [Property::HostCache, Property::IgnoredFlush] {
        let tally = tally(Seeds::Tuning, Steps::Check, property, 200..206);
        assert_eq!((tally.with.found, tally.with.of), (6, 6), "{property:?}: {:?}", tally.notes);
        assert_eq!((tally.without.found, tally.without.of), (0, 6), "{property:?}: {:?}", tally.notes);
    }
}

#[test]
fn a_protected_cache_is_not_accused() {
    let tally = tally(Seeds::Tuning, Steps::Caches, Property::ProtectedCache, 0..2);
    assert_eq!(tally.accused, 0, "{:?}", tally.notes);
}
