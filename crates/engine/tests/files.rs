//! What a step on files does to a directory, and what it counts. Nothing here knows how fast a disk is.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use qd1_engine::files::{Tree, run_files};
use qd1_engine::run::{Decision, Outcome, Progress};
use qd1_model::Bytes;
use qd1_model::environment::ThreadCost;
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::{FileOp, FileOrder, FilesSync, FilesWork, Stop};

const LONG: Stop = Stop { min_ns: 0, max_ns: 600_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };

fn run_until(stop: &Stop, work: &FilesWork, tree: &mut Tree, seed: u64) -> Outcome {
    let mut watch = |_: &Progress<'_>| Decision::Continue;
    run_files(work, stop, tree, seed, ThreadCost::default, &AtomicBool::new(false), &mut watch).unwrap()
}

fn run(work: &FilesWork, tree: &mut Tree) -> Outcome {
    run_until(&LONG, work, tree, 7)
}

fn only(work: &FilesWork, op: FileOp) -> FilesWork {
    FilesWork { ops: vec![op], ..work.clone() }
}

fn count(outcome: &Outcome, class: OpClass) -> u64 {
    outcome.streams.iter().find(|stream| stream.class == class).map_or(0, |stream| stream.lat.count())
}

/// Paths and sizes of all files below `dir`.
fn files(dir: &Path) -> Vec<(String, u64)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else {
            found
                .push((entry.path().strip_prefix(dir).unwrap().display().to_string(), entry.metadata().unwrap().len()));
        }
    }
    found.sort();
    found
}

#[test]
fn a_step_that_creates_and_deletes_leaves_no_file() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let outcome = run(&FilesWork { size: Bytes(5000), count: 300, ..FilesWork::default() }, &mut tree);
    for class in [OpClass::Create, OpClass::Stat, OpClass::Delete] {
        assert_eq!(count(&outcome, class), 300, "{class:?}");
    }
    assert_eq!((outcome.ended, outcome.requests.write_bytes, outcome.errors.len()), (Ended::Done, 1_500_000, 0));
    assert!(tree.is_empty() && std::fs::read_dir(dir.path()).unwrap().next().is_none());
    let in_intervals: u64 = outcome.intervals.iter().flat_map(|i| &i.streams).map(|stream| stream.ios).sum();
    assert_eq!(in_intervals, 900);
}

#[test]
fn every_operation_meets_every_file_once() {
    for order in [FileOrder::Sequential, FileOrder::Random, FileOrder::Listed] {
        for (workers, per_dir) in [(1, 0), (3, 0), (3, 70)] {
            let dir = tempfile::tempdir().unwrap();
            let mut tree = Tree::new(dir.path());
            let size_spread = Bytes(9000);
            let work = FilesWork {
                size: Bytes(10_000),
                size_spread,
                count: 500,
                per_dir,
                workers,
                order,
                ..FilesWork::default()
            };
            let made = run(&only(&work, FileOp::Create), &mut tree);
            let there = files(dir.path());
            assert_eq!((count(&made, OpClass::Create), there.len()), (500, 500), "{order:?} {workers} {per_dir}");
            let bytes: u64 = there.iter().map(|(_, size)| size).sum();
            assert_eq!(bytes, made.requests.write_bytes);
            let sizes: BTreeSet<u64> = there.iter().map(|(_, size)| *size).collect();
            assert!(sizes.len() > 400 && sizes.iter().all(|size| (1000..=10_000).contains(size)));
            for op in [FileOp::Stat, FileOp::StatRead, FileOp::Open] {
                let outcome = run(&only(&work, op), &mut tree);
                assert_eq!((count(&outcome, op.class()), outcome.errors.len()), (500, 0), "{op:?} {order:?}");
                let read = if op == FileOp::Stat { 0 } else { bytes };
                assert_eq!(outcome.requests.read_bytes, read, "{op:?} {order:?}");
            }
            let listed = run(&only(&work, FileOp::List), &mut tree);
            assert_eq!(count(&listed, OpClass::List), 1000);
            let linked = run(&only(&work, FileOp::Link), &mut tree);
            assert_eq!((count(&linked, OpClass::Link), linked.errors.len()), (500, 0), "{order:?}");
            let renamed = run(&only(&work, FileOp::Rename), &mut tree);
            assert_eq!((count(&renamed, OpClass::Rename), renamed.requests.reads), (500, 0), "{order:?}");
            assert!(files(dir.path()).iter().all(|name| !there.contains(name)), "{order:?}");
            let deleted = run(&only(&work, FileOp::Delete), &mut tree);
            assert_eq!((count(&deleted, OpClass::Delete), deleted.ended), (500, Ended::Done), "{order:?}");
            assert!(tree.is_empty() && files(dir.path()).is_empty());
        }
    }
}

#[test]
fn renamed_files_have_other_names_and_are_found_by_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let work = FilesWork { size: Bytes(10), count: 100, order: FileOrder::Random, ..FilesWork::default() };
    run(&only(&work, FileOp::Create), &mut tree);
    let before = files(dir.path());
    assert_eq!(count(&run(&only(&work, FileOp::Rename), &mut tree), OpClass::Rename), 100);
    let after = files(dir.path());
    assert!(after.len() == 100 && after.iter().all(|name| !before.contains(name)));
    assert_eq!(count(&run(&only(&work, FileOp::Open), &mut tree), OpClass::Open), 100);
    run(&only(&work, FileOp::Rename), &mut tree);
    assert_eq!(files(dir.path()), before);
    assert_eq!(count(&run(&only(&work, FileOp::Delete), &mut tree), OpClass::Delete), 100);
}

#[test]
fn a_renaming_cut_short_leaves_files_that_are_all_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let work = FilesWork { size: Bytes(10), count: 20_000, workers: 2, ..FilesWork::default() };
    run(&only(&work, FileOp::Create), &mut tree);
    // In which no machine makes 20,000 system calls.
    let renamed = run_until(&Stop { max_ns: 1_000_000, ..LONG }, &only(&work, FileOp::Rename), &mut tree, 7);
    let done = count(&renamed, OpClass::Rename);
    assert_eq!(renamed.ended, Ended::Time);
    let stat = run(&only(&work, FileOp::Stat), &mut tree);
    assert_eq!((count(&stat, OpClass::Stat), stat.errors.len()), (20_000, 0), "after {done} were renamed");
    assert_eq!(count(&run(&only(&work, FileOp::Delete), &mut tree), OpClass::Delete), 20_000);
}

#[test]
fn second_names_are_gone_after_they_were_given() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let work = FilesWork { count: 100, per_dir: 30, ..FilesWork::default() };
    run(&only(&work, FileOp::Create), &mut tree);
    let before = files(dir.path());
    assert_eq!(count(&run(&only(&work, FileOp::Link), &mut tree), OpClass::Link), 100);
    assert_eq!(files(dir.path()), before);
}

#[test]
fn syncs_are_inside_the_operations_they_belong_to_and_counted() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let fsync = FilesSync { files: true, dir: true, end: true };
    let work = FilesWork { size: Bytes(100), count: 40, per_dir: 15, fsync, ..FilesWork::default() };
    let made = run(&only(&work, FileOp::Create), &mut tree);
    assert_eq!(made.requests.syncs, 81, "a file and a directory each, and all at the end");
    let stream = &made.streams[0];
    let sync = stream.sync_part.as_ref().unwrap();
    assert!(sync.count() == 40 && sync.sum_ns() <= stream.lat.sum_ns());
    assert!(made.end_fsync_ns > 0 && made.end_fsync_ns < made.runtime_ns);
    let stat = run(&only(&work, FileOp::Stat), &mut tree);
    assert_eq!((stat.requests.syncs, stat.streams[0].sync_part.is_none()), (1, true), "nothing changes but the end");
    assert_eq!(run(&only(&work, FileOp::Delete), &mut tree).requests.syncs, 41);
}

#[test]
fn one_large_file_is_written_rewritten_read_and_sought_in() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let work = FilesWork { size: Bytes::mib(4), chunk: Bytes::kib(8), workers: 3, seeks: 1000, ..FilesWork::default() };
    let written = run(&only(&work, FileOp::BlockWrite), &mut tree);
    assert_eq!(
        (count(&written, OpClass::Write), written.requests.write_bytes, written.requests.syncs),
        (512, 4 << 20, 1)
    );
    assert!(written.end_fsync_ns > 0);
    let content = || std::fs::read(dir.path().join("block")).unwrap();
    let first = content();
    assert_eq!(first.len(), 4 << 20);
    let pieces: BTreeSet<&[u8]> = first.chunks(4096).collect();
    assert_eq!(pieces.len(), 1024, "no two blocks are alike");
    let rewritten = run_until(&LONG, &only(&work, FileOp::BlockRewrite), &mut tree, 8);
    assert_eq!(
        (count(&rewritten, OpClass::Rewrite), rewritten.requests.reads, rewritten.requests.writes),
        (512, 512, 512)
    );
    let second = content();
    let changed = |a: &[u8], b: &[u8]| a.chunks(8192).zip(b.chunks(8192)).filter(|(a, b)| a != b).count();
    assert_eq!(changed(&first, &second), 512, "every chunk was changed");
    assert_eq!(first.iter().zip(&second).filter(|(a, b)| a != b).count().div_ceil(512), 8, "one word of each");
    let read = run(&only(&work, FileOp::BlockRead), &mut tree);
    assert_eq!((count(&read, OpClass::Read), read.requests.read_bytes, read.requests.writes), (512, 4 << 20, 0));
    let sought = run(&only(&work, FileOp::Seek), &mut tree);
    assert_eq!((count(&sought, OpClass::Seek), sought.requests.reads, sought.ended), (1000, 1000, Ended::Done));
    assert!((100..=102).contains(&sought.requests.writes), "every tenth of each of three: {}", sought.requests.writes);
}

#[test]
fn what_needs_files_says_so_where_there_are_none() {
    let dir = tempfile::tempdir().unwrap();
    for op in [FileOp::Stat, FileOp::Seek] {
        let work = only(&FilesWork { size: Bytes(8192), chunk: Bytes(8192), count: 1, ..FilesWork::default() }, op);
        let mut watch = |_: &Progress<'_>| Decision::Continue;
        let cancel = AtomicBool::new(false);
        let outcome = run_files(&work, &LONG, &mut Tree::new(dir.path()), 1, ThreadCost::default, &cancel, &mut watch);
        assert!(outcome.unwrap_err().to_string().contains("no earlier step"), "{op:?}");
    }
}

#[test]
fn a_cancelled_step_stops_and_what_it_made_is_still_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let work = only(&FilesWork { count: 1_000_000, ..FilesWork::default() }, FileOp::Create);
    let cancel = AtomicBool::new(false);
    let mut watch = |_: &Progress<'_>| {
        let has_begun = !files(dir.path()).is_empty();
        cancel.store(has_begun, std::sync::atomic::Ordering::Relaxed);
        Decision::Continue
    };
    let outcome = run_files(&work, &LONG, &mut tree, 1, ThreadCost::default, &cancel, &mut watch).unwrap();
    let made = count(&outcome, OpClass::Create);
    assert!(outcome.ended == Ended::Interrupted && made > 0 && made < 1_000_000, "{made}, {:?}", outcome.ended);
    assert_eq!(files(dir.path()).len() as u64, made);
    assert_eq!(count(&run(&only(&work, FileOp::Stat), &mut tree), OpClass::Stat), made, "each is found again");
}
