//! Which engine `auto` means here, and why.

use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;

use qd1_model::plan::{EngineChoice, EngineKind, IoWork, Sync};

use crate::buf::Buffers;
use crate::engine::{Setup, Tuning};
use crate::error::EngineError;
use crate::open;

/// The engine for one step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// The engine.
    pub kind: EngineKind,
    /// The reason, in a few words; starts with "fell back" when the best one is not available.
    pub why: String,
    /// psync cannot keep several requests in flight: run each slot as a worker of its own.
    pub spread: bool,
}

/// Chooses the engine for `work` on `file`.
///
/// Depth 1 uses psync: no queue, the smallest cost. Greater depths use io_uring, otherwise (direct I/O only) libaio,
/// otherwise psync on that many threads.
///
/// # Errors
/// When an engine was requested by name and is not available.
pub fn choose(work: &IoWork, file: Option<&OwnedFd>) -> Result<Chosen, EngineError> {
    if let EngineChoice::Kind(kind) = work.ioengine {
        if !matches!(kind, EngineKind::Sim | EngineKind::Null) {
            try_open(kind, file)?;
        }
        let spread = kind == EngineKind::Psync && work.iodepth > 1;
        return Ok(Chosen { kind, why: "requested".to_owned(), spread });
    }
    if work.sync == Sync::RwfDsync {
        let why = "RWF_DSYNC: pwritev2".to_owned();
        return Ok(Chosen { kind: EngineKind::Psync, why, spread: work.iodepth > 1 });
    }
    if work.iodepth <= 1 {
        return Ok(Chosen { kind: EngineKind::Psync, why: "depth 1: the smallest cost".to_owned(), spread: false });
    }
    let uring = match try_open(EngineKind::IoUring, file) {
        Ok(()) => {
            return Ok(Chosen { kind: EngineKind::IoUring, why: "depth above 1".to_owned(), spread: false });
        }
        Err(error) => error,
    };
    let because = match uring {
        EngineError::Unavailable { why, .. } => why,
        other => other.to_string(),
    };
    if work.direct && try_open(EngineKind::Libaio, file).is_ok() {
        return Ok(Chosen {
            kind: EngineKind::Libaio,
            why: format!("fell back from io_uring: {because}"),
            spread: false,
        });
    }
    let why = format!("fell back from io_uring to {} threads: {because}", work.iodepth);
    Ok(Chosen { kind: EngineKind::Psync, why, spread: true })
}

/// Finds out whether this machine offers an engine, by opening it once without a file.
///
/// # Errors
/// [`EngineError::Unavailable`] with the reason when it does not.
pub fn probe(kind: EngineKind) -> Result<(), EngineError> {
    try_open(kind, None)
}

/// Opens the engine once and closes it again.
fn try_open(kind: EngineKind, file: Option<&OwnedFd>) -> Result<(), EngineError> {
    let buffers = Arc::new(Buffers::new(1, 4096, 0)?);
    let files = file.iter().map(|file| file.as_raw_fd()).collect();
    open(kind, Setup { files, iodepth: 1, buffers, sim: None, tuning: Tuning::default() }).map(drop)
}
