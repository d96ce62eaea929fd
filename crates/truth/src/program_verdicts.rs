//! Verdicts compared with what programs felt on the same disk.
//!
//! `cargo xtask truth --programs FILE` runs `qd1 check`, PostgreSQL, SQLite and an etcd cluster of three on randomly
//! drawn simulated disks, and writes a line of JSON for each. From these figures the verdicts are computed again, with
//! the shipped thresholds, and compared with the [`OBJECTIVES`] of the programs. Disks of two sets of seeds are kept
//! separate: thresholds are set with one and tested with the other.

use std::fmt::Write as _;
use std::io::{self, Read};

use flate2::read::GzDecoder;
use qd1_analysis::judge;
use qd1_model::environment::Environment;
use qd1_model::op::{Ended, OpClass};
use qd1_model::{Bytes, Estimate, Grade, Hist, StepSummary, StreamSummary, Subject, Summary, Thresholds};
use serde::Deserialize;
use statrs::distribution::{Beta, ContinuousCDF as _};

use crate::{Seeds, suite};

/// The shipped thresholds.
const THRESHOLDS: &str = include_str!("../../suites/src/thresholds.toml");
/// What was measured; gzipped lines of JSON.
const DISKS: &[u8] = include_bytes!("program_verdicts.jsonl.gz");
/// The first seed of the disks used to test thresholds; those before it were used to set them.
const UNSEEN: u64 = 2000;

/// A disk: what a check measured of it, and what programs felt on it.
#[derive(Deserialize)]
pub struct Disk {
    /// Seed it was drawn from.
    pub seed: u64,
    figures: Vec<Measured>,
    /// PostgreSQL's read-write load, ten clients, each as fast as it is answered.
    pub postgres: Load,
    /// Commits and little else, likewise.
    pub postgres_commits: Load,
    /// The read-write load at 50 transactions a second, timed from when each was due.
    pub postgres_at_own_times: Load,
    /// SQLite with a log, one commit per row.
    pub sqlite_wal: Load,
    /// Three members on disks with the same law, 100 puts a second, timed from when each was due.
    pub etcd: Puts,
}

/// One figure of a check.
#[derive(Deserialize)]
struct Measured {
    step: String,
    op: OpClass,
    metric: String,
    figure: Ends,
}

/// A figure and its interval.
#[derive(Deserialize)]
struct Ends {
    value: Option<f64>,
    low: Option<f64>,
    high: Option<f64>,
}

/// What the clients of a program waited for; it may not have run at all.
#[derive(Deserialize)]
pub struct Load {
    #[serde(default)]
    lat: Option<Hist>,
}

impl Load {
    /// Latency that this share of the requests stays within, ns; infinite where the program did not run.
    fn quantile_ns(&self, q: f64) -> f64 {
        self.lat.as_ref().map_or(f64::INFINITY, |lat| lat.quantile(q) as f64)
    }
}

/// What the clients of an etcd cluster waited for; absent where it did not start.
#[derive(Deserialize)]
pub struct Puts {
    #[serde(default)]
    max_ns: Option<f64>,
    #[serde(default)]
    p99_ns: Option<f64>,
    #[serde(default)]
    failed: u64,
    #[serde(default)]
    leader_changes: f64,
}

/// What people expect from the programs of a class.
pub struct Objective {
    /// Class of `thresholds.toml`.
    pub class: &'static str,
    /// In words.
    pub wanted: &'static str,
    is_met: fn(&Disk) -> bool,
    curves: &'static [Curve],
}

/// What a program felt, as a function of what the check measured.
struct Curve {
    /// The program's latency, ns.
    title: &'static str,
    felt: fn(&Disk) -> f64,
    /// Step and metric of the check.
    by: (&'static str, &'static str),
}

const MS: f64 = 1e6;

/// One for each class whose programs were run. The time bounds are a choice: 0.5 s is the slowest put that etcdctl's
/// own `check perf` accepts (its other rules are for other loads), and 100 ms is what people perceive as instantaneous
/// (Nielsen, Usability Engineering, 1993, chapter 5).
pub const OBJECTIVES: [Objective; 2] = [
    Objective {
        class: "etcd",
        wanted: "at 100 puts a second, none fails or takes longer than 0.5 s, and the leader does not change",
        is_met: |disk| {
            let slowest_ns = disk.etcd.max_ns.unwrap_or(f64::INFINITY);
            slowest_ns <= 500.0 * MS && disk.etcd.failed == 0 && disk.etcd.leader_changes == 0.0
        },
        curves: &[Curve {
            title: "p99 of puts",
            felt: |disk| disk.etcd.p99_ns.unwrap_or(f64::INFINITY),
            by: ("wal", "sync_p99_ns"),
        }],
    },
    Objective {
        class: "database",
        wanted: "99 % of the transactions of ten clients of PostgreSQL (read-write; commits alone) and of SQLite's commits \
                 take at most 100 ms, and so do 95 % of PostgreSQL's in an open loop, from when they were due",
        is_met: |disk| {
            let loads = [&disk.postgres, &disk.postgres_commits, &disk.sqlite_wal];
            let slowest_ns = loads.map(|load| load.quantile_ns(0.99)).into_iter().fold(0.0, f64::max);
            slowest_ns.max(disk.postgres_at_own_times.quantile_ns(0.95)) <= 100.0 * MS
        },
        curves: &[
            Curve {
                title: "PostgreSQL, read-write: p99",
                felt: |disk| disk.postgres.quantile_ns(0.99),
                by: ("commit4", "lat_p99_ns"),
            },
            Curve {
                title: "PostgreSQL, open loop: p95",
                felt: |disk| disk.postgres_at_own_times.quantile_ns(0.95),
                by: ("commit4", "lat_p99_ns"),
            },
            Curve {
                title: "PostgreSQL, commits alone: p99",
                felt: |disk| disk.postgres_commits.quantile_ns(0.99),
                by: ("commit4", "lat_p99_ns"),
            },
            Curve {
                title: "SQLite: p99",
                felt: |disk| disk.sqlite_wal.quantile_ns(0.99),
                by: ("commit1", "lat_p99_ns"),
            },
        ],
    },
];

impl Disk {
    /// What the check measured, as the analysis sums up a run.
    fn summary(&self) -> Summary {
        let mut steps: Vec<StepSummary> = Vec::new();
        for Measured { step, op, metric, figure } in &self.figures {
            let at = steps.iter().position(|known| known.name == *step).unwrap_or_else(|| {
                steps.push(empty_step(step));
                steps.len() - 1
            });
            let streams = &mut steps[at].streams;
            let at = streams.iter().position(|known| known.class == *op).unwrap_or_else(|| {
                streams.push(empty_stream(*op));
                streams.len() - 1
            });
            let Ends { value, low, high } = *figure;
            let stream = &mut streams[at];
            let estimate = Estimate { value, low, high, ..Estimate::default() };
            match metric.as_str() {
                "lat_p50_ns" => stream.lat_p50_ns = estimate,
                "lat_p99_ns" => stream.lat_p99_ns = estimate,
                "lat_p999_ns" => stream.lat_p999_ns = estimate,
                "iops" => stream.iops = estimate,
                "sync_p99_ns" => stream.sync_p99_ns = Some(estimate),
                "stall_share" => stream.stall_share = Some(estimate),
                "stall_longest_ns" => stream.stall_longest_ns = Some(estimate),
                _ => {}
            }
        }
        Summary { steps }
    }

    /// The grade of a class.
    pub fn grade(&self, thresholds: &Thresholds, class: &str) -> Grade {
        let record = suite::record("check", Subject::Check, Bytes::mib(256), Environment::default());
        let verdicts = judge(&record, &self.summary(), &[], thresholds);
        verdicts.into_iter().find(|verdict| verdict.class == class).map_or(Grade::NotResolved, |verdict| verdict.grade)
    }

    fn figure(&self, step: &str, metric: &str) -> Option<f64> {
        self.figures.iter().find(|one| one.step == step && one.metric == metric)?.figure.value
    }
}

fn empty_step(name: &str) -> StepSummary {
    StepSummary {
        name: name.to_owned(),
        title: String::new(),
        engine: String::new(),
        runtime_ns: 0,
        ended: Ended::Time,
        errors: 0,
        streams: Vec::new(),
        background: Vec::new(),
    }
}

fn empty_stream(class: OpClass) -> StreamSummary {
    let absent = Estimate::default();
    StreamSummary {
        class,
        ios: 0,
        iops: absent,
        bytes_per_second: absent,
        lat_mean_ns: absent,
        lat_p50_ns: absent,
        lat_p99_ns: absent,
        lat_p999_ns: absent,
        lat_p9999_ns: absent,
        lat_max_ns: 0,
        sync_p50_ns: None,
        sync_p99_ns: None,
        stall_longest_ns: None,
        stall_share: None,
        without_waits: None,
        tail: None,
    }
}

/// Grades in the order of the table.
const GRADES: [Grade; 4] = [Grade::Pass, Grade::Marginal, Grade::NotResolved, Grade::Fail];

/// How often each of [`GRADES`] was given to disks on which an objective was met or missed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    /// Where it was met.
    pub met: [u32; GRADES.len()],
    /// Where it was missed.
    pub missed: [u32; GRADES.len()],
}

/// Counts the grades of one class.
pub fn counts(disks: &[Disk], thresholds: &Thresholds, objective: &Objective) -> Counts {
    let mut counts = Counts::default();
    for disk in disks {
        let grade = disk.grade(thresholds, objective.class);
        let at = GRADES.iter().position(|known| *known == grade).expect("all grades are listed");
        let row = if (objective.is_met)(disk) { &mut counts.met } else { &mut counts.missed };
        row[at] += 1;
    }
    counts
}

/// The shipped thresholds.
pub fn thresholds() -> Thresholds {
    toml::from_str(THRESHOLDS).expect("the thresholds are TOML, or the application's tests fail")
}

/// Disks of one set of seeds, in their order.
///
/// # Errors
/// When the lines are not those of a campaign.
pub fn disks(seeds: Seeds) -> io::Result<Vec<Disk>> {
    read(&mut GzDecoder::new(DISKS), seeds)
}

fn read(lines: &mut dyn Read, seeds: Seeds) -> io::Result<Vec<Disk>> {
    let mut text = String::new();
    lines.read_to_string(&mut text)?;
    let mut disks = text.lines().map(serde_json::from_str).collect::<Result<Vec<Disk>, _>>()?;
    disks.retain(|disk| (disk.seed < UNSEEN) == (seeds == Seeds::Tuning));
    // If a disk has several lines, the last one counts.
    disks.reverse();
    disks.sort_by_key(|disk| disk.seed);
    disks.dedup_by_key(|disk| disk.seed);
    Ok(disks)
}

/// Bounds of the bands in which disks are shown, ms.
const BANDS: [f64; 8] = [0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, f64::INFINITY];

/// The verdicts compared with the objectives, and what the programs felt as a function of what the check measured.
///
/// # Panics
/// When the stored campaign cannot be read, which a test would have shown.
pub fn table(seeds: Seeds) -> String {
    let (disks, thresholds) = (disks(seeds).expect("the campaign is kept as it was written"), thresholds());
    let mut text = format!("program-verdicts: {} simulated disks, {seeds:?} seeds\n", disks.len());
    for objective in &OBJECTIVES {
        if disks.is_empty() {
            continue;
        }
        let counts = counts(&disks, &thresholds, objective);
        let _ = writeln!(text, "  {}: {}", objective.class, objective.wanted);
        let _ = writeln!(text, "    {:22}{:>6}{:>10}{:>14}{:>6}", "", "pass", "marginal", "not resolved", "fail");
        for (name, row) in [("met", counts.met), ("missed", counts.missed)] {
            let name = format!("{name} on {}", row.iter().sum::<u32>());
            let _ = writeln!(text, "    {name:22}{:>6}{:>10}{:>14}{:>6}", row[0], row[1], row[2], row[3]);
        }
        let shown = |wrong: u32, row: &[u32]| {
            let all = row.iter().sum::<u32>();
            format!("{wrong} of {all}, at most {:.0} % with 95 % confidence", 100.0 * at_most(wrong, all))
        };
        let passed = shown(counts.missed[0], &counts.missed);
        let _ = writeln!(text, "    pass where missed: {passed} (target 5)");
        let _ = writeln!(text, "    fail where met: {} (target 10)", shown(counts.met[3], &counts.met));
        objective.curves.iter().for_each(|of| curve(&mut text, &disks, of));
    }
    text
}

/// Upper limit of a share of which `wrong` of `all` were seen, with a confidence of 95 % (Clopper and Pearson 1934).
fn at_most(wrong: u32, all: u32) -> f64 {
    let (wrong, all) = (f64::from(wrong), f64::from(all));
    if wrong >= all { 1.0 } else { Beta::new(wrong + 1.0, all - wrong).map_or(1.0, |beta| beta.inverse_cdf(0.95)) }
}

/// What was felt on the disks of each band: how many disks, and the least, the median and the most.
fn curve(text: &mut String, disks: &[Disk], of: &Curve) {
    let (step, metric) = of.by;
    let _ = writeln!(text, "    {:34}{:>6}  {}", format!("{step} {metric}"), "disks", of.title);
    let mut line = |title: &str, band: &[&Disk]| {
        let mut felt: Vec<f64> = band.iter().map(|disk| (of.felt)(disk) / MS).collect();
        felt.sort_by(f64::total_cmp);
        if let (Some(least), Some(most)) = (felt.first(), felt.last()) {
            let median = felt[felt.len() / 2];
            let _ = writeln!(text, "    {title:34}{:>6}  {least:.1}, {median:.1}, {most:.1} ms", felt.len());
        }
    };
    let mut low = 0.0;
    for high in BANDS {
        let is_in = |disk: &&Disk| disk.figure(step, metric).is_some_and(|ns| ns > low * MS && ns <= high * MS);
        let title = if high.is_finite() { format!("{low} to {high} ms") } else { format!("beyond {low} ms") };
        line(&title, &disks.iter().filter(is_in).collect::<Vec<_>>());
        low = high;
    }
    line("not resolved", &disks.iter().filter(|disk| disk.figure(step, metric).is_none()).collect::<Vec<_>>());
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The claims of docs/verdicts.md, of each set of sixty disks: what was measured of them is kept, what is judged by
    /// changes with the analysis and the thresholds.
    #[test]
    fn verdicts_seldom_contradict_what_programs_felt() {
        let thresholds = thresholds();
        for seeds in [Seeds::Tuning, Seeds::Table] {
            let disks = disks(seeds).unwrap();
            assert_eq!(disks.len(), 60, "{seeds:?}");
            for objective in &OBJECTIVES {
                let counts = counts(&disks, &thresholds, objective);
                let (met, missed) = (counts.met.iter().sum::<u32>(), counts.missed.iter().sum::<u32>());
                assert!(met >= 30 && missed >= 10, "{seeds:?} {}: {counts:?}", objective.class);
                assert!(20 * counts.missed[0] <= missed, "{seeds:?} {}: {counts:?}", objective.class);
                // etcd's bounds come from its documentation, and are stricter than a light load needs.
                let is_strict = objective.class == "etcd";
                let failed_max = if is_strict { met / 3 } else { met / 10 };
                assert!(counts.met[3] <= failed_max, "{seeds:?} {}: {counts:?}", objective.class);
                // A verdict that is never given is never wrong.
                let passed_min = if is_strict { met / 5 } else { met / 2 };
                assert!(counts.met[0] >= passed_min, "{seeds:?} {}: {counts:?}", objective.class);
                assert!(counts.missed[3] >= missed / 3, "{seeds:?} {}: {counts:?}", objective.class);
            }
        }
    }

    #[test]
    fn of_no_wrong_verdict_in_59_five_percent_may_be_wrong() {
        assert!((at_most(0, 59) - 0.0495).abs() < 1e-3, "{}", at_most(0, 59));
        assert_eq!(at_most(3, 3), 1.0);
    }
}
