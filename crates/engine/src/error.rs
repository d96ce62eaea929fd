//! What can go wrong, with the path, the operation and the errno by name, and what to do next.

use std::path::{Path, PathBuf};

use rustix::io::Errno;

/// Where the kernel names what a process has open.
pub(crate) const DESCRIPTORS: &str = "/proc/self/fd";

/// A failure of an engine, a target or a worker.
#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    /// The kernel refused an operation on a path.
    #[error("{op} {}: {} ({}){}", path.display(), errno_name(*errno), said(*errno), hint(*errno, op))]
    Path {
        /// The operation: `open`, `fallocate`, ...
        op: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The error.
        errno: Errno,
    },
    /// The engine is not available here.
    #[error("engine {engine} is not available here: {why}; choose another with --engine, or --engine auto")]
    Unavailable {
        /// Which.
        engine: &'static str,
        /// Why.
        why: String,
    },
    /// The engine broke while running.
    #[error("engine {engine}: {op} failed: {} ({})", errno_name(*errno), said(*errno))]
    Broken {
        /// Which.
        engine: &'static str,
        /// The system call.
        op: &'static str,
        /// Why.
        errno: Errno,
    },
    /// A plan that the engine crate cannot run: a bug in the planner.
    #[error("cannot run this step: {0}")]
    Plan(String),
    /// A worker thread cannot be started.
    #[error("{0}")]
    Threads(String),
    /// A worker thread panicked.
    #[error("a worker thread failed: {0}; please report this as a bug")]
    Worker(String),
}

impl EngineError {
    /// A refused operation on `path`.
    pub fn path(op: &'static str, path: impl Into<PathBuf>, errno: Errno) -> Self {
        Self::Path { op, path: as_people_name_it(path.into()), errno }
    }
}

/// The name of a path that begins at an open descriptor: /proc/self/fd/5 means nothing once this process has ended.
fn as_people_name_it(path: PathBuf) -> PathBuf {
    let Ok(below) = path.strip_prefix(DESCRIPTORS) else { return path };
    let mut parts = below.components();
    let opened = parts.next().and_then(|number| std::fs::read_link(Path::new(DESCRIPTORS).join(number)).ok());
    opened
        .map_or(path.clone(), |opened| if parts.as_path().as_os_str().is_empty() { opened } else { opened.join(parts) })
}

/// Advice for this errno, if there is any.
fn hint(errno: Errno, op: &str) -> &'static str {
    match errno {
        Errno::ACCESS | Errno::PERM => "; choose a place that this user has access to, or run as root",
        Errno::ROFS => "; the filesystem is read-only: choose another place",
        Errno::NOSPC | Errno::DQUOT => "; free some space or give a smaller --size",
        Errno::NOENT => "; check the path",
        Errno::FBIG => "; the filesystem or `ulimit -f` does not allow a file this large: give a smaller --size",
        Errno::BUSY => "; it is in use (mounted, or part of a volume): nothing was written",
        Errno::INVAL if op.contains("O_DIRECT") => "; this filesystem does not support direct I/O",
        _ => "",
    }
}

/// The system's text for an errno, without its number: `Permission denied`.
fn said(errno: Errno) -> String {
    errno.to_string().split(" (os error").next().unwrap_or_default().to_owned()
}

/// The symbolic name of an errno (`EIO`), as every message and Record uses it.
pub fn errno_name(errno: Errno) -> String {
    let known = match errno {
        Errno::PERM => "EPERM",
        Errno::NOENT => "ENOENT",
        Errno::INTR => "EINTR",
        Errno::IO => "EIO",
        Errno::NXIO => "ENXIO",
        Errno::BADF => "EBADF",
        Errno::AGAIN => "EAGAIN",
        Errno::NOMEM => "ENOMEM",
        Errno::ACCESS => "EACCES",
        Errno::FAULT => "EFAULT",
        Errno::BUSY => "EBUSY",
        Errno::EXIST => "EEXIST",
        Errno::NODEV => "ENODEV",
        Errno::NOTDIR => "ENOTDIR",
        Errno::ISDIR => "EISDIR",
        Errno::INVAL => "EINVAL",
        Errno::MFILE => "EMFILE",
        Errno::FBIG => "EFBIG",
        Errno::NOSPC => "ENOSPC",
        Errno::ROFS => "EROFS",
        Errno::NOSYS => "ENOSYS",
        Errno::OPNOTSUPP => "EOPNOTSUPP",
        Errno::DQUOT => "EDQUOT",
        Errno::STALE => "ESTALE",
        Errno::TIMEDOUT => "ETIMEDOUT",
        Errno::CANCELED => "ECANCELED",
        Errno::REMOTEIO => "EREMOTEIO",
        Errno::NODATA => "ENODATA",
        Errno::ILSEQ => "EILSEQ",
        _ => return format!("errno {}", errno.raw_os_error()),
    };
    known.to_owned()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd as _;

    use super::*;

    /// A scratch directory in /tmp was reported as /proc/self/fd/5.
    #[test]
    fn a_path_that_begins_at_a_descriptor_has_the_name_of_what_is_open() {
        let dir = tempfile::tempdir().unwrap();
        let open = std::fs::File::open(dir.path()).unwrap();
        let named = |below: &str| {
            let path = format!("{DESCRIPTORS}/{}{below}", open.as_raw_fd());
            EngineError::path("open", path, Errno::NOSPC).to_string()
        };
        let shown = std::fs::canonicalize(dir.path()).unwrap().display().to_string();
        assert!(named("/.qd1-1").starts_with(&format!("open {shown}/.qd1-1: ENOSPC")), "{}", named("/.qd1-1"));
        assert!(named("").starts_with(&format!("open {shown}: ENOSPC")), "{}", named(""));
        let closed = EngineError::path("open", format!("{DESCRIPTORS}/999999/a"), Errno::IO).to_string();
        assert!(closed.contains("/proc/self/fd/999999/a"), "{closed}");
    }
}
