//! A comparison for people: two sides next to each other, or more of them in their order.

mod ranking;

use jiff::tz::TimeZone;
use qd1_model::comparison::{Comparison, Difference, Row, Word};
use qd1_model::measured::Aspect;

use super::words;
use crate::page::{BAD, BOLD, DIM, Detail, GOOD, MIDDLING, NOTE, Page, Style, shorten};
use anstyle::Style as Paint;

/// Columns of a step's name, a figure's name, a figure, and a ratio with its interval.
const STEP: usize = 13;
const METRIC: usize = 10;
const FIGURE: usize = 10;
const RATIO: usize = 21;
/// Most steps that are listed as left out.
const LEFT_OUT_MAX: usize = 8;

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
    if comparison.sides.len() == 2 {
        table(&mut page, comparison, is_all);
    } else {
        ranking::write(&mut page, comparison, is_all);
    }
    page.line("");
    words::basis(comparison).iter().for_each(|sentence| page.prose(2, sentence));
    missing(&mut page, comparison, is_all);
    if !is_all {
        page.line("");
        page.prose(2, "For all figures, and what was left out, add -v.");
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
        page.hang(0, words::judged(limit), paint, 12, &format!("{}: {}", limit.text, words::limit(limit, comparison)));
    }
}

fn differences(page: &mut Page, comparison: &Comparison) {
    if comparison.differences.is_empty() {
        return;
    }
    page.heading("What else differs");
    for difference in &comparison.differences {
        if difference.aspect == Aspect::Spoiled {
            spoiled(page, comparison, difference);
            continue;
        }
        let values: Vec<String> = difference
            .values
            .iter()
            .map(|value| if value.is_empty() { "not known".to_owned() } else { shorten(value, 60) })
            .collect();
        let step = if difference.step.is_empty() { String::new() } else { format!("{}: ", difference.step) };
        let warning =
            if difference.warning.is_empty() { String::new() } else { format!(". {}", capital(&difference.warning)) };
        let paint = if warning.is_empty() { DIM } else { NOTE };
        page.hang(2, difference.aspect.name(), paint, 15, &format!("{step}{}{warning}", values.join(" -> ")));
    }
}

/// What spoiled the runs of each side, in a sentence or more.
fn spoiled(page: &mut Page, comparison: &Comparison, difference: &Difference) {
    let name = difference.aspect.name();
    for (side, value) in comparison.sides.iter().zip(&difference.values).filter(|(_, value)| !value.is_empty()) {
        page.hang(2, name, NOTE, 15, &format!("{}:", side.name));
        value.lines().for_each(|line| page.hang(2, "", NOTE, 17, line));
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().collect::<String>() + letters.as_str())
}

/// The figures of the second side next to those of the first.
fn table(page: &mut Page, comparison: &Comparison, is_all: bool) {
    page.line("");
    let [one, two] = [0, 1].map(|side| shorten(&comparison.sides[side].name, FIGURE));
    let width = STEP + METRIC;
    let heading = format!("  {:width$}{one:>FIGURE$} {two:>FIGURE$}  ratio", "Primary figures");
    let heading = page.paint(BOLD, &heading);
    page.line(&heading);
    let shown = |is_primary: bool| {
        comparison.rows.iter().filter(move |row| row.is_primary == is_primary && is_shown(row, is_all))
    };
    figures(page, comparison, shown(true));
    if let Some(sentence) = words::overall_sentence(comparison, 1) {
        page.prose(2, &sentence);
    }
    words::explained(comparison, 1).iter().for_each(|sentence| page.prose(2, sentence));
    if let Some(sentence) = words::explored(comparison, 1) {
        page.line("");
        page.prose(2, &sentence);
        figures(page, comparison, shown(false));
    }
}

/// A line for each figure of these rows.
fn figures<'a>(page: &mut Page, comparison: &Comparison, rows: impl Iterator<Item = &'a Row>) {
    let mut last = String::new();
    for row in rows {
        let effect = &row.effects[0];
        let name = step_name(comparison, row);
        let step = if name == last { String::new() } else { shorten(&name, STEP - 1) };
        if name != last && !row.also.is_empty() {
            page.line(&format!("  {name} = {}: {}", row.also.join(", "), row.title));
        }
        last = name;
        let [first, other] = [0, 1].map(|side| words::figure(row, &row.figures[side]).0);
        let word = page.paint(paint(effect.word), &words::short_word(effect));
        page.line(&format!(
            "  {step:STEP$}{:METRIC$}{:>FIGURE$} {:>FIGURE$}  {:RATIO$}{word}",
            shorten(&words::title(row), METRIC - 1),
            narrow(&first),
            narrow(&other),
            words::ratio(&effect.ratio)
        ));
    }
}

/// Whether a row is worth its line: if some are left out, those that decide or show a difference. Requests and bytes
/// per second say the same for one block size, so the one that leads is enough.
fn is_shown(row: &Row, is_all: bool) -> bool {
    let is_rate = words::of(row).is_some_and(|metric| metric.unit.is_rate());
    let says = row.effects.iter().any(|effect| matches!(effect.word, Word::Better | Word::Worse));
    is_all || row.is_primary || says && (row.leads || !is_rate)
}

/// The step of a row, and its kind of operation where it has several.
fn step_name(comparison: &Comparison, row: &Row) -> String {
    let has_kinds = comparison.rows.iter().any(|other| other.step == row.step && other.op != row.op);
    if has_kinds { format!("{} {}", row.step, row.op.name()) } else { row.step.clone() }
}

/// `not resolved` as it fits a column.
fn narrow(figure: &str) -> &str {
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
    let most = if is_all { usize::MAX } else { LEFT_OUT_MAX };
    for (heading, lines) in
        [("What is missing", words::missing(comparison)), ("Not compared", words::left_out(comparison, most))]
    {
        if !lines.is_empty() {
            page.heading(heading);
            lines.iter().for_each(|line| page.hang(2, "", DIM, 2, line));
        }
    }
}
