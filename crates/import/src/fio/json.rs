//! fio's JSON, from `--output-format=json` or `json+`, in any nesting: on its own, several documents in a row, in a
//! list, inside another tool's JSON, or after other text.

use qd1_model::order::Order as _;
use std::collections::HashMap;

use qd1_model::OpClass;
use qd1_model::figure::QUANTILES;
use qd1_model::measured::{Aspect, Circumstance, Does, Measured, MeasuredStep};
use serde_json::{Map, Value};

use super::job::{Job, Part};
use super::jobs::{Jobs, SEVERAL};
use super::options::Options;
use crate::figures::{self, NO_TIMES, Samples};
use crate::gathered::{Gathered, TooMuch, note, short};

/// The directions of a job; with `unified_rw_reporting`, one for all.
const DIRECTIONS: [(&str, OpClass); 4] =
    [("read", OpClass::Read), ("write", OpClass::Write), ("trim", OpClass::Trim), ("mixed", OpClass::Mixed)];
/// How many levels of nesting are searched for fio's documents.
const DEPTH_MAX: usize = 8;
/// How far apart the starts of two documents of one run may appear, s: fio rounds the elapsed time.
const SAME_START_S: f64 = 1.6;
/// How far a job's runtime may lag behind the clock from one report to the next, s.
const FURTHER_S: f64 = 0.6;

/// One fio report.
struct Report {
    times: Times,
    run: Measured,
}

/// The time of a report, s.
#[derive(Clone, Copy)]
struct Times {
    started: f64,
    /// Wall clock at its end.
    stamp: f64,
    /// The longest runtime of its jobs.
    runtime: f64,
}

impl Times {
    /// Whether it is a later report of the same run: one that began at the same time and has advanced by the elapsed
    /// time.
    fn go_on(self, earlier: Self) -> bool {
        let further = (self.stamp - earlier.stamp) - (self.runtime - earlier.runtime);
        (self.started - earlier.started).abs() < SAME_START_S && self.stamp > earlier.stamp && further.abs() < FURTHER_S
    }
}

/// The runs in JSON documents. Documents with other jobs belong to one run (VPS-Disk-Latency-Bench), later ones of the same
/// start replace earlier ones (`--status-interval`), and the same jobs at another time are another run.
#[derive(Default)]
pub(crate) struct Runs {
    found: Gathered,
    /// The last run's steps, by the names of their jobs.
    known: HashMap<String, Vec<Known>>,
}

/// A reported step.
struct Known {
    name: String,
    does: Option<Does>,
    times: Times,
}

impl Runs {
    /// Adds the reports in a document.
    pub(crate) fn add(&mut self, document: &Value) -> Result<(), TooMuch> {
        let mut reports = Vec::new();
        find_reports(document, 0, &mut reports);
        reports.into_iter().try_for_each(|report| self.report(read(report)?))
    }

    fn report(&mut self, Report { times, mut run }: Report) -> Result<(), TooMuch> {
        let steps = std::mem::take(&mut run.steps);
        let of = |step: &MeasuredStep| self.known.get(&step.name)?.iter().find(|known| known.does == step.does);
        let known = steps.iter().find_map(of).map(|known| known.times);
        if self.found.is_empty() || known.is_some_and(|earlier| !times.go_on(earlier)) {
            self.found.begin(run)?;
            self.known.clear();
        } else if let Some(last) = self.found.last().filter(|_| known.is_some()) {
            note(&mut last.missing, SEVERAL);
        }
        for mut step in steps {
            let all = self.known.entry(step.name.clone()).or_default();
            let name = match all.iter_mut().find(|known| known.does == step.does) {
                Some(known) => {
                    known.times = times;
                    known.name.clone()
                }
                // A step of the same name that does something else is another test.
                None => {
                    let name = if all.is_empty() { step.name } else { format!("{}#{}", step.name, all.len() + 1) };
                    all.push(Known { name: name.clone(), does: step.does, times });
                    name
                }
            };
            step.name = name;
            self.found.replace(step)?;
        }
        Ok(())
    }

    /// Returns them; `is_cut` says that the text ended within a report.
    pub(crate) fn gathered(mut self, is_cut: bool) -> Gathered {
        if let Some(last) = self.found.last().filter(|_| is_cut) {
            note(&mut last.missing, "the file ends in the middle of a report, which is not included");
        }
        self.found
    }
}

fn find_reports<'a>(value: &'a Value, depth: usize, found: &mut Vec<&'a Map<String, Value>>) {
    match value {
        _ if depth > DEPTH_MAX => {}
        Value::Object(map) if is_report(map) => found.push(map),
        Value::Object(map) => map.values().for_each(|inner| find_reports(inner, depth + 1, found)),
        Value::Array(list) => list.iter().for_each(|inner| find_reports(inner, depth + 1, found)),
        _ => {}
    }
}

/// Its jobs; with several hosts (`--client`) they have a different key.
fn jobs_of(map: &Map<String, Value>) -> Option<&[Value]> {
    let list = |key: &str| map.get(key).and_then(Value::as_array).map(Vec::as_slice);
    list("jobs").or_else(|| list("client_stats"))
}

fn is_report(map: &Map<String, Value>) -> bool {
    let has_directions = |job: &Value| {
        let is_part = |(key, _): &(&str, OpClass)| job.get(key).is_some_and(Value::is_object);
        DIRECTIONS.iter().any(is_part) && job.get("jobname").is_some()
    };
    jobs_of(map).is_some_and(|jobs| jobs.iter().any(has_directions))
}

/// Reads one document.
fn read(report: &Map<String, Value>) -> Result<Report, TooMuch> {
    let version = report.get("fio version").and_then(Value::as_str).unwrap_or("fio, version not stated");
    let jobs = jobs_of(report).unwrap_or_default();
    let elapsed_s = jobs.iter().map(|job| number(job, "elapsed")).fold(0.0, f64::max);
    let stamp_s = match report.get("timestamp_ms").and_then(Value::as_f64) {
        Some(ms) => ms / 1e3,
        None => report.get("timestamp").and_then(Value::as_f64).unwrap_or(0.0),
    };
    let started_s = stamp_s - elapsed_s;
    let global = report.get("global options");
    let mut missing = vec![NO_TIMES.to_owned()];
    let mut found = Jobs::default();
    let is_named = |job: &&Value| job.get("jobname").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    for (at, value) in jobs.iter().filter(is_named).enumerate() {
        let options = Options { job: value.get("job options"), global };
        // All jobs in a document ran at the same time, each as a separate process.
        found.add(Job { pid: Some(at as u64), ..job(value, &options) }, 0)?;
    }
    let steps = found.steps(&mut missing);
    let mut circumstances = Vec::new();
    let sizes = jobs.iter().filter_map(|job| Options { job: job.get("job options"), global }.size("size"));
    if let Some(size) = sizes.max() {
        circumstances.push(Circumstance { aspect: Aspect::Size, value: qd1_model::Bytes(size).to_string() });
    }
    let started_unix_ns = (started_s > 0.0).then_some((started_s * 1e9) as u64);
    let runtimes =
        jobs.iter().flat_map(|job| DIRECTIONS.map(|(key, _)| job.get(key).map_or(0.0, |part| number(part, "runtime"))));
    let runtime_s = runtimes.fold(0.0, f64::max) / 1e3;
    let run = Measured {
        tool: short(version).to_owned(),
        started_unix_ns,
        circumstances,
        steps,
        missing,
        is_without_course: true,
        ..Measured::default()
    };
    Ok(Report { times: Times { started: started_s, stamp: stamp_s, runtime: runtime_s }, run })
}

/// Reads a job.
fn job(job: &Value, options: &Options<'_>) -> Job {
    let text = |key: &str| job.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let syncs = job.get("sync");
    let list = syncs.and_then(|syncs| Latency::of(syncs, "lat")).map(|latency| latency.percentiles());
    Job {
        name: text("jobname"),
        group: number(job, "groupid").to_string(),
        host: text("hostname"),
        does: options.does(),
        engine: options.engine().to_owned(),
        error: number(job, "error").to_string(),
        durable: options.durable(),
        processes: 1,
        numjobs: options.numjobs(),
        parts: parts(job),
        syncs: list.unwrap_or_default(),
        sync_count: syncs.map_or(0, |syncs| number(syncs, "total_ios") as u64),
        ..Job::default()
    }
}

/// Its directions. With `unified_rw_reporting=both` it also has their sum.
fn parts(job: &Value) -> Vec<Part> {
    let all = DIRECTIONS.iter().filter_map(|(key, class)| part(job.get(key)?, *class));
    let (mixed, each): (Vec<Part>, Vec<Part>) = all.partition(|part| part.class == Some(OpClass::Mixed));
    if each.is_empty() { mixed } else { each }
}

fn count(part: &Value) -> u64 {
    let ios = number(part, "total_ios");
    // fio 2 did not have this count.
    if ios > 0.0 { ios as u64 } else { (number(part, "iops") * number(part, "runtime") / 1e3) as u64 }
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).filter(|number| figures::is_plausible(*number)).unwrap_or(0.0)
}

/// Reads a direction of a job; `None` if it did nothing.
fn part(part: &Value, class: OpClass) -> Option<Part> {
    let n = count(part);
    let of = |mean: &str, deviation: &str, count: &str| Samples {
        count: if part.get(count).is_some() { number(part, count) } else { number(part, "runtime") / 500.0 },
        mean: number(part, mean),
        deviation: number(part, deviation),
    };
    let of_bytes_each = number(part, "bw_bytes");
    let (latency, completion) = (Latency::of(part, "lat"), Latency::of(part, "clat"));
    let mut lists = [&latency, &completion].into_iter().flatten().map(Latency::percentiles);
    (n > 0).then(|| Part {
        class: Some(class),
        n,
        iops: number(part, "iops"),
        bytes_per_second: if of_bytes_each > 0.0 { of_bytes_each } else { number(part, "bw") * 1024.0 },
        runtime_ms: number(part, "runtime"),
        bw: of("bw_mean", "bw_dev", "bw_samples"),
        ios: if part.get("iops_mean").is_some() {
            of("iops_mean", "iops_stddev", "iops_samples")
        } else {
            Samples::default()
        },
        // Not measured with `disable_lat` or `gtod_reduce`.
        lat_mean_ns: latency.as_ref().map(|latency| latency.number("mean")).filter(|mean| *mean > 0.0),
        percentiles: lists.find(|list| !list.is_empty()).unwrap_or_default(),
    })
}

/// One of fio's latencies, in ns or, of fio 2, in us.
struct Latency<'a> {
    value: &'a Value,
    scale: f64,
}

impl<'a> Latency<'a> {
    fn of(part: &'a Value, name: &str) -> Option<Self> {
        let units = [("_ns", 1.0), ("_us", 1e3), ("_ms", 1e6), ("", 1e3)];
        units.into_iter().find_map(|(unit, scale)| Some(Self { value: part.get(format!("{name}{unit}"))?, scale }))
    }

    fn number(&self, key: &str) -> f64 {
        number(self.value, key) * self.scale
    }

    /// (percent, ns): the listed ones, and the others from the bins of json+.
    fn percentiles(&self) -> Vec<(f64, f64)> {
        let list = self.value.get("percentile").and_then(Value::as_object);
        let entry = |(percent, value): (&String, &Value)| Some((percent.parse().ok()?, value.as_f64()? * self.scale));
        let listed = list.into_iter().flatten().filter_map(entry).filter(|(_, ns)| figures::is_plausible(*ns));
        let of_bins = QUANTILES.into_iter().zip(self.quantiles()).map(|(q, ns)| (100.0 * q, ns));
        listed.chain(of_bins).collect()
    }

    /// [`QUANTILES`] from the bins of json+, ns; none if there are no bins.
    fn quantiles(&self) -> Vec<f64> {
        let bins = self.value.get("bins").and_then(Value::as_object);
        let entry = |(ns, count): (&String, &Value)| {
            let ns = ns.parse::<f64>().ok().filter(|ns| figures::is_plausible(*ns))?;
            Some((ns * self.scale, count.as_u64().filter(|count| *count > 0)?))
        };
        let mut values: Vec<(f64, u64)> = bins.into_iter().flatten().filter_map(entry).collect();
        values.order_by(|one, other| one.0.total_cmp(&other.0));
        let Some(n) = values.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count)) else {
            return Vec::new();
        };
        let quantile = |q: f64| {
            let rank = (q * n as f64).ceil() as u64;
            let mut below = 0;
            let found = values.iter().find(|(_, count)| {
                below += count;
                below >= rank
            });
            found.or(values.last()).map(|(ns, _)| *ns)
        };
        QUANTILES.into_iter().filter_map(quantile).collect()
    }
}
