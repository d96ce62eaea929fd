//! Whole commands on simulated disks behind FUSE: what they say is what the disk's law says.

use qd1_lab::Loop;
use qd1_model::plan::Sync;
use qd1_model::{OpClass, Report};
use qd1_simdisk::truth::Law;
use serde_json::Value;

use crate::common::apps::{Site, disk_with_flushes_of};
use crate::common::disk::Disk;
use crate::common::{Place, find, float, has_real_time, int, json, list, or_skip, quantile_ns, step};

fn real_time(place: &Place, args: &[&str]) -> assert_cmd::Command {
    assert_cmd::Command::from_std(place.real_time(args))
}

/// A bound from above, which nobody can give where other programs go first.
fn at_most(bound: f64) -> f64 {
    if has_real_time() { bound } else { f64::INFINITY }
}

#[test]
fn a_commit_takes_what_the_law_says_and_a_range_sync_no_flush() {
    let disk = or_skip!(Disk::named("network-block"));
    let only = "fdatasync-p1,o_dsync-p1,rwf_dsync-p1,sync_file_range-p1,fdatasync-x2-p1";
    let args = ["--quick", "--size", "16MiB", "--only", only, "--runtime", "2s", "--json", "--quiet", "--no-save"];
    let args = [&["sync", disk.place.dir_str()], &args[..]].concat();
    let commit = Law::commits(&disk.scenario.device, 8192, 100_000).quantile(0.5);
    let write = Law::writes(&disk.scenario.device, 8192, 100_000).quantile(0.5);
    // A busy machine adds to each figure and takes nothing away; it does not add to one of them in each of three runs.
    let mut seen = Vec::new();
    let is_lawful = |seen: &mut Vec<_>| {
        let report: Report = serde_json::from_value(json(real_time(&disk.place, &args))).unwrap();
        disk.place.assert_empty();
        let table = report.part::<qd1_model::sync::SyncTable>().unwrap();
        let median = |sync: Sync, writes: u32| {
            let alike = |row: &&qd1_model::sync::SyncRow| row.method.sync == sync && row.writes_per_sync == writes;
            let row = table.rows.iter().find(alike).unwrap_or_else(|| panic!("{sync:?} is not in {:?}", table.rows));
            row.lat_p50_ns.value.or(row.lat_mean_ns.value).unwrap_or(f64::NAN)
        };
        let commits = [Sync::Fdatasync, Sync::ODsync, Sync::RwfDsync].map(|sync| median(sync, 1));
        assert!(!commits.iter().any(|median| *median < 0.8 * commit), "{commits:?} ns, by the law {commit} ns");
        let (twice, range) = (median(Sync::Fdatasync, 2), median(Sync::SyncFileRange, 1));
        assert!(table.best.as_ref().is_none_or(|best| best.sync != Sync::SyncFileRange), "{:?}", table.best);
        seen.push((commits, twice, range));
        commits.iter().all(|median| *median < at_most(2.0 * commit))
            // The second write is in the commit, and a range sync sends no flush.
            && twice - commits[0] > 0.5 * write
            && range < 0.8 * commits[0]
            && table.best.is_some()
    };
    let is_one_lawful = (0..3).any(|_| is_lawful(&mut seen));
    assert!(is_one_lawful, "a commit takes {commit} ns and a write {write} ns by the law: {seen:?}");
}

fn find_row<'a>(report: &'a Value, what: &str, clients: u64) -> Option<&'a Value> {
    let is_it = |row: &&Value| row["what"] == what && row["clients"] == clients;
    list(&report["prediction"]["rows"]).iter().find(is_it)
}

fn row<'a>(report: &'a Value, what: &str, clients: u64) -> &'a Value {
    find_row(report, what, clients).unwrap_or_else(|| panic!("no {what}: {report}"))
}

/// A predicted figure and its interval.
fn predicted(report: &Value, what: &str, clients: u64) -> (f64, f64, f64) {
    let value = &row(report, what, clients)["value"];
    (float(&value["value"]), float(&value["low"]), float(&value["high"]))
}

/// What SQLite itself is held against.
const SQLITE: [&str; 2] = ["sqlite_wal_full", "sqlite_rollback_full"];

#[test]
fn databases_are_predicted_to_wait_for_slow_flushes_as_sqlite() {
    let scenario = disk_with_flushes_of(10e6);
    let site = or_skip!(Site::simulated(scenario.clone(), &[]));
    let args = ["predict", site.place.dir_str(), "--quick", "--verify=sqlite", "--json", "--quiet"];
    // Processors that other programs keep busy are missing to a database as well, and bound it.
    let is_busy = |report: &Value| float(&step(report, "commit1")["busy"]) >= 0.5;
    // On a machine that stalls, commits may not be resolved, and nothing is predicted from them.
    let is_resolved = |report: &Value| {
        let has = |what: &str, clients: u64, of: &str, all: [&str; 3]| {
            find_row(report, what, clients).is_some_and(|row| all.iter().all(|name| row[of][*name].is_number()))
        };
        let wanted = [("postgres_tps", 1), ("postgres_tps", 100), ("etcd_rate", 1)];
        let is_unused = |clients| clients > 1 && is_busy(report);
        let figures = ["value", "low", "high"];
        wanted.into_iter().all(|(what, clients)| is_unused(clients) || has(what, clients, "value", figures))
            && SQLITE.into_iter().all(|what| has(what, 1, "verified", ["error", "at_first", "error_at_first"]))
    };
    // Where the machine stalls SQLite as well, what was measured is wide and has to contain the prediction. It does not
    // stall SQLite alone in each of three runs; a wrong model would be wrong in each.
    let mut seen = Vec::new();
    let is_right = |report: &Value| {
        let verified = SQLITE.map(|what| row(report, what, 1)["verified"].clone());
        let is_one_right = |verified: &Value| {
            let (error, measured) = (float(&verified["error"]), &verified["value"]);
            let predicted = float(&measured["value"]) * (1.0 + error);
            let is_within = float(&measured["low"]) <= predicted && predicted <= float(&measured["high"]);
            error.abs() < 0.35 || verified["holds"] == true || is_within
        };
        let are_all = verified.iter().all(is_one_right);
        seen.push(verified);
        are_all
    };
    let mut reports = (0..3).map(|_| json(real_time(&site.place, &args))).filter(is_resolved);
    let report = reports.find(is_right);
    let report = report.unwrap_or_else(|| panic!("one in three runs is resolved and right: {seen:#?}"));
    let commits = 1e9 / Law::commits(&scenario.device, 4096, 100_000).quantile(0.5);
    let (one, low, high) = predicted(&report, "postgres_tps", 1);
    assert!(
        low < one && one < high && one < 1.05 * commits,
        "a client waits for its commit: {one}, {commits} commits/s"
    );
    if !is_busy(&report) {
        assert_eq!(row(&report, "postgres_tps", 1)["bound"], "commits");
        let (many, ..) = predicted(&report, "postgres_tps", 100);
        assert!(many > 10.0 * one, "clients share flushes: {many} against {one}");
    }
    let (puts, ..) = predicted(&report, "etcd_rate", 1);
    assert!(puts < 1.0, "a put takes longer than 10 ms: {puts}");
    for what in SQLITE {
        let verified = &row(&report, what, 1)["verified"];
        assert!(float(&verified["at_first"]) > 0.0 && verified["error_at_first"].is_f64(), "{verified}");
    }
    // It ran between two rounds of commits.
    let steps = list(&report["record"]["steps"]).iter().map(|step| step["name"].as_str().unwrap()).collect::<Vec<_>>();
    let at = |name: &str| steps.iter().position(|step| *step == name).unwrap_or_else(|| panic!("no {name}: {steps:?}"));
    assert!(at("commit1") < at("wal-full") && at("wal-full") < at("commit1-r2"), "{steps:?}");
    site.assert_clean();
    let id = report["record"]["id"].as_str().unwrap();
    let shown = String::from_utf8(site.place.qd1(&["history", "show", id]).output().unwrap().stdout).unwrap();
    assert!(shown.contains("What to expect") && shown.contains("SQLite commits/s, WAL FULL"), "{shown}");
    let (answer, _) = shown.split_once("\nSteps").unwrap();
    assert!(answer.lines().all(|line| line.chars().count() <= 80), "{answer}");
    let again = json(site.place.qd1(&["predict", "--from", id, "--json", "--no-save"]));
    assert_eq!(predicted(&again, "postgres_tps", 1).0, one, "the same Record says the same");
    // What SQLite does here afterwards is taken into account, once for a place; not next to commits that the machine's stalls
    // leave known less well than the model.
    let (_, low, high) = predicted(&report, "sqlite_wal_full", 1);
    let is_sharp = high / low < 4.5;
    let app = ["app", "sqlite", site.place.dir_str(), "--runtime", "2s", "--json", "--quiet"];
    let app: Report = serde_json::from_value(json(real_time(&site.place, &app))).unwrap();
    let rate = app.summary.stream("wal-full", OpClass::Commit).unwrap().iops.value.unwrap();
    let knowing = json(site.place.qd1(&["predict", "--from", id, "--json", "--no-save"]));
    if !is_sharp {
        println!("the machine's stalls leave the commits less known than the model");
        return;
    }
    let (_, low, high) = predicted(&knowing, "sqlite_wal_full", 1);
    assert_eq!(row(&knowing, "sqlite_wal_full", 1)["disks_before"], 1);
    assert!(low < rate && rate < high && high / low < 3.5, "{rate} commits/s, {low} to {high}");
    let shown = String::from_utf8(site.place.qd1(&["predict", "--from", id]).output().unwrap().stdout).unwrap();
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("this machine (number of disks): SQLite (1)."), "{shown}");
}

/// Sure enough to act on.
const SURE: f64 = 0.9;

/// The likeliest kind and its probability.
fn likeliest(report: &Value) -> (String, f64) {
    let first = &report["identity"]["kinds"][0];
    (first["kind"].as_str().unwrap().to_owned(), float(&first["probability"]))
}

#[test]
fn a_loop_device_is_known_to_be_a_file() {
    let disk = or_skip!(Loop::new(512 << 20, &[]));
    let report = json(Place::new().qd1(&["identify", disk.path(), "--quick", "--runtime", "300ms", "--json"]));
    let (kind, probability) = likeliest(&report);
    assert!(kind == "file_backed" && probability > SURE, "{kind} {probability}");
    // Without leave nothing is written, so what writes cost is not known; but all of the device is read.
    let plan = &report["record"]["plan"];
    assert_eq!(int(&find(&plan["steps"], "name", "far")["work"]["io"]["size"]), 512 << 20);
    assert_eq!(find(&plan["skipped"], "name", "commit")["name"], "commit");
}

#[test]
fn no_simulated_disk_is_taken_for_another_kind_with_confidence() {
    // What a disk may be called: the scenario of a rotating disk has no head, and serves 64 at once as an array would.
    for (name, kinds) in [
        ("sas-hdd", &["rotating", "raid_cache"][..]),
        ("network-block", &["network_block", "network_file"]),
        ("oversold", &["oversold"]),
    ] {
        let disk = or_skip!(Disk::named(name));
        let args = ["--quick", "--quiet", "--size", "64MiB", "--runtime", "1s", "--json"];
        let args = [&["identify", disk.place.dir_str()], &args[..]].concat();
        // A stall of the machine is part of what one run sees of the disk; a wrong rule would be wrong each time.
        let mut wrong = Vec::new();
        let is_right = |wrong: &mut Vec<_>| {
            let (kind, probability) = likeliest(&json(real_time(&disk.place, &args)));
            let is_right = probability < SURE || kinds.contains(&kind.as_str());
            wrong.push((kind, probability));
            is_right
        };
        assert!((0..3).any(|_| is_right(&mut wrong)), "{name}: {wrong:?}");
    }
}

#[test]
fn sqlites_commits_take_the_syncs_that_its_modes_ask_for() {
    let scenario = disk_with_flushes_of(10e6);
    let site = or_skip!(Site::simulated(scenario.clone(), &[]));
    let args = ["app", "sqlite", site.place.dir_str(), "--rows", "2000", "--runtime", "2s", "--json"];
    let commit_ns = Law::commits(&scenario.device, 4096, 10_000).quantile(0.5);
    // A busy machine adds to each and takes nothing away; it does not add to one of them in each of three runs.
    let mut seen = Vec::new();
    let is_lawful = |seen: &mut Vec<_>| {
        let typed: Report = serde_json::from_value(json(real_time(&site.place, &args))).unwrap();
        let syncs = |name: &str| quantile_ns(&typed, name, OpClass::Commit, 0.5) / commit_ns;
        // One sync of the log; none; the journal, its header, its directory and the file.
        let [full, normal, deleted] = ["wal-full", "wal-normal", "delete-full"].map(syncs);
        assert!(full >= 0.9 && deleted >= 2.5, "{full} and {deleted} syncs");
        seen.push((full, normal, deleted));
        full < at_most(1.6) && normal < 0.5 && deleted < at_most(6.0)
    };
    assert!((0..3).any(|_| is_lawful(&mut seen)), "syncs in three runs: {seen:?}");
    site.assert_clean();
}

/// Shares of the slowest 0.1 % of reads: of the disk, of the kernel, of the processors.
fn tail_of_reads(report: &Report) -> [f64; 3] {
    let tail = report.summary.stream("qd1", OpClass::Read).unwrap().tail.unwrap();
    [1.0 - tail.worked - tail.waited, tail.worked, tail.waited]
}

/// A disk that answers when its law says, and one in memory, which is nothing but work.
#[test]
fn the_slowest_reads_wait_for_a_disk_and_not_for_memory() {
    let disk = or_skip!(Disk::named("network-block"));
    let tail = |place: &Place| {
        let args =
            ["check", place.dir_str(), "--size", "16MiB", "--only", "qd1", "--runtime", "2s", "--json", "--no-save"];
        let args = [&args[..], &["--in-memory"]].concat();
        tail_of_reads(&serde_json::from_value(json(real_time(place, &args))).unwrap())
    };
    // A hypervisor that takes the processor away looks like sleep to a thread, in memory too: most of the slowest reads
    // there may be that. What is compared is therefore how much work there was where they did not wait for a processor.
    let work = |[slept, worked, _]: [f64; 3]| worked / (slept + worked);
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let memory = Place::at(memory.path());
    let mut seen = Vec::new();
    let mut is_seen = || {
        let [of_disk, of_memory] = [&disk.place, &memory].map(&tail);
        seen.push([of_disk, of_memory]);
        work(of_disk) < 0.5 && work(of_memory) > 5.0 * work(of_disk)
    };
    assert!((0..3).any(|_| is_seen()), "{seen:.2?}");
}
