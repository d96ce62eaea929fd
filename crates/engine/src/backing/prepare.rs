//! Writes the whole test file before anything reads it, with data that neither compresses nor deduplicates: reads
//! of unwritten or zero extents never reach the disk. The cost of these first writes is recorded, since it is a figure.

use std::sync::atomic::AtomicBool;

use qd1_model::environment::ThreadCost;
use qd1_model::hist::Hist;
use qd1_model::op::OpClass;
use qd1_model::plan::{Arrival, BlockShare, Data, EngineChoice, FileUse, IoWork, Order, Rw, Stop, Sync};
use qd1_model::record::{IoErrors, Prepare};
use qd1_model::units::Bytes;

use super::{OpenAs, Target};
use crate::error::EngineError;
use crate::run::{Decision, IoJob, Progress, run_io};
use crate::select;
use qd1_clock as clock;

const BLOCK: u32 = 1 << 20;
const DEPTH: u32 = 4;

/// The file, written.
#[derive(Debug)]
pub struct Filled {
    /// What it took.
    pub prepare: Prepare,
    /// Requests that failed; the file then ends at what was written before.
    pub errors: Vec<IoErrors>,
}

/// Writes the first `size` bytes of `target` within about `max_ns`; on a disk too slow for it the file is cut
/// to what was written (whole MiB, at least 16).
///
/// # Errors
/// When the space cannot be allocated or an engine breaks.
pub fn fill(
    target: &Target,
    size: u64,
    max_ns: u64,
    direct: bool,
    seed: u64,
    cancel: &AtomicBool,
    watch: &mut dyn FnMut(&Progress<'_>) -> Decision,
) -> Result<Filled, EngineError> {
    let begin_ns = clock::now_ns();
    if target.made {
        target.allocate(size)?;
    }
    let fd = target.open(OpenAs { write: true, direct, sync: Sync::None })?;
    let block = (BLOCK as u64).min(size) as u32;
    let work = IoWork {
        ioengine: EngineChoice::Auto,
        rw: Rw::Write,
        rwmixread: 0,
        order: Order::Sequential,
        blocks: vec![BlockShare { bytes: block, weight: 1 }],
        iodepth: if direct { DEPTH } else { 1 },
        numjobs: 1,
        direct,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes(size),
        io_size: Bytes(size),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    };
    let mut chosen = select::choose(&work, Some(&fd))?;
    let mut work = work;
    if chosen.spread {
        // Order matters here, speed does not: one thread writes from start to end.
        work.iodepth = 1;
        chosen.spread = false;
    }
    let stop = Stop { min_ns: 0, max_ns, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
    let files = [fd];
    let job = IoJob {
        work: &work,
        stop: &stop,
        interval_ns: stop.interval_ns(),
        kind: chosen.kind,
        files: &files,
        offset: 0,
        seed,
        sim: None,
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    let outcome = run_io(&job, cancel, watch)?;
    let fsync_begin_ns = clock::now_ns();
    rustix::fs::fsync(&files[0]).map_err(|errno| EngineError::path("fsync", target.path(), errno))?;
    let end_ns = clock::now_ns();
    let written = outcome.requests.write_bytes.min(size);
    if written < size && target.made {
        target.set_len(written)?;
    }
    let lat = outcome
        .streams
        .into_iter()
        .find(|stream| stream.class == OpClass::Write)
        .map_or_else(Hist::new, |stream| stream.lat);
    let prepare = Prepare {
        bytes: Bytes(written),
        elapsed_ns: end_ns - begin_ns,
        fsync_ns: end_ns - fsync_begin_ns,
        lat,
        shortened: written < size,
        planned: Bytes(size),
        extents: if target.made { target.extents(written) } else { None },
    };
    Ok(Filled { prepare, errors: outcome.errors })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filled_file_is_all_written_with_no_two_equal_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "fill").unwrap();
        let direct = super::super::direct_io(&target).unwrap().supported;
        let cancel = AtomicBool::new(false);
        let filled = fill(&target, 8 << 20, 60_000_000_000, direct, 3, &cancel, &mut |_| Decision::Continue).unwrap();
        assert_eq!(filled.prepare.bytes, Bytes(8 << 20));
        assert!(!filled.prepare.shortened);
        if let Some(extents) = filled.prepare.extents {
            assert_eq!(extents.unwritten.0 + extents.hole.0, 0, "{extents:?}");
        }
        let fd = target.open(OpenAs::default()).unwrap();
        let mut bytes = vec![0; 8 << 20];
        let mut at = 0;
        while at < bytes.len() {
            at += rustix::io::pread(&fd, &mut bytes[at..], at as u64).unwrap();
        }
        let blocks: std::collections::HashSet<&[u8]> = bytes.chunks(4096).collect();
        assert_eq!(blocks.len(), 2048);
    }

    #[test]
    fn a_file_smaller_than_what_is_in_flight_is_written_too() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "fill").unwrap();
        let direct = super::super::direct_io(&target).unwrap().supported;
        let cancel = AtomicBool::new(false);
        for size in [2 << 20, 4096] {
            let filled = fill(&target, size, 60_000_000_000, direct, 3, &cancel, &mut |_| Decision::Continue).unwrap();
            assert_eq!(filled.prepare.bytes, Bytes(size));
        }
    }

    #[test]
    fn a_cancelled_fill_leaves_a_shorter_file() {
        let dir = tempfile::tempdir().unwrap();
        let target = Target::create_in(dir.path(), "fill").unwrap();
        let cancel = AtomicBool::new(true);
        let filled = fill(&target, 1 << 30, 60_000_000_000, false, 3, &cancel, &mut |_| Decision::Continue).unwrap();
        assert!(filled.prepare.shortened);
        assert!(filled.prepare.bytes.0 < 1 << 30);
    }
}
