//! Ways to make writes durable, compared: which is fastest, how it depends on size, committers and layout, and
//! which settings of programs use it.
//!
//! The purpose of a step follows from its plan. Steps that do the same are passes over one row: their operations are
//! merged, and an interval covers the differences between passes. A method is better than another beyond doubt if the
//! intervals of their rates do not overlap.

mod settings;
#[cfg(test)]
mod tests;

use qd1_model::hist::Hist;
use qd1_model::op::OpClass;
use qd1_model::plan::{FileUse, FilesWork, IoWork, Plan, Sync, Work};
use qd1_model::record::{Interval, StepRecord};
use qd1_model::sync::{SyncFiles, SyncLayout, SyncMethod, SyncRow, SyncTable};
use qd1_model::{Estimate, Record, Subject};

use crate::sweep::between_passes;
use qd1_stats::sigma;
use qd1_stats::{self as stats, Quantiles};

const CLASS: OpClass = OpClass::Commit;

/// The table of a run of `qd1 sync`; `None` for other runs.
#[must_use]
pub fn table(record: &Record) -> Option<SyncTable> {
    if record.plan.subject != Subject::Sync {
        return None;
    }
    let rows = rows(&record.plan, &record.steps);
    let block = common_block(&rows);
    let (best, tied) = best(&rows, block).map_or((None, Vec::new()), |(best, tied)| (Some(best), tied));
    let files = files(record);
    let settings = settings::settings(&rows, &files, block);
    Some(SyncTable { block, rows, files, best, tied, settings })
}

/// The method for the further steps: the best so far, or fdatasync through the page cache if that cannot be
/// distinguished from it, since most programs use it already. Absent until a durable one has been measured.
#[must_use]
pub fn choice(plan: &Plan, done: &[StepRecord]) -> Option<SyncMethod> {
    let rows = rows(plan, done);
    let (best, tied) = best(&rows, common_block(&rows))?;
    let usual = SyncMethod { sync: Sync::Fdatasync, direct: false };
    Some(if tied.contains(&usual) { usual } else { best })
}

/// One row for each combination, in the order of the plan.
fn rows(plan: &Plan, done: &[StepRecord]) -> Vec<SyncRow> {
    let mut groups: Vec<(&IoWork, Vec<&StepRecord>)> = Vec::new();
    for step in &plan.steps {
        let (Work::Io(io), Some(record)) = (&step.work, done.iter().find(|record| record.name == step.name)) else {
            continue;
        };
        let measured = record.stream(CLASS).is_some_and(|stream| stream.lat.count() > 0);
        // Commits under load are a separate case.
        if !io.sync.commits() || !measured || !step.background.is_empty() {
            continue;
        }
        match groups.iter_mut().find(|(known, _)| key(known) == key(io)) {
            Some((_, steps)) => steps.push(record),
            None => groups.push((io, vec![record])),
        }
    }
    groups.iter().map(|(io, steps)| row(io, steps)).collect()
}

/// What makes two steps passes over the same row.
fn key(io: &IoWork) -> (SyncMethod, u32, u32, u32, bool, SyncLayout) {
    let committers = io.in_flight();
    (method(io), io.writes_per_sync, io.block_max(), committers, shared(io), layout(io))
}

fn method(io: &IoWork) -> SyncMethod {
    SyncMethod { sync: io.sync, direct: io.direct }
}

/// Several committers on the one test file; a single one has the file to itself.
fn shared(io: &IoWork) -> bool {
    io.file == FileUse::Shared && io.in_flight() > 1
}

fn layout(io: &IoWork) -> SyncLayout {
    match io.file {
        FileUse::Shared | FileUse::Own => SyncLayout::Overwrite,
        FileUse::Allocated => SyncLayout::Preallocated,
        FileUse::Empty => SyncLayout::Append,
    }
}

fn row(io: &IoWork, steps: &[&StepRecord]) -> SyncRow {
    let (mut lat, mut sync_part, mut has_sync) = (Hist::new(), Hist::new(), false);
    for stream in steps.iter().filter_map(|step| step.stream(CLASS)) {
        lat.merge(&stream.lat);
        if let Some(part) = &stream.sync_part {
            sync_part.merge(part);
            has_sync = true;
        }
    }
    let intervals: Vec<Interval> = steps.iter().flat_map(|step| step.intervals.iter().cloned()).collect();
    let passes: Vec<(f64, Option<f64>)> = steps
        .iter()
        .map(|step| stats::rate(&step.intervals, CLASS))
        .map(|rate| (rate.value.unwrap_or(0.0), sigma(&rate)))
        .collect();
    let quantiles = Quantiles::new(&lat, &intervals, CLASS);
    let of_sync = has_sync.then(|| Quantiles::new(&sync_part, &intervals, CLASS));
    SyncRow {
        method: method(io),
        durable: io.sync.is_durable(),
        writes_per_sync: io.writes_per_sync,
        block: io.block_max(),
        committers: io.in_flight(),
        shared: shared(io),
        layout: layout(io),
        steps: steps.iter().map(|step| step.name.clone()).collect(),
        commits_per_second: between_passes(stats::rate(&intervals, CLASS), &passes),
        lat_mean_ns: stats::mean(&lat, &intervals, CLASS),
        lat_p50_ns: quantiles.at(0.5),
        lat_p99_ns: quantiles.at(0.99),
        sync_p50_ns: of_sync.as_ref().map(|quantiles| quantiles.at(0.5)),
        sync_p99_ns: of_sync.as_ref().map(|quantiles| quantiles.at(0.99)),
    }
}

/// The size at which most methods were measured.
fn common_block(rows: &[SyncRow]) -> u32 {
    let count = |block: u32| rows.iter().filter(|row| row.block == block).count();
    rows.iter().map(|row| row.block).max_by_key(|block| count(*block)).unwrap_or(0)
}

/// Whether a row compares methods: one committer, one write per commit, over written data.
fn compares(row: &SyncRow, block: u32) -> bool {
    row.block == block && row.committers == 1 && row.writes_per_sync == 1 && row.layout == SyncLayout::Overwrite
}

/// The durable method with the highest rate, and those that may be equally good.
fn best(rows: &[SyncRow], block: u32) -> Option<(SyncMethod, Vec<SyncMethod>)> {
    let candidates = || rows.iter().filter(|row| row.durable && compares(row, block));
    let rate = |row: &SyncRow| row.commits_per_second.value.unwrap_or(0.0);
    let best = candidates().max_by(|a, b| rate(a).total_cmp(&rate(b)))?;
    let others = candidates().filter(|row| row.method != best.method);
    let tied = others.filter(|row| !is_above(&best.commits_per_second, &row.commits_per_second));
    Some((best.method, tied.map(|row| row.method).collect()))
}

/// Whether `a` is above `b` beyond doubt: without an interval there is always doubt.
fn is_above(a: &Estimate, b: &Estimate) -> bool {
    matches!((a.low, b.high), (Some(low), Some(high)) if low > high)
}

fn files(record: &Record) -> Vec<SyncFiles> {
    let of = |step: &StepRecord| {
        let plan = record.plan.steps.iter().find(|plan| plan.name == step.name)?;
        match &plan.work {
            Work::Files(work) if !work.sync.is_none() => files_of(work, step),
            _ => None,
        }
    };
    record.steps.iter().filter_map(of).collect()
}

fn files_of(work: &FilesWork, step: &StepRecord) -> Option<SyncFiles> {
    let create = step.stream(OpClass::Create)?;
    let quantiles = Quantiles::new(&create.lat, &step.intervals, OpClass::Create);
    let part = |part: &Hist, class: OpClass, q: f64| stats::quantile_of_part(part, &step.intervals, class, q);
    Some(SyncFiles {
        sync: work.sync,
        size: work.size,
        step: step.name.clone(),
        files_per_second: stats::rate(&step.intervals, OpClass::Create),
        create_p50_ns: quantiles.at(0.5),
        create_p99_ns: quantiles.at(0.99),
        sync_p50_ns: create.sync_part.as_ref().map(|hist| part(hist, OpClass::Create, 0.5)),
        delete_p50_ns: step.stream(OpClass::Delete).map(|stream| part(&stream.lat, OpClass::Delete, 0.5)),
    })
}
