//! `qd1 app postgres` with the PostgreSQL that is installed: its figures, and that nothing of it is left however it
//! ends.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Output;

use qd1_lab::{Mounted, tool};
use qd1_model::OpClass;
use qd1_simdisk::truth::Law;
use rustix::process::{Pid, Signal};
use serde_json::Value;

use crate::common::apps::{Site, children, disk_with_flushes_of, listening, segments};
use crate::common::filesystems::{assert_nothing_left, can, quiet};
use crate::common::{
    self, Running, find, float, int, intervals, is_root, list, or_skip, said, skip, step, test_name, wait_until,
};

const NEEDED: [&str; 4] = ["initdb", "postgres", "pgbench", "psql"];
/// A load so short that it only shows behaviour, never figures.
const BRIEF: [&str; 8] = ["--scale", "1", "--runtime", "2s", "--warmup", "500ms", "-c", SMALL];
/// One that somebody has to end.
const LONG: [&str; 10] = ["--scale", "1", "--clients", "4", "--runtime", "120s", "--warmup", "0s", "-c", SMALL];
/// The disks of tests are small.
const SMALL: &str = "max_wal_size=128MB";

fn site() -> Result<Site, String> {
    Site::roomy(&NEEDED)
}

fn run(site: &Site, args: &[&str]) -> Output {
    site.command(&[&["postgres", site.place.dir_str()], args].concat()).output().unwrap()
}

fn report(site: &Site, args: &[&str]) -> Value {
    let output = run(site, &[&["--json"], args].concat());
    assert!(output.status.success(), "{}", said(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A run under way, in a place of its own.
struct Life {
    run: Running,
    site: Site,
    /// The server's first process.
    server: Pid,
    /// Its segment of shared memory.
    segment: String,
    /// Where the rest of what its processes share lies.
    memory: std::path::PathBuf,
}

impl Life {
    /// Begun, and so far that pgbench writes.
    fn begin(site: Site, more: &[&str]) -> Self {
        let args = [&["postgres", site.place.dir_str(), "--json", "-q"], &LONG[..], more].concat();
        let mut run = Running::start(site.command(&args));
        wait_until("pgbench runs", || {
            run.assert_running();
            is_any("pgbench", "--log-prefix", &site)
        });
        std::thread::sleep(std::time::Duration::from_secs(1));
        let scratch = common::names(site.place.dir()).remove(0);
        let memory = std::path::Path::new("/dev/shm").join(format!("{scratch}-m"));
        let file = site.place.dir().join(scratch).join("data/postmaster.pid");
        let told = fs::read_to_string(&file).unwrap();
        let server = Pid::from_raw(told.lines().next().unwrap().parse().unwrap()).unwrap();
        let segment = told.lines().nth(6).unwrap().split_whitespace().nth(1).unwrap().to_owned();
        let maps = fs::read_to_string(format!("/proc/{}/maps", server.as_raw_nonzero())).unwrap();
        assert!(!maps.contains("/dev/shm/PostgreSQL"), "nothing under names that nobody knows");
        Self { run, site, server, segment, memory }
    }

    /// Waits for its end; exit code, stdout and stderr.
    fn end(&mut self) -> (Option<i32>, String, String) {
        let (out, err) = (self.run.0.stdout.take().unwrap(), self.run.0.stderr.take().unwrap());
        let out = std::thread::spawn(move || std::io::read_to_string(out).unwrap());
        let err = std::thread::spawn(move || std::io::read_to_string(err).unwrap());
        // On a disk that is slow or full the server takes its time to stop.
        assert!(common::comes_true(9_000, || !self.run.is_running()), "waited in vain until it ends");
        (self.run.0.wait().unwrap().code(), out.join().unwrap(), err.join().unwrap())
    }

    #[track_caller]
    fn assert_clean(&self) {
        self.site.assert_clean();
        wait_until("its shared memory is gone", || !segments().contains(&self.segment) && !self.memory.exists());
    }
}

/// Whether a process of this name runs for the place, with `word` among its arguments.
fn is_any(name: &str, word: &str, site: &Site) -> bool {
    site.servers().into_iter().any(|pid| {
        let line = fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        line.split('\0').next().is_some_and(|program| program.ends_with(name)) && line.contains(word)
    })
}

#[test]
fn each_transaction_is_timed_and_the_run_is_shown_again() {
    let site = or_skip!(site());
    let report = report(&site, &[&["--clients", "1,4"], &BRIEF[..]].concat());
    assert_eq!(report["record"]["app"]["program"], "postgres");
    for name in ["1 client", "4 clients"] {
        let step = step(&report, name);
        let counted = int(&find(&step["streams"], "class", "transaction")["lat"]["count"]);
        let in_intervals: u64 = intervals(step).iter().flat_map(|i| list(&i["streams"])).map(|s| int(&s["ios"])).sum();
        assert!(counted > 0 && counted == in_intervals, "{name}: {counted} and {in_intervals}");
        // How even the machine is in the warm-up and after it says nothing of qd1. Of both together pgbench counts what
        // qd1 counts: its rate times the 3 s, less what it took to connect, which may be most of it, and up to the
        // longest transaction more until its last client ends.
        let own = float(&find(&step["app"]["reported"], "name", "tps")["value"]);
        let all = float(&find(&step["app"]["counters"], "name", "operations")["value"]);
        assert!(all >= counted as f64, "{all} with the warm-up, {counted} without");
        let took_s = all / own;
        assert!((0.2..10.0).contains(&took_s), "{name}: {all} transactions at {own} a second");
        let load = find(&report["app"]["loads"], "step", name);
        let syncs = float(&find(&load["facts"], "name", "wal_syncs_per_operation")["value"]);
        assert!((0.1..1.6).contains(&syncs), "{name}: {syncs} syncs a transaction");
    }
    site.assert_clean();
    let id = report["record"]["id"].as_str().unwrap();
    let again = common::json(site.place.qd1(&["history", "show", id, "--json"]));
    assert_eq!(again, report);
    let shown = site.place.qd1(&["history", "show", id]).output().unwrap();
    let shown = said(&shown.stdout);
    assert!(shown.contains("PostgreSQL") && shown.contains("log syncs"), "{shown}");
    let body = shown.split("\nRun it again").next().unwrap();
    assert!(body.lines().all(|line| line.chars().count() <= 80), "{shown}");
}

/// Transactions of 0.1 s come twice as fast as one client can answer: each waits for those before it, from when it was due.
#[test]
fn transactions_at_a_rate_are_timed_from_when_they_were_due() {
    let site = or_skip!(site());
    let script = site.place.beside("sleep.sql");
    fs::write(&script, "select pg_sleep(0.1);\n").unwrap();
    let mut load = vec!["--clients", "1", "--rate", "20", "--script", script.to_str().unwrap()];
    load.extend(["--scale", "1", "--runtime", "4s", "--warmup", "1s", "-c", SMALL]);
    let report = report(&site, &load);
    let plan = &report["record"]["plan"]["steps"][0];
    assert_eq!(plan["work"]["app"]["rate"], 20, "{plan}");
    let stream = &report["summary"]["steps"][0]["streams"][0];
    assert!(int(&stream["ios"]) <= 41, "one client answers ten a second: {stream}");
    assert!(float(&stream["lat_max_ns"]) > 1e9, "the last waited for half of all that came: {stream}");
    site.assert_clean();
}

#[test]
fn nobody_else_can_reach_the_server_and_sigint_ends_it() {
    let site = or_skip!(site());
    let mut life = Life::begin(site, &[]);
    assert_eq!(listening(life.server), Vec::<String>::new(), "no address of a network");
    let sockets = life.site.aside().unwrap();
    let dirs = common::names(sockets.parent().unwrap());
    let private = dirs.iter().map(|name| sockets.parent().unwrap().join(name).join("s")).find(|dir| dir.is_dir());
    assert_eq!(fs::metadata(private.unwrap()).unwrap().permissions().mode() & 0o777, 0o700);
    // Of a slow disk pgbench may not have written a block of its log yet.
    std::thread::sleep(std::time::Duration::from_secs(4));
    life.run.signal(Signal::INT);
    let (code, out, err) = life.end();
    assert_eq!(code, Some(130), "{err}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["record"]["interrupted"], true);
    for step in list(&report["record"]["steps"]) {
        assert_eq!(step["ended"], "interrupted");
        assert!(int(&find(&step["streams"], "class", "transaction")["lat"]["count"]) > 0);
    }
    life.assert_clean();
}

#[test]
fn sigterm_while_the_cluster_is_made_leaves_nothing() {
    let site = or_skip!(site());
    let mut run = Running::start(site.command(&["postgres", site.place.dir_str(), "--scale", "20", "-c", SMALL]));
    wait_until("initdb runs", || is_any("initdb", "data", &site) || is_any("postgres", "data", &site));
    run.signal(Signal::TERM);
    wait_until("it ends", || !run.is_running());
    assert_eq!(run.0.wait().unwrap().code(), Some(143));
    site.assert_clean();
}

#[test]
fn sigkill_takes_the_server_and_its_files_along() {
    let site = or_skip!(site());
    let life = Life::begin(site, &[]);
    life.run.signal(Signal::KILL);
    life.assert_clean();
}

#[test]
fn a_server_that_is_killed_is_told_and_nothing_of_it_is_left() {
    let site = or_skip!(site());
    let mut life = Life::begin(site, &[]);
    assert!(!children(life.server.as_raw_nonzero().get() as u32).is_empty(), "it has processes of its own");
    rustix::process::kill_process(life.server, Signal::KILL).unwrap();
    let (code, out, err) = life.end();
    assert_eq!(code, Some(1), "{err}");
    // Whatever was counted before is kept in the report; with nothing, there is an error alone.
    let told = out + &err;
    assert!(told.contains("the PostgreSQL server ended (signal: 9"), "{}", told.get(..4000).unwrap_or(&told));
    life.assert_clean();
}

#[test]
fn a_disk_that_runs_full_is_told_and_nothing_is_left_on_it() {
    let disk = or_skip!(Mounted::ext4("nodiscard"));
    fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let site = or_skip!(Site::at(disk.path(), &NEEDED));
    // Without segments to use again, the log needs new space all the time.
    let more = ["-c", "wal_recycle=off", "-c", "wal_init_zero=on"];
    let mut life = Life::begin(site, &more);
    let filler = disk.path().join("filler");
    let file = fs::File::create(&filler).unwrap();
    loop {
        let free = rustix::fs::statvfs(disk.path()).unwrap();
        let bytes = (free.f_bfree * free.f_frsize).saturating_sub(256 << 10).min(512 << 20);
        let end = file.metadata().unwrap().len();
        let more = bytes >= 1 << 20;
        if !more || rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), end, bytes).is_err() {
            break;
        }
    }
    let (code, out, err) = life.end();
    assert_eq!(code, Some(1), "{err}");
    let told = [out, err].map(|text| text.lines().filter(|line| !line.contains("\"intervals\"")).collect::<String>());
    assert!(told.iter().any(|text| text.contains("No space left on device")), "{told:?}");
    fs::remove_file(&filler).unwrap();
    life.assert_clean();
}

#[test]
fn a_client_alone_waits_as_long_as_a_commit_takes() {
    or_skip!(is_root().then_some(()).ok_or_else(|| "a disk that a server's user can enter needs root".to_owned()));
    let scenario = disk_with_flushes_of(20e6);
    let site = or_skip!(Site::simulated(scenario.clone(), &NEEDED));
    let load = ["--scale", "1", "--clients", "1", "--runtime", "4s", "--warmup", "1s", "-c", SMALL, "--json"];
    let commit_ns = Law::commits(&scenario.device, 8192, 10_000).quantile(0.5);
    let mut seen = Vec::new();
    for _ in 0..3 {
        let mut command = site.real_time(&[&["postgres", site.place.dir_str()], &load[..]].concat());
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", said(&output.stderr));
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        site.assert_clean();
        let typed: qd1_model::Report = serde_json::from_value(report.clone()).unwrap();
        let step = typed.record.step("1 client").unwrap();
        let tps = step.stream(OpClass::Transaction).unwrap().lat.count() as f64 * 1e9 / step.runtime_ns as f64;
        let load = find(&report["app"]["loads"], "step", "1 client");
        let sync_ns = float(&find(&load["facts"], "name", "wal_sync_mean")["value"]);
        let p50_ns = common::quantile_ns(&typed, "1 client", OpClass::Transaction, 0.5);
        // A transaction waits for one commit; it cannot be done before its commit is.
        let [p50, rate, sync] = [p50_ns / commit_ns, tps * commit_ns / 1e9, sync_ns / 20e6];
        assert!(p50 >= 0.95 && rate < 1.1 && sync >= 0.9, "p50 {p50_ns} ns, {tps} a second, a sync of {sync_ns} ns");
        // And for the processor to work out what to commit, which on a busy machine takes a while, as a stall does.
        if p50 < 1.6 && rate >= 0.5 && sync < 1.4 {
            return;
        }
        seen.push((p50, rate, sync));
    }
    panic!("p50, rate and the server's own mean of a sync, where each should be about 1: {seen:?}");
}

#[test]
fn a_script_and_settings_of_ones_own_are_used() {
    let site = or_skip!(site());
    let script = site.place.beside("mine.sql");
    fs::write(&script, "insert into pgbench_history (tid, delta) values (1, 42);\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o600)).unwrap();
    let own = ["--clients", "2", "--script", script.to_str().unwrap(), "-c", "synchronous_commit=off"];
    let report = report(&site, &[&own, &BRIEF[..]].concat());
    let settings = &report["record"]["app"]["settings"];
    assert_eq!(find(settings, "name", "synchronous_commit")["value"], "off");
    assert_eq!(find(settings, "name", "pgbench script")["value"], "mine.sql");
    let load = find(&report["app"]["loads"], "step", "2 clients");
    let syncs = float(&find(&load["facts"], "name", "wal_syncs_per_operation")["value"]);
    assert!(syncs < 0.5, "commits that are not waited for are synced together: {syncs}");
    site.assert_clean();
}

#[test]
fn what_makes_no_sense_is_refused_before_anything_is_made() {
    let site = or_skip!(site());
    for (args, word) in [
        (["-c", "fsync"], "NAME=VALUE"),
        (["-c", "port=5433"], "leave it out"),
        (["--clients", "0"], "0 is not in"),
        (["--runtime", "10ms"], "one second"),
        (["--script", "/nonexistent.sql"], "/nonexistent.sql"),
        (["--format", "xml"], "xml"),
    ] {
        let output = run(&site, &args);
        let said = said(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {said}");
        assert!(said.contains(word), "{args:?}: {said}");
    }
    let output = run(&site, &["--scale", "1", "-c", SMALL, "-c", "no_such_setting=1"]);
    let told = said(&output.stderr);
    assert!(output.status.code() == Some(1) && told.contains("no_such_setting"), "the server's own words: {told}");
    let output = run(&site, &["--bindir", site.place.dir_str()]);
    assert_eq!(output.status.code(), Some(5), "{}", said(&output.stderr));
    assert!(said(&output.stderr).contains("apt-get install postgresql"));
    let output = run(&site, &["--dry-run", "--scale", "1", "-c", SMALL]);
    assert!(output.status.success() && said(&output.stdout).contains("100 clients"), "{}", said(&output.stdout));
    site.assert_clean();
}

/// The load had run, and all its transactions were thrown away.
#[test]
fn a_load_whose_counters_cannot_be_read_is_kept() {
    let site = or_skip!(site());
    let real = fs::canonicalize(common::apps::program("initdb").unwrap()).unwrap();
    let bin = site.place.beside("bin");
    fs::create_dir(&bin).unwrap();
    for entry in fs::read_dir(real.parent().unwrap()).unwrap().flatten() {
        std::os::unix::fs::symlink(entry.path(), bin.join(entry.file_name())).unwrap();
    }
    let flag = bin.join("pgbench-began");
    for (name, before) in [("pgbench", "case \"$*\" in *--log-prefix*)"), ("psql", "[ ! -e {} ] ||")] {
        let then =
            if name == "pgbench" { format!("env >{0}; chmod 666 {0};; esac", flag.display()) } else { "exit 3".into() };
        let before = before.replace("{}", flag.to_str().unwrap());
        let script = format!("#!/bin/sh\n{before} {then}\nexec {} \"$@\"\n", real.with_file_name(name).display());
        let aside = site.place.beside("script");
        fs::write(&aside, script).unwrap();
        fs::remove_file(bin.join(name)).unwrap();
        tool("install", &["-m", "755", aside.to_str().unwrap(), bin.join(name).to_str().unwrap()]).unwrap();
    }
    fs::set_permissions(&bin, std::os::unix::fs::PermissionsExt::from_mode(0o777)).unwrap();
    let output = run(&site, &[&BRIEF[..], &["--clients", "1", "--json", "--bindir", bin.to_str().unwrap()]].concat());
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let step = &report["record"]["steps"][0];
    assert!(int(&step["streams"][0]["lat"]["count"]) > 0, "{report}");
    let counted: Vec<&Value> = list(&step["app"]["counters"]).iter().map(|counter| &counter["name"]).collect();
    assert_eq!(counted, ["operations"], "of the server's there are none");
    let given = fs::read_to_string(&flag).unwrap();
    assert!(given.contains("PATH=") && !(is_root() && given.contains("QD1_STORE=")), "another user's program: {given}");
    site.assert_clean();
}

#[test]
fn postgresql_runs_on_each_filesystem_and_is_a_row_of_the_table() {
    let test = test_name!();
    or_skip!(can(&["mkfs.ext4"]));
    let (dir, place) = quiet();
    fs::set_permissions(dir.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let free = rustix::fs::statvfs(dir.path()).map_or(0, |fs| fs.f_bavail * fs.f_frsize);
    if free < 5 << 30 {
        return skip(test, "too little space for a server");
    }
    let args = ["--only", "ext4", "--rounds", "1", "--steps", "read", "--postgres", "--scale", "1", "--size", "16MiB"];
    let rest = ["--disk", "1800MiB", "--runtime", "2s", "--quick", "--quiet", "--in-memory", "--json"];
    let output = place.real_time(&[&["filesystems", place.dir_str()], &args[..], &rest].concat()).output().unwrap();
    if output.status.code() == Some(5) {
        return skip(test, String::from_utf8_lossy(&output.stderr).trim());
    }
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(output.status.success(), "{} {}", said(&output.stderr), report["findings"]);
    let steps: Vec<&str> = list(&report["record"]["steps"]).iter().filter_map(|step| step["name"].as_str()).collect();
    assert_eq!(steps, ["ext4/r1/read", "ext4/r1/10 clients", "ext4/r1/100 clients"]);
    let rows = list(&report["filesystems"]["rows"]);
    assert!(rows.iter().any(|row| row["op"] == "transaction" && row["leads"] == true && row["step"] == "100 clients"));
    let one = find(&report["filesystems"]["filesystems"], "name", "ext4");
    assert!(one["app"]["version"].as_str().is_some_and(|version| !version.is_empty()), "{one}");
    assert_nothing_left(&place);
}

#[test]
fn a_closed_directory_and_a_closed_binary_are_no_obstacle() {
    let site = or_skip!(Site::new(&NEEDED));
    // As in root's home, with a umask that keeps everybody out.
    let binary = site.place.beside("qd1");
    // Not by this process: a program that another test starts meanwhile would hold it open for writing.
    tool("cp", &[common::qd1(), binary.to_str().unwrap()]).unwrap();
    for path in [&binary, binary.parent().unwrap()] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    }
    let mut command = std::process::Command::new(&binary);
    site.place.environment(&mut command).args(["app", "postgres", site.place.dir_str(), "--json"]).args(BRIEF);
    let output = command.args(["--clients", "1"]).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(int(&find(&step(&report, "1 client")["streams"], "class", "transaction")["lat"]["count"]) > 0);
    site.assert_clean();
}
