//! fio's JSON report, and JSON+, which also contains the bins of the histograms.

use qd1_model::job::{JobStat, LatStat, SteadyState};

use super::figures::{self, Group, Stream};
use super::tree::{Object, Tree};
use super::{DiskUtil, JobReport, Report};
use crate::job::{FioJob, Given};
use crate::types::ContinueOnError;

/// The upper bounds of the latency distribution.
pub(super) const LATENCY_BOUNDS: [&str; 12] =
    ["2", "4", "10", "20", "50", "100", "250", "500", "750", "1000", "2000", ">=2000"];
/// Depths.
pub(super) const LEVELS: [&str; 7] = ["1", "2", "4", "8", "16", "32", ">=64"];
/// Batches.
pub(super) const BATCHES: [&str; 7] = ["0", "4", "8", "16", "32", "64", ">=64"];

/// The report as JSON, or with `plus` as JSON+.
pub fn json(report: &Report<'_>, plus: bool) -> String {
    let groups = figures::groups(report);
    let mut top = Object::default();
    top.put("fio version", report.version);
    top.put("timestamp", report.timestamp);
    top.put("timestamp_ms", report.timestamp_ms);
    top.put("time", report.time.as_str());
    put_options(&mut top, "global options", report.globals);
    let jobs = report.jobs.iter().map(|entry| {
        let group = figures::group_of(&groups, entry.stat);
        Tree::Object(job(entry, group, plus))
    });
    top.put("jobs", Tree::Array(jobs.collect()));
    if !report.disk_util.is_empty() {
        top.put("disk_util", Tree::Array(report.disk_util.iter().map(|disk| Tree::Object(disk_util(disk))).collect()));
    }
    top.print()
}

/// Options as given; bare flags have no value and are left out, and so is the whole object if nothing remains.
fn put_options(object: &mut Object, key: &str, given: &[Given]) {
    let mut options = Object::default();
    for option in given {
        if let Some(value) = &option.value {
            options.put(option.name, value.as_str());
        }
    }
    if !options.0.is_empty() {
        object.put(key, options);
    }
}

fn job(entry: &JobReport<'_>, group: &Group<'_>, plus: bool) -> Object {
    let (job, stat) = (entry.job, entry.stat);
    let mut object = Object::default();
    object.put("jobname", job.name.as_str());
    object.put("groupid", u64::from(stat.groupid));
    // fio has it since 3.36.
    if stat.job_start_ms > 0 {
        object.put("job_start", stat.job_start_ms);
    }
    object.put("error", Tree::Integer(stat.error.into()));
    object.put("eta", entry.eta_s);
    object.put("elapsed", stat.elapsed_s);
    put_options(&mut object, "job options", &job.given);
    let apart = figures::apart(job, stat);
    // fio omits the syncs of mixed jobs.
    let sync_too = !apart.is_empty() || stat.sync.total_ios > 0;
    for stream in apart {
        object.put(stream.name, direction(job, &stream, group, plus));
    }
    if sync_too {
        object.put("sync", sync(job, stat, plus));
    }
    if let Some(stream) = figures::mixed(job, stat) {
        object.put(stream.name, direction(job, &stream, group, plus));
    }
    put_costs(&mut object, stat);
    if job.continue_on_error != ContinueOnError::None {
        object.put("total_err", stat.total_err_count);
        object.put("first_error", Tree::Integer(stat.error.into()));
    }
    let search = figures::search(entry);
    object.put("latency_depth", search.depth);
    object.put("latency_target", search.target_ns);
    object.put("latency_percentile", search.percentile);
    object.put("latency_window", search.window_us);
    if !job.description.is_empty() {
        object.put("desc", job.description.as_str());
    }
    if let (Some(steady), Some(wanted)) = (&stat.steadystate, &job.steadystate) {
        object.put("steadystate", steadystate(wanted, steady));
    }
    object
}

fn direction(job: &FioJob, stream: &Stream<'_>, group: &Group<'_>, plus: bool) -> Object {
    let stat = &*stream.stat;
    let bw = figures::bytes_per_second(stat.io_bytes, stat.runtime_ms);
    let iops = if stat.runtime_ms == 0 { 0.0 } else { 1000.0 * stat.total_ios as f64 / stat.runtime_ms as f64 };
    let wanted = figures::percentiles(job);
    let mut object = Object::default();
    object.put("io_bytes", stat.io_bytes);
    object.put("io_kbytes", stat.io_bytes / 1024);
    object.put("bw_bytes", bw);
    object.put("bw", bw / 1024);
    object.put("iops", iops);
    object.put("runtime", stat.runtime_ms);
    object.put("total_ios", stat.total_ios);
    object.put("short_ios", stat.short_ios);
    object.put("drop_ios", stat.drop_ios);
    object.put("slat_ns", latency(job, &stat.slat, wanted.slat, plus));
    object.put("clat_ns", latency(job, &stat.clat, wanted.clat, plus));
    object.put("lat_ns", latency(job, &stat.lat, wanted.lat, plus));
    let share = match stat.bw.n {
        0 => 0.0,
        _ => figures::share_of_group(stat.bw.mean, &group.streams[stream.index]),
    };
    object.put("bw_min", stat.bw.min);
    object.put("bw_max", stat.bw.max);
    object.put("bw_agg", share);
    object.put("bw_mean", stat.bw.mean);
    object.put("bw_dev", stat.bw.stdev());
    object.put("bw_samples", stat.bw.n);
    object.put("iops_min", stat.iops.min);
    object.put("iops_max", stat.iops.max);
    object.put("iops_mean", stat.iops.mean);
    object.put("iops_stddev", stat.iops.stdev());
    object.put("iops_samples", stat.iops.n);
    object
}

/// A latency; percentiles and bins only if something was measured.
fn latency(job: &FioJob, lat: &LatStat, percentiles: bool, plus: bool) -> Object {
    let mut object = Object::default();
    object.put("min", lat.moments.min);
    object.put("max", lat.moments.max);
    object.put("mean", lat.moments.mean);
    object.put("stddev", lat.moments.stdev());
    object.put("N", lat.moments.n);
    if !percentiles || lat.moments.n == 0 {
        return object;
    }
    let mut values = Object::default();
    for (percentile, ns) in figures::percentile_values(job, lat) {
        values.put(format!("{percentile:.6}"), ns);
    }
    object.put("percentile", values);
    if plus {
        let mut bins = Object::default();
        lat.bins.bins().for_each(|(ns, count)| bins.put(ns.to_string(), count));
        object.put("bins", bins);
    }
    object
}

/// Syncs. `total_ios` counts only fsync, as in fio, although the latencies cover all of them; `all_syncs` and
/// `commit_ns` are ours.
fn sync(job: &FioJob, stat: &JobStat, plus: bool) -> Object {
    let sync = &stat.sync;
    let wanted = job.clat_percentiles || job.lat_percentiles;
    let mut object = Object::default();
    object.put("total_ios", sync.fsyncs);
    object.put("lat_ns", latency(job, &sync.lat, wanted, plus));
    if sync.commit.moments.n > 0 {
        object.put("all_syncs", sync.total_ios);
        object.put("commit_ns", latency(job, &sync.commit, wanted, plus));
    }
    object
}

fn put_costs(object: &mut Object, stat: &JobStat) {
    let [user, system] = figures::cpu_shares(stat);
    object.put("job_runtime", stat.job_runtime_ms);
    object.put("usr_cpu", user);
    object.put("sys_cpu", system);
    object.put("ctx", stat.cost.voluntary_switches + stat.cost.involuntary_switches);
    object.put("majf", stat.cost.major_faults);
    object.put("minf", stat.cost.minor_faults);
    let [level, submit, complete] = figures::depth_shares(stat);
    object.put("iodepth_level", distribution(&LEVELS, &level));
    object.put("iodepth_submit", distribution(&BATCHES, &submit));
    object.put("iodepth_complete", distribution(&BATCHES, &complete));
    let (ns, us, ms) = figures::latency_shares(stat);
    object.put("latency_ns", distribution(&LATENCY_BOUNDS, &ns));
    object.put("latency_us", distribution(&LATENCY_BOUNDS, &us));
    object.put("latency_ms", distribution(&LATENCY_BOUNDS, &ms));
}

/// Shares by name; names beyond the shares are not used.
fn distribution(names: &[&str], shares: &[f64]) -> Object {
    let mut object = Object::default();
    names.iter().zip(shares).for_each(|(name, share)| object.put(*name, *share));
    object
}

fn steadystate(wanted: &crate::types::SteadyState, steady: &SteadyState) -> Object {
    let (unit, slope) = (if wanted.percent { "%" } else { "" }, figures::is_slope(wanted));
    let (reached, raw) = figures::reached(wanted, steady);
    let list = |samples: &[u64]| Tree::Array(samples.iter().map(|sample| Tree::from(*sample)).collect());
    let mut data = Object::default();
    data.put("bw_mean", figures::mean(&steady.bw));
    data.put("iops_mean", figures::mean(&steady.iops));
    data.put("iops", list(&steady.iops));
    data.put("bw", list(&steady.bw));
    let mut object = Object::default();
    object.put("ss", format!("{}:{:.6}{unit}", wanted.criterion.name(), wanted.limit).as_str());
    object.put("duration", steady.duration_s);
    object.put("attained", u64::from(steady.attained));
    object.put("criterion", format!("{reached:.6}{unit}").as_str());
    object.put("max_deviation", if slope { 0.0 } else { raw });
    object.put("slope", if slope { raw } else { 0.0 });
    object.put("data", data);
    object
}

fn disk_util(disk: &DiskUtil) -> Object {
    let mut object = Object::default();
    object.put("name", disk.name.as_str());
    // The last key of the aggregate lacks its `s` in fio.
    for (counts, prefix, write_merges) in
        [(Some(&disk.counts), "", "write_merges"), (disk.aggregate.as_ref(), "aggr_", "aggr_write_merge")]
    {
        let Some(counts) = counts else { continue };
        object.put(format!("{prefix}read_ios"), counts.ios[0]);
        object.put(format!("{prefix}write_ios"), counts.ios[1]);
        if let Some(sectors) = counts.sectors {
            object.put(format!("{prefix}read_sectors"), sectors[0]);
            object.put(format!("{prefix}write_sectors"), sectors[1]);
        }
        object.put(format!("{prefix}read_merges"), counts.merges[0]);
        object.put(write_merges, counts.merges[1]);
        object.put(format!("{prefix}read_ticks"), counts.ticks[0]);
        object.put(format!("{prefix}write_ticks"), counts.ticks[1]);
        object.put(format!("{prefix}in_queue"), counts.in_queue);
        object.put(format!("{prefix}util"), counts.util_percent);
    }
    object
}
