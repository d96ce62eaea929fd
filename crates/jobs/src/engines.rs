//! fio's engine names, as engines of `qd1-engine`.

use qd1_engine::{SYNC_FILE_RANGE_WAIT_AFTER, SYNC_FILE_RANGE_WAIT_BEFORE, SYNC_FILE_RANGE_WRITE, Tuning};
use qd1_fio::FioJob;
use qd1_fio::engines::EngineName;
use qd1_model::plan::EngineKind;

/// The engine that performs a job's requests.
pub(crate) fn kind(name: EngineName) -> EngineKind {
    match name {
        EngineName::Psync => EngineKind::Psync,
        EngineName::Sync => EngineKind::Sync,
        EngineName::Vsync => EngineKind::Vsync,
        EngineName::Pvsync => EngineKind::Pvsync,
        EngineName::Pvsync2 => EngineKind::Pvsync2,
        EngineName::Libaio => EngineKind::Libaio,
        EngineName::IoUring => EngineKind::IoUring,
        EngineName::Mmap => EngineKind::Mmap,
        // Those that work on names have a loop of their own.
        EngineName::Null | EngineName::Filecreate | EngineName::Filestat | EngineName::Filedelete => EngineKind::Null,
    }
}

/// How the engine issues a job's requests.
pub(crate) fn tuning(job: &FioJob) -> Tuning {
    let range = job.sync_file_range;
    let flag = |set: bool, flag: u32| if set { flag } else { 0 };
    Tuning {
        fixedbufs: job.fixedbufs,
        registerfiles: job.registerfiles,
        sqthread_poll: job.sqthread_poll,
        hipri: job.hipri,
        nonvectored: job.nonvectored.unwrap_or(true),
        sync_file_range: flag(range.wait_before, SYNC_FILE_RANGE_WAIT_BEFORE)
            | flag(range.write, SYNC_FILE_RANGE_WRITE)
            | flag(range.wait_after, SYNC_FILE_RANGE_WAIT_AFTER),
        write_dsync: false,
    }
}
