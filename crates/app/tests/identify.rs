//! `qd1 identify` from the command line to its answer: on a directory, on a loop device, and on simulated disks behind FUSE.
//! How often the answer is right is tested on simulated devices in virtual time (crates/truth); here a busy machine
//! has its part in every figure, and what is asserted is what must not happen: an answer that is wrong and sure.

mod common;

use common::device::Loop;
use common::{Place, find, float, int, list, schema, skip};
use qd1_simdisk::{Mounted, Scenario};
use serde_json::Value;

/// Sure enough to act on.
const SURE: f64 = 0.9;

fn identify(place: &Place, args: &[&str]) -> assert_cmd::Command {
    place.qd1(&[&["identify", place.dir_str(), "--quick", "--quiet"], args].concat())
}

fn report(place: &Place, args: &[&str]) -> Value {
    common::json(identify(place, &[&["--json"], args].concat()))
}

/// The likeliest kind and its probability.
fn said(report: &Value) -> (String, f64) {
    let first = &report["identity"]["kinds"][0];
    (first["kind"].as_str().unwrap().to_owned(), float(&first["probability"]))
}

#[test]
fn all_nine_kinds_have_a_probability_with_evidence_and_the_run_can_be_shown_again() {
    let place = Place::new();
    let report = report(&place, &["--size", "256MiB", "--runtime", "300ms", "--seed", "5"]);
    place.assert_empty();
    let kinds = list(&report["identity"]["kinds"]);
    let sum: f64 = kinds.iter().map(|kind| float(&kind["probability"])).sum();
    assert!(kinds.len() == 9 && (sum - 1.0).abs() < 1e-6, "{kinds:?}");
    let evidence = list(&report["identity"]["evidence"]);
    assert!(evidence.iter().all(|one| list(&one["weights"]).len() == 9), "{evidence:?}");
    // Where O_DIRECT works; a temporary directory in memory has none.
    if int(&report["identity"]["measured"]) >= 5 {
        assert!(find(&report["identity"]["evidence"], "feature", "read_median")["value"].is_number());
        find(&report["findings"], "id", "storage_kind");
    }
    let schema = common::json(place.qd1(&["schema"]));
    assert_eq!(schema::faults(&schema, &schema, &report, ""), Vec::<String>::new());
    let id = report["record"]["id"].as_str().unwrap();
    assert_eq!(common::json(place.qd1(&["history", "show", id, "--json"])), report);
}

#[test]
fn the_answer_comes_first_and_the_plan_can_be_seen_before() {
    let place = Place::new();
    let run = |args: &[&str]| {
        let output = identify(&place, args).assert().success().get_output().stdout.clone();
        String::from_utf8(output).unwrap()
    };
    let plan = run(&["--dry-run", "--size", "256MiB"]);
    for word in ["plan of identify", "far", "near", "commit", "writes", "256 MiB"] {
        assert!(plan.contains(word), "{plan}");
    }
    place.assert_untouched();
    let text = run(&["--size", "256MiB", "--runtime", "200ms", "--redact"]);
    assert!(text.starts_with("Kind of storage:") && text.contains("How likely") && text.contains("Why"), "{text}");
    assert!(!text.contains(place.dir_str()), "{text}");
}

#[test]
fn a_loop_device_is_known_to_be_a_file() {
    match Loop::new(512 << 20, &[]) {
        Err(why) => skip("a_loop_device_is_known_to_be_a_file", &why),
        Ok(disk) => {
            let place = Place::new();
            let device = disk.path();
            let report = common::json(place.qd1(&["identify", device, "--quick", "--runtime", "300ms", "--json"]));
            let (kind, probability) = said(&report);
            assert!(kind == "file_backed" && probability > SURE, "{kind} {probability}");
            // Without leave nothing is written, so what writes cost is not known; but all of the device is read.
            let plan = &report["record"]["plan"];
            assert_eq!(int(&find(&plan["steps"], "name", "far")["work"]["io"]["size"]), 512 << 20);
            assert_eq!(find(&plan["skipped"], "name", "commit")["name"], "commit");
        }
    }
}

#[test]
fn no_simulated_disk_is_taken_for_another_kind_with_confidence() {
    let test = "no_simulated_disk_is_taken_for_another_kind_with_confidence";
    if let Some(why) = Mounted::unavailable() {
        return skip(test, &why);
    }
    // What a disk may be called: the scenario of a rotating disk has no head, and serves 64 at once as an array would.
    for (name, kinds) in [
        ("sas-hdd", &["rotating", "raid_cache"][..]),
        ("network-block", &["network_block", "network_file"]),
        ("oversold", &["oversold"]),
    ] {
        let dir = tempfile::TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let on = dir.path().join("disk");
        std::fs::create_dir(&on).unwrap();
        let mounted =
            Mounted::new(&Scenario::named(name).unwrap(), &on).expect("FUSE is there, so a disk can be mounted");
        let report = report(&Place::at(&on), &["--size", "64MiB", "--runtime", "1s"]);
        let (kind, probability) = said(&report);
        assert!(probability < SURE || kinds.contains(&kind.as_str()), "{name}: {kind} {probability}");
        drop(mounted);
    }
}
