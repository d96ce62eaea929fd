//! The simulated device compared with its own truth, and the worker with the simulated device: all in virtual time.

use std::sync::atomic::AtomicBool;

use qd1_engine::run::{Decision, IoJob, Outcome, run_io, run_on};
use qd1_engine::sim::{Bucket, Cache, Device, Disk, Mode, Service, Stall};
use qd1_model::environment::ThreadCost;
use qd1_model::op::{Ended, OpClass};
use qd1_model::plan::*;
use qd1_model::units::Bytes;

fn work(rw: Rw, bs: u32, iodepth: u32) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw,
        rwmixread: if rw.writes() { 0 } else { 100 },
        order: Order::Random,
        blocks: vec![BlockShare { bytes: bs, weight: 1 }],
        iodepth,
        numjobs: 1,
        direct: true,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes::gib(1),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync: 1,
    }
}

fn stop(seconds: u64) -> Stop {
    Stop { min_ns: 0, max_ns: seconds * 1_000_000_000, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 }
}

fn run(work: &IoWork, device: Device, seconds: u64) -> Outcome {
    run_until(work, device, &stop(seconds))
}

fn run_until(work: &IoWork, device: Device, stop: &Stop) -> Outcome {
    let job = IoJob { sim: Some(device), ..job(work, stop) };
    run_io(&job, &AtomicBool::new(false), &mut |_| Decision::Continue).unwrap()
}

fn job<'a>(work: &'a IoWork, stop: &'a Stop) -> IoJob<'a> {
    IoJob {
        work,
        stop,
        interval_ns: stop.interval_ns(),
        kind: EngineKind::Sim,
        files: &[],
        offset: 0,
        seed: 7,
        sim: None,
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    }
}

fn near(value: f64, truth: f64, tolerance: f64) {
    assert!((value / truth - 1.0).abs() <= tolerance, "{value} is not within {tolerance} of {truth}");
}

fn constant(ns: f64) -> Service {
    Service::log_normal(ns, 0.0)
}

#[test]
fn percentiles_are_those_of_the_latency_law() {
    let outcome = run(&work(Rw::Randread, 4096, 1), Device::default(), 60);
    let stream = &outcome.streams[0];
    // Log-normal: median 80 us, p99 = median * exp(2.3263 * 0.2), p99.9 = median * exp(3.0902 * 0.2).
    near(stream.lat.quantile(0.5) as f64, 80e3, 0.005);
    near(stream.lat.quantile(0.99) as f64, 80e3 * (2.3263f64 * 0.2).exp(), 0.01);
    near(stream.lat.quantile(0.999) as f64, 80e3 * (3.0902f64 * 0.2).exp(), 0.02);
}

#[test]
fn a_ten_minute_throttled_run_shows_its_burst_and_its_limit() {
    let device =
        Device { iops: Some(Bucket { rate: 500.0, burst: 30_000.0 }), read: constant(100e3), ..Device::default() };
    let outcome = run(&work(Rw::Randread, 4096, 4), device, 600);
    let count = |from: usize, to: usize| -> u64 {
        outcome.intervals[from..to].iter().flat_map(|interval| &interval.streams).map(|stream| stream.ios).sum()
    };
    // The requests in flight at the end may complete in one more.
    assert!((6000..=6001).contains(&outcome.intervals.len()));
    // 4 in flight at 100 us is 40,000 a second; the burst of 30,000 lasts 30,000 / (40,000 - 500) s.
    near(count(0, 5) as f64, 20_000.0, 0.01);
    near(count(1000, 6000) as f64, 500.0 * 500.0, 0.005);
    near(outcome.streams[0].lat.count() as f64, 30_000.0 + 500.0 * 600.0, 0.005);
}

#[test]
fn bytes_are_limited_apart_from_requests() {
    let device = Device { bytes: Some(Bucket { rate: 100e6, burst: 1e6 }), ..Device::default() };
    let outcome = run(&work(Rw::Randwrite, 65536, 8), device, 20);
    near(outcome.streams[0].bytes.0 as f64 / 20.0, 100e6, 0.005);
}

#[test]
fn closed_loop_rate_follows_littles_law_up_to_the_channels() {
    for (depth, in_service) in [(1, 1.0), (8, 8.0), (64, 16.0)] {
        let device = Device { read: constant(100e3), ..Device::default() };
        let outcome = run(&work(Rw::Randread, 4096, depth), device, 5);
        near(outcome.streams[0].lat.count() as f64 / 5.0, in_service / 100e-6, 0.005);
    }
}

#[test]
fn fsync_time_is_inside_the_commit_histogram() {
    let device = Device { write: constant(50e3), flush: constant(2e6), ..Device::default() };
    let mut work = work(Rw::Randwrite, 4096, 1);
    work.sync = Sync::Fdatasync;
    let outcome = run(&work, device, 10);
    let commit = &outcome.streams[0];
    assert_eq!(commit.class, OpClass::Commit);
    near(commit.lat.quantile(0.5) as f64, 2.05e6, 0.002);
    near(commit.sync_part.as_ref().unwrap().quantile(0.5) as f64, 2e6, 0.002);
    near(commit.write_part.as_ref().unwrap().quantile(0.5) as f64, 50e3, 0.002);
    assert_eq!(outcome.requests.syncs, commit.lat.count());
}

#[test]
fn two_writes_and_their_sync_are_one_commit() {
    let device = Device { write: constant(50e3), flush: constant(2e6), ..Device::default() };
    let with = |sync| IoWork { sync, writes_per_sync: 2, ..work(Rw::Write, 8192, 1) };
    let outcome = run(&with(Sync::Fdatasync), device.clone(), 10);
    let commit = &outcome.streams[0];
    near(commit.lat.quantile(0.5) as f64, 2.1e6, 0.002);
    near(commit.sync_part.as_ref().unwrap().quantile(0.5) as f64, 2e6, 0.002);
    near(commit.write_part.as_ref().unwrap().quantile(0.5) as f64, 100e3, 0.01);
    let commits = commit.lat.count();
    assert_eq!(
        (commit.bytes.0, outcome.requests.syncs, outcome.requests.writes),
        (commits * 16_384, commits, commits * 2)
    );
    // Written through, each write has a flush of its own, and the commit is both.
    let outcome = run(&with(Sync::ODsync), device, 10);
    let commit = &outcome.streams[0];
    near(commit.lat.quantile(0.5) as f64, 4.1e6, 0.002);
    assert!(commit.sync_part.is_none() && outcome.requests.syncs == 2 * commit.lat.count());
}

#[test]
fn a_commit_that_the_budget_cuts_in_two_is_none() {
    let work = IoWork { sync: Sync::Fsync, writes_per_sync: 2, io_size: Bytes(5 * 4096), ..work(Rw::Write, 4096, 1) };
    let outcome = run(&work, Device::default(), 10);
    assert_eq!((outcome.streams[0].lat.count(), outcome.requests.syncs, outcome.ended), (2, 2, Ended::Done));
}

#[test]
fn writing_through_costs_a_flush_and_sync_file_range_none() {
    let device = Device { write: constant(50e3), flush: constant(2e6), ..Device::default() };
    for sync in [Sync::OSync, Sync::ODsync, Sync::RwfDsync] {
        let outcome = run(&IoWork { sync, ..work(Rw::Write, 8192, 1) }, device.clone(), 5);
        near(outcome.streams[0].lat.quantile(0.5) as f64, 2.05e6, 0.002);
        assert_eq!(outcome.requests.syncs, outcome.streams[0].lat.count());
    }
    let outcome = run(&IoWork { sync: Sync::SyncFileRange, ..work(Rw::Write, 8192, 1) }, device, 5);
    assert_eq!(outcome.streams[0].class, OpClass::Commit);
    near(outcome.streams[0].lat.quantile(0.5) as f64, 51.5e3, 0.01);
    assert_eq!(outcome.requests.syncs, 0, "the device saw no flush");
}

#[test]
fn four_committers_share_the_device() {
    let device = Device { write: constant(50e3), flush: constant(2e6), channels: 1, ..Device::default() };
    let mut work = work(Rw::Randwrite, 4096, 1);
    (work.sync, work.numjobs) = (Sync::Fdatasync, 4);
    let outcome = run(&work, device, 10);
    // One channel serves all: each commit waits for the three others.
    near(outcome.streams[0].lat.quantile(0.5) as f64, 4.0 * 2.05e6, 0.02);
}

#[test]
fn a_stall_is_not_hidden_from_an_open_loop() {
    // 1 s of stall each 10 s; 1,000 requests a second are due all the time.
    let device = Device {
        read: constant(100e3),
        stall: Some(Stall { period_ns: 10_000_000_000, length_ns: 1_000_000_000 }),
        ..Device::default()
    };
    let mut open = work(Rw::Randread, 4096, 1);
    open.arrival = Arrival::Fixed { iops: 1000.0 };
    let closed = run(&work(Rw::Randread, 4096, 1), device.clone(), 95);
    let open = run(&open, device, 95);
    // A closed loop sees one slow request per stall; a fixed rate sees the queue that built up:
    // 9 stalls x about 1,111 late requests (the backlog drains at 9,000 a second) of 95,000.
    assert!(closed.streams[0].lat.quantile(0.9999) < 200_000);
    let late = open.streams[0].lat.count_above(10_000_000) as f64;
    near(late, 9.0 * 1100.0, 0.02);
    near(open.streams[0].lat.count() as f64, 95_000.0, 0.001);
    // The device's own time is kept as well: one slow request per stall here too.
    let served = open.streams[0].clat.as_ref().unwrap();
    assert_eq!(served.count(), open.streams[0].lat.count());
    assert!(served.count_above(10_000_000) <= 10 && served.quantile(0.999) < 200_000);
}

/// A step that ended at its deadline saw only the beginnings of stalls: 7 % of the requests instead of 17.
#[test]
fn an_open_loop_sees_a_stall_to_its_end() {
    let stall = Some(Stall { period_ns: 4_800_000_000, length_ns: 800_000_000 });
    let mut open = work(Rw::Randread, 4096, 32);
    open.arrival = Arrival::Fixed { iops: 100.0 };
    let (mut late, mut all) = (0, 0);
    // Visits one after another, each from the end of the one before.
    let mut disk = Disk::new(Device { read: constant(100e3), stall, ..Device::default() });
    for _ in 0..300 {
        let (after, outcome) = run_on(disk, &job(&open, &Stop { max_ns: 600_000_000, ..stop(0) })).unwrap();
        disk = after;
        late += outcome.streams[0].lat.count_above(1_000_000);
        all += outcome.streams[0].lat.count();
        let runtime_ns = outcome.runtime_ns;
        assert!((590_000_000..1_410_000_000).contains(&runtime_ns), "{runtime_ns}");
    }
    near(late as f64 / all as f64, 0.8 / 4.8, 0.1);
}

/// A disk that never catches up with what is due does not keep a step running forever.
#[test]
fn an_open_loop_ends_though_its_disk_is_too_slow() {
    let device = Device { read: constant(50e6), channels: 1, ..Device::default() };
    let mut open = work(Rw::Randread, 4096, 8);
    open.arrival = Arrival::Fixed { iops: 100.0 };
    let (_, outcome) = run_on(Disk::new(device), &job(&open, &stop(5))).unwrap();
    // A second of overtime, and what is in flight then.
    assert!((6_000_000_000..6_500_000_000).contains(&outcome.runtime_ns), "{}", outcome.runtime_ns);
    let ios = outcome.streams[0].lat.count();
    assert!((120..=130).contains(&ios), "{ios}");
}

#[test]
fn a_hang_through_the_whole_window_is_what_it_saw() {
    // Requests of the ramp are not measured, unless a disk that hangs leaves nothing else to see.
    let hang = |length_ns| Device {
        read: constant(100e3),
        stall: Some(Stall { period_ns: 2_000_000_000, length_ns }),
        ..Device::default()
    };
    for (depth, arrival) in [(1, Arrival::Closed), (4, Arrival::Closed), (4, Arrival::Fixed { iops: 1_000.0 })] {
        let work = IoWork { arrival, ..work(Rw::Randread, 4096, depth) };
        let stop = Stop { ramp_ns: 2_100_000_000, ..stop(1) };
        let through = run_until(&work, hang(1_500_000_000), &stop);
        let seen = &through.streams[0].lat;
        // A closed loop asks nothing meanwhile; of an open one all that was due, in the ramp and after the window too,
        // is issued in the end.
        let due = if arrival.is_open() { 1_480..1_560 } else { u64::from(depth)..u64::from(depth) + 1 };
        assert!(due.contains(&seen.count()) && through.ended == Ended::Time, "{arrival:?}: {}", seen.count());
        near(seen.max_ns() as f64, 1.5e9, 0.01);
        near(through.runtime_ns as f64, 1.4e9, 0.03);
        // One that ends in the window belongs only to the ramp in a closed loop; requests that were due meanwhile have
        // waited.
        let partly = run_until(&work, hang(900_000_000), &stop);
        let waited = partly.streams[0].lat.count_above(10_000_000);
        assert_eq!(waited > 0, arrival != Arrival::Closed, "{arrival:?}: {waited}");
        assert!(partly.streams[0].lat.count() > 250);
    }
}

/// Each visit of a step begins like this: on a disk that takes 50 ms per request it made up 1 % of the time and more.
#[test]
fn the_wait_for_the_ramps_last_request_is_not_measured() {
    let device = Device { read: constant(50e6), ..Device::default() };
    let outcome = run_until(&work(Rw::Randread, 4096, 1), device, &Stop { ramp_ns: 30_000_000, ..stop(1) });
    near(outcome.runtime_ns as f64, outcome.streams[0].lat.count() as f64 * 50e6, 1e-6);
    assert_eq!(outcome.intervals.iter().map(|interval| interval.length_ns).sum::<u64>(), outcome.runtime_ns);
    assert!(outcome.streams[0].slowest.iter().any(|slow| slow.at_ns == 0), "{:?}", outcome.streams[0].slowest);
}

#[test]
fn a_cache_acknowledges_until_full_and_a_flush_waits_for_it() {
    let cache = Cache { capacity: 64e6, drain: 100e6, ack_ns: 20e3, honours_flush: true };
    let device = Device { cache: Some(cache), write: constant(10e6), flush: constant(1e6), ..Device::default() };
    let mut bound = work(Rw::Write, 1 << 20, 1);
    bound.io_size = Bytes(32 << 20);
    let fast = run(&bound, device.clone(), 10);
    near(fast.streams[0].lat.quantile(0.99) as f64, 20e3, 0.01);
    assert_eq!(fast.ended, Ended::Done);
    let mut commits = work(Rw::Randwrite, 1 << 20, 1);
    commits.sync = Sync::Fdatasync;
    let flushed = run(&commits, device.clone(), 10);
    // One MiB drains in 10.5 ms at 100 MB/s, then the flush itself takes 1 ms.
    near(flushed.streams[0].lat.quantile(0.5) as f64, 11.5e6, 0.02);
    let lying = Device { cache: Some(Cache { honours_flush: false, ..cache }), ..device };
    let ignored = run(&commits, lying, 1);
    assert!(ignored.streams[0].sync_part.as_ref().unwrap().quantile(0.5) <= 21_000);
}

#[test]
fn two_modes_show_as_two_modes() {
    let modes =
        vec![Mode { weight: 0.9, median_ns: 100e3, sigma: 0.05 }, Mode { weight: 0.1, median_ns: 10e6, sigma: 0.05 }];
    let device = Device { read: Service { modes, ..Service::default() }, ..Device::default() };
    let outcome = run(&work(Rw::Randread, 4096, 1), device, 100);
    let lat = &outcome.streams[0].lat;
    near(lat.count_above(1_000_000) as f64 / lat.count() as f64, 0.1, 0.03);
}

#[test]
fn a_law_through_percentiles_has_them_and_what_lies_between() {
    let service = Service::through(vec![(0.0, 1e5), (0.5, 4e5), (0.99, 2e6), (0.999, 2e7), (0.9999, 3e8)]);
    let device = Device { read: service.clone(), ..Device::default() };
    let outcome = run(&work(Rw::Randread, 4096, 1), device, 600);
    let lat = &outcome.streams[0].lat;
    for (p, ns) in [(0.5, 4e5), (0.99, 2e6), (0.999, 2e7)] {
        near(service.quantile_ns(p), ns, 1e-9);
        near(lat.quantile(p) as f64, ns, 0.1);
    }
    // Halfway in the logarithm of the share above, which is p99.684, is halfway in the logarithm of the time.
    near(service.quantile_ns(1.0 - 10f64.powf(-2.5)), (2e6_f64 * 2e7).sqrt(), 1e-9);
    near(service.quantile_ns(0.0), 1e5, 1e-9);
    near(service.quantile_ns(1.0), 3e8, 1e-9);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let once = run(&work(Rw::Randread, 4096, 8), Device::default(), 2);
    let again = run(&work(Rw::Randread, 4096, 8), Device::default(), 2);
    assert_eq!(once.streams, again.streams);
    assert_eq!(once.intervals, again.intervals);
}

#[test]
fn intervals_add_up_to_the_whole_and_have_no_gaps() {
    let device =
        Device { stall: Some(Stall { period_ns: 1_000_000_000, length_ns: 500_000_000 }), ..Device::default() };
    let outcome = run(&work(Rw::Randread, 4096, 2), device, 5);
    let total: u64 = outcome.intervals.iter().flat_map(|i| &i.streams).map(|s| s.ios).sum();
    assert_eq!(total, outcome.streams[0].lat.count());
    for pair in outcome.intervals.windows(2) {
        assert_eq!(pair[0].start_ns + pair[0].length_ns, pair[1].start_ns);
    }
    assert!(outcome.intervals.iter().any(|interval| interval.streams.is_empty()), "a stall is an empty interval");
    let end = outcome.intervals.last().unwrap();
    assert_eq!(end.start_ns + end.length_ns, outcome.runtime_ns);
}

#[test]
fn two_exponential_phases_have_their_mean_and_spread() {
    // H2: 0.9 of requests with a mean of 0.5 ms, 0.1 with 8 ms. Mean 1.25 ms; P(X > x) = sum of weight * exp(-x/mean).
    let modes = vec![Mode::exponential(0.9, 0.5e6), Mode::exponential(0.1, 8e6)];
    let device = Device { read: Service { modes, ..Service::default() }, ..Device::default() };
    let outcome = run(&work(Rw::Randread, 4096, 1), device, 3600);
    let lat = &outcome.streams[0].lat;
    near(lat.mean_ns(), 1.25e6, 0.01);
    near(lat.quantile(0.99) as f64, 8e6 * 10f64.ln(), 0.01);
}
