//! fio's own JSON+ read back into what our reports are made of, so that both can print the same run.

use qd1_fio::Invocation;
use qd1_fio::output::{DiskCounts, DiskUtil, JobReport, Report};
use qd1_model::job::{
    DepthStat, DirStat, JobStat, LatStat, LatencyBuckets, LatencyTarget, Moments, SteadyState, SyncStat,
};
use qd1_model::plat::plat_index;
use serde_json::Value;

/// Batches have no total in the JSON; this many make six digits of a percentage come back exactly.
const BATCHES: u64 = 100_000_000;

fn int(value: &Value, key: &str) -> u64 {
    value[key].as_u64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn float(value: &Value, key: &str) -> f64 {
    value[key].as_f64().unwrap_or_else(|| panic!("{key} in {value}"))
}

fn moments(n: u64, min: u64, max: u64, mean: f64, stddev: f64) -> Moments {
    Moments { n, min, max, mean, m2: stddev * stddev * n.saturating_sub(1) as f64 }
}

fn latency(value: &Value) -> LatStat {
    let mut lat = LatStat {
        moments: moments(
            int(value, "N"),
            int(value, "min"),
            int(value, "max"),
            float(value, "mean"),
            float(value, "stddev"),
        ),
        ..LatStat::default()
    };
    for (ns, count) in value["bins"].as_object().into_iter().flatten() {
        lat.bins.set(plat_index(ns.parse().unwrap()), count.as_u64().unwrap());
    }
    lat
}

fn direction(value: &Value) -> DirStat {
    let samples = |name: &str, mean: &str, dev: &str| {
        let key = |part: &str| format!("{name}_{part}");
        let (n, min, max) = (int(value, &key("samples")), int(value, &key("min")), int(value, &key("max")));
        moments(n, min, max, float(value, &key(mean)), float(value, &key(dev)))
    };
    DirStat {
        total_ios: int(value, "total_ios"),
        short_ios: int(value, "short_ios"),
        drop_ios: int(value, "drop_ios"),
        io_bytes: int(value, "io_bytes"),
        runtime_ms: int(value, "runtime"),
        slat: latency(&value["slat_ns"]),
        clat: latency(&value["clat_ns"]),
        lat: latency(&value["lat_ns"]),
        bw: samples("bw", "mean", "dev"),
        iops: samples("iops", "mean", "stddev"),
    }
}

/// Counts out of percentages. What equals `least` may have been less, so it becomes one.
fn counts<const N: usize>(value: &Value, keys: [&str; N], total: u64, least: f64) -> [u64; N] {
    keys.map(|key| {
        let share = float(value, key);
        if share == least { 1 } else { (share * total as f64 / 100.0).round() as u64 }
    })
}

fn depth(value: &Value, total_ios: u64) -> DepthStat {
    const BOUNDS: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];
    DepthStat {
        level: counts(&value["iodepth_level"], ["1", "2", "4", "8", "16", "32", ">=64"], total_ios, 0.1),
        submit: counts(&value["iodepth_submit"], BOUNDS, BATCHES, 0.1),
        complete: counts(&value["iodepth_complete"], BOUNDS, BATCHES, 0.1),
        submits: BATCHES,
        completes: BATCHES,
    }
}

fn buckets(value: &Value, total_ios: u64) -> LatencyBuckets {
    const BOUNDS: [&str; 10] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000"];
    const MS: [&str; 12] = ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];
    LatencyBuckets {
        ns: counts(&value["latency_ns"], BOUNDS, total_ios, 0.01),
        us: counts(&value["latency_us"], BOUNDS, total_ios, 0.01),
        ms: counts(&value["latency_ms"], MS, total_ios, 0.01),
    }
}

fn steadystate(value: &Value) -> Option<SteadyState> {
    let list = |key: &str| value["data"][key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect();
    let (criterion, reached) = (value["ss"].as_str()?, value["criterion"].as_str()?);
    let (iops, bw): (Vec<u64>, Vec<u64>) = (list("iops"), list("bw"));
    // The text has six digits of a percentage; the raw figure has more of them.
    let raw = float(value, if criterion.contains("slope") { "slope" } else { "max_deviation" });
    let samples = if criterion.starts_with("bw") { &bw } else { &iops };
    let mean = samples.iter().sum::<u64>() as f64 / samples.len() as f64;
    let reached = if reached.ends_with('%') { raw * 100.0 / mean } else { raw };
    Some(SteadyState {
        criterion: criterion.to_owned(),
        duration_s: int(value, "duration"),
        attained: int(value, "attained") == 1,
        limit: 0.0,
        reached,
        slope: reached,
        iops,
        bw,
    })
}

/// What a job of fio's JSON measured. `header` is its first line in the normal report, for what JSON does not hold.
pub(crate) fn stat(value: &Value, header: &str) -> JobStat {
    let mut stat = JobStat {
        groupid: int(value, "groupid") as u32,
        members: number(header, "jobs=") as u32,
        pid: number(header, ": pid=") as u32,
        elapsed_s: int(value, "elapsed"),
        job_runtime_ms: int(value, "job_runtime"),
        error: int(value, "error") as i32,
        total_err_count: value["total_err"].as_u64().unwrap_or(0),
        ..JobStat::default()
    };
    let after = header.split_once("err=").unwrap().1;
    if let Some((_, text)) = after.split_once(" (").filter(|_| stat.error != 0) {
        stat.error_text = text.rsplit_once("): pid=").unwrap().0.to_owned();
    }
    if value["read"].is_object() {
        stat.dirs = ["read", "write", "trim"].map(|name| direction(&value[name]));
        stat.sync = SyncStat { fsyncs: int(&value["sync"], "total_ios"), ..SyncStat::default() };
        stat.sync.lat = latency(&value["sync"]["lat_ns"]);
        stat.sync.total_ios = stat.sync.lat.moments.n;
    } else {
        stat.dirs[0] = direction(&value["mixed"]);
    }
    let total_ios = stat.dirs.iter().map(|direction| direction.total_ios).sum();
    stat.depth = depth(value, total_ios);
    stat.buckets = buckets(value, total_ios);
    let cpu_ns = |key: &str| (float(value, key) * stat.job_runtime_ms as f64 / 100.0).round() as u64 * 1_000_000;
    (stat.cost.user_ns, stat.cost.system_ns) = (cpu_ns("usr_cpu"), cpu_ns("sys_cpu"));
    stat.cost.voluntary_switches = int(value, "ctx");
    (stat.cost.major_faults, stat.cost.minor_faults) = (int(value, "majf"), int(value, "minf"));
    if int(value, "latency_target") > 0 {
        stat.latency_target = Some(LatencyTarget {
            depth: int(value, "latency_depth") as u32,
            target_us: int(value, "latency_target") / 1000,
            percentile: float(value, "latency_percentile"),
            window_us: int(value, "latency_window"),
        });
    }
    stat.steadystate = steadystate(&value["steadystate"]);
    stat
}

/// The number after `key` in a line.
fn number(line: &str, key: &str) -> u64 {
    let digits = line.split_once(key).unwrap_or_else(|| panic!("{key} in {line}")).1;
    digits.chars().take_while(char::is_ascii_digit).collect::<String>().parse().unwrap()
}

fn disk(value: &Value) -> DiskUtil {
    let pair = |name: &str| [int(value, &format!("read_{name}")), int(value, &format!("write_{name}"))];
    let counts = DiskCounts {
        ios: pair("ios"),
        sectors: None,
        merges: pair("merges"),
        ticks: pair("ticks"),
        in_queue: int(value, "in_queue"),
        util_percent: value["util"].as_f64().unwrap(),
    };
    DiskUtil { name: value["name"].as_str().unwrap().to_owned(), counts, aggregate: None }
}

/// The report of fio's JSON. `invocation` is the same command line in our words, `stats` what was measured.
pub(crate) fn report<'a>(value: &'a Value, invocation: &'a Invocation, stats: &'a [JobStat]) -> Report<'a> {
    let entries = value["jobs"].as_array().unwrap();
    let jobs = entries.iter().zip(stats).map(|(entry, stat)| {
        let job = invocation.jobs.iter().find(|job| entry["jobname"] == job.name.as_str()).unwrap();
        JobReport { job, stat, eta_s: int(entry, "eta") }
    });
    Report {
        version: value["fio version"].as_str().unwrap(),
        timestamp: int(value, "timestamp"),
        timestamp_ms: int(value, "timestamp_ms"),
        time: value["time"].as_str().unwrap().to_owned(),
        globals: &invocation.globals,
        jobs: jobs.collect(),
        disk_util: value["disk_util"].as_array().into_iter().flatten().map(disk).collect(),
    }
}
