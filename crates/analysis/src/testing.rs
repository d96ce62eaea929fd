//! Records built by hand for tests: a healthy disk by default, which each test spoils in one way.

use std::path::PathBuf;

use qd1_model::environment::{Device, DeviceCounters, Environment, Filesystem, FilesystemClass};
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, StepPlan, Stop, Sync, TargetKind,
    TargetPlan, Work,
};
use qd1_model::record::{DeviceDelta, Extents, Prepare, StepRecord};
use qd1_model::{Bytes, Finding, Plan, Record, Subject, Summary};
use qd1_stats::change::StepCourse;
pub(crate) use qd1_stats::samples::{INTERVALS, stream};

/// What a step does, for [`step`].
pub(crate) fn io(rw: Rw, block: u32, sync: Sync, direct: bool) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Auto,
        rw,
        rwmixread: if rw.writes() { 0 } else { 100 },
        order: if rw.is_random() { Order::Random } else { Order::Sequential },
        blocks: vec![BlockShare { bytes: block, weight: 1 }],
        iodepth: 1,
        numjobs: 1,
        direct,
        sync,
        file: FileUse::Shared,
        size: Bytes::gib(1),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}

/// Adds a step of `work` to `record`: `per_interval` operations of `lat_ns`, and a device that counted exactly those.
pub(crate) fn step<'a>(
    record: &'a mut Record,
    name: &str,
    work: IoWork,
    per_interval: u64,
    lat_ns: u64,
) -> &'a mut StepRecord {
    let block = work.block_max();
    let class = match (work.rw.writes(), work.sync.commits()) {
        (false, _) => OpClass::Read,
        (true, true) => OpClass::Commit,
        (true, false) => OpClass::Write,
    };
    let (stream, intervals) = stream(class, block, per_interval, lat_ns);
    let (ios, bytes) = (stream.lat.count(), stream.bytes);
    let mut device = DeviceDelta::default();
    if class == OpClass::Read {
        (device.asked_reads, device.asked_read_bytes) = (ios, bytes);
        device.counted = DeviceCounters { reads: ios, read_bytes: bytes.0, ..DeviceCounters::default() };
    } else {
        (device.asked_writes, device.asked_write_bytes) = (ios, bytes);
        device.asked_syncs = if class == OpClass::Commit { ios } else { 0 };
        let flushes = device.asked_syncs;
        device.counted = DeviceCounters { writes: ios, write_bytes: bytes.0, flushes, ..DeviceCounters::default() };
    }
    let direct = work.direct;
    record.plan.steps.push(StepPlan {
        name: name.to_owned(),
        title: name.to_owned(),
        work: Work::Io(work),
        background: Vec::new(),
        stop: Stop { min_ns: 0, max_ns: 2_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 },
        visits: 1,
        writes_max: Bytes(0),
    });
    record.steps.push(StepRecord {
        name: name.to_owned(),
        engine: Some(EngineKind::Psync),
        engine_why: "depth 1: the smallest cost".to_owned(),
        direct,
        runtime_ns: INTERVALS * 100_000_000,
        ended: Ended::Time,
        streams: vec![stream],
        intervals,
        device: Some(device),
        ..StepRecord::default()
    });
    record.steps.last_mut().expect("just pushed")
}

/// A record without steps: ext4 on a partition of a virtio disk with a write-back cache, 8 GiB of memory.
pub(crate) fn empty() -> Record {
    let device = |name: &str, kind: &str| Device {
        name: name.to_owned(),
        kind: kind.to_owned(),
        transport: "virtio".to_owned(),
        write_cache: "write back".to_owned(),
        ..Device::default()
    };
    let mut environment = Environment {
        kernel: "6.8.0-45-generic".to_owned(),
        memory: Bytes::gib(8),
        cpus: 2,
        filesystem: Filesystem {
            kind: "ext4".to_owned(),
            class: FilesystemClass::Disk,
            source: "/dev/vda1".to_owned(),
            mount_point: "/".to_owned(),
            options: vec!["rw".to_owned(), "relatime".to_owned()],
            ..Filesystem::default()
        },
        devices: vec![device("vda1", "partition"), device("vda", "disk")],
        ..Environment::default()
    };
    environment.dirty.ratio = 20;
    environment.dirty.background_ratio = 10;
    let target = TargetPlan {
        path: PathBuf::from("/var/tmp"),
        kind: TargetKind::Directory,
        filesystem: "ext4".to_owned(),
        size: Bytes::gib(1),
        direct: true,
        align: 512,
        prepare_max_ns: 0,
    };
    let extents = Extents { written: Bytes::gib(1), count: 8, ..Extents::default() };
    let plan = Plan::new("check", Subject::Check, target, 1);
    Record {
        prepare: Some(Prepare { bytes: Bytes::gib(1), extents: Some(extents), ..Prepare::default() }),
        ..Record::begin("0123456789ab".to_owned(), vec!["qd1".to_owned()], 0, plan, environment)
    }
}

/// A healthy record: direct reads at depth 1 and commits.
pub(crate) fn record() -> Record {
    let mut record = empty();
    step(&mut record, "reads", io(Rw::Randread, 4096, Sync::None, true), 800, 100_000);
    step(&mut record, "commits", io(Rw::Write, 4096, Sync::Fdatasync, false), 50, 1_500_000);
    record
}

/// The ids of `findings`.
pub(crate) fn ids(findings: &[Finding]) -> Vec<&str> {
    findings.iter().map(|finding| finding.id.name()).collect()
}

/// Runs one detector.
pub(crate) fn run(detect: fn(&Record, &Summary) -> Vec<Finding>, record: &Record) -> Vec<Finding> {
    detect(record, &crate::summarize(record))
}

/// The same for one that follows the course of steps.
pub(crate) fn run_along(detect: fn(&Record, &[StepCourse]) -> Vec<Finding>, record: &Record) -> Vec<Finding> {
    let courses: Vec<StepCourse> = record.steps.iter().map(|step| StepCourse::of(&step.intervals)).collect();
    detect(record, &courses)
}

/// Reads whose slowest percent took 5 ms; without the waits for a processor, the given time.
pub(crate) fn with_waits(lat_ns: u64) -> Record {
    let mut record = record();
    let step = &mut record.steps[0];
    let (mut slower, mut without) = (qd1_model::Hist::new(), qd1_model::Hist::new());
    for (number, interval) in step.intervals.iter_mut().enumerate() {
        let stream = &mut interval.streams[0];
        let slow = 4 * stream.ios / 100 * u64::from(number % 2 == 0);
        let usual = stream.lat_sum_ns / stream.ios;
        for at in 0..stream.ios {
            slower.record(if at < slow { 5_000_000 } else { usual });
            without.record(if at < slow { lat_ns } else { usual });
        }
        stream.bins[0].1 -= slow as u32;
        stream.bins.push((qd1_model::hist::coarse_index(5_000_000) as u16, slow as u32));
        stream.lat_sum_ns += slow * 5_000_000;
    }
    step.streams[0].lat = slower;
    step.streams[0].waits = Some(qd1_model::record::ProcessorWaits {
        lat: Some(without),
        sync: None,
        looked_at: vec![qd1_model::record::TimeSpent {
            from_ns: qd1_model::hist::coarse_low_ns(qd1_model::hist::coarse_index(5_000_000)),
            ios: 16,
            lat_ns: 16 * 5_000_000,
            worked_ns: 0,
            waited_ns: 16 * (5_000_000 - lat_ns),
        }],
    });
    record
}
