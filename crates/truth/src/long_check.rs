//! Does a check over hours describe its day and its hours correctly? Days of changing disks, each with its own truth.
//!
//! The figures of a long check describe the day they were sampled from. So here each day is generated first, with a
//! level for each second, from which the true distribution of the day and of each of its hours follows by summation.
//! Then the product's schedule visits it, and the product's analysis reports what it saw.

use std::fmt::Write as _;

use qd1_analysis::analyse;
use qd1_model::environment::Environment;
use qd1_model::hist::{CoarseHist, Hist};
use qd1_model::op::OpClass;
use qd1_model::plan::LongCheckPlan;
use qd1_model::plan::criterion::Criterion;
use qd1_model::record::long_check::{LongCheckRecord, RoundRecord, Use};
use qd1_model::record::{Interval, IntervalStream, Stream};
use qd1_model::spec::{Effort, Job};
use qd1_model::verdict::ThresholdClass;
use qd1_model::{Bytes, Estimate, Grade, Record, Report, Subject, Thresholds};

use statrs::distribution::{ContinuousCDF as _, Normal};

use crate::parallel::each;
use crate::random::Random;
use crate::{Seeds, suite};

/// A day in hours, and the number of rounds that the product plans for it.
const HOURS: usize = 24;
const HOUR_S: usize = 3_600;
const SECOND_NS: u64 = 1_000_000_000;
const ROUNDS: u32 = 372;
/// Length of a visit, ns.
const VISIT_NS: u64 = 200_000_000;
/// Median latency at level 1, ns, and the spread of single requests.
const MEDIAN_NS: f64 = 300e3;
const SIGMA: f64 = 0.3;
/// The only step.
const STEP: &str = "reads";

/// How the level varies over a day.
#[derive(Clone, Copy, Debug)]
enum Level {
    /// Not at all.
    Still,
    /// Logarithm of this standard deviation, remembered for so many seconds (Ornstein-Uhlenbeck).
    Moving { sigma: f64, memory_s: f64 },
    /// With the hour: at night it is this many times as fast as by day.
    Daily { times: f64 },
    /// Slower by a factor, in phases of a given length, for this share of the time.
    Phases { slow_s: f64, share: f64, times: f64 },
}

/// The kinds of days studied.
const DAYS: [(&str, Level); 10] = [
    ("still", Level::Still),
    ("level, 10 s", Level::Moving { sigma: 0.3, memory_s: 10.0 }),
    ("level, 100 s", Level::Moving { sigma: 0.3, memory_s: 100.0 }),
    ("level, 1000 s", Level::Moving { sigma: 0.3, memory_s: 1e3 }),
    ("level, 3 h", Level::Moving { sigma: 0.3, memory_s: 10_800.0 }),
    ("night and day", Level::Daily { times: 3.0 }),
    ("30 s in 300", Level::Phases { slow_s: 30.0, share: 0.1, times: 3.0 }),
    ("300 s in 3000", Level::Phases { slow_s: 300.0, share: 0.1, times: 3.0 }),
    ("1 h in 5", Level::Phases { slow_s: 3_600.0, share: 0.2, times: 3.0 }),
    ("60 s in 6000", Level::Phases { slow_s: 60.0, share: 0.01, times: 10.0 }),
];

/// The figures studied.
const FIGURES: [&str; 5] = ["p50", "p99", "p99.9", "mean", "rate"];

impl Level {
    /// The level in each second of a day.
    fn seconds(self, random: &mut Random) -> Vec<f64> {
        let count = HOURS * HOUR_S;
        match self {
            Self::Still => vec![1.0; count],
            Self::Moving { sigma, memory_s } => {
                let keeps = (-1.0 / memory_s).exp();
                let mut log = sigma * random.normal();
                let mut next = || {
                    log = keeps * log + (1.0 - keeps * keeps).sqrt() * sigma * random.normal();
                    log.exp()
                };
                (0..count).map(|_| next()).collect()
            }
            Self::Daily { times } => {
                let start = random.uniform();
                let angle = |second: usize| (second as f64 / count as f64 + start) * std::f64::consts::TAU;
                (0..count).map(|second| (0.5 * times.ln() * angle(second).sin()).exp()).collect()
            }
            Self::Phases { slow_s, share, times } => {
                let fast_s = slow_s * (1.0 - share) / share;
                let mut is_slow = random.uniform() < share;
                let mut levels = Vec::with_capacity(count);
                while levels.len() < count {
                    let mean_s = if is_slow { slow_s } else { fast_s };
                    let length = (-mean_s * random.uniform().max(1e-12).ln()).ceil() as usize;
                    let end = (levels.len() + length.max(1)).min(count);
                    levels.resize(end, if is_slow { times } else { 1.0 });
                    is_slow = !is_slow;
                }
                levels
            }
        }
    }
}

/// The true figures of some seconds of one request at a time, in the order of [`FIGURES`]: at level f, f times fewer
/// requests, each f times as long.
fn truths(levels: &[f64]) -> [f64; 5] {
    // All levels in a histogram of their logarithms: thousands of equal ones cost no more than one.
    let mut logs: Vec<f64> = levels.iter().map(|level| level.ln()).collect();
    logs.sort_by(f64::total_cmp);
    let groups: Vec<(f64, f64)> = logs
        .chunk_by(|one, next| (one * 500.0).floor() == (next * 500.0).floor())
        .map(|group| {
            let mean = group.iter().sum::<f64>() / group.len() as f64;
            (mean, group.len() as f64 * (-mean).exp())
        })
        .collect();
    let all: f64 = groups.iter().map(|(_, weight)| weight).sum();
    let normal = Normal::standard();
    let quantile = |q: f64| {
        let (mut low, mut high) = (-10.0, 10.0);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            let below: f64 = groups.iter().map(|(log, weight)| weight * normal.cdf((middle - log) / SIGMA)).sum();
            if below < q * all { low = middle } else { high = middle }
        }
        MEDIAN_NS * f64::exp(0.5 * (low + high))
    };
    let mean_at_1 = MEDIAN_NS * (0.5 * SIGMA * SIGMA).exp();
    let mean = mean_at_1 * levels.len() as f64 / all;
    [quantile(0.5), quantile(0.99), quantile(0.999), mean, 1e9 / mean]
}

/// The thresholds for hours: each metric of the step up to a limit.
pub(crate) fn thresholds(limits: &[(&str, f64)]) -> Thresholds {
    let criterion = |(metric, limit): &(&str, f64)| Criterion {
        step: STEP.to_owned(),
        op: OpClass::Read,
        metric: (*metric).to_owned(),
        pass: *limit,
        fail: *limit,
        published: None,
        label: String::new(),
        source: "truth".to_owned(),
    };
    let criterion = limits.iter().map(criterion).collect();
    Thresholds { class: vec![ThresholdClass { name: "truth".to_owned(), title: "truth".to_owned(), criterion }] }
}

/// One and a half times p99 of level 1.
fn limit() -> f64 {
    1.5 * MEDIAN_NS * (SIGMA * 2.326).exp()
}

/// The plan for this many rounds.
pub(crate) fn plan(duration_ns: u64, rounds: u32) -> LongCheckPlan {
    LongCheckPlan { duration_ns, rounds, round_max_ns: SECOND_NS, busy_max_ns: duration_ns / 200 }
}

/// A Record of visits to one step, as the product stores its rounds: `visit` returns the latency of each request in the
/// visit that begins at a given time, ns.
pub(crate) fn record(over: LongCheckPlan, seed: u64, mut visit: impl FnMut(u64) -> Vec<f64>) -> Record {
    let mut record = suite::record("check", Subject::Check, Bytes::gib(1), Environment::default());
    let job: Job = toml::from_str(&format!("name = {STEP:?}\nrw = \"randread\"")).expect("these are keys of a job");
    let mut step = suite::step(&job, Effort::Default, 1 << 30);
    step.visits = over.rounds;
    record.plan.steps.push(step);
    record.plan.over = Some(over);
    record.elapsed_ns = over.duration_ns;
    let mut rounds = Vec::new();
    for number in 0..over.rounds {
        let at_ns = over.at_ns(number, seed);
        let latencies = visit(at_ns);
        let (mut lat, mut coarse) = (Hist::new(), CoarseHist::default());
        let mut sum = 0;
        for latency in &latencies {
            let ns = latency.max(1.0) as u64;
            lat.record(ns);
            coarse.record(ns);
            sum += ns;
        }
        let (ios, class) = (latencies.len() as u64, OpClass::Read);
        let (bytes, lat_max_ns) = (Bytes(4096 * ios), lat.max_ns());
        let interval =
            IntervalStream { class, ios, bytes: bytes.0, lat_sum_ns: sum, lat_max_ns, bins: coarse.sparse() };
        let stream = Stream::of(class, bytes, lat);
        let outcome = qd1_model::record::StepRecord {
            name: STEP.to_owned(),
            direct: true,
            started_ns: at_ns,
            runtime_ns: sum,
            streams: vec![stream],
            intervals: vec![Interval { start_ns: 0, length_ns: sum, streams: vec![interval] }],
            ..Default::default()
        };
        outcome.add_to(&mut record.steps);
        let used = Use { at_ns, busy_ns: sum, written: Bytes(0) };
        rounds.push(RoundRecord { number, used });
    }
    record.over = Some(LongCheckRecord { starts: vec![Use::default()], rounds });
    record
}

/// One day, visited and analysed, and its levels.
fn day(level: Level, seed: u64) -> (Vec<f64>, Report) {
    let mut random = Random::new(seed);
    let levels = level.seconds(&mut random);
    let duration_ns = HOURS as u64 * HOUR_S as u64 * SECOND_NS;
    let visit = |at_ns: u64| {
        let level = levels[(at_ns / SECOND_NS) as usize];
        let mut latencies = Vec::new();
        let mut spent_ns = 0.0;
        while spent_ns < VISIT_NS as f64 {
            let latency = MEDIAN_NS * level * (SIGMA * random.normal()).exp();
            spent_ns += latency;
            latencies.push(latency);
        }
        latencies
    };
    let record = record(plan(duration_ns, ROUNDS), seed, visit);
    let report = analyse(record, &thresholds(&[("lat_p99_ns", limit()), ("lat_mean_ns", limit())]));
    (levels, report)
}

/// How often intervals held, and how often grades of hours were right.
#[derive(Clone, Copy, Debug, Default)]
pub struct Held {
    /// Intervals that could be printed.
    pub all: usize,
    /// Printed with both ends.
    pub printed: usize,
    /// Of these, those that contain the truth.
    pub held: usize,
}

impl Held {
    fn add(&mut self, estimate: Option<Estimate>, truth: f64) {
        self.all += 1;
        let Some((low, high)) = estimate.filter(Estimate::is_resolved).and_then(|one| one.low.zip(one.high)) else {
            return;
        };
        self.printed += 1;
        self.held += usize::from((low..=high).contains(&truth));
    }

    /// Share of the printed intervals that contain the truth; 1 if there are none.
    #[must_use]
    pub fn coverage(&self) -> f64 {
        if self.printed == 0 { 1.0 } else { self.held as f64 / self.printed as f64 }
    }
}

/// The results of many days of one kind.
#[derive(Clone, Debug, Default)]
pub struct Row {
    /// The kind of day.
    pub name: &'static str,
    /// The figures of the day: p50, p99, p99.9, mean, rate.
    pub day: [Held; 5],
    /// p99 and mean of its hours.
    pub hours: [Held; 2],
    /// Hours that passed or failed by p99.
    pub graded: usize,
    /// Of these, those graded wrongly.
    pub wrong: usize,
}

/// `count` days of each kind.
#[must_use]
pub fn study(seeds: Seeds, count: u64) -> Vec<Row> {
    DAYS.iter()
        .map(|(name, level)| {
            let days = each(0..count, |number| day(*level, seeds.seed(number) ^ 0x00DA_1000_0000_0000));
            let mut row = Row { name, ..Row::default() };
            for (levels, report) in &days {
                let stream = report.summary.stream(STEP, OpClass::Read).expect("it was measured");
                let figures =
                    [stream.lat_p50_ns, stream.lat_p99_ns, stream.lat_p999_ns, stream.lat_mean_ns, stream.iops];
                for (held, (figure, truth)) in row.day.iter_mut().zip(figures.into_iter().zip(truths(levels))) {
                    held.add(Some(figure), truth);
                }
                let over = report.part::<qd1_model::long_check::LongCheckSummary>().expect("it is a check over hours");
                for (number, levels) in levels.chunks(HOUR_S).enumerate() {
                    let [_, p99, _, mean, _] = truths(levels);
                    let [of_p99, of_mean] = [0, 1].map(|at: usize| &over.criteria[at].hours[number]);
                    row.hours[0].add(of_p99.figure, p99);
                    row.hours[1].add(of_mean.figure, mean);
                    if matches!(of_p99.grade, Grade::Pass | Grade::Fail) {
                        row.graded += 1;
                        row.wrong += usize::from((of_p99.grade == Grade::Pass) != (p99 <= limit()));
                    }
                }
            }
            row
        })
        .collect()
}

/// The table.
pub fn table(seeds: Seeds, count: u64) -> String {
    let mut text = format!("over: {count} days of each kind, {ROUNDS} rounds each, {seeds:?} seeds\n");
    let _ = writeln!(text, "  % of the printed 95 % intervals that contain the figure of that day or hour (% printed)");
    let titles = FIGURES.iter().map(|figure| format!("{figure:>12}")).collect::<String>();
    let _ = writeln!(text, "  {:<16}{titles}{:>14}{:>12}{:>20}", "", "hour's p99", "mean", "hours graded wrong");
    for row in study(seeds, count) {
        let show = |held: &Held, width: usize| {
            let printed = 100.0 * held.printed as f64 / held.all.max(1) as f64;
            format!("{:>width$}", format!("{:.1} ({printed:.0})", 100.0 * held.coverage()))
        };
        let day: String = row.day.iter().map(|held| show(held, 12)).collect();
        let hours = show(&row.hours[0], 14) + &show(&row.hours[1], 12);
        let wrong = format!("{:.2} % of {}", 100.0 * row.wrong as f64 / row.graded.max(1) as f64, row.graded);
        let _ = writeln!(text, "  {:<16}{day}{hours}{wrong:>20}", row.name);
    }
    text
}
