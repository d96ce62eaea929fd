//! YABS (yabs.sh): its JSON (`-j`, `-w`) and its printed output.
//!
//! Its disk test is fio: randrw with 50 % reads, 64 requests in flight in each of two processes, direct, 30 s per block
//! size. It keeps only rates.

use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Circumstance, Does, Measured, MeasuredStep, MeasuredStream};
use qd1_model::plan::Rw;
use serde_json::Value;

use crate::figures::{bare, is_plausible};
use crate::fio::options::bytes;
use crate::gathered::{Gathered, STEPS_MAX, TooMuch};

/// What is missing in all of its results.
const RATES_ONLY: &str = "YABS keeps only rates, without their spread: no latencies, no commits and no intervals; \
    repeat it and compare groups";

/// The version since which its text uses powers of ten.
const DECIMAL_SINCE: &str = "v2026-07-03";
/// A thousandth of a thousand KiB, in MB.
const OLD: f64 = 1.024;
/// Maximum length of a cell that is read.
const CELL_MAX: usize = 64;
/// Maximum number of block sizes printed next to each other.
const COLUMNS_MAX: usize = 16;

/// Returns the run in one of its JSON documents.
pub(crate) fn run(document: &Value) -> Option<Measured> {
    let list = document.get("fio")?.as_array()?;
    // One more than can be compared shows that there are too many.
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
    // KBps are 1024 bytes per second, as in fio. Before April 2023 there was no other unit.
    let unit = row.get("speed_units").map_or(Some("KBps"), Value::as_str);
    let scale = if unit == Some("KBps") { 1024.0 } else { return None };
    let of = |speed: &str, iops: &str| Some((number(speed)? * scale, number(iops)?));
    let (reads, writes) = (of("speed_r", "iops_r")?, of("speed_w", "iops_w")?);
    Some(step(row.get("bs")?.as_str()?, Some(reads), Some(writes)))
}

/// Bytes per second and IOPS.
type Rates = (f64, f64);

/// One block size: reads and writes, if measured.
fn step(bs: &str, reads: Option<Rates>, writes: Option<Rates>) -> MeasuredStep {
    let block = bytes(bs, false).and_then(|block| u32::try_from(block).ok());
    let does = block.map(|block| Does {
        rw: Rw::Randrw,
        rwmixread: 50,
        block,
        in_flight: 128,
        commits: false,
        sync_every: 0,
        direct: Some(true),
    });
    let stream = |class, rates: Option<Rates>| {
        let (rate, iops) = rates?;
        let figures = vec![("iops", bare(iops, 0)), ("bytes_per_second", bare(rate, 0))];
        Some(MeasuredStream { class, figures })
    };
    MeasuredStep {
        name: bs.to_ascii_lowercase(),
        title: does.map_or_else(String::new, |does| does.title()),
        does,
        engine: "libaio".to_owned(),
        streams: [stream(OpClass::Read, reads), stream(OpClass::Write, writes)].into_iter().flatten().collect(),
        ..MeasuredStep::default()
    }
}

/// Returns the runs in a text, if it is from YABS. YABS cuts IOPS to two digits, so they are computed from the rate.
pub(crate) fn from_text(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Gathered::default();
    let mut run = Text::default();
    for line in text.lines() {
        if let Some(version) = version(line) {
            run.end(&mut found)?;
            version.clone_into(&mut run.version);
        } else if let Some(kernel) = line.strip_prefix("Kernel").and_then(|rest| rest.trim_start().strip_prefix(':')) {
            run.kernel = Some(kernel.trim().to_owned());
        } else {
            run.row(line, &mut found)?;
        }
    }
    run.end(&mut found)?;
    Ok(found)
}

/// A run, as far as its text has been read.
#[derive(Default)]
struct Text {
    version: String,
    kernel: Option<String>,
    /// Two block sizes printed next to each other, and their row of reads.
    sizes: Vec<String>,
    reads: Vec<Option<Rates>>,
    steps: Vec<MeasuredStep>,
}

impl Text {
    fn row(&mut self, line: &str, found: &mut Gathered) -> Result<(), TooMuch> {
        let mut cells = line.split('|');
        // Forums quote with a mark before each line, and change blanks.
        let head = cells.next().unwrap_or_default().trim_start_matches(['>', ' ', '\t', '\u{a0}']).trim_end();
        match head {
            _ if is_head(head, "Block Size") => {
                let size = |cell: &str| cell.split('(').next()?.split_whitespace().next().map(str::to_owned);
                self.sizes = cells.filter_map(size).take(COLUMNS_MAX).collect();
            }
            "Read" => self.reads = cells.map(cell).take(COLUMNS_MAX).collect(),
            "Write" => {
                let writes: Vec<Option<Rates>> = cells.map(cell).take(COLUMNS_MAX).collect();
                let (sizes, reads) = (std::mem::take(&mut self.sizes), std::mem::take(&mut self.reads));
                let printed = || reads.iter().zip(&sizes).chain(writes.iter().zip(&sizes));
                let scale =
                    scale(&self.version, printed().filter_map(|(rates, size)| Some(((*rates)?, size.as_str()))));
                for ((size, reads), writes) in sizes.iter().zip(&reads).zip(&writes) {
                    let exact = |(rate, iops): Rates| {
                        let rate = rate * scale;
                        (rate, bytes(size, false).map_or(iops, |block| rate / block as f64))
                    };
                    // A block size that was not tested has empty cells.
                    if reads.or(*writes).is_none() {
                        continue;
                    }
                    let step = step(size, reads.map(exact), writes.map(exact));
                    // A block size that appears again belongs to another run, whose head was cut off.
                    if self.steps.iter().any(|known| known.name == step.name) {
                        self.end(found)?;
                    }
                    self.steps.push(step);
                }
                if self.steps.len() > STEPS_MAX {
                    return Err(TooMuch::Steps);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, found: &mut Gathered) -> Result<(), TooMuch> {
        let steps = std::mem::take(&mut self.steps);
        if steps.is_empty() {
            return Ok(());
        }
        let tool = format!("YABS {}", self.version).trim().to_owned();
        let kernel = self.kernel.take().map(|value| Circumstance { aspect: Aspect::Kernel, value });
        let circumstances = [Circumstance { aspect: Aspect::Tool, value: tool.clone() }].into_iter().chain(kernel);
        let missing =
            vec![RATES_ONLY.to_owned(), "YABS prints rounded figures; its JSON output (-j) has all digits".to_owned()];
        found.begin(Measured {
            tool,
            circumstances: circumstances.collect(),
            steps,
            missing,
            is_without_course: true,
            ..Measured::default()
        })
    }
}

/// The bytes in a printed MB: up to a certain version, YABS divided KiB by a thousand and called that MB. If the
/// version was cut off, the IOPS next to it decide.
fn scale<'a>(version: &str, printed: impl Iterator<Item = (Rates, &'a str)>) -> f64 {
    if !version.is_empty() {
        return if version >= DECIMAL_SINCE { 1.0 } else { OLD };
    }
    let logs: Vec<f64> = printed
        .filter_map(|((rate, iops), size)| Some((iops * bytes(size, false)? as f64 / rate).ln()))
        .filter(|log| log.is_finite())
        .collect();
    let mean = logs.iter().sum::<f64>() / logs.len().max(1) as f64;
    if logs.is_empty() || mean > OLD.ln() / 2.0 { OLD } else { 1.0 }
}

/// The version in a line of the text's head, such as `v2025-04-20`.
fn version(line: &str) -> Option<&str> {
    let version = line.trim_matches(['#', ' ', '>']);
    let is_one = version.strip_prefix('v').is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_digit()));
    (is_one && version.len() <= CELL_MAX).then_some(version)
}

/// Whether a row begins with these words, with any blanks between them.
fn is_head(head: &str, words: &str) -> bool {
    head.split_whitespace().eq(words.split(' '))
}

/// `84.96 MB/s   (20.7k)` as bytes per second and IOPS, with blanks anywhere or none at all.
fn cell(cell: &str) -> Option<(f64, f64)> {
    let packed: String = cell.chars().filter(|letter| !letter.is_whitespace()).take(CELL_MAX).collect();
    let (rate, iops) = packed.split_once('(')?;
    let units = [("KB/s", 1e3), ("MB/s", 1e6), ("GB/s", 1e9)];
    let (number, scale) = units.into_iter().find_map(|(unit, scale)| Some((rate.strip_suffix(unit)?, scale)))?;
    let iops = iops.trim_end_matches(')');
    let (digits, factor) = match iops.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1e3),
        None => (iops, 1.0),
    };
    Some((number.parse::<f64>().ok()? * scale, digits.parse::<f64>().ok()? * factor))
}
