//! A check over hours knows its day and its hours: a few days of each kind; `cargo xtask truth --only over` has many.

use qd1_truth::Seeds;
use qd1_truth::long_check::study;

/// 3 days of each kind, 72 hours. Of intervals that hold in 95 % of cases, fewer than so many hold once in a thousand
/// times or less (binomial, hours taken as independent).
#[test]
fn intervals_hold_their_day_and_its_hours_and_no_hour_is_graded_wrong() {
    let rows = study(Seeds::Tuning, 3);
    for row in &rows {
        for held in row.hours {
            assert_eq!(held.printed, held.all, "{}", row.name);
            assert!(held.held >= 60, "{}: {} of {} hours", row.name, held.held, held.all);
        }
    }
    let day = rows.iter().flat_map(|row| row.day);
    let (held, all) = day.fold((0, 0), |sum, one| (sum.0 + one.held, sum.1 + one.all));
    assert!(all == 150 && held >= 133, "{held} of {all} figures of days");
    let (wrong, graded) = rows.iter().fold((0, 0), |sum, row| (sum.0 + row.wrong, sum.1 + row.graded));
    assert!(graded > 300 && wrong * 50 <= graded, "{wrong} of {graded} hours are graded wrongly");
}
