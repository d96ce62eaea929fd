//! fio's normal report, of versions 2 and 3.

use std::collections::HashMap;

use qd1_model::OpClass;
use qd1_model::measured::{Does, Measured, MeasuredStep, MeasuredStream};

use crate::figures::{self, NO_SPREAD, NO_TIMES, Samples};
use crate::fio_json;
use crate::gathered::{Gathered, STEPS_OF_ALL_MAX, TooMuch, note, short};

/// Least value of a percentile in its unit: below, rounding to whole ones is more than 5 % of it.
const DIGITS_MIN: f64 = 10.0;
/// Directions of a job, and percentiles of one, that are read: fio has no more.
const PARTS_MAX: usize = 3;
const PERCENTILES_MAX: usize = 64;

/// Returns the runs of a report; a job that comes again is another run.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut reader = Reader::default();
    text.lines().try_for_each(|line| reader.line(line))?;
    reader.end_job()?;
    Ok(reader.found)
}

/// What a line like `name: (g=0): rw=randread, bs=..., ioengine=libaio, iodepth=16` announces.
struct Announced {
    does: Option<Does>,
    engine: String,
}

/// A job's block of the report, as far as it was read.
struct Job {
    name: String,
    does: Option<Does>,
    engine: String,
    error: String,
    parts: Vec<Part>,
    /// Percentiles of the syncs, ns.
    syncs: Vec<(f64, f64)>,
    /// Reads, writes, trims, syncs.
    issued: [u64; 4],
}

/// Reads or writes of a job.
#[derive(Default)]
struct Part {
    class: Option<OpClass>,
    iops: f64,
    bytes_per_second: f64,
    runtime_ms: f64,
    bw: Samples,
    /// Mean of the whole latency, ns.
    lat_mean_ns: Option<f64>,
    percentiles: Vec<(f64, f64)>,
}

/// Which percentiles the lines with `=[` belong to.
#[derive(Clone, Copy)]
enum Of {
    Part,
    Syncs,
}

#[derive(Default)]
struct Reader {
    version: String,
    /// By their names; the last of a name counts.
    announced: HashMap<String, Announced>,
    job: Option<Job>,
    /// The list of percentiles being read, and its unit in ns.
    list: Option<(Of, f64)>,
    found: Gathered,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), TooMuch> {
        if let Some((name, announced)) = announced(line) {
            self.announced.insert(name.to_owned(), announced);
            if self.announced.len() > STEPS_OF_ALL_MAX {
                return Err(TooMuch::StepsOfAll);
            }
        } else if line.starts_with("fio-") && !line.contains(' ') {
            short(line.trim()).clone_into(&mut self.version);
        } else if let Some(job) = self.begin(line) {
            self.end_job()?;
            self.job = Some(job);
        } else {
            if line.starts_with("Run status") || line.starts_with("Disk stats") {
                self.end_job()?;
            }
            self.line_of_job(line);
        }
        Ok(())
    }

    fn line_of_job(&mut self, line: &str) {
        let (Some(job), list) = (&mut self.job, &mut self.list) else { return };
        let trimmed = line.trim_start();
        if let Some((rest, unit_ns)) = percentile_list(trimmed) {
            *list = Some((if rest == "sync" { Of::Syncs } else { Of::Part }, unit_ns));
        } else if trimmed.starts_with('|') {
            if let Some((of, unit_ns)) = *list {
                let known = match (of, job.parts.last_mut()) {
                    (Of::Syncs, _) => &mut job.syncs,
                    (Of::Part, Some(part)) => &mut part.percentiles,
                    _ => return,
                };
                let left = PERCENTILES_MAX.saturating_sub(known.len());
                known.extend(percentiles(trimmed, unit_ns).take(left));
            }
        } else if let Some(part) = direction(trimmed) {
            if job.parts.len() < PARTS_MAX {
                job.parts.push(part);
            }
        } else if let Some(rest) = trimmed.strip_prefix("lat (").filter(|rest| rest.contains("avg=")) {
            let unit_ns = unit_ns(rest.split(')').next().unwrap_or_default());
            if let Some(part) = job.parts.last_mut() {
                part.lat_mean_ns = Some(field(rest, "avg=") * unit_ns);
            }
        } else if trimmed.starts_with("bw (") && trimmed.contains("avg=") {
            if let Some(part) = job.parts.last_mut() {
                let samples = field(trimmed, "samples=");
                // fio 2 does not say how many: one each half second, of each process, which are not told apart here.
                let count = if samples > 0.0 { samples } else { part.runtime_ms / 500.0 };
                part.bw = Samples { count, mean: field(trimmed, "avg="), deviation: field(trimmed, "stdev=") };
            }
        } else if trimmed.starts_with("issued") {
            job.issued = issued(trimmed);
        }
    }

    /// The block that a line like `name: (groupid=0, jobs=8): err= 0: pid=2197: ...` begins.
    fn begin(&self, line: &str) -> Option<Job> {
        let (name, rest) = line.split_once(": (groupid=")?;
        let jobs: u32 = rest.split("jobs=").nth(1)?.split(')').next()?.trim().parse().ok()?;
        let error = rest.split("err=").nth(1)?.split([':', '(']).next()?.trim().to_owned();
        let announced = self.announced.get(name);
        Some(Job {
            name: name.to_owned(),
            does: announced
                .and_then(|announced| announced.does)
                .map(|does| Does { in_flight: does.in_flight.saturating_mul(jobs.max(1)), ..does }),
            engine: announced.map_or_else(String::new, |announced| announced.engine.clone()),
            error,
            parts: Vec::new(),
            syncs: Vec::new(),
            issued: [0; 4],
        })
    }

    fn end_job(&mut self) -> Result<(), TooMuch> {
        self.list = None;
        let Some(job) = self.job.take() else { return Ok(()) };
        let step = step(job);
        if self.found.is_empty() || self.found.has(&step.name) {
            let tool = if self.version.is_empty() { "fio, version not stated" } else { &self.version }.to_owned();
            let missing = vec![
                NO_TIMES.to_owned(),
                NO_SPREAD.to_owned(),
                "a report does not say whether the page cache was bypassed (direct)".to_owned(),
            ];
            self.found.begin(Measured { tool, missing, is_without_course: true, ..Measured::default() })?;
        }
        let splits = step.streams.iter().any(|stream| stream.figure("sync_p50_ns").is_some());
        if let Some(run) = self.found.last().filter(|_| splits) {
            note(&mut run.missing, fio_json::APART);
        }
        self.found.add(step)
    }
}

/// Reads what a job is announced with.
fn announced(line: &str) -> Option<(&str, Announced)> {
    let (name, rest) = line.split_once(": (g=")?;
    let of = |key: &str| rest.split(key).nth(1).map(|value| value.split(", ").next().unwrap_or(value).trim());
    let depth = of("iodepth=")?.parse().unwrap_or(1);
    let bs = rest.split("bs=").nth(1)?.split(", ioengine").next()?;
    let does = block_size(bs).and_then(|block| fio_json::does(of("rw=")?, &block.to_string()));
    let does = does.map(|does| Does { in_flight: depth, ..does });
    Some((name, Announced { does, engine: short(of("ioengine=").unwrap_or_default()).to_owned() }))
}

/// The one block size of `4K-4K/4K-4K/4K-4K` or `(R) 4096B-4096B, (W) ...`, bytes; `None` where there are several.
fn block_size(text: &str) -> Option<u64> {
    let sizes =
        text.split(['/', '-', ',', ' ']).filter(|part| part.starts_with(|letter: char| letter.is_ascii_digit()));
    // fio 3 writes 64.0KiB.
    let all: Vec<u64> = sizes.map(|size| fio_json::bytes(&size.replace(".0", ""))).collect::<Option<_>>()?;
    all.first().copied().filter(|first| all.iter().all(|size| size == first))
}

/// Reads the line that a direction begins with.
fn direction(line: &str) -> Option<Part> {
    let (name, rest) = line.split_once(':')?;
    let class = match name.trim() {
        "read" => OpClass::Read,
        "write" => OpClass::Write,
        "trim" => OpClass::Trim,
        _ => return None,
    };
    let lower = rest.to_ascii_lowercase();
    let after = |key: &str| lower.split(key).nth(1).unwrap_or_default();
    let iops = scaled(after("iops="));
    // The time is `runt=240131msec` or `(2048KiB/154msec)`.
    let before_msec = lower.split("msec").next().unwrap_or_default();
    let digits =
        before_msec.rfind(|letter: char| !letter.is_ascii_digit()).map_or(before_msec, |at| &before_msec[at + 1..]);
    Some(Part {
        class: Some(class),
        iops,
        bytes_per_second: rate(after("bw=")),
        runtime_ms: digits.parse().unwrap_or(0.0),
        ..Part::default()
    })
}

/// A number with fio's k or M behind it.
fn scaled(text: &str) -> f64 {
    let (number, unit) = split(text);
    number
        * match unit.chars().next() {
            Some('k') => 1e3,
            Some('m') => 1e6,
            _ => 1.0,
        }
}

/// `3999.2kb/s` of fio 2 and `13.0mib/s` of fio 3, in lower case, as bytes per second: K is 1024 in both.
fn rate(text: &str) -> f64 {
    let (number, unit) = split(text);
    number
        * match unit.chars().next() {
            Some('k') => 1024.0,
            Some('m') => 1024.0 * 1024.0,
            Some('g') => 1024.0 * 1024.0 * 1024.0,
            _ => 1.0,
        }
}

fn split(text: &str) -> (f64, &str) {
    let text = text.trim_start();
    let end = text.find(|letter: char| !letter.is_ascii_digit() && letter != '.').unwrap_or(text.len());
    (text[..end].parse().unwrap_or(0.0), &text[end..])
}

/// The number behind `key`.
fn field(text: &str, key: &str) -> f64 {
    text.split(key).nth(1).map_or(0.0, |rest| split(rest).0)
}

/// `usec` as ns.
fn unit_ns(unit: &str) -> f64 {
    match unit.trim() {
        "nsec" => 1.0,
        "msec" => 1e6,
        "sec" => 1e9,
        _ => 1e3,
    }
}

/// Whose percentiles follow, and their unit, ns: `clat percentiles (msec):`.
fn percentile_list(line: &str) -> Option<(&str, f64)> {
    let (whose, rest) = line.split_once(" percentiles (")?;
    Some((whose, unit_ns(rest.split(')').next().unwrap_or_default())))
}

/// `|  1.00th=[  128],  5.00th=[  128],` as (percent, ns).
fn percentiles(line: &str, unit_ns: f64) -> impl Iterator<Item = (f64, f64)> + '_ {
    let entry = move |entry: &str| {
        let (percent, value) = entry.split_once("th=[")?;
        let value = value.trim_end_matches(']').trim().parse::<f64>().ok()?;
        // In whole units: of 1 ms it may be a half or one and a half.
        (value >= DIGITS_MIN).then_some((percent.trim().parse().ok()?, value * unit_ns))
    };
    line.trim_start_matches('|').split(',').filter_map(move |part| entry(part.trim().trim_end_matches(']')))
}

/// `issued rwts: total=0,512,0,511 short=...` and fio 2's `issued    : total=r=240130/w=0/d=0, ...`. fio 3.33 has the syncs
/// one place further, as the first of `short`.
fn issued(line: &str) -> [u64; 4] {
    let total = line.split("total=").nth(1).unwrap_or_default().replace(",0 short=", ",");
    let total = total.split(if total.starts_with("r=") { "," } else { " " }).next().unwrap_or_default();
    let mut all = [0; 4];
    let numbers = total.split([',', '/']).map(|part| part.trim_start_matches(|letter: char| !letter.is_ascii_digit()));
    all.iter_mut().zip(numbers).for_each(|(count, number)| *count = number.parse().unwrap_or(0));
    all
}

fn step(job: Job) -> MeasuredStep {
    let [reads, writes, trims, syncs] = job.issued;
    // Each write was followed by a sync where there are as many of them, the last perhaps without.
    let commits = writes > 0 && syncs > 0 && syncs + 1 >= writes && syncs <= writes + 1;
    let fault = if job.error == "0" { String::new() } else { format!("fio reports error {} of this job", job.error) };
    let mut streams = Vec::new();
    for part in job.parts {
        let Some(class) = part.class else { continue };
        let n = match class {
            OpClass::Read => reads,
            OpClass::Write => writes,
            _ => trims,
        };
        let mut figures = vec![
            ("iops", figures::rate(part.iops, n, part.bw)),
            ("bytes_per_second", figures::rate(part.bytes_per_second, n, part.bw)),
        ];
        let is_commit = class == OpClass::Write && commits;
        if is_commit {
            figures.extend(figures::sync_percentiles(&job.syncs, syncs));
        } else {
            figures.extend(part.lat_mean_ns.map(|mean| ("lat_mean_ns", figures::rate(mean, n, part.bw))));
            figures.extend(figures::percentiles(&part.percentiles, n));
        }
        let class = if is_commit { OpClass::Commit } else { class };
        streams.push(MeasuredStream { class, figures });
    }
    let is_mixed = |does: &Does| does.rw.reads() && does.rw.writes();
    // The report does not state the mix; what was issued does, but for chance.
    let mix = if reads + writes > 0 { (20.0 * reads as f64 / (reads + writes) as f64).round() as u8 * 5 } else { 50 };
    let does =
        job.does.map(|does| Does { commits, rwmixread: if is_mixed(&does) { mix } else { does.rwmixread }, ..does });
    let title = does.map_or_else(String::new, |does| does.title());
    MeasuredStep { name: job.name, title, does, engine: job.engine, streams, fault, ..MeasuredStep::default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIO_2: &str = "\
randread: (g=0): rw=randread, bs=4K-4K/4K-4K/4K-4K, ioengine=libaio, iodepth=16
...
fio-2.2.10
Starting 8 processes

randread: (groupid=0, jobs=8): err= 0: pid=2197: Fri Apr  7 20:46:44 2017
  read : io=960520KB, bw=3999.2KB/s, iops=999, runt=240131msec
    slat (usec): min=1, max=23035, avg=18.15, stdev=138.72
    clat (usec): min=802, max=252628, avg=127966.52, stdev=3489.05
     lat (usec): min=815, max=252639, avg=127985.12, stdev=3490.32
    clat percentiles (msec):
     |  1.00th=[  128],  5.00th=[  128], 50.00th=[  129], 99.00th=[  131],
     | 99.99th=[  227]
    bw (KB  /s): min=  416, max=  645, per=12.50%, avg=499.98, stdev= 4.64
    lat (usec) : 1000=0.01%
  cpu          : usr=0.13%, sys=0.31%, ctx=238697, majf=0, minf=201
     issued    : total=r=240130/w=0/d=0, short=r=0/w=0/d=0, drop=r=0/w=0/d=0
";

    #[test]
    fn a_report_of_fio_2_has_its_figures_and_what_it_did() {
        let runs = runs(FIO_2).unwrap().finish();
        let step = &runs[0].steps[0];
        assert_eq!((runs.len(), runs[0].tool.as_str(), step.name.as_str()), (1, "fio-2.2.10", "randread"));
        assert_eq!(step.does.unwrap().title(), "randread 4 KiB, 128 in flight");
        let figure = |name| step.streams[0].figure(name).unwrap();
        let iops = figure("iops");
        assert_eq!((iops.value, iops.n), (Some(999.0), 240_130));
        // A hundredth of the standard deviation of 480 samples.
        assert!((iops.high.unwrap() / iops.low.unwrap() - 1.0016).abs() < 0.001, "{iops:?}");
        assert_eq!(figure("bytes_per_second").value, Some(3999.2 * 1024.0));
        assert_eq!(figure("lat_p50_ns").value, Some(129e6));
        assert_eq!(figure("lat_p99_ns").value, Some(131e6));
        assert_eq!(figure("lat_mean_ns").value, Some(127_985_120.0));
        assert_eq!(figure("lat_p9999_ns").value, Some(227e6));
    }

    #[test]
    fn the_same_job_again_is_another_run() {
        assert_eq!(runs(&FIO_2.repeat(2)).unwrap().finish().len(), 2);
    }
}
