//! File operations as a table: a row for each step that does one thing with files.

use qd1_model::meta::{Meta, MetaRow};
use qd1_model::op::OpClass;
use qd1_model::plan::{FileOp, FilesWork, StepPlan, Work};
use qd1_model::record::{Record, StepRecord};
use qd1_model::{StepSummary, Summary};

/// The table; `None` for runs in which no step does only one thing with files.
#[must_use]
pub fn table(record: &Record, summary: &Summary) -> Option<Meta> {
    let one_thing = |step: &StepPlan| match &step.work {
        Work::Files(files) if files.ops.len() == 1 => Some((files.clone(), files.ops[0])),
        _ => None,
    };
    let rows: Vec<MetaRow> = record
        .plan
        .steps
        .iter()
        .filter_map(|plan| {
            let (files, op) = one_thing(plan)?;
            let summed = summary.steps.iter().find(|step| step.name == plan.name)?;
            row(record, record.step(&plan.name)?, summed, &files, op)
        })
        .collect();
    (!rows.is_empty()).then_some(Meta { rows })
}

/// One step's row; `None` if nothing succeeded.
fn row(record: &Record, step: &StepRecord, summed: &StepSummary, files: &FilesWork, op: FileOp) -> Option<MetaRow> {
    let stream = summed.streams.iter().find(|stream| stream.class == op.class())?;
    let seconds = step.runtime_ns.max(1) as f64 / 1e9;
    let bytes: u64 = step.streams.iter().map(|stream| stream.bytes.0).sum();
    let moves = !op.class().moves_nothing() && bytes > 0;
    Some(MetaRow {
        step: step.name.clone(),
        op,
        order: files.order,
        ios: stream.ios,
        wanted: wanted(record, step, files, op),
        errors: summed.errors,
        ended: step.ended,
        elapsed_ns: step.runtime_ns,
        seen_per_second: stream.ios as f64 / seconds,
        seen_bytes_per_second: bytes as f64 / seconds,
        per_second: stream.iops,
        bytes_per_second: moves.then_some(stream.bytes_per_second),
        lat_p50_ns: stream.lat_p50_ns,
        lat_p99_ns: stream.lat_p99_ns,
        lat_max_ns: stream.lat_max_ns,
        sync_p50_ns: stream.sync_p50_ns,
        sync_p99_ns: stream.sync_p99_ns,
        cpu_share: (step.cost.user_ns + step.cost.system_ns) as f64 / step.runtime_ns.max(1) as f64,
    })
}

/// The number of operations to do: for files made before, as many as there were.
fn wanted(record: &Record, step: &StepRecord, files: &FilesWork, op: FileOp) -> u64 {
    let chunks = files.size.0 / files.chunk.0.max(1);
    match op {
        FileOp::Create => files.count,
        FileOp::BlockWrite | FileOp::BlockRewrite | FileOp::BlockRead => chunks,
        FileOp::Seek => files.seeks,
        // Only time decides how often directories are read.
        FileOp::List => 0,
        _ => {
            let before = record.steps.iter().take_while(|other| other.name != step.name);
            before.filter_map(|other| other.stream(OpClass::Create)).last().map_or(0, |made| made.lat.count())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::environment::ThreadCost;
    use qd1_model::plan::{Rw, Sync};

    /// Two seconds of `op` by two workers, 1,000 a second, half a processor each.
    fn measured(op: FileOp) -> Record {
        let mut record = testing::empty();
        let step = testing::step(&mut record, "one", testing::io(Rw::Write, 4096, Sync::None, false), 100, 2_000_000);
        step.streams[0].class = op.class();
        step.intervals.iter_mut().for_each(|interval| interval.streams[0].class = op.class());
        step.cost = ThreadCost { user_ns: step.runtime_ns / 4, system_ns: step.runtime_ns * 3 / 4, ..step.cost };
        let work = FilesWork { count: 5000, workers: 2, ops: vec![op], ..FilesWork::default() };
        record.plan.steps[0].work = Work::Files(work);
        record
    }

    fn row_of(record: &Record) -> MetaRow {
        table(record, &crate::summarize(record)).unwrap().rows.remove(0)
    }

    #[test]
    fn a_steps_rate_is_that_of_all_its_workers_over_its_time() {
        let record = measured(FileOp::Create);
        let row = row_of(&record);
        let seconds = record.steps[0].runtime_ns as f64 / 1e9;
        let expected = row.ios as f64 / seconds;
        assert!((row.per_second.value.unwrap() / expected - 1.0).abs() < 0.01, "{row:?}");
        assert_eq!(row.seen_per_second, expected);
        assert_eq!((row.wanted, row.cpu_share), (5000, 1.0));
        assert!(row.lat_p50_ns.is_resolved() && row.bytes_per_second.is_some());
    }

    #[test]
    fn what_moves_no_bytes_has_no_throughput_and_lists_have_no_end() {
        let row = row_of(&measured(FileOp::List));
        assert_eq!((row.bytes_per_second, row.wanted), (None, 0));
    }

    #[test]
    fn a_throughput_that_is_not_resolved_is_there_and_says_so() {
        let mut record = measured(FileOp::Create);
        // Nothing is known about how it varied.
        record.steps[0].intervals.clear();
        let row = row_of(&record);
        assert!(row.bytes_per_second.is_some_and(|rate| rate.value.is_none()), "{row:?}");
    }

    #[test]
    fn other_runs_have_no_table() {
        let record = testing::record();
        assert_eq!(table(&record, &crate::summarize(&record)), None);
        let mut classic = measured(FileOp::Create);
        classic.plan.steps[0].work = Work::Files(FilesWork { count: 10, ..FilesWork::default() });
        assert_eq!(table(&classic, &crate::summarize(&classic)), None);
    }
}
