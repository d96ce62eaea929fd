//! From a Spec to a Plan: fills every default and checks everything that can be refused. Later parts refuse nothing.

mod files;
mod load;
mod long_check;
mod space;

use anyhow::Result;
use qd1_engine::backing::PathKind;
use qd1_model::Bytes;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileSync, FileUse, IoWork, Order, Plan, Rw, Skipped, StepPlan,
    Stop, Sync, TargetKind, TargetPlan, Work,
};
use qd1_model::spec::{Effort, Job, Spec};
use qd1_model::suggest::nearest;

use crate::destroy;
use crate::place::Place;
use qd1_model::Problem;
pub use space::{Space, space};
use space::{fit, writes_max};

/// Smallest test file worth reading from.
const SIZE_MIN: u64 = 16 << 20;
/// Default size of a worker's own file: that of PostgreSQL's log segment.
const OWN_SIZE: Bytes = Bytes::mib(16);

/// Default ramp of a step: a twentieth of its time, at most this.
const RAMP_NS_MAX: u64 = 250_000_000;
/// Most workers and bytes of buffers: more are surely a mistake in a suite, and would exhaust the machine.
const NUMJOBS_MAX: u32 = 1024;
/// Most visits: each opens its files again.
const VISITS_MAX: u32 = 1000;
const BUFFERS_MAX: u64 = 1 << 30;

/// Plans the steps of `spec` for `place`.
///
/// # Errors
/// On unknown step names, sizes that do not fit or align, and writing to a device without permission.
pub fn decide(spec: &Spec, place: &Place, seed: u64) -> Result<Plan> {
    let kind = target_kind(spec, place)?;
    let mut size = spec.size.unwrap_or_else(|| spec.suite.size.get(spec.effort)).0;
    let mut advice = "--size needs at least";
    if let PathKind::File(length) | PathKind::Block(length) = place.kind {
        if length < SIZE_MIN {
            advice = "name a file or device of at least";
        }
        size = size.min(length);
    }
    if size < SIZE_MIN {
        let (path, size, least) = (place.path.display(), Bytes(size), Bytes(SIZE_MIN));
        let message = format!("a test area of {size} on {path} is too small to mean anything; {advice} {least}");
        return Err(Problem::usage(message).into());
    }
    let align = u64::from(place.direct.align.max(4096));
    size = size / align * align;
    let target = TargetPlan {
        path: place.path.clone(),
        kind,
        filesystem: place.filesystem.kind.clone(),
        size: Bytes(size),
        direct: place.direct.supported,
        align: place.direct.align,
        prepare_max_ns: spec.suite.prepare.get(spec.effort).0,
    };
    let mut plan = Plan {
        criteria: spec.suite.criteria.iter().filter(|criterion| wanted(spec, &criterion.step)).cloned().collect(),
        sweep: spec.suite.sweep,
        ..Plan::new(spec.suite.name.clone(), spec.suite.subject, target, seed)
    };
    let loaded = loaded_copies(spec)?;
    check_names(spec, &loaded)?;
    for job in spec.suite.job.iter().chain(&loaded) {
        if !wanted(spec, &job.name) {
            // A step of another effort is not part of this run: it is listed as skipped only if it was requested.
            if job.runs_at(spec.effort) {
                let why = Skipped::because(&job.name, "left out by --only");
                plan.skipped.push(Skipped { left_out: true, ..why });
            }
            continue;
        }
        if !job.runs_at(spec.effort) {
            if !spec.only.is_empty() {
                plan.skipped.push(Skipped::because(&job.name, "runs only with --full"));
            }
            continue;
        }
        if let Some(why) = &job.refused {
            plan.skipped.push(Skipped::because(&job.name, why));
            continue;
        }
        match step(spec, job, &plan.target)? {
            Ok(step) => plan.steps.push(step),
            Err(why) => plan.skipped.push(Skipped::because(&job.name, why)),
        }
    }
    if plan.steps.is_empty() {
        let reasons: Vec<String> = plan.skipped.iter().map(|skip| format!("{}: {}", skip.name, skip.why)).collect();
        return Err(Problem::usage(format!("no step is left to run ({})", reasons.join("; "))).into());
    }
    if let Some(duration_ns) = spec.over_ns {
        long_check::spread(&mut plan, duration_ns)?;
    }
    if kind == TargetKind::Directory {
        fit(&mut plan, place, spec.size.is_some())?;
        files::in_order(&plan.steps)?;
        files::fit(&mut plan, place)?;
    }
    Ok(plan)
}

fn target_kind(spec: &Spec, place: &Place) -> Result<TargetKind> {
    if destroy::is_allowed(place, spec.destroy.as_deref())? {
        return Ok(TargetKind::BlockDestroy);
    }
    Ok(match place.kind {
        PathKind::Directory => TargetKind::Directory,
        PathKind::Block(_) => TargetKind::BlockReadOnly,
        PathKind::File(_) | PathKind::Other => TargetKind::File,
    })
}

/// Returns true if `--only` selects the step.
fn wanted(spec: &Spec, name: &str) -> bool {
    let named = |name: &str| spec.only.iter().any(|pattern| matches(pattern, name));
    // `--only commit1 --with-load` selects its copy under load as well.
    spec.only.is_empty() || named(name) || (spec.with_load && load::original(name).is_some_and(named))
}

/// Returns true if `pattern` matches `name`; `*` matches any letters, including none.
fn matches(pattern: &str, name: &str) -> bool {
    let Some((start, rest)) = pattern.split_once('*') else { return pattern == name };
    let Some(name) = name.strip_prefix(start) else { return false };
    (0..=name.len()).filter(|at| name.is_char_boundary(*at)).any(|at| matches(rest, &name[at..]))
}

/// Returns for `--with-load` a copy of each job of commits under load, to run after all others, since it leaves dirty
/// pages behind.
///
/// # Errors
/// When the suite has no commits.
fn loaded_copies(spec: &Spec) -> Result<Vec<Job>> {
    if !spec.with_load {
        return Ok(Vec::new());
    }
    // Those limited to one effort test a single property on a quiet disk; those that come at their own rate do not
    // test what the disk can do.
    let commits = |job: &&Job| {
        let is_committing = job.sync.is_some_and(Sync::commits) && job.rate_iops.is_none();
        is_committing && job.effort.is_none() && job.with_load != Some(true)
    };
    let copies: Vec<Job> = spec.suite.job.iter().filter(commits).map(load::copy).collect();
    if copies.is_empty() {
        let message = format!("--with-load measures commits again under load, but {} has no commits", spec.suite.name);
        return Err(Problem::usage(message).into());
    }
    Ok(copies)
}

/// Most names of a long list that an error message gives.
const NAMES_MAX: usize = 16;

fn check_names(spec: &Spec, loaded: &[Job]) -> Result<()> {
    let all = || spec.suite.job.iter().chain(loaded);
    let is_known = |pattern: &str| all().any(|job| matches(pattern, &job.name));
    let Some(wanted) = spec.only.iter().find(|pattern| !is_known(pattern)) else { return Ok(()) };
    let mut names: Vec<&str> = Vec::new();
    // Those of another effort would be refused next.
    for job in all().filter(|job| job.runs_at(spec.effort)) {
        if !names.contains(&job.name.as_str()) {
            names.push(&job.name);
        }
    }
    let meant =
        nearest(wanted, names.iter().copied()).map_or_else(String::new, |name| format!("did you mean {name}? "));
    let more = names.len().saturating_sub(NAMES_MAX);
    let more = if more == 0 { String::new() } else { format!(" and {more} more (--dry-run lists them)") };
    names.truncate(NAMES_MAX);
    let suite = &spec.suite.name;
    let message = format!("there is no step {wanted:?} in {suite}; {meant}choose from {}{more}", names.join(", "));
    Err(Problem::usage(message).into())
}

/// Returns one job's step, or the reason why it is left out here.
fn step(spec: &Spec, job: &Job, target: &TargetPlan) -> Result<std::result::Result<StepPlan, &'static str>> {
    let max_ns = spec.runtime_ns.unwrap_or_else(|| job.runtime_ns(spec.effort));
    if max_ns == 0 {
        let what = if spec.runtime_ns.is_some() { "--runtime".to_owned() } else { format!("{}: runtime", job.name) };
        return Err(Problem::usage(format!("{what} needs some time, for example 5s")).into());
    }
    check_ranges(job)?;
    let mut title = job.title.clone().unwrap_or_else(|| title_of(job));
    let work = if let Some(files) = &job.files {
        if target.kind != TargetKind::Directory {
            return Ok(Err("needs a filesystem"));
        }
        Work::Files(files::work(&job.name, files)?)
    } else {
        match io_work(spec, job, target)? {
            Ok(work) => {
                if job.rw.is_some_and(|rw| rw.reads() && rw.writes()) && work.rwmixread == 100 {
                    title.push_str(" (reads only: the target is not written)");
                }
                Work::Io(work)
            }
            Err(why) => return Ok(Err(why)),
        }
    };
    let visits = job.visits.map_or(1, |visits| visits.get(spec.effort));
    let adaptive = job.adaptive.unwrap_or(true) && job.files.is_none() && visits == 1;
    let ramp_ns = match job.ramp_time {
        _ if job.files.is_some() || job.sync == Some(Sync::EndFsync) => 0,
        Some(ramp) => ramp.0,
        None => (max_ns / u64::from(visits) / 20).min(RAMP_NS_MAX),
    };
    let stop = Stop {
        min_ns: max_ns / 4,
        max_ns,
        ramp_ns,
        quantile: if adaptive { job.stop_percentile.unwrap_or(99.0) / 100.0 } else { 0.0 },
        tolerance: if spec.effort == Effort::Full { 0.03 } else { 0.05 },
    };
    let background = match job.with_load {
        Some(true) if target.kind != TargetKind::Directory => return Ok(Err("its load needs a filesystem")),
        Some(true) => load::background(target),
        _ => Vec::new(),
    };
    let mut step = StepPlan { name: job.name.clone(), title, work, background, stop, visits, writes_max: Bytes(0) };
    let longest_ns = step.duration_max_ns();
    let written: u64 = step.background.iter().map(|io| load::writes_max(io, longest_ns)).sum();
    step.writes_max = Bytes(writes_max(&step).saturating_add(written));
    Ok(Ok(step))
}

/// Refuses figures that are out of range or would exhaust the machine.
///
/// # Errors
/// When there is such a figure; the message names the job and the key.
fn check_ranges(job: &Job) -> Result<()> {
    let refuse = |why: String| Err(Problem::usage(format!("{}: {why}", job.name)).into());
    if let Some(share) = job.rwmixread.filter(|share| *share > 100) {
        return refuse(format!("rwmixread is the percentage of reads, at most 100, not {share}"));
    }
    if let Some(percentile) = job.stop_percentile.filter(|percentile| !(*percentile > 0.0 && *percentile < 100.0)) {
        return refuse(format!("stop_percentile must be between 0 and 100, not {percentile}"));
    }
    for visits in job.visits.iter().flat_map(|visits| [visits.quick, visits.default, visits.full]) {
        if !(1..=VISITS_MAX).contains(&visits) {
            return refuse(format!("visits must be between 1 and {VISITS_MAX}, not {visits}"));
        }
        let disturbs = job.files.is_some() || job.sync == Some(Sync::EndFsync) || job.with_load == Some(true);
        if visits > 1 && disturbs {
            let what = "a job on files, under load, or with one fsync at its end can have only one visit";
            return refuse(what.to_owned());
        }
    }
    let numjobs = job.numjobs.unwrap_or(1).max(1);
    if numjobs > NUMJOBS_MAX {
        return refuse(format!("numjobs = {numjobs} is more than {NUMJOBS_MAX}"));
    }
    let split = job.bssplit.iter().flatten().map(|(bytes, _)| bytes.0).max();
    let block = split.or(job.bs.map(|bytes| bytes.0)).unwrap_or(4096);
    let in_flight = u64::from(job.iodepth.unwrap_or(1).max(1)) * u64::from(numjobs);
    if in_flight.checked_mul(block).is_none_or(|bytes| bytes > BUFFERS_MAX) {
        let (block, most) = (Bytes(block), Bytes(BUFFERS_MAX));
        return refuse(format!("{in_flight} requests of {block} in flight need more than {most} of memory"));
    }
    Ok(())
}

/// Returns a title for a job that has none: `random 4 KiB reads, 32 in flight, 2 workers`.
fn title_of(job: &Job) -> String {
    let Some(rw) = job.rw else {
        let job_files = job.files.as_ref();
        if let Some(ops) = job_files.and_then(|files| files.ops.as_deref()) {
            return format!("files: {}", ops.iter().map(|op| op.name()).collect::<Vec<_>>().join(", "));
        }
        let sync = job_files.map(|files| files.sync).unwrap_or_default();
        let what = match sync {
            FileSync::None => "create, stat and delete files",
            FileSync::Fsync => "create files, each with fsync, and delete them",
            FileSync::FsyncDirectory => "create files, each with fsync of itself and its directory, and delete them",
        };
        return what.to_owned();
    };
    let order = if rw.is_random() { "random" } else { "sequential" };
    let block = match &job.bssplit {
        Some(_) => "mixed-size".to_owned(),
        None => job.bs.unwrap_or(Bytes::kib(4)).to_string(),
    };
    let what = match (rw.reads(), rw.writes()) {
        (true, true) => format!("requests, {} % reads", job.rwmixread.unwrap_or(50)),
        (true, false) => "reads".to_owned(),
        _ => "writes".to_owned(),
    };
    let mut title = format!("{order} {block} {what}");
    title += match job.sync.unwrap_or_default() {
        Sync::None => "",
        Sync::Fsync => ", each with fsync",
        Sync::Fdatasync => ", each with fdatasync",
        Sync::OSync => ", each durable (O_SYNC)",
        Sync::ODsync => ", each durable (O_DSYNC)",
        Sync::RwfDsync => ", each durable (RWF_DSYNC)",
        Sync::SyncFileRange => ", each with sync_file_range",
        Sync::EndFsync => ", one fsync at the end",
    };
    if let Some(depth) = job.iodepth.filter(|depth| *depth > 1) {
        title += &format!(", {depth} in flight");
    }
    if let Some(writes) = job.writes_per_sync.filter(|writes| *writes > 1) {
        title += &format!(", {writes} writes a commit");
    }
    if let Some(workers) = job.numjobs.filter(|workers| *workers > 1) {
        title += &format!(", {workers} workers");
    }
    if job.direct == Some(false) { title + ", buffered" } else { title }
}

fn io_work(spec: &Spec, job: &Job, target: &TargetPlan) -> Result<std::result::Result<IoWork, &'static str>> {
    let Some(rw) = job.rw else {
        return Err(Problem::usage(format!("job {:?} has neither rw nor files", job.name)).into());
    };
    let writable = matches!(target.kind, TargetKind::Directory | TargetKind::BlockDestroy);
    if !writable && !rw.reads() {
        return Ok(Err("it writes, and the target is only read"));
    }
    let rwmixread = match (rw.reads(), rw.writes() && writable) {
        (true, true) => job.rwmixread.unwrap_or(50),
        (true, false) => 100,
        _ => 0,
    };
    let rw = if writable { rw } else { read_only(rw) };
    let blocks: Vec<BlockShare> = match (&job.bssplit, job.bs) {
        (Some(split), _) => {
            split.iter().map(|(bytes, weight)| BlockShare { bytes: bytes.0 as u32, weight: *weight }).collect()
        }
        (None, bs) => vec![BlockShare { bytes: bs.unwrap_or(Bytes::kib(4)).0 as u32, weight: 1 }],
    };
    let direct = job.direct.unwrap_or(true) && target.direct;
    let largest = u64::from(blocks.iter().map(|share| share.bytes).max().unwrap_or(0));
    if let Some(share) = blocks.iter().find(|share| share.bytes == 0 || direct && share.bytes % target.align != 0) {
        let message = format!(
            "{}: direct I/O here works in multiples of {} bytes, not {}; use direct = false or another bs",
            job.name, target.align, share.bytes
        );
        return Err(Problem::usage(message).into());
    }
    let data = data(job, rw)?;
    let writes_per_sync = writes_per_sync(job, rw)?;
    let ioengine = spec.engine.or(job.ioengine).unwrap_or_default();
    if job.sync == Some(Sync::RwfDsync) && !flags_writes(ioengine) {
        return Ok(Err("only psync can issue writes with RWF_DSYNC"));
    }
    if job.file == Some(FileUse::Empty) && !rw.writes() {
        return Err(Problem::usage(format!("{}: an empty file has nothing to read", job.name)).into());
    }
    let numjobs = job.numjobs.unwrap_or(1).max(1);
    let own = job.size.unwrap_or(OWN_SIZE).0;
    // A device has no files: workers that need their own get a part of it.
    let (file, size) = match job.file.unwrap_or_default() {
        FileUse::Shared => (FileUse::Shared, job.size.map_or(target.size.0, |size| size.0.min(target.size.0))),
        FileUse::Allocated | FileUse::Empty if !rw.writes() && target.kind != TargetKind::Directory => {
            return Ok(Err("needs a filesystem"));
        }
        file if target.kind == TargetKind::Directory => (file, own),
        _ => (FileUse::Shared, own.saturating_mul(u64::from(numjobs)).min(target.size.0)),
    };
    if size < largest.saturating_mul(u64::from(numjobs)) {
        return Err(
            Problem::usage(format!("{}: {} is smaller than one block for each worker", job.name, Bytes(size))).into()
        );
    }
    Ok(Ok(IoWork {
        ioengine,
        rw,
        rwmixread,
        order: order(job, rw)?,
        blocks,
        iodepth: job.iodepth.unwrap_or(1).max(1),
        numjobs,
        direct,
        sync: job.sync.unwrap_or_default(),
        file,
        size: Bytes(size),
        io_size: job.io_size.unwrap_or_default(),
        arrival: match (job.rate_iops, job.poisson.unwrap_or(false)) {
            (None, _) => Arrival::Closed,
            (Some(iops), _) if !(iops > 0.0 && iops.is_finite()) => {
                return Err(Problem::usage(format!("{}: rate_iops must be above 0", job.name)).into());
            }
            (Some(iops), true) => Arrival::Poisson { iops },
            (Some(iops), false) => match job.load_max {
                None => Arrival::Fixed { iops },
                Some(load_max) if load_max > 0.0 && load_max <= 1.0 => Arrival::Paced { iops, load_max },
                Some(_) => {
                    return Err(Problem::usage(format!("{}: load_max must be above 0 and at most 1", job.name)).into());
                }
            },
        },
        data,
        writes_per_sync,
    }))
}

/// Returns true if the engine supports flags on single writes.
fn flags_writes(engine: EngineChoice) -> bool {
    matches!(engine, EngineChoice::Auto | EngineChoice::Kind(EngineKind::Psync | EngineKind::Null | EngineKind::Sim))
}

/// Returns the number of writes in a commit.
fn writes_per_sync(job: &Job, rw: Rw) -> Result<u32> {
    let refuse = |why: &str| Err(Problem::usage(format!("{}: {why}", job.name)).into());
    match job.writes_per_sync {
        None | Some(1) => Ok(1),
        Some(0) => refuse("writes_per_sync must be at least 1"),
        Some(_) if !job.sync.unwrap_or_default().commits() => {
            refuse("writes_per_sync needs a sync that follows writes, such as fdatasync")
        }
        Some(_) if rw.reads() => refuse("writes_per_sync is for jobs that only write"),
        Some(_) if job.iodepth.is_some_and(|depth| depth > 1) => {
            refuse("writes_per_sync is for one request at a time; use numjobs for more committers")
        }
        Some(writes) => Ok(writes),
    }
}

/// Returns the kind of data that a job writes.
fn data(job: &Job, rw: Rw) -> Result<Data> {
    let refuse = |why: &str| Err(Problem::usage(format!("{}: {why}", job.name)).into());
    let data = match (job.zero_buffers.unwrap_or(false), job.buffer_compress_percentage, job.dedupe_percentage) {
        (false, None | Some(0), None | Some(0)) => return Ok(Data::Random),
        (true, None, None) | (false, Some(100), None) => Data::Zeros,
        (false, Some(percent), None) if percent < 100 => Data::Compressible { percent },
        (false, None, Some(100)) => Data::Repeated,
        (false, Some(_), None) => return refuse("buffer_compress_percentage must be at most 100"),
        (false, None, Some(_)) => return refuse("dedupe_percentage must be 0, or 100 for the same block every time"),
        _ => return refuse("choose one of zero_buffers, buffer_compress_percentage and dedupe_percentage"),
    };
    // Reads put the file's data into the buffers that are written next.
    if rw.reads() { refuse("the data to write cannot be chosen for a job that reads") } else { Ok(data) }
}

fn read_only(rw: Rw) -> Rw {
    if rw.is_random() { Rw::Randread } else { Rw::Read }
}

fn order(job: &Job, rw: Rw) -> Result<Order> {
    Ok(match (rw.is_random(), job.zipf_theta, job.full_coverage) {
        (false, ..) => Order::Sequential,
        (true, Some(theta), _) if theta > 0.0 && theta.is_finite() => Order::Zipf { theta },
        (true, Some(theta), _) => {
            return Err(Problem::usage(format!("{}: zipf_theta must be above 0, not {theta}", job.name)).into());
        }
        (true, None, Some(true)) => Order::RandomFull,
        (true, None, _) => Order::Random,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn job(keys: &str) -> Job {
        toml::from_str(&format!("name = \"a\"\n{keys}")).unwrap()
    }

    #[test]
    fn a_star_in_only_matches_any_letters() {
        assert!(matches("4k*", "4k-r70") && matches("*-qd1-*", "4k-qd1-j2") && matches("*", "") && matches("a", "a"));
        assert!(!matches("4k", "4k-r70") && !matches("*-qd1", "4k-qd12") && !matches("b*", "ab"));
    }

    #[test]
    fn a_job_without_a_title_is_described_by_what_it_does() {
        let title = title_of(&job("rw = \"randrw\"\nrwmixread = 70\nbs = \"64k\"\niodepth = 4\nnumjobs = 2"));
        assert_eq!(title, "random 64 KiB requests, 70 % reads, 4 in flight, 2 workers");
        let title = title_of(&job("rw = \"write\"\ndirect = false\nsync = \"fdatasync\""));
        assert_eq!(title, "sequential 4 KiB writes, each with fdatasync, buffered");
    }

    #[test]
    fn figures_that_would_exhaust_the_machine_are_refused_by_name() {
        for (keys, word) in [
            ("iodepth = 4_000_000", "of memory"),
            ("bs = \"8GiB\"", "of memory"),
            ("numjobs = 5000", "numjobs"),
            ("rwmixread = 101", "rwmixread"),
            ("stop_percentile = 100.0", "stop_percentile"),
            ("visits = 0", "between 1 and 1000"),
            ("visits = { quick = 6, default = 1001, full = 24 }", "between 1 and 1000"),
            ("visits = 2\nwith_load = true", "one visit"),
        ] {
            let error = check_ranges(&job(&format!("rw = \"randrw\"\n{keys}"))).unwrap_err().to_string();
            assert!(error.starts_with("a: ") && error.contains(word), "{error}");
        }
    }
}
