//! Does a check give a grade, and the right one? Its own steps, visits and thresholds, on the disks that qd1 was made
//! for: the brief's, whose flushes take 20 ms, and those that one would have instead of it.
//!
//! The right grade of a class is that of the pooled figures of all runs, which represent hours on that disk.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use qd1_analysis::{analyse, summarize};
use qd1_engine::sim::{Device, Neighbours, Service};
use qd1_model::metric::{Better, metric};
use qd1_model::plan::criterion::Criterion;
use qd1_model::spec::Effort;
use qd1_model::verdict::ThresholdClass;
use qd1_model::{Grade, Hist, Record, Report};

use crate::Seeds;
use crate::parallel::each;
use crate::repeat::{Cell, local_nvme, measured, planned};
use crate::stalls::waiting_nvme;
use crate::suite::thresholds;

/// Classes that the visited steps decide.
const CLASSES: [&str; 3] = ["etcd", "database", "database-reads"];
/// A pooled figure this close to a bound, relatively, has two right grades: those on either side.
const NEAR: f64 = 0.03;

/// The disks of the seeds, by kind; and real VPS, as far as their percentiles are known.
#[must_use]
pub fn cells() -> Vec<Cell> {
    let of = |read_us: f64, write_us: f64, flush_us: f64, sigma: f64| Device {
        read: Service::log_normal(read_us * 1e3, sigma),
        write: Service::log_normal(write_us * 1e3, sigma),
        flush: Service::log_normal(flush_us * 1e3, sigma),
        ..Device::default()
    };
    let neighbours = Neighbours { sigma: 0.3, memory_ns: 2e9, stalls_per_s: 0.3, stall_ns: 60e6, stall_sigma: 0.5 };
    let oversold = Device { neighbours: Some(neighbours), channels: 8, ..of(700.0, 300.0, 30_000.0, 0.5) };
    [
        ("Contabo of the brief", of(600.0, 200.0, 20_000.0, 0.253)),
        ("flushes of 5 ms", of(400.0, 150.0, 5_000.0, 0.2)),
        ("network SSD, 1 ms", of(500.0, 400.0, 700.0, 0.2)),
        ("SATA SSD", of(110.0, 60.0, 1_500.0, 0.3)),
        ("SAS HDD", Device { channels: 1, ..of(6_000.0, 4_000.0, 4_000.0, 0.25) }),
        ("local NVMe", local_nvme()),
        ("NVMe, 0.1 s in 20 s", waiting_nvme(20.0, 100e6, 0.4)),
        ("oversold, 30 ms and stalls", oversold),
    ]
    .map(|(name, device)| Cell::of(name, device))
    .into_iter()
    .chain(crate::vps::cells())
    .collect()
}

/// What one run said about a class.
struct Said {
    grade: Grade,
    line: String,
}

/// How a class of a disk was graded.
#[derive(Debug)]
pub struct Row {
    /// The disk.
    pub cell: String,
    /// The class.
    pub class: &'static str,
    /// The right grades: one, unless a figure of the long run lies on a bound.
    pub right: Vec<Grade>,
    /// How many runs gave each grade.
    pub given: BTreeMap<String, usize>,
    /// Runs, and those whose grade is right.
    pub runs: usize,
    /// Of them.
    pub are_right: usize,
    /// Runs with a finding of stalls, or with stalls as the reason, although the disk has none.
    pub example: String,
}

fn grade_of(value: f64, criterion: &Criterion) -> Grade {
    let better = metric(&criterion.metric).map_or(Better::Higher, |metric| metric.better);
    let is_within = |bound: f64| better.is_within(value, bound);
    match (is_within(criterion.pass), is_within(criterion.fail)) {
        (true, _) => Grade::Pass,
        (_, true) => Grade::Marginal,
        _ => Grade::Fail,
    }
}

/// A figure of the long run: a percentile of all requests of all runs; for stalls, the median of what the runs saw.
fn pooled(records: &[Record], criterion: &Criterion) -> Option<f64> {
    let quantile = |q: f64, is_sync: bool| {
        let mut all = Hist::new();
        for record in records {
            let stream = record.step(&criterion.step)?.streams.iter().find(|stream| stream.class == criterion.op)?;
            all.merge(if is_sync { stream.sync_part.as_ref()? } else { &stream.lat });
        }
        Some(all.quantile(q) as f64)
    };
    match criterion.metric.as_str() {
        "lat_p99_ns" => quantile(0.99, false),
        "lat_p999_ns" => quantile(0.999, false),
        "sync_p99_ns" => quantile(0.99, true),
        name => {
            let get = metric(name)?.get;
            let of = |record: &Record| get(summarize(record).stream(&criterion.step, criterion.op)?)?.value;
            let mut values: Vec<f64> = records.iter().filter_map(of).collect();
            values.sort_by(f64::total_cmp);
            values.get(values.len() / 2).copied()
        }
    }
}

/// The grades of a class by the figures of the long run; several if one is close to a bound.
fn right_grades(class: &ThresholdClass, records: &[Record]) -> Vec<Grade> {
    let truths: Vec<(f64, &Criterion)> =
        class.criterion.iter().filter_map(|criterion| Some((pooled(records, criterion)?, criterion))).collect();
    let worst = |factor: f64| {
        let grades = truths.iter().map(|(value, criterion)| grade_of(value * factor, criterion));
        grades.max_by_key(|grade| [Grade::Pass, Grade::Marginal, Grade::Fail].iter().position(|one| one == grade))
    };
    let mut grades: Vec<Grade> = [1.0 - NEAR, 1.0, 1.0 + NEAR].into_iter().filter_map(worst).collect();
    grades.dedup();
    grades
}

fn said(report: &Report, class: &str) -> Said {
    let verdict = report.verdicts.iter().find(|verdict| verdict.class == class).expect("the class is judged");
    let of = |judged: &qd1_model::verdict::Judged| {
        let Criterion { step, metric, .. } = &judged.criterion;
        let figure = judged.figure.unwrap_or_default();
        let show = |value: Option<f64>| value.map_or("?".to_owned(), |value| format!("{:.3}", value / 1e6));
        format!(
            "{step}.{metric} {:?} {} [{}..{}] {}",
            judged.grade,
            show(figure.value),
            show(figure.low),
            show(figure.high),
            judged.why
        )
    };
    Said { grade: verdict.grade, line: verdict.judged.iter().map(of).collect::<Vec<_>>().join("; ") }
}

/// `count` runs of each disk.
#[must_use]
pub fn study(cell: &Cell, effort: Effort, seeds: Seeds, count: u64) -> Vec<Row> {
    let (planned, thresholds) = (planned(effort), thresholds());
    let records = each(0..count, |number| measured(cell, &planned, seeds.seed(number) ^ 0x0007_0000_0000));
    let of_class = |class: &'static str| {
        let criteria = thresholds.class.iter().find(|one| one.name == class).expect("the class ships");
        let right = right_grades(criteria, &records);
        let mut given = BTreeMap::new();
        let (mut are_right, mut example) = (0, String::new());
        for record in &records {
            let Said { grade, line } = said(&analyse(record.clone(), &thresholds), class);
            *given.entry(format!("{grade:?}")).or_insert(0) += 1;
            if right.contains(&grade) {
                are_right += 1;
            } else {
                example = line;
            }
        }
        Row { cell: cell.name.clone(), class, right, given, runs: records.len(), are_right, example }
    };
    CLASSES.map(of_class).into()
}

/// The table.
pub fn table(seeds: Seeds, count: u64, is_verbose: bool) -> String {
    let mut text = format!("verdicts: {count} checks and {count} quick ones of each disk, {seeds:?} seeds\n");
    for effort in [Effort::Default, Effort::Quick] {
        let _ = writeln!(text, "  {effort:?}");
        for cell in cells() {
            for row in study(&cell, effort, seeds, count) {
                let given: Vec<String> = row.given.iter().map(|(grade, runs)| format!("{runs} {grade}")).collect();
                let _ = writeln!(
                    text,
                    "  {:<28}{:<16}{:>3} of {} right ({:?}): {}",
                    row.cell,
                    row.class,
                    row.are_right,
                    row.runs,
                    row.right,
                    given.join(", ")
                );
                if is_verbose && !row.example.is_empty() {
                    let _ = writeln!(text, "      {}", row.example);
                }
            }
        }
    }
    text
}
