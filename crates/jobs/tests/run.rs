//! Whole runs: which thread begins when, what ends it, how much it does. No test looks at how fast anything is.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use qd1_fio::{Request, System, World, parse_args};
use qd1_jobs::log::Chunk;
use qd1_jobs::{JobError, Now, Surroundings, ThreadPlan, ThreadResult, Watcher, run};
use qd1_model::environment::ThreadCost;
use qd1_model::job::JobStat;

struct Here;

impl World for Here {
    fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }
    fn env(&self, _name: &str) -> Option<String> {
        None
    }
    fn system(&self) -> System {
        System { ncpus: 2, mb_memory: 1024, pagesize: 4096 }
    }
}

#[derive(Default)]
struct Observed {
    warnings: Vec<String>,
    statuses: Vec<Vec<JobStat>>,
    chunks: usize,
    cancel: Option<After>,
}

/// What a run is cancelled after.
enum After {
    FirstRequest,
    Statuses(usize),
}

struct RecordingWatcher<'a> {
    seen: &'a mut Observed,
    cancel: &'a AtomicBool,
}

impl Watcher for RecordingWatcher<'_> {
    fn warn(&mut self, text: &str) {
        self.seen.warnings.push(text.to_owned());
    }
    fn tick(&mut self, now: &Now<'_>) {
        let has_moved = now.threads[0].moved.iter().any(|(_, requests)| *requests > 0);
        if matches!(self.seen.cancel, Some(After::FirstRequest)) && has_moved {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
    fn logged(&mut self, _thread: &ThreadPlan, chunk: Chunk) {
        self.seen.chunks += usize::from(!chunk.is_empty());
    }
    fn status(&mut self, threads: &[(ThreadPlan, JobStat)]) {
        self.seen.statuses.push(threads.iter().map(|(_, stat)| stat.clone()).collect());
        let has_begun = threads[0].1.dirs[0].total_ios > 0;
        if matches!(self.seen.cancel, Some(After::Statuses(count)) if self.seen.statuses.len() >= count && has_begun) {
            self.cancel.store(true, Ordering::Relaxed);
        }
    }
}

fn try_run(line: &str, seen: &mut Observed, status: Option<Duration>) -> Result<Vec<ThreadResult>, JobError> {
    run_at_cost(line, seen, status, ThreadCost::default)
}

fn run_at_cost(
    line: &str,
    seen: &mut Observed,
    status: Option<Duration>,
    thread_cost: fn() -> ThreadCost,
) -> Result<Vec<ThreadResult>, JobError> {
    let args: Vec<&str> = line.split_whitespace().collect();
    let Ok(Request::Run(invocation)) = parse_args(&args, &Here) else {
        panic!("{line}: {:?}", parse_args(&args, &Here).err())
    };
    let cancel = AtomicBool::new(false);
    let around = Surroundings {
        cancel: &cancel,
        thread_cost,
        may_change: &|path| {
            let is_device = path.starts_with("/dev");
            if is_device { Err(format!("{} is mounted", path.display())) } else { Ok(()) }
        },
        removes_new_files: false,
        drawn: 7,
        status_interval: status,
    };
    run(&invocation.jobs, &around, &mut RecordingWatcher { seen, cancel: &cancel })
}

fn results(line: &str) -> Vec<ThreadResult> {
    try_run(line, &mut Observed::default(), None).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn ios(result: &ThreadResult) -> u64 {
    result.stat.dirs.iter().map(|direction| direction.total_ios).sum()
}

/// A job on the null engine that ends after 100 requests.
const SHORT: &str = "--ioengine=null --bs=4k --size=400k";

#[test]
fn a_stonewall_holds_back_all_that_come_after_it() {
    let line = format!("{SHORT} --name=a --name=b --name=c --stonewall --name=d");
    let results = results(&line);
    let before = results[0].ended_ns.max(results[1].ended_ns);
    assert!(results[2].measured_ns >= before && results[3].measured_ns >= before);
    assert_eq!(results.iter().map(|result| result.plan.group).collect::<Vec<_>>(), [0, 0, 1, 1]);
    assert!(results.iter().all(|result| ios(result) == 100));
}

#[test]
fn who_waits_for_a_job_begins_when_all_its_clones_have_ended() {
    // However busy the machine is: what is waited for ends only because the free job has ended.
    let slow = "--ioengine=null --bs=4k --size=400k --time_based --runtime=30";
    let line = format!(
        "--name=slow {slow} --numjobs=2 --name=free {SHORT} --exitall --name=after {SHORT} --wait_for=slow --new_group"
    );
    let results = results(&line);
    let slow_end = results[0].ended_ns.max(results[1].ended_ns);
    assert!(slow_end - results[0].measured_ns < 20_000_000_000, "the free job did not wait for it");
    assert!(results[3].measured_ns >= slow_end && ios(&results[3]) == 100, "the other did");
}

#[test]
fn a_thread_that_panics_fails_its_job_and_ends_the_run() {
    let line = format!("--name=a {SHORT} --name=b {SHORT} --stonewall");
    let results = run_at_cost(&line, &mut Observed::default(), None, || panic!("a bug")).unwrap();
    let faults = results.iter().map(|result| result.fault.as_ref().map(|fault| fault.text.contains("a bug in qd1")));
    assert_eq!(faults.collect::<Vec<_>>(), [Some(true), Some(true)]);
}

#[test]
fn a_start_delay_is_kept() {
    // Counted from before the run: a busy machine may start the first job late, but none too early.
    let begin_ns = qd1_clock::now_ns();
    let results = results(&format!("--name=a {SHORT} --name=b {SHORT} --startdelay=200ms"));
    assert!(results[1].measured_ns >= begin_ns + 200_000_000);
}

#[test]
fn exitall_ends_the_others_of_the_group() {
    let timed = "--ioengine=null --bs=4k --size=400k --time_based";
    let line =
        format!("--name=a {SHORT} --exitall --name=b {timed} --runtime=30 --name=c {timed} --runtime=1 --new_group");
    let results = results(&line);
    let spent_ns = |job: usize| results[job].ended_ns - results[job].measured_ns;
    assert!(spent_ns(1) < 10_000_000_000, "it was ended early");
    assert_eq!(results[2].plan.group, 1);
    assert!(spent_ns(2) >= 1_000_000_000, "the other group's was not");
}

#[test]
fn a_job_does_as_much_as_loops_io_size_and_number_ios_say() {
    for (options, wanted) in [
        ("", 100),
        ("--loops=3", 300),
        ("--io_size=1200k", 300),
        ("--io_size=40k", 10),
        // Observed with fio 3.33: loops go over the files, and io_size is what each may do.
        ("--io_size=800k --loops=3", 300),
        ("--io_size=160k --loops=3", 120),
        ("--number_ios=7", 7),
        ("--io_size=1200k --number_ios=150", 150),
        ("--rw=randread --loops=2", 200),
        ("--rw=randread --norandommap", 100),
        ("--rw=randrw --iodepth=8", 100),
        ("--iodepth=16 --iodepth_batch=4 --iodepth_low=4 --iodepth_batch_complete_min=2", 100),
    ] {
        let results = results(&format!("--name=a {SHORT} {options}"));
        assert_eq!(ios(&results[0]), wanted, "{options}");
    }
}

#[test]
fn what_happened_in_the_ramp_is_not_counted_and_time_is_kept() {
    let line = "--name=a --ioengine=null --bs=4k --size=400k --time_based --runtime=300ms --ramp_time=300ms \
                --rate_iops=1000";
    // A machine that stalls as the ramp ends sees that late and has fewer requests; none has more, or ends earlier.
    let mut seen = Vec::new();
    let is_whole = |seen: &mut Vec<_>| {
        let begin_ns = qd1_clock::now_ns();
        let results = results(line);
        let whole_ms = (qd1_clock::now_ns() - begin_ns) / 1_000_000;
        let total = ios(&results[0]);
        assert!(total <= 350, "{total} of 1000 a second for 300 ms");
        assert!(whole_ms >= 600, "{whole_ms} ms for the ramp and what follows it");
        let spent_ms = (results[0].ended_ns - results[0].measured_ns) / 1_000_000;
        seen.push((total, spent_ms));
        total >= 250 && (150..2000).contains(&spent_ms)
    };
    assert!((0..4).any(|_| is_whole(&mut seen)), "requests and ms in four runs: {seen:?}");
}

#[test]
fn a_sync_follows_each_nth_write_and_its_commit_holds_the_write() {
    let dir = tempfile::tempdir().unwrap();
    let line = format!("--name=a --directory={} --rw=write --bs=4k --size=80k --fsync=4", dir.path().display());
    let results = results(&line);
    let sync = &results[0].stat.sync;
    assert_eq!(
        (sync.total_ios, sync.fsyncs, sync.commit.moments.n),
        (4, 4, 4),
        "none follows the last write, as in fio"
    );
    assert!(sync.commit.moments.min > sync.lat.moments.min);
    assert!(sync.commit.moments.mean > sync.lat.moments.mean);
}

#[test]
fn an_error_ends_the_job_unless_it_is_to_be_ignored() {
    let line = "--name=a --filename=/dev/full --rw=write --bs=4k --size=40k --ioengine=psync";
    let failed = results(line);
    let fault = failed[0].fault.as_ref().expect("/dev/full takes nothing");
    assert_eq!(fault.errno, 28);
    assert!(fault.text.contains("ENOSPC") && fault.text.contains("/dev/full"), "{fault}");
    let ignored = results(&format!("{line} --ignore_error=,ENOSPC"));
    assert!(ignored[0].fault.is_none());
    assert_eq!(ignored[0].errors[0].count, 10);
}

#[test]
fn limits_that_are_not_kept_fail_the_job() {
    let slow = results(
        "--name=a --ioengine=null --bs=4k --size=1g --rate_iops=100 --rate_iops_min=50 --rate_cycle=100 \
                        --thinktime=500ms",
    );
    assert!(slow[0].fault.as_ref().is_some_and(|fault| fault.text.contains("not met")), "{:?}", slow[0].fault);
    let dir = tempfile::tempdir().unwrap();
    let line = format!("--name=a --directory={} --rw=read --bs=256k --size=1m --max_latency=1us", dir.path().display());
    assert!(results(&line)[0].fault.as_ref().is_some_and(|fault| fault.text.contains("max_latency")));
}

#[test]
fn the_state_so_far_is_given_whole_while_jobs_run() {
    let mut seen = Observed { cancel: Some(After::Statuses(3)), ..Observed::default() };
    let line = "--name=a --ioengine=null --bs=4k --size=400k --time_based --runtime=60s --rate_iops=2000 --numjobs=2 \
                --write_lat_log=x";
    let results = try_run(line, &mut seen, Some(Duration::from_millis(100))).unwrap();
    assert!(seen.statuses.len() >= 3, "{}", seen.statuses.len());
    let counts: Vec<u64> = seen.statuses.iter().map(|stats| stats[0].dirs[0].total_ios).collect();
    let last = *counts.last().unwrap();
    assert!(counts.is_sorted() && last > 0 && last <= ios(&results[0]), "{counts:?}");
    assert!(seen.chunks > 0, "logs are handed over");
}

#[test]
fn a_cancelled_run_ends_in_order_and_keeps_what_it_measured() {
    let mut seen = Observed { cancel: Some(After::FirstRequest), ..Observed::default() };
    let line = "--ioengine=null --bs=4k --size=400k --time_based --runtime=60 --name=a --name=b --stonewall";
    let results = try_run(line, &mut seen, None).unwrap();
    assert!(ios(&results[0]) > 0 && results[0].fault.is_none());
    assert_eq!((ios(&results[1]), results[1].measured_ns), (0, 0), "the second one never began");
}

#[test]
fn files_are_left_unless_they_are_to_be_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let base = format!("--name=a --directory={} --rw=write --bs=4k --size=64k --nrfiles=4", dir.path().display());
    results(&base);
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 4);
    results(&format!("{base} --unlink=1 --loops=2 --unlink_each_loop=1"));
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn what_cannot_run_is_refused_before_anything_is_made() {
    let dir = tempfile::tempdir().unwrap();
    let at = dir.path().display();
    for (line, wanted) in [
        (format!("--name=a --directory={at}/none --size=1m"), "does not exist; create it first"),
        (format!("--name=a --directory={at} --filename=x"), "give size="),
        (format!("--name=a --filename={at} --size=1m"), "is a directory"),
        (format!("--name=a --directory={at} --size=1m --allow_file_create=0"), "allow_file_create=0"),
        (format!("--name=a --directory={at} --size=1m --rw=write --bs=32 --verify=crc32c"), "give a larger bs"),
        (format!("--name=a --directory={at} --size=1000t"), "MiB free"),
    ] {
        let error = try_run(&line, &mut Observed::default(), None).expect_err(&line);
        assert!(error.text.contains(wanted), "{line}: {error}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn lost_and_torn_blocks_are_found_and_trimmed_ones_are_zero() {
    let dir = tempfile::tempdir().unwrap();
    let base = format!("--name=a --directory={} --bs=4k --size=1m --verify=crc32c", dir.path().display());
    let mut options =
        vec!["--rw=randwrite", "--rw=randwrite --verify_backlog=16", "--rw=write --iodepth=4 --ioengine=libaio"];
    options.extend(["--rw=randwrite --norandommap --loops=2", "--rw=randwrite --trim_percentage=30 --trim_backlog=8"]);
    for options in options {
        let results = results(&format!("{base} {options}"));
        assert!(results[0].fault.is_none(), "{options}: {:?}", results[0].fault);
        let [reads, writes, _] = &results[0].stat.dirs;
        assert!(writes.total_ios > 0 && reads.total_ios > 0, "{options}: written and read back");
    }
    results(&format!("{base} --rw=randwrite --do_verify=0"));
    let path = dir.path().join("a.0.0");
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[5 * 4096 + 100] ^= 1;
    bytes[9 * 4096] ^= 0x80;
    std::fs::write(&path, bytes).unwrap();
    let mut seen = Observed::default();
    let results = try_run(&format!("{base} --rw=read"), &mut seen, None).unwrap();
    let fault = results[0].fault.as_ref().expect("two blocks are wrong");
    assert_eq!((fault.errno, results[0].errors[0].count), (84, 2));
    let message = format!("{} {:?}", fault.text, seen.warnings);
    assert!(message.contains("offset 20480") && message.contains("offset 36864"), "{message}");
}

#[test]
fn a_file_with_holes_is_reported_before_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.0.0");
    std::fs::File::create(&path).unwrap().set_len(1 << 20).unwrap();
    let tells = qd1_engine::backing::Target::existing(&path).extents(1 << 20).is_some();
    let mut seen = Observed::default();
    try_run(&format!("--name=a --directory={} --size=1m", dir.path().display()), &mut seen, None).unwrap();
    assert_eq!(seen.warnings.iter().any(|text| text.contains("never written")), tells);
}

#[test]
fn engines_on_names_make_find_and_delete_each_file_once() {
    let dir = tempfile::tempdir().unwrap();
    for engine in ["filecreate", "filestat", "filedelete"] {
        let at = dir.path().display();
        let line = format!("--name=a --directory={at} --ioengine={engine} --nrfiles=20 --filesize=4k --bs=4k");
        let results = results(&line);
        assert_eq!((ios(&results[0]), results[0].fault.is_none()), (20, true), "{engine}: {:?}", results[0].fault);
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "the last engine deleted them");
}
