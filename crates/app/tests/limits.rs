//! `qd1 limits` against limits that the kernel sets, on a loop device of our own.

mod common;

use common::device::{Mounted, Throttle};
use common::{Place, float, list, skip};
use serde_json::Value;

/// One limit of the result.
fn limit<'a>(report: &'a Value, direction: &str, quantity: &str) -> &'a Value {
    let found = list(&report["limits"]["limits"])
        .iter()
        .find(|limit| limit["direction"] == direction && limit["quantity"] == quantity);
    found.unwrap_or_else(|| panic!("no {quantity} of {direction}s: {}", report["limits"]))
}

fn run_in(throttle: &Throttle, place: &Place) -> Value {
    let args = ["limits", place.dir_str(), "--json", "--size", "32MiB", "--no-save", "--quiet"];
    let mut command = throttle.command(common::qd1(), &args);
    let output = place.environment(&mut command).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn limits_that_the_kernel_sets_are_found() {
    let test = "limits_that_the_kernel_sets_are_found";
    let mounted = match Mounted::ext4("nodiscard") {
        Ok(mounted) => mounted,
        Err(why) => return skip(test, &why),
    };
    let place = Place::at(mounted.path());
    let limits = [("read_iops", 1000), ("write_iops", 500), ("read_bps", 40_000_000), ("write_bps", 20_000_000)];
    let throttle = match Throttle::new("limits", &mounted.disk, &limits) {
        Ok(throttle) => throttle,
        Err(why) => return skip(test, &why),
    };
    // A stall of the machine spoils one run; a wrong method would be wrong each time.
    let mut last = Value::Null;
    for _ in 0..2 {
        last = run_in(&throttle, &place);
        let is_near = |direction, quantity, truth: f64| {
            let value = float(&limit(&last, direction, quantity)["sustained"]["value"]);
            (value / truth - 1.0).abs() <= 0.10
        };
        let all = is_near("read", "requests", 1000.0)
            && is_near("write", "requests", 500.0)
            && is_near("read", "bytes", 40e6)
            && is_near("write", "bytes", 20e6);
        if all {
            return;
        }
    }
    panic!("{}", last["limits"]);
}

#[test]
fn a_dry_run_of_limits_says_what_it_would_write_and_writes_nothing() {
    let place = Place::new();
    let output = place.qd1(&["limits", place.dir_str(), "--dry-run"]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("writes    at most"), "{text}");
    assert!(text.lines().any(|line| line.contains("read-small")), "{text}");
    assert_eq!(std::fs::read_dir(place.dir()).unwrap().count(), 0);
}

#[test]
fn a_format_that_limits_do_not_have_is_refused_before_measuring() {
    let place = Place::new();
    let output = place.qd1(&["limits", place.dir_str(), "--format", "csv"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", String::from_utf8_lossy(&output.stderr));
}
