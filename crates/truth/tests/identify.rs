//! A part of the table of kinds, in every test run. Tuning seeds: those of the table stay unseen.

use qd1_model::identity::StorageKind;
use qd1_truth::Seeds;
use qd1_truth::identify::judged;

#[test]
fn nine_kinds_of_disks_are_distinguished_without_labels_too() {
    // Five of each kind.
    let all = judged(Seeds::Tuning, 0..45);
    let wrong: Vec<_> = all.iter().filter(|one| !one.is_right()).map(|one| (&one.name, one.identity.top())).collect();
    assert!(wrong.len() <= 3, "{wrong:?}");
    let sure: Vec<_> = all.iter().filter(|one| one.is_confidently_wrong()).map(|one| &one.name).collect();
    assert!(sure.is_empty(), "{sure:?}");
    for kind in StorageKind::ALL {
        let right = all.iter().filter(|one| one.kind == kind && one.is_right()).count();
        assert!(right >= 3, "{} is identified {right} times of 5: {wrong:?}", kind.title());
    }
}
