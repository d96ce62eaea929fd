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
/// PostgreSQL's page, and what methods are compared by.
const BLOCK: Bytes = Bytes::kib(8);
/// What of the test file one committer goes over: a log segment of PostgreSQL's.
const REGION: Bytes = Bytes::mib(16);
/// Each committer's own file, where there are several.
const OWN: Bytes = Bytes::mib(1);
/// A new log segment: etcd's.
const SEGMENT: Bytes = Bytes::mib(64);
/// A small new file, and how many at most.
const FILE: Bytes = Bytes::kib(4);
const FILES: u64 = 100_000;

/// Methods and their names in steps.
const METHODS: [(Sync, &str); 6] = [
    (Sync::Fdatasync, "fdatasync"),
    (Sync::Fsync, "fsync"),
    (Sync::ODsync, "o_dsync"),
    (Sync::OSync, "o_sync"),
    (Sync::RwfDsync, "rwf_dsync"),
    (Sync::SyncFileRange, "sync_file_range"),
];

const fn ms(quick: u64, default: u64, full: u64) -> PerEffort<Span> {
    PerEffort { quick: Span(quick * 1_000_000), default: Span(default * 1_000_000), full: Span(full * 1_000_000) }
}

/// Time of a method's step, and of those that follow.
const METHOD: PerEffort<Span> = ms(200, 500, 2000);
const FURTHER: PerEffort<Span> = ms(300, 1000, 5000);
const PASSES: PerEffort<usize> = PerEffort { quick: 1, default: 2, full: 2 };
/// The most that one step writes: it ends then. A fast disk has shown by then what it does.
const WRITES: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(32), default: Bytes::mib(64), full: Bytes::mib(512) };
const SIZE: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(32), default: Bytes::mib(64), full: Bytes::mib(64) };
const PREPARE: PerEffort<Span> = ms(3000, 10_000, 30_000);

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

/// All steps, in their order.
fn suite(effort: Effort) -> Suite {
    let mut job = Vec::new();
    for pass in 0..PASSES.get(effort) {
        let mut jobs = methods(pass + 1, WRITES.get(effort));
        if pass % 2 == 1 {
            jobs.reverse();
        }
        job.extend(jobs);
    }
    let (sizes, committers) = match effort {
        Effort::Quick => (vec![512, 65_536], vec![4, 16]),
        Effort::Default => (vec![512, 4096, 16_384, 65_536], vec![4, 16, 64]),
        Effort::Full => (vec![512, 1024, 2048, 4096, 16_384, 32_768, 65_536], vec![2, 4, 8, 16, 32, 64]),
    };
    let further =
        |name: String, title: String| Job { runtime: Some(FURTHER), title: Some(title), ..plain(name, effort) };
    job.extend(sizes.into_iter().map(|bytes| {
        let bytes = Bytes(bytes);
        Job { bs: Some(bytes), ..further(format!("size-{}", short_size(bytes)), format!("commits of {bytes}")) }
    }));
    for number in committers {
        let of = |stem: &str, files: &str| further(format!("{stem}-{number}"), format!("{number} committers, {files}"));
        let own = Job { file: Some(FileUse::Own), size: Some(OWN), ..of("own", "a file each") };
        let shared = Job { size: None, ..of("shared", "one file") };
        job.extend([own, shared].map(|job| Job { numjobs: Some(number), ..job }));
    }
    job.extend([("append", FileUse::Empty), ("preallocated", FileUse::Allocated)].map(|(name, file)| {
        let job = further(name.to_owned(), format!("fdatasync, {name} space"));
        Job { file: Some(file), size: Some(SEGMENT), io_size: Some(SEGMENT), ..job }
    }));
    job.extend([("file", FileSync::Fsync), ("file-dir", FileSync::FsyncDirectory)].map(|(name, sync)| Job {
        name: name.to_owned(),
        runtime: Some(FURTHER),
        files: Some(FilesJob { size: FILE, count: FILES, sync, ..FilesJob::default() }),
        ..Job::default()
    }));
    Suite {
        name: SUITE.to_owned(),
        subject: Subject::Sync,
        title: "every way to make writes durable".to_owned(),
        source: String::new(),
        size: SIZE,
        prepare: PREPARE,
        job,
        criteria: Vec::new(),
        sweep: None,
    }
}

/// One pass over all methods.
fn methods(pass: usize, most: Bytes) -> Vec<Job> {
    let mut jobs = Vec::new();
    for writes in [1, 2] {
        for (direct, path) in [(false, ""), (true, "-direct")] {
            for (sync, stem) in METHODS {
                let times = if writes == 1 { "" } else { "-x2" };
                let how = if direct { "O_DIRECT" } else { "through the page cache" };
                let many = if writes == 1 { "one write".to_owned() } else { format!("{writes} writes") };
                let name = SyncMethod { sync, direct }.name();
                jobs.push(Job {
                    name: format!("{stem}{path}{times}-p{pass}"),
                    title: Some(format!("{name}, {how}, {many} of {BLOCK} a commit")),
                    runtime: Some(METHOD),
                    direct: Some(direct),
                    sync: Some(sync),
                    writes_per_sync: Some(writes),
                    io_size: Some(most),
                    ..base()
                });
            }
        }
    }
    jobs
}

/// What every step of commits has in common.
fn base() -> Job {
    Job {
        rw: Some(Rw::Write),
        bs: Some(BLOCK),
        size: Some(REGION),
        // Each gets the same time: one that ends when it is precise would favour some.
        adaptive: Some(false),
        ..Job::default()
    }
}

/// A step that looks further; with fdatasync through the page cache until the best method is known.
fn plain(name: String, effort: Effort) -> Job {
    let (direct, sync) = (Some(false), Some(Sync::Fdatasync));
    Job { name, direct, sync, io_size: Some(Bytes(WRITES.get(effort).0 * 2)), ..base() }
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

/// The steps in a few lines, for `--dry-run`; none for other plans.
pub(crate) fn planned(plan: &Plan) -> Vec<String> {
    if !is_of(plan) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let mut list = |label: &str, steps: Vec<&StepPlan>, what: &str| {
        let longest = steps.iter().map(|step| step.stop.ramp_ns + step.stop.max_ns).max();
        if let Some(longest) = longest {
            lines.push(format!("{label:<11} {:>3} of up to {}: {what}", steps.len(), format_span_ns(longest)));
        }
    };
    let of = |wanted: &dyn Fn(&StepPlan) -> bool| plan.steps.iter().filter(|step| wanted(step)).collect::<Vec<_>>();
    let is_io = |step: &StepPlan| matches!(step.work, Work::Io(_));
    let is_layout = |step: &StepPlan| ["append", "preallocated"].contains(&step.name.as_str());
    let names = |steps: &[&StepPlan], stem: &str| {
        let mut names: Vec<String> = Vec::new();
        for name in steps.iter().filter_map(|step| step.name.strip_prefix(stem)).map(str::to_owned) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names.join(", ")
    };
    let with = |stem: &'static str| of(&move |step| step.name.starts_with(stem));
    let ways = of(&|step| is_io(step) && !uses_best_method(&step.name) && !is_layout(step));
    list("methods", ways, "8 KiB, page cache and O_DIRECT, 1 and 2 writes");
    for (label, stem, of) in
        [("sizes", "size-", ""), ("own files", "own-", "committers: "), ("one file", "shared-", "committers: ")]
    {
        let steps = with(stem);
        let what = format!("{of}{}", names(&steps, stem));
        list(label, steps, &what);
    }
    list("layouts", of(&is_layout), "appended, preallocated");
    list("new files", of(&|step| !is_io(step)), "written, synced, closed, removed");
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own_and_the_second_pass_goes_back() {
        for effort in [Effort::Quick, Effort::Default, Effort::Full] {
            let suite = suite(effort);
            let mut names: Vec<&str> = suite.job.iter().map(|job| job.name.as_str()).collect();
            if effort != Effort::Quick {
                let back: Vec<String> = names[24..48].iter().rev().map(|name| name.replace("-p2", "-p1")).collect();
                assert_eq!(names[..24], back);
            }
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
    }

    #[test]
    fn without_flags_it_takes_about_a_minute_and_quick_a_quarter_of_one() {
        for (effort, most_s) in [(Effort::Quick, 15), (Effort::Default, 60)] {
            let steps: u64 = suite(effort).job.iter().map(|job| job.runtime_ns(effort) * 21 / 20).sum();
            assert!((steps + PREPARE.get(effort).0) / 1_000_000_000 < most_s);
        }
    }

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
        let report = crate::report::sample::fast_nvme();
        let commits = |step: &&StepPlan| matches!(&step.work, Work::Io(io) if io.sync.commits());
        let mut step = report.record.plan.steps.iter().find(commits).unwrap().clone();
        step.name = name.to_owned();
        if let Work::Io(io) = &mut step.work {
            io.blocks[0].bytes = bytes;
        }
        step
    }
}
