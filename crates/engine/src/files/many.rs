//! Operations on many files: each is timed from its first system call to its last; names and data are prepared before.

use std::mem::MaybeUninit;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use qd1_model::plan::{FileOp, FileOrder, FilesWork};
use rustix::fs::{AtFlags, Mode, OFlags, RawDir, fsync, linkat, openat, renameat, statat, unlinkat};
use rustix::io::{Errno, read, write};

use super::lane::{Fault, Lane, Moved};
use super::names::{Name, NameKind};
use super::tree::{Group, GroupNames, share};
use crate::buf::Buffers;
use crate::error::EngineError;
use crate::load::Permutation;
use qd1_clock as clock;

/// Buffer size of getdents, as in the C library.
const LISTING_BYTES: usize = 32_768;
/// How often directories are read, so that their times are precise enough.
const LISTS: u64 = 1000;
/// Maximum number of names read that way in total, unless the directories hold more.
const LISTED_MAX: u64 = 4_000_000;

/// What all workers on a group of files share.
pub(super) struct Many<'a> {
    pub(super) group: &'a Group,
    pub(super) work: &'a FilesWork,
    pub(super) op: FileOp,
    pub(super) seed: u64,
}

/// One worker on them.
struct Worker<'a> {
    many: &'a Many<'a>,
    buffers: Buffers,
    /// The directory synced last, which is usually the next one as well.
    synced: Option<(u64, OwnedFd)>,
}

/// How many times directories are read in total.
fn lists(work: &FilesWork, files: u64) -> u64 {
    let dirs = work.dirs();
    LISTS.min(LISTED_MAX / (files / dirs).max(1)).max(dirs)
}

impl Many<'_> {
    /// How many operations there are.
    pub(super) fn wanted(&self) -> u64 {
        match self.op {
            FileOp::Create => self.work.count,
            FileOp::List => lists(self.work, self.group.len()),
            _ => self.group.len(),
        }
    }

    /// Does worker `index`'s part; returns the operations that were tried.
    pub(super) fn run(&self, index: u32, lane: &mut Lane<'_>) -> Result<Range<u64>, EngineError> {
        let chunk = if self.work.chunk.0 == 0 { self.work.size.0 } else { self.work.chunk.0.min(self.work.size.0) };
        let buffers = Buffers::new(1, chunk.max(1) as u32, self.seed ^ u64::from(index))?;
        let mut worker = Worker { many: self, buffers, synced: None };
        let wanted = self.wanted();
        let part = share(wanted, self.work.workers, index);
        let shuffle = (self.work.order == FileOrder::Random).then(|| Permutation::new(wanted, self.seed));
        let shuffled = |at: u64| shuffle.as_ref().map_or(at, |shuffle| shuffle.get(at));
        // An operation that gives files new names would list them repeatedly.
        let walked = matches!(self.op, FileOp::Stat | FileOp::StatRead | FileOp::Open | FileOp::Delete);
        let walks = self.work.order == FileOrder::Listed && walked;
        if walks {
            let tried = worker.walk(index, lane)?;
            return Ok(part.start..part.start + tried);
        }
        for at in part.clone() {
            if !lane.may_continue() {
                return Ok(part.start..at);
            }
            match self.op {
                FileOp::Create => worker.create(self.group.number_made(at), lane),
                FileOp::List => worker.list(shuffled(at) % self.work.dirs(), lane),
                _ => worker.known(self.group.number_at(shuffled(at)), lane),
            }
        }
        Ok(part)
    }
}

impl Worker<'_> {
    fn create(&mut self, number: u64, lane: &mut Lane<'_>) {
        let group = self.many.group;
        let (name, size) = (group.naming.file(NameKind::First, number), group.naming.size(number));
        self.buffers.stamp(0, size.min(self.buffers.stride() as u64) as u32, self.many.seed.wrapping_add(number));
        let begin_ns = clock::now_ns();
        match self.make(&name, number, size, lane) {
            Ok(moved) => lane.count(begin_ns, &moved),
            Err(fault) => lane.fault(&fault, number),
        }
    }

    fn make(&mut self, name: &Name, number: u64, size: u64, lane: &mut Lane<'_>) -> Result<Moved, Fault> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let file = openat(self.many.group.root(), name.as_c_str(), flags, Mode::RUSR | Mode::WUSR)?;
        let chunk = self.chunk();
        let mut bytes = 0;
        while bytes < size {
            let length = chunk.min(size - bytes) as usize;
            if bytes > 0 {
                self.buffers.stamp(0, length as u32, number.wrapping_mul(0x9E37_79B9).wrapping_add(bytes));
            }
            let written = self.buffers.inspect(0, length, |data| write(&file, data))?;
            if written < length {
                return Err(Fault::Short);
            }
            bytes += length as u64;
            lane.requests.writes += 1;
        }
        lane.requests.write_bytes += bytes;
        let mut sync_ns = 0;
        if self.many.work.fsync.files {
            let begin_ns = clock::now_ns();
            fsync(&file)?;
            lane.requests.syncs += 1;
            sync_ns = clock::now_ns() - begin_ns;
        }
        drop(file);
        sync_ns += self.sync_dir(number, lane)?;
        Ok(Moved { bytes, sync_ns })
    }

    /// An operation on file `number`, which was created before.
    fn known(&mut self, number: u64, lane: &mut Lane<'_>) {
        let group = self.many.group;
        let kinds: &[NameKind] = match group.called {
            GroupNames::All(NameKind::First) => &[NameKind::First],
            GroupNames::All(_) => &[NameKind::Second],
            GroupNames::Either => &[NameKind::First, NameKind::Second],
        };
        for (tried, kind) in kinds.iter().enumerate() {
            let name = group.naming.file(*kind, number);
            let other = match self.many.op {
                FileOp::Link => group.naming.file(NameKind::Link, number),
                _ if *kind == NameKind::First => group.naming.file(NameKind::Second, number),
                _ => group.naming.file(NameKind::First, number),
            };
            let begin_ns = clock::now_ns();
            let outcome = self.act(group.root(), &name, &other, Some(number), lane);
            match outcome {
                Err(Fault::Errno(Errno::NOENT)) if tried + 1 < kinds.len() => {}
                // Its creation failed and was counted then.
                Err(Fault::Errno(Errno::NOENT)) if self.many.op == FileOp::Delete => {}
                Err(fault) => return lane.fault(&fault, number),
                Ok(moved) => return lane.count(begin_ns, &moved),
            }
        }
    }

    /// The operation on `name` in `dir`; `other` is the new name when renaming or linking.
    fn act(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &Name,
        other: &Name,
        number: Option<u64>,
        lane: &mut Lane<'_>,
    ) -> Result<Moved, Fault> {
        let name = name.as_c_str();
        match self.many.op {
            FileOp::Rename => renameat(dir, name, dir, other.as_c_str())?,
            FileOp::Link => linkat(dir, name, dir, other.as_c_str(), AtFlags::empty())?,
            _ => return self.act_on(dir, name, number, lane),
        }
        let sync_ns = number.map_or(Ok(0), |number| self.sync_dir(number, lane))?;
        Ok(Moved { bytes: 0, sync_ns })
    }

    /// The operations that need no second name.
    fn act_on(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        number: Option<u64>,
        lane: &mut Lane<'_>,
    ) -> Result<Moved, Fault> {
        match self.many.op {
            FileOp::Stat => {
                statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
                Ok(Moved::default())
            }
            FileOp::StatRead => {
                let size = statat(dir, name, AtFlags::empty())?.st_size as u64;
                if size == 0 { Ok(Moved::default()) } else { self.read_whole(dir, name, Some(size), lane) }
            }
            FileOp::Delete => {
                unlinkat(dir, name, AtFlags::empty())?;
                let sync_ns = match number {
                    Some(number) => self.sync_dir(number, lane)?,
                    None => self.sync_open_dir(dir, lane)?,
                };
                Ok(Moved { bytes: 0, sync_ns })
            }
            FileOp::Open => {
                let size = number.map(|number| self.many.group.naming.size(number));
                self.read_whole(dir, name, size, lane)
            }
            other => unreachable!("{other:?} is not done to one name"),
        }
    }

    /// Opens, reads to the end, closes.
    fn read_whole(
        &mut self,
        dir: BorrowedFd<'_>,
        name: &std::ffi::CStr,
        size: Option<u64>,
        lane: &mut Lane<'_>,
    ) -> Result<Moved, Fault> {
        let file = openat(dir, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = 0;
        loop {
            let got = self.buffers.fill(0, self.chunk() as usize, |buffer| read(&file, buffer))? as u64;
            lane.requests.reads += 1;
            bytes += got;
            // A file of known size is read without asking once more whether it has ended.
            if got == 0 || size.is_some_and(|size| bytes >= size) {
                break;
            }
        }
        lane.requests.read_bytes += bytes;
        drop(file);
        if size.is_some_and(|size| bytes != size) { Err(Fault::Short) } else { Ok(Moved { bytes, sync_ns: 0 }) }
    }

    /// Reads all of directory `dir`.
    fn list(&self, dir: u64, lane: &mut Lane<'_>) {
        let mut space = [const { MaybeUninit::uninit() }; LISTING_BYTES];
        let begin_ns = clock::now_ns();
        let mut whole = || -> Result<(), Errno> {
            let fd = self.many.group.open_dir(dir)?;
            let mut entries = RawDir::new(&fd, &mut space);
            while let Some(entry) = entries.next() {
                std::hint::black_box(entry?.ino());
            }
            Ok(())
        };
        match whole() {
            Ok(()) => lane.count(begin_ns, &Moved::default()),
            Err(errno) => lane.fault(&errno.into(), dir),
        }
    }

    /// Visits the files as the directories of worker `index` list them; returns how many.
    fn walk(&mut self, index: u32, lane: &mut Lane<'_>) -> Result<u64, EngineError> {
        let group = self.many.group;
        let mut tried = 0;
        let mut space = vec![MaybeUninit::uninit(); LISTING_BYTES];
        for dir in
            (0..group.naming.dirs).filter(|dir| dir % u64::from(self.many.work.workers.max(1)) == u64::from(index))
        {
            // Removing files during the listing may hide others from it.
            loop {
                let mut found = 0;
                let fd = match group.open_dir(dir) {
                    Ok(fd) => fd,
                    // Its creation was cut short.
                    Err(Errno::NOENT) => break,
                    Err(errno) => return Err(EngineError::Broken { engine: "files", op: "open", errno }),
                };
                let mut entries = RawDir::new(&fd, &mut space);
                while let Some(entry) = entries.next() {
                    let entry =
                        entry.map_err(|errno| EngineError::Broken { engine: "files", op: "getdents", errno })?;
                    if !lane.may_continue() {
                        return Ok(tried);
                    }
                    let name = entry.file_name();
                    if name.to_bytes().starts_with(b".") {
                        continue;
                    }
                    (found, tried) = (found + 1, tried + 1);
                    let begin_ns = clock::now_ns();
                    match self.act_on(fd.as_fd(), name, None, lane) {
                        Ok(moved) => lane.count(begin_ns, &moved),
                        Err(fault) => lane.fault(&fault, tried),
                    }
                }
                if self.many.op != FileOp::Delete || found == 0 {
                    break;
                }
            }
        }
        Ok(tried)
    }

    fn chunk(&self) -> u64 {
        let (chunk, size) = (self.many.work.chunk.0, self.many.work.size.0);
        if chunk == 0 { size.max(1) } else { chunk.min(size).max(1) }
    }

    /// Makes the directory of file `number` durable if requested; returns the time it took, ns.
    fn sync_dir(&mut self, number: u64, lane: &mut Lane<'_>) -> Result<u64, Errno> {
        if !self.many.work.fsync.dir {
            return Ok(0);
        }
        let group = self.many.group;
        if group.naming.dirs == 1 {
            return self.sync_open_dir(group.root(), lane);
        }
        let dir = group.naming.dir_of(number);
        let (_, fd) = match self.synced.take() {
            Some(known) if known.0 == dir => self.synced.insert(known),
            _ => self.synced.insert((dir, group.open_dir(dir)?)),
        };
        let begin_ns = clock::now_ns();
        fsync(fd)?;
        lane.requests.syncs += 1;
        Ok(clock::now_ns() - begin_ns)
    }

    fn sync_open_dir(&self, dir: BorrowedFd<'_>, lane: &mut Lane<'_>) -> Result<u64, Errno> {
        if !self.many.work.fsync.dir {
            return Ok(0);
        }
        let begin_ns = clock::now_ns();
        fsync(dir)?;
        lane.requests.syncs += 1;
        Ok(clock::now_ns() - begin_ns)
    }
}

/// Removes the second names of all files, as far as they were created; not measured.
pub(super) fn unlink_all(group: &Group, may_continue: impl Fn() -> bool) {
    for position in 0..group.len() {
        if !may_continue() {
            break;
        }
        let name = group.naming.file(NameKind::Link, group.number_at(position));
        let _ = unlinkat(group.root(), name.as_c_str(), AtFlags::empty());
    }
}
