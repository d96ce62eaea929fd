//! Sweeps of simulated devices whose law is known: c servers with a mean service time s are saturated at depth c, a
//! limit of L requests per second at depth L s, and limits of I requests and B bytes per second meet at blocks of B /
//! I.
//!
//! The whole procedure runs, in virtual time: the suite in its shuffled order, each step on the simulated device, the
//! Record through the analysis. Seeds below 2000 are for experiments (a cell's time is cut from completion to
//! completion because of one of them); those here have not influenced anything.

use qd1_model::FindingId;
use std::sync::atomic::AtomicBool;

use qd1_engine::run::{Decision, IoJob, run_io};
use qd1_engine::sim::{Bucket, Device, Mode, Service, Stall};
use qd1_model::Record;
use qd1_model::environment::ThreadCost;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, StepPlan, Stop, Sync, Work,
};
use qd1_model::record::StepRecord;
use qd1_model::sweep::{BendState, CellFlag, Surface};

use qd1_model::spec::{Effort, Job};
use qd1_model::{Bytes, Environment, Subject};
use qd1_suites::sweep::{Axes, Grid, suite};

use crate::suite::record;

/// The duration of a step of `qd1 sweep` without flags.
const RUNTIME_NS: u64 = 500_000_000;
const DEPTHS: [u32; 7] = [1, 2, 4, 8, 16, 32, 64];

/// A device that may change while it is measured: at the share 0..1 of the sweep.
type At<'a> = &'a dyn Fn(f64) -> Device;

/// Runs a sweep on a device; `in_flight` is what the engine really keeps in flight of a depth.
fn sweep(grid: &Grid, seed: u64, span_ns: u64, device: At<'_>, in_flight: impl Fn(u32) -> u32) -> Surface {
    let suite = suite(grid, None, Effort::Default, seed);
    let mut record: Record = record("sweep", Subject::Sweep, Bytes::gib(1), Environment::default());
    (record.plan.sweep, record.plan.suite) = (suite.sweep, suite.name.clone());
    (record.plan.steps, record.steps) = (Vec::new(), Vec::new());
    let count = suite.job.len() as f64;
    for (index, job) in suite.job.iter().enumerate() {
        let work = work(job);
        let stop = Stop {
            min_ns: 0,
            max_ns: span_ns,
            ramp_ns: job.ramp_time.map_or(0, |ramp| ramp.0),
            quantile: 0.0,
            tolerance: 0.0,
        };
        let real = IoWork { iodepth: in_flight(work.iodepth), ..work.clone() };
        let sim = Device { seed: seed * 1000 + index as u64, ..device(index as f64 / count) };
        record.steps.push(step(&job.name, &real, &stop, sim));
        let (name, title) = (job.name.clone(), String::new());
        record.plan.steps.push(StepPlan {
            name,
            title,
            work: Work::Io(work),
            background: Vec::new(),
            stop,
            visits: 1,
            writes_max: Bytes(0),
        });
    }
    qd1_analysis::sweep::surface(&record).unwrap()
}

fn work(job: &Job) -> IoWork {
    let rw = job.rw.unwrap();
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw,
        rwmixread: if rw.writes() { 0 } else { 100 },
        order: Order::Random,
        blocks: vec![BlockShare { bytes: job.bs.unwrap().0 as u32, weight: 1 }],
        iodepth: job.iodepth.unwrap(),
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

fn step(name: &str, work: &IoWork, stop: &Stop, sim: Device) -> StepRecord {
    let job = IoJob {
        work,
        stop,
        interval_ns: stop.interval_ns(),
        kind: EngineKind::Sim,
        files: &[],
        offset: 0,
        seed: sim.seed,
        sim: Some(sim),
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    let outcome = run_io(&job, &AtomicBool::new(false), &mut |_| Decision::Continue).unwrap();
    StepRecord {
        name: name.to_owned(),
        engine: Some(EngineKind::Sim),
        runtime_ns: outcome.runtime_ns,
        ended: outcome.ended,
        streams: outcome.streams,
        intervals: outcome.intervals,
        errors: outcome.errors,
        device: None,
        ..StepRecord::default()
    }
}

/// Numbers of a seed, each in 0..1.
fn dice(seed: u64) -> impl FnMut() -> f64 {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 53) as f64
    }
}

fn between(share: f64, low: f64, high: f64) -> f64 {
    (low.ln() + share * (high / low).ln()).exp()
}

/// A service law and its mean: one or two log-normal modes, as irregular as traces are (Wajahat et al. 2020).
fn service(roll: &mut impl FnMut() -> f64, kind: u64) -> (Service, f64) {
    let median_ns = between(roll(), 150e3, 1.5e6);
    let sigma = [0.0, 0.2, 0.5, 0.8][(kind % 4) as usize];
    let mut modes = vec![Mode { weight: 1.0, median_ns, sigma }];
    if kind % 3 == 2 {
        modes[0].weight = 0.97;
        modes.push(Mode { weight: 0.03, median_ns: median_ns * 8.0, sigma: 0.3 });
    }
    let mean = modes.iter().map(|mode| mode.weight * mode.median_ns * (mode.sigma.powi(2) / 2.0).exp()).sum();
    (Service { modes, ..Service::default() }, mean)
}

fn grid(blocks: Vec<Bytes>, depths: Vec<u32>) -> Grid {
    let axes = Axes { rw: vec![Rw::Randread], blocks, depths, passes: Some(2) };
    Grid::new(axes, Effort::Default).expect("these values make sense")
}

fn one_size(depths: &[u32]) -> Grid {
    grid(vec![Bytes::kib(4)], depths.to_vec())
}

/// Time for about this many requests, within the duration of a real step.
fn span_ns(requests: f64, per_second: f64) -> u64 {
    (requests / per_second * 1e9).clamp(100e6, 2e9) as u64
}

fn by_littles_law(surface: &Surface) -> usize {
    let bad = |flag: &CellFlag| matches!(flag, CellFlag::DepthNotReached | CellFlag::LittleBroken);
    surface.cells.iter().filter(|cell| cell.flags.iter().any(bad)).count()
}

fn summary(errors: &mut [f64]) -> String {
    errors.sort_by(f64::total_cmp);
    let (median, worst) = (errors[errors.len() / 2], errors[errors.len() - 1]);
    format!("{} devices: median error {:.1} %, worst {:.1} %", errors.len(), median * 100.0, worst * 100.0)
}

/// Distance in steps of the depths measured, each twice the one before.
fn steps_off(surface: &Surface, truth: f64) -> (f64, bool) {
    let knee = surface.curves[0].knee;
    let (first, last) = (f64::from(DEPTHS[0]), f64::from(DEPTHS[6]));
    let (at, truth) = match knee.state {
        BendState::Seen => (knee.at.value.unwrap(), truth),
        BendState::AtLeast => (knee.at.low.unwrap(), truth.min(last)),
        BendState::AtMost => (knee.at.high.unwrap(), truth.max(first)),
        BendState::NotResolved => (f64::INFINITY, truth),
    };
    let inside = knee.at.low.is_none_or(|low| low <= truth) && knee.at.high.is_none_or(|high| truth <= high);
    ((at / truth).log2().abs(), inside)
}

#[test]
fn the_knee_is_where_the_servers_are_all_busy() {
    let (mut errors, mut held, mut cells, mut false_alarms) = (Vec::new(), 0, 0, 0);
    for seed in 2000..2048 {
        let mut roll = dice(seed);
        let channels = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 100][(seed % 12) as usize];
        let (read, mean_ns) = service(&mut roll, seed / 12 + seed);
        let limited = seed % 5 == 4;
        let full = f64::from(channels) / mean_ns * 1e9;
        let rate = between(roll(), 0.3, 0.9) * full;
        let device = Device {
            read,
            channels,
            iops: limited.then_some(Bucket { rate, burst: rate * 0.002 }),
            stall: (seed % 4 == 1).then_some(Stall { period_ns: 70_000_000, length_ns: 3_000_000 }),
            ..Device::default()
        };
        let truth = if limited { rate * mean_ns / 1e9 } else { f64::from(channels) };
        let span_ns = span_ns(1500.0, full);
        let surface = sweep(&one_size(&DEPTHS), seed, span_ns, &|_| device.clone(), |depth| depth);
        let (off, inside) = steps_off(&surface, truth);
        assert!(off <= 1.0, "seed {seed}: {:?} where the truth is {truth:.1}", surface.curves[0].knee);
        errors.push(off.exp2() - 1.0);
        held += usize::from(inside);
        cells += surface.cells.len();
        false_alarms += by_littles_law(&surface);
    }
    println!("knee, {}; the interval contains it in {held}", summary(&mut errors));
    println!("Little's law: {false_alarms} of {cells} cells of healthy devices flagged");
    assert_eq!(false_alarms, 0);
    assert!(errors[errors.len() / 2] < 0.1, "{errors:?}");
    assert!(held * 10 >= errors.len() * 8, "the interval holds the knee in only {held} of {}", errors.len());
}

#[test]
fn the_crossover_is_where_the_two_limits_meet() {
    let mut errors = Vec::new();
    let mut cells = 0;
    for seed in 2100..2144 {
        let mut roll = dice(seed);
        let truth = between(roll(), 12e3, 400e3);
        let iops = between(roll(), 1.5e3, 6e3);
        let sigma = [0.0, 0.3, 0.6][(seed % 3) as usize];
        let device = if seed % 2 == 0 {
            let bytes = iops * truth;
            Device {
                read: Service::log_normal(150e3, sigma),
                channels: 64,
                iops: Some(Bucket { rate: iops, burst: iops * 0.002 }),
                bytes: Some(Bucket { rate: bytes, burst: (bytes * 0.002).max(2e6) }),
                ..Device::default()
            }
        } else {
            // Each request costs a fixed time plus a time per byte: the same two limits with a soft corner.
            let mean_ns = 8.0 / iops * 1e9;
            let mode = Mode { weight: 1.0, median_ns: mean_ns / (sigma * sigma / 2.0_f64).exp(), sigma };
            let read = Service { modes: vec![mode], per_byte_ns: mean_ns / truth, ..Service::default() };
            Device { read, channels: 8, ..Device::default() }
        };
        let sizes = [4, 16, 64, 256, 1024].map(Bytes::kib).to_vec();
        let grid = grid(sizes, vec![16]);
        let surface = sweep(&grid, seed, RUNTIME_NS, &|_| device.clone(), |depth| depth);
        let found = surface.crossovers[0].block;
        assert_eq!(found.state, BendState::Seen, "seed {seed}: {found:?} where the truth is {truth:.0}");
        let off = (found.at.value.unwrap() / truth).ln().abs();
        assert!(off <= 0.1, "seed {seed}: {found:?} where the truth is {truth:.0}");
        errors.push(off);
        cells += surface.cells.len();
        assert_eq!(by_littles_law(&surface), 0, "seed {seed}");
    }
    println!("crossover, {}; Little's law: none of {cells} cells flagged", summary(&mut errors));
}

#[test]
fn a_queue_that_is_not_filled_is_flagged_at_every_depth_where_it_is_not() {
    for seed in 2200..2210 {
        let mut roll = dice(seed);
        let (read, mean_ns) = service(&mut roll, seed);
        let device = Device { read, channels: 16, ..Device::default() };
        // An engine that keeps no more than six in flight, whatever is requested.
        let span_ns = span_ns(2000.0, 6.0 / mean_ns * 1e9);
        let surface = sweep(&one_size(&DEPTHS), seed, span_ns, &|_| device.clone(), |depth| depth.min(6));
        let flagged = |depth: u32| {
            let cell = surface.cells.iter().find(|cell| cell.iodepth == depth).unwrap();
            cell.flags.contains(&CellFlag::DepthNotReached)
        };
        assert_eq!(DEPTHS.map(flagged), [false, false, false, true, true, true, true], "seed {seed}");
    }
}

#[test]
fn a_disk_that_slows_down_shows_in_the_passes_and_not_in_the_knee() {
    for seed in 2300..2310 {
        let slower = |share: f64| {
            let read = Service::log_normal(300e3 * (1.0 + 0.6 * share), 0.3);
            Device { read, channels: 8, ..Device::default() }
        };
        let surface = sweep(&one_size(&DEPTHS), seed, 200_000_000, &slower, |depth| depth);
        let (off, _) = steps_off(&surface, 8.0);
        assert!(off < 0.5, "seed {seed}: {:?}", surface.curves[0].knee);
        let drift = surface.drift[1].relative;
        assert!(drift.high.unwrap() < 0.0, "seed {seed}: {drift:?}");
        assert!(
            qd1_analysis::sweep::findings(&surface).iter().any(|finding| finding.id == FindingId::SweepDrift),
            "seed {seed}"
        );
    }
}
