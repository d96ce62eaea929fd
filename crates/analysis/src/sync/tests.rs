//! The table on Records built by hand: which steps are one row, which method is best, what programs are advised.

use super::*;
use crate::testing;
use qd1_model::Subject;
use qd1_model::plan::Rw;
use qd1_model::sync::SyncAdvice;

/// A Record of methods at 8 KiB with these latencies of a commit, us.
fn record(methods: &[(Sync, bool, u64)]) -> Record {
    let mut record = testing::empty();
    record.plan.subject = Subject::Sync;
    for (sync, direct, us) in methods {
        add(&mut record, testing::io(Rw::Write, 8192, *sync, *direct), *us);
    }
    record
}

fn add(record: &mut Record, io: IoWork, us: u64) {
    let name = format!("step-{}", record.steps.len());
    testing::step(record, &name, io, 100_000 / us, us * 1000);
}

const BUFFERED: SyncMethod = SyncMethod { sync: Sync::Fdatasync, direct: false };

#[test]
fn only_a_run_of_sync_has_a_table() {
    let mut record = record(&[(Sync::Fdatasync, false, 200)]);
    assert!(table(&record).is_some());
    record.plan.subject = Subject::Check;
    assert_eq!(table(&record), None);
}

#[test]
fn the_fastest_durable_method_is_best_never_sync_file_range() {
    let found = [(Sync::Fdatasync, false, 200), (Sync::ODsync, true, 100), (Sync::SyncFileRange, false, 10)];
    let table = table(&record(&found)).unwrap();
    assert_eq!(table.best, Some(SyncMethod { sync: Sync::ODsync, direct: true }));
    assert_eq!(table.tied, []);
    assert_eq!((table.block, table.rows.len()), (8192, 3));
    assert_eq!(table.rows.iter().map(|row| row.durable).collect::<Vec<_>>(), [true, true, false]);
}

#[test]
fn where_methods_tie_fdatasync_is_used_further() {
    // Passes that differ widen the interval: 200 and 300 us of one method enclose 240 us of the other.
    let mut found = record(&[(Sync::Fdatasync, false, 200), (Sync::ODsync, false, 240), (Sync::Fdatasync, false, 300)]);
    let table = table(&found).unwrap();
    assert_eq!(table.rows.len(), 2, "two steps that do the same are one row");
    assert_eq!(table.rows[0].steps.len(), 2);
    assert_eq!(table.tied.len(), 1, "{table:?}");
    assert_eq!(choice(&found.plan, &found.steps), Some(BUFFERED));
    // A method that is better beyond doubt is used instead.
    add(&mut found, testing::io(Rw::Write, 8192, Sync::OSync, true), 20);
    assert_eq!(choice(&found.plan, &found.steps), Some(SyncMethod { sync: Sync::OSync, direct: true }));
    assert_eq!(choice(&found.plan, &[]), None);
}

#[test]
fn only_plain_commits_of_the_common_size_decide_the_best() {
    let mut found = record(&[(Sync::Fdatasync, false, 200), (Sync::Fsync, false, 300)]);
    let base = || testing::io(Rw::Write, 8192, Sync::Fsync, false);
    add(&mut found, IoWork { blocks: testing::io(Rw::Write, 512, Sync::Fsync, false).blocks, ..base() }, 10);
    add(&mut found, IoWork { numjobs: 8, ..base() }, 10);
    add(&mut found, IoWork { file: FileUse::Empty, ..base() }, 10);
    add(&mut found, IoWork { writes_per_sync: 2, ..base() }, 10);
    let table = table(&found).unwrap();
    assert_eq!((table.best, table.rows.len(), table.block), (Some(BUFFERED), 6, 8192));
    let [.., size, many, append, twice] = table.rows.as_slice() else { panic!("six rows") };
    assert_eq!((size.block, many.committers, many.shared), (512, 8, true));
    assert_eq!((append.layout, twice.writes_per_sync), (SyncLayout::Append, 2));
}

#[test]
fn a_change_is_advised_only_where_it_is_better_beyond_doubt() {
    let advice = |methods: &[(Sync, bool, u64)], setting: &str| {
        let table = table(&record(methods)).unwrap();
        table.settings.iter().find(|known| known.setting.contains(setting)).unwrap().advice
    };
    let alike = [(Sync::Fdatasync, false, 200), (Sync::ODsync, false, 200), (Sync::Fsync, false, 400)];
    assert_eq!(advice(&alike, "wal_sync_method=fdatasync"), SyncAdvice::Keep);
    assert_eq!(advice(&alike, "open_datasync"), SyncAdvice::Possible);
    assert_eq!(advice(&alike, "open_sync"), SyncAdvice::Unknown);
    assert_eq!(advice(&alike, "innodb_use_fdatasync"), SyncAdvice::Choose);
    let other = [(Sync::Fdatasync, false, 200), (Sync::ODsync, false, 50), (Sync::Fsync, false, 400)];
    assert_eq!(advice(&other, "wal_sync_method=fdatasync"), SyncAdvice::Possible);
    assert_eq!(advice(&other, "open_datasync"), SyncAdvice::Choose);
    assert_eq!(advice(&other, "none to choose"), SyncAdvice::Only);
    assert_eq!(advice(&other, "trx_commit=2"), SyncAdvice::Unsafe);
    assert_eq!(
        advice(&alike, "appendfsync always"),
        SyncAdvice::Decide,
        "whether it is durable is no question of speed"
    );
}

/// SQLite's WAL was only "possible" beside a journal that took twice as long, because the rates' intervals met.
#[test]
fn medians_with_disjoint_intervals_decide_unless_the_rate_says_otherwise() {
    let figure = |low: f64, value, high| Estimate {
        value: Some(value),
        low: Some(low),
        high: Some(high),
        ..Estimate::default()
    };
    let wal = (figure(90.0, 100.0, 110.0), figure(5e3, 8e3, 12e3));
    let delete = (figure(190.0, 200.0, 210.0), figure(3e3, 5e3, 8e3));
    assert!(super::settings::beats(&wal, &delete) && !super::settings::beats(&delete, &wal));
    let stalled = (wal.0, figure(2e3, 4e3, 12e3));
    assert!(!super::settings::beats(&stalled, &delete));
}

#[test]
fn direct_methods_are_no_setting_of_a_buffered_program() {
    let table = table(&record(&[(Sync::Fdatasync, true, 100)])).unwrap();
    assert!(table.settings.iter().all(|setting| setting.lat_p50_ns.is_none()), "{:?}", table.settings);
}
