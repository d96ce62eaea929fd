//! Where a path leads that is about to be written: links of another user are not followed.
//!
//! The kernel follows no such link in a sticky directory (`fs.protected_symlinks`); in another user's own directory it
//! does, and root then writes wherever that user chose.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat, StatxAttributes, StatxFlags};
use rustix::io::Errno;

/// As many as the kernel follows.
const LINKS_MAX: u32 = 40;
const AS_PATH: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);

/// A name in a directory that is held open, so that nobody can put another directory in its place.
#[derive(Debug)]
pub struct Destination {
    dir: OwnedFd,
    name: OsString,
}

impl Destination {
    /// Follows a path to the file, which need not be there.
    ///
    /// # Errors
    /// When a directory on the way is missing, the path ends in `..`, or a link on it belongs to neither this
    /// user nor root.
    pub fn of(path: &Path) -> io::Result<Self> {
        let start = |path: &Path| rustix::fs::open(if path.is_absolute() { "/" } else { "." }, AS_PATH, Mode::empty());
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
                Err(Errno::NOENT) if left.is_empty() => return Ok(Self { dir, name }),
                found => found?,
            };
            let stat = rustix::fs::fstat(&found)?;
            if FileType::from_raw_mode(stat.st_mode) != FileType::Symlink {
                if left.is_empty() {
                    return Ok(Self { dir, name });
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
        PathBuf::from(format!("/proc/self/fd/{}", self.dir.as_raw_fd()))
    }

    /// Looks at what is there; `None` if nothing is.
    ///
    /// # Errors
    /// When it cannot be looked at.
    pub fn stat(&self) -> io::Result<Option<Stat>> {
        match rustix::fs::statat(&self.dir, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => Ok(None),
            found => Ok(Some(found?)),
        }
    }

    /// Returns true if no other file may take its place, since it or its directory is immutable or append-only.
    pub fn is_frozen(&self) -> bool {
        let attributes = |dir: &OwnedFd, name: &OsStr| {
            let found =
                rustix::fs::statx(dir, name, AtFlags::SYMLINK_NOFOLLOW | AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
            found.map_or(StatxAttributes::empty(), |found| found.stx_attributes)
        };
        let both = attributes(&self.dir, OsStr::new("")) | attributes(&self.dir, &self.name);
        both.intersects(StatxAttributes::IMMUTABLE | StatxAttributes::APPEND)
    }

    /// Opens it for writing, and makes it where there is none.
    ///
    /// # Errors
    /// When it cannot be opened, or somebody has put a link there meanwhile.
    pub fn open(&self) -> io::Result<std::fs::File> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok(rustix::fs::openat(&self.dir, &self.name, flags, Mode::from_raw_mode(0o666))?.into())
    }
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
            assert!(there.stat().unwrap().is_none());
        }
        assert!(at.join("link").is_symlink());
        symlink("round", at.join("round")).unwrap();
        for path in ["round", "none/file", "a/b/.."] {
            assert!(Destination::of(&at.join(path)).is_err(), "{path}");
        }
    }

    /// `-o` of root resolved links by name, past what the kernel protects: another user's link led to /etc/passwd.
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
        ["link", "dir"].iter().for_each(|name| of_another(&at.join(name)));
        for path in ["link", "dir/file", "chain"] {
            let error = Destination::of(&at.join(path)).unwrap_err();
            assert!(error.to_string().contains("another user"), "{path}: {error}");
        }
    }

    #[test]
    fn a_link_put_there_later_is_not_opened() {
        let dir = tempfile::tempdir().unwrap();
        let there = Destination::of(&dir.path().join("file")).unwrap();
        symlink("elsewhere", dir.path().join("file")).unwrap();
        assert!(there.open().is_err() && !dir.path().join("elsewhere").exists());
    }
}
