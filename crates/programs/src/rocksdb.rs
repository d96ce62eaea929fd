//! `qd1 app rocksdb`: RocksDB's db_bench, with its own figures and its own histogram of latencies.
//!
//! Each benchmark is a separate process. Fill benchmarks begin with an empty database, as in db_bench, and write all
//! keys; the others use the existing database, for a given time.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};
use qd1_clock as clock;
use qd1_model::Bytes;
use qd1_model::op::Ended;
use qd1_model::plan::StepPlan;
use qd1_model::plan::program::Program;
use qd1_model::record::program::{AppStep, AppUnit, Buckets, Counter, Setting};

use crate::find;
use crate::options::RocksdbOptions;
use crate::program::{Driver, Loaded, Site};
use crate::text::{number, number_after};
use qd1_runner::watch::Watch;
use qd1_system::child::{self, last_lines};
use qd1_system::scratch::Scratch;

/// Bytes of a key, db_bench's default.
const KEY: u64 = 16;

/// RocksDB with its options.
pub struct Rocksdb {
    options: RocksdbOptions,
    file: PathBuf,
    dir: Option<Scratch>,
}

impl Rocksdb {
    /// Creates the driver.
    pub fn new(options: RocksdbOptions) -> Self {
        Self { options, file: PathBuf::new(), dir: None }
    }

    fn args(&self, benchmark: &str, db: &Path, seed: u64) -> Vec<String> {
        let options = &self.options;
        let mut args = vec![
            format!("--db={}", db.display()),
            format!("--benchmarks={benchmark}"),
            format!("--num={}", options.num),
            format!("--value_size={}", options.value_size.0),
            format!("--seed={seed}"),
            "--histogram=1".to_owned(),
            "--threads=1".to_owned(),
        ];
        if !benchmark.starts_with("fill") {
            args.push("--use_existing_db=1".to_owned());
        }
        if !writes_all_keys(benchmark) {
            args.push(format!("--duration={}", options.runtime_ns.div_ceil(1_000_000_000).max(1)));
        }
        args
    }
}

/// Returns true if a benchmark ends after all keys are written, not after its time.
fn writes_all_keys(benchmark: &str) -> bool {
    benchmark.starts_with("fill") && !benchmark.contains("sync")
}

impl Driver for Rocksdb {
    fn program(&self) -> Program {
        Program::Rocksdb
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.options.path)
    }

    fn steps(&self) -> Vec<StepPlan> {
        let step = |benchmark: &String| {
            let (num, value) = (self.options.num, self.options.value_size);
            let title = format!("db_bench {benchmark}, {num} keys with values of {value}");
            crate::program::step(Program::Rocksdb, benchmark.clone(), title, 1, 0, self.options.runtime_ns)
        };
        let mut names = self.options.benchmarks.clone();
        names.dedup();
        names.iter().map(step).collect()
    }

    fn space(&self) -> Bytes {
        // Levels and their compaction take up to twice the data, besides the log.
        Bytes(u64::from(self.options.num) * (self.options.value_size.0 + KEY) * 2 + (512 << 20))
    }

    fn check(&mut self) -> Result<()> {
        let odd = |name: &&String| name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric());
        if let Some(name) = self.options.benchmarks.iter().find(odd) {
            bail!(qd1_model::Problem::usage(format!("--benchmarks: {name:?} is not a benchmark of db_bench")));
        }
        self.file = find::needed("db_bench", &find::path_dirs(), "rocksdb-tools")?;
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, _watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        self.dir = Some(site.scratch()?);
        let output = child::Program::new(&self.file, &[&"--version"]).output(site.cancel).unwrap_or_default();
        let version = output.split_whitespace().find(|word| word.starts_with(|c: char| c.is_ascii_digit()));
        let settings = [("num", self.options.num.to_string()), ("value_size", self.options.value_size.0.to_string())];
        let setting = |(name, value): (&str, String)| Setting { name: name.to_owned(), value };
        Ok((version.unwrap_or_default().to_owned(), settings.map(setting).to_vec()))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, _watch: &mut dyn Watch) -> Result<Loaded> {
        let dir = self.dir.as_ref().context("the database's directory has not been created")?;
        let args = self.args(&step.name, &dir.path().join("db"), site.seed >> 1);
        let mut program = child::Program::new(&self.file, &[]);
        program.args = args.into_iter().map(Into::into).collect();
        let begin_ns = clock::now_ns();
        let output = program.output(site.cancel)?;
        let runtime_ns = clock::now_ns() - begin_ns;
        let Some(app) = app_step(&step.name, &output) else {
            bail!("db_bench reported no figures for {}: {}", step.name, last_lines(&output));
        };
        let ended = if writes_all_keys(&step.name) { Ended::Done } else { Ended::Time };
        Ok(Loaded { runtime_ns, ended, app, ..Loaded::default() })
    }

    fn end(&mut self) -> Result<()> {
        self.dir = None;
        Ok(())
    }
}

/// Reads its line of figures, `fillsync : 161.257 micros/op 6200 ops/sec 1.129 seconds 6999 operations; 2.5 MB/s`, and
/// the histogram below it.
fn app_step(benchmark: &str, output: &str) -> Option<AppStep> {
    let named = |line: &&str| line.split(':').next().is_some_and(|name| name.trim() == benchmark);
    let line = output.lines().find(|line| named(line) && line.contains("micros/op"))?;
    let mut reported = Vec::new();
    let before = |mark: &str| {
        line.split(mark).next().filter(|_| line.contains(mark))?.split_whitespace().next_back()?.parse().ok()
    };
    let mut figure = |name: &str, unit, value: Option<f64>| {
        reported.extend(value.map(|value| Counter::new(name, unit, value)));
    };
    figure("operations", AppUnit::PerSecond, before(" ops/sec"));
    figure("throughput", AppUnit::BytesPerSecond, before(" MB/s").map(|mib: f64| mib * f64::from(1 << 20)));
    figure("latency average", AppUnit::Ns, before(" micros/op").map(|us: f64| us * 1e3));
    let below = output.split_once(line)?.1;
    for (name, mark) in [("P50", "P50: "), ("P99", "P99: "), ("P99.9", "P99.9: "), ("P99.99", "P99.99: ")] {
        figure(name, AppUnit::Ns, number_after(below, mark).map(|us| us * 1e3));
    }
    figure("slowest", AppUnit::Ns, number_after(below, "Max: ").map(|us| us * 1e3));
    let mut counters = Vec::new();
    counters.extend(before(" operations").map(|count| Counter::new("operations", AppUnit::Count, count)));
    let buckets = buckets(below).into_iter().collect();
    Some(AppStep { reported, counters, buckets, ..AppStep::default() })
}

/// Reads lines like `(     110,     170 ]     2384  34.062%`: bounds in microseconds; db_bench leaves out empty
/// buckets.
fn buckets(output: &str) -> Option<Buckets> {
    let row = |line: &str| {
        let (bounds, rest) = line.trim_start_matches(['(', '[']).split_once(']')?;
        let (low, high) = bounds.split_once(',')?;
        Some((number(low)? as u64 * 1000, number(high)? as u64 * 1000, number(rest)? as u64))
    };
    let mut buckets = Buckets { name: "latency".to_owned(), bounds_ns: Vec::new(), counts: Vec::new(), sum_ns: 0 };
    let is_row = |line: &&str| line.starts_with(['(', '[']);
    let (mut count, mut mean_us) = (0.0, 0.0);
    for line in output.lines() {
        count = number_after(line, "Count: ").unwrap_or(count);
        mean_us = number_after(line, "Average: ").unwrap_or(mean_us);
    }
    for (low, high, count) in output.lines().filter(is_row).filter_map(row) {
        if buckets.bounds_ns.last().is_none_or(|last| *last < low) && low > 0 {
            buckets.bounds_ns.push(low);
            buckets.counts.push(0);
        }
        buckets.bounds_ns.push(high);
        buckets.counts.push(count);
    }
    buckets.counts.push(0);
    buckets.sum_ns = (count * mean_us * 1e3) as u64;
    (!buckets.bounds_ns.is_empty()).then_some(buckets)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "DB path: [/x]\n\
        fillsync     :     161.257 micros/op 6200 ops/sec 1.129 seconds 6999 operations;    2.5 MB/s (5 ops)\n\
        Microseconds per write:\nCount: 100 Average: 161.3076  StdDev: 274.43\nMin: 82  Median: 116.6820  Max: 11476\n\
        Percentiles: P50: 116.68 P75: 160.72 P99: 991.07 P99.9: 4025.13 P99.99: 11130.41\n------\n\
        (      76,     110 ]       46  46.207%  46.207% #########\n\
        (     170,     250 ]       54  34.062%  80.269% #######\n";

    #[test]
    fn its_line_and_its_histogram_are_read() {
        let app = app_step("fillsync", OUTPUT).unwrap();
        assert_eq!((app.reported("operations"), app.reported("latency average")), (Some(6200.0), Some(161_257.0)));
        assert_eq!((app.reported("P99"), app.reported("slowest")), (Some(991_070.0), Some(11_476_000.0)));
        assert_eq!(app.counter("operations"), Some(6999.0));
        let buckets = &app.buckets[0];
        assert_eq!(buckets.bounds_ns, [76_000, 110_000, 170_000, 250_000]);
        assert_eq!(buckets.counts, [0, 46, 0, 54, 0]);
        assert!(app_step("readrandom", OUTPUT).is_none(), "another benchmark's line is not read");
    }
}
