//! How options interact: defaults that follow from other options, limits they put on each other, contradictions.
//!
//! Where fio prints something and goes on, this gives a note; where fio stops, it is an error. Checks that need the
//! files themselves (a missing size, a missing directory) are left to the code that opens them.

use crate::Limits;
use crate::error::{Error, ErrorKind, Findings, Place};
use crate::job::{FioJob, Given};
use crate::settings::Settings;
use crate::types::{Amount, Range, SteadyState, Verify, ZoneMode};

/// Checks one job: fills in what follows from other options and reports contradictions.
pub(crate) fn job(job: &mut FioJob, globals: &[Given], settings: &Settings, findings: &mut Findings) {
    let place_of = |job: &FioJob, name: &str| -> Place {
        let mut all = job.given.iter().rev().chain(globals.iter().take(job.globals).rev());
        let given = all.find(|given| given.name == name).map(|given| given.place.clone());
        given.or_else(|| job.place.clone()).unwrap_or(Place::Whole)
    };
    let mut conflicts = Vec::new();
    sizes(job, &mut conflicts);
    rates(job, &mut conflicts);
    zones(job, &mut conflicts);
    headers(job, &mut conflicts);
    if settings.readonly && (job.rw.kind.writes() || job.rw.kind.trims()) {
        conflicts.push(("rw", format!("--readonly was given, but job `{}` has rw={}", job.name, job.rw.kind.name())));
    }
    for (option, text) in conflicts {
        let place = place_of(job, option);
        findings.error(Error::new(place, option, ErrorKind::Conflict(text)));
    }
    let mut notes = Vec::new();
    times(job, &mut notes);
    queue(job, &mut notes);
    verification(job, &mut notes);
    open_files(job, &mut notes);
    fill(job);
    debug_assert!(is_consistent(job), "the jobs' loops rely on what the checks fill in");
    for (option, text) in notes {
        findings.note(&place_of(job, option), format!("job `{}`: {text}", job.name));
    }
}

/// Whether batches fit in the queue, no more files are open than exist, and headers divide the blocks.
fn is_consistent(job: &FioJob) -> bool {
    let Range { min, max } = job.block_range(1);
    let divides = |size: u64| job.verify_interval > 0 && size.is_multiple_of(job.verify_interval);
    (1..=job.iodepth).contains(&job.iodepth_batch)
        && (1..=job.iodepth).contains(&job.iodepth_low)
        && job.iodepth_batch_complete_min <= job.iodepth
        && (1..=job.file_count()).contains(&job.openfiles)
        && job.ba.iter().all(|align| *align > 0)
        && divides(min)
        && divides(max)
}

/// What is wrong, and the option to blame.
type Remarks = Vec<(&'static str, String)>;

fn sizes(job: &mut FioJob, conflicts: &mut Remarks) {
    let count = u64::from(job.file_count());
    if job.size == Amount::Bytes(0) {
        job.size = Amount::Unset;
    }
    if let (Some(each), Amount::Unset) = (job.filesize, job.size) {
        // For a range, fio also knows the sum only after drawing every size, so it is left open here.
        if each.min == each.max {
            job.size = Amount::Bytes(each.min.saturating_mul(count));
        }
    }
    let block = job.block_min();
    match job.size {
        Amount::Bytes(size) if job.ioengine.moves_data() && size > 0 && size < block => {
            conflicts.push(("size", format!("the size of {size} bytes is smaller than one block of {block} bytes")));
        }
        _ => {}
    }
}

fn rates(job: &FioJob, conflicts: &mut Remarks) {
    let bandwidth = job.rate.iter().any(|rate| *rate > 0);
    if bandwidth && job.rate_iops.iter().any(|rate| *rate > 0) {
        conflicts.push(("rate_iops", "rate and rate_iops cannot be used together".to_owned()));
    }
    if job.rate.iter().zip(job.rate_min).any(|(rate, min)| *rate > 0 && *rate < min) {
        conflicts.push(("rate_min", "rate_min is higher than rate".to_owned()));
    }
}

fn zones(job: &FioJob, conflicts: &mut Remarks) {
    match job.zonemode {
        ZoneMode::Strided if job.zonesize == 0 => {
            conflicts.push(("zonemode", "zonemode=strided requires zonesize".to_owned()));
        }
        ZoneMode::None if job.zonesize > 0 => {
            conflicts.push(("zonesize", "zonesize requires zonemode=strided".to_owned()));
        }
        _ => {}
    }
}

fn times(job: &mut FioJob, notes: &mut Remarks) {
    if job.time_based && job.runtime.is_zero() {
        notes.push(("time_based", "time_based without runtime has no effect".to_owned()));
        job.time_based = false;
    }
    let open = job.steadystate_duration.is_zero();
    if let (Some(SteadyState { .. }), true) = (job.steadystate, open) {
        notes.push(("steadystate", "steadystate without steadystate_duration has no effect".to_owned()));
    }
}

fn queue(job: &mut FioJob, notes: &mut Remarks) {
    if job.iodepth > 1 && !job.ioengine.is_async() {
        let engine = job.ioengine.name();
        notes.push((
            "iodepth",
            format!("{engine} does one request at a time, so iodepth={} is treated as 1", job.iodepth),
        ));
        job.iodepth = 1;
    }
    let depth = job.iodepth;
    if job.iodepth_batch == 0 || job.iodepth_batch > depth {
        job.iodepth_batch = depth;
    }
    if job.iodepth_low == 0 || job.iodepth_low > depth {
        job.iodepth_low = depth;
    }
    job.iodepth_batch_complete_min = job.iodepth_batch_complete_min.min(depth);
    job.iodepth_batch_complete_max = job.iodepth_batch_complete_max.max(job.iodepth_batch_complete_min);
}

fn verification(job: &FioJob, notes: &mut Remarks) {
    let varies = (0..3).any(|direction| job.block_range(direction).min != job.block_range(direction).max);
    if job.verify != Verify::None && job.norandommap && job.rw.kind.is_random() && varies {
        let text = "with norandommap and several block sizes, partly overwritten blocks are not verified";
        notes.push(("verify", text.to_owned()));
    }
}

fn open_files(job: &FioJob, notes: &mut Remarks) {
    // Engines that work on the files themselves keep none open.
    if job.openfiles > 0 && job.openfiles < job.file_count() && job.ioengine.moves_data() {
        let text = format!("all {} files stay open, although openfiles={}", job.file_count(), job.openfiles);
        notes.push(("openfiles", text));
    }
}

/// Where the headers of verified blocks lie. As in fio, an interval that does not divide the blocks becomes one that
/// does.
fn headers(job: &mut FioJob, conflicts: &mut Remarks) {
    let Range { min, max } = job.block_range(1);
    let mut interval = job.verify_interval.min(min);
    if job.rw.kind.reads() {
        interval = interval.min(job.block_range(0).min);
    }
    if interval == 0 || min % interval != 0 || max % interval != 0 {
        interval = common_divisor(min, max);
    }
    job.verify_interval = interval;
    if job.verify == Verify::None || job.verify_offset == 0 {
        return;
    }
    if job.verify_offset.saturating_add(Limits::VERIFY_HEADER_BYTES) > job.verify_interval {
        let text = format!(
            "with verify_offset={}, an interval of {} bytes has no room for a header",
            job.verify_offset, job.verify_interval
        );
        conflicts.push(("verify_offset", text));
    }
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// Defaults that follow from other options.
fn fill(job: &mut FioJob) {
    for direction in 0..3 {
        if job.ba[direction] == 0 {
            job.ba[direction] = job.block_range(direction).min;
        }
    }
    let count = job.file_count();
    job.nrfiles = count;
    if job.openfiles == 0 || job.openfiles > count {
        job.openfiles = count;
    }
}

/// Checks all jobs together.
pub(crate) fn all(jobs: &[FioJob], settings: &Settings, findings: &mut Findings) {
    let workers: u64 = jobs.iter().map(|job| u64::from(job.numjobs)).sum();
    if workers > u64::from(settings.max_jobs) {
        let kind = ErrorKind::Limit {
            what: format!("workers, counting all clones ({workers}; see --max-jobs)"),
            limit: settings.max_jobs as usize,
        };
        findings.error(Error::new(Place::Whole, "numjobs", kind));
    }
    for (index, job) in jobs.iter().enumerate().filter(|(_, job)| !job.wait_for.is_empty()) {
        if !jobs[..index].iter().any(|other| other.name == job.wait_for) {
            let text = format!("job `{}` waits for `{}`, but no earlier job has that name", job.name, job.wait_for);
            let given = job.given.iter().find(|given| given.name == "wait_for").map(|given| given.place.clone());
            let place = given.or_else(|| job.place.clone()).unwrap_or(Place::Whole);
            findings.error(Error::new(place, &job.wait_for, ErrorKind::Conflict(text)));
        }
    }
}
