//! bonnie++'s CSV lines in formats 1.96 to 1.98 and 1.03: fields by position (see bonnie++'s `bon_csv2html`).
//!
//! The tests have the names that `qd1 meta --suite bonnie` gives them, so that the two can be compared test by test.

use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Circumstance, Measured, MeasuredStep, MeasuredStream};

use crate::figures::bare;
use crate::gathered::{Gathered, TooMuch};

/// A test: its name, its description, its field in formats 1.96 and 1.97, and whether that is in KiB/s rather than per
/// second.
struct Test {
    name: &'static str,
    class: OpClass,
    field: usize,
    is_kib: bool,
}

const fn test(name: &'static str, class: OpClass, field: usize, is_kib: bool) -> Test {
    Test { name, class, field, is_kib }
}

/// The layout of a line.
struct Layout {
    version: String,
    host: usize,
    size: usize,
    /// Number of additional fields before the figures for blocks and for files, compared with formats 1.96 and 1.97.
    before_blocks: isize,
    before_files: isize,
}

const TESTS: [Test; 10] = [
    test("block-write", OpClass::Write, 9, true),
    test("block-rewrite", OpClass::Rewrite, 11, true),
    test("block-read", OpClass::Read, 15, true),
    test("seeks", OpClass::Seek, 17, false),
    test("seq-create", OpClass::Create, 24, false),
    test("seq-stat", OpClass::Stat, 26, false),
    test("seq-delete", OpClass::Delete, 28, false),
    test("rand-create", OpClass::Create, 30, false),
    test("rand-stat", OpClass::Stat, 32, false),
    test("rand-delete", OpClass::Delete, 34, false),
];
/// The index in [`TESTS`] of the first test on files rather than blocks.
const FIRST_OF_FILES: usize = 4;
/// Number of fields in a line of version 1.03, which begins with the host and gives no version.
const FIELDS_OF_103: usize = 27;
/// Its field for the number of files.
const FILES_OF_103: usize = 14;
/// Number of fields in a line of version 1.96.
const FIELDS_OF_196: usize = 48;

/// Maximum number of fields in a line that are read.
const FIELDS_MAX: usize = 64;

/// Returns a run for each line.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Gathered::default();
    text.lines().filter_map(line).try_for_each(|run| found.begin(run))?;
    Ok(found)
}

impl Layout {
    fn of(fields: &[&str]) -> Option<Self> {
        let begins = *fields.first()?;
        if matches!(begins, "1.96" | "1.97" | "1.98") {
            // 1.98 also has the number of seeks and seekers.
            let more = if begins == "1.98" { 2 } else { 0 };
            // Without a large file (`-s 0`), 1.96 omits one of its fields.
            let left_out = if begins == "1.96" && fields.len() == FIELDS_OF_196 - 1 { 1 } else { 0 };
            let version = (*fields.get(1)?).to_owned();
            return Some(Self { version, host: 2, size: 5, before_blocks: more, before_files: more - left_out });
        }
        let is_size = |text: &str| {
            let whole = text.split(':').next().unwrap_or_default();
            let number = whole.trim_end_matches(['K', 'M', 'G', 'T', 'k', 'm', 'g', 't']);
            !number.is_empty() && number.bytes().all(|letter| letter.is_ascii_digit())
        };
        let is_figure = |text: &&str| text.is_empty() || text.starts_with('+') || text.parse::<f64>().is_ok();
        // The number of files, as `16`, or `16:100000:16/64` with their sizes and directories.
        let is_count = |text: &str| {
            let parts = text.split([':', '/']);
            parts.into_iter().all(|part| !part.is_empty() && part.bytes().all(|letter| letter.is_ascii_digit()))
        };
        let is_103 = fields.len() == FIELDS_OF_103
            && is_size(fields[1])
            && fields
                .iter()
                .enumerate()
                .skip(2)
                .all(|(at, text)| is_figure(text) || at == FILES_OF_103 && is_count(text));
        is_103.then(|| Self { version: "1.03".to_owned(), host: 0, size: 1, before_blocks: -5, before_files: -9 })
    }

    /// The field of a test.
    fn field(&self, at: usize) -> Option<usize> {
        let more = if at < FIRST_OF_FILES { self.before_blocks } else { self.before_files };
        TESTS[at].field.checked_add_signed(more)
    }
}

fn line(line: &str) -> Option<Measured> {
    let fields: Vec<&str> = line.trim().split(',').take(FIELDS_MAX).collect();
    let layout = Layout::of(&fields)?;
    let (mut steps, mut too_quick) = (Vec::new(), Vec::new());
    for (at, test) in TESTS.iter().enumerate() {
        let field = fields.get(layout.field(at)?)?.trim();
        if field.starts_with('+') {
            too_quick.push(test.name);
            continue;
        }
        let Ok(value) = field.parse::<f64>() else { continue };
        let figure = if test.is_kib { ("bytes_per_second", bare(value * 1024.0, 0)) } else { ("iops", bare(value, 0)) };
        let streams = vec![MeasuredStream { class: test.class, figures: vec![figure] }];
        steps.push(MeasuredStep { name: test.name.to_owned(), streams, ..MeasuredStep::default() });
    }
    let tool = format!("bonnie++ {}", layout.version);
    let mut missing = vec![
        "bonnie++ gives one figure per test and no spread, so there are no intervals; repeat it and compare groups"
            .to_owned(),
        "bonnie++ keeps only the longest latency".to_owned(),
    ];
    if !too_quick.is_empty() {
        missing.push(format!("too fast for bonnie++ to measure (+++++): {}", too_quick.join(", ")));
        steps.extend(too_quick.iter().map(|name| MeasuredStep {
            name: (*name).to_owned(),
            fault: "too fast for bonnie++ to measure (+++++)".to_owned(),
            ..MeasuredStep::default()
        }));
    }
    let circumstances = vec![
        Circumstance { aspect: Aspect::Host, value: (*fields.get(layout.host)?).to_owned() },
        Circumstance { aspect: Aspect::Size, value: (*fields.get(layout.size)?).to_owned() },
    ];
    Some(Measured { tool, circumstances, steps, missing, is_without_course: true, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_1_03_has_its_figures() {
        let line = "host,8G,900,99,250000,40,120000,20,3000,99,400000,30,250.5,5,16,9000,50,+++++,+++,12000,40,9100,50,\
                    +++++,+++,8000,30";
        let run = runs(line).unwrap().finish().remove(0);
        let figure = |name: &str, metric| {
            let step = run.steps.iter().find(|step| step.name == name).unwrap();
            step.streams[0].figure(metric).unwrap().value.unwrap()
        };
        assert_eq!((run.tool.as_str(), run.circumstances[1].value.as_str()), ("bonnie++ 1.03", "8G"));
        assert_eq!(figure("block-write", "bytes_per_second"), 250_000.0 * 1024.0);
        assert_eq!(figure("block-rewrite", "bytes_per_second"), 120_000.0 * 1024.0);
        assert_eq!(figure("block-read", "bytes_per_second"), 400_000.0 * 1024.0);
        assert_eq!((figure("seeks", "iops"), figure("seq-create", "iops")), (250.5, 9000.0));
        assert_eq!((figure("seq-delete", "iops"), figure("rand-create", "iops")), (12_000.0, 9100.0));
        assert_eq!(figure("rand-delete", "iops"), 8000.0);
        assert!(runs("a,1,2,3\n").unwrap().is_empty());
    }

    #[test]
    fn both_layouts_have_their_figures() {
        let head = "1.97,1.97,host,1,1,300M,";
        let figures = "900,99,250000,40,120000,20,3000,99,400000,30,250.5,5,\
                       16,,,,,9000,50,+++++,+++,12000,40,9100,50,+++++,+++,8000,30,1us";
        let of = |line: String| runs(&line).unwrap().finish().remove(0);
        for run in
            [of(format!("{head},{figures}")), of(format!("{},8192,5,{figures}", head.replacen("1.97", "1.98", 1)))]
        {
            let figure = |name: &str, metric| {
                let step = run.steps.iter().find(|step| step.name == name).unwrap();
                step.streams[0].figure(metric).unwrap().value.unwrap()
            };
            assert_eq!(figure("block-write", "bytes_per_second"), 250_000.0 * 1024.0);
            assert_eq!(figure("block-rewrite", "bytes_per_second"), 120_000.0 * 1024.0);
            assert_eq!(figure("block-read", "bytes_per_second"), 400_000.0 * 1024.0);
            assert_eq!((figure("seeks", "iops"), figure("seq-create", "iops")), (250.5, 9000.0));
            assert_eq!((figure("rand-create", "iops"), figure("rand-delete", "iops")), (9100.0, 8000.0));
            assert!(run.missing[2].contains("seq-stat, rand-stat"), "{:?}", run.missing);
        }
    }
}
