//! Steps like those of `check`, on disks with and without limits: where the detector `rate_limited` reports a limit.

use qd1_model::FindingId;
use std::fmt::Write as _;

use qd1_analysis::limits::{Probe, Role};
use qd1_engine::sim::{Device, Scope};
use qd1_model::environment::Environment;
use qd1_model::limits::Direction;
use qd1_model::plan::{
    Arrival, BlockShare, Data, EngineChoice, EngineKind, FileUse, IoWork, Order, Rw, StepPlan, Stop, Sync, Work,
};
use qd1_model::record::{IntervalStream, Record, StepRecord};
use qd1_model::{Bytes, Subject, Summary};

use crate::Seeds;
use crate::parallel::each;
use crate::scenario::{Scenario, limited, unlimited};
use crate::suite;
use crate::virtual_disk::VirtualDisk;

const SECOND_NS: u64 = 1_000_000_000;
/// Direction, block size, requests in flight, seconds: the steps of `check` that are not commits.
const STEPS: [(Direction, u32, u32, u64); 5] = [
    (Direction::Both, 4096, 1, 12),
    (Direction::Read, 4096, 32, 5),
    (Direction::Write, 4096, 32, 5),
    (Direction::Read, 1 << 20, 8, 5),
    (Direction::Write, 1 << 20, 8, 5),
];
/// A step is at a limit if its rate is within this share, or within one request, of what the limit allows.
const AT_LIMIT: f64 = 0.02;

/// How often the detector reports a limit.
#[derive(Clone, Debug, Default)]
pub struct Said {
    /// Steps at a limit, and those of them that it reports.
    pub limited: (u64, u64),
    /// Steps not at a limit, and those of them that it reports anyway.
    pub free: (u64, u64),
    /// Disks with a limit that a step reached, and those for which it reports any step.
    pub disks: (u64, u64),
    /// One line for each step on which it was wrong.
    pub notes: Vec<String>,
}

impl Said {
    fn add(mut self, other: Self) -> Self {
        for (mine, theirs) in
            [(&mut self.limited, other.limited), (&mut self.free, other.free), (&mut self.disks, other.disks)]
        {
            *mine = (mine.0 + theirs.0, mine.1 + theirs.1);
        }
        self.notes.extend(other.notes);
        self
    }
}

/// The disks with limits numbered `numbers`.
pub fn with_limits(seeds: Seeds, numbers: impl IntoIterator<Item = u64>) -> Said {
    each(numbers, |number| judge(&limited(seeds.seed(number)))).into_iter().fold(Said::default(), Said::add)
}

/// The disks without.
pub fn without_limits(seeds: Seeds, numbers: impl IntoIterator<Item = u64>) -> Said {
    each(numbers, |number| judge(&unlimited(seeds.seed(number)))).into_iter().fold(Said::default(), Said::add)
}

fn judge(scenario: &Scenario) -> Said {
    let record = measure(&scenario.device);
    let findings = qd1_analysis::findings(&record, &Summary::default());
    let found: Vec<_> = findings.iter().filter(|finding| finding.id == FindingId::RateLimited).collect();
    let mut said = Said::default();
    for (step, (direction, block, depth, _)) in record.steps.iter().zip(STEPS) {
        let is_said = found.iter().find(|finding| finding.step == step.name);
        let is_limited = is_at_limit(scenario, step, direction);
        let count = if is_limited { &mut said.limited } else { &mut said.free };
        *count = (count.0 + 1, count.1 + u64::from(is_said.is_some()));
        if is_said.is_some() != is_limited {
            let what = is_said.map_or("nothing reported", |finding| finding.evidence.as_str());
            let limited = if is_limited { "limited" } else { "free" };
            let name = &scenario.name;
            said.notes.push(format!("{name}: {} {block} B x {depth}, {limited}: {what}", direction.name()));
        }
    }
    said.disks = (u64::from(said.limited.0 > 0), u64::from(said.limited.1 > 0));
    said
}

/// Whether a step ran at a bucket's rate, at least at its end: a burst may have ended during the step.
fn is_at_limit(scenario: &Scenario, step: &StepRecord, direction: Direction) -> bool {
    let tail = &step.intervals[step.intervals.len() / 2..];
    // In most intervals: tokens are lost during a stall.
    let usual = |of: fn(&IntervalStream) -> u64| {
        let mut sums: Vec<u64> = tail.iter().map(|interval| interval.streams.iter().map(of).sum()).collect();
        sums.sort_unstable();
        sums.get(sums.len() / 2).copied().unwrap_or(0) as f64
    };
    let seconds = tail.first().map_or(1.0, |interval| interval.length_ns as f64 / 1e9);
    scenario.device.limits.iter().any(|limit| {
        let is_meant = match (limit.scope, direction) {
            (Scope::Both, _) | (Scope::Reads, Direction::Read) | (Scope::Writes, Direction::Write) => true,
            // Half of the requests: never what such a limit allows in total.
            _ => false,
        };
        let (did, unit) = if limit.of_bytes {
            (usual(|s| s.bytes), usual(|s| s.bytes / s.ios.max(1)))
        } else {
            (usual(|s| s.ios), 1.0)
        };
        let allowed = limit.bucket.rate * seconds;
        is_meant && (did - allowed).abs() <= (AT_LIMIT * allowed).max(1.5 * unit)
    })
}

fn measure(device: &Device) -> Record {
    let mut disk = VirtualDisk::new(device.clone());
    let mut record = suite::record("check", Subject::Check, Bytes::gib(1), Environment::default());
    for (number, (direction, block, depth, seconds)) in STEPS.into_iter().enumerate() {
        let sequential = block > 4096;
        let (role, max_ns) = (Role::Small, seconds * SECOND_NS);
        let probe = Probe { direction, role, block, iodepth: depth, sequential, pause_ns: 0, max_ns, bytes_max: 0 };
        let measured = disk.run(&probe, |_| false);
        let name = format!("step{number}");
        record.plan.steps.push(StepPlan {
            name: name.clone(),
            title: name.clone(),
            work: Work::Io(work(&probe)),
            background: Vec::new(),
            stop: Stop { min_ns: 0, max_ns, ramp_ns: 0, quantile: 0.0, tolerance: 0.0 },
            visits: 1,
            writes_max: Bytes(0),
        });
        record.steps.push(StepRecord {
            name,
            engine: Some(EngineKind::Sim),
            direct: true,
            started_ns: measured.started_ns,
            runtime_ns: measured.runtime_ns,
            intervals: measured.intervals,
            ..StepRecord::default()
        });
    }
    record
}

fn work(probe: &Probe) -> IoWork {
    let (rw, rwmixread) = match (probe.direction, probe.sequential) {
        (Direction::Read, false) => (Rw::Randread, 100),
        (Direction::Read, true) => (Rw::Read, 100),
        (Direction::Write, false) => (Rw::Randwrite, 0),
        (Direction::Write, true) => (Rw::Write, 0),
        (Direction::Both, _) => (Rw::Randrw, 50),
    };
    IoWork {
        ioengine: EngineChoice::Auto,
        rw,
        rwmixread,
        order: if probe.sequential { Order::Sequential } else { Order::Random },
        blocks: vec![BlockShare { bytes: probe.block, weight: 1 }],
        iodepth: probe.iodepth,
        numjobs: 1,
        direct: true,
        sync: Sync::None,
        file: FileUse::Shared,
        size: Bytes::gib(1),
        io_size: Bytes(0),
        arrival: Arrival::Closed,
        data: Data::default(),
        writes_per_sync: 1,
    }
}

/// The table of `count` disks with limits and as many without.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let (with, without) = (with_limits(seeds, 0..count), without_limits(seeds, 0..count));
    let mut text =
        format!("rate_limited in steps like check's: {count} disks with limits and {count} without, {seeds:?} seeds\n");
    let mut row = |name: &str, (of, said): (u64, u64)| {
        let _ = writeln!(text, "  {name:<52}{said:>6} of {of}");
    };
    row("disks on which a step reached a limit: reported", with.disks);
    row("their steps at a limit: reported", with.limited);
    row("their steps not at a limit: wrongly reported", with.free);
    row("steps on disks without limits: wrongly reported", without.free);
    if is_verbose {
        for note in with.notes.iter().chain(&without.notes) {
            let _ = writeln!(text, "  - {note}");
        }
    }
    text
}
