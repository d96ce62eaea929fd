//! fio's terse lines (`--minimal`), versions 2 to 5: fields by position (fio's HOWTO, "Terse output").

use qd1_model::OpClass;
use qd1_model::measured::Measured;

use super::job::{Job, Part};
use super::jobs::Runs;
use crate::figures::{NO_TIMES, Samples, is_plausible};
use crate::gathered::{Gathered, TooMuch, short};

/// Number of fields in a line before those of the reads; version 2 does not say which fio wrote it.
const HEAD: usize = 5;
const HEAD_OF_2: usize = 4;
/// Fields of a direction up to version 4, and the more that version 5 has: samples, and IOPS over time.
const FIELDS: usize = 41;
const MORE_OF_5: usize = 6;
/// Maximum number of fields in a line that are read.
const FIELDS_MAX: usize = HEAD + 3 * (FIELDS + MORE_OF_5);
/// Fields within those of a direction.
const BANDWIDTH: usize = 1;
const IOPS: usize = 2;
const RUNTIME_MS: usize = 3;
const PERCENTILES: std::ops::Range<usize> = 12..32;
const LAT_MEAN_US: usize = 34;
const BANDWIDTH_MEAN: usize = 39;
const BANDWIDTH_DEVIATION: usize = 40;
const BANDWIDTH_SAMPLES: usize = 41;

/// Returns the runs in the terse lines of a text: lines of one job are its processes if they took equally long, and
/// later reports of it if they continue it.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Runs::default();
    for (tool, job) in text.lines().filter_map(line) {
        let missing = [
            NO_TIMES,
            "a terse line does not say what the job did, so it is compared by its name",
            "terse lines with the same job and run time are assumed to be its processes and are added up; put repeats \
             in separate files",
        ];
        let missing = missing.map(str::to_owned).to_vec();
        let run = || Measured { tool, missing, is_without_course: true, ..Measured::default() };
        found.add(job, 0, run)?;
    }
    found.gathered()
}

fn line(line: &str) -> Option<(String, Job)> {
    let fields: Vec<&str> = line.trim().split(';').take(FIELDS_MAX).collect();
    let version: u32 = fields.first()?.parse().ok().filter(|version| (2..=5).contains(version))?;
    let head = if version == 2 { HEAD_OF_2 } else { HEAD };
    let tool = if version == 2 { &"fio, version not stated" } else { fields.get(1)? };
    let [name, group, error] = fields.get(head - 3..head)?.try_into().ok()?;
    if !tool.starts_with("fio") || error.parse::<u32>().is_err() {
        return None;
    }
    let each = if version == 5 { FIELDS + MORE_OF_5 } else { FIELDS };
    // Each direction has its list of percentiles. With `unified_rw_reporting` there is one for everything the job did.
    let percentiles = fields.iter().filter(|field| field.contains("%=")).count();
    let classes: &[OpClass] = match percentiles / PERCENTILES.len() {
        1 => &[OpClass::Mixed],
        3 => &[OpClass::Read, OpClass::Write, OpClass::Trim],
        _ => &[OpClass::Read, OpClass::Write],
    };
    let mut parts = Vec::new();
    for (at, class) in classes.iter().enumerate() {
        let from = head + at * each;
        parts.extend(part(fields.get(from..from + each)?, *class, version));
    }
    let text = |field: &str| short(field).to_owned();
    let job =
        Job { name: name.to_owned(), group: text(group), error: text(error), processes: 1, parts, ..Job::default() };
    Some(((*tool).to_owned(), job))
}

fn part(fields: &[&str], class: OpClass, version: u32) -> Option<Part> {
    let number = |at: usize| {
        let number = fields[at].trim_end_matches('%').parse::<f64>().unwrap_or(0.0);
        if is_plausible(number) { number } else { 0.0 }
    };
    let (stated, runtime_ms, rate) = (number(IOPS), number(RUNTIME_MS), number(BANDWIDTH));
    // IOPS are whole numbers, so the number of operations is known to about one part in that. Less than one per second
    // is printed as zero.
    let n = if stated > 0.0 { (stated * runtime_ms / 1e3) as u64 } else { u64::from(rate > 0.0) };
    let entry = |text: &&str| {
        let (percent, value) = text.split_once("%=")?;
        Some((percent.parse().ok()?, value.parse::<f64>().ok()? * 1e3))
    };
    (n > 0).then(|| Part {
        class: Some(class),
        n,
        iops: stated,
        bytes_per_second: rate * 1024.0,
        runtime_ms,
        bw: Samples {
            count: if version == 5 { number(BANDWIDTH_SAMPLES) } else { runtime_ms / 500.0 },
            mean: number(BANDWIDTH_MEAN),
            deviation: number(BANDWIDTH_DEVIATION),
        },
        lat_mean_ns: Some(number(LAT_MEAN_US) * 1e3).filter(|mean| *mean > 0.0),
        percentiles: fields[PERCENTILES].iter().filter_map(entry).collect(),
        ..Part::default()
    })
}
