//! `qd1 doctor` on filesystems with options that are known to be bad.

use std::process::Command;

use qd1_lab::{Loop, Mount};

use crate::common::{Place, json, or_skip, said};

#[test]
fn bad_mount_options_are_found_wherever_they_stand() {
    let place = Place::new();
    let disk = or_skip!(Loop::ext4(64 << 20));
    // An option of the superblock, which mountinfo does not show.
    let tune = Command::new("tune2fs").args(["-o", "journal_data_writeback", disk.path()]).output();
    assert!(tune.is_ok_and(|output| output.status.success()));
    let mount = or_skip!(Mount::new(&["-o", "nobarrier,commit=60,strictatime", disk.path()]));
    let dir = mount.path().to_str().unwrap();
    let diagnosis = json(place.qd1(&["doctor", dir, "--json"]));
    let of_mount = diagnosis["advice"].as_array().unwrap().iter().filter(|advice| advice["subject"] == dir);
    let rules: Vec<&str> = of_mount.map(|advice| advice["rule"].as_str().unwrap()).collect();
    assert_eq!(rules, ["mount.no_barrier", "mount.commit", "mount.data", "mount.strictatime"]);
    let failed = place.qd1(&["doctor", dir, "--fail-on", "critical"]).output().unwrap();
    assert_eq!(failed.status.code(), Some(3), "{}", said(&failed.stderr));
    let good = or_skip!(Loop::ext4(64 << 20));
    let good = or_skip!(Mount::new(&[good.path()]));
    let dir = good.path().to_str().unwrap();
    let diagnosis = json(place.qd1(&["doctor", dir, "--json"]));
    let rules = diagnosis["advice"].as_array().unwrap();
    assert!(
        rules.iter().all(|advice| advice["rule"].as_str().unwrap().split('.').next() != Some("mount")),
        "{rules:?}"
    );
}
