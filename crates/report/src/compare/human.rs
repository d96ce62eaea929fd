//! A comparison for people.

use jiff::tz::TimeZone;
use qd1_model::comparison::{Comparison, Row, Word};

use super::words;
use crate::page::{BAD, BOLD, DIM, Detail, GOOD, MIDDLING, NOTE, Page, Style, shorten};
use anstyle::Style as Paint;

/// Columns of a step's name, a figure's name, a figure, and a ratio with its interval.
const STEP: usize = 15;
const METRIC: usize = 12;
const FIGURE: usize = 10;
const RATIO: usize = 20;
/// Steps that are listed as left out, where not all are told.
const LEFT_OUT_MAX: usize = 4;

/// Returns the whole comparison.
pub(super) fn render(comparison: &Comparison, style: &Style, zone: &TimeZone) -> String {
    let mut page = Page::new(style);
    let is_all = page.style.detail == Detail::All;
    words::headline(comparison).iter().for_each(|sentence| page.bold(sentence));
    limits(&mut page, comparison);
    page.line("");
    let column = comparison.sides.iter().map(|side| side.name.chars().count()).max().unwrap_or(0).min(24) + 4;
    for side in &comparison.sides {
        page.hang(2, &shorten(&side.name, 24), BOLD, column, &words::runs(side, zone));
    }
    differences(&mut page, comparison);
    for side in 1..comparison.sides.len() {
        table(&mut page, comparison, side, is_all);
    }
    page.line("");
    words::basis(comparison).iter().for_each(|sentence| page.prose(2, sentence));
    missing(&mut page, comparison, is_all);
    if !is_all {
        page.line("");
        page.prose(2, "All figures, and what was left out: the same command with -v.");
    }
    page.text
}

fn limits(page: &mut Page, comparison: &Comparison) {
    for limit in &comparison.limits {
        let paint = match words::judged(limit) {
            "FAIL" => BAD,
            "pass" => GOOD,
            _ => MIDDLING,
        };
        let text = format!("{}: {} is {} times that of {}", limit.text, limit.side, words::ratio(&limit.ratio), comparison.sides[0].name);
        page.hang(0, words::judged(limit), paint, 12, &text);
    }
}

fn differences(page: &mut Page, comparison: &Comparison) {
    if comparison.differences.is_empty() {
        return;
    }
    page.heading("What else differs");
    for difference in &comparison.differences {
        let values: Vec<String> = difference
            .values
            .iter()
            .map(|value| if value.is_empty() { "not known".to_owned() } else { shorten(value, 60) })
            .collect();
        let step = if difference.step.is_empty() { String::new() } else { format!("{}: ", difference.step) };
        let warning = if difference.warning.is_empty() { String::new() } else { format!(". {}", capital(&difference.warning)) };
        let paint = if warning.is_empty() { DIM } else { NOTE };
        page.hang(2, difference.aspect.name(), paint, 15, &format!("{step}{}{warning}", values.join(" -> ")));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The figures of one side beside those of the first.
fn table(page: &mut Page, comparison: &Comparison, side: usize, is_all: bool) {
    let names = [&comparison.sides[0].name, &comparison.sides[side].name];
    let is_shown = |row: &&Row| {
        let effect = &row.effects[side - 1];
        is_all || row.leads || matches!(effect.word, Word::Better | Word::Worse)
    };
    let rows: Vec<&Row> = comparison.rows.iter().filter(is_shown).filter(|row| row.figures[side].n > 0 || row.figures[side].is_resolved()).collect();
    page.line("");
    let [one, two] = names.map(|name| shorten(name, FIGURE));
    let heading = format!("  {:STEP$}{:METRIC$}{one:>FIGURE$}  {two:>FIGURE$}  {:RATIO$}", "", "", "ratio, together");
    let heading = page.paint(BOLD, heading.trim_end());
    page.line(&heading);
    let mut last = String::new();
    for row in rows {
        let effect = &row.effects[side - 1];
        // Steps with several kinds of operation say which.
        let kinds = comparison.rows.iter().filter(|other| other.step == row.step && other.op != row.op).count();
        let name = if kinds > 0 { format!("{} {}", row.step, row.op.name()) } else { row.step.clone() };
        let step = if name == last { String::new() } else { shorten(&name, STEP - 1) };
        last = name;
        let [(first, _), (other, _)] = [0, side].map(|at| words::figure(row, &row.figures[at]));
        let word = page.paint(paint(effect.word), &words::word(effect));
        page.line(&format!(
            "  {step:STEP$}{:METRIC$}{:>FIGURE$}  {:>FIGURE$}  {:RATIO$}{word}",
            shorten(&words::title(row), METRIC - 1),
            unresolved(&first),
            unresolved(&other),
            words::ratio(&effect.ratio)
        ));
    }
    if let Some(sentence) = words::overall_sentence(comparison, side) {
        page.prose(2, &sentence);
    }
}

/// `not resolved` as it fits a column.
fn unresolved(figure: &str) -> &str {
    if figure == "not resolved" { "unresolved" } else { figure }
}

const fn paint(word: Word) -> Paint {
    match word {
        Word::Better => GOOD,
        Word::Worse => BAD,
        Word::Same => Paint::new(),
        Word::CannotTell => DIM,
    }
}

fn missing(page: &mut Page, comparison: &Comparison, is_all: bool) {
    let said: Vec<(&str, &String)> =
        comparison.sides.iter().flat_map(|side| side.missing.iter().map(|what| (side.name.as_str(), what))).collect();
    if !said.is_empty() {
        page.heading("What is missing");
        let mut told: Vec<&String> = Vec::new();
        for (_, what) in &said {
            if told.contains(what) {
                continue;
            }
            told.push(what);
            let who: Vec<&str> = said.iter().filter(|(_, other)| other == what).map(|(who, _)| *who).collect();
            let who = if who.len() == comparison.sides.len() { "all".to_owned() } else { shorten(&who.join(", "), 60) };
            page.hang(2, "", DIM, 4, &format!("{who}: {what}"));
        }
    }
    if comparison.left_out.is_empty() {
        return;
    }
    page.heading("Not compared");
    let most = if is_all { usize::MAX } else { LEFT_OUT_MAX };
    for left in comparison.left_out.iter().take(most) {
        page.hang(2, "", DIM, 4, &format!("{} of {}: {}", left.step, left.side, left.why));
    }
    let more = comparison.left_out.len().saturating_sub(most);
    if more > 0 {
        page.hang(2, "", DIM, 4, &format!("and {more} more"));
    }
}
