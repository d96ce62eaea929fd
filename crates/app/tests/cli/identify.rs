//! `qd1 identify` from the command line to its answer, on a directory.

use crate::common::{find, float, int, list};
use crate::kept::kept;

#[test]
fn all_nine_kinds_have_a_probability_with_evidence() {
    let run = kept("identify");
    let identity = &run.report["identity"];
    let kinds = list(&identity["kinds"]);
    let sum: f64 = kinds.iter().map(|kind| float(&kind["probability"])).sum();
    assert!(kinds.len() == 9 && (sum - 1.0).abs() < 1e-6, "{kinds:?}");
    let evidence = list(&identity["evidence"]);
    assert!(evidence.iter().all(|one| list(&one["weights"]).len() == 9), "{evidence:?}");
    // Where O_DIRECT works; a temporary directory in memory has none.
    if int(&identity["measured"]) >= 5 {
        assert!(find(&identity["evidence"], "feature", "read_median")["value"].is_number());
        find(&run.report["findings"], "id", "storage_kind");
    }
    assert!(run.shown["human"].starts_with("Kind of storage:"), "the answer comes first: {}", run.shown["human"]);
}
