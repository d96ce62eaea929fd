//! More than two sides: each figure as a list of them, the best first.

use qd1_model::comparison::{Comparison, Row};
use qd1_model::metric::Better;
use qd1_model::order::Order as _;

use super::{is_shown, paint, step_name};
use crate::compare::words;
use crate::page::{BOLD, DIM, Page, shorten};

/// Columns of a side's name, and of its figure with its interval.
const NAME: usize = 18;
const FIGURE: usize = 23;
const RATIO: usize = 21;

/// Writes the order of the whole, and a list for each figure.
pub(super) fn write(page: &mut Page, comparison: &Comparison, is_all: bool) {
    whole(page, comparison);
    for row in comparison.rows.iter().filter(|row| is_shown(row, is_all)) {
        page.line("");
        let better = words::of(row).map_or("", |metric| match metric.better {
            Better::Lower => "lowest first",
            Better::Higher => "highest first",
        });
        let name = page.paint(BOLD, &format!("{}, {}", step_name(comparison, row), words::title(row)));
        page.line(&format!("  {name} ({better}), and the ratio to {}", shorten(&comparison.sides[0].name, NAME)));
        for (rank, side) in ranked(row) {
            let (value, interval) = words::figure(row, &row.figures[side]);
            let effect = side
                .checked_sub(1)
                .map(|other| &row.effects[other])
                .filter(|_| row.figures[side].n > 0 || row.figures[side].is_resolved());
            let word =
                effect.map_or_else(String::new, |effect| page.paint(paint(effect.word), &words::short_word(effect)));
            page.line(&format!(
                "  {rank:>3} {:NAME$}{:FIGURE$}{:RATIO$}{word}",
                shorten(&comparison.sides[side].name, NAME - 1),
                format!("{value} {interval}"),
                effect.map_or_else(String::new, |effect| words::ratio(&effect.ratio))
            ));
        }
    }
    page.line("");
    let legend = "A side's rank is one more than the number of sides that are certainly better: their intervals do not \
                  overlap with this side's. A side without an interval has no rank.";
    for line in crate::page::wrap(legend, page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

/// The sides by how long an operation takes over all kinds of operation.
fn whole(page: &mut Page, comparison: &Comparison) {
    if comparison.overall.is_empty() {
        return;
    }
    page.line("");
    let heading = page.paint(BOLD, "Over all kinds of operation");
    page.line(&format!(
        "  {heading} (shortest time first), and the ratio to {}",
        shorten(&comparison.sides[0].name, NAME)
    ));
    let mut order: Vec<(usize, f64)> = vec![(0, 1.0)];
    order.extend(comparison.overall.iter().enumerate().filter_map(|(at, effect)| Some((at + 1, effect.ratio.value?))));
    order.order_by(|a, b| a.1.total_cmp(&b.1));
    for (side, _) in order {
        let effect = side.checked_sub(1).map(|other| &comparison.overall[other]);
        let word = effect.map_or_else(String::new, |effect| page.paint(paint(effect.word), &words::short_word(effect)));
        let ratio = effect.map_or_else(|| "1".to_owned(), |effect| words::ratio(&effect.ratio));
        page.line(&format!("      {:NAME$}{ratio:FIGURE$}{word}", shorten(&comparison.sides[side].name, NAME - 1)));
    }
}

/// The sides in their order, with their ranks; those without the figure are last, and without a rank.
fn ranked(row: &Row) -> Vec<(String, usize)> {
    let better = words::of(row).map_or(Better::Lower, |metric| metric.better);
    let mut order: Vec<(usize, f64)> =
        row.figures.iter().enumerate().filter_map(|(side, figure)| Some((side, figure.value?))).collect();
    order.order_by(|a, b| if better == Better::Higher { b.1.total_cmp(&a.1) } else { a.1.total_cmp(&b.1) });
    let mut found = Vec::new();
    let limits = |side: usize| row.figures[side].low.zip(row.figures[side].high);
    let known: Vec<(f64, f64)> = order.iter().filter_map(|(side, _)| limits(*side)).collect();
    for (side, _) in &order {
        let rank = limits(*side).map(|mine| better.rank(mine, &known));
        found.push((rank.map_or_else(|| "-".to_owned(), |rank| rank.to_string()), *side));
    }
    let without = (0..row.figures.len()).filter(|side| row.figures[*side].value.is_none() && row.figures[*side].n > 0);
    found.extend(without.map(|side| ("-".to_owned(), side)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::{Estimate, OpClass};

    #[test]
    fn overlapping_sides_share_a_rank() {
        let figure = |value: f64, low: f64, high: f64| Estimate {
            value: Some(value),
            low: Some(low),
            high: Some(high),
            ..Estimate::default()
        };
        let row = Row {
            step: "a".to_owned(),
            also: Vec::new(),
            title: String::new(),
            op: OpClass::Read,
            metric: "lat_p50_ns".to_owned(),
            leads: true,
            is_primary: false,
            figures: vec![
                figure(3.0, 2.5, 3.5),
                figure(1.0, 0.9, 1.1),
                figure(1.05, 1.0, 1.2),
                Estimate { value: Some(2.0), ..Estimate::default() },
                Estimate { n: 5, ..Estimate::default() },
                Estimate::default(),
            ],
            effects: Vec::new(),
        };
        let order: Vec<(String, usize)> = ranked(&row);
        let ranks: Vec<(&str, usize)> = order.iter().map(|(rank, side)| (rank.as_str(), *side)).collect();
        assert_eq!(ranks, [("1", 1), ("1", 2), ("-", 3), ("3", 0), ("-", 4)]);
    }
}
