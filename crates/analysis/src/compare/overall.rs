//! One ratio for everything: how many times as long operations take on another side as on the first, in the geometric
//! mean over all kinds of operation of all steps, each by its mean latency, or if that is not known by its first figure
//! (rates inverted).
//!
//! Variation from one second to the next affects some steps and not others, and averages out: ten steps together show a
//! difference that none of them shows on its own. With several runs of each side it is a plain Student's t of run
//! means.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use qd1_model::OpClass;
use qd1_model::comparison::Row;
use qd1_model::metric::{Better, metric};

use super::effects::Figures;

/// Fewest kinds of operation for which the whole is more than one of them on its own.
const KINDS_MIN: usize = 2;
/// The figure that says how long operations take.
const MEAN: &str = "lat_mean_ns";

/// One figure of each kind of operation, as logarithms of which larger is worse; `None` for too few.
pub(super) fn figures(rows: &[(Row, Figures)]) -> Option<Figures> {
    let mut kinds: Vec<(&str, OpClass)> = rows.iter().map(|(row, _)| (row.step.as_str(), row.op)).collect();
    kinds.dedup();
    let is_lost =
        |figures: &Figures| (1..figures.runs().len()).any(|side| figures.is_lost(side, figures.between().as_ref()));
    // If some were measured in turn, those make up the whole.
    let has_pairs = |figures: &Figures| (1..figures.runs().len()).any(|side| figures.pairs(side).is_some());
    let are_in_turn = rows.iter().any(|(_, figures)| has_pairs(figures));
    let is_usable = |figures: &Figures| figures.is_whole() && !is_lost(figures) && (has_pairs(figures) || !are_in_turn);
    // The figure of each kind: its mean latency, else its first primary figure.
    let mut whole: HashMap<(&str, OpClass), &(Row, Figures)> = HashMap::new();
    for usable in rows.iter().filter(|(_, figures)| is_usable(figures)) {
        let row = &usable.0;
        let is_mean = |of: &(Row, Figures)| of.0.metric == MEAN;
        match whole.entry((row.step.as_str(), row.op)) {
            Entry::Vacant(none) if is_mean(usable) || row.leads => drop(none.insert(usable)),
            Entry::Occupied(mut known) if is_mean(usable) && !is_mean(known.get()) => drop(known.insert(usable)),
            _ => {}
        }
    }
    let figure = |kind: (&str, OpClass)| {
        let (row, figures) = whole.get(&kind)?;
        let better = metric(&row.metric).map(|metric| metric.better);
        Some((figures, if better == Some(Better::Higher) { -1.0 } else { 1.0 }))
    };
    let mut of: Vec<(&Figures, f64)> = kinds.into_iter().filter_map(figure).collect();
    let runs = of.first().map(|(figures, _)| figures.runs())?;
    of.retain(|(figures, _)| figures.runs() == runs);
    (of.len() >= KINDS_MIN).then(|| Figures::mean_of(&of))
}
