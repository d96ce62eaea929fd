//! The classes of workload of a check, a line each.

use qd1_model::metric::{Better, Unit, metric};
use qd1_model::verdict::{Impression, Judged};
use qd1_model::{Estimate, Grade, Report, Verdict};

use crate::page::{DIM, Page, shorten, wrap};
use crate::reasons::Reasons;
use crate::section::Section;
use crate::sections::criteria::{self, paint};
use crate::sections::{impressions, long_check, reference, suite};
use crate::table::escaped;
use crate::words;

/// Column of a class's title: two spaces, the longest grade, a space.
const TITLE: usize = 15;
/// Letters of a step's name that are shown.
const STEP_MAX: usize = 14;
/// Letters of a title that are shown, and those that the column of figures makes room for.
const TITLE_MAX: usize = 60;
const ALIGNED_MAX: usize = 30;

/// Column of a class's text in the whole report.
const COLUMN: usize = 16;

/// The classes of workload of a run.
pub(crate) struct Classes<'a> {
    pub(crate) report: &'a Report,
}

/// Whether the classes are the answer of a run: whenever some were judged, and for a check even if none could be.
pub(crate) fn are_the_answer(report: &Report) -> bool {
    let is_without = words::is_check(report) && (report.no_disk().is_some() || report.criteria.is_empty());
    !report.verdicts.is_empty() || is_without
}

impl Section for Classes<'_> {
    fn answer(&self) -> String {
        answer(self.report, false)
    }

    fn whole_answer(&self) -> String {
        answer(self.report, true)
    }

    fn line(&self) -> String {
        words_of_check(self.report).unwrap_or_else(|| self.answer())
    }

    fn answers_in_lines(&self) -> bool {
        !self.report.verdicts.is_empty()
    }

    fn brief(&self, page: &mut Page) {
        if self.report.verdicts.is_empty() {
            suite::brief(page, self.report);
            return;
        }
        brief(page, self.report);
        super::at(self.report, super::Place::BelowVerdicts).for_each(|section| section.brief(page));
        reference::brief(page, self.report);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.report);
    }
}

/// Returns the answer, with the figures of classes that failed or without.
fn answer(report: &Report, with_figures: bool) -> String {
    let classes = classes(report, with_figures);
    if let Some(finding) = report.no_disk().filter(|_| words::is_check(report)) {
        return format!("Nothing is judged: {}. {}", finding.title.trim_end_matches('.'), finding.advice);
    }
    if classes.is_empty() {
        return format!("{} measured; no class of workload was judged.", words::steps(report.summary.steps.len()));
    }
    let over = long_check::time(report).map_or_else(String::new, |time| format!(" over {time}"));
    format!("This disk{over}: {}.", classes.join("; "))
}

/// `commits p99 12.9 ms, reads p99.9 2.46 ms; 1 pass, 2 marginal`; `None` where no class was judged.
fn words_of_check(report: &Report) -> Option<String> {
    if report.verdicts.is_empty() {
        return None;
    }
    let figures = report.impressions.iter().filter_map(|impression| {
        let metric = metric(&impression.metric)?;
        let figure = impression.figure.filter(|_| impression.word.is_some())?;
        Some(format!("{} {} {}", impression.requests, metric.title, words::known(metric.unit, &figure)))
    });
    let figures: Vec<String> = figures.chain(impressions::stalls(report)).collect();
    let count = |grade: Grade| report.verdicts.iter().filter(|verdict| verdict.grade == grade).count();
    let grades = [
        (Grade::Pass, "pass"),
        (Grade::Marginal, "marginal"),
        (Grade::Fail, "fail"),
        (Grade::NotResolved, "not resolved"),
    ];
    let grades = grades.into_iter().filter(|(grade, _)| count(*grade) > 0);
    let grades: Vec<String> = grades.map(|(grade, word)| format!("{} {word}", count(grade))).collect();
    Some(
        [figures.join(", "), grades.join(", ")]
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("; "),
    )
}

/// Returns the classes of each grade in words: `fine for bulk`.
fn classes(report: &Report, with_figures: bool) -> Vec<String> {
    let titles = |grade: Grade| {
        let of_grade = report.verdicts.iter().filter(|verdict| verdict.grade == grade);
        let title = |verdict: &Verdict| match words::deciding(verdict).first() {
            Some(worst) if grade == Grade::Fail && with_figures => {
                format!("{} ({})", verdict.title, words::judged(worst))
            }
            _ => verdict.title.clone(),
        };
        words::join(&of_grade.map(title).collect::<Vec<_>>())
    };
    [
        (Grade::Pass, "fine for"),
        (Grade::Marginal, "marginal for"),
        (Grade::Fail, "too slow for"),
        (Grade::NotResolved, "not resolved for"),
    ]
    .into_iter()
    .filter_map(|(grade, words)| Some(titles(grade)).filter(|t| !t.is_empty()).map(|t| format!("{words} {t}")))
    .collect()
}

/// Writes each class with its deciding figures, their bounds and their sources.
fn section(page: &mut Page, report: &Report) {
    if report.verdicts.is_empty() {
        return;
    }
    page.heading("Verdict");
    let mut reasons = Reasons::default();
    for verdict in &report.verdicts {
        let paint = paint(verdict.grade);
        page.hang(2, &verdict.grade.name().to_uppercase(), paint, COLUMN, &verdict.title);
        for judged in words::deciding(verdict) {
            page.prose(COLUMN, &reasons.judged(judged));
            limits(page, judged);
        }
        let others = words::others(verdict);
        if !others.is_empty() {
            page.prose(COLUMN, &others);
        }
    }
    for line in wrap(&long_check::speaks_for(report), page.prose_width() - 2) {
        let line = page.paint(DIM, &line);
        page.line(&format!("  {line}"));
    }
}

/// Writes the threshold and its source on one line if they fit, otherwise on two.
fn limits(page: &mut Page, judged: &Judged) {
    let (limits, source) = (words::limits(&judged.criterion), &judged.criterion.source);
    let both = format!("{limits} ({source})");
    if COLUMN + 2 + both.chars().count() <= page.prose_width() {
        page.prose(COLUMN + 2, &both);
    } else {
        page.prose(COLUMN + 2, &limits);
        page.prose(COLUMN + 2, &format!("({source})"));
    }
}

/// Writes the same as a table.
fn markdown(text: &mut String, report: &Report) {
    if report.verdicts.is_empty() {
        return;
    }
    *text += "### Verdict\n\n| for | grade | because | threshold | source |\n|---|---|---|---|---|\n";
    let mut reasons = Reasons::default();
    for verdict in &report.verdicts {
        let mut title = escaped(&verdict.title);
        let mut grade = criteria::graded(verdict.grade);
        for judged in words::deciding(verdict) {
            let (figure, limits) = (escaped(&reasons.judged(judged)), words::limits(&judged.criterion));
            *text += &format!("| {title} | {grade} | {figure} | {limits} | {} |\n", escaped(&judged.criterion.source));
            // Further criteria of the same class are listed below the first.
            (title, grade) = (String::new(), String::new());
        }
        let others = escaped(&words::others(verdict));
        if !others.is_empty() {
            *text += &format!("| {title} | {grade} | {others} | | |\n");
        }
    }
    text.push('\n');
    let speaks_for = long_check::speaks_for(report);
    if !speaks_for.is_empty() {
        *text += &format!("{}\n\n", escaped(&speaks_for));
    }
}

/// Writes a line for each class: its grade, the figure that decided, and the bound that it is compared with.
///
/// The figures are shown without their intervals: the grade allows for these, and the whole report has them.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    let length = |verdict: &Verdict| verdict.title.chars().count().min(TITLE_MAX);
    // A title that `--only` made longer must not push all figures to the right.
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

/// Writes the row of single reads, which has words of its own: how long a request waits that is alone on the disk.
fn at_depth_1(page: &mut Page, reads: &Impression, column: usize) {
    let Some(metric) = metric(&reads.metric) else { return };
    let figure = reads.figure.map_or_else(|| "not measured".to_owned(), |figure| words::known(metric.unit, &figure));
    // "good or better" is good; from one word to another it is open, and the figure shows between which.
    let word = match reads.word.as_deref() {
        Some(word) if word.contains(" to ") => "open",
        Some(word) => word.split(' ').next().unwrap_or(word),
        None => "not rated",
    };
    let bound = match word {
        "open" => reads.bounds.first(),
        _ => reads.bounds.iter().find(|bound| bound.word == word).or(reads.bounds.last()),
    };
    let bound = bound
        .map_or_else(String::new, |bound| format!(", {} <={}", bound.word, words::threshold(metric.unit, bound.up_to)));
    let gap = (TITLE - 2).saturating_sub(word.chars().count());
    let figure = format!("{} {figure}{bound}", metric.title);
    let width = (column - TITLE).max(READS.len() + 2);
    page.line(&format!("  {word}{:gap$}{READS:<width$}{figure}", ""));
}

/// Returns the criterion that decided: `wal sync p99 12.0 ms, pass <=10 ms`; and which criterion is still open.
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
        // Another grade is possible, so the range of the figure belongs to the answer.
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

/// Returns the same for single reads: by where their whole interval lies.
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
        ("a cache", "a cache"),
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
