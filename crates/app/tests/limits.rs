//! `qd1 limits`: against limits that the kernel sets on a loop device of our own, and what it says without measuring.

mod common;

use common::device::{Loop, Throttle};
use common::{Place, float, list, skip};
use serde_json::Value;

/// Both on reads: the first decides at 4 KiB, the second at 256 KiB.
const IOPS: u64 = 1000;
const BYTES: u64 = 20_000_000;

/// What is said of reads: the limit's figure and whether it was reached.
fn limit<'a>(report: &'a Value, quantity: &str) -> &'a Value {
    let found = list(&report["limits"]["limits"]).iter().find(|limit| limit["quantity"] == quantity);
    found.unwrap_or_else(|| panic!("no {quantity} of reads: {}", report["limits"]))
}

fn is_near(report: &Value, quantity: &str, truth: u64) -> bool {
    let limit = limit(report, quantity);
    limit["reached"] == true && (float(&limit["sustained"]["value"]) / truth as f64 - 1.0).abs() <= 0.03
}

#[test]
fn limits_that_the_kernel_sets_are_found_and_shown_again() {
    let test = "limits_that_the_kernel_sets_are_found_and_shown_again";
    let disk = match Loop::new(1 << 30, &[]) {
        Ok(disk) => disk,
        Err(why) => return skip(test, &why),
    };
    let throttle = match Throttle::new("limits", &disk, &[("read_iops", IOPS), ("read_bps", BYTES)]) {
        Ok(throttle) => throttle,
        Err(why) => return skip(test, &why),
    };
    let place = Place::new();
    // A stall of the machine spoils one run; a wrong method would be wrong each time. Two runs take a minute.
    let mut report = Value::Null;
    for _ in 0..3 {
        // Not to be written, so that only reads are measured.
        let mut command = throttle.command(common::qd1(), &["limits", disk.path(), "--json", "--quiet"]);
        let output = place.environment(&mut command).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        report = serde_json::from_slice(&output.stdout).unwrap();
        if is_near(&report, "requests", IOPS) && is_near(&report, "bytes", BYTES) {
            break;
        }
    }
    assert!(is_near(&report, "requests", IOPS) && is_near(&report, "bytes", BYTES), "{}", report["limits"]);
    let found = list(&report["findings"]).iter().any(|finding| finding["id"] == "rate_limited");
    assert!(found, "{}", report["findings"]);
    let id = report["record"]["id"].as_str().unwrap();
    let again = place.qd1(&["history", "show", id, "--json"]).output().unwrap();
    let again: Value = serde_json::from_slice(&again.stdout).unwrap();
    assert_eq!(again["limits"], report["limits"]);
}

#[test]
fn a_dry_run_of_limits_says_what_it_would_write_and_writes_nothing() {
    let place = Place::new();
    let output = place.qd1(&["limits", place.dir_str(), "--dry-run"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("writes    at most"), "{text}");
    assert!(text.lines().any(|line| line.contains("read-small")), "{text}");
    place.assert_empty();
}

#[test]
fn a_format_that_limits_do_not_have_is_refused_before_measuring() {
    let place = Place::new();
    let output = place.qd1(&["limits", place.dir_str(), "--format", "csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
