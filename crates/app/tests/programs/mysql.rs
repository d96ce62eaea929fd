//! `qd1 app mysql` with the MariaDB that is installed: its figures on a disk whose flushes are known, and that nothing of it
//! is left however it ends.

use std::process::Output;

use qd1_model::OpClass;
use qd1_simdisk::truth::Law;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::apps::{Site, disk_with_flushes_of};
use crate::common::{self, Running, find, float, int, intervals, is_root, list, or_skip, said, step, wait_until};

const NEEDED: [&str; 3] = ["mariadbd", "mariadb-install-db", "my_print_defaults"];
/// A load so short that it only shows behaviour, never figures.
const BRIEF: [&str; 6] = ["--scale", "1", "--runtime", "2s", "--warmup", "500ms"];

fn run(site: &Site, args: &[&str]) -> Output {
    site.command(&[&["mysql", site.place.dir_str()], args].concat()).output().unwrap()
}

#[test]
fn each_transaction_is_timed_and_counted() {
    let site = or_skip!(Site::roomy(&NEEDED));
    let output = run(&site, &[&["--json", "--clients", "1,4"], &BRIEF[..]].concat());
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["record"]["app"]["program"], "mysql");
    for name in ["1 client", "4 clients"] {
        let step = step(&report, name);
        let counted = int(&find(&step["streams"], "class", "transaction")["lat"]["count"]);
        let in_intervals: u64 = intervals(step).iter().flat_map(|i| list(&i["streams"])).map(|s| int(&s["ios"])).sum();
        assert!(counted > 0 && counted == in_intervals, "{name}: {counted} and {in_intervals}");
        let load = find(&report["app"]["loads"], "step", name);
        let log = float(&find(&load["facts"], "name", "wal_bytes_per_operation")["value"]);
        let flushes = float(&find(&load["facts"], "name", "disk_flushes_per_operation")["value"]);
        // Others write and flush as well on a busy machine; without any flush nothing would be durable.
        assert!(log > 50.0 && flushes > 0.1, "{name}: {log} B of log, {flushes} flushes a transaction");
        let all = float(&find(&step["app"]["counters"], "name", "operations")["value"]);
        assert!(all >= counted as f64, "{all} with the warm-up, {counted} without");
    }
    let settings = &report["record"]["app"]["settings"];
    assert_eq!(find(settings, "name", "innodb_flush_log_at_trx_commit")["value"], "1");
    site.assert_clean();
}

#[test]
fn settings_are_the_servers_and_a_wrong_one_is_told_in_its_words() {
    let site = or_skip!(Site::roomy(&NEEDED));
    let own = ["--json", "--clients", "2", "-c", "innodb_flush_log_at_trx_commit=2"];
    let output = run(&site, &[&own, &BRIEF[..]].concat());
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let load = find(&report["app"]["loads"], "step", "2 clients");
    let flushes = float(&find(&load["facts"], "name", "disk_flushes_per_operation")["value"]);
    assert!(flushes < 0.5, "commits that are not waited for are synced once a second: {flushes}");
    let output = run(&site, &["--scale", "1", "-c", "no_such_setting=1"]);
    let told = said(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("no_such_setting"), "{told}");
    for (args, word) in [(["-c", "fsync"], "NAME=VALUE"), (["-c", "datadir=/srv"], "leave it out")] {
        let output = run(&site, &args);
        assert!(output.status.code() == Some(2) && said(&output.stderr).contains(word), "{args:?}");
    }
    let output = run(&site, &["--bindir", site.place.dir_str()]);
    assert!(output.status.code() == Some(5) && said(&output.stderr).contains("apt-get install mariadb-server"));
    site.assert_clean();
}

#[test]
fn a_client_alone_waits_as_long_as_a_commit_takes() {
    or_skip!(is_root().then_some(()).ok_or_else(|| "a disk that a server's user can enter needs root".to_owned()));
    let scenario = disk_with_flushes_of(20e6);
    let site = or_skip!(Site::simulated(scenario.clone(), &NEEDED));
    let load = ["--scale", "1", "--clients", "1", "--runtime", "4s", "--warmup", "1s", "--json"];
    let commit_ns = Law::commits(&scenario.device, 8192, 10_000).quantile(0.5);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut command = site.real_time(&[&["mysql", site.place.dir_str()], &load[..]].concat());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output.stderr));
        site.assert_clean();
        let typed: qd1_model::Report = serde_json::from_slice(&output.stdout).unwrap();
        let p50 = common::quantile_ns(&typed, "1 client", OpClass::Transaction, 0.5) / commit_ns;
        // A transaction cannot be done before its commit is; beside that it waits for the processor alone.
        assert!(p50 >= 0.95, "{p50} of a commit");
        if p50 < 1.6 {
            return;
        }
        seen.push(p50);
    }
    panic!("p50 over that of a commit, which should be about 1: {seen:?}");
}

/// At most 50 transactions a second fit between flushes of 20 ms. The tail at 200 a second looked like one of a queue of
/// two seconds: whatever was not answered by then was left out.
#[test]
fn a_rate_that_the_disk_cannot_serve_is_told() {
    or_skip!(is_root().then_some(()).ok_or_else(|| "a disk that a server's user can enter needs root".to_owned()));
    let site = or_skip!(Site::simulated(disk_with_flushes_of(20e6), &NEEDED));
    let load = ["--scale", "1", "--clients", "1", "--runtime", "4s", "--warmup", "500ms", "--rate", "200", "--json"];
    let output = site.real_time(&[&["mysql", site.place.dir_str()], &load[..]].concat()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found = find(&report["findings"], "id", "behind_its_rate");
    assert!(found["evidence"].as_str().unwrap().contains("p50 of all requests due"), "{found}");
    // Its median is none of those that were answered.
    let summary = find(&report["summary"]["steps"], "name", "1 client, 200/s");
    let p50 = &find(&summary["streams"], "class", "transaction")["lat_p50_ns"];
    assert!(p50["value"].is_null() && float(&p50["low"]) == 2e9, "{p50}");
    let step = step(&report, "1 client, 200/s");
    let counted = int(&find(&step["streams"], "class", "transaction")["lat"]["count"]);
    let due = int(&step["app"]["due"]["count"]);
    // 800 are due in 4 s, and 300 answered in 6.
    assert!((650..950).contains(&due) && counted * 2 < due, "{counted} of {due}");
    site.assert_clean();
}

/// A long warm-up at such a rate leaves nothing answered of what is due after it; "no transaction completed", it said then,
/// and the run was lost.
#[test]
fn a_rate_of_which_nothing_is_answered_in_time_is_a_result() {
    or_skip!(is_root().then_some(()).ok_or_else(|| "a disk that a server's user can enter needs root".to_owned()));
    let site = or_skip!(Site::simulated(disk_with_flushes_of(20e6), &NEEDED));
    let load = ["--scale", "1", "--clients", "1", "--runtime", "1s", "--warmup", "2s", "--rate", "1000"];
    let output = site.real_time(&[&["mysql", site.place.dir_str()], &load[..]].concat()).output().unwrap();
    let told = said(&output.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(output.status.success() && told.contains("did not keep up (1 client, 1000/s): none answered"), "{told}");
    let output = run(&site, &["--rate", "1", "--runtime", "2s"]);
    assert!(output.status.code() == Some(2) && said(&output.stderr).contains("--runtime 10s"));
    site.assert_clean();
}

#[test]
fn signals_leave_nothing() {
    for (signal, code) in [(Signal::INT, Some(130)), (Signal::KILL, None)] {
        let site = or_skip!(Site::roomy(&NEEDED));
        let args =
            ["mysql", site.place.dir_str(), "--json", "-q", "--scale", "1", "--clients", "4", "--runtime", "120s"];
        let mut run = Running::start(site.command(&args));
        wait_until("the server runs", || {
            run.assert_running();
            site.servers().len() == 1 && site.aside().is_some()
        });
        std::thread::sleep(std::time::Duration::from_secs(4));
        run.signal(signal);
        assert!(common::comes_true(9_000, || !run.is_running()), "waited in vain until it ends");
        assert_eq!(run.0.wait().unwrap().code(), code);
        site.assert_clean();
    }
}
