//! Words and numbers that the forms of a comparison share.

use jiff::tz::TimeZone;
use qd1_model::Estimate;
use qd1_model::comparison::{Basis, Comparison, Effect, FOUND, Limit, Row, Side, Word};
use qd1_model::metric::{Metric, Unit, metric};
use qd1_model::order::Order as _;

use crate::words::{interval, when};

/// Figures of a headline at most.
const NAMED: usize = 2;
/// Names of runs, tools and sides at most.
const NAMES_MAX: usize = 6;

/// The first sentence: how each side compares with the first, by the primary figures.
pub(super) fn headline(comparison: &Comparison) -> Vec<String> {
    (1..comparison.sides.len()).map(|side| headline_of(comparison, side)).collect()
}

fn headline_of(comparison: &Comparison, side: usize) -> String {
    let (first, other) = (&comparison.sides[0].name, &comparison.sides[side].name);
    let primary: Vec<(&Row, &Effect)> =
        comparison.rows.iter().filter(|row| row.is_primary).map(|row| (row, &row.effects[side - 1])).collect();
    let whole = overall(comparison, side);
    let all: Vec<&Effect> = primary.iter().map(|(_, effect)| *effect).chain(whole).collect();
    let count = |word: Word| all.iter().filter(|effect| effect.word == word).count();
    let (better, worse) = (count(Word::Better), count(Word::Worse));
    if better + worse + count(Word::Same) == 0 {
        let (spoilt, count) = (all.iter().filter(|effect| effect.is_spoiled).count(), all.len());
        if spoilt == count && count > 0 {
            let both = "the runs were disturbed, so none of their primary figures is judged; measure again while \
                        nothing else runs";
            return format!("{other} and {first}: {both}.");
        }
        let spoilt = if spoilt > 0 { format!(" ({spoilt} of them spoiled)") } else { String::new() };
        return format!("{other} cannot be distinguished from {first} in any of {count} primary figures{spoilt}.");
    }
    let counts = if comparison.sides.len() > 2 {
        String::new()
    } else {
        let counts = [
            (better, "better"),
            (worse, "worse"),
            (count(Word::Same), "the same"),
            (count(Word::CannotTell), "undecided"),
        ];
        let counts = counts.iter().filter(|(count, _)| *count > 0).map(|(count, what)| format!("{count} {what}"));
        let (count, plural) = (all.len(), if all.len() == 1 { "" } else { "s" });
        format!("; of {count} primary figure{plural} {}", counts.collect::<Vec<_>>().join(", "))
    };
    let what = match (better, worse, whole.map(|effect| effect.word)) {
        (1.., 0, _) => "is better than",
        (0, 1.., _) => "is worse than",
        (1.., 1.., _) => "is better in some and worse in others than",
        (0, 0, Some(Word::Same)) => "is the same as",
        _ => "cannot be distinguished from",
    };
    let mut named: Vec<(&Row, &Effect)> =
        primary.into_iter().filter(|(_, effect)| matches!(effect.word, Word::Better | Word::Worse)).collect();
    named.order_by(|a, b| size(b.1).total_cmp(&size(a.1)));
    let mut said: Vec<String> = named
        .iter()
        .take(NAMED)
        .map(|(row, effect)| format!("{} {} {} times", row.step, title(row), ratio(&effect.ratio)))
        .collect();
    if let Some(whole) = whole.filter(|whole| said.is_empty() && matches!(whole.word, Word::Better | Word::Worse)) {
        said.push(format!("over all kinds of operation, one takes {} times as long", ratio(&whole.ratio)));
    }
    let said = if said.is_empty() { String::new() } else { format!(": {}", said.join(", ")) };
    format!("{other} {what} {first}{said}{counts}.")
}

/// What the exploratory figures of a side come to; `None` where there are none.
pub(super) fn explored(comparison: &Comparison, side: usize) -> Option<String> {
    let effects: Vec<&Effect> =
        comparison.rows.iter().filter(|row| !row.is_primary).map(|row| &row.effects[side - 1]).collect();
    let count = |word: Word| effects.iter().filter(|effect| effect.word == word).count();
    let (better, worse) = (count(Word::Better), count(Word::Worse));
    let all = effects.len();
    let be = |count: usize| if count == 1 { "is" } else { "are" };
    let said = match (better, worse) {
        _ if all == 0 => return None,
        (0, 0) => return Some(format!("Exploratory figures, which decide nothing: none of {all} differs.")),
        (_, 0) => format!("{better} of {all} {} better", be(better)),
        (0, _) => format!("{worse} of {all} {} worse", be(worse)),
        _ => format!("of {all} {better} {} better and {worse} worse", be(better)),
    };
    let chance = 100.0 * comparison.false_discovery_rate;
    Some(format!(
        "Exploratory figures, which decide nothing: {said}; about {chance:.0} in 100 such findings are due to chance."
    ))
}

/// How much the disturbance of the runs explains at most, for the figures where that is known.
pub(super) fn explained(comparison: &Comparison, side: usize) -> Vec<String> {
    let of = |is_judged: bool| -> Vec<String> {
        let rows = comparison.rows.iter().filter(|row| row.is_primary);
        let rows = rows.filter_map(|row| {
            let effect = &row.effects[side - 1];
            let is_like = effect.is_spoiled != is_judged && (is_judged == is_apart(effect) || !is_judged);
            let factor = effect.explained.filter(|_| is_like)?;
            Some(format!("{} ({} {})", digits(factor), row.step, title(row)))
        });
        rows.collect()
    };
    let said = |figures: Vec<String>, what: &str| {
        let figures = (!figures.is_empty()).then(|| figures.join(", "))?;
        Some(format!("The disturbance of the runs explains a factor of at most {figures}: {what}."))
    };
    [
        said(of(true), "the difference is larger"),
        said(of(false), "that may be the whole difference, so it is not judged"),
    ]
    .into_iter()
    .flatten()
    .collect()
}

fn is_apart(effect: &Effect) -> bool {
    matches!(effect.word, Word::Better | Word::Worse)
}

/// The overall effect of a side.
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
        Some(metric) if metric.name == "iops" => "per s".to_owned(),
        Some(metric) if metric.name == "bytes_per_second" => "bytes/s".to_owned(),
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
        _ => "-".to_owned(),
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
        (Word::CannotTell, _) if effect.is_spoiled => "cannot tell, spoiled".to_owned(),
        (word, _) => word.name().to_owned(),
    }
}

/// The same for a narrow column: `same +-4 %`.
pub(super) fn short_word(effect: &Effect) -> String {
    match (effect.word, effect.within) {
        (Word::Same, Some(within)) => format!("same +-{} %", percent(within)),
        (Word::CannotTell, _) if effect.is_spoiled => "spoiled".to_owned(),
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
        Some(value) => {
            (unit.format(value), if estimate.low.is_some() { interval(unit, estimate) } else { String::new() })
        }
        None if estimate.n > 0 => ("not resolved".to_owned(), String::new()),
        None => ("-".to_owned(), String::new()),
    }
}

/// What the intervals are based on, and what would make them narrower.
pub(super) fn basis(comparison: &Comparison) -> Vec<String> {
    let whole = if comparison.overall.is_empty() { "" } else { ", including the overall one," };
    let count = comparison.rows.iter().filter(|row| row.is_primary).count() * (comparison.sides.len() - 1)
        + comparison.overall.len();
    let has_others = comparison.rows.iter().any(|row| !row.is_primary);
    let others = if has_others {
        format!(
            "; of the other figures reported to differ, about {:.0} in 100 do (false discovery rate {:.0} %)",
            100.0 * (1.0 - comparison.false_discovery_rate),
            100.0 * comparison.false_discovery_rate
        )
    } else {
        String::new()
    };
    let together = format!(
        "[a..b] is an interval; those of the {count} primary figures{whole} all hold in {:.0} of 100 comparisons \
         (Holm){others}",
        100.0 * (1.0 - comparison.family_wise_error)
    );
    let ten = format!("a difference of {:.0} %", 100.0 * FOUND);
    let mut effects = comparison.rows.iter().flat_map(|row| &row.effects).peekable();
    let is_all_spoiled = effects.peek().is_some() && effects.all(|effect| effect.is_spoiled);
    let needed = match comparison.runs_needed {
        _ if is_all_spoiled => "All of these figures are spoiled; more such runs would not help.".to_owned(),
        Some(runs) if runs >= 100 => {
            format!("Not even 100 runs of each side would reveal {ten} in the others: these figures vary too much.")
        }
        Some(runs) => format!("About {runs} runs of each side would reveal {ten} in half of the undecided figures."),
        None => String::new(),
    };
    match comparison.basis {
        Basis::Pairs => vec![format!(
            "{together}. Both places were measured in turn, and neighbouring visits are compared: what affects both cancels \
             out. Intervals of steps with one visit are based on what each run saw."
        )],
        Basis::Runs => {
            vec![format!("{together}. The intervals are based on how runs of a side differ from each other. {needed}")]
        }
        Basis::Visits => vec![
            format!(
                "{together}, if runs of one disk differ no more than the disk varied within each run. With one run of each \
                 side, this is unknown: a difference may come from the time of day."
            ),
            if is_all_spoiled {
                needed
            } else {
                format!(
                    "To find out, measure each side at least three times, and name the runs: qd1 compare --group \
                     before=ID,ID,ID after=ID,ID,ID. {needed}"
                )
            },
        ],
    }
}

/// What is missing from the sources of the sides, and whose.
pub(super) fn missing(comparison: &Comparison) -> Vec<String> {
    let said = || comparison.sides.iter().flat_map(|side| side.missing.iter().map(|what| (side.name.as_str(), what)));
    let mut told: Vec<&String> = Vec::new();
    let mut lines = Vec::new();
    for (_, what) in said() {
        if told.contains(&what) {
            continue;
        }
        told.push(what);
        let who: Vec<&str> = said().filter(|(_, other)| *other == what).map(|(who, _)| who).collect();
        let who = if who.len() == comparison.sides.len() { "all sides".to_owned() } else { few(&who, NAMES_MAX) };
        lines.push(format!("{who}: {what}"));
    }
    lines
}

/// Steps that are not compared: those with a reason of their own, and those that only one side has, of which at most
/// `most` are named.
pub(super) fn left_out(comparison: &Comparison, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut alone: Vec<(&str, Vec<&str>)> = Vec::new();
    for left in &comparison.left_out {
        if !left.why.is_empty() {
            lines.push(format!("{} of {}: {}", left.step, left.side, left.why));
            continue;
        }
        match alone.iter_mut().find(|(side, _)| *side == left.side) {
            Some((_, steps)) if steps.contains(&left.step.as_str()) => {}
            Some((_, steps)) => steps.push(&left.step),
            None => alone.push((&left.side, vec![&left.step])),
        }
    }
    let only = alone.iter().map(|(side, steps)| format!("only {side} has {}", few(steps, most)));
    lines.extend(only);
    lines
}

/// `4f2a9c01, 77aa01ce; qd1 0.1.0; 2026-11-25 10:04 to 2026-11-26 09:12`.
pub(super) fn runs(side: &Side, zone: &TimeZone) -> String {
    let named = files(side);
    let mut tools: Vec<&str> = side.runs.iter().map(|run| run.tool.as_str()).collect();
    tools.dedup();
    let mut parts = Vec::new();
    if named != [side.name.clone()] {
        parts.push(few(&named.iter().map(String::as_str).collect::<Vec<_>>(), NAMES_MAX));
    }
    parts.push(few(&tools, NAMES_MAX));
    let began: Vec<u64> = side.runs.iter().filter_map(|run| run.started_unix_ns).collect();
    if let (Some(first), Some(last)) = (began.iter().min(), began.iter().max()) {
        let [first, last] = [first, last].map(|ns| when(*ns, zone));
        parts.push(if first == last { first } else { format!("{first} to {last}") });
    }
    parts.join("; ")
}

/// The labels of runs; those of one file are counted: `randread.txt (5 runs)`.
fn files(side: &Side) -> Vec<String> {
    let mut files: Vec<(&str, usize)> = Vec::new();
    for label in side.runs.iter().map(|run| run.label.as_str()) {
        let number = label.rsplit_once('#').filter(|(_, number)| number.bytes().all(|digit| digit.is_ascii_digit()));
        let file = number.map_or(label, |(file, _)| file);
        match files.last_mut() {
            Some((last, count)) if *last == file && number.is_some() => *count += 1,
            _ => files.push((file, usize::from(number.is_some()))),
        }
    }
    let name = |(file, count): (&str, usize)| {
        let file = file.rsplit('/').next().unwrap_or(file);
        if count > 0 { format!("{file} ({count} runs)") } else { file.to_owned() }
    };
    files.into_iter().map(name).collect()
}

/// Names, the first few of them.
fn few(names: &[&str], most: usize) -> String {
    let more = names.len().saturating_sub(most);
    let shown = names[..names.len() - more].join(", ");
    if more > 0 { format!("{shown} and {more} more") } else { shown }
}

/// A further remark on a limit.
fn remark(limit: &Limit) -> &'static str {
    match (limit.is_of_better, limit.is_beyond || limit.is_within) {
        (true, _) => "; it fails on an improvement",
        (false, false) => "; not shown to be within the limit (--strict would fail)",
        (false, true) => "",
    }
}

/// `b is 1.28 [1.22..1.34] times that of a`.
pub(super) fn limit(limit: &Limit, comparison: &Comparison) -> String {
    let first = &comparison.sides[0].name;
    match limit.ratio.value {
        Some(_) => format!("{} is {} times that of {first}{}", limit.side, ratio(&limit.ratio), remark(limit)),
        None => format!("how {} compares with {first} is not known{}", limit.side, remark(limit)),
    }
}

/// The result of a limit.
pub(super) fn judged(limit: &Limit) -> &'static str {
    match (limit.is_beyond, limit.is_within) {
        (true, _) => "FAIL",
        (false, true) => "pass",
        (false, false) => "cannot tell",
    }
}
