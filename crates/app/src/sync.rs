//! `qd1 sync`: every way to make writes durable, beside each other. This file makes the suite of its steps and says which ways
//! the place refuses; `qd1_analysis::sync` compares them.
//!
//! All methods are measured at PostgreSQL's 8 KiB, one committer, over written data, each through the page cache and past it,
//! with one and with two writes a commit: what `pg_test_fsync` does, and more. They are measured twice, the second time in
//! reverse, so that a disk that becomes slower favours none. What follows (sizes, committers) uses the best of them.

use std::collections::VecDeque;
use std::process::ExitCode;

use anyhow::Result;
use qd1_engine::target::PathKind;
use qd1_engine::{EngineError, errno_name, try_method};
use qd1_model::environment::FilesystemClass;
use qd1_model::plan::{FileSync, FileUse, Plan, Rw, StepPlan, Sync, Work};
use qd1_model::record::StepRecord;
use qd1_model::spec::{Effort, FilesJob, Job, PerEffort, Span, Suite};
use qd1_model::sync::{SyncMethod, uses_best_method};
use qd1_model::units::format_span_ns;
use qd1_model::{Bytes, Subject};
use qd1_probe::Machine;
use rustix::io::Errno;

use crate::cli::SyncArgs;
use crate::measure::{self, Asked};
use crate::place::{self, Place};
use crate::run::Guide;
use qd1_model::units::short_size;
use qd1_model::{Problem, ProblemKind};

/// The suite's name in the Record.
const SUITE: &str = "sync";
/// Measures and compares.
///
/// # Errors
/// When the place cannot be written, or the run fails.
pub(crate) fn run(args: &SyncArgs) -> Result<ExitCode> {
    let place = place::look(&Machine::new(), &args.path, &measure::random_id()?)?;
    may_write(&place, args)?;
    let mut suite = suite(measure::effort(&args.how));
    refuse(&mut suite, &place)?;
    let mut guide = Following::default();
    measure::run(Asked { guide: Some(&mut guide), ..Asked::of(SUITE, suite, &args.path, &args.how) })
}

/// Whether a plan is one of this command.
pub(crate) fn is_of(plan: &Plan) -> bool {
    plan.subject == Subject::Sync
}

/// Refuses what is only ever read, before anything else is said of it.
fn may_write(place: &Place, args: &SyncArgs) -> Result<()> {
    let path = place.path.display();
    let message = match place.kind {
        PathKind::File(_) => {
            format!("{path} is a file, and files that exist are only read; name the directory it is in")
        }
        PathKind::Block(_) if args.how.device.destroy.is_none() => format!(
            "{path} is a block device, and sync would have to write to it; name a directory on it, or, if all of its data \
             may be lost, add --destroy {path}"
        ),
        _ => return Ok(()),
    };
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

/// Marks the jobs that cannot run here, with the reason.
///
/// # Errors
/// When not a single write can be made.
fn refuse(suite: &mut Suite, place: &Place) -> Result<()> {
    let on_device = matches!(place.kind, PathKind::Block(_));
    let mut known: Vec<(SyncMethod, Option<String>)> = Vec::new();
    for job in &mut suite.job {
        let has_files = job.files.is_some() || job.file.is_some_and(|file| file != FileUse::Shared);
        if on_device && has_files {
            job.refused = Some("a device has no files; name a directory".to_owned());
            continue;
        }
        let method = SyncMethod { sync: job.sync.unwrap_or_default(), direct: job.direct.unwrap_or(false) };
        if job.files.is_some() {
            continue;
        }
        let refused = match known.iter().find(|(tried, _)| *tried == method) {
            Some((_, refused)) => refused.clone(),
            None => {
                let refused = refusal(method, place, on_device)?;
                known.push((method, refused.clone()));
                refused
            }
        };
        job.refused = refused;
    }
    Ok(())
}

/// Why a method cannot be had here; nothing where it can.
fn refusal(method: SyncMethod, place: &Place, on_device: bool) -> Result<Option<String>> {
    let filesystem = &place.filesystem.kind;
    if method.direct && !place.direct.supported {
        let why = match place.filesystem.class {
            FilesystemClass::Memory => format!("{filesystem} keeps files in memory, and O_DIRECT means nothing there"),
            _ => format!("{filesystem} refuses O_DIRECT"),
        };
        return Ok(Some(why));
    }
    if on_device {
        return Ok(None);
    }
    let unique = measure::random_id()?;
    match try_method(&place.path, &unique, method.sync, method.direct, BLOCK.0 as u32) {
        Ok(()) => Ok(None),
        Err(EngineError::Path { errno, .. }) if is_refusal(errno) => {
            let with = if method.direct { " with O_DIRECT" } else { "" };
            Ok(Some(format!("{filesystem} refuses {}{with} ({})", method.name(), errno_name(errno))))
        }
        Err(error) => Err(error.into()),
    }
}

/// What filesystems answer to what they do not know.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// Goes through the planned steps, and has those that look further use the best method.
#[derive(Default)]
struct Following {
    steps: VecDeque<StepPlan>,
}

impl Guide for Following {
    fn begin(&mut self, planned: Vec<StepPlan>) {
        self.steps = planned.into();
    }

    fn next(&mut self, plan: &Plan, done: &[StepRecord]) -> Option<(u64, StepPlan)> {
        let mut step = self.steps.pop_front()?;
        if uses_best_method(&step.name)
            && let Some(method) = qd1_analysis::sync::choice(plan, done)
        {
            adopt(&mut step, method, plan.target.align);
        }
        Some((0, step))
    }
}

/// Has a step use a method; past the page cache only if its blocks can go there.
fn adopt(step: &mut StepPlan, method: SyncMethod, align: u32) {
    let Work::Io(io) = &mut step.work else { return };
    io.sync = method.sync;
    io.direct = method.direct && io.block_max().is_multiple_of(align.max(1));
    let how = if io.direct { "O_DIRECT" } else { "through the page cache" };
    step.title = format!("{}, {}, {how}", step.title, method.name());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_that_cannot_be_direct_goes_through_the_page_cache_by_the_same_method() {
        let mut step = step_of("size-512", 512);
        adopt(&mut step, SyncMethod { sync: Sync::ODsync, direct: true }, 4096);
        let Work::Io(io) = &step.work else { panic!("it is block I/O") };
        assert_eq!((io.sync, io.direct), (Sync::ODsync, false));
        assert!(step.title.ends_with("O_DSYNC, through the page cache"), "{}", step.title);
        let mut step = step_of("size-4k", 4096);
        adopt(&mut step, SyncMethod { sync: Sync::ODsync, direct: true }, 4096);
        let Work::Io(io) = &step.work else { panic!("it is block I/O") };
        assert!(io.direct);
    }

    fn step_of(name: &str, bytes: u32) -> StepPlan {
        let report = qd1_report::samples::fast_nvme();
        let commits = |step: &&StepPlan| matches!(&step.work, Work::Io(io) if io.sync.commits());
        let mut step = report.record.plan.steps.iter().find(commits).unwrap().clone();
        step.name = name.to_owned();
        if let Work::Io(io) = &mut step.work {
            io.blocks[0].bytes = bytes;
        }
        step
    }
}
