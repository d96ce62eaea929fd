//! Where a path that is about to be written leads: links of another user are not followed.
//!
//! In a sticky directory the kernel does not follow such a link either (`fs.protected_symlinks`); in another user's own
//! directory it does, and root then writes wherever that user chose.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, PROC_SUPER_MAGIC, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;
const AS_PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
/// Does not wait for the reader of a fifo, and does not acquire a controlling terminal.
const TO_WRITE: OFlags = OFlags::WRONLY.union(OFlags::NONBLOCK).union(OFlags::NOCTTY).union(OFlags::CLOEXEC);

/// A name in a directory that is held open, so that nobody can replace the directory, and what was found there, held
/// open as well.
#[derive(Debug)]
pub struct Destination {
    dir: OwnedFd,
    name: OsString,
    found: Option<OwnedFd>,
    is_descriptor: bool,
}

impl Destination {
    /// Follows a path to the file, which need not exist.
    ///
    /// # Errors
    /// When a directory on the way is missing, the path ends in `..`, or a link on it belongs neither to this
    /// user nor to root.
    pub fn of(path: &Path) -> io::Result<Self> {
        let start = |path: &Path| rustix::fs::open(if path.is_absolute() { "/" } else { "." }, AS_PATH, Mode::empty());
        if path.as_os_str().is_empty() {
            return Err(Errno::NOENT.into());
        }
        let mut dir = start(path)?;
        // The next one last.
        let mut left = names(path);
        let mut links = 0;
        while let Some(name) = left.pop() {
            if name == ".." {
                dir = rustix::fs::openat(&dir, "..", AS_PATH | OFlags::DIRECTORY, Mode::empty())?;
                continue;
            }
            let found = match rustix::fs::openat(&dir, &name, AS_PATH | OFlags::NOFOLLOW, Mode::empty()) {
                Err(Errno::NOENT) if left.is_empty() => {
                    return Ok(Self { dir, name, found: None, is_descriptor: false });
                }
                found => found?,
            };
            let stat = rustix::fs::fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                if left.is_empty() {
                    return Ok(Self { dir, name, found: Some(found), is_descriptor: false });
                }
                dir = found;
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(Errno::LOOP.into());
            }
            if stat.st_uid != 0 && stat.st_uid != rustix::process::geteuid().as_raw() {
                let said = format!("{} is a link that belongs to another user", Path::new(&name).display());
                return Err(io::Error::new(io::ErrorKind::PermissionDenied, said));
            }
            // The text of such a link (`pipe:[123]`) need not be a path: only the kernel knows where it leads.
            if rustix::fs::fstatfs(&dir)?.f_type == PROC_SUPER_MAGIC {
                let found = rustix::fs::openat(&dir, &name, AS_PATH, Mode::empty())?;
                if left.is_empty() {
                    return Ok(Self { dir, name, found: Some(found), is_descriptor: true });
                }
                dir = found;
                continue;
            }
            let target =
                PathBuf::from(OsString::from_vec(rustix::fs::readlinkat(&found, "", Vec::new())?.into_bytes()));
            if target.is_absolute() {
                dir = start(&target)?;
            }
            left.extend(names(&target));
        }
        Err(Errno::ISDIR.into())
    }

    /// Returns a path to it that begins at the open directory.
    pub fn path(&self) -> PathBuf {
        self.dir_path().join(&self.name)
    }

    /// Returns a path of its directory, which is the open one.
    pub fn dir_path(&self) -> PathBuf {
        of_open(&self.dir)
    }

    /// Returns true for an open descriptor: /dev/stdout, /dev/fd/3. Behind it may be a file that a shell appends to.
    pub fn is_descriptor(&self) -> bool {
        self.is_descriptor
    }

    /// Returns the metadata of what was found; `None` if nothing was.
    ///
    /// # Errors
    /// When it cannot be examined.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        Ok(self.found.as_ref().map(rustix::fs::fstat).transpose()?)
    }

    /// Returns the type of what was found; `None` if nothing was.
    ///
    /// # Errors
    /// When it cannot be examined.
    pub fn kind(&self) -> io::Result<Option<FileType>> {
        Ok(self.stat()?.map(|found| FileType::from_raw_mode(found.st_mode)))
    }

    /// Returns true if it cannot be replaced, because it or its directory is immutable or append-only.
    pub fn is_frozen(&self) -> bool {
        let attributes = |dir: &OwnedFd, name: &OsStr| {
            let found =
                rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
            found.map_or(StatxAttributes::empty(), |found| found.stx_attributes)
        };
        let both = attributes(&self.dir, OsStr::new("")) | attributes(&self.dir, &self.name);
        both.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
    }

    /// Opens the regular file with that name for writing, creating it if there is none.
    ///
    /// # Errors
    /// When it cannot be opened, or somebody has put something else there in the meantime.
    pub fn open(&self) -> io::Result<File> {
        self.open_named(OFlags::CREATE)
    }

    /// Creates a file with that name, where nothing exists yet, and opens it for writing.
    ///
    /// # Errors
    /// When it cannot be created, or something with that name exists.
    pub fn create_new(&self) -> io::Result<File> {
        self.open_named(OFlags::CREATE | OFlags::EXCL)
    }

    fn open_named(&self, how: OFlags) -> io::Result<File> {
        let flags = TO_WRITE | OFlags::NOFOLLOW | how;
        let file = rustix::fs::openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o666))?;
        if FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) != FileType::RegularFile {
            return Err(io::Error::other("it has just been replaced by another file"));
        }
        blocking(file)
    }

    /// Opens for writing the very file that was found, whatever its type and whatever has the name now; a descriptor is
    /// opened at the end of its file. A fifo that nobody reads is an error, `ENXIO`.
    ///
    /// # Errors
    /// When nothing was found, or it cannot be opened.
    pub fn open_found(&self) -> io::Result<File> {
        let found = self.found.as_ref().ok_or(Errno::NOENT)?;
        let how = if self.is_descriptor { OFlags::APPEND } else { OFlags::empty() };
        blocking(rustix::fs::open(of_open(found), TO_WRITE | how, Mode::empty())?)
    }
}

/// The path of an open file.
fn of_open(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// Makes writes blocking.
fn blocking(file: OwnedFd) -> io::Result<File> {
    rustix::fs::fcntl_setfl(&file, rustix::fs::fcntl_getfl(&file)? - OFlags::NONBLOCK)?;
    Ok(file.into())
}

/// The names of a path, the first one last.
fn names(path: &Path) -> Vec<OsString> {
    let name = |component: Component<'_>| match component {
        Component::Normal(name) => Some(name.to_owned()),
        Component::ParentDir => Some(OsStr::new("..").to_owned()),
        _ => None,
    };
    path.components().rev().filter_map(name).collect()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::unix::fs::symlink;

    use super::*;

    /// As root: a link that another user owns.
    fn of_another(link: &Path) {
        std::os::unix::fs::lchown(link, Some(65_534), Some(65_534)).unwrap();
    }

    #[test]
    fn own_links_are_followed_to_the_file_and_stay() {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::fs::create_dir_all(at.join("a/b")).unwrap();
        symlink("a/b", at.join("dir")).unwrap();
        symlink(at.join("dir/../b/file"), at.join("link")).unwrap();
        for path in ["link", "a/b/file", "dir/file", "./a/../a/b/file"] {
            let there = Destination::of(&at.join(path)).unwrap();
            assert_eq!(
                std::fs::canonicalize(there.dir_path()).unwrap(),
                at.join("a/b").canonicalize().unwrap(),
                "{path}"
            );
            there.open().unwrap().write_all(path.as_bytes()).unwrap();
            assert!(std::fs::read_to_string(at.join("a/b/file")).unwrap().starts_with(path));
            std::fs::remove_file(there.path()).unwrap();
            assert!(Destination::of(&at.join(path)).unwrap().stat().unwrap().is_none());
        }
        assert!(at.join("link").is_symlink());
        symlink("round", at.join("round")).unwrap();
        for path in ["round", "none/file", "a/b/.."] {
            assert!(Destination::of(&at.join(path)).is_err(), "{path}");
        }
    }

    /// Root's `-o` used to resolve links by name, past the kernel's protection: another user's link led to /etc/passwd.
    #[test]
    fn links_of_another_user_are_not_followed() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can make another user's link.
        }
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        std::fs::create_dir(at.join("precious")).unwrap();
        symlink("precious/file", at.join("link")).unwrap();
        symlink("precious", at.join("dir")).unwrap();
        symlink("link", at.join("chain")).unwrap();
        symlink("/dev/null", at.join("device")).unwrap();
        symlink("/dev", at.join("dev")).unwrap();
        ["link", "dir", "device", "dev"].iter().for_each(|name| of_another(&at.join(name)));
        for path in ["link", "dir/file", "chain", "device", "dev/null"] {
            let error = Destination::of(&at.join(path)).unwrap_err();
            assert!(error.to_string().contains("another user"), "{path}: {error}");
        }
    }

    #[test]
    fn a_link_put_there_later_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let there = Destination::of(&dir.path().join("file")).unwrap();
        symlink("elsewhere", dir.path().join("file")).unwrap();
        assert!(there.open().is_err() && there.create_new().is_err() && !dir.path().join("elsewhere").exists());
    }

    fn make_fifo(path: &Path) {
        rustix::fs::mknodat(rustix::fs::CWD, path, FileType::Fifo, 0o600.into(), 0).unwrap();
    }

    #[test]
    fn a_fifo_put_there_later_is_not_opened_and_does_not_block() {
        let dir = tempfile::tempdir().unwrap();
        let there = Destination::of(&dir.path().join("file")).unwrap();
        make_fifo(&dir.path().join("file"));
        let _reader = rustix::fs::open(dir.path().join("file"), OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty());
        assert!(there.open().unwrap_err().to_string().contains("another file"));
    }

    /// By name, root opened whatever had taken that name since it was examined.
    #[test]
    fn what_was_found_is_opened_and_not_what_has_its_name_now() {
        let dir = tempfile::tempdir().unwrap();
        let [fifo, precious] = ["fifo", "precious"].map(|name| dir.path().join(name));
        make_fifo(&fifo);
        std::fs::write(&precious, "precious").unwrap();
        let there = Destination::of(&fifo).unwrap();
        assert_eq!(there.open_found().unwrap_err().raw_os_error(), Some(Errno::NXIO.raw_os_error()), "no reader");
        let mut reader: File =
            rustix::fs::open(&fifo, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap().into();
        std::fs::remove_file(&fifo).unwrap();
        symlink(&precious, &fifo).unwrap();
        there.open_found().unwrap().write_all(b"result").unwrap();
        let mut text = [0; 6];
        io::Read::read_exact(&mut reader, &mut text).unwrap();
        assert_eq!(&text, b"result");
        assert_eq!(std::fs::read_to_string(&precious).unwrap(), "precious");
    }

    #[test]
    fn descriptors_are_followed_to_what_is_open() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("log"), "first\n").unwrap();
        let log = File::open(dir.path().join("log")).unwrap();
        let (reader, writer) = std::io::pipe().unwrap();
        let by_dev = |file: i32| Destination::of(&PathBuf::from(format!("/dev/fd/{file}"))).unwrap();
        let there = by_dev(log.as_raw_fd());
        assert!(there.is_descriptor());
        there.open_found().unwrap().write_all(b"second\n").unwrap();
        assert_eq!(std::fs::read_to_string(dir.path().join("log")).unwrap(), "first\nsecond\n");
        // No path leads to a pipe.
        let there = by_dev(writer.as_raw_fd());
        assert_eq!(there.kind().unwrap(), Some(FileType::Fifo));
        there.open_found().unwrap().write_all(b"through").unwrap();
        drop(writer);
        assert_eq!(io::read_to_string(reader).unwrap(), "through");
        let directory = File::open(dir.path()).unwrap();
        let inside = PathBuf::from(format!("/proc/self/fd/{}/log", directory.as_raw_fd()));
        let there = Destination::of(&inside).unwrap();
        assert_eq!((there.is_descriptor(), there.kind().unwrap()), (false, Some(FileType::RegularFile)));
        assert!(Destination::of(Path::new("/proc/self/fd/999999")).unwrap().stat().unwrap().is_none());
    }
}
