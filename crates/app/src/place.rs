//! What is known of the place to be measured before anything is decided: kind, filesystem, direct I/O.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_engine::target::{DirectIo, PathKind, Target, direct_io, direct_io_in, path_kind};
use qd1_model::environment::{Filesystem, FilesystemClass};
use qd1_probe::Machine;

use qd1_model::{Problem, ProblemKind};

/// The place, looked at.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Symbolic links followed.
    pub(crate) path: PathBuf,
    pub(crate) kind: PathKind,
    pub(crate) filesystem: Filesystem,
    pub(crate) direct: DirectIo,
}

/// Looks at `path`; refuses what cannot be measured at all.
///
/// # Errors
/// Missing paths, pseudo filesystems, character devices, no permission: each says what to do.
pub(crate) fn look(machine: &Machine, path: &Path, unique: &str) -> Result<Place> {
    let kind = path_kind(path).map_err(|error| match is_missing(&error) {
        true => Problem::usage(missing(path)).into(),
        false => anyhow::Error::from(error),
    })?;
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
        let message = format!(
            "{path:?} is not UTF-8 or has control characters, and no report could name it; choose another directory"
        );
        return Err(Problem::usage(message).into());
    }
    let filesystem = match kind {
        PathKind::Block(_) => Filesystem::default(),
        _ => machine.filesystem(&path).unwrap_or_default(),
    };
    if filesystem.class == FilesystemClass::Pseudo {
        let message = format!(
            "{} is on {}, which the kernel makes up as it is read: there is no disk to measure; choose a directory \
             on a disk",
            path.display(),
            filesystem.kind
        );
        return Err(Problem::usage(message).into());
    }
    let direct = match kind {
        PathKind::Directory => direct_io_in(&path, unique)?,
        PathKind::File(_) | PathKind::Block(_) => direct_io(&Target::existing(&path))?,
        PathKind::Other => {
            let message = format!(
                "{} is neither a directory, a file nor a block device; choose a directory on the disk to measure",
                path.display()
            );
            return Err(Problem::usage(message).into());
        }
    };
    // Memory filesystems take O_DIRECT on newer kernels and ignore it: do not claim what is not so.
    let supported = direct.supported && filesystem.class != FilesystemClass::Memory;
    Ok(Place { path, kind, filesystem, direct: DirectIo { supported, ..direct } })
}

fn is_missing(error: &qd1_engine::EngineError) -> bool {
    matches!(error, qd1_engine::EngineError::Path { errno, .. }
        if std::io::Error::from(*errno).kind() == std::io::ErrorKind::NotFound)
}

/// A missing path may be a mistyped command: `qd1 histroy` is a path to the command line.
fn missing(path: &Path) -> String {
    let text = path.to_string_lossy();
    let meant = qd1_model::suggest::nearest(&text, crate::cli::COMMANDS.iter().copied());
    match meant {
        Some(command) => format!("there is no {text:?} here; did you mean the command `qd1 {command}`?"),
        None => format!("{text} does not exist; name a directory, a file or a block device"),
    }
}

/// Refuses to write to a device that is in use, or that takes no writes: the kernel says so at the first request only,
/// with an error that names no reason.
///
/// # Errors
/// With what is in the way.
pub(crate) fn may_destroy(machine: &Machine, device: &Path) -> Result<()> {
    if machine.is_read_only_block(device) {
        let device = device.display();
        let message = format!(
            "{device} is read-only; leave --destroy out to measure reads alone, or, if it may be written, \
             allow that first (blockdev --setrw {device})"
        );
        return Err(Problem::new(ProblemKind::Capability, message).into());
    }
    let uses = machine.block_uses(device);
    if uses.is_empty() {
        return Ok(());
    }
    let reasons: Vec<String> = uses.iter().map(|in_use| format!("  {in_use}")).collect();
    let message = format!("{} is not written:\n{}", device.display(), reasons.join("\n"));
    Err(Problem::new(ProblemKind::Unsafe, message).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_command_is_recognised() {
        assert!(missing(Path::new("histroy")).contains("qd1 history"));
        assert!(missing(Path::new("/srv/data")).contains("does not exist"));
    }
}
