//! How much of the time of slow operations a run says was in the device: on a disk that is slow itself, and in a control
//! group whose limit holds requests back before they reach the disk.

use std::process::Command;

use qd1_engine::sim::Service;
use qd1_lab::Throttle;
use serde_json::Value;

use crate::common::apps::disk_with_flushes_of;
use crate::common::{in_group, or_skip, said};
use crate::syncs::Ext4;

/// The share of the time of the slowest reads that was in the device.
fn share(mut check: Command, disk: &Ext4) -> f64 {
    check.args(["check", disk.path().to_str().unwrap(), "--only", "qd1", "--runtime", "3s", "--size", "32m"]);
    let output = check.args(["--json", "--no-save", "--quiet"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let streams = report["record"]["steps"][0]["streams"].as_array().unwrap();
    let seen = &streams.iter().find(|stream| stream["class"] == "read").unwrap()["in_device"];
    assert!(seen["operations"].as_u64().unwrap() >= 5, "{seen}");
    let share = seen["device_ns"].as_f64().unwrap() / seen["lat_ns"].as_f64().unwrap();
    println!("{:.1} % of {seen}", share * 100.0);
    share
}

#[test]
fn slow_reads_of_a_slow_disk_are_in_the_device() {
    let mut scenario = disk_with_flushes_of(100e3);
    scenario.device.read = Service::log_normal(3e6, 0.3);
    let disk = or_skip!(Ext4::simulated(scenario));
    // The kernel records when the device gets a request as long as writeback throttling is on.
    let _stamps = or_skip!(disk.mounted.disk.set_queue("wbt_lat_usec", "2000"));
    assert!(share(Command::new(env!("CARGO_BIN_EXE_qd1")), &disk) > 0.9);
}

#[test]
fn reads_that_a_limit_holds_back_are_not_in_the_device() {
    let disk = or_skip!(Ext4::quick());
    let _stamps = or_skip!(disk.mounted.disk.set_queue("wbt_lat_usec", "2000"));
    let group = or_skip!(Throttle::new("in-device", &disk.mounted.disk, &[("read_iops", 100)]));
    assert!(share(in_group(&group, env!("CARGO_BIN_EXE_qd1"), &[]), &disk) < 0.1);
}
