//! bonnie++'s CSV lines, of its formats 1.96 to 1.98: fields by position (bonnie++'s `bon_csv2html`).
//!
//! The tests have the names that `qd1 meta --suite bonnie` gives them, so that both are compared test by test.

use qd1_model::OpClass;
use qd1_model::measured::{Aspect, Circumstance, Measured, MeasuredStep, MeasuredStream};

use crate::figures::bare;
use crate::gathered::{Gathered, TooMuch};

/// A test: its name, what it is, its field in format 1.96 and 1.97, and whether that is in KiB/s rather than per second.
struct Test {
    name: &'static str,
    class: OpClass,
    field: usize,
    is_kib: bool,
}

const fn test(name: &'static str, class: OpClass, field: usize, is_kib: bool) -> Test {
    Test { name, class, field, is_kib }
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
const NAME: usize = 2;
const SIZE: usize = 5;
/// Fields that format 1.98 has before the figures: how many seeks and seekers.
const MORE_OF_198: usize = 2;

/// Fields of a line that are looked at.
const FIELDS_MAX: usize = 64;

/// Returns a run for each line.
pub(crate) fn runs(text: &str) -> Result<Gathered, TooMuch> {
    let mut found = Gathered::default();
    text.lines().filter_map(line).try_for_each(|run| found.begin(run))?;
    Ok(found)
}

fn line(line: &str) -> Option<Measured> {
    let fields: Vec<&str> = line.trim().split(',').take(FIELDS_MAX).collect();
    let more = match *fields.first()? {
        "1.96" | "1.97" => 0,
        "1.98" => MORE_OF_198,
        _ => return None,
    };
    let (mut steps, mut too_quick) = (Vec::new(), Vec::new());
    for test in &TESTS {
        let field = fields.get(test.field + more)?.trim();
        if field.starts_with('+') {
            too_quick.push(test.name);
            continue;
        }
        let Ok(value) = field.parse::<f64>() else { continue };
        let figure = if test.is_kib { ("bytes_per_second", bare(value * 1024.0, 0)) } else { ("iops", bare(value, 0)) };
        let streams = vec![MeasuredStream { class: test.class, figures: vec![figure] }];
        steps.push(MeasuredStep { name: test.name.to_owned(), streams, ..MeasuredStep::default() });
    }
    let tool = format!("bonnie++ {}", fields.get(1)?);
    let mut missing = vec![
        "bonnie++ has one figure for each test and no spread: no interval; repeat it, and compare groups".to_owned(),
        "of latencies it keeps the longest only".to_owned(),
    ];
    if !too_quick.is_empty() {
        missing.push(format!("too quick for it to measure (+++++): {}", too_quick.join(", ")));
        steps.extend(too_quick.iter().map(|name| MeasuredStep {
            name: (*name).to_owned(),
            fault: "bonnie++ found it too quick to measure (+++++)".to_owned(),
            ..MeasuredStep::default()
        }));
    }
    let circumstances = vec![
        Circumstance { aspect: Aspect::Host, value: (*fields.get(NAME)?).to_owned() },
        Circumstance { aspect: Aspect::Size, value: (*fields.get(SIZE)?).to_owned() },
    ];
    Some(Measured { tool, circumstances, steps, missing, is_without_course: true, ..Measured::default() })
}

#[cfg(test)]
mod tests {
    use super::*;

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
