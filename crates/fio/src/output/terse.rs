//! fio's terse report: one line per job, fields separated by semicolons. Latencies are in microseconds.

use std::fmt::Write as _;

use qd1_model::job::LatStat;

use super::figures::{self, Group, Stream};
use super::{JobReport, Report};
use crate::job::FioJob;
use crate::types::ContinueOnError;

/// Number of fields for percentiles; unused ones are `0%=0`.
const PERCENTILES: usize = 20;

/// The lines of version 2, 3, 4 or 5.
pub fn terse(report: &Report<'_>, version: u8) -> String {
    let groups = figures::groups(report);
    let mut out = String::new();
    for entry in &report.jobs {
        job(&mut out, report, entry, figures::group_of(&groups, entry.stat), version);
    }
    out
}

fn job(out: &mut String, report: &Report<'_>, entry: &JobReport<'_>, group: &Group<'_>, version: u8) {
    let (job, stat) = (entry.job, entry.stat);
    let name = if version == 2 { String::new() } else { format!("{};", report.version) };
    let _ = write!(out, "{version};{name}{};{};{}", job.name, stat.groupid, stat.error);
    let trims = version != 3;
    for stream in figures::apart(job, stat).iter().chain(figures::mixed(job, stat).iter()) {
        if trims || stream.name != "trim" {
            direction(out, job, stream, group, version);
        }
    }
    let [user, system] = figures::cpu_shares(stat);
    let switches = stat.cost.voluntary_switches + stat.cost.involuntary_switches;
    let (major, minor) = (stat.cost.major_faults, stat.cost.minor_faults);
    let _ = write!(out, ";{user:.6}%;{system:.6}%;{switches};{major};{minor}");
    let [level, ..] = figures::depth_shares(stat);
    level.iter().for_each(|share| field(out, format_args!("{share:.1}%")));
    let (us, ms) = latency_shares(entry);
    us.iter().chain(&ms).for_each(|share| field(out, format_args!("{share:.2}%")));
    if version != 2 {
        disks(out, report);
    }
    if job.continue_on_error != ContinueOnError::None {
        let _ = write!(out, ";{};{}", stat.total_err_count, stat.error);
    }
    if !job.description.is_empty() {
        // Version 2 has it on a separate line.
        let newline = if version == 2 { "\n" } else { "" };
        let _ = write!(out, "{newline};{}", job.description);
    }
    out.push('\n');
}

fn field(out: &mut String, value: std::fmt::Arguments<'_>) {
    let _ = write!(out, ";{value}");
}

fn direction(out: &mut String, job: &FioJob, stream: &Stream<'_>, group: &Group<'_>, version: u8) {
    let stat = &*stream.stat;
    let bw = figures::bytes_per_second(stat.io_bytes, stat.runtime_ms);
    let iops = figures::bytes_per_second(stat.total_ios, stat.runtime_ms);
    let _ = write!(out, ";{};{};{iops};{}", stat.io_bytes / 1024, bw / 1024, stat.runtime_ms);
    latency(out, &stat.slat);
    latency(out, &stat.clat);
    percentiles(out, job, stat);
    latency(out, &stat.lat);
    let share = match (stat.bw.n, group.streams[stream.index].bandwidth() / 1024) {
        (0, _) => 0.0,
        (_, 0) => 100.0,
        (_, kib) => (stat.bw.mean * 100.0 / kib as f64).min(100.0),
    };
    let bw = &stat.bw;
    let _ = write!(out, ";{};{};{share:.6}%;{:.6};{:.6}", bw.min, bw.max, bw.mean, bw.stdev());
    if version == 5 {
        let iops = &stat.iops;
        let _ = write!(out, ";{};{};{};{:.6};{:.6};{}", bw.n, iops.min, iops.max, iops.mean, iops.stdev(), iops.n);
    }
}

/// `min;max;mean;deviation`, us.
fn latency(out: &mut String, lat: &LatStat) {
    let moments = &lat.moments;
    let (mean, stdev) = (moments.mean / 1e3, moments.stdev() / 1e3);
    let _ = write!(out, ";{};{};{mean:.6};{stdev:.6}", moments.min / 1000, moments.max / 1000);
}

/// Percentiles of the total latency if requested, otherwise of the completion latency.
fn percentiles(out: &mut String, job: &FioJob, stat: &qd1_model::job::DirStat) {
    let wanted = figures::percentiles(job);
    let shown = |lat: &LatStat, disabled: bool| !disabled || lat.moments.n > 0;
    let lat = match (wanted.lat && shown(&stat.lat, job.disable_lat), wanted.clat) {
        (true, _) => Some(&stat.lat),
        (false, true) if shown(&stat.clat, job.disable_clat) => Some(&stat.clat),
        _ => None,
    };
    let values = lat.map(|lat| figures::percentile_values(job, lat)).unwrap_or_default();
    for index in 0..PERCENTILES {
        match values.get(index) {
            Some((percentile, ns)) => field(out, format_args!("{percentile:.6}%={}", ns / 1000)),
            None => out.push_str(";0%=0"),
        }
    }
}

/// The distribution; the first field includes everything below a microsecond.
fn latency_shares(entry: &JobReport<'_>) -> ([f64; 10], [f64; 12]) {
    let mut stat = qd1_model::job::JobStat { buckets: entry.stat.buckets, ..Default::default() };
    stat.dirs = entry.stat.dirs.clone();
    stat.buckets.us[0] += stat.buckets.ns.iter().sum::<u64>();
    let (_, us, ms) = figures::latency_shares(&stat);
    (us, ms)
}

fn disks(out: &mut String, report: &Report<'_>) {
    for disk in &report.disk_util {
        let below = disk.aggregate.as_ref().map(|counts| ("slaves", counts));
        for (name, counts) in std::iter::once((disk.name.as_str(), &disk.counts)).chain(below) {
            let [[reads, writes], merges, ticks] = [counts.ios, counts.merges, counts.ticks];
            let _ = write!(
                out,
                ";{name};{reads};{writes};{};{};{};{};{};{:.2}%",
                merges[0], merges[1], ticks[0], ticks[1], counts.in_queue, counts.util_percent
            );
        }
    }
}
