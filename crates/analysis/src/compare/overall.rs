//! One ratio for everything: how many times as long operations take on another side as on the first, in the geometric mean
//! over all kinds of operation of all steps, each by its first figure (rates turned round).
//!
//! What moves from one second to the next meets some steps and not others, and averages out: ten steps together show a
//! difference that none of them shows by itself.

use qd1_model::Estimate;
use qd1_model::comparison::Row;
use qd1_model::metric::{Better, metric};

use super::effects::{Figures, Width};

/// Kinds of operation that make more of the whole than one of them by itself.
const KINDS_MIN: usize = 2;

/// The first figure of each kind of operation, as logarithms of what is longer the worse; `None` for too few.
pub(super) fn figures(rows: &[(Row, Figures)]) -> Option<Figures> {
    let mut kinds: Vec<(&str, qd1_model::OpClass)> = Vec::new();
    let mut of: Vec<(&Figures, f64)> = Vec::new();
    for (row, figures) in rows.iter().filter(|(row, figures)| row.leads && figures.is_whole()) {
        let kind = (row.step.as_str(), row.op);
        let better = metric(&row.metric).map(|metric| metric.better);
        if !kinds.contains(&kind) {
            kinds.push(kind);
            of.push((figures, if better == Some(Better::Higher) { -1.0 } else { 1.0 }));
        }
    }
    let runs = of.first().map(|(figures, _)| figures.runs())?;
    of.retain(|(figures, _)| figures.runs() == runs);
    (of.len() >= KINDS_MIN).then(|| Figures::mean_of(&of))
}

/// `side` over the first one; `n` is the number of runs.
pub(super) fn ratio(figures: &Figures, side: usize, others: usize, chance: f64) -> Estimate {
    figures.ratio(side, figures.between().as_ref(), Width::alone(chance / others.max(1) as f64))
}
