//! The engines that work on names: filecreate, filestat, filedelete. Each file is one request.

use std::path::Path;
use std::sync::atomic::Ordering;

use qd1_clock as clock;
use qd1_fio::engines::EngineName;
use qd1_fio::types::StatType;
use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::JobError;
use crate::load::{READ, TRIM, WRITE};
use crate::stat::{Completed, Stat};
use crate::thread::{ThreadContext, ThreadOutcome};

/// Makes the files that filestat and filedelete work on.
///
/// # Errors
/// When one cannot be made.
pub(crate) fn prepare(context: &ThreadContext<'_>) -> Result<(), JobError> {
    if context.job.ioengine == EngineName::Filecreate {
        return Ok(());
    }
    for file in &context.files {
        make(&file.path, file.extent.length).map_err(|errno| fault(context, "create", &file.path, errno))?;
    }
    Ok(())
}

/// Performs the operation on each file in turn, until all are done or it is time to stop.
pub(crate) fn run(context: &ThreadContext<'_>) -> ThreadOutcome {
    let start_ns = clock::now_ns();
    let runtime_ns = context.job.runtime.as_nanos() as u64;
    let deadline_ns = if runtime_ns > 0 { start_ns + runtime_ns } else { u64::MAX };
    let cost_before = (context.thread_cost)();
    let mut stat = Stat::new(context.job, false, start_ns, context.outbox.clone());
    stat.begin(start_ns);
    let kind = context.job.rw.kind;
    let direction = if kind.reads() {
        READ
    } else if kind.writes() {
        WRITE
    } else {
        TRIM
    };
    let mut failed = None;
    for file in &context.files {
        let issued_ns = clock::now_ns();
        let stops = context.live.stop.load(Ordering::Relaxed) || context.cancel.load(Ordering::Relaxed);
        if stops || issued_ns >= deadline_ns {
            break;
        }
        if let Err(errno) = act(context, &file.path) {
            failed = Some(fault(context, context.job.ioengine.name(), &file.path, errno));
            break;
        }
        let completed_ns = clock::now_ns();
        let (bytes, offset, due_ns) = (0, 0, 0);
        let submitted_ns = issued_ns;
        stat.completed(&Completed { direction, bytes, offset, issued_ns, submitted_ns, completed_ns, due_ns });
        stat.stat.depth.submitted(1);
        stat.stat.depth.issued(1);
        stat.stat.depth.completed(1);
        context.live.completed(direction, 0);
    }
    let now_ns = clock::now_ns();
    let spent_ms = (now_ns - start_ns) / 1_000_000;
    stat.stat.dirs[direction].runtime_ms = spent_ms;
    let (mut stat, streams, logged) = stat.finish(now_ns);
    stat.groupid = context.plan.group;
    stat.pid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    stat.job_start_ms = clock::wall_ns().saturating_sub(now_ns - start_ns) / 1_000_000;
    stat.elapsed_s = (now_ns - start_ns).div_ceil(1_000_000_000);
    stat.job_runtime_ms = spent_ms;
    stat.cost = (context.thread_cost)().since(&cost_before);
    if let Some(fault) = &failed {
        (stat.error, stat.error_text) = (fault.errno, fault.text.clone());
    }
    ThreadOutcome {
        stat,
        streams,
        fault: failed,
        measured_ns: start_ns,
        ended_ns: now_ns,
        logged,
        ..ThreadOutcome::default()
    }
}

fn act(context: &ThreadContext<'_>, path: &Path) -> Result<(), Errno> {
    match (context.job.ioengine, context.job.stat_type) {
        (EngineName::Filecreate, _) => create(path).map(drop),
        (EngineName::Filedelete, _) => rustix::fs::unlink(path),
        (_, StatType::Stat) => rustix::fs::stat(path).map(drop),
        (_, StatType::Lstat) => rustix::fs::lstat(path).map(drop),
        (_, StatType::Statx) => rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::ALL).map(drop),
    }
}

/// Makes a file of `length` bytes; an existing one is only ever extended.
fn make(path: &Path, length: u64) -> Result<(), Errno> {
    let file = create(path)?;
    let found = rustix::fs::fstat(&file)?;
    if (found.st_size as u64) < length { rustix::fs::ftruncate(&file, length) } else { Ok(()) }
}

fn create(path: &Path) -> Result<std::os::fd::OwnedFd, Errno> {
    let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))
}

fn fault(context: &ThreadContext<'_>, op: &str, path: &Path, errno: Errno) -> JobError {
    let name = qd1_engine::errno_name(errno);
    JobError::new(&context.job.name, errno, format!("{op} of {} failed: {name} ({errno})", path.display()))
}
