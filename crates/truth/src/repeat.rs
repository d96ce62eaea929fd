//! Are the figures of `check` repeatable? Its own steps, visits, schedule and analysis, on disks that change from one
//! second to the next.
//!
//! Each cell is a disk; each run meets it at a different time. The truth is the figure of all runs pooled, which
//! represents the long run: hours of it. A printed interval must contain it in 93 % of the runs; the table also shows
//! how often an interval is printed.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;

use qd1_analysis::extend::more_visits;
use qd1_engine::run::{IoJob, run_on};
use qd1_engine::sim::{Device, Disk, Neighbours, Phases, Service, Stall};
use qd1_model::environment::{Environment, ThreadCost};
use qd1_model::op::OpClass;
use qd1_model::plan::{EngineKind, FileUse, StepPlan, Visit, Work};
use qd1_model::record::StepRecord;
use qd1_model::spec::{Effort, PerEffort};
use qd1_model::{Bytes, Estimate, Hist, Record, StreamSummary, Subject};

use crate::parallel::each;
use crate::score::{self, Printed};
use crate::{Seeds, suite};

/// The suite that the product runs.
const SUITE: &str = include_str!("../../suites/src/check.toml");
/// Time between two visits, ns: opening files and an engine.
pub(crate) const BETWEEN_NS: u64 = 20_000_000;
/// A run begins at a time below this, ns.
const START_MAX_NS: u64 = 60_000_000_000;
/// Standard deviation of the logarithm of a moving level.
const LEVEL_SIGMA: f64 = 0.2;
/// Share of the runs that must print a figure for its coverage to be counted.
const PRINTED_MIN: f64 = 0.05;
/// Share of the printed intervals that must contain the truth.
const COVERED_MIN: f64 = 0.93;
/// Steps with one visit whose figures are studied.
pub const ONCE: [&str; 4] = ["read32", "write32", "seqread", "seqwrite"];
/// Minimum score of an oracle: about the width of a histogram bin, as a logarithm.
const RESOLUTION: f64 = 0.002;
pub(crate) const SECOND_NS: f64 = 1e9;
/// How long writing the test file takes on a disk with about 200 MB/s, ns.
const PREPARED_NS: u64 = 5_000_000_000;

/// A disk.
#[derive(Clone, Debug)]
pub struct Cell {
    /// Its name in the table.
    pub name: String,
    device: Device,
}

impl Cell {
    /// A disk and its name.
    pub(crate) fn of(name: &str, device: Device) -> Self {
        Self { name: name.to_owned(), device }
    }

    pub(crate) const fn device(&self) -> &Device {
        &self.device
    }

    /// The same with another device.
    pub(crate) fn on(&self, device: Device) -> Self {
        Self { name: self.name.clone(), device }
    }
}

/// All disks: one that does not change, levels that vary with a correlation time of 0.3 to 30 s, slow phases of 0.1 to
/// 10 s (those of many seconds take half of the time, since a run of a minute may not meet rarer ones at all), rare
/// stalls, and a disk that stalls for 0.8 s in every 4.8 s.
#[must_use]
pub fn cells() -> Vec<Cell> {
    let quiet = Device {
        read: Service::log_normal(300e3, 0.3),
        write: Service::log_normal(200e3, 0.3),
        flush: Service::log_normal(400e3, 0.3),
        ..Device::default()
    };
    let neighbours = |sigma, memory_s: f64, stalls_per_s| Neighbours {
        sigma,
        memory_ns: memory_s * SECOND_NS,
        stalls_per_s,
        stall_ns: 50e6,
        stall_sigma: 0.5,
    };
    let cell = |name: String, device: Device| Cell { name, device };
    let level = |memory_s: f64| {
        let neighbours = Some(neighbours(LEVEL_SIGMA, memory_s, 0.0));
        cell(format!("level, {memory_s} s"), Device { neighbours, ..quiet.clone() })
    };
    let phases = |(slow_s, times): (f64, f64)| {
        let phases = Phases { slow_ns: slow_s * SECOND_NS, fast_ns: times * slow_s * SECOND_NS, factor: 3.0 };
        let name = format!("{slow_s} s in {}", (1.0 + times) * slow_s);
        cell(name, Device { phases: Some(phases), ..quiet.clone() })
    };
    let stalls = Device { neighbours: Some(neighbours(0.0, 1.0, 0.2)), ..quiet.clone() };
    let frozen = Device { stall: Some(Stall { length_ns: FROZEN_NS.0, period_ns: FROZEN_NS.1 }), ..quiet.clone() };
    std::iter::once(cell("independent".to_owned(), quiet.clone()))
        .chain([0.3, 1.0, 3.0, 10.0, 30.0].map(level))
        .chain([(0.1, 9.0), (1.0, 9.0), (1.0, 1.0), (3.0, 1.0), (10.0, 1.0)].map(phases))
        .chain([cell("a stall in 5 s".to_owned(), stalls), cell("frozen".to_owned(), frozen)])
        .collect()
}

/// A local NVMe drive.
pub(crate) fn local_nvme() -> Device {
    Device {
        read: Service::log_normal(80e3, 0.25),
        write: Service::log_normal(20e3, 0.25),
        flush: Service::log_normal(60e3, 0.25),
        ..Device::default()
    }
}

/// Length of a freeze of the disk "frozen", and from one to the next, ns.
pub const FROZEN_NS: (u64, u64) = (800_000_000, 4_800_000_000);

/// The figures looked at.
const FIGURES: [&str; 5] = ["p50", "p99", "p99.9", "mean", "rate"];

/// The figures of one kind of operation in one step, in the order of [`FIGURES`].
fn figures(stream: &StreamSummary) -> [Estimate; 5] {
    [stream.lat_p50_ns, stream.lat_p99_ns, stream.lat_p999_ns, stream.lat_mean_ns, stream.iops]
}

/// What one run gave for one kind of operation of one step.
pub(crate) struct Part {
    step: String,
    pub(crate) class: OpClass,
    figures: [Estimate; 5],
    /// Longest and share.
    pub(crate) stalls: [Estimate; 2],
    lat: Hist,
    runtime_ns: u64,
}

/// The steps of a check as planned, without those on files, which a simulated disk cannot run and which come after the
/// visits.
pub(crate) fn planned(effort: Effort) -> Record {
    let table = suite::table(SUITE);
    let sizes: PerEffort<Bytes> = table["size"].clone().try_into().expect("a size for each effort");
    let file = sizes.get(effort);
    let mut record = suite::record("check", Subject::Check, file, Environment::default());
    let jobs = suite::jobs(&table);
    let of_disk = jobs.iter().filter(|job| job.runs_at(effort) && job.rw.is_some());
    record.plan.steps = of_disk.map(|job| suite::step(job, effort, file.0)).collect();
    record
}

/// One run of check's steps with visits, on a disk met at a random time.
#[must_use]
pub fn record(cell: &Cell, seed: u64) -> Record {
    measured(cell, &planned(Effort::Default), seed)
}

/// One run of planned steps with visits, as [`record`].
pub(crate) fn measured(cell: &Cell, planned: &Record, seed: u64) -> Record {
    measured_with(cell, planned, seed, &[])
}

/// The same, plus the named steps with one visit.
fn measured_with(cell: &Cell, planned: &Record, seed: u64, once: &[&str]) -> Record {
    let mut record = planned.clone();
    record.plan.seed = seed;
    let steps = &record.plan.steps;
    let schedule = record.plan.schedule();
    let is_looked_at = |step: &StepPlan| step.visits > 1 || once.contains(&step.name.as_str());
    let last = schedule.iter().rposition(|visit| steps[visit.step].visits > 1).expect("the suite has visits");
    let end = schedule.iter().rposition(|visit| is_looked_at(&steps[visit.step])).unwrap_or(last);
    let mut disk = Disk::new(Device { seed, ..cell.device.clone() });
    let mut sustained: BTreeMap<usize, f64> = BTreeMap::new();
    disk.idle(start_ns(seed));
    let (visits, after) = schedule.split_at(last + 1);
    let mut visits: VecDeque<Visit> = visits.iter().copied().collect();
    let (began_ns, mut is_extended) = (disk.now_ns(), false);
    let thresholds = suite::thresholds();
    loop {
        if visits.is_empty() && !is_extended {
            // As the product does if a disk is too slow for its planned visits.
            is_extended = true;
            let elapsed_ns = PREPARED_NS + disk.now_ns() - began_ns;
            visits.extend(more_visits(&record, after, elapsed_ns, &thresholds));
            visits.extend(&schedule[last + 1..=end]);
        }
        let Some(visit) = visits.pop_front() else { break };
        let step = &steps[visit.step];
        disk.idle(BETWEEN_NS);
        if !is_looked_at(step) {
            disk.idle(step.duration_max_ns());
            continue;
        }
        let seed = seed ^ u64::from(visit.number) << 40 ^ (visit.step as u64) << 32;
        // As the product does before the first visit of a step whose rate depends on the disk.
        if let Some(probe) = step.pace_probe()
            && !sustained.contains_key(&visit.step)
        {
            let one = run_visit(&mut disk, &probe, !seed);
            let done: u64 = one.streams.iter().map(|stream| stream.lat.count()).sum();
            sustained.insert(visit.step, done as f64 * SECOND_NS / one.runtime_ns.max(1) as f64);
        }
        let paced = sustained.get(&visit.step).map(|sustained_iops| step.at_pace(*sustained_iops));
        let one = run_visit(&mut disk, paced.as_ref().map_or(step, |(paced, _)| paced), seed);
        StepRecord { pace: paced.map(|(_, pace)| pace), ..one }.add_to(&mut record.steps);
    }
    record.steps.sort_by_key(|step| steps.iter().position(|plan| plan.name == step.name));
    record
}

/// The figures of one run.
pub(crate) fn run(cell: &Cell, planned: &Record, seed: u64) -> Vec<Part> {
    let record = measured_with(cell, planned, seed, &ONCE);
    let summary = qd1_analysis::summarize(&record);
    let parts = record.steps.iter().flat_map(|step| {
        let (summary, plan) = (&summary, &record.plan);
        step.streams.iter().map(move |stream| {
            let summed = summary.stream(&step.name, stream.class).expect("each is summarised");
            let mut figures = figures(summed);
            if plan.steps.iter().any(|planned| planned.name == step.name && planned.is_open()) {
                // A requested rate is not a figure of the disk.
                figures[4] = Estimate::default();
            }
            Part {
                step: step.name.clone(),
                class: stream.class,
                figures,
                stalls: [summed.stall_longest_ns, summed.stall_share].map(Option::unwrap_or_default),
                lat: stream.lat.clone(),
                runtime_ns: step.runtime_ns,
            }
        })
    });
    parts.collect()
}

/// When a run begins, ns.
pub(crate) const fn start_ns(seed: u64) -> u64 {
    seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) % START_MAX_NS
}

/// One visit of a step.
pub(crate) fn run_visit(disk: &mut Disk, step: &StepPlan, seed: u64) -> StepRecord {
    let part = step.visit();
    let Work::Io(work) = &part.work else { unreachable!("only I/O has visits") };
    let job = IoJob {
        work,
        stop: &part.stop,
        interval_ns: step.stop.interval_ns(),
        kind: EngineKind::Sim,
        files: &[],
        offset: if work.file == FileUse::Shared { 0 } else { 1 << 40 },
        seed,
        sim: None,
        batch_min: 1,
        thread_cost: ThreadCost::default,
        thread_time: None,
    };
    let taken = std::mem::replace(disk, Disk::new(Device::default()));
    let (after, outcome) = run_on(taken, &job).expect("the simulated engine needs nothing but memory");
    *disk = after;
    suite::measured(&step.name, outcome)
}

/// How often the interval of one figure contained the truth.
#[derive(Clone, Debug)]
pub struct Row {
    /// The disk.
    pub cell: String,
    /// The step and its kind of operation.
    pub step: String,
    /// Which figure.
    pub figure: &'static str,
    /// Runs.
    pub runs: usize,
    /// Of them, those that printed an interval.
    pub printed: usize,
    /// Of these, those whose interval contained the truth.
    pub held: usize,
    /// Of the others, those whose interval lies wholly above the truth.
    pub above: usize,
    /// Median of the upper over the lower limit.
    pub ratio: f64,
    /// Mean interval score of those printed, over that of an oracle that knows the distribution (see `score.rs`).
    pub over_oracle: f64,
}

impl Row {
    /// Share of the printed intervals that contained the truth; 1 if none was printed.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        if self.printed == 0 { 1.0 } else { self.held as f64 / self.printed as f64 }
    }

    /// Whether enough runs print it: the coverage of a figure that hardly any run prints means little.
    #[must_use]
    pub fn is_counted(&self) -> bool {
        self.printed as f64 >= PRINTED_MIN * self.runs as f64 && self.printed > 0
    }
}

/// `count` runs of a disk: a row for each figure of each kind of operation of each step.
#[must_use]
pub fn study(cell: &Cell, seeds: Seeds, count: u64) -> Vec<Row> {
    let planned = planned(Effort::Default);
    let runs = each(0..count, |number| run(cell, &planned, seeds.seed(number) ^ 0x0005_E9EA_0000_0000));
    let mut kinds: Vec<(&str, OpClass)> = Vec::new();
    for part in runs.iter().flatten() {
        if !kinds.contains(&(&part.step, part.class)) {
            kinds.push((&part.step, part.class));
        }
    }
    let mut rows = Vec::new();
    for (step, class) in kinds {
        // A run in which none was completed did not measure it.
        let is_same = |part: &&Part| part.step == step && part.class == class;
        let parts: Vec<&Part> = runs.iter().filter_map(|run| run.iter().find(is_same)).collect();
        let mut all = Hist::new();
        parts.iter().for_each(|part| all.merge(&part.lat));
        let seconds: f64 = parts.iter().map(|part| part.runtime_ns as f64 / 1e9).sum();
        let quantile = |q: f64| all.quantile(q) as f64;
        let truths = [quantile(0.5), quantile(0.99), quantile(0.999), all.mean_ns(), all.count() as f64 / seconds];
        for (index, (figure, truth)) in FIGURES.into_iter().zip(truths).enumerate() {
            let printed: Vec<Printed> = parts
                .iter()
                .map(|part| part.figures[index])
                .filter_map(|of| Some(Printed { value: of.value?, low: of.low?, high: of.high? }))
                .collect();
            let held = printed.iter().filter(|one| (one.low..=one.high).contains(&truth)).count();
            let above = printed.iter().filter(|one| one.low > truth).count();
            let mut ratios: Vec<f64> = printed.iter().map(|one| one.high / one.low).collect();
            ratios.sort_by(f64::total_cmp);
            rows.push(Row {
                cell: cell.name.clone(),
                step: format!("{step} {}", class.name()),
                figure,
                runs: runs.len(),
                printed: printed.len(),
                held,
                above,
                ratio: ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN),
                over_oracle: score::mean(&printed, truth) / score::of_oracle(&printed, truth).max(RESOLUTION),
            });
        }
    }
    rows
}

/// Geometric mean and largest of the ratios of scores to the oracle's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sharpness {
    sum: f64,
    count: usize,
    /// The largest.
    pub largest: f64,
}

impl Sharpness {
    /// For figures that enough runs printed.
    #[must_use]
    pub fn of<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Self {
        let counted = rows.into_iter().filter(|row| row.is_counted() && row.over_oracle.is_finite());
        counted.fold(Self::default(), |all, row| Self {
            sum: all.sum + row.over_oracle.ln(),
            count: all.count + 1,
            largest: all.largest.max(row.over_oracle),
        })
    }

    /// The geometric mean.
    #[must_use]
    pub fn mean(self) -> f64 {
        (self.sum / self.count as f64).exp()
    }
}

/// The table.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let mut text = format!("repeat: {count} runs of check's visits on each disk, {seeds:?} seeds\n");
    let _ = writeln!(
        text,
        "  % of the printed 95 % intervals that contain the long-run figure (% printed; median of upper / lower limit;\n  \
         interval score / that of an oracle that knows the distribution)"
    );
    let _ = writeln!(text, "  {:<32}{}", "", FIGURES.map(|figure| format!("{figure:>26}")).concat());
    let mut all: Vec<Row> = Vec::new();
    for cell in cells() {
        let rows = study(&cell, seeds, count);
        for of_step in rows.chunks(FIGURES.len()) {
            let show = |row: &Row| {
                let (held, printed) = (100.0 * row.coverage(), 100.0 * row.printed as f64 / row.runs as f64);
                format!("{:>26}", format!("{held:.1} ({printed:.0}; {:.2}; {:.2})", row.ratio, row.over_oracle))
            };
            let cells: Vec<String> = of_step.iter().map(show).collect();
            let _ = writeln!(text, "  {:<16}{:<16}{}", cell.name, of_step[0].step, cells.concat());
        }
        let is_low = |row: &&Row| is_verbose && row.is_counted() && row.coverage() < COVERED_MIN;
        for row in rows.iter().filter(is_low) {
            let below = row.printed - row.held - row.above;
            let (coverage, above) = (row.coverage(), row.above);
            let _ = writeln!(
                text,
                "  - {} {} {}: {coverage:.3}, {above} above, {below} below",
                row.cell, row.step, row.figure
            );
        }
        all.extend(rows);
    }
    text + &conclusion(&all)
}

/// Summary of the whole table.
fn conclusion(all: &[Row]) -> String {
    let mut text = String::from("  score / oracle's, geometric mean of all steps (the largest):\n");
    let shown = |of: Sharpness| format!("{:>16}", format!("{:.2} ({:.2})", of.mean(), of.largest));
    let of_figures = |rows: &[Row]| {
        let of = |figure| shown(Sharpness::of(rows.iter().filter(|row| row.figure == figure)));
        FIGURES.map(of).concat() + &shown(Sharpness::of(rows))
    };
    let _ = writeln!(text, "  {:<16}{}{:>16}", "", FIGURES.map(|figure| format!("{figure:>16}")).concat(), "all");
    for of_cell in all.chunk_by(|one, next| one.cell == next.cell) {
        let _ = writeln!(text, "  {:<16}{}", of_cell[0].cell, of_figures(of_cell));
    }
    let _ = writeln!(text, "  {:<16}{}", "all", of_figures(all));
    let counted: Vec<&Row> = all.iter().filter(|row| row.is_counted()).collect();
    let below = counted.iter().filter(|row| row.coverage() < COVERED_MIN).count();
    let least = counted.iter().map(|row| row.coverage()).fold(1.0, f64::min);
    let _ = writeln!(
        text,
        "  {below} of {} below {:.0} % (target: none); the least {:.1} %",
        counted.len(),
        100.0 * COVERED_MIN,
        100.0 * least
    );
    let rare: Vec<&Row> = all.iter().filter(|row| !row.is_counted() && row.printed > 0).collect();
    let wrong = rare.iter().map(|row| (row.printed - row.held) as f64 / row.runs as f64).fold(0.0, f64::max);
    let _ = writeln!(
        text,
        "  plus {} that fewer than {:.0} % of the runs print; wrong, of all runs: at most {:.2} %",
        rare.len(),
        100.0 * PRINTED_MIN,
        100.0 * wrong
    );
    text
}
