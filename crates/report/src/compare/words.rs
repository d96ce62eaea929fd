//! Words and numbers that the forms of a comparison share.

use jiff::tz::TimeZone;
use qd1_model::comparison::{Basis, Comparison, Effect, FOUND, Limit, Row, Side, Word};
use qd1_model::metric::{Metric, Unit, metric};
use qd1_model::Estimate;

use crate::words::interval;

/// Figures of a headline at most.
const NAMED: usize = 2;

/// The first sentence: what each side is against the first.
pub(super) fn headline(comparison: &Comparison) -> Vec<String> {
    let first = &comparison.sides[0].name;
    comparison.sides.iter().enumerate().skip(1).map(|(side, other)| {
        let effects = || comparison.rows.iter().map(move |row| (row, &row.effects[side - 1]));
        let count = |word: Word| effects().filter(|(_, effect)| effect.word == word).count();
        let (better, worse) = (count(Word::Better), count(Word::Worse));
        if better + worse + count(Word::Same) == 0 && overall(comparison, side).is_none_or(|whole| whole.word == Word::CannotTell) {
            return format!("{} cannot be told from {first} in any of {} figures.", other.name, comparison.rows.len());
        }
        let counts = if comparison.sides.len() > 2 {
            String::new()
        } else {
            format!(
                "; {better} of {} figures better, {worse} worse, {} the same, {} cannot be told",
                comparison.rows.len(),
                count(Word::Same),
                count(Word::CannotTell)
            )
        };
        let what = match (better, worse, overall(comparison, side).map(|effect| effect.word)) {
            (0, 0, Some(Word::Better)) | (1.., 0, _) => "is better than",
            (0, 0, Some(Word::Worse)) | (0, 1.., _) => "is worse than",
            (1.., 1.., _) => "is better in some and worse in others than",
            (0, 0, Some(Word::Same)) => "is the same as",
            _ => "cannot be told from",
        };
        let mut named: Vec<(&Row, &Effect)> =
            effects().filter(|(row, effect)| row.leads && matches!(effect.word, Word::Better | Word::Worse)).collect();
        named.sort_by(|a, b| size(b.1).total_cmp(&size(a.1)));
        let named: Vec<String> = named.iter().take(NAMED).map(|(row, effect)| {
            format!("{} {} {}", row.step, title(row), ratio(&effect.ratio))
        }).collect();
        let named = if named.is_empty() { String::new() } else { format!(": {}", named.join(", ")) };
        format!("{} {what} {first}{named}{counts}.", other.name)
    }).collect()
}

/// What a side comes to in everything.
pub(super) fn overall(comparison: &Comparison, side: usize) -> Option<&Effect> {
    comparison.overall.get(side - 1)
}

/// The sentence of [`overall`].
pub(super) fn overall_sentence(comparison: &Comparison, side: usize) -> Option<String> {
    let effect = overall(comparison, side)?;
    let (side, first) = (&comparison.sides[side].name, &comparison.sides[0].name);
    let ratio = ratio(&effect.ratio);
    Some(format!(
        "Over all kinds of operation, one on {side} takes {ratio} times as long as on {first}: {}.",
        word(effect)
    ))
}

fn size(effect: &Effect) -> f64 {
    effect.ratio.value.filter(|value| *value > 0.0).map_or(0.0, |value| value.ln().abs())
}

/// A row's figure, with its kind of operation where the step's name alone does not say it.
pub(super) fn title(row: &Row) -> String {
    match of(row) {
        Some(metric) if metric.name == "stall_share" => "in stalls".to_owned(),
        Some(metric) => metric.title.to_owned(),
        None => row.metric.clone(),
    }
}

pub(super) fn of(row: &Row) -> Option<&'static Metric> {
    metric(&row.metric)
}

/// `1.28 [1.21..1.36]`.
pub(super) fn ratio(ratio: &Estimate) -> String {
    match (ratio.value, ratio.low, ratio.high) {
        (Some(value), Some(low), Some(high)) => format!("{} [{}..{}]", digits(value), digits(low), digits(high)),
        (Some(value), ..) => digits(value),
        _ => String::new(),
    }
}

fn digits(value: f64) -> String {
    match value {
        v if !v.is_finite() => "-".to_owned(),
        v if v >= 99.95 => format!("{v:.0}"),
        v if v >= 9.995 => format!("{v:.1}"),
        v if v >= 0.0995 => format!("{v:.2}"),
        v => format!("{v:.3}"),
    }
}

/// `worse`, `same within 4 %`.
pub(super) fn word(effect: &Effect) -> String {
    match (effect.word, effect.within) {
        (Word::Same, Some(within)) => format!("same within {} %", percent(within)),
        (word, _) => word.name().to_owned(),
    }
}

/// The same for a narrow column: `same +-4 %`.
pub(super) fn short_word(effect: &Effect) -> String {
    match (effect.word, effect.within) {
        (Word::Same, Some(within)) => format!("same +-{} %", percent(within)),
        (word, _) => word.name().to_owned(),
    }
}

fn percent(within: f64) -> f64 {
    (100.0 * within).ceil().max(1.0)
}

/// A figure: value and, in the second, its interval.
pub(super) fn figure(row: &Row, estimate: &Estimate) -> (String, String) {
    let unit = of(row).map_or(Unit::Share, |metric| metric.unit);
    match estimate.value {
        Some(value) => (unit.format(value), if estimate.low.is_some() { interval(unit, estimate) } else { String::new() }),
        None if estimate.n > 0 => ("not resolved".to_owned(), String::new()),
        None => ("-".to_owned(), String::new()),
    }
}

/// What the intervals rest on, and what would make them narrower.
pub(super) fn basis(comparison: &Comparison) -> Vec<String> {
    let together = format!(
        "The intervals of the {} ratios{} hold together in 95 of 100 comparisons.",
        comparison.together,
        if comparison.overall.is_empty() { "" } else { " and of the whole" }
    );
    let needed = |what: &str| match comparison.runs_needed {
        Some(runs) if runs >= 100 => format!("{what} 100 runs of each would not find"),
        Some(runs) => format!("{what} about {runs} runs of each would find"),
        None => String::new(),
    };
    let ten = format!("a difference of {:.0} %", 100.0 * FOUND);
    match comparison.basis {
        Basis::Runs => {
            let more = needed("Where it cannot be told,");
            let more = if more.is_empty() { String::new() } else { format!(" {more} {ten}.") };
            vec![format!("{together} They rest on how runs of a side differ from each other.{more}")]
        }
        Basis::Visits => {
            let more = match comparison.runs_needed {
                Some(_) => format!(" {} {ten}, if runs differ by no more than that.", needed("Where it cannot be told,")),
                None => String::new(),
            };
            vec![format!(
                "{together} They rest on what each run saw by itself: with one run of each, how runs of one disk differ \
                 from each other is not known, and a difference may be the hour's. Three runs of each would show it: \
                 qd1 compare --group a=RUN,RUN,RUN b=RUN,RUN,RUN.{more}"
            )]
        }
    }
}

/// `4f2a9c01, 77aa01ce; qd1 0.1.0; 2026-11-25 10:04 to 2026-11-26 09:12`.
pub(super) fn runs(side: &Side, zone: &TimeZone) -> String {
    let named: Vec<&str> = side.runs.iter().map(|run| run.label.as_str()).collect();
    let file = named.first().and_then(|first| first.rsplit_once('#')).map(|(file, _)| file);
    let of_file = file.filter(|file| named.iter().all(|name| name.rsplit_once('#').is_some_and(|(other, _)| other == *file)));
    let mut tools: Vec<&str> = side.runs.iter().map(|run| run.tool.as_str()).collect();
    tools.dedup();
    let mut parts = Vec::new();
    match of_file {
        Some(file) => parts.push(format!("{} runs in {file}", named.len())),
        None if named != [side.name.as_str()] => parts.push(few(&named)),
        None => {}
    }
    parts.push(few(&tools));
    let began: Vec<u64> = side.runs.iter().filter_map(|run| run.started_unix_ns).collect();
    if let (Some(first), Some(last)) = (began.iter().min(), began.iter().max()) {
        let [first, last] = [first, last].map(|ns| when(*ns, zone));
        parts.push(if first == last { first } else { format!("{first} to {last}") });
    }
    parts.join("; ")
}

/// Names, the first few of them.
fn few(names: &[&str]) -> String {
    const MOST: usize = 6;
    let more = names.len().saturating_sub(MOST);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

fn when(unix_ns: u64, zone: &TimeZone) -> String {
    match jiff::Timestamp::from_nanosecond(unix_ns.into()) {
        Ok(time) => time.to_zoned(zone.clone()).strftime("%Y-%m-%d %H:%M").to_string(),
        Err(_) => "?".to_owned(),
    }
}

/// What a limit came to.
pub(super) fn judged(limit: &Limit) -> &'static str {
    match (limit.is_beyond, limit.is_within) {
        (true, _) => "FAIL",
        (false, true) => "pass",
        (false, false) => "cannot tell",
    }
}
