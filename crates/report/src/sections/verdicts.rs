//! The classes of workload of a check, a line each.

use qd1_model::metric::{Better, Unit, metric};
use qd1_model::verdict::{Impression, Judged};
use qd1_model::{Estimate, Grade, Report, Verdict};

use crate::page::{Page, shorten};
use crate::sections::criteria::paint;
use crate::words;

/// Column of a class's title: two spaces, the longest grade, a space.
const TITLE: usize = 15;
/// Letters of a step's name that are shown.
const STEP_MAX: usize = 14;
/// Letters of a title that are shown, and those that the column of figures makes room for.
const TITLE_MAX: usize = 60;
const ALIGNED_MAX: usize = 30;

/// Writes a line for each class: its grade, the figure that decided, and the bound that it is held against.
///
/// The figures stand without their intervals: the grade is by these, and the whole report has them.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    let length = |verdict: &Verdict| verdict.title.chars().count().min(TITLE_MAX);
    // What `--only` adds to a title is no reason to push all figures to the right.
    let longest = report.verdicts.iter().map(length).filter(|length| *length <= ALIGNED_MAX).max().unwrap_or(0);
    let column = TITLE + longest + 2;
    for verdict in &report.verdicts {
        let grade = page.paint(paint(verdict.grade), verdict.grade.name().to_uppercase().as_str());
        let gap = TITLE - 2 - verdict.grade.name().len();
        let figure = decided_by(verdict);
        let title = shorten(&verdict.title, TITLE_MAX);
        let fits = title.chars().count() + 2 + TITLE <= column;
        if fits && column + figure.chars().count() <= page.prose_width() {
            page.line(&format!("  {grade}{:gap$}{title:<w$}{figure}", "", w = column - TITLE));
        } else {
            page.line(&format!("  {grade}{:gap$}{title}", ""));
            page.prose(TITLE + 2, &figure);
        }
    }
    if let Some(reads) = report.impressions.iter().find(|impression| impression.requests == "reads") {
        at_depth_1(page, reads, column);
    }
}

/// The row of single reads.
const READS: &str = "one read at a time";

/// Writes the row of single reads, which has words of its own: what each request waits for that comes alone.
fn at_depth_1(page: &mut Page, reads: &Impression, column: usize) {
    let Some(metric) = metric(&reads.metric) else { return };
    let figure = reads.figure.map_or_else(|| "not measured".to_owned(), |figure| words::known(metric.unit, &figure));
    // Of several words the best that it may be, in one word: the figure shows how far it may be from there.
    let word = reads.word.as_deref().map_or("not rated", |word| word.split(' ').next().unwrap_or(word));
    let bound = reads.bounds.iter().find(|bound| bound.word == word).or(reads.bounds.last());
    let bound = bound
        .map_or_else(String::new, |bound| format!(", {} <={}", bound.word, words::threshold(metric.unit, bound.up_to)));
    let gap = (TITLE - 2).saturating_sub(word.chars().count());
    let figure = format!("{} {figure}{bound}", metric.title);
    let width = (column - TITLE).max(READS.len() + 2);
    page.line(&format!("  {word}{:gap$}{READS:<width$}{figure}", ""));
}

/// Returns the criterion that decided: `wal sync p99 12.0 ms, pass <=10 ms`; and which is open beside it.
fn decided_by(verdict: &Verdict) -> String {
    let decided = words::deciding(verdict).first().map_or_else(String::new, |judged| short(judged));
    let open = verdict.judged.iter().find(|judged| judged.grade == Grade::NotResolved);
    match open.filter(|_| verdict.grade == Grade::Marginal) {
        Some(open) => format!("{decided}; {} open", figure_parts(open).0),
        None => decided,
    }
}

/// Returns the same of one criterion.
pub(crate) fn short(judged: &Judged) -> String {
    let criterion = &judged.criterion;
    let Some(metric) = metric(&criterion.metric) else { return words::judged(judged) };
    let figure = figure(judged);
    if !is_known(judged) {
        return figure;
    }
    if judged.grade == Grade::NotResolved {
        return format!("{figure}, {}", open_in_short(&judged.why));
    }
    let (word, bound) = match (judged.grade, metric.better) {
        (Grade::Fail, Better::Lower) => ("fail >", criterion.fail),
        (Grade::Fail, Better::Higher) => ("fail <", criterion.fail),
        (_, Better::Lower) => ("pass <=", criterion.pass),
        (_, Better::Higher) => ("pass >=", criterion.pass),
    };
    format!("{figure}, {word}{}", words::threshold(metric.unit, bound))
}

/// Whether anything is known of the figure.
fn is_known(judged: &Judged) -> bool {
    judged.figure.is_some_and(|figure| figure.value.is_some() || figure.low.is_some() || figure.high.is_some())
}

/// Returns the figure of a criterion in few words: `wal sync p99 12.0 ms`, `longest stall above 1.2 s`.
pub(crate) fn figure(judged: &Judged) -> String {
    let (name, value) = figure_parts(judged);
    let is_number = is_known(judged);
    if is_number { format!("{name} {value}") } else { format!("{name}: {value}") }
}

/// Returns the same in two parts: what it is of, and how much.
pub(crate) fn figure_parts(judged: &Judged) -> (String, String) {
    let criterion = &judged.criterion;
    let Some(metric) = metric(&criterion.metric) else { return (criterion.step.clone(), "not known".to_owned()) };
    let title = if matches!(metric.unit, Unit::PerSecond | Unit::BytesPerSecond) { "" } else { metric.title };
    let name = match criterion.metric.as_str() {
        "stall_share" => "time in stalls".to_owned(),
        "stall_longest_ns" => "longest stall".to_owned(),
        _ => format!("{} {title}", shorten(&criterion.step, STEP_MAX)).trim_end().to_owned(),
    };
    let value = match judged.figure {
        None => "not measured".to_owned(),
        Some(_) if !is_known(judged) => "too few to say".to_owned(),
        // Another grade is possible: what the figure may be belongs to the answer.
        Some(figure @ Estimate { value: Some(_), low: Some(low), high: Some(high), .. })
            if metric.name != "stall_longest_ns"
                && [criterion.pass, criterion.fail]
                    .iter()
                    .any(|limit| metric.better.is_within(low, *limit) != metric.better.is_within(high, *limit)) =>
        {
            words::figure(metric.unit, &figure)
        }
        Some(figure) => words::known(metric.unit, &figure),
    };
    (name, value)
}

/// Returns the name of a grade's colour.
pub(crate) const fn color(grade: Grade) -> &'static str {
    match grade {
        Grade::Pass => "good",
        Grade::Marginal => "middling",
        Grade::Fail => "bad",
        Grade::NotResolved => "open",
    }
}

/// Returns the same of what single reads are like: by where their whole interval lies.
pub(crate) fn color_of_reads(reads: &Impression) -> &'static str {
    let Some((first, last)) = reads.bounds.first().zip(reads.bounds.last()) else { return "open" };
    match reads.figure.filter(|_| reads.word.is_some()) {
        None => "open",
        Some(figure) if figure.high.is_some_and(|high| high <= first.up_to) => "good",
        Some(figure) if figure.low.is_some_and(|low| low > last.up_to) => "bad",
        Some(_) => "middling",
    }
}

/// Why a figure is not resolved, in a word or two: the screen's findings and the whole report say it in full.
fn open_in_short(why: &str) -> &str {
    const SHORT: [(&str, &str); 9] = [
        ("processor", "busy machine"),
        ("else used", "other traffic"),
        ("cache answered", "a cache"),
        ("barriers", "not durable"),
        ("no flush", "not durable"),
        ("not those of a disk", "no disk"),
        ("failed", "failed"),
        ("could not", "stopped"),
        ("", "too uncertain"),
    ];
    SHORT.iter().find(|(said, _)| why.contains(said)).map_or("", |(_, short)| short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::Style;
    use crate::samples as sample;

    #[test]
    fn each_class_has_a_line_with_figure_and_bound() {
        for report in [sample::slow_vps(), sample::fast_nvme()] {
            let mut page = Page::new(&Style::plain(80));
            brief(&mut page, &report);
            assert_eq!(page.text.lines().count(), report.verdicts.len() + 1, "{}", page.text);
            assert!(page.text.lines().all(|line| line.chars().count() <= 80), "{}", page.text);
        }
    }

    #[test]
    fn what_is_marginal_says_why_it_does_not_pass_and_what_is_open() {
        let mut verdict = sample::fast_nvme().verdicts.remove(0);
        let figure = Estimate { value: Some(1.9e6), low: Some(1.7e6), high: Some(2.3e6), ..Estimate::default() };
        let first = &mut verdict.judged[0];
        (first.criterion.pass, first.criterion.fail) = (2e6, 10e6);
        (first.figure, first.grade) = (Some(figure), Grade::Marginal);
        verdict.grade = Grade::Marginal;
        assert_eq!(decided_by(&verdict), "wal sync p99 1.90 ms [1.70..2.30], pass <=2 ms");
        verdict.judged[1].grade = Grade::NotResolved;
        assert!(decided_by(&verdict).ends_with(" pass <=2 ms; time in stalls open"), "{}", decided_by(&verdict));
    }
}
