//! A comparison for an issue or a pull request.

use jiff::tz::TimeZone;
use qd1_model::comparison::{Comparison, Row, Word};
use qd1_model::measured::Aspect;

use super::words;
use crate::table::escaped;

/// Returns the whole comparison.
pub(super) fn render(comparison: &Comparison, zone: &TimeZone) -> String {
    let mut text = String::new();
    for sentence in words::headline(comparison) {
        text += &format!("**{}**\n\n", escaped(&sentence));
    }
    if !comparison.limits.is_empty() {
        text += "| limit | side | ratio | |\n|---|---|--:|---|\n";
        for limit in &comparison.limits {
            let (name, side, ratio) = (escaped(&limit.text), escaped(&limit.side), words::ratio(&limit.ratio));
            text += &format!("| {name} | {side} | {ratio} | **{}** |\n", words::judged(limit));
        }
        text.push('\n');
    }
    for side in &comparison.sides {
        text += &format!("- **{}**: {}\n", escaped(&side.name), escaped(&words::runs(side, zone)));
    }
    if !comparison.differences.is_empty() {
        text += "\n### What else differs\n\n| what |";
        comparison.sides.iter().for_each(|side| text += &format!(" {} |", escaped(&side.name)));
        text += &format!(" |\n|---|{}---|\n", "---|".repeat(comparison.sides.len()));
        for difference in &comparison.differences {
            let step = if difference.step.is_empty() { String::new() } else { format!(" of {}", difference.step) };
            text += &format!("| {} |", escaped(&format!("{}{step}", difference.aspect.name())));
            for value in &difference.values {
                let none = if difference.aspect == Aspect::Spoiled { "nothing found" } else { "not known" };
                let value = if value.is_empty() { none.to_owned() } else { value.replace('\n', "; ") };
                text += &format!(" {} |", escaped(&value));
            }
            text += &format!(" {} |\n", escaped(&difference.warning));
        }
    }
    for side in 1..comparison.sides.len() {
        let names = [0, side].map(|at| escaped(&comparison.sides[at].name));
        text += &format!("\n### {} against {}\n\n", names[1], names[0]);
        text += &table(comparison, side, &names, true);
        if let Some(sentence) = words::overall_sentence(comparison, side) {
            text += &format!("\n{}\n", escaped(&sentence));
        }
        words::explained(comparison, side).iter().for_each(|said| text += &format!("\n{}\n", escaped(said)));
        if let Some(sentence) = words::explored(comparison, side) {
            text += &format!("\n#### Exploratory figures\n\n{}\n", escaped(&sentence));
            let table = table(comparison, side, &names, false);
            if !table.is_empty() {
                text += &format!("\n{table}");
            }
        }
    }
    for sentence in words::basis(comparison) {
        text += &format!("\n{}\n", escaped(&sentence));
    }
    for (heading, lines) in
        [("What is missing", words::missing(comparison)), ("Not compared", words::left_out(comparison, usize::MAX))]
    {
        if !lines.is_empty() {
            text += &format!("\n### {heading}\n\n");
            lines.iter().for_each(|line| text += &format!("- {}\n", escaped(line)));
        }
    }
    text
}

/// The primary figures of a side, or the exploratory ones that say something; empty where there are none.
fn table(comparison: &Comparison, side: usize, names: &[String; 2], is_primary: bool) -> String {
    let is_shown = |row: &&Row| {
        let says = matches!(row.effects[side - 1].word, Word::Better | Word::Worse);
        row.is_primary == is_primary && (is_primary || says)
    };
    let rows: Vec<&Row> = comparison.rows.iter().filter(is_shown).collect();
    if rows.is_empty() {
        return String::new();
    }
    let kind = if is_primary { "primary figure" } else { "figure" };
    let mut text = format!("| step | {kind} | {} | {} | ratio | |\n|---|---|--:|--:|--:|---|\n", names[0], names[1]);
    for row in rows {
        let effect = &row.effects[side - 1];
        let cell = |at: usize| {
            let (value, interval) = words::figure(row, &row.figures[at]);
            format!("{value} {interval}").trim_end().to_owned()
        };
        let word = match effect.word {
            Word::Better | Word::Worse => format!("**{}**", words::word(effect)),
            _ => words::word(effect),
        };
        let (step, figure) = (escaped(&format!("{} {}", row.step, row.op.name())), words::title(row));
        let ratio = words::ratio(&effect.ratio);
        text += &format!("| {step} | {figure} | {} | {} | {ratio} | {word} |\n", cell(0), cell(side));
    }
    text
}
