//! A comparison for a data frame: one row for each figure and side.

use qd1_model::comparison::Comparison;

use crate::table::quoted;

const HEADER: &str =
    "step,op,metric,leads,primary,side,runs,value,low,high,n,ratio,ratio_low,ratio_high,word,within,chance,explained\n";

/// Returns all figures. Unresolved ones are empty; the first side has no ratio.
pub(super) fn render(comparison: &Comparison) -> String {
    let mut text = HEADER.to_owned();
    let number = |value: Option<f64>| value.map(|value| value.to_string()).unwrap_or_default();
    for row in &comparison.rows {
        for (at, (side, figure)) in comparison.sides.iter().zip(&row.figures).enumerate() {
            let effect = at.checked_sub(1).and_then(|other| row.effects.get(other));
            let ratio = effect.map(|effect| effect.ratio).unwrap_or_default();
            let fields = [
                quoted(&row.step),
                row.op.name().to_owned(),
                row.metric.clone(),
                row.leads.to_string(),
                row.is_primary.to_string(),
                quoted(&side.name),
                side.runs.len().to_string(),
                number(figure.value),
                number(figure.low),
                number(figure.high),
                figure.n.to_string(),
                number(ratio.value),
                number(ratio.low),
                number(ratio.high),
                effect.map(|effect| effect.word.name().to_owned()).unwrap_or_default(),
                number(effect.and_then(|effect| effect.within)),
                number(effect.and_then(|effect| effect.chance)),
                number(effect.and_then(|effect| effect.explained)),
            ];
            text += &fields.join(",");
            text.push('\n');
        }
    }
    text
}
