//! Estimates how long the operations will take from a trial with a few files: the plan has only the longest time, which
//! a disk hardly ever needs.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use qd1_clock as clock;
use qd1_model::plan::{FileOp, FilesWork, Plan, Work};
use qd1_system::scratch::Scratch;

/// What a step takes in addition to its operations: counters are read, directories made and opened.
const STEP_NS: u64 = 100_000_000;
/// How many times as long each file takes if there are many instead of a few.
const MANY: f64 = 1.5;
/// Limits of the trial: number of files, size of each, and size of all together; see `LONGEST` for the time.
const FILES: u64 = 2000;
const FILE_MAX: u64 = 1 << 20;
const BYTES_MAX: u64 = 16 << 20;
/// Most bytes written of a large file.
const LARGE_MAX: u64 = 64 << 20;
/// Assumed time of a random read: there is no file yet to try one on.
const SEEK_NS: f64 = 200_000.0;
/// Longest time of each operation in the trial.
const LONGEST: Duration = Duration::from_millis(500);

/// Returns how long the plan's operations on files will take, ns; `None` if the plan has other operations, or nothing
/// can be tried within the space that the plan states.
pub(super) fn estimate(plan: &Plan, id: &str, cancel: &AtomicBool) -> Option<u64> {
    let works: Vec<&FilesWork> = plan
        .steps
        .iter()
        .map(|step| match &step.work {
            Work::Files(work) => Some(work),
            _ => None,
        })
        .collect::<Option<_>>()?;
    let is_large = |work: &&&FilesWork| work.ops.iter().any(|op| op.is_block());
    let path = &plan.target.path;
    let times = match works.iter().find(|work| !is_large(work)) {
        Some(work) => Times::of(work, path, id, cancel).ok()??,
        None => Times::default(),
    };
    let byte_ns = match works.iter().find(is_large) {
        Some(work) => byte_ns(work, path, id, cancel).ok()?,
        None => 0.0,
    };
    let step = |(work, longest_ns): (&&FilesWork, u64)| {
        let of_op = |op: &FileOp| match op {
            FileOp::BlockWrite | FileOp::BlockRead => byte_ns * work.size.0 as f64,
            FileOp::BlockRewrite => 2.0 * byte_ns * work.size.0 as f64,
            FileOp::Seek => SEEK_NS * work.seeks as f64,
            op => MANY * times.of_op(*op) * work.count as f64,
        };
        let ops: f64 = work.ops.iter().map(of_op).sum();
        let end = if work.fsync.end { MANY * times.end_ns * work.ops.len() as f64 } else { 0.0 };
        ((ops / f64::from(work.workers.max(1)).sqrt() + end) as u64).min(longest_ns) + STEP_NS
    };
    Some(works.iter().zip(plan.steps.iter().map(|step| step.duration_max_ns())).map(step).sum())
}

/// Returns how long it takes to write and sync each byte of a large file, ns.
fn byte_ns(work: &FilesWork, path: &Path, id: &str, cancel: &AtomicBool) -> Result<f64> {
    let scratch = Scratch::create(path, &format!("{id}-trial"))?;
    let mut file = File::create_new(scratch.path().join("large"))?;
    let chunk = vec![0x5a_u8; usize::try_from(work.chunk.0.clamp(4096, FILE_MAX))?];
    let (begin_ns, mut written) = (clock::now_ns(), 0_u64);
    while written < work.size.0.min(LARGE_MAX)
        && !cancel.load(Ordering::Relaxed)
        && clock::now_ns() - begin_ns < LONGEST.as_nanos() as u64
    {
        file.write_all(&chunk)?;
        written += chunk.len() as u64;
    }
    file.sync_data()?;
    Ok((clock::now_ns() - begin_ns) as f64 / written.max(1) as f64)
}

/// How long each operation takes, ns.
#[derive(Default)]
struct Times {
    create_ns: f64,
    stat_ns: f64,
    open_ns: f64,
    list_ns: f64,
    rename_ns: f64,
    link_ns: f64,
    delete_ns: f64,
    /// A sync of everything.
    end_ns: f64,
}

impl Times {
    /// Tries all of them in a separate directory.
    fn of(work: &FilesWork, path: &Path, id: &str, cancel: &AtomicBool) -> Result<Option<Self>> {
        let size = work.size.0 - work.size_spread.0 / 2;
        let most = FILES.min(work.count).min(BYTES_MAX / size.max(1));
        if size > FILE_MAX || most == 0 {
            return Ok(None);
        }
        let is_over =
            |begin_ns: u64| cancel.load(Ordering::Relaxed) || clock::now_ns() - begin_ns >= LONGEST.as_nanos() as u64;
        let scratch = Scratch::create(path, &format!("{id}-trial"))?;
        let dir = scratch.path();
        let handle = File::open(dir)?;
        let data = vec![0x5a_u8; usize::try_from(size)?];
        let name = |at: u64| dir.join(format!("f{at:08}"));
        let mut count = 0;
        let begin_ns = clock::now_ns();
        while count < most && !is_over(begin_ns) {
            let mut file = File::create_new(name(count))?;
            file.write_all(&data)?;
            if work.fsync.files {
                file.sync_all()?;
            }
            if work.fsync.dir {
                handle.sync_all()?;
            }
            count += 1;
        }
        let mut times =
            Self { create_ns: (clock::now_ns() - begin_ns) as f64 / count.max(1) as f64, ..Self::default() };
        let each = |op: &dyn Fn(u64) -> std::io::Result<()>, changes: bool| -> Result<f64> {
            let begin_ns = clock::now_ns();
            let mut done = 0_u64;
            while done < count && !is_over(begin_ns) {
                op(done)?;
                if changes && work.fsync.dir {
                    handle.sync_all()?;
                }
                done += 1;
            }
            Ok((clock::now_ns() - begin_ns) as f64 / done.max(1) as f64)
        };
        times.stat_ns = each(&|at| fs::metadata(name(at)).map(drop), false)?;
        times.open_ns = each(&|at| File::open(name(at)).map(drop), false)?;
        let begin_ns = clock::now_ns();
        let listed = fs::read_dir(dir)?.count().max(1);
        times.list_ns = (clock::now_ns() - begin_ns) as f64 / listed as f64;
        times.rename_ns = each(&|at| fs::rename(name(at), name(at)), true)?.max(times.stat_ns);
        let linked = |at: u64| dir.join(format!("l{at:08}"));
        times.link_ns = each(&|at| fs::hard_link(name(at), linked(at)), true)?;
        times.delete_ns = each(&|at| fs::remove_file(name(at)), true)?;
        if work.fsync.end && !cancel.load(Ordering::Relaxed) {
            let begin_ns = clock::now_ns();
            rustix::fs::syncfs(&handle)?;
            times.end_ns = (clock::now_ns() - begin_ns) as f64;
        }
        Ok((!cancel.load(Ordering::Relaxed)).then_some(times))
    }

    /// Returns the time of an operation on one file.
    fn of_op(&self, op: FileOp) -> f64 {
        match op {
            FileOp::Create => self.create_ns,
            FileOp::Open | FileOp::StatRead => self.open_ns,
            FileOp::List => self.list_ns,
            FileOp::Rename => self.rename_ns.max(self.link_ns),
            FileOp::Link => self.link_ns,
            FileOp::Delete => self.delete_ns,
            _ => self.stat_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::Bytes;

    use super::*;

    fn tried(size: Bytes, count: u64) -> Option<Times> {
        let dir = tempfile::tempdir().unwrap();
        let work = FilesWork { size, count, ..FilesWork::default() };
        let times = Times::of(&work, dir.path(), "t", &AtomicBool::new(false)).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no files are left");
        times
    }

    /// Regression: with one planned file of 300 MiB, the trial wrote six; with one of 1.5 GiB, it held that in memory.
    #[test]
    fn the_trial_does_no_more_than_the_plan() {
        assert!(tried(Bytes::mib(300), 1).is_none());
        let times = tried(Bytes::kib(4), 1).unwrap();
        assert!(times.create_ns > 0.0 && times.delete_ns > 0.0);
    }
}
