//! Finds installed programs.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use qd1_model::{Problem, ProblemKind};

/// Returns the path of the program `name` in one of `dirs`.
pub(crate) fn among(name: &str, dirs: &[PathBuf]) -> Option<PathBuf> {
    let is_executable =
        |path: &PathBuf| std::fs::metadata(path).is_ok_and(|f| f.is_file() && f.permissions().mode() & 0o111 != 0);
    // The path must be absolute, since the guard process changes its directory before it executes the server.
    dirs.iter().map(|dir| dir.join(name)).find(is_executable).and_then(|path| std::path::absolute(path).ok())
}

/// Returns the directories of PATH.
pub(crate) fn path_dirs() -> Vec<PathBuf> {
    std::env::var_os("PATH").map(|path| std::env::split_paths(&path).collect()).unwrap_or_default()
}

/// Returns the directory given with `--bindir`, otherwise those of PATH.
pub(crate) fn dirs(bindir: Option<&Path>) -> Vec<PathBuf> {
    bindir.map_or_else(path_dirs, |dir| vec![dir.to_owned()])
}

/// Returns the path of a program.
///
/// # Errors
/// When it is missing; the message names the package.
pub(crate) fn needed(name: &str, dirs: &[PathBuf], package: &str) -> Result<PathBuf, Problem> {
    among(name, dirs).ok_or_else(|| {
        let message =
            format!("{name} is not installed or not in PATH; on Debian and Ubuntu: apt-get install {package}");
        Problem::new(ProblemKind::Capability, message)
    })
}

/// Returns the directories that match `base/prefix*/rest`, in the order of their names.
pub(crate) fn like(base: &str, prefix: &str, rest: &str) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(base) else { return Vec::new() };
    let named = entries.flatten().filter(|entry| entry.file_name().to_string_lossy().starts_with(prefix));
    let mut dirs: Vec<PathBuf> = named.map(|entry| entry.path().join(rest)).filter(|dir| dir.is_dir()).collect();
    dirs.sort();
    dirs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_its_package() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("etcd"), "no program: not executable").unwrap();
        let error = needed("etcd", &[dir.path().to_owned()], "etcd-server").unwrap_err().to_string();
        assert!(error.contains("etcd is not installed") && error.contains("apt-get install etcd-server"), "{error}");
    }

    #[test]
    fn all_installed_versions_are_found() {
        let base = tempfile::tempdir().unwrap();
        for version in ["12", "15"] {
            std::fs::create_dir_all(base.path().join(version).join("bin")).unwrap();
        }
        let found = like(base.path().to_str().unwrap(), "", "bin");
        assert_eq!(found, ["12", "15"].map(|version| base.path().join(version).join("bin")));
    }
}
