//! The whole binary on disks whose truth is known: a FUSE filesystem of our own with a given law of latencies and given
//! faults. Figures hold the truth, and what fails is told and never counted as done.

use std::fs;

use qd1_engine::sim::{Device, State};
use qd1_engine::{Op, OpKind};
use qd1_lab::{Loop, Mount};
use qd1_model::OpClass;
use qd1_simdisk::Scenario;
use qd1_simdisk::truth::Law;
use rustix::process::Signal;
use serde_json::Value;

use crate::common::apps::disk_with_flushes_of;
use crate::common::disk::Disk;
use crate::common::{
    Running, find, int, intervals, list, names, or_skip, quantile_ns, said, skip, step, test_name, wait_until,
};

fn ids(report: &Value) -> Vec<&str> {
    list(&report["findings"]).iter().map(|finding| finding["id"].as_str().unwrap()).collect()
}

/// Runs in which other programs kept the processors busy are repeated so often.
const TRIES: u32 = 4;

/// Whether the report itself warns that its steps waited for processors: what it does not find proves nothing then.
fn is_disturbed(report: &Value) -> bool {
    ids(report).iter().any(|id| id.starts_with("cpu_spoiled"))
}

/// Whether one of several runs finds what the scenario expects; none may find what it rules out. False where the
/// machine was too busy in all of them. A stall that no report tells of is not in each of them either.
#[track_caller]
fn is_as_expected(scenario: &Scenario, run: impl Fn() -> Value) -> bool {
    let mut lacking = Vec::new();
    for _ in 0..TRIES {
        let report = run();
        let found = ids(&report);
        for unwanted in &scenario.no_findings {
            assert!(!found.iter().any(|id| id.starts_with(unwanted)), "{}: {unwanted} is in {found:?}", scenario.about);
        }
        let missing = scenario.findings.iter().find(|wanted| !found.iter().any(|id| id.starts_with(*wanted)));
        let Some(missing) = missing else { return true };
        lacking.push((missing, is_disturbed(&report)));
    }
    let is_excused = lacking.iter().all(|(_, is_disturbed)| *is_disturbed);
    assert!(is_excused, "{}: missing, and whether the run was disturbed: {lacking:?}", scenario.about);
    false
}

#[test]
fn each_scenario_comes_to_what_it_expects() {
    let (mut looked_at, mut undecided) = (0, Vec::new());
    for name in Scenario::names().unwrap() {
        let scenario = Scenario::named(&name).unwrap();
        if scenario.check.is_empty() {
            continue;
        }
        let disk = or_skip!(Disk::new(scenario));
        let args: Vec<&str> = disk.scenario.check.iter().map(String::as_str).collect();
        let check = || disk.check(&[&["--json"], &args[..]].concat());
        match &disk.scenario.error {
            None => {
                let run = || -> Value { serde_json::from_slice(&check().stdout).expect(&name) };
                if !is_as_expected(&disk.scenario, run) {
                    undecided.push(name);
                }
            }
            Some(error) => {
                let output = check();
                assert_eq!(output.status.code(), Some(1), "{name}");
                assert!(said(&output.stderr).contains(error), "{name}: {}", said(&output.stderr));
            }
        }
        looked_at += 1;
    }
    assert!(looked_at >= 8);
    if !undecided.is_empty() {
        let why = format!("other programs kept the processors busy in {TRIES} runs on {}", undecided.join(", "));
        skip(test_name!(), &why);
    }
}

#[test]
fn errors_and_short_transfers_are_never_counted_as_done() {
    let mut seen = Vec::new();
    // In a stall of the machine there may be too few requests for each of the faults, and for a share.
    for _ in 0..3 {
        let disk = or_skip!(Disk::named("failing"));
        let args = ["--json", "--size", "32MiB", "--runtime", "2s", "--only", "qd1", "--fail-on", "fail"];
        let output = disk.check(&args);
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        let qd1 = step(&report, "qd1");
        let of = |part: &Value, key: &str, wanted: &str| -> Option<Value> {
            list(part).iter().find(|item| item[key] == wanted).cloned()
        };
        let error = |name: &str| of(&qd1["errors"], "error", name).map_or(0, |error| int(&error["count"]));
        let (eio, short) = (error("EIO"), error("short"));
        let failed = output.status.code() == Some(1);
        assert!(failed || eio + short == 0, "one failed request fails the run: {}", said(&output.stderr));
        let served = disk.mounted.served();
        // All are told, those of the ramp as well, since one failing request is one too many.
        assert!(eio <= served.faults[0] && short <= served.faults[1], "{qd1} {served:?}");
        let counted: u64 = list(&qd1["streams"]).iter().map(|stream| int(&stream["lat"]["count"])).sum();
        let good = served.reads + served.writes - served.faults[0] - served.faults[1];
        assert!(counted <= good, "{counted} counted, {good} went well; {}", qd1["device"]);
        let read = of(&qd1["streams"], "class", "read").map_or(0, |stream| int(&stream["lat"]["count"]));
        // One in fifty reads fails.
        if short > 0 && (0.01..0.04).contains(&(eio as f64 / (read + eio) as f64)) {
            return;
        }
        seen.push((eio, read, short));
    }
    panic!("reads that failed, those that did not, short writes: {seen:?}");
}

#[test]
fn a_disk_that_runs_full_gives_one_error_and_is_left_empty() {
    let disk = or_skip!(Disk::named("full"));
    let output = disk.check(&["--size", "64MiB", "--runtime", "1s", "--only", "qd1"]);
    let stderr = said(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    assert_eq!(stderr.matches("ENOSPC").count(), 1, "{stderr}");
    assert_eq!(stderr.lines().filter(|line| line.starts_with("qd1:")).count(), 1, "{stderr}");
    assert_eq!(said(&output.stdout), "", "no figure of a disk that did not take the file");
    disk.place.assert_empty();
}

#[test]
fn sigint_during_a_hang_waits_for_the_disk_and_then_ends() {
    let disk = or_skip!(Disk::named("hanging"));
    let args =
        ["check", disk.place.dir_str(), "--size", "32MiB", "--runtime", "60s", "--only", "qd1,write32", "--json"];
    let mut run = Running::start(disk.place.real_time(&args));
    let hung = |disk: &Disk| disk.mounted.served().reads >= 8000;
    wait_until("the disk hangs", || hung(&disk));
    std::thread::sleep(std::time::Duration::from_millis(500));
    run.signal(Signal::INT);
    let report: Value = serde_json::from_reader(run.0.stdout.take().unwrap()).unwrap();
    assert_eq!(run.0.wait().unwrap().code(), Some(130));
    // The request that hangs is waited for, 4 s, and no other is begun: at most one more read was served.
    assert!(disk.mounted.served().reads <= 8003, "{:?}", disk.mounted.served());
    assert_eq!(report["record"]["interrupted"], true);
    let steps = list(&report["record"]["steps"]);
    assert_eq!((steps.len(), &steps[0]["ended"]), (1, &Value::from("interrupted")));
    let read = &find(&steps[0]["streams"], "class", "read")["lat"];
    assert!(int(&read["count"]) > 1000);
    disk.place.assert_empty();
}

#[test]
fn fio_verification_names_the_block_of_each_flipped_bit() {
    let disk = or_skip!(Disk::named("bit-flips"));
    let job = [
        "fio",
        "--name=v",
        "--filename=data",
        "--rw=write",
        "--bs=4k",
        "--size=2M",
        "--direct=1",
        "--ioengine=psync",
        "--verify=crc32c",
        "--do_verify=1",
    ];
    let output = disk.place.command(&job).output().unwrap();
    let said = said(&output.stdout) + &said(&output.stderr);
    let flipped = disk.mounted.served().flipped;
    assert_eq!(flipped, [40_960, 123_456, 1_048_575]);
    assert!(!output.status.success(), "wrong data is no success: {said}");
    for byte in flipped {
        let block = byte / 4096 * 4096;
        assert!(said.contains(&format!("offset {block}")), "{block} is not named: {said}");
    }
}

#[test]
fn without_o_tmpfile_the_file_is_gone_however_the_run_ends() {
    let disk = or_skip!(Disk::named("network-block"));
    let unnamed = rustix::fs::open(
        disk.place.dir(),
        rustix::fs::OFlags::TMPFILE | rustix::fs::OFlags::RDWR,
        rustix::fs::Mode::RUSR,
    );
    assert_eq!(unnamed.err(), Some(rustix::io::Errno::OPNOTSUPP));
    let args = ["check", disk.place.dir_str(), "--size", "32MiB", "--runtime", "60s", "--only", "qd1", "--json"];
    let mut run = Running::start(disk.place.command(&args));
    wait_until("it reads", || disk.mounted.served().reads > 100);
    let [scratch] = &names(disk.place.dir())[..] else { panic!("{:?}", names(disk.place.dir())) };
    assert_eq!(names(&disk.place.dir().join(scratch)), [".made-by-qd1"], "the file has no name any more");
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("the helper has removed the directory", || names(disk.place.dir()).is_empty());
    wait_until("the disk got its space back", || {
        let fs = rustix::fs::statvfs(disk.place.dir()).unwrap();
        fs.f_bfree == fs.f_blocks
    });
}

#[test]
fn a_limit_of_the_disk_is_measured_as_it_is() {
    let mut rates = Vec::new();
    // A stall of the machine loses what the limit would have let through meanwhile: then the best second counts. A
    // little more than the limit may come in a second, whose requests wait from the one before.
    for _ in 0..4 {
        let disk = or_skip!(Disk::named("limited"));
        let report = disk.report(&["--size", "32MiB", "--runtime", "3s", "--only", "read32"]);
        let read32 = step(&report, "read32");
        let count = int(&find(&read32["streams"], "class", "read")["lat"]["count"]);
        let whole = count as f64 * 1e9 / int(&read32["runtime_ns"]) as f64;
        assert!(whole < 500.0 * 1.03, "{whole} reads a second of 500");
        let rate = best_second(&intervals(read32));
        rates.push(rate);
        if rate > 500.0 * 0.96 {
            return;
        }
    }
    panic!("reads a second of 500: {rates:?}");
}

/// The highest rate of reads, a second, over a second of intervals.
fn best_second(intervals: &[Value]) -> f64 {
    let mut best = 0.0_f64;
    for first in 0..intervals.len() {
        let (mut ios, mut ns) = (0, 0);
        for interval in &intervals[first..] {
            ios += list(&interval["streams"]).iter().map(|stream| int(&stream["ios"])).sum::<u64>();
            ns += int(&interval["length_ns"]);
            if ns >= 1_000_000_000 {
                best = best.max(ios as f64 * 1e9 / ns as f64);
                break;
            }
        }
    }
    best
}

#[test]
fn a_step_without_space_is_reported_and_the_others_are_kept() {
    // Room for the shared file of 32 MiB, and not for the log segment of 16 MiB beside it.
    let scenario = Scenario { enospc_after: Some(40 << 20), ..Scenario::named("full").unwrap() };
    let disk = or_skip!(Disk::new(scenario));
    let output = disk.check(&["--json", "--size", "32MiB", "--runtime", "1s", "--only", "qd1,commit1,read32"]);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output.stderr));
    let told = said(&output.stderr);
    assert_eq!(told.matches("FAILED").count(), 1, "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(step(&report, "commit1")["fault"].as_str().unwrap().contains("ENOSPC"), "{}", step(&report, "commit1"));
    assert!(ids(&report).contains(&"short_or_failed_io.step"), "{:?}", ids(&report));
    for name in ["qd1", "read32"] {
        // A step that lay in a stall of the machine has one request, of whichever kind.
        let streams = list(&step(&report, name)["streams"]);
        assert!(streams.iter().any(|stream| int(&stream["lat"]["count"]) > 0), "{name} has figures: {report}");
    }
    disk.place.assert_empty();
}

/// "Another directory came in its place": a directory had to belong to who made it, and here root makes nobody's.
#[test]
fn a_filesystem_that_chooses_owners_is_measured_and_left_clean() {
    let scenario = Scenario { squashed_to: Some(65_534), ..disk_with_flushes_of(300e3) };
    let disk = or_skip!(Disk::new(scenario));
    let place = &disk.place;
    place.qd1(&["check", ".", "--size", "32MiB", "--runtime", "200ms", "--only", "qd1,files"]).assert().success();
    place.qd1(&["meta", ".", "--files", "100"]).assert().success();
    place.assert_empty();
    let mut run = Running::start(place.command(&["meta", ".", "--files", "100k", "--file-size", "0"]));
    wait_until("it has a directory", || names(place.dir()).iter().any(|name| name.starts_with(".qd1-scratch-")));
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("what the killed run made is removed", || names(place.dir()).is_empty());
}

/// A loop device on a file of a simulated disk, with ext4 on it: what the kernel counts on the loop device can be held
/// against what the disk below really got.
struct Stacked {
    // Dropped first.
    mount: Mount,
    _loop: Loop,
}

impl Stacked {
    fn new(disk: &Disk, options: &str) -> Result<Self, String> {
        let file = disk.place.dir().join("disk.img");
        fs::File::create(&file).unwrap().set_len(128 << 20).unwrap();
        let above = Loop::attach(&file, &[])?;
        above.make_filesystem("ext4")?;
        let mount = Mount::new(&["-o", options, above.path()])?;
        Ok(Self { mount, _loop: above })
    }
}

/// Commits of a job on an ext4 with these options, and the flushes that the disk below it got meanwhile.
fn commits_and_flushes(options: &str) -> Result<(u64, u64), String> {
    let disk = Disk::named("honest-cache")?;
    let stacked = Stacked::new(&disk, options)?;
    // Written and flushed beforehand: a commit on new blocks would flush for the journal's sake as well.
    fs::write(stacked.mount.path().join("data"), vec![0x5A; 1 << 20]).unwrap();
    rustix::fs::syncfs(fs::File::open(stacked.mount.path()).unwrap()).unwrap();
    let before = disk.mounted.served().flushes;
    let job = [
        "fio",
        "--name=c",
        "--filename=data",
        "--rw=write",
        "--bs=4k",
        "--size=1M",
        "--fdatasync=1",
        "--overwrite=1",
        "--ioengine=psync",
        "--output-format=json",
    ];
    let mut command = disk.place.command(&job);
    let output = command.current_dir(stacked.mount.path()).output().unwrap();
    assert!(output.status.success(), "{}", said(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let commits = int(&report["jobs"][0]["sync"]["lat_ns"]["N"]);
    assert!(commits >= 255, "one sync behind each write but the last, as fio has it: {commits}");
    Ok((commits, disk.mounted.served().flushes - before))
}

#[test]
fn every_commit_reaches_the_disk_as_a_flush_with_barriers_only() {
    let (commits, flushes) = or_skip!(commits_and_flushes("nodiscard"));
    assert!(flushes >= commits, "{flushes} flushes for {commits} commits");
    let (commits, flushes) = or_skip!(commits_and_flushes("nodiscard,barrier=0"));
    assert!(flushes < commits / 10, "{flushes} flushes for {commits} commits");
}

#[test]
fn a_cache_that_ignores_flushes_shows_in_the_commits() {
    // What is stated, the law's own, and how far off a mount may be whose way was measured on a busy machine: no more
    // than was taken off.
    let p50 = |name: &str| -> Result<(f64, f64, f64), String> {
        let disk = Disk::named(name)?;
        let report = disk.report(&["--size", "32MiB", "--runtime", "2s", "--only", "commit1"]);
        // Whether a flush was obeyed cannot be seen from inside, and on FUSE no counter tells of one: nothing is
        // claimed.
        assert!(!ids(&report).iter().any(|id| id.starts_with("flush_ignored")), "{:?}", ids(&report));
        let report: qd1_model::Report = serde_json::from_value(report).unwrap();
        let stated = quantile_ns(&report, "commit1", OpClass::Commit, 0.5);
        let way = disk.mounted.overhead();
        let law = Law::commits(&disk.scenario.device, 4096, 20_000).quantile(0.5);
        Ok((stated, law, (way.write_ns + way.flush_ns) as f64))
    };
    // A busy machine adds to what is stated, but not in each of three runs.
    let mut seen = Vec::new();
    for _ in 0..3 {
        let (lying, lying_truth, way) = or_skip!(p50("lying-cache"));
        let (honest, honest_truth, _) = or_skip!(p50("honest-cache"));
        let is_true =
            (lying - lying_truth).abs() < 0.1 * lying_truth + way && (honest / honest_truth - 1.0).abs() < 0.1;
        if is_true && lying < honest / 5.0 {
            return;
        }
        seen.push(format!(
            "lying {lying} ns, truth {lying_truth}, way {way}; honest {honest} ns, truth {honest_truth}"
        ));
    }
    panic!("{}", seen.join("\n"));
}

/// Commits of 4 KiB one after the other while `rate` blocks of 256 KiB a second are written: p99 by the law, ns.
fn p99_under_load(device: &Device, rate: f64) -> f64 {
    let mut state = State::new(device.clone());
    let op = |kind, len| Op { kind, file: 0, len, offset: 0 };
    let (mut now_ns, mut block_ns, mut commits) = (0.0, 0.0, Vec::new());
    while commits.len() < 20_000 {
        let begin_ns = now_ns;
        for part in [op(OpKind::Write, 4096), op(OpKind::Fdatasync, 0)] {
            while block_ns <= now_ns {
                state.complete_ns(&op(OpKind::Write, 256 << 10), block_ns);
                block_ns += 1e9 / rate;
            }
            now_ns = state.complete_ns(&part, now_ns);
        }
        commits.push(now_ns - begin_ns);
    }
    commits.sort_unstable_by(f64::total_cmp);
    commits[commits.len() * 99 / 100]
}

#[test]
fn commits_that_wait_for_the_writes_of_others_are_found() {
    let disk = or_skip!(Disk::named("busy-cache"));
    let mut seen = Vec::new();
    // A stall of the machine is in the tail of one run; a wrong figure would be wrong each time.
    for _ in 0..3 {
        let report = disk.report(&["--size", "32MiB", "--runtime", "4s", "--only", "commit1", "--with-load"]);
        let is_found = ids(&report).contains(&"loaded_commits.slower");
        let report: qd1_model::Report = serde_json::from_value(report).unwrap();
        let loaded = report.summary.steps.iter().find(|step| step.name == "commit1-load").unwrap();
        let rate = loaded.background.iter().find(|load| load.class == OpClass::Write).map_or(0.1, |load| load.iops);
        let stated = quantile_ns(&report, "commit1-load", OpClass::Commit, 0.99);
        let [truth, idle] = [rate, 0.1].map(|rate| p99_under_load(&disk.scenario.device, rate));
        println!("p99 under load {:.2} ms, by the law {:.2} ms", stated / 1e6, truth / 1e6);
        // The machine adds to it; the law alone is ten times what an idle disk shows. A machine too busy to write as
        // much as the disk takes makes no such load.
        if (0.8 * truth..1.5 * truth).contains(&stated) && (is_found || truth <= 5.0 * idle) {
            return;
        }
        seen.push((stated, truth, idle, is_found));
    }
    panic!("p99 in ns, by the law, of an idle disk by the law, and whether it was found: {seen:?}");
}
