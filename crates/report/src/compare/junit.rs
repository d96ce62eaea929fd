//! A comparison as JUnit's XML, for the test reports of CI systems: a case for each limit of `--fail-if`, or, without
//! any, for each primary figure and the whole. A figure beyond its limit, or worse, is a failure; an undecided one is
//! skipped. The exploratory figures decide nothing, and are in the output of the suite.

use qd1_model::comparison::{Comparison, Effect, Word};

use super::words;

struct Case {
    class: String,
    name: String,
    /// Its message, and whether it is a failure rather than skipped; `None` if it passed.
    told: Option<(bool, String)>,
}

/// Returns the document.
pub(super) fn render(comparison: &Comparison) -> String {
    let cases = if comparison.limits.is_empty() { figures(comparison) } else { limits(comparison) };
    let count = |is_failure: bool| {
        cases.iter().filter(|case| case.told.as_ref().is_some_and(|told| told.0 == is_failure)).count()
    };
    let mut text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites>\n  <testsuite name=\"qd1 compare\" tests=\"{}\" \
         failures=\"{}\" skipped=\"{}\">\n",
        cases.len(),
        count(true),
        count(false)
    );
    for case in &cases {
        let head = format!("    <testcase classname=\"{}\" name=\"{}\"", escaped(&case.class), escaped(&case.name));
        match &case.told {
            None => text += &format!("{head}/>\n"),
            Some((is_failure, told)) => {
                let element = if *is_failure { "failure" } else { "skipped" };
                text += &format!("{head}>\n      <{element} message=\"{}\"/>\n    </testcase>\n", escaped(told));
            }
        }
    }
    for side in 1..comparison.sides.len() {
        if let Some(said) = words::explored(comparison, side) {
            let name = escaped(&comparison.sides[side].name);
            text += &format!("    <system-out>{name}: {}</system-out>\n", escaped(&said));
        }
    }
    text + "  </testsuite>\n</testsuites>\n"
}

fn limits(comparison: &Comparison) -> Vec<Case> {
    let case = |limit: &qd1_model::comparison::Limit| {
        let told = words::limit(limit, comparison);
        Case {
            class: limit.side.clone(),
            name: limit.text.clone(),
            told: match (limit.is_beyond, limit.is_within) {
                (true, _) => Some((true, told)),
                (false, true) => None,
                (false, false) => Some((false, format!("cannot tell: {told}"))),
            },
        }
    };
    comparison.limits.iter().map(case).collect()
}

fn figures(comparison: &Comparison) -> Vec<Case> {
    let mut cases = Vec::new();
    for (side, other) in comparison.sides.iter().enumerate().skip(1) {
        for row in comparison.rows.iter().filter(|row| row.is_primary) {
            let (class, name) = (format!("{}.{}", other.name, row.step), words::title(row));
            let name = format!("{} {name}", row.op.name());
            cases.push(case(class, name, &row.effects[side - 1], &comparison.sides[0].name));
        }
        if let Some(whole) = words::overall(comparison, side) {
            let name = "time of an operation over all kinds".to_owned();
            cases.push(case(other.name.clone(), name, whole, &comparison.sides[0].name));
        }
    }
    cases
}

fn case(class: String, name: String, effect: &Effect, first: &str) -> Case {
    let told = format!("{}: {} times that of {first}", words::word(effect), words::ratio(&effect.ratio));
    let told = match effect.word {
        Word::Worse => Some((true, told)),
        Word::CannotTell => Some((false, told)),
        Word::Better | Word::Same => None,
    };
    Case { class, name, told }
}

/// Text as it appears in an attribute. Control characters were written out before.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out += "&amp;",
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '"' => out += "&quot;",
            '\n' | '\t' | '\r' => out.push(' '),
            // XML 1.0 has no other control characters, and not these two.
            control if control.is_control() || matches!(control, '\u{fffe}' | '\u{ffff}') => out.push('\u{fffd}'),
            letter => out.push(letter),
        }
    }
    out
}
