//! Reads the machine and never changes it: filesystems, block devices, kernel counters, control groups, DMI.
//!
//! Everything starts from a [`Machine`], which reads `/proc`, `/sys` and `/etc` below a root directory. The root is
//! `/` in use and a temporary directory in tests, so that a laptop with LVM on dm-crypt can be examined inside a
//! small virtual machine. Whatever cannot be read is empty, never an error: a benchmark must also run where half of
//! sysfs is hidden. The one exception is [`guard`], which decides whether a device may be overwritten and therefore
//! treats missing information as a refusal.

#![deny(missing_docs)]

use std::fs;
use std::path::{Path, PathBuf};
use std::str::FromStr;

pub mod activity;
pub mod amazon;
mod behind;
mod block;
mod cgroup;
mod cgroup_names;
mod counters;
mod dependents;
mod devices;
mod environment;
mod filesystem;
#[cfg(test)]
mod fixture;
pub mod guard;
mod mapped;
mod mounts;
mod nvme;
pub mod same_disk;
pub mod sampler;
mod settings;
pub mod signature;
mod sleeping;
mod transport;
mod uuid;
mod vendor;
mod virtualization;

pub use block::BlockQueue;
pub use counters::{storage_read_bytes, thread_clock, thread_cost, thread_time};
pub use dependents::LoopOver;
pub use filesystem::class_of;
pub use mapped::Mapped;

/// A machine, as its `/proc`, `/sys` and `/etc` describe it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    root: PathBuf,
}

impl Default for Machine {
    fn default() -> Self {
        Self::new()
    }
}

impl Machine {
    /// The machine this process runs on.
    #[must_use]
    pub fn new() -> Self {
        Self { root: PathBuf::from("/") }
    }

    /// A machine described by the tree below `root`, for tests.
    #[must_use]
    pub fn at(root: impl Into<PathBuf>) -> Self {
        let root = root.into();
        Self { root: root.canonicalize().unwrap_or(root) }
    }

    /// Whether this is the running machine, so that system calls can be used as well as files.
    pub(crate) fn is_live(&self) -> bool {
        self.root == Path::new("/")
    }

    /// The path by which this process reaches the machine's `path`.
    pub(crate) fn below(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The file's text without surrounding white space and NULs; empty when it cannot be read.
    pub(crate) fn text(&self, path: impl AsRef<Path>) -> String {
        text_of(&self.below(path))
    }

    /// The file's first word as a number.
    pub(crate) fn number<T: FromStr>(&self, path: impl AsRef<Path>) -> Option<T> {
        self.text(path).split_whitespace().next()?.parse().ok()
    }

    /// Whether the machine has this path.
    pub(crate) fn has(&self, path: impl AsRef<Path>) -> bool {
        self.below(path).exists()
    }

    /// `path` as the machine names it, with symbolic links resolved as far as it exists: a file yet to be created is
    /// on the filesystem of its nearest ancestor.
    pub(crate) fn resolve(&self, path: &Path) -> PathBuf {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
        for ancestor in absolute.ancestors() {
            let Ok(real) = self.below(ancestor).canonicalize() else { continue };
            let inside = real.strip_prefix(&self.root).unwrap_or(&real);
            let missing = absolute.strip_prefix(ancestor).unwrap_or(Path::new(""));
            return Path::new("/").join(inside).components().chain(missing.components()).collect();
        }
        absolute
    }
}

/// The file's text without surrounding white space and NULs (device trees end strings with one).
pub(crate) fn text_of(path: &Path) -> String {
    let bytes = fs::read(path).unwrap_or_default();
    String::from_utf8_lossy(&bytes).trim_matches(|c: char| c.is_whitespace() || c == '\0').to_owned()
}

/// The names in a directory, sorted so that results do not depend on the order in which the kernel lists them.
pub(crate) fn names_in(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    names
}

/// The last part of what a symbolic link points to: sysfs names drivers and buses that way.
pub(crate) fn link_name(path: &Path) -> String {
    let target = fs::read_link(path).unwrap_or_default();
    target.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    #[test]
    fn a_path_is_resolved_as_far_as_it_exists() {
        let machine = Fixture::new().dir("/srv/data").link("/data", "srv/data").machine();
        assert_eq!(machine.resolve(Path::new("/data/new/file")), Path::new("/srv/data/new/file"));
        assert_eq!(machine.resolve(Path::new("/data")), Path::new("/srv/data"));
        assert_eq!(machine.resolve(Path::new("/")), Path::new("/"));
    }

    #[test]
    fn what_is_missing_is_empty() {
        let machine = Fixture::new().machine();
        assert_eq!(machine.text("/proc/none"), "");
        assert_eq!(machine.number::<u64>("/proc/none"), None);
        assert!(!machine.has("/proc"));
    }
}
