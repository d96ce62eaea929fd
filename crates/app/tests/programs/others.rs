//! `qd1 app` with etcd, SQLite, RocksDB and sysbench: their figures, and that nothing of them is left however they end.

use std::fs;
use std::process::Output;

use qd1_lab::tool;
use qd1_model::{OpClass, Report};
use rustix::process::Signal;
use serde_json::Value;

use crate::common::apps::{Site, children, disk_with_flushes_of, listening, program};
use crate::common::{self, Place, Running, find, float, int, list, or_skip, said, step, wait_until};

fn parsed(output: &Output) -> Value {
    assert!(output.status.success(), "{}{}", said(&output.stderr), said(&output.stdout));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn run(site: &Site, name: &str, args: &[&str]) -> Output {
    site.command(&[&[name, site.place.dir_str()], args].concat()).output().unwrap()
}

/// The real etcd with an etcdctl that does a few writes and says what it is told to, since the real one takes a minute.
fn hasty(site: &Site, says: &str) -> String {
    let dir = site.place.beside("bin");
    fs::create_dir_all(&dir).unwrap();
    std::os::unix::fs::symlink(program("etcd").unwrap(), dir.join("etcd")).unwrap();
    let real = program("etcdctl").unwrap();
    let script = format!(
        "#!/bin/sh\nfor n in 1 2 3 4 5; do \"{}\" \"$1\" \"$2\" put k$n v >/dev/null; done\nprintf '{says}'\n",
        real.display()
    );
    // Put there by another process: a program that another test starts meanwhile would hold what this one writes open.
    let (aside, etcdctl) = (site.place.beside("etcdctl.sh"), dir.join("etcdctl"));
    fs::write(&aside, script).unwrap();
    tool("install", &["-m", "755", aside.to_str().unwrap(), etcdctl.to_str().unwrap()]).unwrap();
    dir.to_str().unwrap().to_owned()
}

#[test]
fn etcds_own_verdict_and_the_syncs_of_its_log_are_reported() {
    let site = or_skip!(Site::roomy(&["etcd", "etcdctl"]));
    let says = "PASS: Throughput is 150 writes/s\\nFAIL: Slowest request took too long: 0.7s\\nPASS: Stddev is 0.01s\\nFAIL\\n";
    let bin = hasty(&site, says);
    let args = ["--load", "s", "--bindir", &bin, "--json"];
    let output = run(&site, "etcd", &args);
    let report = parsed(&output);
    let load = find(&report["app"]["loads"], "step", "s");
    let grade = |name: &str| find(&load["checks"], "name", name)["grade"].as_str().unwrap().to_owned();
    assert_eq!([grade("throughput"), grade("slowest"), grade("stddev")], ["pass", "fail", "pass"]);
    let syncs = find(&step(&report, "s")["app"]["buckets"], "name", "etcd_disk_wal_fsync_duration_seconds");
    let counted: u64 = list(&syncs["counts"]).iter().map(int).sum();
    assert!(counted >= 5, "each write is synced: {counted}");
    site.assert_clean();
    let strict = run(&site, "etcd", &[&args[..], &["--fail-on", "fail"]].concat());
    assert_eq!(strict.status.code(), Some(3), "{}", said(&strict.stderr));
    let id = report["record"]["id"].as_str().unwrap();
    let shown = said(&site.place.qd1(&["history", "show", id]).output().unwrap().stdout);
    assert!(shown.contains("FAILS (slowest request") && shown.contains("etcdctl check perf"), "{shown}");
    site.assert_clean();
}

#[test]
fn puts_come_at_the_rate_asked_for_and_wait_for_the_disk() {
    let site = or_skip!(Site::simulated(disk_with_flushes_of(5e6), &["etcd", "etcdctl"]));
    let plan = run(&site, "etcd", &["--rate", "40,80,40", "--dry-run"]);
    assert!(common::said(&plan.stdout).contains("40 puts/s #2"), "a rate may be tried twice: {plan:?}");
    let mut answered = Vec::new();
    // Where the machine stalls, not all are answered in time; it does not three times.
    for _ in 0..3 {
        let report = parsed(&run(&site, "etcd", &["--rate", "40", "--runtime", "3s", "--json"]));
        site.assert_clean();
        let puts = step(&report, "40 puts/s");
        let applied = float(&find(&puts["app"]["counters"], "name", "operations")["value"]);
        let typed: Report = serde_json::from_value(report).unwrap();
        let ios = typed.summary.stream("40 puts/s", OpClass::Transaction).unwrap().ios;
        assert!((1..=180).contains(&ios), "120 are due: {ios}");
        assert!(applied >= ios as f64, "each is applied: {applied} of {ios}");
        let p50_ns = common::quantile_ns(&typed, "40 puts/s", OpClass::Transaction, 0.5);
        assert!(p50_ns > 4.5e6, "each waits for a sync of the log: {p50_ns} ns");
        if ios >= 70 {
            return;
        }
        answered.push(ios);
    }
    panic!("120 are due: {answered:?}");
}

/// What went out of a process by write calls.
fn written(pid: rustix::process::Pid) -> u64 {
    let text = fs::read_to_string(format!("/proc/{}/io", pid.as_raw_nonzero())).unwrap_or_default();
    text.lines().find_map(|line| line.strip_prefix("wchar: ")?.parse().ok()).unwrap_or_default()
}

/// A run of the real load, under way: its server's process.
fn under_way(site: &Site) -> (Running, rustix::process::Pid) {
    let mut run = Running::start(site.command(&["etcd", site.place.dir_str(), "--load", "s", "--json", "-q"]));
    // It is asked for its version first, by processes that end at once.
    let listens = || site.servers().into_iter().find(|pid| !listening(*pid).is_empty());
    wait_until("etcd listens", || {
        run.assert_running();
        listens().is_some()
    });
    let server = listens().unwrap();
    let is_load = |pid: &rustix::process::Pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        String::from_utf8_lossy(&line).contains("check\0perf")
    };
    wait_until("etcdctl runs", || {
        run.assert_running();
        children(run.0.id()).iter().any(is_load)
    });
    let before = written(server);
    wait_until("etcd writes what etcdctl puts", || {
        run.assert_running();
        written(server) > before + (256 << 10)
    });
    (run, server)
}

#[test]
fn etcd_listens_on_loopback_alone_and_sigint_ends_it() {
    let site = or_skip!(Site::roomy(&["etcd", "etcdctl"]));
    let (mut run, server) = under_way(&site);
    let at = listening(server);
    assert!(!at.is_empty() && at.iter().all(|address| address.starts_with("0100007F:")), "127.0.0.1 alone: {at:?}");
    run.signal(Signal::INT);
    let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    let syncs = find(&step(&report, "s")["app"]["buckets"], "name", "etcd_disk_wal_fsync_duration_seconds");
    assert!(list(&syncs["counts"]).iter().map(int).sum::<u64>() > 0);
    site.assert_clean();
}

#[test]
fn an_etcd_that_is_killed_and_a_killed_qd1_leave_nothing() {
    let site = or_skip!(Site::roomy(&["etcd", "etcdctl"]));
    let (mut run, server) = under_way(&site);
    rustix::process::kill_process(server, Signal::KILL).unwrap();
    let err = std::io::read_to_string(run.0.stderr.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(1), "{err}");
    assert!(err.contains("etcd ended (signal: 9"), "{err}");
    site.assert_clean();
    let (mut run, _) = under_way(&site);
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    site.assert_clean();
}

#[test]
fn a_program_without_files_ends_with_the_qd1_that_started_it() {
    let place = Place::new();
    let pidfile = place.beside("pid");
    // A shell in place of qd1: it writes down who its child is, and waits for it.
    let script =
        format!("'{}' __guard 9 $$ go -- - sleep 100 & echo $! > '{}'; wait", common::qd1(), pidfile.display());
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &script]);
    let mut shell = Running::start(shell);
    let mut proc = std::path::PathBuf::new();
    let is_asleep = |proc: &std::path::Path| fs::read_to_string(proc.join("comm")).is_ok_and(|name| name == "sleep\n");
    wait_until("the program runs", || {
        let pid = fs::read_to_string(&pidfile).unwrap_or_default();
        proc = std::path::Path::new("/proc").join(pid.trim());
        !pid.is_empty() && is_asleep(&proc)
    });
    shell.signal(Signal::KILL);
    shell.0.wait().unwrap();
    wait_until("the program is gone", || !is_asleep(&proc));
}

#[test]
fn sqlite_ends_in_order_and_leaves_nothing() {
    let site = or_skip!(Site::roomy(&[]));
    let args = ["sqlite", site.place.dir_str(), "--rows", "1000", "--runtime", "60s", "--json"];
    let mut run = Running::start(site.command(&args));
    // Far more than the rows: a hundred commits and more.
    wait_until("it commits", || run.bytes_written() > 1 << 20);
    run.signal(Signal::TERM);
    let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!((run.0.wait().unwrap().code(), &report["record"]["interrupted"]), (Some(143), &Value::Bool(true)));
    site.assert_clean();
    let mut run = Running::start(site.command(&args));
    wait_until("the database is there", || !common::names(site.place.dir()).is_empty());
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    site.assert_clean();
}

#[test]
fn the_figures_and_the_histogram_of_db_bench_are_read() {
    let site = or_skip!(Site::roomy(&["db_bench"]));
    let args = ["--num", "5000", "--runtime", "1s", "--benchmarks", "fillseq,readrandom,fillsync", "--json"];
    let report = parsed(&run(&site, "rocksdb", &args));
    for name in ["fillseq", "readrandom", "fillsync"] {
        let app = &step(&report, name)["app"];
        assert!(float(&find(&app["reported"], "name", "operations")["value"]) > 0.0, "{name}");
        let in_buckets: u64 = list(&app["buckets"][0]["counts"]).iter().map(int).sum();
        let all = float(&find(&app["counters"], "name", "operations")["value"]);
        assert!((in_buckets as f64 / all - 1.0).abs() < 0.02, "{name}: {in_buckets} of {all}");
    }
    site.assert_clean();
}

#[test]
fn sysbenchs_figures_are_read() {
    let site = or_skip!(Site::roomy(&["sysbench"]));
    let args = ["sysbench", site.place.dir_str(), "--size", "16MiB", "--runtime", "1s", "--json"];
    let report = parsed(&site.real_time(&args).output().unwrap());
    let writes = find(&step(&report, "rndrw")["app"]["reported"], "name", "writes");
    assert!(float(&writes["value"]) > 0.0);
    site.assert_clean();
}

/// Its seqwr truncates the files. On a slow disk its time was over before it had written them again, and the mode after
/// it failed ("Size of file 'test_file.50' is 0B").
#[test]
fn sysbenchs_modes_follow_each_other_on_a_slow_disk() {
    let site = or_skip!(Site::simulated(disk_with_flushes_of(30e6), &["sysbench"]));
    let report = parsed(&run(&site, "sysbench", &["--size", "128MiB", "--runtime", "1s", "--json"]));
    for (mode, name) in [("seqwr", "writes"), ("rndrw", "reads")] {
        let figure = find(&step(&report, mode)["app"]["reported"], "name", name);
        assert!(float(&figure["value"]) > 0.0, "{mode}: {report}");
    }
    site.assert_clean();
}
