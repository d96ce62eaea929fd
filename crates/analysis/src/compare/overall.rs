//! One ratio for everything: how many times as long operations take on another side as on the first, in the geometric mean
//! over all kinds of operation of all steps, each by its mean latency, or where that is not known by its first figure (rates
//! turned round).
//!
//! What moves from one second to the next meets some steps and not others, and averages out: ten steps together show a
//! difference that none of them shows by itself. With several runs of each side it is a plain Student's t of run means.

use qd1_model::comparison::Row;
use qd1_model::metric::{Better, metric};
use qd1_model::{Estimate, OpClass};

use super::effects::{Figures, Width};

/// Kinds of operation that make more of the whole than one of them by itself.
const KINDS_MIN: usize = 2;
/// The figure that says how long operations take.
const MEAN: &str = "lat_mean_ns";

/// One figure of each kind of operation, as logarithms of what is longer the worse; `None` for too few.
pub(super) fn figures(rows: &[(Row, Figures)]) -> Option<Figures> {
    let mut kinds: Vec<(&str, OpClass)> = rows.iter().map(|(row, _)| (row.step.as_str(), row.op)).collect();
    kinds.dedup();
    let is_lost =
        |figures: &Figures| (1..figures.runs().len()).any(|side| figures.is_lost(side, figures.between().as_ref()));
    let is_usable = |figures: &Figures| figures.is_whole() && !is_lost(figures);
    let whole: Vec<&(Row, Figures)> = rows.iter().filter(|(_, figures)| is_usable(figures)).collect();
    let figure = |(step, op): (&str, OpClass)| {
        let mine = || whole.iter().filter(move |(row, _)| row.step == step && row.op == op);
        let (row, figures) =
            mine().find(|(row, _)| row.metric == MEAN).or_else(|| mine().find(|(row, _)| row.leads))?;
        let better = metric(&row.metric).map(|metric| metric.better);
        Some((figures, if better == Some(Better::Higher) { -1.0 } else { 1.0 }))
    };
    let mut of: Vec<(&Figures, f64)> = kinds.into_iter().filter_map(figure).collect();
    let runs = of.first().map(|(figures, _)| figures.runs())?;
    of.retain(|(figures, _)| figures.runs() == runs);
    (of.len() >= KINDS_MIN).then(|| Figures::mean_of(&of))
}

/// `side` over the first one; `n` is the number of runs.
pub(super) fn ratio(figures: &Figures, side: usize, others: usize, chance: f64) -> Estimate {
    figures.ratio(side, figures.between().as_ref(), Width::alone(chance / others.max(1) as f64))
}
