//! A million files in the memory that ten thousand take. Alone in its file, since /proc shows the whole process.

use std::sync::atomic::AtomicBool;

use qd1_engine::files::{Tree, run_files};
use qd1_engine::run::{Decision, Progress};
use qd1_model::environment::ThreadCost;
use qd1_model::plan::{FileOp, FileOrder, FilesWork, Stop};

/// Does `op` to every file of `work`; how many succeeded.
fn done(work: &FilesWork, op: FileOp, tree: &mut Tree) -> u64 {
    let stop = Stop { min_ns: 0, max_ns: 600_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
    let work = FilesWork { ops: vec![op], ..work.clone() };
    let mut watch = |_: &Progress<'_>| Decision::Continue;
    let outcome = run_files(&work, &stop, tree, 7, ThreadCost::default, &AtomicBool::new(false), &mut watch).unwrap();
    outcome.streams.iter().map(|stream| stream.lat.count()).sum()
}

#[test]
fn memory_does_not_grow_with_the_number_of_files() {
    let peak = || {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
    };
    let dir = tempfile::tempdir().unwrap();
    let mut tree = Tree::new(dir.path());
    let files = 60_000;
    let work = FilesWork { count: files, per_dir: 1000, order: FileOrder::Random, ..FilesWork::default() };
    done(&FilesWork { count: 1000, ..work.clone() }, FileOp::Create, &mut tree);
    let before = peak();
    for op in [FileOp::Create, FileOp::Stat, FileOp::Rename, FileOp::Delete] {
        assert_eq!(done(&work, op, &mut tree), files, "{op:?}");
    }
    let grown = peak() - before;
    // 256 MB for a million files are 268 bytes for each; what histograms and buffers take does not depend on them.
    assert!(grown < 12 << 20, "{grown} bytes for {files} files");
}
