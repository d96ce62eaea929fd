//! The load that runs during commits (`with_load`, `--with-load`): an idle disk's fsync is misleading.
//!
//! It represents what a server does besides its database: a log, a backup or an image is written through the page
//! cache, and requests read at random. The rates are moderate and do not try to saturate the disk; a slow disk gets
//! less (see `prepare.rs`).

use qd1_model::Bytes;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, Sync, TargetPlan,
};
use qd1_model::spec::Job;

/// Buffered writes, bytes per second: a backup that comes through a link of 250 Mbit/s.
const WRITE_RATE: u64 = 32 << 20;
const WRITE_BLOCK: u32 = 256 << 10;
/// Size of the file, which is overwritten from its start again: dirty data stays below it.
const WRITE_SIZE: Bytes = Bytes::mib(256);
/// Random reads per second: fewer than any SSD gives, more than a hard disk does.
const READ_IOPS: f64 = 500.0;

const SUFFIX: &str = "-load";

/// Returns the name of the job whose copy has this name; `None` if it is not a copy.
pub(super) fn original(name: &str) -> Option<&str> {
    name.strip_suffix(SUFFIX)
}

/// Returns a copy of the job that runs under load.
pub(super) fn copy(job: &Job) -> Job {
    let title = job.title.clone().unwrap_or_else(|| super::title_of(job));
    Job {
        name: format!("{}{SUFFIX}", job.name),
        title: Some(format!("{title}, while others write and read")),
        with_load: Some(true),
        // It leaves dirty pages behind, which would disturb the visits of others.
        visits: None,
        ..job.clone()
    }
}

/// Returns the load that runs during a step.
pub(super) fn background(target: &TargetPlan) -> Vec<IoWork> {
    let writes = IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Psync),
        rw: Rw::Write,
        rwmixread: 0,
        order: Order::Sequential,
        blocks: vec![BlockShare { bytes: WRITE_BLOCK, weight: 1 }],
        iodepth: 1,
        numjobs: 1,
        direct: false,
        sync: Sync::None,
        file: FileUse::Empty,
        size: WRITE_SIZE,
        io_size: Bytes(0),
        arrival: Arrival::Fixed { iops: WRITE_RATE as f64 / f64::from(WRITE_BLOCK) },
        data: Data::default(),
        writes_per_sync: 1,
    };
    let reads = IoWork {
        rw: Rw::Randread,
        rwmixread: 100,
        order: Order::Random,
        blocks: vec![BlockShare { bytes: 4096, weight: 1 }],
        // Bypassing the page cache, or they would soon be no load on the disk.
        direct: target.direct,
        file: FileUse::Shared,
        size: target.size,
        arrival: Arrival::Poisson { iops: READ_IOPS },
        ..writes.clone()
    };
    vec![writes, reads]
}

/// Returns the most bytes that a background job may write in a step's time.
pub(super) fn writes_max(io: &IoWork, longest_ns: u64) -> u64 {
    match io.arrival {
        Arrival::Fixed { iops } | Arrival::Poisson { iops } | Arrival::Paced { iops, .. } if io.rw.writes() => {
            let seconds = longest_ns as f64 / 1e9;
            (iops * f64::from(io.block_max()) * seconds) as u64
        }
        _ => 0,
    }
}
