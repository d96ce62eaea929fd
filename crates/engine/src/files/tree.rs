//! The files that a step leaves for the next one: which exist, what they are called, and where they are.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use qd1_model::plan::{FileOrder, FilesWork};
use rustix::fs::{Mode, OFlags, mkdirat};

use super::names::{NameKind, Naming};
use crate::error::EngineError;
use crate::load::Permutation;

const DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const OWNER: Mode = Mode::RWXU;

/// Files in a directory that the caller creates and removes.
pub struct Tree {
    base: PathBuf,
    group: Option<Group>,
    /// Groups so far: each begins in directories that never held a file.
    groups: u32,
    /// The one large file, once it is written.
    pub(super) has_block: bool,
}

/// Files that were created together.
pub(super) struct Group {
    path: PathBuf,
    root: OwnedFd,
    pub(super) naming: Naming,
    /// Ranges of the order in which they were created, one for each worker.
    pub(super) made: Vec<Range<u64>>,
    /// Maps that order to their numbers; absent if they are the same.
    shuffle: Option<Permutation>,
    pub(super) called: GroupNames,
}

/// What the files of a group are called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GroupNames {
    /// All have this kind of name.
    All(NameKind),
    /// Renaming was cut short: some have the first kind of name, some the second.
    Either,
}

impl Tree {
    /// In `base`, an empty directory.
    pub fn new(base: &Path) -> Self {
        Self { base: base.to_owned(), group: None, groups: 0, has_block: false }
    }

    /// Whether no step has left anything.
    pub fn is_empty(&self) -> bool {
        self.group.is_none() && !self.has_block
    }

    /// Path of the one large file.
    pub(super) fn block_path(&self) -> PathBuf {
        self.base.join("block")
    }

    /// The directory itself, for syncs of its filesystem.
    pub(super) fn open_base(&self) -> Result<OwnedFd, EngineError> {
        open_dir(&self.base)
    }

    /// The existing files.
    ///
    /// # Errors
    /// When no step created any.
    pub(super) fn group(&mut self) -> Result<&mut Group, EngineError> {
        self.group.as_mut().ok_or_else(|| EngineError::Plan("no earlier step created the files it needs".to_owned()))
    }

    /// Creates the directories of new files, after removing those of the previous ones.
    pub(super) fn begin(
        &mut self,
        work: &FilesWork,
        seed: u64,
        cancel: &AtomicBool,
    ) -> Result<&mut Group, EngineError> {
        self.end();
        self.groups += 1;
        let path = self.base.join(format!("files-{}", self.groups));
        rustix::fs::mkdir(&path, OWNER).map_err(|errno| EngineError::path("create the directory", &path, errno))?;
        let root = open_dir(&path)?;
        let naming = Naming::new(work, seed);
        if naming.dirs > 1 {
            for dir in 0..naming.dirs {
                if cancel.load(Ordering::Relaxed) {
                    break;
                }
                let made = mkdirat(&root, naming.dir(dir).as_c_str(), OWNER);
                made.map_err(|errno| EngineError::path("create directories in", &path, errno))?;
            }
        }
        let shuffle = (work.order == FileOrder::Random).then(|| Permutation::new(work.count, seed));
        let called = GroupNames::All(NameKind::First);
        Ok(self.group.insert(Group { path, root, naming, made: Vec::new(), shuffle, called }))
    }

    /// Removes the directories of the files, and whatever is still in them.
    pub(super) fn end(&mut self) {
        if let Some(group) = self.group.take() {
            // What cannot be removed here is left to the caller, who owns the directory above.
            let _ = std::fs::remove_dir_all(&group.path);
        }
    }
}

fn open_dir(path: &Path) -> Result<OwnedFd, EngineError> {
    rustix::fs::open(path, DIRECTORY, Mode::empty()).map_err(|errno| EngineError::path("open", path, errno))
}

impl Group {
    pub(super) fn root(&self) -> BorrowedFd<'_> {
        self.root.as_fd()
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.made.iter().map(|range| range.end - range.start).sum()
    }

    /// The number of the file that is created as the `index`-th.
    pub(super) fn number_made(&self, index: u64) -> u64 {
        self.shuffle.as_ref().map_or(index, |shuffle| shuffle.get(index))
    }

    /// The number of the file at `position` among the existing ones, in the order in which they were created.
    pub(super) fn number_at(&self, position: u64) -> u64 {
        let mut left = position;
        for range in &self.made {
            let length = range.end - range.start;
            if left < length {
                return self.number_made(range.start + left);
            }
            left -= length;
        }
        panic!("position {position} of {} files", self.len());
    }

    /// Opens directory `dir`.
    pub(super) fn open_dir(&self, dir: u64) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat(&self.root, self.naming.dir(dir).as_c_str(), DIRECTORY, Mode::empty())
    }
}

/// The part of `count` items that worker `index` of `workers` gets.
pub(super) fn share(count: u64, workers: u32, index: u32) -> Range<u64> {
    assert!(index < workers.max(1), "worker {index} of {workers}");
    let at = |index: u32| (u128::from(count) * u128::from(index) / u128::from(workers.max(1))) as u64;
    at(index)..at(index + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_cover_everything_once() {
        for (count, workers) in [(10, 3), (2, 5), (0, 2), (1_000_003, 7)] {
            let shares: Vec<_> = (0..workers).map(|index| share(count, workers, index)).collect();
            assert_eq!((shares[0].start, shares.last().unwrap().end), (0, count));
            assert!(shares.windows(2).all(|pair| pair[0].end == pair[1].start));
        }
    }

    #[test]
    fn what_several_workers_made_before_time_was_up_is_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let mut tree = Tree::new(dir.path());
        let work = FilesWork { count: 100, order: FileOrder::Random, ..FilesWork::default() };
        let group = tree.begin(&work, 3, &AtomicBool::new(false)).unwrap();
        group.made = vec![0..10, 50..55];
        let numbers: std::collections::HashSet<u64> = (0..15).map(|position| group.number_at(position)).collect();
        let made: std::collections::HashSet<u64> =
            (0..10).chain(50..55).map(|index| group.number_made(index)).collect();
        assert_eq!((numbers.len(), numbers), (15, made));
    }
}
