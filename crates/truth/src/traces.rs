//! The claims of a check over hours, compared with traces of production drives: means over 15 seconds, as published
//! with Perseus (Lu et al., FAST 2023).
//!
//! A gzipped CSV file has the columns `drive` (cluster-host-disk), `seconds`, `latency_us` and more. Each stretch of
//! three hours without a gap stands for the duration of a check: visits at the product's random times see the mean of
//! their 15 seconds, and the product's intervals for each hour and for all three must contain the mean of all. Every
//! third host is held out ([`Seeds::Table`]); the others are for setting rules ([`Seeds::Tuning`]).

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Error, ErrorKind};
use std::path::Path;

use flate2::read::GzDecoder;
use qd1_analysis::analyse;
use qd1_model::{Estimate, Grade, OpClass};
use statrs::distribution::{ContinuousCDF as _, StudentsT};

use crate::Seeds;
use crate::long_check::{plan, record, thresholds};

/// Seconds of a row, of an hour, and of a stretch.
const ROW_S: u64 = 15;
const HOUR_S: u64 = 3_600;
const STRETCH_S: u64 = 3 * HOUR_S;
/// Rounds that the product plans per hour.
const ROUNDS_PER_HOUR: u32 = 15;
/// Requests per visit, whose mean is the row's.
const REQUESTS: usize = 100;
/// Drives that their operators found to be slow, according to the paper.
const SLOW: [&str; 4] = ["A-22-11", "A-25-8", "C-2-1", "C-2-2"];
/// Multiples of a drive's usual latency that serve as limits for an hour.
const LIMITS: [f64; 3] = [0.9, 1.0, 1.1];

/// Rows of one drive: second, and mean latency in us.
type Rows = Vec<(u64, f64)>;

/// Three hours of a drive: the mean latency of every 15 seconds, ns.
type Stretch = Vec<f64>;

/// Reads the file and returns the table.
///
/// # Errors
/// When it cannot be read or has other columns.
pub fn table(path: &Path, seeds: Seeds) -> io::Result<String> {
    let drives = read(path)?;
    let mut hosts: Vec<&str> = drives.keys().map(|drive| host(drive)).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let is_apart = |drive: &str| hosts.iter().position(|one| *one == host(drive)).is_some_and(|at| at % 3 == 2);
    let chosen = |drive: &&String| is_apart(drive) == (seeds == Seeds::Table);
    let part: BTreeMap<&String, &Rows> = drives.iter().filter(|(drive, _)| chosen(drive)).collect();
    let mut text = format!("traces: {} of {} drives, {seeds:?} hosts\n", part.len(), drives.len());
    minutes(&mut text, &part);
    claims(&mut text, &part);
    Ok(text)
}

fn host(drive: &str) -> &str {
    drive.rsplit_once('-').map_or(drive, |(host, _)| host)
}

fn read(path: &Path) -> io::Result<BTreeMap<String, Rows>> {
    let mut drives: BTreeMap<String, Rows> = BTreeMap::new();
    let mut lines = BufReader::new(GzDecoder::new(File::open(path)?)).lines();
    let header = lines.next().transpose()?.unwrap_or_default();
    if !header.starts_with("drive,seconds,latency_us") {
        return Err(Error::new(ErrorKind::InvalidData, "the columns must begin with drive,seconds,latency_us"));
    }
    for line in lines {
        let line = line?;
        let parsed = || {
            let mut fields = line.split(',');
            let drive = fields.next()?.to_owned();
            let seconds: f64 = fields.next()?.parse().ok()?;
            Some((drive, seconds, fields.next()?.parse::<f64>().ok()?))
        };
        let wrong = || Error::new(ErrorKind::InvalidData, format!("not a drive, seconds and a latency: {line:?}"));
        let (drive, seconds, latency_us) = parsed().ok_or_else(wrong)?;
        if latency_us > 0.0 {
            drives.entry(drive).or_default().push((seconds as u64, latency_us));
        }
    }
    Ok(drives)
}

/// The stretches of a drive without a gap.
fn stretches(rows: &Rows) -> Vec<Stretch> {
    let count = (STRETCH_S / ROW_S) as usize;
    rows.chunk_by(|one, next| next.0 - one.0 <= 2 * ROW_S)
        .flat_map(|run| run.chunks_exact(count.min(run.len().max(1))))
        .filter(|run| run.len() >= count * 9 / 10)
        .map(|run| run.iter().map(|(_, us)| us * 1e3).collect())
        .collect()
}

/// How far the mean of a minute is from that of its three hours, and of its drive's two weeks.
fn minutes(text: &mut String, drives: &BTreeMap<&String, &Rows>) {
    let mut of_stretch = Vec::new();
    for (_, rows) in drives.iter().filter(|(drive, _)| !SLOW.contains(&drive.as_str())) {
        for stretch in stretches(rows) {
            let mean = average(&stretch);
            of_stretch.extend(stretch.chunks_exact(4).map(|minute| average(minute) / mean - 1.0));
        }
    }
    of_stretch.sort_by(f64::total_cmp);
    let at = |share: f64| 100.0 * of_stretch[(share * (of_stretch.len() - 1) as f64) as usize];
    let far = of_stretch.iter().filter(|off| off.abs() >= 0.15).count() as f64 / of_stretch.len().max(1) as f64;
    let _ = writeln!(
        text,
        "  a minute's mean latency relative to that of its three hours, {} minutes of drives not known as slow:\n    \
         {:+.0} % at the 5th, {:+.0} % at the 95th percentile; {:.1} % are 15 % or more off",
        of_stretch.len(),
        at(0.05),
        at(0.95),
        100.0 * far
    );
}

fn average(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// How often a 95 % interval, and the same treated as a 90 % interval, holds; and their median ratio of upper to lower
/// limit.
#[derive(Default)]
struct Claims {
    all: usize,
    held_95: usize,
    held_90: usize,
    ratios: Vec<f64>,
}

impl Claims {
    fn add(&mut self, estimate: Estimate, visits: f64, truth: f64) {
        self.all += 1;
        let (Some(value), Some(low), Some(high)) = (estimate.value, estimate.low, estimate.high) else { return };
        self.held_95 += usize::from((low..=high).contains(&truth));
        // Narrower by as much as the t distribution of a sample of this size (see `stats::sample`).
        let t = StudentsT::new(0.0, 1.0, 2.0 * (visits - 1.0) / 3.0).expect("more than one visit");
        let narrower = t.inverse_cdf(0.95) / t.inverse_cdf(0.975);
        let limit = |end: f64| value * (end / value).powf(narrower);
        self.held_90 += usize::from((limit(low)..=limit(high)).contains(&truth));
        self.ratios.push(high / low);
    }

    fn line(&mut self) -> String {
        self.ratios.sort_by(f64::total_cmp);
        let percent = |held: usize| 100.0 * held as f64 / self.all.max(1) as f64;
        let ratio = self.ratios.get(self.ratios.len() / 2).copied().unwrap_or(f64::NAN);
        format!(
            "{} of {} printed; 95 % intervals right in {:.1} %, 90 % intervals in {:.1} %; median upper / lower limit {ratio:.3}",
            self.ratios.len(),
            self.all,
            percent(self.held_95),
            percent(self.held_90)
        )
    }
}

/// The intervals of hours and of three hours, and the grades of hours.
fn claims(text: &mut String, drives: &BTreeMap<&String, &Rows>) {
    let (mut hours, mut days) = (Claims::default(), Claims::default());
    let (mut graded, mut wrong, mut open) = (0u32, 0u32, 0u32);
    for (number, rows) in drives.values().enumerate() {
        let stretches = stretches(rows);
        let all: Vec<f64> = stretches.iter().flat_map(|stretch| stretch.iter().copied()).collect();
        let usual = average(&all);
        for (at, stretch) in stretches.iter().enumerate() {
            let seed = (number as u64) << 32 | at as u64;
            let rounds = 3 * ROUNDS_PER_HOUR;
            let visit = |at_ns: u64| {
                let row = ((at_ns / 1_000_000_000 / ROW_S) as usize).min(stretch.len() - 1);
                vec![stretch[row]; REQUESTS]
            };
            let record = record(plan(STRETCH_S * 1_000_000_000, rounds), seed, visit);
            let limits = LIMITS.map(|times| ("lat_mean_ns", times * usual));
            let report = analyse(record, &thresholds(&limits));
            let stream = report.summary.stream("reads", OpClass::Read).expect("it was measured");
            days.add(stream.lat_mean_ns, f64::from(rounds), average(stretch));
            let over = report.part::<qd1_model::long_check::LongCheckSummary>().expect("it is a check over hours");
            let per_hour = (HOUR_S / ROW_S) as usize;
            for (hour, means) in stretch.chunks(per_hour).enumerate().filter(|(_, part)| part.len() == per_hour) {
                let truth = average(means);
                let of_hour = |limit: usize| &over.criteria[limit].hours[hour];
                hours.add(of_hour(0).figure.unwrap_or_default(), f64::from(ROUNDS_PER_HOUR), truth);
                for (limit, times) in LIMITS.iter().enumerate() {
                    match of_hour(limit).grade {
                        Grade::Pass | Grade::Fail => {
                            graded += 1;
                            let is_met = truth <= times * usual;
                            wrong += u32::from((of_hour(limit).grade == Grade::Pass) != is_met);
                        }
                        _ => open += 1,
                    }
                }
            }
        }
    }
    let _ = writeln!(text, "  mean latency of an hour, {ROUNDS_PER_HOUR} rounds: {}", hours.line());
    let _ = writeln!(text, "  of three hours: {}", days.line());
    let _ = writeln!(
        text,
        "  hours, limits {LIMITS:?} times the drive's mean: {graded} graded, {:.2} % of them wrongly; {open} not resolved",
        100.0 * f64::from(wrong) / f64::from(graded.max(1))
    );
}
