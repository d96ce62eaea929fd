//! YABS (yabs.sh): its JSON (`-j`, `-w`) and what it prints.
//!
//! Its disk test is fio: randrw with half of each, 64 in flight of each of two processes, direct, 30 s a block size. It
//! keeps rates only.

use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Circumstance, Does, Measured, MeasuredStep, MeasuredStream};
use qd1_model::plan::Rw;
use serde_json::Value;

use crate::figures::{bare, is_plausible};
use crate::fio_json::bytes;
use crate::gathered::{Gathered, STEPS_MAX, TooMuch};

/// What is missing in all of it.
const RATES_ONLY: &str = "YABS keeps rates only, without their spread: no latency, no commit, and no interval; repeat it, and compare groups";

/// Block sizes that are printed beside each other at most.
const COLUMNS_MAX: usize = 16;

/// Returns the run in a document of its JSON.
pub(crate) fn run(document: &Value) -> Option<Measured> {
    let list = document.get("fio")?.as_array()?;
    // One more than are compared tells that there are too many.
    let steps: Vec<MeasuredStep> = list.iter().filter_map(row).take(STEPS_MAX + 1).collect();
    let text = |at: &[&str]| {
        let found = at.iter().try_fold(document, |value, key| value.get(key));
        found.and_then(Value::as_str).map(str::to_owned)
    };
    let tool = format!("YABS {}", text(&["version"]).unwrap_or_default()).trim().to_owned();
    let circumstances =
        Vec::from_iter(text(&["os", "kernel"]).map(|value| Circumstance { aspect: Aspect::Kernel, value }));
    let started_s = document.get("runtime").and_then(|runtime| runtime.get("start")).and_then(Value::as_u64);
    (!steps.is_empty()).then(|| Measured {
        tool,
        started_unix_ns: started_s.and_then(|seconds| seconds.checked_mul(1_000_000_000)),
        circumstances,
        steps,
        missing: vec![RATES_ONLY.to_owned()],
        is_without_course: true,
        ..Measured::default()
    })
}

fn row(row: &Value) -> Option<MeasuredStep> {
    let number = |key: &str| row.get(key).and_then(Value::as_f64).filter(|number| is_plausible(*number));
    // KBps are 1024 bytes per second, as fio's.
    let scale = if row.get("speed_units").and_then(Value::as_str) == Some("KBps") { 1024.0 } else { return None };
    let of = |speed: &str, iops: &str| Some((number(speed)? * scale, number(iops)?));
    Some(step(row.get("bs")?.as_str()?, of("speed_r", "iops_r")?, of("speed_w", "iops_w")?))
}

/// One block size: (bytes per second, IOPS) of reads and writes.
fn step(bs: &str, reads: (f64, f64), writes: (f64, f64)) -> MeasuredStep {
    let block = bytes(bs).and_then(|block| u32::try_from(block).ok());
    let does = block.map(|block| Does {
        rw: Rw::Randrw,
        rwmixread: 50,
        block,
        in_flight: 128,
        commits: false,
        sync_every: 0,
        direct: Some(true),
    });
    let stream = |class, (rate, iops)| {
        let figures = vec![("iops", bare(iops, 0)), ("bytes_per_second", bare(rate, 0))];
        MeasuredStream { class, figures }
    };
    MeasuredStep {
        name: bs.to_ascii_lowercase(),
        title: does.map_or_else(String::new, |does| does.title()),
        does,
        engine: "libaio".to_owned(),
        streams: vec![stream(OpClass::Read, reads), stream(OpClass::Write, writes)],
        ..MeasuredStep::default()
    }
}

/// Returns the run that a text shows, if it is of YABS. It cuts IOPS to two digits, so that they are taken from the rate.
pub(crate) fn from_text(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Gathered::default();
    let mut steps = Vec::new();
    // Two block sizes beside each other, and their rows of reads and writes.
    let mut sizes: Vec<String> = Vec::new();
    let mut reads: Vec<(f64, f64)> = Vec::new();
    for line in text.lines() {
        let mut cells = line.split('|');
        let head = cells.next().unwrap_or_default().trim();
        match head {
            "Block Size" => {
                sizes = cells
                    .filter_map(|cell| cell.split_whitespace().next())
                    .take(COLUMNS_MAX)
                    .map(str::to_owned)
                    .collect()
            }
            "Read" => reads = cells.filter_map(cell).take(COLUMNS_MAX).collect(),
            "Write" => {
                let writes: Vec<(f64, f64)> = cells.filter_map(cell).take(COLUMNS_MAX).collect();
                let rows = sizes.iter().zip(&reads).zip(&writes);
                steps.extend(rows.map(|((size, reads), writes)| {
                    let exact =
                        |(rate, iops): (f64, f64)| (rate, bytes(size).map_or(iops, |block| rate / block as f64));
                    step(size, exact(*reads), exact(*writes))
                }));
                (sizes, reads) = (Vec::new(), Vec::new());
                if steps.len() > STEPS_MAX {
                    return Err(TooMuch::Steps);
                }
            }
            _ => {}
        }
    }
    if steps.is_empty() {
        return Ok(found);
    }
    let version = text.lines().map(|line| line.trim_matches(['#', ' '])).find(|line| {
        line.strip_prefix('v').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()))
    });
    let tool = format!("YABS {}", version.unwrap_or_default()).trim().to_owned();
    let mut circumstances = vec![Circumstance { aspect: Aspect::Tool, value: tool.clone() }];
    let kernel = text.lines().find_map(|line| line.strip_prefix("Kernel")?.trim_start().strip_prefix(':'));
    circumstances.extend(kernel.map(|value| Circumstance { aspect: Aspect::Kernel, value: value.trim().to_owned() }));
    let missing = vec![RATES_ONLY.to_owned(), "YABS prints rounded figures; its JSON (-j) has all digits".to_owned()];
    found.begin(Measured { tool, circumstances, steps, missing, is_without_course: true, ..Measured::default() })?;
    Ok(found)
}

/// `84.96 MB/s   (20.7k)` as bytes per second and IOPS.
fn cell(cell: &str) -> Option<(f64, f64)> {
    let (rate, iops) = cell.split_once('(')?;
    let (number, unit) = rate.trim().split_once(' ')?;
    let scale = match unit.trim() {
        "KB/s" => 1e3,
        "MB/s" => 1e6,
        "GB/s" => 1e9,
        _ => return None,
    };
    let iops = iops.trim_end().trim_end_matches(')');
    let (digits, factor) = match iops.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (iops, 1.0),
    };
    Some((number.parse::<f64>().ok()? * scale, digits.trim().parse::<f64>().ok()? * factor))
}
