//! `qd1 watch` on a disk without requests, whose bios are counted instead.

use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::common::{Place, Running, is_root, or_skip, wait_until};
use crate::trace::counted;
use qd1_lab::{Mount, Zram, tool};

const READS: u64 = 2000;
const WRITES: u64 = 40;

/// The whole reports of a recording so far.
pub(crate) fn reports(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap_or_default();
    text.split_inclusive('\n').filter(|line| line.ends_with('\n')).map(|line| line.parse().unwrap()).collect()
}

/// Runs dd with direct I/O, but not for ever.
fn dd(args: &[&str]) {
    tool("timeout", &[&["-k", "5", "60", "dd", "status=none"], args].concat()).unwrap();
}

#[test]
fn bios_are_counted_as_the_kernel_counts_them_with_their_times_and_processes() {
    if !is_root() {
        or_skip!(Err("it needs root".to_owned()));
    }
    let zram = or_skip!(Zram::new(64 << 20));
    let place = Place::new();
    let [from, to] = ["if", "of"].map(|key| format!("{key}={}", zram.path()));
    dd(&["if=/dev/urandom", &to, "bs=1M", "count=16", "oflag=direct"]);
    let disk = zram.path().trim_start_matches("/dev/");
    let file = place.dir().join("recorded");
    let args = ["watch", disk, "--batch", "1", "120", "--latencies", "--no-save", "--record", file.to_str().unwrap()];
    let watch = Running::start(place.command(&args));
    wait_until("the first report", || !reports(&file).is_empty());
    let before = counted(zram.path());
    dd(&[&from, "of=/dev/null", "bs=4k", "iflag=direct", &format!("count={READS}")]);
    dd(&["if=/dev/zero", &to, "bs=64k", "oflag=direct", &format!("count={WRITES}")]);
    let change = counted(zram.path()).since(&before);
    let so_far = reports(&file).len();
    wait_until("two more reports", || reports(&file).len() >= so_far + 2);
    drop(watch);
    let all = reports(&file);
    let sum = |op: &str, at: &str| -> u64 {
        all.iter().filter_map(|report| report["disk"][0]["latency"][op].pointer(at)?.as_u64()).sum()
    };
    for (op, kernel, wanted, bytes) in
        [("read", change.reads, READS, READS * 4096), ("write", change.writes, WRITES, WRITES * 65_536)]
    {
        assert_eq!((kernel, sum(op, "/bytes")), (wanted, bytes), "{op}: {all:?}");
        assert_eq!([sum(op, "/total/count"), sum(op, "/device/count"), sum(op, "/queue/count")], [kernel, kernel, 0]);
    }
    let medians = all.iter().filter_map(|report| report["disk"][0]["latency"]["read"]["total"]["p50_ns"].as_u64());
    assert!(medians.clone().count() > 0 && medians.clone().all(|ns| ns >= 64), "{all:?}");
    let numbers = fs::read_to_string(format!("/sys/block/{disk}/dev")).unwrap();
    let numbers: Value = format!("[{}]", numbers.trim().replace(':', ",")).parse().unwrap();
    let mut moved = 0.0;
    for report in &all {
        let processes = report["processes"].as_array().unwrap().iter().filter(|of| of["comm"] == "dd");
        moved += processes
            .inspect(|of| assert_eq!(of["disk"], numbers))
            .map(|of| of["rkB/s"].as_f64().unwrap() * report["interval_s"].as_f64().unwrap())
            .sum::<f64>();
    }
    assert!((moved - (READS * 4) as f64).abs() < 1.0, "{moved} KiB by dd");
}

/// A filesystem is watched on the device that holds it.
#[test]
fn a_path_is_watched_where_its_filesystem_is() {
    if !is_root() {
        or_skip!(Err("it needs root".to_owned()));
    }
    let zram = or_skip!(Zram::ext4(64 << 20));
    let mounted = or_skip!(Mount::new(&[zram.path()]));
    let place = Place::new();
    let mut watch = Command::new("timeout");
    watch.args(["-k", "5", "60", crate::common::qd1(), "watch"]).arg(mounted.path());
    let output = watch.args(["--batch", "1", "1", "--json", "--latencies"]).current_dir(place.dir()).output().unwrap();
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let disk = report["disk"][0]["disk_device"].as_str().unwrap();
    assert!(disk.starts_with("zram") && report["disk"][0]["latency"].is_object(), "{report}");
}
