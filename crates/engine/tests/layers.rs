//! The layers in front of a simulated device, measured by the real worker: each changes the latencies that it should.

use qd1_engine::run::{IoJob, Outcome, run_on};
use qd1_engine::sim::{Device, Disk, FirstTouch, HostCache, Layers, Reduction, Service, Unwritten};
use qd1_model::environment::ThreadCost;
use qd1_model::plan::*;
use qd1_model::units::Bytes;

fn work(rw: Rw, bs: u32, size: u64) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw,
        rwmixread: if rw.writes() { 0 } else { 100 },
        order: Order::RandomFull,
        blocks: vec![BlockShare { bytes: bs, weight: 1 }],
        iodepth: 1,
        numjobs: 1,
        direct: true,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes(size),
        io_size: Bytes(size),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}

/// One step on a disk that keeps its state; the median, ns.
fn step(disk: Disk, work: &IoWork, offset: u64) -> (Disk, f64) {
    let stop = Stop { min_ns: 0, max_ns: 3_600_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
    let job = IoJob {
        work,
        stop: &stop,
        interval_ns: stop.interval_ns(),
        kind: EngineKind::Sim,
        files: &[],
        offset,
        seed: 7,
        sim: None,
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    let (disk, outcome): (Disk, Outcome) = run_on(disk, &job).unwrap();
    (disk, outcome.streams[0].lat.quantile(0.5) as f64)
}

fn disk(layers: Layers) -> Disk {
    let (read, write) =
        (Service::log_normal(100e3, 0.0), Service { per_byte_ns: 1.0, ..Service::log_normal(50e3, 0.0) });
    Disk::new(Device { read, write, layers, ..Device::default() })
}

#[track_caller]
fn near(value: f64, truth: f64) {
    assert!((value / truth - 1.0).abs() < 0.01, "{value} is not {truth}");
}

#[test]
fn what_was_read_in_one_step_is_in_the_hosts_cache_in_the_next() {
    let hit = Service::log_normal(10e3, 0.0);
    let host = HostCache { capacity: 1 << 20, line: 4096, hit, fill_on_write: false };
    let disk = disk(Layers { host: Some(host), ..Layers::default() });
    let (disk, first) = step(disk, &work(Rw::Randread, 4096, 1 << 20), 0);
    let (disk, again) = step(disk, &work(Rw::Randread, 4096, 1 << 20), 0);
    near(first, 100e3);
    near(again, 10e3);
    // Ten times as much as it holds: evicted before it is read again.
    let (disk, _) = step(disk, &work(Rw::Randread, 4096, 10 << 20), 0);
    near(step(disk, &work(Rw::Randread, 4096, 1 << 20), 0).1, 100e3);
}

#[test]
fn reads_of_what_was_never_written_take_their_own_time() {
    let disk = disk(Layers { unwritten: Some(Unwritten { read: Service::log_normal(3e3, 0.0) }), ..Layers::default() });
    let (disk, _) = step(disk, &work(Rw::Write, 1 << 16, 1 << 20), 0);
    let (disk, written) = step(disk, &work(Rw::Randread, 4096, 1 << 20), 0);
    near(written, 100e3);
    near(step(disk, &work(Rw::Randread, 4096, 1 << 20), 1 << 30).1, 3e3);
}

#[test]
fn the_first_write_of_each_chunk_pays_once() {
    let penalty = Service::log_normal(1e6, 0.0);
    let first_touch = FirstTouch { chunk: 4096, penalty, on_write: true, on_read: false };
    let disk = disk(Layers { first_touch: Some(first_touch), ..Layers::default() });
    let (disk, first) = step(disk, &work(Rw::Randwrite, 4096, 1 << 20), 0);
    let (_, again) = step(disk, &work(Rw::Randwrite, 4096, 1 << 20), 0);
    near(first - again, 1e6);
}

#[test]
fn a_write_takes_what_its_data_compresses_to() {
    let reduction = Reduction { compresses: true, deduplicates: true, share_min: 0.0, per_byte_ns: 0.0 };
    let made = || disk(Layers { reduction: Some(reduction.clone()), ..Layers::default() });
    let of = |data| step(made(), &IoWork { data, ..work(Rw::Randwrite, 1 << 20, 8 << 20) }, 0).1 - 50e3;
    near(of(Data::Random), 1_048_576.0);
    assert!(of(Data::Zeros) < 20e3 && of(Data::Repeated) < 20e3);
    let some = of(Data::Compressible { percent: 75 });
    assert!((200e3..500e3).contains(&some), "{some}");
}
