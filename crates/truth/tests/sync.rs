//! Ways to make writes durable on simulated disks whose law is known, in every test run.

use qd1_truth::Seeds;
use qd1_truth::sync::tally;

#[test]
fn the_law_of_each_method_lies_in_the_intervals_of_the_table() {
    let tally = tally(Seeds::Tuning, 0..5);
    let (figures, held) = tally.figures;
    assert!(figures > 75, "{tally:?}");
    // 95 % are meant; a few figures more or less are chance.
    assert!(held as f64 >= 0.9 * figures as f64, "{held} of {figures}: {:?}", tally.notes);
    assert!(tally.unresolved * 20 <= figures, "{} not resolved", tally.unresolved);
    assert!(tally.best.0 > 0 && tally.best.0 == tally.best.1, "{:?}", tally.notes);
}
