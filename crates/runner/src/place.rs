//! The place to be measured, as inspected before anything is planned: kind, filesystem, direct I/O.

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_engine::backing::{DirectIo, PathKind, Target, direct_io, path_kind};
use qd1_model::environment::{Filesystem, FilesystemClass};
use qd1_model::{Bytes, Problem};
use qd1_probe::Machine;

use crate::test_file::TestFile;

/// The properties of the place to be measured.
#[derive(Clone, Debug)]
pub struct Place {
    /// The path, with symbolic links resolved.
    pub path: PathBuf,
    /// Directory, file or block device.
    pub kind: PathKind,
    /// The filesystem; empty for a block device.
    pub filesystem: Filesystem,
    /// Whether direct I/O works there, and its alignment.
    pub direct: DirectIo,
    /// Space of the filesystem that has to stay free, if the user says how much.
    pub leave_free: Option<Bytes>,
}

/// Inspects `path`; refuses what cannot be measured at all.
///
/// # Errors
/// On missing paths, pseudo filesystems, character devices and missing permissions; each message says what to do.
pub fn inspect(machine: &Machine, path: &Path, unique: &str) -> Result<Place> {
    let kind = path_kind(path).map_err(|error| match is_missing(&error) {
        true => missing(path).into(),
        false => anyhow::Error::from(error),
    })?;
    let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    if path.to_str().is_none_or(|text| text.chars().any(char::is_control)) {
        let message = format!(
            "{path:?} is not UTF-8 or has control characters, so no report could name it; choose another directory"
        );
        return Err(Problem::usage(message).into());
    }
    let filesystem = match kind {
        PathKind::Block(_) => Filesystem::default(),
        _ => machine.filesystem(&path).unwrap_or_default(),
    };
    let why = match filesystem.class {
        FilesystemClass::Pseudo => Some("which the kernel generates when it is read"),
        // ramfs: a test file of any size could take all of the memory.
        FilesystemClass::Memory if filesystem.size == Bytes(0) => Some("which keeps files in memory without a limit"),
        _ => None,
    };
    if let Some(why) = why {
        let message = format!(
            "{} is on {}, {why}: there is no disk to measure; choose a directory on a disk",
            path.display(),
            filesystem.kind
        );
        return Err(Problem::usage(message).into());
    }
    let direct = match kind {
        PathKind::Directory => {
            let probe = TestFile::create(&path, unique)?;
            probe.set_len(65_536)?;
            direct_io(&probe)?
        }
        PathKind::File(_) | PathKind::Block(_) => direct_io(&Target::existing(&path))?,
        PathKind::Other => {
            let message = format!(
                "{} is not a directory, a file or a block device; choose a directory on the disk to measure",
                path.display()
            );
            return Err(Problem::usage(message).into());
        }
    };
    // Memory filesystems accept O_DIRECT on newer kernels and ignore it: do not report it as supported.
    let supported = direct.supported && filesystem.class != FilesystemClass::Memory;
    Ok(Place { path, kind, filesystem, direct: DirectIo { supported, ..direct }, leave_free: None })
}

fn is_missing(error: &qd1_engine::EngineError) -> bool {
    matches!(error, qd1_engine::EngineError::Path { errno, .. }
        if std::io::Error::from(*errno).kind() == std::io::ErrorKind::NotFound)
}

/// Returns the error for a path that does not exist.
pub fn missing(path: &Path) -> Problem {
    Problem::usage(format!("{} does not exist; name a directory, a file or a block device", path.display()))
}
