//! Files that are created, written, synced, closed and removed one after another: what a program pays for a rollback
//! journal, an e-mail or a lock file that must survive a power cut.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use qd1_model::environment::ThreadCost;
use qd1_model::op::{Ended, OpClass, RequestCounts};
use qd1_model::plan::{FileSync, FilesWork, Stop};
use qd1_model::record::IoErrors;
use rustix::fs::{AtFlags, Mode, OFlags, fsync, openat, unlinkat};
use rustix::io::{Errno, pwrite};

use crate::buf::Buffers;
use crate::error::{EngineError, errno_name};
use crate::merge::Merger;
use crate::meter::{Meter, Outbox, Parts, Timing};
use crate::run::{Decision, Outcome, Progress};
use qd1_clock as clock;

/// How often the watcher is called, ns.
const SHOW_NS: u64 = 100_000_000;
/// Failures after which it gives up.
const ERRORS_MAX: u64 = 16;
/// The only file that exists at a time.
const NAME: &str = "durable";

const LANE_CREATE: usize = 0;
const LANE_DELETE: usize = 1;

struct Run<'a> {
    dir: BorrowedFd<'a>,
    sync: FileSync,
    meter: Meter<2>,
    errors: Vec<IoErrors>,
    requests: RequestCounts,
    last_ns: u64,
}

/// When the parts of a file's creation ended, ns.
struct CreateTimes {
    written_ns: u64,
    synced_ns: u64,
}

/// Creates and removes files in `dir`, which must be empty and is left empty, until the step's time is up or enough
/// were created. A create counts from open to close, with its syncs as its sync part.
///
/// # Errors
/// When `dir` cannot be opened. Failing operations are counted in the outcome.
pub fn run_durable_files(
    work: &FilesWork,
    stop: &Stop,
    dir: &Path,
    seed: u64,
    thread_cost: fn() -> ThreadCost,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
) -> Result<Outcome, EngineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| EngineError::path("open", dir, errno))?;
    let buffers = Buffers::new(1, work.size.0 as u32, seed)?;
    let outbox: Outbox = Arc::new(Mutex::new(Vec::new()));
    let (started_ns, interval) = (clock::now_ns(), stop.interval_ns());
    let classes = [(OpClass::Create, Parts::Sync), (OpClass::Delete, Parts::None)];
    let mut run = Run {
        dir: fd.as_fd(),
        sync: work.sync,
        meter: Meter::new(classes, started_ns, interval, outbox.clone()),
        errors: Vec::new(),
        requests: RequestCounts::default(),
        last_ns: started_ns,
    };
    let before = thread_cost();
    let mut merger = Merger::default();
    let (mut made, mut shown_ns, mut ended) = (0, started_ns, Ended::Done);
    while made < work.count {
        if run.last_ns >= started_ns + stop.max_ns {
            ended = Ended::Time;
            break;
        }
        if cancel.load(Ordering::Relaxed) || run.failures() > ERRORS_MAX {
            break;
        }
        run.one(made, &buffers, work.size.0 as u32, seed);
        made += 1;
        if run.last_ns >= shown_ns + SHOW_NS {
            shown_ns = run.last_ns;
            merger.take(std::slice::from_ref(&outbox));
            watch(&Progress { elapsed_ns: run.last_ns - started_ns, intervals: merger.so_far() });
        }
    }
    if cancel.load(Ordering::Relaxed) {
        ended = Ended::Interrupted;
    } else if run.failures() > ERRORS_MAX || (run.failures() > 0 && run.requests.writes == 0) {
        ended = Ended::Failed;
    }
    let runtime_ns = (run.last_ns - started_ns).max(1);
    let streams = run.meter.finish();
    merger.take(std::slice::from_ref(&outbox));
    Ok(Outcome {
        streams,
        intervals: merger.finish(interval, runtime_ns),
        started_ns,
        runtime_ns,
        end_fsync_ns: 0,
        ended,
        errors: run.errors,
        requests: run.requests,
        cost: thread_cost().since(&before),
        caveat: String::new(),
    })
}

impl Run<'_> {
    fn failures(&self) -> u64 {
        self.errors.iter().map(|error| error.count).sum()
    }

    /// One file, from its creation to its removal.
    fn one(&mut self, number: u64, buffers: &Buffers, size: u32, seed: u64) {
        buffers.stamp(0, size, seed.wrapping_add(number));
        let begin_ns = clock::now_ns();
        let outcome = buffers.inspect(0, size as usize, |data| self.make(data));
        let closed_ns = clock::now_ns();
        self.last_ns = closed_ns;
        match outcome {
            Ok(Some(made)) => {
                self.requests.writes += 1;
                self.requests.write_bytes += u64::from(size);
                self.requests.syncs += if self.sync == FileSync::FsyncDirectory { 2 } else { 1 };
                let part_ns = made.synced_ns - made.written_ns;
                let timing = Timing { lat_ns: closed_ns - begin_ns, part_ns, completed_ns: closed_ns };
                self.meter.record(LANE_CREATE, size, &timing);
            }
            Ok(None) => self.fault("short".to_owned(), number),
            Err(errno) => self.fault(errno_name(errno), number),
        }
        // Whatever happened to it, it must not stay.
        let begin_ns = clock::now_ns();
        match unlinkat(self.dir, NAME, AtFlags::empty()) {
            Ok(()) => {
                let completed_ns = clock::now_ns();
                self.last_ns = completed_ns;
                let timing = Timing { lat_ns: completed_ns - begin_ns, part_ns: 0, completed_ns };
                self.meter.record(LANE_DELETE, 0, &timing);
            }
            // Its creation failed and was counted then.
            Err(Errno::NOENT) => {}
            Err(errno) => self.fault(errno_name(errno), number),
        }
    }

    /// Creates the file and closes it; `None` if the write was short.
    fn make(&self, data: &[u8]) -> Result<Option<CreateTimes>, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(self.dir, NAME, flags, Mode::RUSR | Mode::WUSR)?;
        if pwrite(&file, data, 0)? != data.len() {
            return Ok(None);
        }
        let written_ns = clock::now_ns();
        fsync(&file)?;
        if self.sync == FileSync::FsyncDirectory {
            fsync(self.dir)?;
        }
        Ok(Some(CreateTimes { written_ns, synced_ns: clock::now_ns() }))
    }

    fn fault(&mut self, error: String, number: u64) {
        IoErrors::once(error, number).add_to(&mut self.errors);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::units::Bytes;

    fn run(dir: &Path, sync: FileSync, count: u64) -> Outcome {
        let work = FilesWork { size: Bytes::kib(4), count, sync, ..FilesWork::default() };
        let stop = Stop { min_ns: 0, max_ns: 60_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
        let (cancel, cost) = (AtomicBool::new(false), ThreadCost::default);
        run_durable_files(&work, &stop, dir, 1, cost, &cancel, &mut |_| Decision::Continue).unwrap()
    }

    #[test]
    fn files_are_made_with_their_sync_inside_and_then_removed() {
        let dir = tempfile::tempdir().unwrap();
        for (sync, syncs) in [(FileSync::Fsync, 1), (FileSync::FsyncDirectory, 2)] {
            let outcome = run(dir.path(), sync, 20);
            assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
            assert_eq!((outcome.ended, outcome.errors.len()), (Ended::Done, 0));
            assert_eq!((outcome.requests.writes, outcome.requests.syncs), (20, 20 * syncs));
            let [create, delete] = outcome.streams.as_slice() else { panic!("{:?}", outcome.streams) };
            assert_eq!((create.class, create.lat.count()), (OpClass::Create, 20));
            assert_eq!((delete.class, delete.lat.count()), (OpClass::Delete, 20));
            assert_eq!(create.sync_part.as_ref().unwrap().count(), 20);
            assert!(create.sync_part.as_ref().unwrap().mean_ns() <= create.lat.mean_ns());
        }
    }

    #[test]
    fn a_directory_that_takes_no_files_fails_at_once() {
        let dir = tempfile::tempdir().unwrap();
        // A directory with that name is in the way, and stays.
        std::fs::create_dir(dir.path().join(NAME)).unwrap();
        let outcome = run(dir.path(), FileSync::Fsync, 1000);
        assert_eq!(outcome.ended, Ended::Failed);
        assert!(outcome.errors.iter().any(|error| error.error == "EEXIST"), "{:?}", outcome.errors);
        assert!(dir.path().join(NAME).is_dir());
    }
}
