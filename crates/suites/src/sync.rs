//! The suite of `qd1 sync`: every way to make writes durable, side by side.
//!
//! All methods are measured with PostgreSQL's 8 KiB, one committer, over written data, through the page cache and
//! with O_DIRECT, with one and two writes per commit: what `pg_test_fsync` does, and more. They are measured twice,
//! the second time in reverse, so that a disk that gets slower favours none. The later steps (sizes, committers) use
//! the best method.

use qd1_model::plan::{FileSync, FileUse, Rw, Sync};
use qd1_model::spec::{Effort, FilesJob, Job, PerEffort, Span, Suite};
use qd1_model::sync::SyncMethod;
use qd1_model::units::short_size;
use qd1_model::{Bytes, Subject};

/// Size of the writes that compare methods: PostgreSQL's page.
pub const BLOCK: Bytes = Bytes::kib(8);
/// Part of the test file that one committer writes: the size of PostgreSQL's log segment.
const REGION: Bytes = Bytes::mib(16);
/// Size of each committer's own file, if there are several.
const OWN: Bytes = Bytes::mib(1);
/// Size of a new log segment, as in etcd.
const SEGMENT: Bytes = Bytes::mib(64);
/// Size of a small new file, and the maximum number of them.
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

/// Duration of a method's step, and of the later steps.
const METHOD: PerEffort<Span> = ms(200, 500, 2000);
const FURTHER: PerEffort<Span> = ms(300, 1000, 5000);
const PASSES: PerEffort<usize> = PerEffort { quick: 1, default: 2, full: 2 };
/// The most that one step writes before it ends: enough to measure a fast disk.
const WRITES: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(32), default: Bytes::mib(64), full: Bytes::mib(512) };
const SIZE: PerEffort<Bytes> = PerEffort { quick: Bytes::mib(32), default: Bytes::mib(64), full: Bytes::mib(64) };
const PREPARE: PerEffort<Span> = ms(3000, 10_000, 30_000);

/// Returns the suite with all steps in order.
pub fn suite(effort: Effort) -> Suite {
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
        let step =
            |stem: &str, files: &str| further(format!("{stem}-{number}"), format!("{number} committers, {files}"));
        let own = Job { file: Some(FileUse::Own), size: Some(OWN), ..step("own", "one file each") };
        let shared = Job { size: None, ..step("shared", "one shared file") };
        job.extend([own, shared].map(|job| Job { numjobs: Some(number), ..job }));
    }
    job.extend([("append", FileUse::Empty), ("preallocated", FileUse::Allocated)].map(|(name, file)| {
        let title = if file == FileUse::Empty { "appending to a file" } else { "preallocated space" };
        let job = further(name.to_owned(), format!("fdatasync, {title}"));
        Job { file: Some(file), size: Some(SEGMENT), io_size: Some(SEGMENT), ..job }
    }));
    job.extend([("file", FileSync::Fsync), ("file-dir", FileSync::FsyncDirectory)].map(|(name, sync)| Job {
        name: name.to_owned(),
        runtime: Some(FURTHER),
        files: Some(FilesJob { size: FILE, count: FILES, sync, ..FilesJob::default() }),
        ..Job::default()
    }));
    Suite {
        name: "sync".to_owned(),
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

/// Returns one pass over all methods.
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
                    title: Some(format!("{name}, {how}, {many} of {BLOCK} per commit")),
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

/// Returns the common part of all steps of commits.
fn base() -> Job {
    Job {
        rw: Some(Rw::Write),
        bs: Some(BLOCK),
        size: Some(REGION),
        // Each step gets the same time: stopping once a figure is precise would favour some.
        adaptive: Some(false),
        ..Job::default()
    }
}

/// Returns a later step, with fdatasync through the page cache until the best method is known.
fn plain(name: String, effort: Effort) -> Job {
    let (direct, sync) = (Some(false), Some(Sync::Fdatasync));
    Job { name, direct, sync, io_size: Some(Bytes(WRITES.get(effort).0 * 2)), ..base() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_names_are_unique_and_the_second_pass_is_reversed() {
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
    fn defaults_take_a_minute_at_most_and_quick_a_quarter() {
        for (effort, most_s) in [(Effort::Quick, 15), (Effort::Default, 60)] {
            let steps: u64 = suite(effort).job.iter().map(|job| job.runtime_ns(effort) * 21 / 20).sum();
            assert!((steps + PREPARE.get(effort).0) / 1_000_000_000 < most_s);
        }
    }
}
