//! Which directories only this user and root can change. Where others can, they choose what a name means from one
//! moment to the next: a link in its place, and root writes wherever that leads.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;

/// Returns the directory on `path`, or the path itself, in which another user than root and this one may rename what
/// this user makes; `None` when there is none. Links are resolved first; a path that does not exist has one.
pub fn changeable_by_others(path: &Path) -> Option<PathBuf> {
    let Ok(path) = std::fs::canonicalize(path) else { return Some(path.to_owned()) };
    path.ancestors().find(|dir| !is_safe(dir)).map(Path::to_owned)
}

/// Returns the usual directory for temporary files, or /tmp where others could rename what is in the usual one.
pub fn temp_dir() -> PathBuf {
    let usual = std::env::temp_dir();
    if changeable_by_others(&usual).is_some() { PathBuf::from("/tmp") } else { usual }
}

/// In a sticky directory, such as /tmp, each may rename only what is their own.
fn is_safe(dir: &Path) -> bool {
    let Ok(found) = std::fs::metadata(dir) else { return false };
    let owned = found.uid() == 0 || found.uid() == geteuid().as_raw();
    owned && (found.mode() & OTHERS_WRITE == 0 || found.mode() & STICKY != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_directory_that_others_may_write_is_found_above_as_well() {
        let dir = tempfile::tempdir().unwrap();
        let inner = dir.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let set = |mode| std::fs::set_permissions(dir.path().join("a"), std::fs::Permissions::from_mode(mode)).unwrap();
        for (mode, is_safe) in [(0o755, true), (0o775, false), (0o757, false), (0o1777, true)] {
            set(mode);
            let found = changeable_by_others(&inner);
            assert_eq!(found.is_none(), is_safe, "{mode:o}: {found:?}");
        }
        assert!(changeable_by_others(&dir.path().join("missing")).is_some());
    }
}
