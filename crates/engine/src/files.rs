//! File operations as a web server or a package manager makes them: create with one write, stat, delete.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use qd1_model::environment::ThreadCost;
use qd1_model::plan::{FilesWork, Stop};
use qd1_model::record::{Ended, IoErrors, OpClass};
use rustix::fs::{AtFlags, Mode, OFlags, openat, statat, unlinkat};
use rustix::io::{Errno, pwrite};

use crate::buf::Buffers;
use crate::merge::Merger;
use crate::meter::{Meter, Outbox, Parts, Timing};
use crate::run::{Asked, Outcome, Progress, Wish, interval_ns};
use crate::{EngineError, clock, errno_name};

/// Share of the step's time for creating; deleting takes what it takes, since nothing may stay.
const CREATE_SHARE: u64 = 50;
/// Share for stat.
const STAT_SHARE: u64 = 20;

const LANE_CREATE: usize = 0;
const LANE_STAT: usize = 1;
const LANE_DELETE: usize = 2;

struct Run<'a> {
    dir: BorrowedFd<'a>,
    meter: Meter<3>,
    errors: Vec<IoErrors>,
    asked: Asked,
    last_ns: u64,
}

/// Creates, stats and deletes files in `dir`, which must be empty and is left empty.
///
/// # Errors
/// When `dir` cannot be opened. Failing operations are counted in the outcome.
pub fn run_files(
    work: &FilesWork,
    stop: &Stop,
    dir: &Path,
    seed: u64,
    thread_cost: fn() -> ThreadCost,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>) -> Wish,
) -> Result<Outcome, EngineError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty()).map_err(|errno| EngineError::path("open", dir, errno))?;
    let buffers = Buffers::new(1, work.size.0 as u32, seed)?;
    let outbox: Outbox = Arc::new(Mutex::new(Vec::new()));
    let started_ns = clock::now_ns();
    let classes = [(OpClass::Create, Parts::None), (OpClass::Stat, Parts::None), (OpClass::Delete, Parts::None)];
    let interval = interval_ns(stop);
    let mut run = Run {
        dir: fd.as_fd(),
        meter: Meter::new(classes, started_ns, interval, outbox.clone()),
        errors: Vec::new(),
        asked: Asked::default(),
        last_ns: started_ns,
    };
    let before = thread_cost();
    let mut merger = Merger::default();
    let mut show = |merger: &mut Merger, now_ns: u64| {
        merger.take(std::slice::from_ref(&outbox));
        watch(&Progress { elapsed_ns: now_ns - started_ns, intervals: merger.so_far() });
    };
    let mut look_ns = started_ns;
    let mut tick = |run: &Run<'_>, merger: &mut Merger| {
        if run.last_ns >= look_ns {
            look_ns = run.last_ns + 100_000_000;
            show(merger, run.last_ns);
        }
    };
    let mut ended = Ended::Done;
    let mut made = 0;
    let create_until_ns = started_ns + stop.max_ns * CREATE_SHARE / 100;
    while made < work.count {
        if run.last_ns >= create_until_ns {
            ended = Ended::Time;
            break;
        }
        if cancel.load(Ordering::Relaxed) || run.errors.iter().map(|error| error.count).sum::<u64>() > 16 {
            break;
        }
        buffers.stamp(0, work.size.0 as u32, seed.wrapping_add(made));
        run.create(made, &buffers, work.size.0 as usize);
        made += 1;
        tick(&run, &mut merger);
    }
    let stat_until_ns = run.last_ns + stop.max_ns * STAT_SHARE / 100;
    for number in 0..made {
        if run.last_ns >= stat_until_ns || cancel.load(Ordering::Relaxed) {
            break;
        }
        run.stat(number);
        tick(&run, &mut merger);
    }
    for number in 0..made {
        run.delete(number);
        tick(&run, &mut merger);
    }
    if cancel.load(Ordering::Relaxed) {
        ended = Ended::Interrupted;
    } else if !run.errors.is_empty() && run.asked.writes == 0 {
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
        asked: run.asked,
        cost: thread_cost().since(&before),
        caveat: String::new(),
    })
}

/// `f00000042`: formatted into a fixed buffer, outside the timed part.
fn name(number: u64) -> String {
    format!("f{number:08}")
}

impl Run<'_> {
    fn create(&mut self, number: u64, buffers: &Buffers, size: usize) {
        let name = name(number);
        // SAFETY: the buffer holds at least `size` bytes and nothing is in flight on it.
        let data = unsafe { std::slice::from_raw_parts(buffers.ptr(0), size) };
        let begin_ns = clock::now_ns();
        let outcome = self.write_new(&name, data);
        match outcome {
            Ok(written) if written == size => {
                self.asked.writes += 1;
                self.asked.write_bytes += size as u64;
                self.count(LANE_CREATE, begin_ns, size as u32);
            }
            Ok(_) => self.fault("short".to_owned(), number),
            Err(errno) => self.fault(errno_name(errno), number),
        }
    }

    fn write_new(&self, name: &str, data: &[u8]) -> Result<usize, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file: OwnedFd = openat(self.dir, name, flags, Mode::RUSR | Mode::WUSR)?;
        pwrite(&file, data, 0)
    }

    fn stat(&mut self, number: u64) {
        let name = name(number);
        let begin_ns = clock::now_ns();
        match statat(self.dir, &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => self.count(LANE_STAT, begin_ns, 0),
            Err(errno) => self.fault(errno_name(errno), number),
        }
    }

    fn delete(&mut self, number: u64) {
        let name = name(number);
        let begin_ns = clock::now_ns();
        match unlinkat(self.dir, &name, AtFlags::empty()) {
            Ok(()) => self.count(LANE_DELETE, begin_ns, 0),
            // Its creation failed and was counted then.
            Err(Errno::NOENT) => {}
            Err(errno) => self.fault(errno_name(errno), number),
        }
    }

    fn count(&mut self, lane: usize, begin_ns: u64, bytes: u32) {
        let completed_ns = clock::now_ns();
        self.last_ns = completed_ns;
        self.meter.record(lane, bytes, &Timing { lat_ns: completed_ns - begin_ns, part_ns: 0, completed_ns });
    }

    fn fault(&mut self, error: String, number: u64) {
        match self.errors.iter_mut().find(|known| known.error == error) {
            Some(known) => known.count += 1,
            None => self.errors.push(IoErrors { error, count: 1, first_offset: number }),
        }
    }
}
