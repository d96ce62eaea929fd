//! The user that a server runs as if it refuses to run as root, and whether that user can open the measured directory.

use std::fs::Metadata;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rustix::fs::{Mode, OFlags};

use qd1_model::{Problem, ProblemKind};

/// The user for programs that have no user of their own.
const NOBODY: &str = "nobody";

/// A user of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    /// Its name.
    pub name: String,
    /// Its id.
    pub uid: u32,
    /// The id of its group.
    pub gid: u32,
}

/// Returns the user for a server, by default its own user `own`; `None` when qd1 does not run as root, since the server
/// then runs as the same user.
///
/// # Errors
/// When root names a user that does not exist, when no usual user exists, or when a user other than root names one.
pub fn for_server(named: Option<&str>, own: &str) -> Result<Option<User>> {
    let is_root = rustix::process::geteuid().is_root();
    match (is_root, named) {
        (false, None) => return Ok(None),
        (false, Some(name)) => {
            let message = format!("--user {name}: only root can choose; leave it out to run the server as yourself");
            return Err(Problem::usage(message).into());
        }
        (true, _) => {}
    }
    // Only the file is read: names from a directory service are not looked up.
    let passwd = std::fs::read_to_string("/etc/passwd").context("cannot read /etc/passwd")?;
    if let Some(name) = named {
        let found = find(&passwd, name).filter(|user| user.uid != 0);
        return match found {
            Some(user) => Ok(Some(user)),
            None => Err(Problem::usage(format!("--user {name}: not a user in /etc/passwd other than root")).into()),
        };
    }
    match [own, NOBODY].iter().find_map(|name| find(&passwd, name)) {
        Some(user) => Ok(Some(user)),
        None => {
            let message = format!(
                "the server refuses to run as root, and neither user {own} nor user {NOBODY} exists; name another with \
                 --user, or run qd1 as an ordinary user"
            );
            Err(Problem::new(ProblemKind::Capability, message).into())
        }
    }
}

/// Looks up a user in the text of /etc/passwd.
fn find(passwd: &str, wanted: &str) -> Option<User> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(wanted))?;
    let fields: Vec<&str> = line.split(':').collect();
    Some(User { name: wanted.to_owned(), uid: fields.get(2)?.parse().ok()?, gid: fields.get(3)?.parse().ok()? })
}

/// A path to a directory that a server's user can open while this lives.
#[derive(Debug)]
pub struct ReachablePath {
    path: PathBuf,
    /// Inherited by programs that are started while it is open.
    _open: Option<OwnedFd>,
}

impl ReachablePath {
    /// Returns the path unchanged, for qd1's own user.
    pub fn own(dir: &Path) -> Self {
        Self { path: dir.to_owned(), _open: None }
    }

    /// Returns the path to open.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl User {
    /// Returns a path to a directory. If a directory above it is closed to the user, such as root's home, the path
    /// begins at an open file that programs inherit: the kernel checks the user's permissions only below it.
    ///
    /// # Errors
    /// When the directory cannot be opened.
    pub fn reachable_path(&self, dir: &Path) -> Result<ReachablePath> {
        if self.closed_parent(dir).is_none() {
            return Ok(ReachablePath::own(dir));
        }
        // Without CLOEXEC, so that it is inherited.
        let open = rustix::fs::open(dir, OFlags::PATH | OFlags::DIRECTORY, Mode::empty())
            .with_context(|| format!("cannot open {}", dir.display()))?;
        Ok(ReachablePath { path: PathBuf::from(format!("/proc/self/fd/{}", open.as_raw_fd())), _open: Some(open) })
    }

    /// Refuses a directory that the user cannot reach: the server would only report that permission is denied.
    ///
    /// # Errors
    /// When a directory on the path is closed to the user; the message names it.
    pub fn must_reach(&self, path: &Path) -> Result<()> {
        let Some(dir) = self.closed_parent(path) else { return Ok(()) };
        let (name, dir) = (&self.name, dir.display());
        let message = format!(
            "the server runs as user {name}, who cannot enter {dir}; set TMPDIR to a directory that everybody can \
             enter, open this one (chmod o+x {dir}), or name another user with --user"
        );
        Err(Problem::new(ProblemKind::Capability, message).into())
    }

    /// Returns the topmost directory of a path that the user cannot enter.
    fn closed_parent<'a>(&self, path: &'a Path) -> Option<&'a Path> {
        let closed = |dir: &&Path| std::fs::metadata(dir).is_ok_and(|found| !self.can_enter(&found));
        path.ancestors().filter(closed).last()
    }

    fn can_enter(&self, dir: &Metadata) -> bool {
        let shift = match () {
            () if dir.uid() == self.uid => 6,
            () if dir.gid() == self.gid => 3,
            () => 0,
        };
        self.uid == 0 || dir.mode() >> shift & 1 == 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    const PASSWD: &str =
        "root:x:0:0:root:/root:/bin/bash\nnobodyelse:x:7:7::/:/bin/sh\nnobody:x:65534:65533::/:/bin/sh\n";

    #[test]
    fn a_user_is_found_by_the_whole_name() {
        assert_eq!(find(PASSWD, "nobody"), Some(User { name: "nobody".into(), uid: 65534, gid: 65533 }));
        assert_eq!(find(PASSWD, "no"), None);
    }

    #[test]
    fn a_closed_directory_is_named_with_what_to_do() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let inner = dir.path().join("data");
        std::fs::create_dir(&inner).unwrap();
        let stranger = User { name: "stranger".into(), uid: 4_000_000, gid: 4_000_000 };
        let error = stranger.must_reach(&inner).unwrap_err().to_string();
        assert!(error.contains("stranger") && error.contains("chmod o+x"), "{error}");
        let reachable = stranger.reachable_path(&inner).unwrap();
        assert!(reachable.path().starts_with("/proc/self/fd"));
        std::fs::write(inner.join("file"), "through").unwrap();
        let seen = std::process::Command::new("cat").arg(reachable.path().join("file")).output().unwrap();
        assert_eq!(seen.stdout, b"through", "a child inherits it");
        std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o711)).unwrap();
        assert!(stranger.must_reach(&inner).is_ok());
        assert_eq!(stranger.reachable_path(&inner).unwrap().path(), inner);
    }
}
