//! Ways to make writes durable on disks for which the cost law of each is known: whether the table's intervals contain
//! the truth, and whether the best method is found.
//!
//! Each method has its own cost law: fsync also writes a journal, a direct O_DSYNC write includes its flush,
//! sync_file_range sends none. So each method has its own device, with its own flush time.

use std::sync::atomic::AtomicBool;

use qd1_analysis::sync::table;
use qd1_engine::run::{Decision, IoJob, run_io};
use qd1_engine::sim::{Device, Service, State};
use qd1_engine::{Op, OpKind};
use qd1_model::environment::{Environment, ThreadCost};
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, StepPlan, Stop, Sync, Work,
};
use qd1_model::record::StepRecord;
use qd1_model::sync::{SyncMethod, SyncRow};
use qd1_model::{Bytes, Estimate, Record, Subject};
use rand_core::{RngCore as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Seeds;
use crate::suite;

const BLOCK: u32 = 8192;
/// Duration of each step, in each of two passes, ns.
const STEP_NS: u64 = 3_000_000_000;
/// Number of commits from which the law is computed.
const LAW: usize = 60_000;

/// The methods, and the factor by which their flush differs from fdatasync's.
const METHODS: [(Sync, bool, f64); 5] = [
    (Sync::Fdatasync, false, 1.0),
    (Sync::Fsync, false, 1.8),
    (Sync::ODsync, true, 0.6),
    (Sync::RwfDsync, false, 1.0),
    (Sync::SyncFileRange, false, 0.0),
];

/// How the table of some disks came out.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Figures studied, and those whose interval contains the truth.
    pub figures: (u64, u64),
    /// Figures that were not resolved.
    pub unresolved: u64,
    /// Disks, and those whose best method was found.
    pub best: (u64, u64),
    /// What was wrong.
    pub notes: Vec<String>,
}

/// The law of a method's commits.
struct Law {
    per_second: f64,
    p50_ns: f64,
    p99_ns: f64,
    sync_p50_ns: f64,
}

/// Measures the disks with these numbers.
pub fn tally(seeds: Seeds, numbers: std::ops::Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for number in numbers {
        one(&mut tally, seeds.seed(number), number);
    }
    tally
}

fn one(tally: &mut Tally, seed: u64, number: u64) {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut share = || (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
    let (write_ns, flush_ns) = (20e3 + 60e3 * share(), 150e3 + 1500e3 * share());
    let (sigma, twice) = (0.1 + 0.3 * share(), share() < 0.5);
    let device = |method: f64| Device {
        seed,
        write: Service::log_normal(write_ns, sigma),
        flush: Service::log_normal(flush_ns * method, sigma),
        ..Device::default()
    };
    let writes_per_sync = if twice { 2 } else { 1 };
    let record = record(&METHODS.map(|(sync, direct, method)| (work(sync, direct, writes_per_sync), device(method))));
    let table = table(&record).expect("it is a run of sync");
    for (row, (sync, _, method)) in table.rows.iter().zip(METHODS) {
        judge(tally, &format!("disk {number}, {sync:?}"), row, &law(&device(method), sync, writes_per_sync));
    }
    // With two writes per commit there is no row to choose by.
    if writes_per_sync == 1 {
        tally.best.0 += 1;
        if table.best == Some(SyncMethod { sync: Sync::ODsync, direct: true }) {
            tally.best.1 += 1;
        } else {
            tally.notes.push(format!("disk {number}: the best is {:?}", table.best));
        }
    }
}

fn judge(tally: &mut Tally, name: &str, row: &SyncRow, law: &Law) {
    let mut figures = vec![
        ("commits/s", row.commits_per_second, law.per_second),
        ("p50", row.lat_p50_ns, law.p50_ns),
        ("p99", row.lat_p99_ns, law.p99_ns),
    ];
    figures.extend(row.sync_p50_ns.map(|sync| ("sync p50", sync, law.sync_p50_ns)));
    for (what, estimate, truth) in figures {
        let Estimate { low: Some(low), high: Some(high), value: Some(_), .. } = estimate else {
            tally.unresolved += 1;
            continue;
        };
        tally.figures.0 += 1;
        // A histogram's bin is 0.1 % wide.
        if low * 0.999 <= truth && truth <= high * 1.001 {
            tally.figures.1 += 1;
        } else {
            tally.notes.push(format!("{name}: {what} is {truth:.0}, reported {low:.0} to {high:.0}"));
        }
    }
}

/// Consecutive commits until chance no longer matters, with draws other than the device's own.
fn law(device: &Device, sync: Sync, writes: u32) -> Law {
    let mut state = State::new(Device { seed: device.seed ^ 0x7247_7468, ..device.clone() });
    let (mut now_ns, mut lat, mut parts) = (0.0, Vec::with_capacity(LAW), Vec::with_capacity(LAW));
    let op = |kind, len| Op { kind, file: 0, len, offset: 0 };
    for _ in 0..LAW {
        let begin_ns = now_ns;
        for _ in 0..writes {
            now_ns = state.complete_ns(&op(OpKind::Write, BLOCK), now_ns);
            if sync.is_in_the_write() {
                now_ns = state.complete_ns(&op(OpKind::Fdatasync, 0), now_ns);
            }
        }
        let written_ns = now_ns;
        match sync {
            Sync::SyncFileRange => now_ns = state.complete_ns(&op(OpKind::SyncFileRange, BLOCK), now_ns),
            sync if sync.has_call() => now_ns = state.complete_ns(&op(OpKind::Fdatasync, 0), now_ns),
            _ => {}
        }
        lat.push(now_ns - begin_ns);
        parts.push(now_ns - written_ns);
    }
    let per_second = LAW as f64 * 1e9 / now_ns;
    lat.sort_unstable_by(f64::total_cmp);
    parts.sort_unstable_by(f64::total_cmp);
    let at = |sorted: &[f64], q: f64| sorted[(q * LAW as f64) as usize];
    Law { per_second, p50_ns: at(&lat, 0.5), p99_ns: at(&lat, 0.99), sync_p50_ns: at(&parts, 0.5) }
}

/// A run of these steps, each on its own disk, in two passes.
fn record(steps: &[(IoWork, Device)]) -> Record {
    let mut record = suite::record("sync", Subject::Sync, Bytes::gib(1), Environment::default());
    let stop = Stop { min_ns: 0, max_ns: STEP_NS, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 };
    for pass in 0..2u64 {
        for (number, (work, device)) in steps.iter().enumerate() {
            let name = format!("step{number}-p{pass}");
            let device = Device { seed: device.seed ^ (pass + 1) << 32 ^ number as u64, ..device.clone() };
            let job = IoJob {
                work,
                stop: &stop,
                interval_ns: stop.interval_ns(),
                kind: EngineKind::Sim,
                files: &[],
                offset: 0,
                seed: device.seed,
                sim: Some(device.clone()),
                batch_min: 1,
                thread_cost: ThreadCost::default,
                thread_time: None,
            };
            let outcome = run_io(&job, &AtomicBool::new(false), &mut |_| Decision::Continue)
                .expect("the simulated engine needs nothing");
            record.plan.steps.push(StepPlan {
                name: name.clone(),
                title: name.clone(),
                work: Work::Io(work.clone()),
                background: Vec::new(),
                stop,
                visits: 1,
                writes_max: Bytes(0),
            });
            record.steps.push(StepRecord {
                name,
                engine: Some(EngineKind::Sim),
                direct: work.direct,
                runtime_ns: outcome.runtime_ns,
                streams: outcome.streams,
                intervals: outcome.intervals,
                ..StepRecord::default()
            });
        }
    }
    record
}

fn work(sync: Sync, direct: bool, writes_per_sync: u32) -> IoWork {
    IoWork {
        ioengine: EngineChoice::Kind(EngineKind::Sim),
        rw: Rw::Write,
        rwmixread: 0,
        order: Order::Sequential,
        blocks: vec![BlockShare { bytes: BLOCK, weight: 1 }],
        iodepth: 1,
        numjobs: 1,
        direct,
        sync,
        file: FileUse::Shared,
        size: Bytes::mib(16),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::Random,
        writes_per_sync,
    }
}
