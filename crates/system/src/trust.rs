//! Which directories only this user and root can change. Where others can, they decide what a name refers to from one
//! moment to the next: they can put a link in its place, and root writes wherever that leads.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use rustix::process::{getegid, geteuid};

const OTHERS_WRITE: u32 = 0o002;
const GROUP_WRITES: u32 = 0o020;
const STICKY: u32 = 0o1000;

/// Returns the directory on `path`, or the path itself, in which a user other than root and this one may rename what
/// this user creates; `None` when there is none. Links are resolved first; a path that does not exist counts as one.
pub fn changeable_by_others(path: &Path) -> Option<PathBuf> {
    let Ok(path) = std::fs::canonicalize(path) else { return Some(path.to_owned()) };
    path.ancestors().find(|dir| !is_safe(dir)).map(Path::to_owned)
}

/// As root, returns the directory on the path (or on its existing part) in which another user may put a link that leads
/// root elsewhere; `None` for other users and if there is none.
pub fn leads_root_astray(path: &Path) -> Option<PathBuf> {
    if !geteuid().is_root() { None } else { changeable_by_others(&existing_part(path)) }
}

/// Returns the path, or its nearest parent that exists.
pub fn existing_part(path: &Path) -> PathBuf {
    let whole = std::path::absolute(path).unwrap_or_else(|_| PathBuf::from("."));
    whole.ancestors().find(|part| part.exists()).unwrap_or(Path::new("/")).to_owned()
}

/// Returns the usual directory for temporary files, or /tmp if others could rename things in the usual one.
pub fn temp_dir() -> PathBuf {
    let usual = std::env::temp_dir();
    if changeable_by_others(&usual).is_some() { PathBuf::from("/tmp") } else { usual }
}

fn is_safe(dir: &Path) -> bool {
    let Ok(found) = std::fs::metadata(dir) else { return false };
    let us = (geteuid().as_raw(), getegid().as_raw());
    only_ours((found.uid(), found.gid()), found.mode(), us)
}

/// Whether only root and this user can rename what they create in a directory. In a sticky one, such as /tmp, users may
/// rename only what they own. Where each user has a private group, directories are often writable by it.
fn only_ours((uid, gid): (u32, u32), mode: u32, (own_uid, own_gid): (u32, u32)) -> bool {
    let is_own_group = own_uid != 0 && (uid, gid) == (own_uid, own_gid);
    let others = if is_own_group { OTHERS_WRITE } else { OTHERS_WRITE | GROUP_WRITES };
    (uid == 0 || uid == own_uid) && (mode & others == 0 || mode & STICKY != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_group_of_ones_own_is_oneself_but_not_for_root() {
        let (root, me, other) = ((0, 0), (1000, 1000), (2000, 2000));
        for (owner, mode, who, expected) in [
            (me, 0o775, me, true),
            (me, 0o777, me, false),
            ((1000, 100), 0o775, me, false),
            (me, 0o755, root, false),
            (root, 0o775, root, false),
            (root, 0o755, me, true),
            (other, 0o755, me, false),
            (root, 0o1777, me, true),
            (other, 0o1777, me, false),
        ] {
            assert_eq!(only_ours(owner, mode, who), expected, "{owner:?} {mode:o} {who:?}");
        }
    }

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
