//! fio's JSON, of `--output-format=json` or `json+`, in any nesting: as it is, several documents after each other, in a list,
//! inside another tool's JSON, or behind other text.

use std::collections::HashMap;

use qd1_model::figure::QUANTILES;
use qd1_model::measured::{Aspect, Circumstance, Does, Measured, MeasuredStep, MeasuredStream};
use qd1_model::plan::Rw;
use qd1_model::{Estimate, OpClass};
use serde_json::{Map, Value};

use crate::figures::{self, NO_SPREAD, NO_TIMES, Samples};
use crate::gathered::{Gathered, STEPS_MAX, TooMuch, note, short};

/// Said of commits.
pub(crate) const APART: &str = "fio times writes and their syncs apart: commits have no latency as a whole";
/// Bytes of an option's value that is looked at.
const OPTION_MAX: usize = 1024;
/// Levels of nesting that are looked into for fio's documents.
const DEPTH_MAX: usize = 8;
/// How far apart the starts of two documents of one run may seem, s: fio rounds what has elapsed.
const SAME_START_S: f64 = 1.6;
/// How far a job's runtime may fall behind the clock from one report to the next, s.
const FURTHER_S: f64 = 0.6;

/// One report of fio.
struct Report {
    times: Times,
    run: Measured,
}

/// When a report is from, s.
#[derive(Clone, Copy)]
struct Times {
    started: f64,
    /// Wall clock at its end.
    stamp: f64,
    /// The longest of its jobs' runtimes.
    runtime: f64,
}

impl Times {
    /// Whether it is a later report of the same run: begun at the same time, and further by as much as time has passed.
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
    /// When the last run's steps were reported, by their names.
    times: HashMap<String, Times>,
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
        let known = steps.iter().find_map(|step| self.times.get(&step.name)).copied();
        if self.found.is_empty() || known.is_some_and(|earlier| !times.go_on(earlier)) {
            self.found.begin(run)?;
            self.times.clear();
        } else if let Some(last) = self.found.last().filter(|_| known.is_some()) {
            note(&mut last.missing, "several reports of one run: the last one counts");
        }
        for step in steps {
            self.times.insert(step.name.clone(), times);
            self.found.replace(step)?;
        }
        Ok(())
    }

    /// Returns them; `is_cut` says that the text ended within a report.
    pub(crate) fn gathered(mut self, is_cut: bool) -> Gathered {
        if let Some(last) = self.found.last().filter(|_| is_cut) {
            note(&mut last.missing, "the file ends within a report, which is lost");
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

fn is_report(map: &Map<String, Value>) -> bool {
    let has_directions = |job: &Value| job.get("read").is_some_and(Value::is_object) && job.get("jobname").is_some();
    map.get("jobs").and_then(Value::as_array).is_some_and(|jobs| jobs.iter().any(has_directions))
}

/// Reads one document.
fn read(report: &Map<String, Value>) -> Result<Report, TooMuch> {
    let version = report.get("fio version").and_then(Value::as_str).unwrap_or("fio, version not stated");
    let jobs = report.get("jobs").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let elapsed_s = jobs.iter().map(|job| number(job, "elapsed")).fold(0.0, f64::max);
    let stamp_s = match report.get("timestamp_ms").and_then(Value::as_f64) {
        Some(ms) => ms / 1e3,
        None => report.get("timestamp").and_then(Value::as_f64).unwrap_or(0.0),
    };
    let started_s = stamp_s - elapsed_s;
    let global = report.get("global options");
    let mut missing = vec![NO_TIMES.to_owned()];
    let mut steps: Vec<MeasuredStep> = Vec::new();
    let mut seen: HashMap<String, u32> = HashMap::new();
    let is_named = |job: &&Value| job.get("jobname").and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    for job in jobs.iter().filter(is_named) {
        if steps.len() == STEPS_MAX {
            return Err(TooMuch::Steps);
        }
        let mut step = step(job, &Options { job: job.get("job options"), global }, &mut missing);
        // Without group_reporting each process of a job is one by itself.
        let number = seen.entry(step.name.clone()).or_default();
        *number += 1;
        if *number > 1 {
            step.name = format!("{}#{number}", step.name);
        }
        steps.push(step);
    }
    let mut circumstances = Vec::new();
    let sizes = jobs.iter().filter_map(|job| Options { job: job.get("job options"), global }.text("size"));
    if let Some(size) = sizes.filter_map(bytes).max() {
        circumstances.push(Circumstance { aspect: Aspect::Size, value: qd1_model::Bytes(size).to_string() });
    }
    let started_unix_ns = (started_s > 0.0).then_some((started_s * 1e9) as u64);
    let runtimes = jobs
        .iter()
        .flat_map(|job| ["read", "write", "trim"].map(|key| job.get(key).map_or(0.0, |part| number(part, "runtime"))));
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

/// The options of a job, its own before the global ones.
struct Options<'a> {
    job: Option<&'a Value>,
    global: Option<&'a Value>,
}

impl<'a> Options<'a> {
    fn are_known(&self) -> bool {
        self.job.is_some()
    }

    fn text(&self, name: &str) -> Option<&'a str> {
        let of = |options: Option<&'a Value>| options?.get(name)?.as_str();
        // Every job looks at those that are global.
        of(self.job).or_else(|| of(self.global)).filter(|value| value.len() <= OPTION_MAX)
    }

    fn is_set(&self, name: &str) -> bool {
        self.text(name).is_some_and(|value| value != "0")
    }

    fn number(&self, name: &str) -> Option<u32> {
        self.text(name)?.parse().ok()
    }

    /// Whether each write is followed by a sync.
    fn syncs_each(&self) -> bool {
        ["fsync", "fdatasync"].iter().any(|name| self.number(name) == Some(1))
    }

    /// Writes from one sync to the next; 0 for none.
    fn sync_every(&self) -> u32 {
        ["fsync", "fdatasync"].iter().filter_map(|name| self.number(name)).find(|every| *every > 0).unwrap_or(0)
    }

    /// Whether the writes themselves are durable.
    fn is_in_the_write(&self) -> bool {
        self.text("sync").is_some_and(|value| !matches!(value, "0" | "none"))
    }

    fn does(&self) -> Option<Does> {
        let has_more = ["rate_iops", "rate", "bssplit", "bsrange", "thinktime", "zonemode", "random_distribution"]
            .iter()
            .any(|name| self.is_set(name));
        let rw = self.text("rw").or_else(|| self.text("readwrite")).unwrap_or("read");
        if !self.are_known() || has_more {
            return None;
        }
        does(rw, self.text("bs").or_else(|| self.text("blocksize")).unwrap_or("4k")).map(|does| Does {
            rwmixread: self.number("rwmixread").map_or(does.rwmixread, |mix| mixed(does.rw, mix as u8)),
            in_flight: self.number("iodepth").unwrap_or(1).saturating_mul(self.number("numjobs").unwrap_or(1)),
            commits: does.rw.writes() && (self.syncs_each() || self.is_in_the_write()),
            sync_every: if self.syncs_each() || !does.rw.writes() { 0 } else { self.sync_every() },
            direct: Some(self.is_set("direct")),
            ..does
        })
    }
}

/// What `rw` and `bs` of fio say; the rest as fio has it by itself.
pub(crate) fn does(rw: &str, bs: &str) -> Option<Does> {
    let rw = match rw.split(':').next().unwrap_or_default() {
        "read" => Rw::Read,
        "write" => Rw::Write,
        "randread" => Rw::Randread,
        "randwrite" => Rw::Randwrite,
        "rw" | "readwrite" => Rw::Rw,
        "randrw" => Rw::Randrw,
        _ => return None,
    };
    let block = u32::try_from(bytes(bs)?).ok()?;
    Some(Does { rw, rwmixread: mixed(rw, 50), block, in_flight: 1, commits: false, sync_every: 0, direct: None })
}

/// The share of reads of a job that may only read or only write.
fn mixed(rw: Rw, percent: u8) -> u8 {
    match (rw.reads(), rw.writes()) {
        (true, true) => percent.min(100),
        (true, false) => 100,
        _ => 0,
    }
}

/// A size as fio takes it, bytes; `None` for what is no single size.
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let text = text.trim().to_ascii_lowercase();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim_end_matches('b').trim_end_matches('i') {
        "" => 0,
        "k" => 10,
        "m" => 20,
        "g" => 30,
        "t" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_shl(shift).filter(|bytes| *bytes > 0)
}

fn step(job: &Value, options: &Options<'_>, missing: &mut Vec<String>) -> MeasuredStep {
    let name = job.get("jobname").and_then(Value::as_str).unwrap_or_default().to_owned();
    let does = options.does();
    let error = number(job, "error");
    let fault = if error == 0.0 { String::new() } else { format!("fio reports error {error} of this job") };
    let mut streams = Vec::new();
    for (key, class) in [("read", OpClass::Read), ("write", OpClass::Write), ("trim", OpClass::Trim)] {
        let Some(part) = job.get(key).filter(|part| count(part) > 0) else { continue };
        streams.push(stream(part, class, job.get("sync"), options, missing));
    }
    let title = does.map_or_else(String::new, |does| does.title());
    MeasuredStep {
        name,
        title,
        does,
        engine: options.text("ioengine").unwrap_or_default().to_owned(),
        streams,
        fault,
        is_spoiled: false,
        explained: Vec::new(),
    }
}

fn count(part: &Value) -> u64 {
    let ios = number(part, "total_ios");
    // fio 2 had no such count.
    if ios > 0.0 { ios as u64 } else { (number(part, "iops") * number(part, "runtime") / 1e3) as u64 }
}

fn number(value: &Value, key: &str) -> f64 {
    value.get(key).and_then(Value::as_f64).filter(|number| figures::is_plausible(*number)).unwrap_or(0.0)
}

fn stream(
    part: &Value,
    class: OpClass,
    syncs: Option<&Value>,
    options: &Options<'_>,
    missing: &mut Vec<String>,
) -> MeasuredStream {
    let n = count(part);
    let of = |mean: &str, deviation: &str, count: &str| Samples {
        count: if part.get(count).is_some() { number(part, count) } else { number(part, "runtime") / 500.0 },
        mean: number(part, mean),
        deviation: number(part, deviation),
    };
    let of_bytes = of("bw_mean", "bw_dev", "bw_samples");
    let of_ios =
        if part.get("iops_mean").is_some() { of("iops_mean", "iops_stddev", "iops_samples") } else { of_bytes };
    let of_bytes_each = number(part, "bw_bytes");
    let bytes_per_second = if of_bytes_each > 0.0 { of_bytes_each } else { number(part, "bw") * 1024.0 };
    let mut figures = vec![
        ("iops", figures::rate(number(part, "iops"), n, of_ios)),
        ("bytes_per_second", figures::rate(bytes_per_second, n, of_bytes)),
    ];
    let commits = class == OpClass::Write && (options.syncs_each() || options.is_in_the_write());
    if class == OpClass::Write && options.syncs_each() {
        note(missing, APART);
        figures.extend(sync_figures(syncs));
    } else {
        let (latency, completion) = (Latency::of(part, "lat"), Latency::of(part, "clat"));
        if let Some(whole) = &latency {
            figures.push(("lat_mean_ns", figures::rate(whole.number("mean"), n, of_ios)));
        }
        let lists = [&latency, &completion].into_iter().flatten().map(Latency::percentiles);
        if let Some(list) = lists.into_iter().find(|list| !list.is_empty()) {
            note(missing, NO_SPREAD);
            figures.extend(figures::percentiles(&list, n));
        }
    }
    MeasuredStream { class: if commits { OpClass::Commit } else { class }, figures }
}

/// Percentiles of the syncs, which fio counts by themselves.
fn sync_figures(syncs: Option<&Value>) -> Vec<(&'static str, Estimate)> {
    let Some(syncs) = syncs else { return Vec::new() };
    let list = Latency::of(syncs, "lat").map(|latency| latency.percentiles()).unwrap_or_default();
    figures::sync_percentiles(&list, number(syncs, "total_ios") as u64).collect()
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

    /// (percent, ns): those that are listed, and of the others what the bins of json+ say.
    fn percentiles(&self) -> Vec<(f64, f64)> {
        let list = self.value.get("percentile").and_then(Value::as_object);
        let entry = |(percent, value): (&String, &Value)| Some((percent.parse().ok()?, value.as_f64()? * self.scale));
        let listed = list.into_iter().flatten().filter_map(entry).filter(|(_, ns)| figures::is_plausible(*ns));
        let of_bins = QUANTILES.into_iter().zip(self.quantiles()).map(|(q, ns)| (100.0 * q, ns));
        listed.chain(of_bins).collect()
    }

    /// [`QUANTILES`] of the bins of json+, ns; none where there are no bins.
    fn quantiles(&self) -> Vec<f64> {
        let bins = self.value.get("bins").and_then(Value::as_object);
        let entry = |(ns, count): (&String, &Value)| {
            let ns = ns.parse::<f64>().ok().filter(|ns| figures::is_plausible(*ns))?;
            Some((ns * self.scale, count.as_u64().filter(|count| *count > 0)?))
        };
        let mut values: Vec<(f64, u64)> = bins.into_iter().flatten().filter_map(entry).collect();
        values.sort_by(|one, other| one.0.total_cmp(&other.0));
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
