//! `qd1 trace --op sync`: where the time of slow syncs went, and who else used the disk, on disks where both are known.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use qd1_engine::sim::{Device, Service};
use qd1_simdisk::Scenario;
use serde_json::Value;

use crate::biolatency::Biolatency;
use crate::common::apps::disk_with_flushes_of;
use crate::common::disk::Disk;
use crate::common::{in_group, msyncs, or_skip, traced};
use qd1_lab::{Loop, Mounted, Throttle, tool};

/// An ext4 filesystem on a loop device. Fields are dropped in this order.
pub(crate) struct Ext4 {
    pub(crate) mounted: Mounted,
    _disk: Option<Disk>,
}

impl Ext4 {
    /// On a file of a simulated disk, with direct I/O.
    pub(crate) fn simulated(scenario: Scenario) -> Result<Self, String> {
        let disk = Disk::new(scenario)?;
        let file = disk.place.dir().join("image");
        File::create(&file).unwrap().set_len(512 << 20).unwrap();
        let device = Loop::direct(&file)?;
        device.make_filesystem("ext4")?;
        Ok(Self { mounted: Mounted::new(device, "defaults")?, _disk: Some(disk) })
    }

    /// In memory.
    pub(crate) fn quick() -> Result<Self, String> {
        Ok(Self { mounted: Mounted::new(Loop::ext4(512 << 20)?, "defaults")?, _disk: None })
    }

    pub(crate) fn path(&self) -> &Path {
        self.mounted.path()
    }

    /// A copy of dd under another name.
    fn dd_as_neighbour(&self) -> PathBuf {
        let program = self.path().join("neighbour");
        fs::copy("/bin/dd", &program).unwrap();
        tool("sync", &["--file-system", self.path().to_str().unwrap()]).unwrap();
        program
    }

    /// Writes to the filesystem until it is finished or dropped.
    fn neighbour(&self, args: &[&str]) -> Neighbour {
        let program = self.dd_as_neighbour();
        let to = format!("of={}", self.path().join("theirs").display());
        let args = [&["if=/dev/zero", "status=none", &to], args].concat();
        Neighbour(Command::new(&program).args(args).spawn().unwrap())
    }

    /// The slow syncs among `count` synced writes of 4 KiB by dd.
    fn slow_syncs(&self, count: u64) -> Vec<Value> {
        self.syncs(|| dsync(self.path(), count, Command::new("dd")))
    }

    fn syncs(&self, work: impl FnOnce()) -> Vec<Value> {
        self.syncs_of("dd", work)
    }

    fn syncs_of(&self, comm: &str, work: impl FnOnce()) -> Vec<Value> {
        let objects = traced(self.mounted.disk.path(), &["--op", "sync", "--comm", comm, "--min-lat", "5ms"], work);
        objects.into_iter().filter(|object| object["type"] == "sync").collect()
    }
}

struct Neighbour(Child);

impl Drop for Neighbour {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn dsync(dir: &Path, count: u64, mut dd: Command) {
    let file: PathBuf = dir.join("ours");
    dd.args(["if=/dev/zero", "bs=4k", "oflag=dsync", "status=none", "conv=notrunc"]);
    assert!(dd.arg(format!("of={}", file.display())).arg(format!("count={count}")).status().unwrap().success());
}

/// Only the syncs that are slow because of a limit, not because of the load of other tests.
fn slow(syncs: Vec<Value>) -> Vec<Value> {
    slow_at(syncs, 20_000_000)
}

fn slow_at(syncs: Vec<Value>, ns: u64) -> Vec<Value> {
    syncs.into_iter().filter(|sync| sync["took_ns"].as_u64().unwrap() > ns).collect()
}

/// The share of these parts in a sync's time.
fn share(sync: &Value, parts: &[&str]) -> f64 {
    let ns: u64 = parts.iter().map(|part| sync["parts"][format!("{part}_ns")].as_u64().unwrap()).sum();
    ns as f64 / sync["took_ns"].as_u64().unwrap() as f64
}

/// In at least nine of ten syncs, most of the time is in these parts. Not in all of them: the kernel does not report each
/// request.
#[track_caller]
fn assert_mostly(syncs: &[Value], at_least: usize, parts: &[&str]) {
    assert!(syncs.len() >= at_least, "only {} of {at_least} syncs are slow", syncs.len());
    for sync in syncs {
        let all: u64 = sync["parts"].as_object().unwrap().values().map(|ns| ns.as_u64().unwrap()).sum();
        assert_eq!(all, sync["took_ns"].as_u64().unwrap(), "the parts should add up to the whole: {sync}");
    }
    let mut shares: Vec<f64> = syncs.iter().map(|sync| share(sync, parts)).collect();
    shares.sort_by(f64::total_cmp);
    println!("{parts:?} of {} syncs: least {:.3}, median {:.3}", shares.len(), shares[0], shares[shares.len() / 2]);
    let right = shares.iter().filter(|share| **share >= 0.6).count();
    assert!(right * 10 >= syncs.len() * 9, "{right} of {}: {syncs:#?}", syncs.len());
}

/// At least nine of ten syncs name the neighbour.
#[track_caller]
fn assert_named(syncs: &[Value], at_least: usize, did: &str) {
    assert!(syncs.len() >= at_least, "only {} of {at_least} syncs are slow", syncs.len());
    let names = |sync: &Value| {
        let others = sync["others"].as_array().unwrap();
        others.iter().any(|other| other["comm"] == "neighbour" && other[did].as_u64().unwrap() > 0)
    };
    let named = syncs.iter().filter(|sync| names(sync)).count();
    println!("{named} of {} syncs name the neighbour", syncs.len());
    assert!(named * 10 >= syncs.len() * 9, "{named} of {}: {syncs:#?}", syncs.len());
}

#[test]
fn a_slow_flush_is_a_flush() {
    let disk = or_skip!(Ext4::simulated(disk_with_flushes_of(20e6)));
    assert_mostly(&disk.slow_syncs(20), 18, &["flush"]);
}

#[test]
fn slow_writes_are_data_or_journal() {
    let mut scenario = disk_with_flushes_of(100e3);
    scenario.device.write = Service::log_normal(20e6, 0.1);
    let disk = or_skip!(Ext4::simulated(scenario));
    assert_mostly(&disk.slow_syncs(20), 18, &["data", "journal"]);
}

#[test]
fn the_wait_for_a_control_groups_limit_is_shown_as_throttle() {
    let disk = or_skip!(Ext4::quick());
    let group = or_skip!(Throttle::new("trace", &disk.mounted.disk, &[("write_iops", 50)]));
    let biolatency = Biolatency::begin(&disk.mounted.disk);
    let syncs = slow(disk.syncs(|| dsync(disk.path(), 100, in_group(&group, "dd", &[]))));
    assert_mostly(&syncs, 8, &["throttle"]);
    // The tool people reach for first does not see these waits: they are over before a request is made.
    match biolatency.map(Biolatency::end) {
        Err(reason) => println!("without biolatency: {reason}"),
        Ok(buckets) => {
            let count = |from_us: u64| -> u64 {
                buckets.iter().filter(|(low_us, _)| *low_us >= from_us).map(|(_, count)| count).sum()
            };
            println!("biolatency: {buckets:?}; {} syncs took 20 ms or longer", syncs.len());
            assert!(count(0) >= syncs.len() as u64, "it counted fewer requests than there were syncs: {buckets:?}");
            assert!(count(8_192) * 2 <= count(0), "requests themselves were slow: {buckets:?}");
        }
    }
}

/// Regression: another thread ends a call of io_uring, and the wait was unknown.
#[test]
fn the_wait_for_a_limit_is_throttle_for_syncs_through_io_uring() {
    or_skip!(io_uring_is_seen());
    let disk = or_skip!(Ext4::quick());
    let group = or_skip!(Throttle::new("trace-ring", &disk.mounted.disk, &[("write_iops", 20)]));
    let syncs = disk.syncs_of("fio", || {
        let job = ["--rw=write", "--ioengine=io_uring", "--fsync=1", "--number_ios=40"];
        fio(disk.path(), in_group(&group, "timeout", &[]), &job);
    });
    assert_mostly(&slow(syncs), 8, &["throttle"]);
}

/// Regression: a limit that holds back writes which were begun before the sync, and are not marked as waited for.
#[test]
fn the_wait_for_a_limit_on_earlier_writes_is_throttle() {
    let disk = or_skip!(Ext4::quick());
    let group = or_skip!(Throttle::new("trace-early", &disk.mounted.disk, &[("write_iops", 20)]));
    let syncs = disk.syncs_of("fio", || {
        let early = ["--sync_file_range=write:4", "--fdatasync=16", "--number_ios=96", "--overwrite=1"];
        fio(
            disk.path(),
            in_group(&group, "timeout", &[]),
            &[&["--rw=randwrite", "--ioengine=psync"][..], &early].concat(),
        );
    });
    assert_mostly(&slow(syncs), 4, &["throttle"]);
}

/// Regression: a neighbour's flushes interrupted the wait, and nine tenths of it were shown as unknown.
#[test]
fn the_wait_for_a_limit_is_throttle_even_if_a_neighbour_syncs() {
    let disk = or_skip!(Ext4::quick());
    let group = or_skip!(Throttle::new("trace-two", &disk.mounted.disk, &[("write_iops", 20)]));
    let script = "while :; do \"$1\" if=/dev/zero of=\"$2\" bs=4k count=1 conv=fsync status=none; sleep 0.02; done";
    let (program, file) = (disk.dd_as_neighbour(), disk.path().join("theirs"));
    let neighbour = Neighbour(Command::new("sh").args(["-c", script, "sh"]).args([program, file]).spawn().unwrap());
    let syncs = disk.syncs(|| dsync(disk.path(), 40, in_group(&group, "dd", &[])));
    drop(neighbour);
    assert_mostly(&slow(syncs), 5, &["throttle"]);
}

#[test]
fn each_call_that_syncs_is_shown() {
    let disk = or_skip!(Ext4::quick());
    let device = disk.mounted.disk.path();
    let pid = std::process::id().to_string();
    let objects = traced(device, &["--op", "sync", "--pid", &pid], || {
        let path = disk.path().join("file");
        let file = File::create(&path).unwrap();
        rustix::fs::fsync(&file).unwrap();
        rustix::fs::fdatasync(&file).unwrap();
        rustix::fs::syncfs(&file).unwrap();
        let slices = [std::io::IoSlice::new(b"durable")];
        rustix::io::pwritev2(&file, &slices, 0, rustix::io::ReadWriteFlags::DSYNC).unwrap();
        // Without the flag, the write is not a sync.
        rustix::io::pwritev2(&file, &slices, 0, rustix::io::ReadWriteFlags::empty()).unwrap();
        rustix::fs::fsync(File::open(device).unwrap()).unwrap();
    });
    let syncs = objects.iter().filter(|object| object["type"] == "sync");
    let calls: Vec<&str> = syncs.map(|sync| sync["op"].as_str().unwrap()).collect();
    // The last one is of the disk itself.
    assert_eq!(calls, ["fsync", "fdatasync", "syncfs", "write", "fsync"], "{objects:#?}");
}

#[test]
fn msyncs_are_shown_on_the_disk_of_their_file() {
    let (disk, other) = (or_skip!(Ext4::quick()), or_skip!(Ext4::quick()));
    let in_memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let objects = traced(disk.mounted.disk.path(), &["--op", "sync", "--comm", "fio"], || {
        msyncs(disk.path(), 7);
        msyncs(other.path(), 5);
        msyncs(in_memory.path(), 5);
    });
    // Fio's own file is made durable by an fsync first.
    let synced: Vec<&Value> = objects.iter().filter(|object| object["op"] == "msync").collect();
    let name = disk.mounted.disk.path().trim_start_matches("/dev/");
    assert!(synced.len() == 7 && synced.iter().all(|sync| sync["disk"] == name), "{objects:#?}");
}

/// Runs fio on a file of `dir` by `timeout` and returns its JSON.
fn fio(dir: &Path, mut timeout: Command, args: &[&str]) -> Value {
    timeout.args(["-k", "5", "120", "fio", "--name=job", "--size=8m", "--bs=4k", "--output-format=json", "--thread"]);
    timeout.args(args);
    let output = timeout.arg(format!("--directory={}", dir.display())).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // Warnings come first.
    let text = String::from_utf8(output.stdout).unwrap();
    serde_json::from_str(&text[text.find('{').unwrap()..]).unwrap()
}

/// Whether io_uring is allowed, and the kernel describes its requests.
fn io_uring_is_seen() -> Result<(), String> {
    let dir = tempfile::tempdir().unwrap();
    let job = ["-k", "5", "60", "fio", "--name=try", "--ioengine=io_uring", "--size=4k", "--thread"];
    let place = format!("--directory={}", dir.path().display());
    match Command::new("timeout").args(job).arg(place).stdout(Stdio::null()).status() {
        Ok(status) if status.success() => {}
        _ => return Err("fio cannot use io_uring here".to_owned()),
    }
    let release = rustix::system::uname().release().to_string_lossy().into_owned();
    let is_seen = release.split('.').next().and_then(|major| major.parse::<u32>().ok()).is_some_and(|major| major >= 6);
    if is_seen { Ok(()) } else { Err("the kernel is older than 6.0".to_owned()) }
}

#[test]
fn syncs_through_io_uring_are_shown() {
    or_skip!(io_uring_is_seen());
    let disk = or_skip!(Ext4::quick());
    for more in [&[][..], &["--registerfiles"], &["--registerfiles", "--sqthread_poll"]] {
        let job = ["--rw=randwrite", "--ioengine=io_uring", "--iodepth=4", "--number_ios=100", "--fsync=5"];
        let mut of_fio = Value::Null;
        let objects = traced(disk.mounted.disk.path(), &["--op", "sync", "--comm", "fio"], || {
            of_fio = fio(disk.path(), Command::new("timeout"), &[&job[..], more].concat());
        });
        let of_fio = of_fio["jobs"][0]["sync"]["total_ios"].as_u64().unwrap();
        let syncs = objects.iter().filter(|object| object["type"] == "sync" && object["op"] == "fsync");
        assert!(of_fio >= 15, "fio synced {of_fio} times");
        // Fio may sync once more at the end, by a system call.
        let shown = syncs.count() as u64;
        assert!((of_fio..=of_fio + 1).contains(&shown), "{shown} of {of_fio} with {more:?}");
    }
}

#[test]
fn direct_reads_are_shown_and_wait_for_the_device() {
    let mut scenario = disk_with_flushes_of(100e3);
    scenario.device.read = Service::log_normal(10e6, 0.1);
    let disk = or_skip!(Ext4::simulated(scenario));
    let mut of_fio = Value::Null;
    let objects = traced(disk.mounted.disk.path(), &["--op", "direct", "--comm", "fio", "--min-size", "4k"], || {
        let job = ["--rw=randread", "--ioengine=psync", "--direct=1", "--number_ios=100"];
        of_fio = fio(disk.path(), Command::new("timeout"), &job);
    });
    let reads: Vec<Value> = objects.into_iter().filter(|object| object["op"] == "direct_read").collect();
    assert_eq!(reads.len() as u64, of_fio["jobs"][0]["read"]["total_ios"].as_u64().unwrap());
    assert!(reads.iter().all(|read| read["bytes"] == 4096), "{reads:#?}");
    assert_mostly(&slow_at(reads, 5_000_000), 90, &["data"]);
}

/// 48 threads share the four requests that the queue has; the device itself takes 10 ms for each.
#[test]
fn the_wait_for_a_free_request_is_queue() {
    let mut scenario = disk_with_flushes_of(100e3);
    scenario.device.write = Service::log_normal(10e6, 0.1);
    let disk = or_skip!(Ext4::simulated(scenario));
    let _few = or_skip!(disk.mounted.disk.set_queue("nr_requests", "4"));
    let theirs = disk.path().join("theirs");
    tool("dd", &["if=/dev/zero", &format!("of={}", theirs.display()), "bs=1M", "count=32", "conv=fsync"]).unwrap();
    let job = ["--name=crowd", "--rw=randwrite", "--bs=4k", "--direct=1", "--size=32m", "--thread", "--numjobs=48"];
    let theirs = format!("--filename={}", theirs.display());
    let more = ["--ioengine=psync", "--time_based", "--runtime=120", &theirs];
    let crowd = Neighbour(Command::new("fio").args(job).args(more).stdout(Stdio::null()).spawn().unwrap());
    std::thread::sleep(std::time::Duration::from_secs(2));
    let syncs = slow(disk.slow_syncs(20));
    drop(crowd);
    assert_mostly(&syncs, 18, &["queue"]);
}

#[test]
fn who_syncs_in_the_same_journal_is_named() {
    let disk = or_skip!(Ext4::simulated(disk_with_flushes_of(20e6)));
    let neighbour = disk.neighbour(&["bs=64k", "oflag=dsync", "count=100000"]);
    let syncs = disk.slow_syncs(20);
    drop(neighbour);
    assert_named(&syncs, 18, "syncs");
}

#[test]
fn who_filled_the_memory_that_is_written_back_is_named() {
    let mut scenario = disk_with_flushes_of(100e3);
    // 16 channels of 4 MB/s: writeback of the neighbour's data takes seconds.
    let write = Service { per_byte_ns: 250.0, ..Service::log_normal(1e6, 0.1) };
    scenario.device = Device { write, ..scenario.device };
    let disk = or_skip!(Ext4::simulated(scenario));
    let syncs = disk.syncs(|| {
        assert!(disk.neighbour(&["bs=1M", "count=150"]).0.wait().unwrap().success());
        let path = disk.path().to_owned();
        // Start the writeback by kernel threads now; on their own they would do so some seconds later.
        let writing = std::thread::spawn(move || tool("sync", &["--file-system", path.to_str().unwrap()]));
        std::thread::sleep(std::time::Duration::from_millis(300));
        dsync(disk.path(), 5, Command::new("dd"));
        writing.join().unwrap().unwrap();
    });
    // Only syncs that were slowed down by the writeback.
    let during: Vec<Value> = syncs.into_iter().filter(|sync| sync["took_ns"].as_u64().unwrap() > 30_000_000).collect();
    assert_named(&during, 1, "written_back_bytes");
}
