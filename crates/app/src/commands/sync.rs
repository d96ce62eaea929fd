//! `qd1 sync`: compares all methods of making writes durable. This file finds the methods that the place refuses, and
//! has later steps use the best method of the earlier ones; `qd1_analysis::sync` compares them.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::Args;
use qd1_engine::backing::PathKind;
use qd1_engine::{EngineError, errno_name, try_method};
use qd1_model::environment::FilesystemClass;
use qd1_model::plan::{FileUse, Plan, StepPlan, Work};
use qd1_model::record::StepRecord;
use qd1_model::spec::Suite;
use qd1_model::sync::{SyncMethod, uses_best_method};
use qd1_model::{Problem, ProblemKind, Subject};
use qd1_runner::TestFile;
use qd1_runner::id::random_id;
use qd1_runner::place::Place;
use qd1_runner::watch::AdaptiveSteps;
use qd1_suites::sync::{BLOCK, suite};
use rustix::io::Errno;

use crate::args::MeasureArgs;
use crate::command_line::CommandLine;
use crate::session::Session;
use crate::suite_job::{Overrides, SuiteJob, request};

#[derive(Debug, Args)]
pub(crate) struct SyncArgs {
    /// Directory on the disk to measure, or a block device, which --destroy must name as well
    #[arg(default_value = ".")]
    pub(crate) path: PathBuf,
    #[command(flatten)]
    pub(crate) how: MeasureArgs,
}

/// Measures and compares the methods.
///
/// # Errors
/// When the place cannot be written, or the run fails.
pub(crate) fn run(args: &SyncArgs, typed: &CommandLine) -> Result<ExitCode> {
    let session = Session::begin(request(typed, Subject::Sync, &args.how))?;
    let make = |place: &Place, _| {
        may_write(place, args)?;
        let mut suite = suite(args.how.effort());
        refuse(&mut suite, place)?;
        Ok(suite)
    };
    let mut following = Following::default();
    session.run(&mut SuiteJob::new(typed, &args.path, Overrides::from(&args.how), make).adaptive(&mut following))
}

/// Refuses places that are only read, before any other check.
fn may_write(place: &Place, args: &SyncArgs) -> Result<(), Problem> {
    let path = place.path.display();
    let message = match place.kind {
        PathKind::File(_) => {
            format!("{path} is a file, and existing files are only read; name its directory instead")
        }
        PathKind::Block(_) if args.how.device.destroy.is_none() => format!(
            "{path} is a block device, and sync would have to write to it; name a directory on it, or, if all of its data \
             may be lost, add --destroy {path}"
        ),
        _ => return Ok(()),
    };
    Err(Problem::new(ProblemKind::Unsafe, message))
}

/// Marks the jobs that cannot run here, with the reason.
///
/// # Errors
/// When a method fails for a reason other than a refusal.
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

/// Returns why a method is not available here; `None` when it is.
fn refusal(method: SyncMethod, place: &Place, on_device: bool) -> Result<Option<String>> {
    let filesystem = &place.filesystem.kind;
    if method.direct && !place.direct.supported {
        let why = match place.filesystem.class {
            FilesystemClass::Memory => format!("{filesystem} keeps files in memory, where O_DIRECT has no meaning"),
            _ => format!("{filesystem} refuses O_DIRECT"),
        };
        return Ok(Some(why));
    }
    if on_device {
        return Ok(None);
    }
    let unique = random_id()?;
    let file = TestFile::create(&place.path, &unique)?;
    match try_method(&file, method.sync, method.direct, BLOCK.0 as u32) {
        Ok(()) => Ok(None),
        Err(EngineError::Path { errno, .. }) if is_refusal(errno) => {
            let with = if method.direct { " with O_DIRECT" } else { "" };
            Ok(Some(format!("{filesystem} refuses {}{with} ({})", method.name(), errno_name(errno))))
        }
        // The plan says how much it needs, and how much there is.
        Err(EngineError::Path { errno: Errno::NOSPC, .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Returns true for the errors with which filesystems refuse requests that they do not support.
fn is_refusal(errno: Errno) -> bool {
    matches!(errno, Errno::INVAL | Errno::OPNOTSUPP | Errno::NOSYS)
}

/// Runs the planned steps in order; those after the methods use the best method.
#[derive(Default)]
struct Following {
    steps: VecDeque<StepPlan>,
}

impl AdaptiveSteps for Following {
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

/// Sets the method of a step, with O_DIRECT only if its block size allows it.
fn adopt(step: &mut StepPlan, method: SyncMethod, align: u32) {
    let Work::Io(io) = &mut step.work else { return };
    io.sync = method.sync;
    io.direct = method.direct && io.block_max().is_multiple_of(align.max(1));
    let how = if io.direct { "O_DIRECT" } else { "through the page cache" };
    step.title = format!("{}, {}, {how}", step.title, method.name());
}

#[cfg(test)]
mod tests {
    use qd1_model::plan::Sync;

    use super::*;

    #[test]
    fn a_block_that_cannot_be_direct_keeps_its_method() {
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
