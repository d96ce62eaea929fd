//! Opens an engine by its kind.

use qd1_model::plan::EngineKind;

use crate::engine::{Engine, Setup};
use crate::error::EngineError;

/// Opens an engine behind a pointer. Call it on the thread that will use the engine (io_uring binds its ring to it).
/// Workers open theirs by type instead, so that the hot loop has no indirect call.
///
/// # Errors
/// [`EngineError::Unavailable`] when the kernel or a sandbox does not offer it.
pub fn open(kind: EngineKind, setup: Setup) -> Result<Box<dyn Engine>, EngineError> {
    Ok(match kind {
        EngineKind::Psync if setup.tuning.write_dsync => Box::new(crate::sync::DurablePsync::new(setup)),
        EngineKind::Psync => Box::new(crate::sync::Psync::new(setup)),
        EngineKind::Sync => Box::new(crate::sync::Sync::new(setup)),
        EngineKind::Vsync => Box::new(crate::sync::Vsync::new(setup)),
        EngineKind::Pvsync => Box::new(crate::sync::Pvsync::new(setup)),
        EngineKind::Pvsync2 => Box::new(crate::sync::Pvsync2::new(setup)),
        EngineKind::Mmap => Box::new(crate::mmap::Mmap::new(setup)),
        EngineKind::Libaio => Box::new(crate::libaio::Libaio::new(setup)?),
        EngineKind::IoUring => Box::new(crate::io_uring::Uring::new(setup)?),
        EngineKind::Null => Box::new(crate::null::Null::default()),
        EngineKind::Sim => Box::new(crate::sim::Sim::new(setup)?),
    })
}
