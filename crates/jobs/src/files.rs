//! The files of a job: their sizes, the part of each that is used, creating and opening them.

use std::collections::HashMap;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use qd1_clock as clock;
use qd1_engine::backing::{PathKind, path_kind};
use qd1_fio::FioJob;
use qd1_fio::engines::EngineName;
use qd1_fio::types::{Amount, FadviseHint, Fallocate, SyncMode};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use rustix::fs::{Advice, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

use crate::error::JobError;
use crate::load::Extent;

/// The number of files that a request's file number can distinguish.
const FILES_MAX: u64 = 1 << 16;

/// What a name refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FileKind {
    /// A regular file, there already or to be made.
    Regular,
    /// A block device.
    Block,
    /// A character device such as /dev/null, which has no size of its own.
    Character,
    /// Nothing: the engine touches no file.
    Nothing,
}

/// One file of one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilePlan {
    /// Its path.
    pub path: PathBuf,
    /// What it is.
    pub kind: FileKind,
    /// The part that is used.
    pub extent: Extent,
    /// Whether it existed when it was inspected.
    pub exists: bool,
    /// Its length at that time.
    pub have: u64,
}

impl FilePlan {
    /// The length it must have.
    pub(crate) fn needed(&self) -> u64 {
        self.extent.start + self.extent.length
    }
}

/// Whether the job changes the content of its files.
pub(crate) fn changes_data(job: &FioJob) -> bool {
    (job.rw.kind.writes() || job.rw.kind.trims()) && !job.verify_only
}

/// Whether the job changes or deletes this file or device and it already existed.
pub(crate) fn changes(job: &FioJob, file: &FilePlan) -> bool {
    let is_made_longer = |have: u64| have < file.needed() && !job.create_on_open;
    match (file.kind, job.ioengine) {
        (FileKind::Block, _) => changes_data(job),
        (FileKind::Regular, _) => file.exists && (changes_data(job) || job.unlink || is_made_longer(file.have)),
        // The engines that work on names.
        (FileKind::Nothing, EngineName::Filedelete) => file.path.symlink_metadata().is_ok(),
        (FileKind::Nothing, EngineName::Filestat) => {
            file.path.metadata().is_ok_and(|found| found.len() < file.extent.length)
        }
        (FileKind::Nothing | FileKind::Character, _) => false,
    }
}

/// Whether the job makes this file.
pub(crate) fn makes(job: &FioJob, file: &FilePlan) -> bool {
    match file.kind {
        FileKind::Regular => !file.exists,
        FileKind::Nothing => {
            let by_name =
                [EngineName::Filecreate, EngineName::Filestat, EngineName::Filedelete].contains(&job.ioengine);
            by_name && file.path.symlink_metadata().is_err()
        }
        FileKind::Block | FileKind::Character => false,
    }
}

/// Inspects the files of one clone and determines the part of each that is used.
///
/// # Errors
/// An unknown size, an offset past the end, or an unusable name.
pub(crate) fn plan_files(job: &FioJob, clone: u32, seed: u64) -> Result<Vec<FilePlan>, JobError> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed ^ 0xF11E);
    let count = u64::from(job.file_count().max(1));
    if count > FILES_MAX && job.ioengine.moves_data() {
        let text = format!(
            "nrfiles={count}: a thread can have at most {FILES_MAX} files; use more jobs with fewer files each"
        );
        return Err(JobError::new(&job.name, Errno::INVAL, text));
    }
    job.file_names(clone).map(|name| one_file(job, clone, PathBuf::from(name), count, &mut rng)).collect()
}

fn one_file(
    job: &FioJob,
    clone: u32,
    path: PathBuf,
    count: u64,
    rng: &mut Xoshiro256PlusPlus,
) -> Result<FilePlan, JobError> {
    let touches = job.ioengine.moves_data() && job.ioengine != EngineName::Null;
    let (kind, exists, have) = if touches { stat(job, &path)? } else { (FileKind::Nothing, true, 0) };
    let fail = |text: String| Err(JobError::new(&job.name, Errno::INVAL, text));
    let named = path.display();
    let whole = match job.filesize {
        Some(range) if range.min == range.max => Some(range.min),
        Some(range) => {
            let span = (range.max - range.min) / job.block_min().max(1) + 1;
            Some(range.min + rng.next_u64() % span * job.block_min())
        }
        None => None,
    };
    // The previous clone has made it.
    let by_clones = if clone > 0 { have.max(whole.unwrap_or(0)) } else { have };
    let start = offset(job, clone, have, by_clones);
    let smallest = smallest_block(job);
    // In fio, a share ends on a whole block.
    let share = |of: u64, percent: u8| {
        let share = (u128::from(of) * u128::from(percent) / 100).min(u128::from(of.saturating_sub(start))) as u64;
        share - share % smallest.max(1)
    };
    let length = match (whole, job.size) {
        (Some(whole), Amount::Percent(percent)) if percent < 100 => share(whole, percent),
        (Some(whole), _) => whole.saturating_sub(start),
        (None, Amount::Bytes(size)) => size / count,
        (None, Amount::Percent(percent)) if exists && have > 0 => share(have, percent),
        (None, Amount::Unset) if exists && have > 0 => have.saturating_sub(start),
        (None, Amount::Percent(_)) => {
            return fail(format!("size in percent needs an existing file, but {named} does not exist"));
        }
        (None, Amount::Unset) if touches => {
            return fail(format!("{named} does not exist yet, so its size is unknown; give size="));
        }
        (None, Amount::Unset) => return fail("the engine has no file to take the size from; give size=".to_owned()),
    };
    let length = match kind {
        FileKind::Block if start >= have => {
            return fail(format!("offset {start} is past the end of {named}, which has {have} bytes"));
        }
        FileKind::Block => length.min(have - start),
        _ => length,
    };
    if job.ioengine.moves_data() && length < smallest {
        return fail(format!(
            "the {length} bytes of {named} are less than one block of {smallest} bytes; give a larger size or a \
             smaller bs"
        ));
    }
    Ok(FilePlan { path, kind, extent: Extent { start, length }, exists, have })
}

/// The smallest block of the directions that the job has.
pub(crate) fn smallest_block(job: &FioJob) -> u64 {
    let used = job.rw.kind.directions();
    (0..3).filter(|direction| used[*direction]).map(|direction| job.block_range(direction).min).min().unwrap_or(1)
}

/// The largest block of the directions that the job has.
pub(crate) fn largest_block(job: &FioJob) -> u64 {
    let used = job.rw.kind.directions();
    (0..3).filter(|direction| used[*direction]).map(|direction| job.block_range(direction).max).max().unwrap_or(1)
}

fn offset(job: &FioJob, clone: u32, have: u64, by_clones: u64) -> u64 {
    let of = |amount: Amount, whole: u64| match amount {
        Amount::Unset => 0,
        Amount::Bytes(bytes) => bytes,
        Amount::Percent(percent) => {
            let bytes = (u128::from(whole) * u128::from(percent) / 100) as u64;
            let align = if job.offset_align > 0 { job.offset_align } else { smallest_block(job).max(1) };
            bytes.next_multiple_of(align)
        }
    };
    let end = if job.file_append { have } else { 0 };
    end + of(job.offset, have) + of(job.offset_increment, by_clones) * u64::from(clone)
}

fn stat(job: &FioJob, path: &Path) -> Result<(FileKind, bool, u64), JobError> {
    match path_kind(path) {
        Ok(PathKind::File(size)) => Ok((FileKind::Regular, true, size)),
        Ok(PathKind::Block(size)) => Ok((FileKind::Block, true, size)),
        Ok(PathKind::Other) => Ok((FileKind::Character, true, 0)),
        Ok(PathKind::Directory) => {
            let text =
                format!("{} is a directory; give it as directory= and name the file with filename=", path.display());
            Err(JobError::new(&job.name, Errno::ISDIR, text))
        }
        Err(qd1_engine::EngineError::Path { errno: Errno::NOENT, .. }) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            match parent {
                Some(parent) if !parent.is_dir() => {
                    let text = format!("the directory {} does not exist; create it first", parent.display());
                    Err(JobError::new(&job.name, Errno::NOENT, text))
                }
                _ if !job.allow_file_create => {
                    let text =
                        format!("{} does not exist, and allow_file_create=0 forbids creating it", path.display());
                    Err(JobError::new(&job.name, Errno::NOENT, text))
                }
                _ => Ok((FileKind::Regular, false, 0)),
            }
        }
        Err(error) => Err(JobError::engine(&job.name, &error)),
    }
}

/// Files that were laid out in this run, so that clones which share one make it once.
#[derive(Default)]
pub(crate) struct LaidOutFiles(HashMap<PathBuf, u64>);

impl LaidOutFiles {
    /// How much of a file exists so far, bytes.
    fn have(&self, file: &FilePlan) -> u64 {
        self.0.get(&file.path).copied().unwrap_or(0).max(file.have)
    }
}

/// What the watcher is shown while files are laid out.
pub(crate) struct LayingOut {
    /// How many files are made.
    pub(crate) files: usize,
    /// How many bytes are written.
    pub(crate) bytes: u64,
}

/// Makes the files that must exist before the job begins. For a job that reads, every byte of its files is written; for
/// one that only writes, space is allocated as `fallocate` says.
///
/// # Errors
/// Too little space, no permission.
pub(crate) fn lay_out(
    job: &FioJob,
    files: &[FilePlan],
    made: &mut LaidOutFiles,
    cancel: &dyn Fn() -> bool,
    show: &mut dyn FnMut(LayingOut),
) -> Result<(), JobError> {
    if job.create_on_open {
        return Ok(());
    }
    let needs_data = job.rw.kind.reads() || (job.overwrite && job.rw.kind.writes()) || job.verify_only;
    let short: Vec<&FilePlan> = files
        .iter()
        .filter(|file| file.kind == FileKind::Regular)
        .filter(|file| file.needed() > made.have(file))
        .collect();
    if short.is_empty() {
        return Ok(());
    }
    let bytes: u64 = short.iter().map(|file| file.needed() - made.have(file)).sum();
    if needs_data {
        enough_space(job, &short[0].path, bytes)?;
        show(LayingOut { files: short.len(), bytes });
    }
    for file in short {
        make(job, file, made.have(file), needs_data, cancel)?;
        made.0.insert(file.path.clone(), file.needed());
    }
    Ok(())
}

fn enough_space(job: &FioJob, path: &Path, bytes: u64) -> Result<(), JobError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Ok(stat) = rustix::fs::statvfs(parent) else { return Ok(()) };
    let free = stat.f_bavail * stat.f_frsize;
    if free >= bytes {
        return Ok(());
    }
    let text = format!(
        "its files need {} MiB in {}, which has {} MiB free; give a smaller size or another directory",
        bytes >> 20,
        parent.display(),
        free >> 20
    );
    Err(JobError::new(&job.name, Errno::NOSPC, text))
}

fn make(job: &FioJob, file: &FilePlan, from: u64, fill: bool, cancel: &dyn Fn() -> bool) -> Result<(), JobError> {
    let fail = |op: &'static str| {
        move |errno| JobError::engine(&job.name, &qd1_engine::EngineError::path(op, &file.path, errno))
    };
    let flags = OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(&file.path, flags, Mode::from_raw_mode(0o644)).map_err(fail("create"))?;
    allocate(job.fallocate, &fd, file.needed()).map_err(fail("allocate space for"))?;
    if !fill {
        return Ok(());
    }
    const BLOCK: usize = 1 << 20;
    let mut block = vec![0; BLOCK];
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(clock::wall_ns());
    let mut at = from;
    while at < file.needed() && !cancel() {
        rng.fill_bytes(&mut block);
        let wanted = (file.needed() - at).min(BLOCK as u64) as usize;
        let wrote = rustix::io::pwrite(&fd, &block[..wanted], at).map_err(fail("write"))?;
        at += wrote as u64;
    }
    if job.create_fsync {
        rustix::fs::fsync(&fd).map_err(fail("fsync"))?;
    }
    Ok(())
}

/// Allocates space. It is not an error if the filesystem cannot: the file then grows as it is written.
fn allocate(how: Fallocate, fd: &OwnedFd, size: u64) -> Result<(), Errno> {
    let done = match how {
        Fallocate::None => Ok(()),
        Fallocate::Native | Fallocate::Posix => rustix::fs::fallocate(fd, FallocateFlags::empty(), 0, size),
        Fallocate::Keep => rustix::fs::fallocate(fd, FallocateFlags::KEEP_SIZE, 0, size),
        Fallocate::Truncate => rustix::fs::ftruncate(fd, size),
    };
    match done {
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(()),
        other => other,
    }
}

/// Opens the files of a thread.
///
/// # Errors
/// With the path and the errno; the message says so if O_DIRECT was refused.
pub(crate) fn open(job: &FioJob, files: &[FilePlan]) -> Result<Vec<OwnedFd>, JobError> {
    if files.iter().all(|file| file.kind == FileKind::Nothing) {
        return Ok(Vec::new());
    }
    files.iter().map(|file| open_one(job, file)).collect()
}

fn open_one(job: &FioJob, file: &FilePlan) -> Result<OwnedFd, JobError> {
    let mut flags = OFlags::CLOEXEC;
    let writes = changes_data(job);
    flags |= if writes { OFlags::RDWR } else { OFlags::RDONLY };
    if file.kind == FileKind::Regular && job.allow_file_create && writes {
        flags |= OFlags::CREATE;
    }
    if job.direct {
        flags |= OFlags::DIRECT;
    }
    match job.sync {
        SyncMode::None => {}
        SyncMode::Sync => flags |= OFlags::SYNC,
        SyncMode::Dsync => flags |= OFlags::DSYNC,
    }
    let mode = Mode::from_raw_mode(0o644);
    let opened = rustix::fs::open(&file.path, flags | OFlags::NOATIME, mode).or_else(|errno| match errno {
        Errno::PERM => rustix::fs::open(&file.path, flags, mode),
        errno => Err(errno),
    });
    opened.map_err(|errno| {
        if job.direct && errno == Errno::INVAL {
            let text = format!(
                "{} does not support direct I/O (O_DIRECT); choose a file on a disk, or give direct=0",
                file.path.display()
            );
            return JobError::new(&job.name, errno, text);
        }
        JobError::engine(&job.name, &qd1_engine::EngineError::path("open", &file.path, errno))
    })
}

/// Drops clean pages of the files from the cache if the job wants that (`invalidate`).
pub(crate) fn invalidate(job: &FioJob, files: &[OwnedFd]) {
    if job.invalidate && !job.direct {
        for file in files {
            // Only a hint: a filesystem may ignore it.
            let _ = rustix::fs::fadvise(file, 0, None, Advice::DontNeed);
        }
    }
}

/// Tells the kernel the access pattern of buffered I/O (`fadvise_hint`).
pub(crate) fn hint(job: &FioJob, files: &[OwnedFd]) {
    let advice = match (job.fadvise_hint, job.rw.kind.is_random()) {
        (FadviseHint::None, _) => return,
        (FadviseHint::Random, _) | (FadviseHint::Pattern, true) => Advice::Random,
        (FadviseHint::Sequential, _) | (FadviseHint::Pattern, false) => Advice::Sequential,
    };
    for file in files.iter().filter(|_| !job.direct) {
        // Only a hint, as above.
        let _ = rustix::fs::fadvise(file, 0, None, advice);
    }
}

/// Reads the files through the page cache, so that the job finds them there (`pre_read`).
///
/// # Errors
/// When one cannot be read.
pub(crate) fn pre_read(job: &FioJob, files: &[FilePlan]) -> Result<(), JobError> {
    let mut block = vec![0; 1 << 20];
    for file in files.iter().filter(|file| job.pre_read && file.kind != FileKind::Nothing) {
        let fail = |errno| JobError::engine(&job.name, &qd1_engine::EngineError::path("read", &file.path, errno));
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let fd = rustix::fs::open(&file.path, flags, Mode::empty()).map_err(fail)?;
        let mut at = file.extent.start;
        while at < file.needed() {
            match rustix::io::pread(&fd, &mut block, at).map_err(fail)? {
                0 => break,
                read => at += read as u64,
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn job(dir: &Path, name: &str) -> FioJob {
        let mut job = FioJob::new("t");
        job.directory = Arc::new(vec![dir.display().to_string()]);
        job.filename = Arc::new(vec![name.into()]);
        job.nrfiles = 1;
        job.size = Amount::Bytes(1 << 20);
        job
    }

    fn made(job: &FioJob) -> Vec<FilePlan> {
        let files = plan_files(job, 0, 1).unwrap();
        lay_out(job, &files, &mut LaidOutFiles::default(), &|| false, &mut |_| {}).unwrap();
        files
    }

    #[test]
    fn a_file_that_is_read_is_written_whole_first() {
        let dir = tempfile::tempdir().unwrap();
        let job = job(dir.path(), "a");
        made(&job);
        let bytes = std::fs::read(dir.path().join("a")).unwrap();
        assert_eq!(bytes.len(), 1 << 20);
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(4096).collect();
        assert_eq!(blocks.len(), 256, "no two blocks are alike");
    }

    #[test]
    fn a_file_that_is_only_written_gets_space_and_no_data() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(dir.path(), "a");
        job.rw.kind = qd1_fio::types::RwKind::Write;
        made(&job);
        assert!(std::fs::read(dir.path().join("a")).unwrap().iter().all(|byte| *byte == 0));
    }

    #[test]
    fn the_offset_of_each_clone_lies_behind_that_of_the_one_before() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(dir.path(), "a");
        (job.offset, job.offset_increment) = (Amount::Bytes(4096), Amount::Bytes(8192));
        assert_eq!(plan_files(&job, 2, 1).unwrap()[0].extent, Extent { start: 4096 + 16384, length: 1 << 20 });
    }

    /// 1 MiB was written where fio writes the half of it, and all clones began at 0.
    #[test]
    fn percentages_are_those_of_a_new_file() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(dir.path(), "a");
        job.filesize = Some(qd1_fio::types::Range { min: 1 << 20, max: 1 << 20 });
        let extent = |job: &FioJob, clone| plan_files(job, clone, 1).unwrap()[0].extent;
        job.size = Amount::Percent(50);
        assert_eq!(extent(&job, 0), Extent { start: 0, length: 1 << 19 });
        job.size = Amount::Percent(10);
        assert_eq!(extent(&job, 0).length, 25 * 4096, "whole blocks");
        (job.size, job.offset) = (Amount::Percent(50), Amount::Bytes(768 << 10));
        assert_eq!(extent(&job, 0), Extent { start: 768 << 10, length: 256 << 10 });
        (job.size, job.offset) = (Amount::Percent(100), Amount::Unset);
        job.offset_increment = Amount::Percent(25);
        assert_eq!(extent(&job, 0), Extent { start: 0, length: 1 << 20 });
        assert_eq!(extent(&job, 2), Extent { start: 1 << 19, length: 1 << 19 });
    }

    #[test]
    fn a_missing_size_says_what_to_give() {
        let dir = tempfile::tempdir().unwrap();
        let mut job = job(dir.path(), "a");
        job.size = Amount::Unset;
        assert!(plan_files(&job, 0, 1).unwrap_err().text.contains("give size="));
        std::fs::write(dir.path().join("a"), vec![1; 8192]).unwrap();
        assert_eq!(plan_files(&job, 0, 1).unwrap()[0].extent.length, 8192);
    }
}
