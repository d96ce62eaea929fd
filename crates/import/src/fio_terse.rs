//! fio's terse lines (`--minimal`), versions 2 to 5: fields by position (fio's HOWTO, "Terse output").

use qd1_model::OpClass;
use qd1_model::measured::{Measured, MeasuredStep, MeasuredStream};

use crate::figures::{self, NO_SPREAD, NO_TIMES, Samples};
use crate::gathered::{Gathered, TooMuch};

/// Fields of a line before those of the reads.
const HEAD: usize = 5;
/// Fields of a direction up to version 4, and the more that version 5 has: samples, and IOPS over time.
const FIELDS: usize = 41;
const MORE_OF_5: usize = 6;
/// Fields of a line that are looked at.
const FIELDS_MAX: usize = HEAD + 2 * (FIELDS + MORE_OF_5);
/// Fields within those of a direction.
const BANDWIDTH: usize = 1;
const IOPS: usize = 2;
const RUNTIME_MS: usize = 3;
const PERCENTILES: std::ops::Range<usize> = 12..32;
const LAT_MEAN_US: usize = 34;
const BANDWIDTH_MEAN: usize = 39;
const BANDWIDTH_DEVIATION: usize = 40;
const BANDWIDTH_SAMPLES: usize = 41;

/// Returns the runs of the terse lines of a text; a job that comes again is another run.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Gathered::default();
    for (tool, step) in text.lines().filter_map(line) {
        if found.is_empty() || found.has(&step.name) {
            let missing =
                [NO_TIMES, NO_SPREAD, "a terse line does not say what the job did: it is compared by its name"];
            let missing = missing.map(str::to_owned).to_vec();
            found.begin(Measured { tool, missing, is_without_course: true, ..Measured::default() })?;
        }
        found.add(step)?;
    }
    Ok(found)
}

fn line(line: &str) -> Option<(String, MeasuredStep)> {
    let fields: Vec<&str> = line.trim().split(';').take(FIELDS_MAX).collect();
    let version: u32 = fields.first()?.parse().ok().filter(|version| (2..=5).contains(version))?;
    let (tool, name) = (fields.get(1)?, fields.get(2)?);
    if !tool.starts_with("fio") {
        return None;
    }
    let each = if version == 5 { FIELDS + MORE_OF_5 } else { FIELDS };
    let error = fields.get(4)?;
    let mut streams = Vec::new();
    for (at, class) in [OpClass::Read, OpClass::Write].into_iter().enumerate() {
        let from = HEAD + at * each;
        streams.extend(stream(fields.get(from..from + each)?, class, version));
    }
    let fault = if *error == "0" { String::new() } else { format!("fio reports error {error} of this job") };
    Some(((*tool).to_owned(), MeasuredStep { name: (*name).to_owned(), streams, fault, ..MeasuredStep::default() }))
}

fn stream(fields: &[&str], class: OpClass, version: u32) -> Option<MeasuredStream> {
    let number = |at: usize| fields[at].trim_end_matches('%').parse::<f64>().unwrap_or(0.0);
    let (iops, runtime_ms) = (number(IOPS), number(RUNTIME_MS));
    // Whole numbers of IOPS: the number of operations to about a part in that.
    let n = (iops * runtime_ms / 1e3) as u64;
    if n == 0 {
        return None;
    }
    let samples = Samples {
        count: if version == 5 { number(BANDWIDTH_SAMPLES) } else { runtime_ms / 500.0 },
        mean: number(BANDWIDTH_MEAN),
        deviation: number(BANDWIDTH_DEVIATION),
    };
    let mut figures = vec![
        ("iops", figures::rate(iops, n, samples)),
        ("bytes_per_second", figures::rate(number(BANDWIDTH) * 1024.0, n, samples)),
        ("lat_mean_ns", figures::rate(number(LAT_MEAN_US) * 1e3, n, samples)),
    ];
    let entry = |text: &&str| {
        let (percent, value) = text.split_once("%=")?;
        Some((percent.parse().ok()?, value.parse::<f64>().ok()? * 1e3))
    };
    let list: Vec<(f64, f64)> = fields[PERCENTILES].iter().filter_map(entry).collect();
    figures.extend(figures::percentiles(&list, n));
    Some(MeasuredStream { class, figures })
}
