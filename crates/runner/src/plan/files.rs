//! Jobs on files: fills their defaults, refuses contradictory keys, and checks that the filesystem has room for that
//! many.

use anyhow::Result;
use qd1_model::Bytes;
use qd1_model::plan::{FileOp, FilesWork, Plan, Skipped, StepPlan, Work};
use qd1_model::spec::FilesJob;

use crate::place::Place;
use qd1_model::{Problem, ProblemKind};

/// Default bytes of one read or write: a file larger than this is written in pieces.
const CHUNK: Bytes = Bytes::mib(1);
/// The same for operations on one large file: the block size of bonnie++.
const BLOCK: Bytes = Bytes::kib(8);
/// Largest chunk: more is surely a mistake, and would take memory for each worker.
const CHUNK_MAX: Bytes = Bytes::mib(64);
/// Default number of random reads: as many as bonnie++ makes.
const SEEKS: u64 = 8192;
/// Most workers: more are surely a mistake.
const WORKERS_MAX: u32 = 1024;

/// Returns the work of the job called `name`.
///
/// # Errors
/// When a key is out of range or contradicts another; the message names the job and the key.
pub(super) fn work(name: &str, job: &FilesJob) -> Result<FilesWork> {
    let refuse = |why: String| Err(Problem::usage(format!("{name}: {why}")).into());
    let ops = job.ops.clone().unwrap_or_else(|| FilesWork::default().ops);
    let blocks = ops.iter().any(|op| op.is_block());
    if ops.is_empty() || (blocks && !ops.iter().all(|op| op.is_block())) {
        return refuse("ops must list operations either on many files or on one large file".to_owned());
    }
    if !job.sync.is_none() {
        return durable(name, job);
    }
    let smallest = job.size_min.unwrap_or(job.size);
    if smallest > job.size {
        return refuse(format!("the smallest file, {smallest}, is larger than the largest, {}", job.size));
    }
    let workers = job.workers.unwrap_or(1);
    if !(1..=WORKERS_MAX).contains(&workers) {
        return refuse(format!("workers must be between 1 and {WORKERS_MAX}, not {workers}"));
    }
    let chunk = match job.chunk {
        None if blocks => BLOCK,
        None if job.size > CHUNK => CHUNK,
        None => Bytes(0),
        Some(chunk) => chunk,
    };
    if chunk > CHUNK_MAX || (chunk.0 < 8 && (blocks || job.chunk.is_some())) {
        return refuse(format!("chunk must be between 8 B and {CHUNK_MAX}, not {chunk}"));
    }
    if blocks && job.size.0 < chunk.0 {
        return refuse(format!("a file of {} is smaller than a chunk of {chunk}", job.size));
    }
    if !blocks && job.count == 0 {
        return refuse("count must be at least 1".to_owned());
    }
    Ok(FilesWork {
        size: job.size,
        count: job.count,
        size_spread: Bytes(job.size.0 - smallest.0),
        per_dir: job.per_dir.unwrap_or(0),
        workers,
        sync: job.sync,
        fsync: job.fsync.unwrap_or_default(),
        chunk,
        order: job.order.unwrap_or_default(),
        long_names: job.long_names.unwrap_or(false),
        seeks: if ops.contains(&FileOp::Seek) { job.seeks.unwrap_or(SEEKS) } else { 0 },
        ops,
    })
}

/// Returns the work of a job that makes one file after another durable and removes it again.
fn durable(name: &str, job: &FilesJob) -> Result<FilesWork> {
    let refuse = |why: String| Err(Problem::usage(format!("{name}: {why}")).into());
    let FilesJob { size, count, sync, size_min, per_dir, workers, fsync, chunk, ops, order, long_names, seeks } = job;
    let others = [
        ("size_min", size_min.is_some()),
        ("per_dir", per_dir.is_some()),
        ("workers", workers.is_some()),
        ("fsync", fsync.is_some()),
        ("chunk", chunk.is_some()),
        ("ops", ops.is_some()),
        ("order", order.is_some()),
        ("long_names", long_names.is_some()),
        ("seeks", seeks.is_some()),
    ];
    if let Some((key, _)) = others.iter().find(|(_, given)| *given) {
        return refuse(format!("with sync, files are created and removed one at a time; leave out {key} or sync"));
    }
    if *size > CHUNK_MAX {
        return refuse(format!(
            "with sync, each file is written in one piece: size must be at most {CHUNK_MAX}, not {size}"
        ));
    }
    if *count == 0 {
        return refuse("count must be at least 1".to_owned());
    }
    Ok(FilesWork { size: *size, count: *count, sync: *sync, ..FilesWork::default() })
}

/// Refuses steps whose files no earlier step creates.
///
/// # Errors
/// When there is such a step; the message names it.
pub(super) fn in_order(steps: &[StepPlan]) -> Result<()> {
    let (mut many, mut block) = (false, false);
    for step in steps {
        let Work::Files(work) = &step.work else { continue };
        for op in &work.ops {
            let exists = if op.is_block() { &mut block } else { &mut many };
            match op {
                FileOp::Create | FileOp::BlockWrite => *exists = true,
                _ if *exists => *exists = *op != FileOp::Delete,
                _ => {
                    let maker = if op.is_block() { FileOp::BlockWrite } else { FileOp::Create };
                    let (name, op, maker) = (&step.name, op.name(), maker.name());
                    let message = format!("{name}: {op} needs files, but no earlier step creates any ({maker})");
                    return Err(Problem::usage(message).into());
                }
            }
        }
    }
    Ok(())
}

/// Leaves out steps with more files than the filesystem has inodes for; a tenth of the inodes stay free.
///
/// # Errors
/// When no other step would be left; the message has the inodes needed and those available.
pub(super) fn fit(plan: &mut Plan, place: &Place) -> Result<()> {
    let Some(inodes) = place.filesystem.inodes else { return Ok(()) };
    let leave = inodes.total / 10;
    let usable = inodes.available.saturating_sub(leave);
    let needed = |step: &StepPlan| match &step.work {
        Work::Files(files) => files.inodes(),
        Work::Io(_) | Work::App(_) => 1,
    };
    let most = plan.steps.iter().map(needed).max().unwrap_or(0);
    if most <= usable {
        return Ok(());
    }
    if plan.steps.iter().any(|step| needed(step) <= usable && matches!(step.work, Work::Io(_))) {
        let (kept, left_out) = std::mem::take(&mut plan.steps).into_iter().partition(|step| needed(step) <= usable);
        plan.steps = kept;
        let why = format!("the filesystem has inodes for {usable} more files");
        let skipped = |step: StepPlan| Skipped::because(&step.name, &why);
        plan.skipped.extend(Vec::into_iter(left_out).map(skipped));
        return Ok(());
    }
    let message = format!(
        "not enough inodes in {}: the test needs {most}, but only {usable} may be used ({} are free, and {leave} must \
         stay free); remove files there, or ask for fewer",
        place.path.display(),
        inodes.available
    );
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(keys: &str) -> Result<FilesWork> {
        work("a", &toml::from_str(keys).unwrap())
    }

    #[test]
    fn size_and_count_alone_leave_all_other_keys_at_their_defaults() {
        let work = job("size = \"4KiB\"\ncount = 20000").unwrap();
        assert_eq!(work, FilesWork { size: Bytes::kib(4), count: 20_000, ..FilesWork::default() });
    }

    #[test]
    fn large_files_are_written_in_pieces_and_blocks_as_by_bonnie() {
        assert_eq!(job("size = \"10GiB\"\ncount = 2").unwrap().chunk, CHUNK);
        let work = job("size = \"1GiB\"\ncount = 1\nops = [\"block_write\", \"seek\"]").unwrap();
        assert_eq!((work.chunk, work.seeks), (BLOCK, SEEKS));
    }

    #[test]
    fn keys_out_of_range_are_refused_by_name() {
        for (keys, word) in [
            ("size = \"4k\"\ncount = 0", "count must be at least 1"),
            ("size = \"4k\"\nsize_min = \"8k\"\ncount = 1", "larger than the largest"),
            ("size = \"4k\"\ncount = 1\nworkers = 0", "workers"),
            ("size = \"4k\"\ncount = 1\nchunk = \"1GiB\"", "chunk"),
            ("size = \"4k\"\ncount = 1\nops = [\"create\", \"seek\"]", "either on many files"),
            ("size = \"4k\"\ncount = 1\nops = [\"block_write\"]", "smaller than a chunk"),
            ("size = \"4k\"\ncount = 1\nsync = \"fsync\"\nworkers = 4", "leave out workers"),
            ("size = \"5GiB\"\ncount = 1\nsync = \"fsync\"", "written in one piece"),
            ("size = \"4k\"\ncount = 0\nsync = \"fsync\"", "count must be at least 1"),
        ] {
            let error = job(keys).unwrap_err().to_string();
            assert!(error.starts_with("a: ") && error.contains(word), "{error}");
        }
    }
}
