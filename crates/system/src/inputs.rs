//! Which files this process reads or measures, so that no result overwrites one of them.
//!
//! Code that reads a file for a user registers it here. The command line alone does not show which files those are: a
//! job file includes others and names the files of its jobs, and a group of runs is one argument.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

#[derive(Default)]
struct Inputs {
    /// Device and inode of existing files, whatever other names they have.
    files: BTreeSet<(u64, u64)>,
    /// Places of files that do not exist yet.
    places: BTreeSet<PathBuf>,
}

static INPUTS: Mutex<Inputs> = Mutex::new(Inputs { files: BTreeSet::new(), places: BTreeSet::new() });

/// Registers the file at a path, which need not exist yet. Anything but a regular file cannot be replaced and is left
/// out.
pub fn note(path: &Path) {
    let mut inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    match path.metadata() {
        Ok(found) if found.is_file() => _ = inputs.files.insert((found.dev(), found.ino())),
        Ok(_) => {}
        Err(_) => inputs.places.extend(place(path)),
    }
}

/// Whether a path leads to a registered file.
pub fn has(path: &Path) -> bool {
    let inputs = INPUTS.lock().unwrap_or_else(PoisonError::into_inner);
    let is_there = path.metadata().is_ok_and(|found| inputs.files.contains(&(found.dev(), found.ino())));
    is_there || place(path).is_some_and(|place| inputs.places.contains(&place))
}

/// Where a file is or will be: its directory without links, and its name.
fn place(path: &Path) -> Option<PathBuf> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    Some(dir.canonicalize().ok()?.join(path.file_name()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_known_by_any_of_its_names_and_before_it_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        std::fs::write(at("read"), "").unwrap();
        std::fs::hard_link(at("read"), at("hard")).unwrap();
        std::os::unix::fs::symlink("read", at("link")).unwrap();
        std::fs::write(at("other"), "").unwrap();
        note(&at("read"));
        note(&at("later"));
        for name in ["read", "hard", "link", "./later"] {
            assert!(has(&at(name)), "{name}");
        }
        assert!(!has(&at("other")) && !has(&at("new")));
        std::fs::write(at("later"), "").unwrap();
        assert!(has(&at("later")));
    }
}
