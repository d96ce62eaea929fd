//! A comparison of methods to make writes durable.

use qd1_model::part::Part;
use qd1_model::plan::{FileSync, Sync};
use qd1_model::sync::{SyncAdvice, SyncFiles, SyncLayout, SyncMethod, SyncRow, SyncSetting, SyncTable};
use qd1_model::{Bytes, Estimate, Report, Subject};

use super::fast_nvme;

/// Methods over written data, sizes, committers and layouts, new files, and settings.
pub fn sync() -> Report {
    let estimate =
        |value: f64| Estimate { low: Some(value * 0.97), high: Some(value * 1.03), ..Estimate::exact(value, 12_345) };
    let row = |sync, direct, writes_per_sync, block, committers, shared, layout, us: f64| SyncRow {
        method: SyncMethod { sync, direct },
        durable: sync != Sync::SyncFileRange,
        writes_per_sync,
        block,
        committers,
        shared,
        layout,
        steps: vec!["a".to_owned()],
        commits_per_second: estimate(1e6 / us),
        lat_mean_ns: estimate(us * 1e3),
        lat_p50_ns: estimate(us * 1e3),
        lat_p99_ns: Estimate { n: 300, n_needed: 1_200_000, ..Estimate::default() },
        sync_p50_ns: sync.has_call().then(|| estimate(us * 0.9e3)),
        sync_p99_ns: None,
    };
    let redis = |setting: &str, advice| SyncSetting {
        program: "Redis".to_owned(),
        setting: setting.to_owned(),
        note: if advice == SyncAdvice::Decide { "" } else { "its default: a power cut loses the last second" }
            .to_owned(),
        method: SyncMethod { sync: Sync::Fdatasync, direct: false },
        lat_p50_ns: (advice == SyncAdvice::Decide).then(|| estimate(401e3)),
        commits_per_second: None,
        durable: advice == SyncAdvice::Decide,
        advice,
    };
    use SyncLayout::{Append, Overwrite};
    let fdatasync = Sync::Fdatasync;
    let table = SyncTable {
        block: 8192,
        rows: vec![
            row(fdatasync, false, 1, 8192, 1, false, Overwrite, 183.0),
            row(Sync::SyncFileRange, false, 1, 8192, 1, false, Overwrite, 21.0),
            row(fdatasync, true, 1, 8192, 1, false, Overwrite, 190.0),
            row(fdatasync, false, 2, 8192, 1, false, Overwrite, 201.0),
            row(fdatasync, false, 1, 65_536, 1, false, Overwrite, 301.0),
            row(fdatasync, false, 1, 512, 1, false, Overwrite, 180.0),
            row(fdatasync, false, 1, 8192, 64, true, Overwrite, 1301.0),
            row(fdatasync, false, 1, 8192, 1, false, Append, 401.0),
        ],
        files: vec![SyncFiles {
            sync: FileSync::FsyncDirectory,
            size: Bytes::kib(4),
            step: "file-dir".to_owned(),
            files_per_second: estimate(900.0),
            create_p50_ns: estimate(1e6),
            create_p99_ns: estimate(2e6),
            sync_p50_ns: Some(estimate(0.9e6)),
            delete_p50_ns: Some(estimate(50e3)),
        }],
        best: Some(SyncMethod { sync: fdatasync, direct: false }),
        tied: vec![SyncMethod { sync: fdatasync, direct: true }],
        settings: vec![
            redis("appendfsync always", SyncAdvice::Decide),
            redis("appendfsync everysec", SyncAdvice::Unsafe),
            SyncSetting {
                program: "PostgreSQL".to_owned(),
                setting: "wal_sync_method=fdatasync".to_owned(),
                note: "its default on Linux".to_owned(),
                method: SyncMethod { sync: fdatasync, direct: false },
                lat_p50_ns: Some(estimate(183e3)),
                commits_per_second: Some(estimate(5464.0)),
                durable: true,
                advice: SyncAdvice::Keep,
            },
        ],
    };
    let mut report = Report {
        parts: vec![Part::Sync(table)],
        verdicts: Vec::new(),
        impressions: Vec::new(),
        durability: None,
        ..fast_nvme()
    };
    report.record.plan.suite = "sync".to_owned();
    report.record.plan.subject = Subject::Sync;
    report
}
