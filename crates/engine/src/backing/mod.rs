//! The file or device under test: created so that nothing stays behind, opened so that nothing is harmed.

mod extents;
mod prepare;

use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use qd1_model::plan::Sync;
use qd1_model::record::Extents;
use rustix::fs::{AtFlags, FallocateFlags, FileType, Mode, OFlags, StatxFlags};
use rustix::io::Errno;

use crate::error::{DESCRIPTORS, EngineError};

pub use prepare::{Filled, fill};

/// How a step wants its file opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OpenAs {
    /// For writing too.
    pub write: bool,
    /// O_DIRECT.
    pub direct: bool,
    /// O_SYNC or O_DSYNC, when it is one of these.
    pub sync: Sync,
}

/// Something that holds data: an unnamed file, an existing file, a block device.
pub struct Target {
    path: PathBuf,
    /// Keeps an unnamed file alive, or a device held exclusively; other targets are opened by path each time.
    holder: Option<OwnedFd>,
    /// A file that we made: its length and space are ours to change.
    made: bool,
    /// Its name, where the filesystem has no unnamed files; removed when this is dropped.
    name: Option<PathBuf>,
}

impl Drop for Target {
    fn drop(&mut self) {
        if let Some(name) = &self.name {
            // Closed first: some filesystems in user space keep an open file under another name.
            self.holder = None;
            let _ = rustix::fs::unlink(name);
        }
    }
}

const OWNER: Mode = Mode::RUSR.union(Mode::WUSR);
const BASE: OFlags = OFlags::CLOEXEC.union(OFlags::NOATIME);

impl Target {
    /// A new file in `dir` without a name (O_TMPFILE), so that the kernel frees it however this process ends; `None`
    /// if the filesystem does not support that.
    ///
    /// # Errors
    /// With the path, `create a file in`, and the errno.
    pub fn unnamed_in(dir: &Path) -> Result<Option<Self>, EngineError> {
        match rustix::fs::open(dir, OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC, OWNER) {
            Ok(fd) => Ok(Some(Self::made(dir, fd, None))),
            // What kernels and filesystems without O_TMPFILE answer, according to open(2).
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOSYS | Errno::NOENT) if dir.is_dir() => {
                Ok(None)
            }
            Err(errno) => Err(EngineError::path("create a file in", dir, errno)),
        }
    }

    /// A new file in `dir`: without a name; if the filesystem does not support that, a named one that is unlinked
    /// immediately; if that cannot be opened again (some filesystems in user space), one that is unlinked when this is
    /// dropped, and that something else removes if this process is killed.
    ///
    /// # Errors
    /// With the path, the operation, and the errno.
    pub fn create_in(dir: &Path, unique: &str) -> Result<Self, EngineError> {
        if let Some(unnamed) = Self::unnamed_in(dir)? {
            return Ok(unnamed);
        }
        let name = dir.join(format!(".qd1-{unique}"));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC;
        let create =
            || rustix::fs::open(&name, flags, OWNER).map_err(|errno| EngineError::path("create a file in", dir, errno));
        let fd = create()?;
        rustix::fs::unlink(&name).map_err(|errno| EngineError::path("unlink", &name, errno))?;
        // Steps open it again with flags of their own.
        match rustix::fs::open(reopenable_path(&fd), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT | Errno::STALE) => Ok(Self::made(dir, create()?, Some(name))),
            _ => Ok(Self::made(dir, fd, None)),
        }
    }

    fn made(dir: &Path, holder: OwnedFd, name: Option<PathBuf>) -> Self {
        Self { path: dir.to_owned(), holder: Some(holder), made: true, name }
    }

    /// An existing file or block device, to be read.
    pub fn existing(path: &Path) -> Self {
        Self { path: path.to_owned(), holder: None, made: false, name: None }
    }

    /// A block device to be overwritten, held with O_EXCL: the kernel refuses that while the device is mounted or part
    /// of something, and does not let others mount it from now on.
    ///
    /// # Errors
    /// EBUSY when it is in use.
    pub fn exclusive(path: &Path) -> Result<Self, EngineError> {
        let flags = OFlags::RDWR | OFlags::EXCL | OFlags::CLOEXEC;
        let holder = rustix::fs::open(path, flags, Mode::empty())
            .map_err(|errno| EngineError::path("open exclusively", path, errno))?;
        Ok(Self { path: path.to_owned(), holder: Some(holder), made: false, name: None })
    }

    /// The given path, or the directory that an unnamed file lives in.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens it for a step.
    ///
    /// # Errors
    /// With the path, the operation (which names O_DIRECT when that was refused), and the errno.
    pub fn open(&self, how: OpenAs) -> Result<OwnedFd, EngineError> {
        let mut flags = OFlags::CLOEXEC | if how.write { OFlags::RDWR } else { OFlags::RDONLY };
        if how.direct {
            flags |= OFlags::DIRECT;
        }
        match how.sync {
            Sync::OSync => flags |= OFlags::SYNC,
            Sync::ODsync => flags |= OFlags::DSYNC,
            Sync::None | Sync::Fsync | Sync::Fdatasync | Sync::RwfDsync | Sync::SyncFileRange | Sync::EndFsync => {}
        }
        let path = match (&self.name, &self.holder) {
            (Some(name), _) => name.clone(),
            (None, Some(holder)) => reopenable_path(holder),
            (None, None) => self.path.clone(),
        };
        // The owner of the directory may have put something else there.
        let nofollow = if self.name.is_some() { OFlags::NOFOLLOW } else { OFlags::empty() };
        let open = |flags| rustix::fs::open(&path, flags | nofollow, Mode::empty());
        let opened = open(flags | BASE).or_else(|errno| if errno == Errno::PERM { open(flags) } else { Err(errno) });
        let opened = opened.and_then(|fd| if self.is_it(&fd)? { Ok(fd) } else { Err(Errno::STALE) });
        opened.map_err(|errno| {
            let op = if how.direct && errno == Errno::INVAL { "open with O_DIRECT" } else { "open" };
            EngineError::path(op, &self.path, errno)
        })
    }

    /// Whether the opened file is the one that was created; always true for one without a name.
    fn is_it(&self, fd: &OwnedFd) -> Result<bool, Errno> {
        let (Some(_), Some(holder)) = (&self.name, &self.holder) else { return Ok(true) };
        let (opened, made) = (rustix::fs::fstat(fd)?, rustix::fs::fstat(holder)?);
        Ok((opened.st_dev, opened.st_ino) == (made.st_dev, made.st_ino))
    }

    /// Reserves `size` bytes without writing them. False if the filesystem cannot: then the file is only extended.
    ///
    /// # Errors
    /// ENOSPC and the like.
    pub fn allocate(&self, size: u64) -> Result<bool, EngineError> {
        let holder = self.file()?;
        match rustix::fs::fallocate(holder, FallocateFlags::empty(), 0, size) {
            Ok(()) => Ok(true),
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => {
                self.set_len(size)?;
                Ok(false)
            }
            Err(errno) => Err(EngineError::path("allocate space in", &self.path, errno)),
        }
    }

    /// Sets the length of the file.
    ///
    /// # Errors
    /// As ftruncate.
    pub fn set_len(&self, size: u64) -> Result<(), EngineError> {
        rustix::fs::ftruncate(self.file()?, size).map_err(|errno| EngineError::path("truncate", &self.path, errno))
    }

    /// Returns the file's extents by FIEMAP; `None` where the filesystem does not support it.
    pub fn extents(&self, size: u64) -> Option<Extents> {
        match &self.holder {
            Some(holder) => extents::read(holder.as_fd(), size),
            None => extents::read(self.open(OpenAs::default()).ok()?.as_fd(), size),
        }
    }

    fn file(&self) -> Result<&OwnedFd, EngineError> {
        match &self.holder {
            Some(holder) if self.made => Ok(holder),
            _ => Err(EngineError::Plan(format!("{} is not a file that qd1 created", self.path.display()))),
        }
    }
}

/// A name for an open file: /proc/self/fd reopens it with other flags, even one without a name of its own.
fn reopenable_path(fd: &OwnedFd) -> PathBuf {
    Path::new(DESCRIPTORS).join(fd.as_raw_fd().to_string())
}

/// What direct I/O requires on an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DirectIo {
    /// Whether O_DIRECT works.
    pub supported: bool,
    /// Alignment of offsets and lengths, bytes.
    pub align: u32,
}

/// Finds out whether a target supports O_DIRECT, and its alignment from statx (Linux 6.1), otherwise by trying. A file
/// needs 64 KiB.
///
/// # Errors
/// When it cannot be opened at all.
pub fn direct_io(target: &Target) -> Result<DirectIo, EngineError> {
    let how = OpenAs { write: false, direct: true, sync: Sync::None };
    let fd = match target.open(how) {
        Ok(fd) => fd,
        Err(EngineError::Path { errno: Errno::INVAL | Errno::OPNOTSUPP, .. }) => {
            return Ok(DirectIo { supported: false, align: 1 });
        }
        Err(error) => return Err(error),
    };
    let empty = CString::default();
    if let Ok(stat) = rustix::fs::statx(&fd, &empty, AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN)
        && stat.stx_mask & StatxFlags::DIOALIGN.bits() != 0
    {
        // Zero means that the file accepts the flag but the kernel would serve it from the page cache.
        let align = stat.stx_dio_offset_align;
        return Ok(DirectIo { supported: align > 0, align: align.max(1) });
    }
    let buffer = crate::buf::Buffers::new(1, 4096, 0)?;
    for align in [512u32, 1024, 2048, 4096] {
        // SAFETY: the buffer holds 4096 bytes, align is at most that, and nothing is in flight on it.
        let slice = unsafe { std::slice::from_raw_parts_mut(buffer.ptr(0), align as usize) };
        if rustix::io::pread(&fd, slice, u64::from(align)).is_ok() {
            return Ok(DirectIo { supported: true, align });
        }
    }
    Ok(DirectIo { supported: false, align: 1 })
}

/// What a path is, for the planner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathKind {
    /// A directory.
    Directory,
    /// A regular file, with its size.
    File(u64),
    /// A block device, with its size.
    Block(u64),
    /// Something that cannot be measured: a character device, a socket, a pipe.
    Other,
}

/// Examines a path, following symbolic links.
///
/// # Errors
/// With the path and the errno.
pub fn path_kind(path: &Path) -> Result<PathKind, EngineError> {
    let stat = rustix::fs::stat(path).map_err(|errno| EngineError::path("stat", path, errno))?;
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => PathKind::Directory,
        FileType::RegularFile => PathKind::File(stat.st_size as u64),
        FileType::BlockDevice => {
            let fd = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
                .map_err(|errno| EngineError::path("open", path, errno))?;
            let end = rustix::fs::seek(&fd, rustix::fs::SeekFrom::End(0))
                .map_err(|errno| EngineError::path("find the size of", path, errno))?;
            PathKind::Block(end)
        }
        _ => PathKind::Other,
    })
}

/// Drops clean cached pages of a file, so that buffered reads go to the disk, and begins to write out dirty ones. A
/// hint; failure is harmless.
pub fn drop_cache(fd: &OwnedFd) {
    let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::DontNeed);
}

/// The same for `length` bytes from `offset`: between two small requests there is no time to walk a whole file.
pub fn drop_cached_range(fd: &OwnedFd, offset: u64, length: u64) {
    let _ = rustix::fs::fadvise(fd, offset, std::num::NonZeroU64::new(length), rustix::fs::Advice::DontNeed);
}

/// Advises the kernel that requests come in random order, so that it does not read ahead.
pub fn no_readahead(fd: &OwnedFd) {
    let _ = rustix::fs::fadvise(fd, 0, None, rustix::fs::Advice::Random);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unnamed_file_leaves_no_name_behind() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "test").unwrap();
        target.allocate(1 << 20).unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
        let fd = target.open(OpenAs { write: true, ..OpenAs::default() }).unwrap();
        assert_eq!(rustix::io::pwrite(&fd, b"data", 0).unwrap(), 4);
    }

    /// Where files need names, the owner of the directory can replace the file.
    #[test]
    fn what_came_in_its_place_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let name = dir.path().join("name");
        let holder = std::fs::File::create_new(&name).unwrap();
        let target = Target::made(dir.path(), holder.into(), Some(name.clone()));
        target.open(OpenAs { write: true, ..OpenAs::default() }).unwrap();
        std::fs::write(dir.path().join("precious"), "x").unwrap();
        for is_link in [true, false] {
            std::fs::remove_file(&name).unwrap();
            let precious = dir.path().join("precious");
            let put =
                if is_link { std::os::unix::fs::symlink(precious, &name) } else { std::fs::hard_link(precious, &name) };
            put.unwrap();
            assert!(target.open(OpenAs { write: true, ..OpenAs::default() }).is_err());
        }
    }

    #[test]
    fn a_file_is_opened_with_the_durability_asked_for() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "flags").unwrap();
        // O_SYNC includes the bit of O_DSYNC and one more.
        let cases = [(Sync::OSync, OFlags::SYNC), (Sync::ODsync, OFlags::DSYNC), (Sync::Fdatasync, OFlags::empty())];
        for (sync, wanted) in cases {
            let fd = target.open(OpenAs { write: true, direct: false, sync }).unwrap();
            let flags = rustix::fs::fcntl_getfl(&fd).unwrap();
            assert_eq!(flags & OFlags::SYNC, wanted, "{sync:?}");
        }
    }

    #[test]
    fn a_missing_directory_is_an_error_that_names_it() {
        let error = Target::create_in(Path::new("/nonexistent/dir"), "x").err().unwrap().to_string();
        assert!(error.contains("/nonexistent/dir") && error.contains("ENOENT"), "{error}");
    }

    #[test]
    fn path_kinds_are_distinguished() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("f");
        std::fs::write(&file, b"12345").unwrap();
        assert_eq!(path_kind(dir.path()).unwrap(), PathKind::Directory);
        assert_eq!(path_kind(&file).unwrap(), PathKind::File(5));
        assert_eq!(path_kind(Path::new("/dev/null")).unwrap(), PathKind::Other);
    }
}
