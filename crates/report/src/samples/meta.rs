//! Runs of `qd1 meta`: file operations of which one was cut, and bonnie++'s job.

use qd1_model::part::Part;

use qd1_model::meta::{Meta, MetaRow};
use qd1_model::op::Ended;
use qd1_model::plan::{FileOp, FileOrder, FilesSync, FilesWork, StepPlan, Work};
use qd1_model::{Bytes, Estimate, Report, Subject};

use super::slow_vps;

fn near(value: f64) -> Estimate {
    Estimate { low: Some(value * 0.95), high: Some(value * 1.05), ..Estimate::exact(value, 20_000) }
}

/// A row of `work`'s one operation: 20,000 a second, 100 MB/s.
fn row(name: &str, work: &FilesWork) -> MetaRow {
    let op = work.ops[0];
    let sync = work.fsync.each() && op.changes_directory();
    MetaRow {
        step: name.to_owned(),
        op,
        order: work.order,
        ios: 20_000,
        wanted: if op == FileOp::List { 0 } else { 20_000 },
        errors: 0,
        ended: Ended::Done,
        elapsed_ns: 1_000_000_000,
        seen_per_second: 20_000.0,
        seen_bytes_per_second: 100e6,
        per_second: near(20_000.0),
        bytes_per_second: (!op.class().moves_nothing()).then(|| near(100e6)),
        lat_p50_ns: near(45_000.0),
        lat_p99_ns: near(210_000.0),
        lat_max_ns: 3_000_000,
        sync_p50_ns: sync.then(|| near(31_000.0)),
        sync_p99_ns: sync.then(|| near(180_000.0)),
        cpu_share: 0.81,
    }
}

fn report(suite: &str, subject: Subject, works: Vec<(&str, FilesWork)>) -> Report {
    let mut report = slow_vps();
    let stop = report.record.plan.steps[0].stop;
    report.record.plan.suite = suite.to_owned();
    report.record.plan.subject = subject;
    report.record.command = ["qd1", "meta", "/srv/data"].map(String::from).to_vec();
    report.record.plan.skipped.clear();
    report.verdicts.clear();
    report.impressions.clear();
    report.durability = None;
    report.findings.clear();
    report.parts.push(Part::Meta(Meta { rows: works.iter().map(|(name, work)| row(name, work)).collect() }));
    report.summary.steps.truncate(works.len());
    report.record.steps.truncate(works.len());
    for (at, (name, _)) in works.iter().enumerate().take(report.record.steps.len()) {
        report.record.steps[at].name = (*name).to_owned();
        report.summary.steps[at].name = (*name).to_owned();
    }
    let plan = |(name, work): (&str, FilesWork)| StepPlan {
        name: name.to_owned(),
        title: name.to_owned(),
        work: Work::Files(work),
        background: Vec::new(),
        stop,
        visits: 1,
        writes_max: Bytes(0),
    };
    report.record.plan.steps = works.into_iter().map(plan).collect();
    report
}

/// With fsync, in both orders; time was up while files were deleted.
pub fn meta() -> Report {
    let work = |op, order| FilesWork {
        size: Bytes::kib(64),
        size_spread: Bytes::kib(63),
        count: 20_000,
        per_dir: 1000,
        workers: 2,
        fsync: FilesSync { files: true, dir: true, end: false },
        ops: vec![op],
        order,
        ..FilesWork::default()
    };
    let (seq, rand) = (FileOrder::Sequential, FileOrder::Random);
    let mut report = report(
        "meta",
        Subject::Meta,
        vec![
            ("seq-create", work(FileOp::Create, seq)),
            ("seq-list", work(FileOp::List, seq)),
            ("rand-create", work(FileOp::Create, rand)),
            ("rand-delete", work(FileOp::Delete, rand)),
        ],
    );
    let cut = report.part_mut::<qd1_model::meta::Meta>().unwrap().rows.last_mut().unwrap();
    (cut.ended, cut.elapsed_ns, cut.ios) = (Ended::Time, 20_000_000_000, 11_200);
    cut.lat_p99_ns = Estimate { n: 90, n_needed: 368, ..Estimate::default() };
    report
}

/// bonnie++'s job, its stat of files too short for a figure.
pub fn bonnie() -> Report {
    let block = |op, workers| FilesWork {
        size: Bytes::gib(2),
        chunk: Bytes::kib(8),
        ops: vec![op],
        workers,
        seeks: 8192,
        ..FilesWork::default()
    };
    let many = |op, order| FilesWork {
        count: 16_384,
        ops: vec![op],
        order,
        fsync: FilesSync { end: op != FileOp::StatRead, ..FilesSync::default() },
        ..FilesWork::default()
    };
    let mut report = report(
        "bonnie",
        Subject::Bonnie,
        vec![
            ("block-write", block(FileOp::BlockWrite, 1)),
            ("block-rewrite", block(FileOp::BlockRewrite, 1)),
            ("block-read", block(FileOp::BlockRead, 1)),
            ("seeks", FilesWork { order: FileOrder::Random, ..block(FileOp::Seek, 5) }),
            ("seq-create", many(FileOp::Create, FileOrder::Listed)),
            ("seq-stat", many(FileOp::StatRead, FileOrder::Listed)),
            ("rand-delete", many(FileOp::Delete, FileOrder::Random)),
        ],
    );
    let rows = &mut report.part_mut::<qd1_model::meta::Meta>().unwrap().rows;
    rows.iter_mut().filter(|row| row.op == FileOp::StatRead).for_each(|row| row.elapsed_ns = 40_000_000);
    report
}
