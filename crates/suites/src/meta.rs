//! The suites of `qd1 meta`: file operations, and the complete job of bonnie++.

use qd1_model::meta::{BONNIE_SEEKERS, BONNIE_SEEKS, BONNIE_UNIT};
use qd1_model::plan::{FileOp, FileOrder, FilesSync, UNTIL_DONE_NS};
use qd1_model::spec::{Effort, FilesJob, Job, PerEffort, Span, Suite};
use qd1_model::{Bytes, Problem, Subject};

/// Default number of files, and the longest time of one operation on them.
const FILES: PerEffort<u64> = PerEffort { quick: 5000, default: 20_000, full: 100_000 };
const RUNTIME: PerEffort<Span> =
    PerEffort { quick: Span(5_000_000_000), default: Span(20_000_000_000), full: Span(60_000_000_000) };
/// Time limit if the user gives the number of files: long enough to complete them all.
const UNTIL_DONE: Span = Span(UNTIL_DONE_NS);
const FILE_SIZE: Bytes = Bytes::kib(4);
const PER_DIR: u64 = 1000;

/// Defaults of bonnie++ (2.00): 16 x 1,024 empty files, one file of twice the memory but at
/// least 300 MiB, 8 KiB at a time, and 8,192 seeks by five workers.
const BONNIE_FILES: u64 = 16 * BONNIE_UNIT;
const BONNIE_SIZE_MIN: Bytes = Bytes::mib(300);
const BONNIE_CHUNK: Bytes = Bytes::kib(8);

/// Operations that can be selected, in the order in which they run.
pub const OPS: [FileOp; 7] =
    [FileOp::Create, FileOp::Stat, FileOp::Open, FileOp::List, FileOp::Rename, FileOp::Link, FileOp::Delete];

/// Options of both suites; absent or empty ones take their defaults.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How much time to spend.
    pub effort: Effort,
    /// How many files.
    pub files: Option<u64>,
    /// Size of the largest file and of the smallest.
    pub file_size: Option<(Bytes, Bytes)>,
    /// Files in a directory.
    pub per_dir: Option<u64>,
    /// Threads that share the files.
    pub workers: u32,
    /// What is made durable.
    pub fsync: FilesSync,
    /// Operations; bonnie++ has its own.
    pub ops: Vec<FileOp>,
    /// Orders; bonnie++ takes both.
    pub orders: Vec<FileOrder>,
    /// bonnie++: size of the large file.
    pub size: Option<Bytes>,
    /// bonnie++: memory that the large file must exceed, instead of the machine's.
    pub ram: Option<Bytes>,
    /// bonnie++: bytes of one read or write of the large file.
    pub chunk: Option<Bytes>,
}

const fn same<T: Copy>(value: T) -> PerEffort<T> {
    PerEffort { quick: value, default: value, full: value }
}

/// Returns a job of one operation.
fn one(name: String, title: String, files: FilesJob, runtime: PerEffort<Span>) -> Job {
    Job { name, title: Some(title), runtime: Some(runtime), files: Some(files), ..Job::default() }
}

/// Returns the description of an operation in a step's title.
const fn description(op: FileOp) -> &'static str {
    match op {
        FileOp::Create => "create files",
        FileOp::Stat => "stat files",
        FileOp::StatRead => "stat and read files",
        FileOp::Open => "open, read and close files",
        FileOp::List => "read directories",
        FileOp::Rename => "rename files",
        FileOp::Link => "link files",
        FileOp::Delete => "delete files",
        FileOp::BlockWrite => "write one large file",
        FileOp::BlockRewrite => "read, change and write back one large file",
        FileOp::BlockRead => "read one large file",
        FileOp::Seek => "read at random offsets, write every tenth back",
    }
}

/// Returns the suite of file operations: each in each order; files are always created before and deleted after.
pub fn files(options: &Options) -> Suite {
    suite("meta", Subject::Meta, file_jobs(options))
}

/// Returns the suite of bonnie++'s job on a machine with this memory: its tests in its order, except the two that write
/// and read one character at a time (`bonnie++ -f`).
///
/// # Errors
/// When the large file is too small for the memory, or there is nothing to measure.
pub fn bonnie(options: &Options, memory: Bytes) -> Result<Suite, Problem> {
    Ok(suite("bonnie", Subject::Bonnie, bonnie_jobs(options, memory)?))
}

fn suite(name: &str, subject: Subject, job: Vec<Job>) -> Suite {
    Suite {
        name: name.to_owned(),
        subject,
        title: "file operations".to_owned(),
        source: String::new(),
        // No step uses a shared file; the planner requires a minimum size.
        size: same(Bytes::mib(16)),
        prepare: same(Span(0)),
        job,
        criteria: Vec::new(),
        sweep: None,
    }
}

/// Returns the operations in the order in which they run; files are created first and deleted last.
fn ops_of(options: &Options) -> Vec<FileOp> {
    let always = |op: FileOp| matches!(op, FileOp::Create | FileOp::Delete);
    OPS.into_iter().filter(|op| options.ops.is_empty() || always(*op) || options.ops.contains(op)).collect()
}

/// Returns the selected orders, each once.
fn orders_of(options: &Options) -> Vec<FileOrder> {
    let wanted = |order: &FileOrder| options.orders.is_empty() || options.orders.contains(order);
    [FileOrder::Sequential, FileOrder::Random].into_iter().filter(wanted).collect()
}

fn file_jobs(options: &Options) -> Vec<Job> {
    let count = options.files.map_or(FILES, same);
    let (largest, smallest) = options.file_size.unwrap_or((FILE_SIZE, FILE_SIZE));
    let runtime = if options.files.is_some() { same(UNTIL_DONE) } else { RUNTIME };
    let job = FilesJob {
        size: largest,
        size_min: Some(smallest),
        count: count.get(options.effort),
        per_dir: Some(options.per_dir.unwrap_or(PER_DIR)),
        workers: Some(options.workers),
        fsync: Some(options.fsync),
        ..FilesJob::default()
    };
    let ops = ops_of(options);
    let orders = orders_of(options);
    let each = orders.iter().flat_map(|order| ops.iter().map(move |op| (*order, *op)));
    each.map(|(order, op)| {
        let short = if order == FileOrder::Random { "rand" } else { "seq" };
        let title =
            format!("{}, {}", description(op), if order == FileOrder::Random { "random order" } else { "in order" });
        let files = FilesJob { ops: Some(vec![op]), order: Some(order), ..job.clone() };
        one(format!("{short}-{}", op.name()), title, files, runtime)
    })
    .collect()
}

fn bonnie_jobs(options: &Options, memory: Bytes) -> Result<Vec<Job>, Problem> {
    let size = bonnie_size(options.size, options.ram, memory)?;
    let (largest, smallest) = options.file_size.unwrap_or((Bytes(0), Bytes(0)));
    let count = options.files.unwrap_or(BONNIE_FILES);
    if !count.is_multiple_of(BONNIE_UNIT) {
        let units = count.div_ceil(BONNIE_UNIT).max(1);
        let message = format!(
            "--files {count}: bonnie++ counts files in units of {BONNIE_UNIT}; choose --files {}",
            units * BONNIE_UNIT
        );
        return Err(Problem::usage(message));
    }
    let durable = FilesSync { end: false, ..options.fsync };
    let mut jobs = Vec::new();
    if size.0 > 0 {
        let chunk = options.chunk.unwrap_or(BONNIE_CHUNK);
        let large = FilesJob { size, chunk: Some(chunk), fsync: Some(durable), ..FilesJob::default() };
        for op in [FileOp::BlockWrite, FileOp::BlockRewrite, FileOp::BlockRead, FileOp::Seek] {
            let seeks = op == FileOp::Seek;
            let files = FilesJob {
                ops: Some(vec![op]),
                order: Some(if seeks { FileOrder::Random } else { FileOrder::Sequential }),
                workers: Some(if seeks { BONNIE_SEEKERS } else { 1 }),
                seeks: seeks.then_some(BONNIE_SEEKS),
                ..large.clone()
            };
            let name = if seeks { "seeks".to_owned() } else { op.name().replace('_', "-") };
            jobs.push(one(name, description(op).to_owned(), files, same(UNTIL_DONE)));
        }
    }
    let small = FilesJob {
        size: largest,
        size_min: Some(smallest),
        count,
        per_dir: options.per_dir,
        long_names: Some(true),
        ..FilesJob::default()
    };
    let orders = if count == 0 { &[][..] } else { &[("seq", FileOrder::Listed), ("rand", FileOrder::Random)] };
    for (short, order) in orders {
        for op in [FileOp::Create, FileOp::StatRead, FileOp::Delete] {
            // bonnie++ writes everything out after creating or deleting files, and includes that time.
            let sync = FilesSync { end: op != FileOp::StatRead, ..durable };
            let files = FilesJob { ops: Some(vec![op]), order: Some(*order), fsync: Some(sync), ..small.clone() };
            let name = format!("{short}-{}", if op == FileOp::StatRead { "stat" } else { op.name() });
            let title = match order {
                FileOrder::Random => format!("{}, random order", description(op)),
                _ if op == FileOp::Create => format!("{}, in order", description(op)),
                _ => format!("{}, in directory order", description(op)),
            };
            jobs.push(one(name, title, files, same(UNTIL_DONE)));
        }
    }
    if jobs.is_empty() {
        return Err(Problem::usage("--size 0 and --files 0 leave nothing to measure"));
    }
    Ok(jobs)
}

/// Returns the size of bonnie++'s large file: twice the memory, so that the page cache cannot serve it.
///
/// # Errors
/// When the requested size is smaller, which bonnie++ refuses; `--ram` sets the memory to exceed.
fn bonnie_size(requested: Option<Bytes>, ram: Option<Bytes>, memory: Bytes) -> Result<Bytes, Problem> {
    let ram = ram.unwrap_or(memory);
    let least = Bytes(ram.0.saturating_mul(2));
    match requested {
        None => {
            let size = least.max(BONNIE_SIZE_MIN).0;
            // Rounded up to a whole GiB if more than half of one is over, as in bonnie++.
            let (gib, rest) = (size >> 30, size & ((1 << 30) - 1));
            Ok(Bytes(if rest > 1 << 29 { (gib + 1) << 30 } else { size >> 20 << 20 }))
        }
        Some(size) if size.0 > 0 && size < least => {
            let message = format!(
                "--size {size} is less than twice the memory ({}), so the page cache would serve reads; choose \
                 --size {least} or more, or set with --ram how much memory to assume (0: none)",
                ram
            );
            Err(Problem::usage(message))
        }
        Some(size) => Ok(size),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options() -> Options {
        let fsync = FilesSync { end: true, ..FilesSync::default() };
        Options { workers: 1, fsync, ..Options::default() }
    }

    fn names(jobs: &[Job]) -> String {
        jobs.iter().map(|job| job.name.as_str()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn without_flags_every_operation_is_measured_in_both_orders() {
        let jobs = file_jobs(&options());
        let ops = ["create", "stat", "open", "list", "rename", "link", "delete"];
        let expected: Vec<String> =
            ["seq", "rand"].iter().flat_map(|order| ops.map(|op| format!("{order}-{op}"))).collect();
        assert_eq!(names(&jobs), expected.join(" "));
        assert_eq!(jobs[0].files.as_ref().unwrap().count, 20_000);
    }

    #[test]
    fn files_are_always_created_and_deleted() {
        let deleted =
            Options { ops: vec![FileOp::Delete, FileOp::Create], orders: vec![FileOrder::Sequential], ..options() };
        assert_eq!(
            names(&file_jobs(&Options { ops: vec![FileOp::Stat], orders: vec![FileOrder::Random], ..options() })),
            "rand-create rand-stat rand-delete"
        );
        assert_eq!(names(&file_jobs(&deleted)), "seq-create seq-delete");
    }

    #[test]
    fn a_given_number_of_files_is_completed() {
        let quick = Options { effort: Effort::Quick, ..options() };
        let jobs = file_jobs(&Options { files: Some(1_000_000), ..quick.clone() });
        assert_eq!((jobs[0].files.as_ref().unwrap().count, jobs[0].runtime.unwrap().quick), (1_000_000, UNTIL_DONE));
        assert_eq!(file_jobs(&quick)[0].runtime.unwrap().quick, RUNTIME.quick);
    }

    #[test]
    fn the_large_file_exceeds_the_memory_as_in_bonnie() {
        let gib = Bytes::gib;
        assert_eq!(bonnie_size(None, None, gib(24)).unwrap(), gib(48));
        assert_eq!(bonnie_size(None, None, Bytes::mib(24_105)).unwrap(), Bytes::mib(48_210));
        assert_eq!(bonnie_size(None, None, Bytes::mib(24_500)).unwrap(), gib(48));
        assert_eq!(bonnie_size(None, Some(Bytes(0)), gib(24)).unwrap(), BONNIE_SIZE_MIN);
        assert_eq!(bonnie_size(Some(gib(1)), Some(Bytes::mib(512)), gib(24)).unwrap(), gib(1));
        assert_eq!(bonnie_size(Some(Bytes(0)), None, gib(24)).unwrap(), Bytes(0));
        let error = bonnie_size(Some(gib(1)), None, gib(24)).unwrap_err();
        assert!(error.to_string().contains("--size 48 GiB") && error.to_string().contains("--ram"), "{error}");
    }

    #[test]
    fn bonnies_job_is_its_ten_tests_in_its_order() {
        let with_files = |files| Options { files: Some(files), ..options() };
        let jobs = bonnie_jobs(&options(), Bytes::gib(1)).unwrap();
        assert_eq!(
            names(&jobs),
            "block-write block-rewrite block-read seeks seq-create seq-stat seq-delete rand-create rand-stat rand-delete"
        );
        let sync = |at: usize| jobs[at].files.as_ref().unwrap().fsync.unwrap();
        assert!(sync(4).end && !sync(5).end && sync(9).end && !sync(4).files);
        assert!(bonnie_jobs(&with_files(5000), Bytes::gib(1)).unwrap_err().to_string().contains("5120"));
        assert_eq!(bonnie_jobs(&with_files(0), Bytes::gib(1)).unwrap().len(), 4);
        assert!(bonnie_jobs(&Options { size: Some(Bytes(0)), ..with_files(0) }, Bytes::gib(1)).is_err());
    }
}
