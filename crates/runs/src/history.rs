//! Where runs are kept.

use std::path::PathBuf;

use anyhow::Result;
use qd1_model::{Problem, ProblemKind};
use qd1_store::Store;
use qd1_system::state::default_path;
use qd1_system::trust;

/// Opens the history to keep runs.
///
/// # Errors
/// When it cannot be opened.
pub fn open() -> Result<Store> {
    Store::open(&path()?)
}

/// Where the history is.
///
/// # Errors
/// When there is no place for it that can be trusted.
pub fn path() -> Result<PathBuf> {
    let path = default_path(|name| std::env::var_os(name))?;
    // In another user's directory, a link that they make decides what root overwrites.
    if let Some(dir) = trust::leads_root_astray(&path) {
        let (path, dir) = (path.display(), dir.display());
        let advice = "use `sudo -H`, or set QD1_STORE to a file in a directory that root owns";
        let message = format!("another user can change {dir}, so root does not write {path}; {advice}");
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    Ok(path)
}

/// Opens the history to read it.
///
/// # Errors
/// When it cannot be read.
pub fn read() -> Result<Store> {
    Store::read(&default_path(|name| std::env::var_os(name))?)
}
