//! Whether the latencies that `qd1 watch` adds up in the kernel are those that bpftrace times for the same requests:
//! their number, and the buckets of three percentiles, with the kernel's own stamps (wbt on) and without (wbt off).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use qd1_lab::{Loop, cmd};
use serde_json::Value;

use super::ebpf::{PERCENTILES, device_number, script, trace, words};
use super::table::{Table, Target};
use super::{Args, ours};
use crate::dist;

const LOOP_BYTES: u64 = 256 << 20;
/// How long the watcher has to start, and to report the last requests.
const BEGINS: Duration = Duration::from_millis(1500);

/// A running `qd1 watch`; dropping it ends it.
struct Watcher(Child);

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

pub(super) fn run(args: &Args) -> Result<Table> {
    qd1_lab::need_root("bench quantiles")?;
    let drive = ours::build()?;
    let qd1 = match &args.binary {
        Some(binary) => std::path::absolute(binary)?,
        None => dist::build_binary()?,
    };
    let dir = qd1_lab::temp_dir()?;
    let disk = Loop::filled(qd1_lab::temp_dir()?, LOOP_BYTES)?;
    println!(
        "us in the device, 4k at depth 1 for {} s; the bucket that qd1 counts in, and bpftrace's value",
        args.seconds
    );
    let columns = ["wbt", "rw", "", "n ours", "n eBPF", "ours", "eBPF", "buckets apart"];
    let mut table = Table::new(&columns);
    for (wbt, wbt_us) in [("on", "2000"), ("off", "0")] {
        let _wbt = disk.set_queue("wbt_lat_usec", wbt_us)?;
        for (rw, op) in [("randread", "read"), ("randwrite", "write")] {
            let lines = dir.path().join("watch.ndjson");
            let watcher = watcher(&qd1, disk.path(), &lines)?;
            let program = words(&drive, rw, disk.device(), true, args.seconds);
            let timed = trace(&script(device_number(disk.device())?), &program, dir.path())?;
            std::thread::sleep(BEGINS);
            drop(watcher);
            let buckets = buckets(&fs::read_to_string(&lines)?, op);
            let count: u64 = buckets.values().sum();
            for (name, q, _) in PERCENTILES {
                let theirs = timed.device.quantile(q);
                let low = bucket_at(&buckets, q);
                let apart = index(low as f64) - index(theirs);
                let cells = vec![
                    wbt.to_owned(),
                    rw.to_owned(),
                    name.to_owned(),
                    count.to_string(),
                    timed.device.count().to_string(),
                    format!("from {:.2}", low as f64 / 1e3),
                    format!("{:.2}", theirs / 1e3),
                    format!("{apart:.0}"),
                ];
                table.row(cells, apart, Some(Target::Between(-1.0, 1.0)));
            }
        }
    }
    Ok(table)
}

fn watcher(qd1: &Path, disk: &str, lines: &Path) -> Result<Watcher> {
    let mut command = cmd::command(qd1);
    command.args(["watch", disk, "--latencies", "--batch", "1", "--json"]);
    command.stdin(Stdio::null()).stdout(File::create(lines)?).stderr(Stdio::null());
    let watcher = Watcher(command.spawn().context("cannot start qd1 watch")?);
    std::thread::sleep(BEGINS);
    Ok(watcher)
}

/// The buckets of an operation's times in the device, by their lower bounds in ns, added up over all reports.
fn buckets(lines: &str, op: &str) -> BTreeMap<u64, u64> {
    let mut buckets = BTreeMap::new();
    for report in lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()) {
        for disk in report["disk"].as_array().into_iter().flatten() {
            for bucket in disk["latency"][op]["device"]["buckets"].as_array().into_iter().flatten() {
                if let (Some(low), Some(count)) = (bucket[0].as_u64(), bucket[1].as_u64()) {
                    *buckets.entry(low).or_default() += count;
                }
            }
        }
    }
    buckets
}

/// The lower bound of the bucket that has the quantile; 0 if there is nothing.
fn bucket_at(buckets: &BTreeMap<u64, u64>, q: f64) -> u64 {
    let rank = q * buckets.values().sum::<u64>() as f64;
    let mut seen = 0;
    let found = buckets.iter().find(|(_, count)| {
        seen += **count;
        seen as f64 >= rank
    });
    found.map_or(0, |(low, _)| *low)
}

/// The number of the bucket that a time belongs to: sixteen for each doubling, from 1024 ns on.
fn index(ns: f64) -> f64 {
    let doubling = ns.max(1024.0).log2().floor();
    let within = (ns.max(1024.0) / doubling.exp2() - 1.0) * 16.0;
    (doubling - 10.0) * 16.0 + within.floor()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_the_bucket_that_begins_at_or_below_them() {
        assert!((index(1024.0)).abs() < 1e-9 && (index(1087.0)).abs() < 1e-9);
        assert!((index(2048.0) - 16.0).abs() < 1e-9 && (index(65_536.0) - 96.0).abs() < 1e-9);
        assert!((index(69_632.0) - 97.0).abs() < 1e-9 && (index(69_631.0) - 96.0).abs() < 1e-9);
    }

    #[test]
    fn reports_are_added_up() {
        let lines = "{\"disk\":[{\"latency\":{\"read\":{\"device\":{\"buckets\":[[1024,2],[2048,1]]}}}}]}\n\
                     {\"disk\":[{\"latency\":{\"read\":{\"device\":{\"buckets\":[[2048,7]]}}}}]}\n";
        let buckets = buckets(lines, "read");
        assert_eq!(buckets, BTreeMap::from([(1024, 2), (2048, 8)]));
        assert_eq!((bucket_at(&buckets, 0.1), bucket_at(&buckets, 0.5)), (1024, 2048));
    }
}
