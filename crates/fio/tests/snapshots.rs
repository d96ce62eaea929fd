//! Reports of a job made by hand, as they were printed when someone last looked at them: what is ours beside fio's, and
//! what fio cannot be made to print in a test (disks below disks, an unsettled steady state).

use std::sync::Arc;
use std::time::Duration;

use qd1_fio::output::{DiskCounts, DiskUtil, JobReport, Report, banner, json, normal, terse};
use qd1_fio::types::{ContinueOnError, Rw, RwKind, SteadyCriterion, SteadyState as Wanted};
use qd1_fio::{FioJob, Given, Place};
use qd1_model::environment::ThreadCost;
use qd1_model::job::{JobStat, LatStat, LatencyTarget, SteadyState};

/// Writes with syncs, whose every figure is a round one.
fn job() -> FioJob {
    let mut job = FioJob::new("commits");
    job.rw = Rw { kind: RwKind::Randwrite, ..Rw::default() };
    (job.fdatasync, job.numjobs, job.description) = (1, 2, "the log of a database".to_owned());
    job.percentile_list = Arc::new(vec![50.0, 99.0, 99.9]);
    let given = |name, value: Option<&str>| Given {
        name,
        value: value.map(str::to_owned),
        place: Place::Argument { position: 1, column: 1 },
    };
    job.given = vec![
        given("rw", Some("randwrite")),
        given("thread", None),
        given("percentile_list", Some("50:99:99.9")),
        given("description", Some("the log of a database")),
    ];
    job.continue_on_error = ContinueOnError::Io;
    job.steadystate = Some(Wanted { criterion: SteadyCriterion::BwSlope, limit: 0.1, percent: true });
    job.steadystate_duration = Duration::from_secs(3);
    job
}

fn latencies(values: impl Iterator<Item = u64>) -> LatStat {
    let mut lat = LatStat::default();
    values.for_each(|ns| lat.add(ns));
    lat
}

fn stat() -> JobStat {
    let mut stat = JobStat {
        members: 2,
        pid: 4711,
        job_start_ms: 1_700_000_000_000,
        elapsed_s: 3,
        job_runtime_ms: 4000,
        error: 5,
        error_text: "func=fsync, error=Input/output error".to_owned(),
        total_err_count: 2,
        cost: ThreadCost {
            user_ns: 40_000_000,
            system_ns: 500_000_000,
            voluntary_switches: 2010,
            ..Default::default()
        },
        latency_target: Some(LatencyTarget { depth: 3, target_us: 500, percentile: 99.5, window_us: 250_000 }),
        steadystate: Some(SteadyState {
            duration_s: 3,
            slope: -1.25,
            iops: vec![500, 498, 480],
            bw: vec![2_048_000, 2_039_808, 1_966_080],
            ..SteadyState::default()
        }),
        ..JobStat::default()
    };
    let write = &mut stat.dirs[1];
    (write.total_ios, write.io_bytes, write.runtime_ms, write.short_ios) = (1000, 4_096_000, 2000, 1);
    write.clat = latencies((0..1000).map(|i| 8_000 + 100 * i));
    write.lat = latencies((0..1000).map(|i| 8_500 + 100 * i));
    for (kib, ios) in [(1990, 497), (2010, 503), (2000, 500)] {
        write.bw.add(kib);
        write.iops.add(ios);
    }
    (0..1000).for_each(|i| stat.buckets.record(8_500 + 100 * i));
    (0..1000).for_each(|_| {
        stat.depth.issued(1);
        stat.depth.submitted(1);
        stat.depth.completed(1);
    });
    (stat.sync.total_ios, stat.sync.fsyncs) = (1000, 0);
    stat.sync.lat = latencies((0..1000).map(|i| 3_000_000 + 100_000 * i));
    stat.sync.commit = latencies((0..1000).map(|i| 3_008_500 + 100_100 * i));
    stat
}

fn with_report(look: impl Fn(&Report<'_>)) {
    let (job, stat) = (job(), stat());
    let counts = DiskCounts {
        ios: [1, 2000],
        sectors: Some([8, 16_000]),
        merges: [0, 3],
        ticks: [1, 1800],
        in_queue: 1801,
        util_percent: 98.76,
    };
    let disk = |name: &str, aggregate| DiskUtil { name: name.to_owned(), counts, aggregate };
    look(&Report {
        version: "fio-3.33-qd1-0.1.0",
        timestamp: 1_700_000_003,
        timestamp_ms: 1_700_000_003_210,
        time: "Tue Nov 14 22:13:23 2023".to_owned(),
        globals: &[],
        jobs: vec![JobReport { job: &job, stat: &stat, eta_s: 0 }],
        disk_util: vec![disk("dm-0", Some(counts)), disk("sda", None)],
    });
}

#[test]
fn the_normal_report_shows_commits_below_syncs() {
    with_report(|report| insta::assert_snapshot!(normal(report)));
}

#[test]
fn json_has_commits_beside_syncs() {
    with_report(|report| insta::assert_snapshot!(json(report, false)));
}

#[test]
fn json_plus_is_json_and_bins() {
    with_report(|report| {
        let (plain, plus) = (json(report, false), json(report, true));
        let value: serde_json::Value = serde_json::from_str(&plus).unwrap();
        let write = &value["jobs"][0]["write"];
        let sum = |bins: &serde_json::Value| -> u64 {
            bins.as_object().unwrap().values().map(|count| count.as_u64().unwrap()).sum()
        };
        assert_eq!(sum(&write["clat_ns"]["bins"]), 1000);
        assert_eq!(sum(&value["jobs"][0]["sync"]["commit_ns"]["bins"]), 1000);
        assert!(write["lat_ns"]["bins"].is_null(), "it has no percentiles either");
        // Nothing but the bins and the commas before them is added.
        let mut rest = plus.lines().map(|line| line.trim_end_matches(','));
        assert!(plain.lines().all(|line| rest.any(|other| other == line.trim_end_matches(','))));
        assert!(plain.starts_with("{\n") && plain.ends_with("\n}\n"));
    });
}

#[test]
fn terse_reports_have_the_fields_of_their_version() {
    with_report(|report| {
        insta::assert_snapshot!([2, 3, 4, 5].map(|version| terse(report, version)).concat());
    });
}

#[test]
fn the_banner_counts_threads_and_processes() {
    let (clones, mut thread) = (job(), FioJob::new("one"));
    thread.thread = true;
    thread.bs = [65_536; 3];
    insta::assert_snapshot!(banner("fio-3.33-qd1-0.1.0", &[(&clones, 0), (&thread, 1)]));
}
