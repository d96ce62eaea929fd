//! fio's normal report, versions 2 and 3.

use std::collections::HashMap;

use qd1_model::OpClass;
use qd1_model::measured::{Does, Measured};

use super::job::{Durable, Job, Part};
use super::jobs::Runs;
use super::options;
use crate::figures::{NO_TIMES, Samples};
use crate::gathered::{Gathered, STEPS_OF_ALL_MAX, TooMuch, short};

/// Smallest usable value of a percentile in its unit: below it, rounding to whole units is an error of more than 5 %.
const DIGITS_MIN: f64 = 10.0;
/// Maximum number of directions of a job, and of percentiles of one, that are read: fio has no more.
const PARTS_MAX: usize = 3;
const PERCENTILES_MAX: usize = 64;

/// Maximum length of a host's name that is read.
const HOST_MAX: usize = 256;
/// Rates below this, per second, are printed with too few digits.
const IOPS_ROUNDED: f64 = 100.0;

/// Returns the runs of a report; a job that appears again in another invocation is another run.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut reader = Reader::default();
    text.lines().try_for_each(|line| reader.line(line))?;
    reader.end_job()?;
    reader.runs.gathered()
}

/// What a line like `name: (g=0): rw=randread, bs=..., ioengine=libaio, iodepth=16` announces.
struct Announced {
    /// fio's number for its group.
    group: String,
    does: Option<Does>,
    engine: String,
}

/// Which percentiles the lines with `=[` belong to.
#[derive(Clone, Copy)]
enum Of {
    Part,
    Syncs,
    /// Of only part of a request (`slat`), or of something known only as a whole.
    Nothing,
}

/// A job's block of the report, as far as it was read.
#[derive(Default)]
struct Block {
    job: Job,
    /// Reads, writes, trims, syncs.
    issued: [u64; 4],
}

#[derive(Default)]
struct Reader {
    version: String,
    /// By name; the last one of a name is used.
    announced: HashMap<String, Announced>,
    /// Which fio invocation the lines belong to, and whether it has printed everything about its jobs.
    invocation: u64,
    is_ended: bool,
    /// Where the jobs being read ran (`--client`).
    host: String,
    block: Option<Block>,
    /// The list of percentiles being read, and its unit in ns.
    list: Option<(Of, f64)>,
    /// Whether the last direction has percentiles of the total latency, in addition to those of the completion latency.
    has_whole: bool,
    runs: Runs,
}

impl Reader {
    fn line(&mut self, line: &str) -> Result<(), TooMuch> {
        let (host, line) = of_host(line);
        if let Some(host) = host {
            host.clone_into(&mut self.host);
        }
        let trimmed = line.trim();
        if let Some((name, announced)) = announced(trimmed) {
            // All jobs are announced before the first one has results, except with several hosts.
            if self.is_ended || self.block.is_some() && self.host.is_empty() {
                self.end_job()?;
                self.begin_invocation();
            }
            self.announced.insert(name.to_owned(), announced);
            if self.announced.len() > STEPS_OF_ALL_MAX {
                return Err(TooMuch::StepsOfAll);
            }
        } else if let Some(version) = version(trimmed).filter(|_| self.may_have_version(trimmed)) {
            self.end_job()?;
            self.begin_invocation();
            self.version = version;
        } else if let Some(version) = line.strip_prefix("hostname=").and_then(|rest| rest.split("fio=").nth(1)) {
            // What a client says about itself.
            short(version.split(',').next().unwrap_or_default()).clone_into(&mut self.version);
        } else if let Some(block) = self.begin(trimmed) {
            self.end_job()?;
            self.block = Some(block);
        } else {
            if trimmed.starts_with("Run status") || trimmed.starts_with("Disk stats") {
                self.end_job()?;
                self.is_ended = true;
            }
            self.line_of_job(line);
        }
        Ok(())
    }

    /// Whether this line can be fio's version: a bare number only if jobs have been announced and none has results.
    fn may_have_version(&self, line: &str) -> bool {
        line.starts_with("fio") || self.block.is_none() && !self.announced.is_empty()
    }

    fn begin_invocation(&mut self) {
        self.invocation += 1;
        self.is_ended = false;
    }

    fn line_of_job(&mut self, line: &str) {
        let (Some(Block { job, issued: counts }), list) = (&mut self.block, &mut self.list) else { return };
        let trimmed = line.trim_start();
        if let Some((rest, unit_ns)) = percentile_list(trimmed) {
            let of = match rest {
                "sync" => Of::Syncs,
                "slat" => Of::Nothing,
                "lat" => {
                    if let Some(part) = job.parts.last_mut() {
                        part.percentiles.clear();
                    }
                    self.has_whole = true;
                    Of::Part
                }
                _ if self.has_whole => Of::Nothing,
                _ => Of::Part,
            };
            *list = Some((of, unit_ns));
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
            self.has_whole = false;
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
                // fio 2 does not say how many: one every half second for each process, which are not distinguished
                // here.
                let count = if samples > 0.0 { samples } else { part.runtime_ms / 500.0 };
                part.bw = Samples { count, mean: field(trimmed, "avg="), deviation: field(trimmed, "stdev=") };
            }
        } else if trimmed.starts_with("issued") {
            *counts = issued(trimmed);
        }
    }

    /// The block that a line like `name: (groupid=0, jobs=8): err= 0: pid=2197: ...` begins.
    fn begin(&self, line: &str) -> Option<Block> {
        let (name, rest) = line.split_once(": (groupid=")?;
        let jobs: u32 = rest.split("jobs=").nth(1)?.split(')').next()?.trim().parse().ok()?;
        let error = rest.split("err=").nth(1)?.split([':', '(']).next()?.trim();
        let group = rest.split(',').next()?.trim();
        let pid = rest.split("pid=").nth(1).and_then(|pid| pid.split(':').next()?.trim().parse().ok());
        let announced = self.announced.get(name);
        let is_of_unlike = jobs > 1 && announced.is_some_and(|one| self.is_of_unlike(&one.group, one.does));
        let job = Job {
            name: name.to_owned(),
            group: short(group).to_owned(),
            host: self.host.clone(),
            pid,
            does: announced.and_then(|announced| announced.does).filter(|_| !is_of_unlike),
            is_of_unlike,
            engine: announced.map_or_else(String::new, |announced| announced.engine.clone()),
            error: short(error).to_owned(),
            is_mix_counted: true,
            processes: jobs.max(1),
            ..Job::default()
        };
        Some(Block { job, issued: [0; 4] })
    }

    /// Whether another job of the group was announced with different work.
    fn is_of_unlike(&self, group: &str, does: Option<Does>) -> bool {
        let mut of_group = self.announced.values().filter(|other| other.group == group);
        of_group.any(|other| other.does != does)
    }

    fn end_job(&mut self) -> Result<(), TooMuch> {
        self.list = None;
        let Some(block) = self.block.take() else { return Ok(()) };
        let version = &self.version;
        let run = || {
            let tool = if version.is_empty() { "fio, version not stated" } else { version }.to_owned();
            let missing = vec![
                NO_TIMES.to_owned(),
                "a report does not say whether the page cache was bypassed (direct)".to_owned(),
            ];
            Measured { tool, missing, is_without_course: true, ..Measured::default() }
        };
        self.runs.add(block.job(), self.invocation, run)
    }
}

impl Block {
    /// Returns it as a job with its counts.
    fn job(self) -> Job {
        let Self { mut job, issued } = self;
        let [reads, writes, trims, syncs] = issued;
        // The end of the report was cut off.
        let is_counted = issued.iter().any(|count| *count > 0);
        // Each write was followed by a sync if there are equally many, except perhaps the last.
        let commits = writes > 0 && syncs > 0 && syncs + 1 >= writes && syncs <= writes + 1;
        job.durable = if commits { Durable::BySync } else { Durable::No };
        job.sync_count = syncs;
        for part in &mut job.parts {
            part.n = match part.class {
                Some(OpClass::Read) => reads,
                Some(OpClass::Write) => writes,
                Some(OpClass::Mixed) => reads.saturating_add(writes).saturating_add(trims),
                _ => trims,
            };
            if !is_counted {
                part.n = ((part.iops * part.runtime_ms / 1e3) as u64).max(u64::from(part.iops > 0.0));
            }
            part.bw = part.bw.of_sum(part.bytes_per_second / 1024.0, job.processes);
            let exact = if part.runtime_ms > 0.0 { part.n as f64 * 1e3 / part.runtime_ms } else { 0.0 };
            // Half an operation per second is printed as zero.
            if part.iops < IOPS_ROUNDED && (exact - part.iops).abs() <= 1.0 {
                part.iops = exact;
            }
        }
        // What `unified_rw_reporting=both` counts twice is printed without a rate.
        job.parts.retain(|part| part.iops > 0.0 || part.bytes_per_second > 0.0);
        job
    }
}

/// A line of a client begins with its host: `<host> line`.
fn of_host(line: &str) -> (Option<&str>, &str) {
    let parts = line.strip_prefix('<').and_then(|rest| rest.split_once("> "));
    match parts.filter(|(host, _)| host.len() <= HOST_MAX && !host.is_empty()) {
        Some((host, rest)) => (Some(host), rest),
        None => (None, line),
    }
}

/// fio's version, from a line with nothing else: `fio-3.33`, `fio 2.0.7`, or `2.0.8` in versions before 2.1.
fn version(line: &str) -> Option<String> {
    let number = line.strip_prefix("fio-").or_else(|| line.strip_prefix("fio ")).unwrap_or(line);
    let is_number = number.starts_with(|letter: char| letter.is_ascii_digit()) && !number.contains(' ');
    let is_plain = number.contains('.') && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    (is_number && (line.starts_with("fio-") || is_plain)).then(|| format!("fio-{}", short(number)))
}

/// Reads a job's announcement.
fn announced(line: &str) -> Option<(&str, Announced)> {
    let (name, rest) = line.split_once(": (g=")?;
    let of = |key: &str| rest.split(key).nth(1).map(|value| value.split(", ").next().unwrap_or(value).trim());
    let engine = of("ioengine=").unwrap_or_default();
    let in_flight = options::depth(engine, of("iodepth=")?.parse().unwrap_or(1));
    let bs = rest.split("bs=").nth(1)?.split(", ioengine").next()?;
    let does = block_size(bs).and_then(|block| Some(options::does(options::rw(of("rw=")?)?, block)));
    let group = short(rest.split(')').next()?.trim()).to_owned();
    let does = does.map(|does| Does { in_flight, ..does });
    Some((name, Announced { group, does, engine: short(engine).to_owned() }))
}

/// The one block size of `4K-4K/4K-4K/4K-4K` or `(R) 4096B-4096B, (W) ...`, bytes; `None` where there are several.
fn block_size(text: &str) -> Option<u32> {
    let sizes =
        text.split(['/', '-', ',', ' ']).filter(|part| part.starts_with(|letter: char| letter.is_ascii_digit()));
    let all: Vec<u32> = sizes.map(printed_size).collect::<Option<_>>()?;
    all.first().copied().filter(|first| all.iter().all(|size| size == first))
}

/// A size as fio prints it: `4K` of fio 2, in any case, and `64.0KiB` of fio 3 have 1,024 bytes, and `65.5kB` (`kb_base=1000`)
/// 1,000, of what was a multiple of 512 before it was rounded.
fn printed_size(text: &str) -> Option<u32> {
    let (number, unit) = split(text);
    let base = if unit.starts_with("kB") { 1000.0 } else { 1024.0 };
    let power = match unit.to_ascii_lowercase().chars().next() {
        None | Some('b') => 0,
        Some('k') => 1,
        Some('m') => 2,
        _ => return None,
    };
    let bytes = number * f64::powi(base, power);
    let sectors = (bytes / 512.0).round() * 512.0;
    let is_rounded = number.fract() > 0.0 && (sectors / bytes - 1.0).abs() < 0.002;
    let bytes = if is_rounded { sectors } else { bytes };
    (bytes >= 1.0 && bytes < f64::from(u32::MAX)).then_some(bytes as u32)
}

/// Reads the line that a direction begins with.
fn direction(line: &str) -> Option<Part> {
    let (name, rest) = line.split_once(':')?;
    let class = match name.trim() {
        "read" => OpClass::Read,
        "write" => OpClass::Write,
        "trim" => OpClass::Trim,
        // All of them, with `unified_rw_reporting`.
        "mixed" => OpClass::Mixed,
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
        // fio 3 has its keys in capitals.
        bytes_per_second: rate(after("bw="), rest.contains("BW=")),
        runtime_ms: digits.parse().unwrap_or(0.0),
        ..Part::default()
    })
}

/// A number followed by fio's k or M.
fn scaled(text: &str) -> f64 {
    let (number, unit) = split(text);
    number
        * match unit.chars().next() {
            Some('k') => 1e3,
            Some('m') => 1e6,
            _ => 1.0,
        }
}

/// `3999.2kb/s` of fio 2, where K is 1,024, and `13.0mib/s`, `8446kb/s`, `63.9mibit/s` of fio 3, where it is 1,000 without an i;
/// in lower case, as bytes per second.
fn rate(text: &str, is_fio_3: bool) -> f64 {
    let (number, unit) = split(text);
    let mut rest = unit.trim_start();
    let power = match rest.chars().next() {
        Some('k') => 1,
        Some('m') => 2,
        Some('g') => 3,
        Some('t') => 4,
        _ => 0,
    };
    rest = if power > 0 { &rest[1..] } else { rest };
    let (is_binary, rest) = rest.strip_prefix('i').map_or((!is_fio_3, rest), |rest| (true, rest));
    let base: f64 = if is_binary { 1024.0 } else { 1000.0 };
    let bits = if rest.starts_with("bit") { 8.0 } else { 1.0 };
    number * base.powi(power) / bits
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

/// Which latency's percentiles follow, and their unit, ns: `clat percentiles (msec):`.
fn percentile_list(line: &str) -> Option<(&str, f64)> {
    let (whose, rest) = line.split_once(" percentiles (")?;
    Some((whose, unit_ns(rest.split(')').next().unwrap_or_default())))
}

/// `|  1.00th=[  128],  5.00th=[  128],` as (percent, ns).
fn percentiles(line: &str, unit_ns: f64) -> impl Iterator<Item = (f64, f64)> + '_ {
    let entry = move |entry: &str| {
        let (percent, value) = entry.split_once("th=[")?;
        let value = value.trim_end_matches(']').trim().parse::<f64>().ok()?;
        // In whole units: 1 ms may be half a millisecond or one and a half.
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
