//! fio's normal report, for people and for scripts that grep it.

use std::fmt::Write as _;

use qd1_model::job::{JobStat, Moments, SyncStat};
use qd1_model::printable;

use super::figures::{self, Group, Stream, Total};
use super::json::{BATCHES, LEVELS};
use super::table;
use super::units::{LatencyUnit, Unit, short};
use super::{DiskCounts, DiskUtil, JobReport, Report};
use crate::job::FioJob;
use crate::types::{ContinueOnError, KbBase, UnifiedReporting};

/// The report, from the empty line before the first job to the disks.
pub fn normal(report: &Report<'_>) -> String {
    let groups = figures::groups(report);
    let mut out = "\n".to_owned();
    for entry in &report.jobs {
        job(&mut out, report, entry, figures::group_of(&groups, entry.stat));
    }
    for group in &groups {
        run_status(&mut out, group);
    }
    disks(&mut out, &report.disk_util);
    out
}

fn job(out: &mut String, report: &Report<'_>, entry: &JobReport<'_>, group: &Group<'_>) {
    let (job, stat) = (entry.job, entry.stat);
    let error = if stat.error == 0 { String::new() } else { format!(" ({})", stat.error_text) };
    let _ = writeln!(
        out,
        "{}: (groupid={}, jobs={}): err={:2}{error}: pid={}: {}",
        printable(&job.name),
        stat.groupid,
        stat.members,
        stat.error,
        stat.pid,
        report.time
    );
    if !job.description.is_empty() {
        let _ = writeln!(out, "  Description  : [{}]", printable(&job.description));
    }
    let places = figures::percentile_places(job, report.globals);
    for stream in figures::apart(job, stat).iter().chain(figures::mixed(job, stat).iter()) {
        direction(out, job, places, stream, &group.streams[stream.index]);
    }
    let (ns, us, ms) = figures::latency_shares(stat);
    table::distribution(out, LatencyUnit::Nsec, &ns);
    table::distribution(out, LatencyUnit::Usec, &us);
    table::distribution(out, LatencyUnit::Msec, &ms);
    syncs(out, job, places, &stat.sync);
    let [user, system] = figures::cpu_shares(stat);
    let _ = writeln!(
        out,
        "  cpu          : usr={user:.2}%, sys={system:.2}%, ctx={}, majf={}, minf={}",
        stat.cost.voluntary_switches + stat.cost.involuntary_switches,
        stat.cost.major_faults,
        stat.cost.minor_faults
    );
    depths(out, entry);
    steadystate(out, job, stat);
}

/// `  read: IOPS=3092, BW=12.1MiB/s (12.7MB/s)(24.2MiB/2002msec)` and what belongs to it.
fn direction(out: &mut String, job: &FioJob, places: usize, stream: &Stream<'_>, total: &Total) {
    let stat = &*stream.stat;
    if stat.runtime_ms == 0 {
        return;
    }
    let iops = figures::bytes_per_second(stat.total_ios, stat.runtime_ms);
    let [bw, other] = bandwidth(job, figures::bytes_per_second(stat.io_bytes, stat.runtime_ms));
    let [io, _] = bytes(job, stat.io_bytes);
    let resets = if stream.name == "write" { "; 0 zone resets" } else { "" };
    let iops = short(iops, 4, false, Unit::Plain);
    let _ = writeln!(out, "  {}: IOPS={iops}, BW={bw} ({other})({io}/{}msec){resets}", stream.name, stat.runtime_ms);
    table::extremes(out, "slat", &stat.slat);
    table::extremes(out, "clat", &stat.clat);
    table::extremes(out, " lat", &stat.lat);
    let wanted = figures::percentiles(job);
    for (wanted, name, lat) in
        [(wanted.slat, "slat", &stat.slat), (wanted.clat, "clat", &stat.clat), (wanted.lat, "lat", &stat.lat)]
    {
        if wanted {
            table::percentiles(out, name, job, places, lat);
        }
    }
    if stat.bw.n > 0 {
        bandwidth_samples(out, job, &stat.bw, total);
    }
    if stat.iops.n > 0 {
        let Moments { n, min, max, mean, .. } = stat.iops;
        let stdev = stat.iops.stdev();
        let _ =
            writeln!(out, "   iops        : min={min:5}, max={max:5}, avg={mean:5.2}, stdev={stdev:5.2}, samples={n}");
    }
}

/// The samples are in KiB/s. With `kb_base=1000`, fio labels them `kB/s`; here they are converted.
fn bandwidth_samples(out: &mut String, job: &FioJob, bw: &Moments, total: &Total) {
    let share = figures::share_of_group(bw.mean, total);
    let (base, factor, units) = match job.kb_base {
        KbBase::Binary => (1024.0, 1.0, ["  KiB", "  MiB"]),
        KbBase::Decimal => (1000.0, 1.024, ["   kB", "   MB"]),
    };
    let scaled = bw.mean * factor > base * base;
    let factor = if scaled { factor / base } else { factor };
    let whole = |kib: u64| (kib as f64 * factor) as u64;
    let _ = writeln!(
        out,
        "   bw ({}/s): min={:5}, max={:5}, per={share:3.2}%, avg={:5.2}, stdev={:5.2}, samples={}",
        units[usize::from(scaled)],
        whole(bw.min),
        whole(bw.max),
        bw.mean * factor,
        bw.stdev() * factor,
        bw.n
    );
}

/// The syncs, and below them our addition: commits, each a write and its sync together.
fn syncs(out: &mut String, job: &FioJob, places: usize, sync: &SyncStat) {
    if sync.lat.moments.n > 0 {
        out.push_str("  fsync/fdatasync/sync_file_range:\n");
        table::extremes(out, "sync", &sync.lat);
        table::percentiles(out, "sync", job, places, &sync.lat);
    }
    table::extremes(out, "commit", &sync.commit);
    table::percentiles(out, "commit", job, places, &sync.commit);
}

fn depths(out: &mut String, entry: &JobReport<'_>) {
    let stat = entry.stat;
    let [level, submit, complete] = figures::depth_shares(stat);
    for (title, names, shares) in [
        ("  IO depths    ", &LEVELS, &level),
        ("     submit    ", &BATCHES, &submit),
        ("     complete  ", &BATCHES, &complete),
    ] {
        let entries: Vec<String> =
            names.iter().zip(shares).map(|(name, share)| format!("{name}={share:.1}%")).collect();
        let _ = writeln!(out, "{title}: {}", entries.join(", "));
    }
    let [read, write, trim] = &stat.dirs;
    let (read, write, trim) = match entry.job.unified_rw_reporting {
        // fio counts mixed requests as reads.
        UnifiedReporting::Mixed => (&stat.mixed(), &Default::default(), &Default::default()),
        _ => (read, write, trim),
    };
    let _ = writeln!(
        out,
        "     issued rwts: total={},{},{},{} short={},{},{},0 dropped={},{},{},0",
        read.total_ios,
        write.total_ios,
        trim.total_ios,
        stat.sync.fsyncs,
        read.short_ios,
        write.short_ios,
        trim.short_ios,
        read.drop_ios,
        write.drop_ios,
        trim.drop_ios
    );
    if entry.job.continue_on_error != ContinueOnError::None {
        let (total, first) = (stat.total_err_count, stat.error);
        let _ = writeln!(out, "     errors    : total={total}, first_error={first}/<{}>", figures::error_text(first));
    }
    let search = figures::search(entry);
    let _ = writeln!(
        out,
        "     latency   : target={}, window={}, percentile={:.2}%, depth={}",
        search.target_ns, search.window_us, search.percentile, search.depth
    );
}

fn steadystate(out: &mut String, job: &FioJob, stat: &JobStat) {
    let (Some(steady), Some(wanted)) = (&stat.steadystate, &job.steadystate) else { return };
    let [bw, other] = bandwidth(job, figures::mean(&steady.bw));
    let iops = short(figures::mean(&steady.iops), 4, false, Unit::Plain);
    let what = wanted.criterion.name().trim_end_matches("_slope");
    let kind = if figures::is_slope(wanted) { "slope" } else { "mean dev" };
    let (reached, _) = figures::reached(wanted, steady);
    let (attained, unit) = (if steady.attained { "yes" } else { "no" }, if wanted.percent { "%" } else { "" });
    let _ = writeln!(
        out,
        "  steadystate  : attained={attained}, bw={bw} ({other}), iops={iops}, {what} {kind}={reached:.3}{unit}"
    );
}

/// `Run status group 0 (all jobs):` and a line for each direction that ran.
fn run_status(out: &mut String, group: &Group<'_>) {
    let _ = writeln!(out, "\nRun status group {} (all jobs):", group.id);
    for (name, total) in ["   READ", "  WRITE", "   TRIM", "  MIXED"].iter().zip(&group.streams) {
        if total.max_run_ms == 0 {
            continue;
        }
        let [bw, bw_other] = bandwidth(group.first, total.bandwidth());
        let [min, min_other] = bandwidth(group.first, total.min_bw);
        let [max, max_other] = bandwidth(group.first, total.max_bw);
        let [io, io_other] = bytes(group.first, total.io_bytes);
        let _ = writeln!(
            out,
            "{name}: bw={bw} ({bw_other}), {min}-{max} ({min_other}-{max_other}), io={io} ({io_other}), run={}-{}msec",
            total.min_run_ms, total.max_run_ms
        );
    }
}

/// A bandwidth by `kb_base` and `unit_base`, and by the other base.
fn bandwidth(job: &FioJob, bytes_per_second: u64) -> [String; 2] {
    let unit = if job.unit_base == 1 { Unit::BitsPerSecond } else { Unit::BytesPerSecond };
    let binary = job.kb_base == KbBase::Binary;
    [binary, !binary].map(|binary| short(bytes_per_second, 4, binary, unit))
}

/// A number of bytes by `kb_base`, and by the other base.
fn bytes(job: &FioJob, bytes: u64) -> [String; 2] {
    let binary = job.kb_base == KbBase::Binary;
    [binary, !binary].map(|binary| short(bytes, 4, binary, Unit::Bytes))
}

fn disks(out: &mut String, disks: &[DiskUtil]) {
    if disks.is_empty() {
        return;
    }
    out.push_str("\nDisk stats (read/write):\n");
    for disk in disks {
        let indent = if disk.aggregate.is_some() { "    " } else { "  " };
        let _ = write!(out, "{indent}{}: {}", disk.name, counts("", &disk.counts));
        if let Some(below) = &disk.aggregate {
            let _ = write!(out, ", {}", counts("aggr", below));
        }
        out.push('\n');
    }
}

fn counts(prefix: &str, counts: &DiskCounts) -> String {
    let DiskCounts { ios: [reads, writes], merges, ticks, in_queue, util_percent, .. } = counts;
    format!(
        "{prefix}ios={reads}/{writes}, {prefix}merge={}/{}, {prefix}ticks={}/{}, {prefix}in_queue={in_queue}, \
         {prefix}util={util_percent:.2}%",
        merges[0], merges[1], ticks[0], ticks[1]
    )
}
