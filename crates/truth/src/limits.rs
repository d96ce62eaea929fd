//! `qd1 limits` on disks with known limits and on disks without any: the table.

use std::fmt::Write as _;

use qd1_analysis::limits::{Options, Procedure};
use qd1_engine::sim::Scope;
use qd1_model::limits::{Direction, Limit, Limits, Quantity};

use crate::Seeds;
use crate::parallel::each;
use crate::scenario::{Scenario, Truth, limited, unlimited};
use crate::virtual_disk::{VirtualDisk, limits_of};

/// How long to look for the end of a burst: Vultr's lasts 60 s at its own rate, and 97 s at 131 MB/s, the rate of 500
/// requests of 256 KiB per second.
const LOOK_NS: u64 = 120_000_000_000;
/// Only bursts of at least this many seconds of the sustained rate are expected to be found: shorter ones change no
/// figure.
const BURST_MIN_S: f64 = 1.0;
/// A limit this close to where the other one would bind instead cannot be distinguished from it, and is not expected.
const AMBIGUOUS: f64 = 0.15;

/// The results of all disks together.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Relative errors of limits found, on requests.
    pub iops: Vec<f64>,
    /// On bytes.
    pub bytes: Vec<f64>,
    /// Of burst volumes.
    pub volume: Vec<f64>,
    /// Of refill rates.
    pub refill: Vec<f64>,
    /// Limits whose 95 % interval contains the truth.
    pub held: u64,
    /// Limits that bound and were called "at least".
    pub missed: u64,
    /// Bursts that existed but were not found.
    pub bursts_missed: u64,
    /// Limits found where there are none, or where another one binds.
    pub invented: u64,
    /// Disks without limits on which one was found.
    pub false_disks: u64,
    /// Longest run on a disk without limits, virtual s, and most bytes written to it.
    pub seconds_max: f64,
    /// See `seconds_max`.
    pub written_max: u64,
    /// One line for each error.
    pub notes: Vec<String>,
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.iops.extend(other.iops);
        self.bytes.extend(other.bytes);
        self.volume.extend(other.volume);
        self.refill.extend(other.refill);
        self.held += other.held;
        self.missed += other.missed;
        self.bursts_missed += other.bursts_missed;
        self.invented += other.invented;
        self.false_disks += other.false_disks;
        self.seconds_max = self.seconds_max.max(other.seconds_max);
        self.written_max = self.written_max.max(other.written_max);
        self.notes.extend(other.notes);
    }
}

/// The first disks whose limits are all those of `tier`, by number.
pub fn numbers_of(seeds: Seeds, tier: &str, count: usize) -> Vec<u64> {
    let is_of = |number: &u64| {
        let name = limited(seeds.seed(*number)).name;
        name.strip_prefix(tier).is_some_and(|rest| rest.starts_with(" 0x"))
    };
    (0..10_000).filter(is_of).take(count).collect()
}

/// Evaluates the disks with limits numbered `numbers`.
pub fn with_limits(seeds: Seeds, numbers: impl IntoIterator<Item = u64>) -> Tally {
    sum(each(numbers, |number| {
        let scenario = limited(seeds.seed(number));
        let options = Options::burst(Direction::ALL.to_vec(), 512, LOOK_NS);
        let (limits, ..) = limits_of(&mut VirtualDisk::new(scenario.device.clone()), Procedure::new(options));
        let mut tally = Tally::default();
        for direction in [Direction::Read, Direction::Write] {
            judge(&mut tally, &scenario, &limits, direction);
        }
        tally
    }))
}

/// What was measured on the disk with limits with this seed, probe by probe, to see why one went wrong.
pub fn probes(seed: u64) -> String {
    let scenario = limited(seed);
    let options = Options::burst(Direction::ALL.to_vec(), 512, LOOK_NS);
    let mut disk = VirtualDisk::new(scenario.device.clone());
    let (limits, procedure) = limits_of(&mut disk, Procedure::new(options));
    let mut text = format!("{}: {:?}\n{:?}\n", scenario.name, scenario.truths, scenario.device);
    for one in procedure.measured() {
        let (name, from) = (format!("{}-{}", one.direction.name(), one.role.name()), one.started_ns as f64 / 1e9);
        let _ = writeln!(text, "{name} at {from:.1} s for {:.1} s: {:?}", one.runtime_ns as f64 / 1e9, one.fit());
    }
    for limit in &limits.limits {
        let _ = writeln!(text, "{}: {limit:?}", describe(limit));
    }
    text
}

/// Evaluates the disks without limits numbered `numbers`.
pub fn without_limits(seeds: Seeds, numbers: impl IntoIterator<Item = u64>) -> Tally {
    sum(each(numbers, |number| {
        let scenario = unlimited(seeds.seed(number));
        let mut disk = VirtualDisk::new(scenario.device.clone());
        let options = Options::brief(Direction::ALL.to_vec(), 512);
        let (limits, _) = limits_of(&mut disk, Procedure::new(options));
        let found: Vec<&Limit> = limits.limits.iter().filter(|limit| limit.reached).collect();
        let mut tally =
            Tally { seconds_max: disk.now_ns() as f64 / 1e9, written_max: disk.written, ..Tally::default() };
        if !found.is_empty() {
            tally.false_disks = 1;
            let texts = |limit: &&Limit| limit.evidence.iter().map(|e| e.text.clone()).collect::<Vec<_>>().join("; ");
            let names: Vec<String> =
                found.iter().map(|limit| format!("{} ({})", describe(limit), texts(limit))).collect();
            tally.notes.push(format!("{}: no limit, found {}", scenario.name, names.join(", ")));
        }
        tally
    }))
}

/// What they gave together.
fn sum(tallies: Vec<Tally>) -> Tally {
    tallies.into_iter().fold(Tally::default(), |mut all, tally| {
        all.add(tally);
        all
    })
}

fn judge(tally: &mut Tally, scenario: &Scenario, limits: &Limits, direction: Direction) {
    let scope = if direction == Direction::Read { Scope::Reads } else { Scope::Writes };
    let Some(truth) = scenario.truths.iter().find(|truth| truth.scope == scope || truth.scope == Scope::Both) else {
        return;
    };
    // A shared bucket is full only for the direction that is measured first.
    let is_first = truth.scope != Scope::Both || direction == Direction::Read;
    for quantity in [Quantity::Requests, Quantity::Bytes] {
        let Some(found) = limits.get(direction, quantity) else { continue };
        let Some((rate, burst)) = expected(truth, quantity) else {
            if binds(truth, quantity) == Some(false) && found.reached {
                tally.invented += 1;
                tally.notes.push(format!("{}: {} does not bind", scenario.name, describe(found)));
            }
            continue;
        };
        if !found.reached {
            tally.missed += 1;
            let why: Vec<String> =
                found.evidence.iter().filter(|e| !e.speaks_for).map(|e| format!("{}: {}", e.id, e.text)).collect();
            tally.notes.push(format!("{}: missed {rate} ({}); {}", scenario.name, describe(found), why.join("; ")));
            continue;
        }
        let error = found.sustained.value.unwrap_or(0.0) / rate - 1.0;
        let errors = if quantity == Quantity::Requests { &mut tally.iops } else { &mut tally.bytes };
        errors.push(error.abs());
        let is_held =
            found.sustained.low.is_some_and(|low| low <= rate) && found.sustained.high.is_some_and(|high| high >= rate);
        tally.held += u64::from(is_held);
        if error.abs() > 0.01 {
            tally.notes.push(format!("{}: {} is {:+.1} % off {rate}", scenario.name, describe(found), error * 100.0));
        }
        if is_first && burst >= BURST_MIN_S * rate {
            judge_burst(tally, scenario, found, rate, burst);
        }
    }
}

fn judge_burst(tally: &mut Tally, scenario: &Scenario, found: &Limit, rate: f64, burst: f64) {
    let Some(seen) = found.burst else {
        tally.bursts_missed += 1;
        tally.notes.push(format!("{}: no burst of {burst} on {}", scenario.name, describe(found)));
        return;
    };
    let error = seen.volume.value.unwrap_or(0.0) / burst - 1.0;
    tally.volume.push(error.abs());
    if error.abs() > 0.05 {
        tally.notes.push(format!(
            "{}: burst {:+.1} % off {burst} on {}",
            scenario.name,
            error * 100.0,
            describe(found)
        ));
    }
    if let Some(refill) = seen.refill.and_then(|refill| refill.value) {
        let error = refill / rate - 1.0;
        tally.refill.push(error.abs());
        if error.abs() > 0.1 {
            tally.notes.push(format!(
                "{}: refill {:+.1} % off {rate} on {}",
                scenario.name,
                error * 100.0,
                describe(found)
            ));
        }
    }
}

/// Rate and burst of a limit that the procedure can reach.
fn expected(truth: &Truth, quantity: Quantity) -> Option<(f64, f64)> {
    (binds(truth, quantity)?).then_some(())?;
    match quantity {
        Quantity::Requests => truth.iops.map(|rate| (rate, truth.burst_iops)),
        Quantity::Bytes => truth.bytes.map(|rate| (rate, truth.burst_bytes)),
    }
}

/// Whether the limit is the one that binds where it is looked for (4 KiB, 256 KiB); `None` if that is close.
fn binds(truth: &Truth, quantity: Quantity) -> Option<bool> {
    let (own, other) = match quantity {
        Quantity::Requests => (truth.iops, truth.bytes.map(|rate| rate / 4096.0)),
        Quantity::Bytes => (truth.bytes, truth.iops.map(|rate| rate * f64::from(256 << 10))),
    };
    match (own, other) {
        (None, _) => Some(false),
        (Some(_), None) => Some(true),
        (Some(own), Some(other)) if (own / other).ln().abs() < AMBIGUOUS => None,
        (Some(own), Some(other)) => Some(own < other),
    }
}

fn describe(limit: &Limit) -> String {
    let unit = if limit.quantity == Quantity::Requests { "/s" } else { " B/s" };
    format!("{} {:.0}{unit}", limit.direction.name(), limit.sustained.value.unwrap_or(0.0))
}

fn percent(errors: &[f64]) -> (f64, f64) {
    let mut sorted = errors.to_vec();
    sorted.sort_by(f64::total_cmp);
    let at = |share: f64| sorted.get(((sorted.len() as f64 * share) as usize).min(sorted.len().saturating_sub(1)));
    (at(0.5).copied().unwrap_or(0.0) * 100.0, sorted.last().copied().unwrap_or(0.0) * 100.0)
}

/// The table of `count` disks with limits and as many without.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let (with, without) = (with_limits(seeds, 0..count), without_limits(seeds, 0..count));
    let mut text = format!("limits: {count} virtual disks with limits and {count} without, {seeds:?} seeds\n");
    let _ = writeln!(text, "  {:<28}{:>6}{:>12}{:>12}  target", "", "n", "median", "worst");
    for (name, errors, target) in [
        ("error of IOPS limits", &with.iops, "1 %, 3 %"),
        ("error of MB/s limits", &with.bytes, "1 %, 3 %"),
        ("error of burst volumes", &with.volume, "5 %"),
        ("error of refill rates", &with.refill, "10 %"),
    ] {
        let (median, worst) = percent(errors);
        let _ = writeln!(text, "  {name:<28}{:>6}{median:>10.2} %{worst:>10.2} %  {target}", errors.len());
    }
    let n = with.iops.len() + with.bytes.len();
    let _ = writeln!(text, "  limits whose interval contains the truth: {} of {n}", with.held);
    let _ = writeln!(
        text,
        "  limits missed: {}; bursts missed: {}; limits invented: {}",
        with.missed, with.bursts_missed, with.invented
    );
    let _ = writeln!(
        text,
        "  disks without limits on which one was found: {} (target: at most 2 of 200)",
        without.false_disks
    );
    let _ = writeln!(
        text,
        "  longest run without limits: {:.0} s; most written: {:.1} GB (targets: 120 s, 20 GB)",
        without.seconds_max,
        without.written_max as f64 / 1e9
    );
    if is_verbose {
        for note in with.notes.iter().chain(&without.notes) {
            let _ = writeln!(text, "  - {note}");
        }
    }
    text
}
