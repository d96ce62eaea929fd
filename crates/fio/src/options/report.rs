//! Options for reports and logs.

use std::sync::Arc;

use super::{Fault, FioOption, ValueKind, choice, idle, millis, switch};
use crate::types::{KbBase, UnifiedReporting};
use crate::value::{self, TimeUnit};

/// A log; without a value, it is named after the job.
macro_rules! log {
    ($name:literal, $field:ident, $what:literal) => {
        FioOption::new(
            $name,
            concat!("Log ", $what, " to files with this prefix"),
            ValueKind::Own {
                accepts: "a prefix for the files' names",
                bare: true,
                set: |job, text, _| {
                    job.$field = Some(text.to_owned());
                    Ok(())
                },
            },
        )
    };
}

pub(super) const OPTIONS: &[FioOption] = &[
    FioOption::new("group_reporting", "Report a group of jobs as one", ValueKind::Flag(|job| &mut job.group_reporting)),
    FioOption::new(
        "unified_rw_reporting",
        "Report reads, writes and trims as one",
        choice!(unified_rw_reporting: UnifiedReporting),
    )
    .default("none"),
    switch("clat_percentiles", "Percentiles of completion latency", |job| &mut job.clat_percentiles, "1"),
    switch("lat_percentiles", "Percentiles of total latency", |job| &mut job.lat_percentiles, "0"),
    switch("slat_percentiles", "Percentiles of submission latency", |job| &mut job.slat_percentiles, "0"),
    FioOption::new(
        "percentile_list",
        "Which percentiles to report",
        ValueKind::Own {
            accepts: "at most twenty numbers from 0 to 100 separated by `:`",
            bare: false,
            set: |job, text, _| {
                job.percentile_list = Arc::new(value::percentiles(text)?);
                Ok(())
            },
        },
    )
    .default("1:5:10:20:30:40:50:60:70:80:90:95:99:99.5:99.9:99.95:99.99"),
    FioOption::new(
        "gtod_reduce",
        "Read the clock less often: no latencies",
        ValueKind::Own {
            accepts: "0 or 1",
            bare: false,
            set: |job, text, _| {
                let reduce = super::count(text, 0, 1)? == 1;
                job.gtod_reduce = reduce;
                (job.disable_lat, job.disable_clat, job.disable_slat) = (reduce, reduce, reduce);
                Ok(())
            },
        },
    )
    .default("0"),
    switch("disable_lat", "No total latency", |job| &mut job.disable_lat, "0"),
    switch("disable_clat", "No completion latency", |job| &mut job.disable_clat, "0"),
    switch("disable_slat", "No submission latency", |job| &mut job.disable_slat, "0"),
    switch("disable_bw_measurement", "No log of each request's bandwidth", |job| &mut job.disable_bw_measurement, "0")
        .aliases(&["disable_bw"]),
    switch("stats", "Whether the job is in the report", |job| &mut job.stats, "1"),
    switch("disk_util", "Report disk utilization", |job| &mut job.disk_util, "1"),
    millis!("bwavgtime", "Length of a bandwidth sample", bwavgtime).default("500"),
    millis!("iopsavgtime", "Length of an IOPS sample", iopsavgtime).default("500"),
    FioOption::new(
        "significant_figures",
        "Significant figures in the normal report",
        ValueKind::Own {
            accepts: "a number from 1 to 10",
            bare: false,
            set: |_, text, _| super::count(text, 1, 10).map(drop).map_err(Into::into),
        },
    )
    .default("4")
    .plain(&["4"])
    .differs("the normal report always has four; JSON and terse output have all"),
    log!("write_bw_log", write_bw_log, "bandwidth"),
    log!("write_lat_log", write_lat_log, "latencies"),
    log!("write_iops_log", write_iops_log, "IOPS"),
    log!("write_hist_log", write_hist_log, "histograms of completion latency"),
    FioOption::new(
        "log_avg_msec",
        "Log averages over this time instead of each request",
        ValueKind::Time { unit: TimeUnit::Milliseconds, field: |job| &mut job.log_avg_msec },
    )
    .default("0"),
    FioOption::new(
        "log_hist_msec",
        "Time between logged histograms",
        ValueKind::Time { unit: TimeUnit::Milliseconds, field: |job| &mut job.log_hist_msec },
    )
    .default("0"),
    FioOption::new(
        "log_hist_coarseness",
        "How many times to merge neighbouring bins of logged histograms",
        ValueKind::Count { min: 0, max: 6, field: |job| &mut job.log_hist_coarseness },
    )
    .default("0"),
    switch(
        "log_max_value",
        "Log the largest value within log_avg_msec, not the average",
        |job| &mut job.log_max_value,
        "0",
    ),
    FioOption::new("log_unix_epoch", "Log times count from 1970", ValueKind::Bool(|job| &mut job.log_unix_epoch)),
    FioOption::new(
        "log_alternate_epoch",
        "Take log times from another clock",
        ValueKind::Own {
            accepts: "0 or 1",
            bare: false,
            set: |job, text, _| {
                job.log_unix_epoch |= super::count(text, 0, 1)? == 1;
                Ok(())
            },
        },
    ),
    FioOption::new(
        "log_alternate_epoch_clock_id",
        "Which clock log_alternate_epoch uses",
        ValueKind::Own {
            accepts: "0",
            bare: false,
            set: |_, text, _| match super::count(text, 0, u32::MAX)? {
                0 => Ok(()),
                _ => {
                    Err(Fault::Refused("log times count from the job's start, or use clock 0 (time of day)".to_owned()))
                }
            },
        },
    )
    .quietly("only clock 0 (time of day) is supported"),
    idle("log_entries", "Initial number of entries in a log", "a number from 1024 to 1048576", |_, text, base| {
        super::count_with(text, 1024, 1_048_576, base).map(drop).map_err(Into::into)
    })
    .default("1024")
    .quietly("it has no effect: logs grow as needed"),
    idle(
        "log_compression_cpus",
        "Processors that compress logs",
        "processor numbers and ranges such as 0-3,8",
        |_, text, _| value::cpu_list(text).map(drop).map_err(Into::into),
    )
    .quietly("it has no effect, since logs do not have to be compressed in memory"),
    switch(
        "log_syncs",
        "Log fsync and fdatasync in the latency logs too, as direction 3",
        |job| &mut job.log_syncs,
        "0",
    )
    .ours(),
    switch("log_offset", "Log the offset of each request as well", |job| &mut job.log_offset, "0"),
    FioOption::new(
        "log_compression",
        "Compress logs in chunks of this size",
        ValueKind::Size { min: 1024, max: 512 << 20, field: |job| &mut job.log_compression },
    )
    .quietly("logs are written while the job runs, not kept in memory; the files are the same"),
    switch("per_job_logs", "Separate logs for each clone", |job| &mut job.per_job_logs, "1"),
    FioOption::new(
        "clocksource",
        "Where fio takes the time from",
        ValueKind::Choice {
            words: || {
                vec![
                    ("gettimeofday", "gettimeofday()"),
                    ("clock_gettime", "clock_gettime()"),
                    ("cpu", "The processor's counter"),
                ]
            },
            set: |job, text, _| {
                if !["gettimeofday", "clock_gettime", "cpu"].contains(&text) {
                    return Err(Fault::Problem("unknown clock".into()));
                }
                job.clocksource = text.to_owned();
                Ok(())
            },
        },
    )
    .quietly("it has no effect: qd1 uses the best clock available, and its report names it"),
    FioOption::new(
        "kb_base",
        "What k, m and g mean in this job",
        ValueKind::Choice {
            words: || vec![("1024", "k is 1024, kib is 1000"), ("1000", "k is 1000, kib is 1024")],
            set: |job, text, _| {
                job.kb_base = match text {
                    "1024" => KbBase::Binary,
                    "1000" => KbBase::Decimal,
                    _ => return Err(Fault::Problem("it must be 1024 or 1000".into())),
                };
                Ok(())
            },
        },
    )
    .default("1024"),
    FioOption::new(
        "unit_base",
        "Whether bandwidth is given in bytes or bits",
        ValueKind::Choice {
            words: || vec![("0", "Whichever fits"), ("8", "Bytes"), ("1", "Bits")],
            set: |job, text, _| {
                job.unit_base = match text {
                    "0" => 0,
                    "8" => 8,
                    "1" => 1,
                    _ => return Err(Fault::Problem("it must be 0, 8 or 1".into())),
                };
                Ok(())
            },
        },
    )
    .default("0"),
];
