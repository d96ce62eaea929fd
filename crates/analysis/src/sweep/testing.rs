//! Cells and records of sweeps made by hand.

use qd1_model::plan::sweep::SweepPlan;
use qd1_model::plan::{IoWork, Rw, Sync};
use qd1_model::record::StepRecord;
use qd1_model::sweep::Cell;
use qd1_model::{Estimate, Record};

use crate::testing;

/// An estimate known within 5 %.
fn about(value: f64) -> Estimate {
    Estimate { low: Some(value * 0.95), high: Some(value * 1.05), ..Estimate::exact(value, 10_000) }
}

/// A healthy cell of random reads.
pub(crate) fn cell(block: u32, iodepth: u32, iops: f64, p99_ns: f64) -> Cell {
    Cell {
        rw: Rw::Randread,
        block,
        iodepth,
        steps: vec![format!("randread-{block}-d{iodepth}-p1")],
        iops: about(iops),
        bytes_per_second: about(iops * f64::from(block)),
        lat_mean_ns: about(p99_ns / 2.0),
        lat_p50_ns: about(p99_ns / 2.0),
        lat_p99_ns: about(p99_ns),
        lat_p999_ns: about(p99_ns * 2.0),
        pass_iops: vec![iops],
        in_flight: f64::from(iodepth),
        in_flight_tolerance: 0.05,
        in_flight_device: None,
        flags: vec![],
    }
}

/// One pass of 4 KiB reads over `depths`, whose queue is full for this share of the time.
pub(crate) fn record(depths: &[u32], full: f64) -> Record {
    let mut record = testing::empty();
    record.plan.sweep = Some(SweepPlan { passes: 1, max_p99_ns: None });
    for depth in depths {
        let io = IoWork { iodepth: *depth, ..testing::io(Rw::Randread, 4096, Sync::None, true) };
        let name = format!("randread-4k-d{depth}-p1");
        // 100 ms intervals of latencies around 110 us: this many of them fill the queue.
        let per_interval = (f64::from(*depth) * full * 100e6 / 109_900.0) as u64;
        testing::step(&mut record, &name, io, per_interval, 100_000);
    }
    record
}

/// Makes the kernel report this many requests at the device on average.
pub(crate) fn at_device(step: &mut StepRecord, depth: f64) {
    let asked: u64 = step.streams.iter().map(|stream| stream.lat.count()).sum();
    let delta = step.device.get_or_insert_default();
    delta.asked_reads = asked;
    delta.counted.reads = asked;
    delta.counted.read_ticks_ms = (step.runtime_ns as f64 / 1e6 * depth) as u64;
}
