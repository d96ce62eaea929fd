//! A suite's own criteria in words, grouped by bound and source, each with its grade and figure.

use qd1_model::metric::{Better, Unit, metric};
use qd1_model::order::Order as _;
use qd1_model::plan::criterion::Criterion;
use qd1_model::verdict::Judged;
use qd1_model::{Estimate, Grade, Report};

use super::{bands, caches};
use crate::page::{BAD, GOOD, MIDDLING, NOTE, Page};
use crate::reasons::{self, Reasons};
use crate::section::Section;
use crate::table::escaped;
use crate::words;

/// At least this many unresolved rows with the same reason become one row.
const ALIKE_MIN: usize = 4;
/// A suite has a first row only if at least this many criteria are for other steps.
const MANY: usize = 6;

/// Criteria with the same bound for several steps.
pub(crate) struct Group<'a> {
    /// One of the criteria, for what they share: metric, bound, label and source.
    pub(crate) shared: &'a Criterion,
    pub(crate) judged: Vec<&'a Judged>,
}

/// Returns all criteria of the suite, grouped, in its order.
fn groups(report: &Report) -> Vec<Group<'_>> {
    let mut groups: Vec<Group<'_>> = Vec::new();
    for judged in &report.criteria {
        match groups.iter_mut().find(|group| is_alike(group.shared, &judged.criterion)) {
            Some(group) => group.judged.push(judged),
            None => groups.push(Group { shared: &judged.criterion, judged: vec![judged] }),
        }
    }
    groups
}

fn is_alike(a: &Criterion, b: &Criterion) -> bool {
    let shared = |c: &Criterion| Criterion { step: String::new(), op: a.op, ..c.clone() };
    shared(a) == shared(b)
}

/// What a suite expects of its own steps.
pub(crate) struct Criteria<'a> {
    pub(crate) report: &'a Report,
}

impl Section for Criteria<'_> {
    fn answer(&self) -> String {
        caches::sentence(self.report).unwrap_or_else(|| sentence(self.report))
    }

    fn brief(&self, page: &mut Page) {
        brief(page, self.report);
    }

    fn human(&self, page: &mut Page) {
        section(page, self.report);
    }

    fn markdown(&self, text: &mut String) {
        markdown(text, self.report);
    }
}

/// Returns the bound of a group: `p99.9: pass up to 300 us, fail above 500 us`.
fn bound(criterion: &Criterion) -> String {
    let title = metric(&criterion.metric).map_or(criterion.metric.as_str(), |metric| metric.title);
    format!("{title}: {}", words::limits(criterion))
}

/// Returns the results of the criteria: `vps-latency, 48 criteria: 40 pass, 6 marginal, 2 fail.`
pub(crate) fn sentence(report: &Report) -> String {
    if let Some(letter) = bands::sentence(report) {
        return letter;
    }
    let suite = &report.record.plan.suite;
    let count = report.criteria.len();
    if count == 0 {
        return format!("{suite}: {} measured; no criteria apply to them.", words::steps(report.summary.steps.len()));
    }
    let parts: Vec<String> = [
        (Grade::Pass, "pass"),
        (Grade::Marginal, "marginal"),
        (Grade::Fail, "fail"),
        (Grade::NotResolved, "not resolved"),
    ]
    .into_iter()
    .map(|(grade, word)| (report.criteria.iter().filter(|judged| judged.grade == grade).count(), word))
    .filter(|(count, _)| *count > 0)
    .map(|(count, word)| format!("{count} {word}"))
    .collect();
    let total = if count == 1 { "1 criterion".to_owned() } else { format!("{count} criteria") };
    let counts = parts.join(", ");
    match first_row(report) {
        Some(row) => format!("{suite} by its first row, {row}. All {total}: {counts}."),
        None => format!("{suite}, {total}: {counts}."),
    }
}

/// Returns the first step in words if the suite asks the same of many steps; tools take their summary from it:
/// `4k-r70-qd1-j1: read p99.9 284 us, pass; write p99.9 310 us, marginal`.
fn first_row(report: &Report) -> Option<String> {
    let [group] = <[Group<'_>; 1]>::try_from(groups(report)).ok()?;
    let first = &group.shared.step;
    let (row, others): (Vec<&Judged>, Vec<&Judged>) =
        group.judged.iter().partition(|judged| judged.criterion.step == *first);
    if others.len() < MANY {
        return None;
    }
    let metric = metric(&group.shared.metric)?;
    let of = |judged: &&Judged| {
        let figure = judged.figure.filter(|figure| figure.value.is_some());
        let value = figure.map_or_else(String::new, |figure| format!(" {}", words::known(metric.unit, &figure)));
        format!("{} {}{value}, {}", judged.criterion.op.name(), metric.title, judged.grade.name())
    };
    Some(format!("{first}: {}", row.iter().map(of).collect::<Vec<_>>().join("; ")))
}

/// Writes the figures with letters, then the criteria of each bound, which is stated once: the suite's first step, from
/// which tools take their summary, and then those that failed.
fn brief(page: &mut Page, report: &Report) {
    let mut reasons = Reasons::default();
    bands::lines(page, report, &mut reasons);
    let first = report.criteria.first().map(|judged| judged.criterion.step.as_str());
    let order = [Grade::Fail, Grade::Marginal, Grade::NotResolved, Grade::Pass];
    for mut group in groups(report).into_iter().filter(|group| bands::letter(group.judged[0]).is_none()) {
        let label = if group.shared.label.is_empty() { String::new() } else { format!(" ({})", group.shared.label) };
        page.prose(2, &format!("{}{label}", bound(group.shared)));
        group.judged.order_by_key(|judged| {
            let grade = order.iter().position(|grade| *grade == judged.grade);
            (Some(judged.criterion.step.as_str()) != first, grade)
        });
        let (alone, alike) = by_reason(group.judged, first);
        for judged in alone {
            let label = judged.grade.name().to_uppercase();
            page.hang(2, &label, paint(judged.grade), 16, &row(report, judged, &mut reasons));
        }
        for (reason, rows) in alike {
            let names: Vec<String> = rows.iter().map(|judged| reasons::name(judged)).collect();
            let text = format!("{} rows: {reason}: {}", rows.len(), names.join(", "));
            page.hang(2, &Grade::NotResolved.name().to_uppercase(), paint(Grade::NotResolved), 16, &text);
        }
    }
}

/// Unresolved rows that share a reason, with that reason.
type Alike<'a> = (&'a str, Vec<&'a Judged>);

/// Returns the rows to show one by one, and those that are unresolved for the same reason as many others, which are
/// shown together. The rows of the step `first` are always shown one by one.
fn by_reason<'a>(rows: Vec<&'a Judged>, first: Option<&str>) -> (Vec<&'a Judged>, Vec<Alike<'a>>) {
    let may_join = |judged: &Judged| {
        judged.grade == Grade::NotResolved && !judged.why.is_empty() && Some(judged.criterion.step.as_str()) != first
    };
    let mut alike: Vec<Alike<'a>> = Vec::new();
    for judged in rows.iter().copied().filter(|judged| may_join(judged)) {
        match alike.iter_mut().find(|(reason, _)| *reason == judged.why) {
            Some((_, of_reason)) => of_reason.push(judged),
            None => alike.push((&judged.why, vec![judged])),
        }
    }
    alike.retain(|(_, of_reason)| of_reason.len() >= ALIKE_MIN);
    let is_joined = |judged: &Judged| may_join(judged) && alike.iter().any(|(reason, _)| *reason == judged.why);
    let alone = rows.into_iter().filter(|judged| !is_joined(judged)).collect();
    (alone, alike)
}

/// Returns a criterion's figure below its bound: `randread-4k: 58.1k/s [34.9..96.8], mean 275 us`.
fn row(report: &Report, judged: &Judged, reasons: &mut Reasons) -> String {
    let known = metric(&judged.criterion.metric).filter(|_| judged.figure.is_some_and(|figure| figure.is_resolved()));
    let (Some(metric), Some(figure)) = (known, judged.figure) else { return reasons.judged(judged) };
    let stream = report.summary.stream(&judged.criterion.step, judged.criterion.op);
    let latency = stream.filter(|_| metric.better == Better::Higher).map(|stream| stream.lat_mean_ns);
    let latency = latency
        .filter(Estimate::is_resolved)
        .map_or_else(String::new, |mean| format!(", mean {}", words::figure(Unit::Ns, &mean)));
    let why =
        if judged.why.is_empty() { String::new() } else { format!("; {}", without_interval(&reasons.of(judged))) };
    format!("{}: {}{latency}{why}", reasons::name(judged), words::figure(metric.unit, &figure))
}

/// Returns a reason without the interval, which is already shown next to it: `the interval spans both thresholds`.
fn without_interval(why: &str) -> String {
    const INTERVAL: &str = "the interval ";
    let end = |rest: &str| [" spans both", " lies across"].iter().find_map(|end| rest.find(end));
    match why.strip_prefix(INTERVAL).and_then(|rest| Some(&rest[end(rest)?..])) {
        Some(rest) => format!("{}{rest}", INTERVAL.trim_end()),
        None => why.to_owned(),
    }
}

/// Writes the section of the human report.
fn section(page: &mut Page, report: &Report) {
    page.heading("Criteria");
    let mut reasons = Reasons::default();
    bands::lines(page, report, &mut reasons);
    for group in groups(report).into_iter().filter(|group| bands::letter(group.judged[0]).is_none()) {
        let Criterion { label, source, .. } = group.shared;
        page.prose(2, &bound(group.shared));
        page.prose(4, format!("{label} ({source})").trim());
        for judged in group.judged {
            let paint = paint(judged.grade);
            page.hang(4, &judged.grade.name().to_uppercase(), paint, 18, &reasons.judged(judged));
        }
    }
}

/// Writes the criteria as a table.
fn markdown(text: &mut String, report: &Report) {
    *text += "### Criteria\n\n| grade | figure | bound | for | source |\n|---|---|---|---|---|\n";
    let mut reasons = Reasons::default();
    for group in groups(report) {
        for judged in &group.judged {
            let (label, source) = (escaped(&group.shared.label), escaped(&group.shared.source));
            let (figure, bound) = (escaped(&reasons.judged(judged)), escaped(&bound(group.shared)));
            *text += &format!("| {} | {figure} | {bound} | {label} | {source} |\n", graded(judged.grade));
        }
    }
    text.push('\n');
}

/// A grade in a table.
pub(super) fn graded(grade: Grade) -> String {
    format!("**{}**", grade.name())
}

/// Returns the colour of a grade.
pub(crate) const fn paint(grade: Grade) -> anstyle::Style {
    match grade {
        Grade::Pass => GOOD,
        Grade::Marginal => MIDDLING,
        Grade::Fail => BAD,
        Grade::NotResolved => NOTE,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn an_interval_is_said_once() {
        let shown = without_interval("the interval 113 us..24.5 ms spans both thresholds");
        assert_eq!(shown, "the interval spans both thresholds");
        assert_eq!(without_interval("too few samples"), "too few samples");
    }

    #[test]
    fn criteria_with_one_bound_and_source_are_grouped_in_order() {
        let report = sample::suite();
        let groups = groups(&report);
        let sizes: Vec<usize> = groups.iter().map(|group| group.judged.len()).collect();
        assert_eq!(sizes, [1, 1, 2, 1]);
        assert_eq!(sizes.iter().sum::<usize>(), report.criteria.len());
        assert_eq!(bound(groups[2].shared), "per second: at least 500/s (475/s, 5 % less, counts)");
    }

    #[test]
    fn many_rows_that_stay_open_for_one_reason_are_one() {
        let report = sample::suite();
        let open = |number: usize| {
            let mut judged = report.criteria[0].clone();
            judged.criterion.step = format!("step{number}");
            let why = if number == 1 { "it takes 9 s of this step" } else { "the disk was busy; measure again" };
            Judged { grade: Grade::NotResolved, why: why.to_owned(), ..judged }
        };
        let all: Vec<Judged> = (0..6).map(open).chain([report.criteria[0].clone()]).collect();
        let (alone, alike) = by_reason(all.iter().collect(), Some("step0"));
        let names: Vec<&str> = alone.iter().map(|judged| judged.criterion.step.as_str()).collect();
        assert_eq!(
            names,
            ["step0", "step1", &report.criteria[0].criterion.step],
            "the first, its own reason, and a grade"
        );
        let counts: Vec<(&str, usize)> = alike.iter().map(|(reason, rows)| (*reason, rows.len())).collect();
        assert_eq!(counts, [("the disk was busy; measure again", 4)]);
        let (alone, alike) = by_reason(all.iter().take(5).collect(), Some("step0"));
        assert_eq!((alone.len(), alike.len()), (5, 0));
    }

    #[test]
    fn a_suite_that_asks_the_same_of_many_steps_begins_with_the_first() {
        let mut report = sample::suite();
        let one = |number: usize| {
            let mut judged = report.criteria[0].clone();
            judged.criterion.step = format!("step{number}");
            judged
        };
        report.criteria = (0..9).map(one).collect();
        let said = sentence(&report);
        assert!(said.starts_with("digitalocean by its first row, step0: write throughput "), "{said}");
        let grade = report.criteria[0].grade.name();
        assert!(said.ends_with(&format!(", {grade}. All 9 criteria: 9 {grade}.")), "{said}");
    }

    #[test]
    fn the_sentence_counts_each_grade_once() {
        let mut report = sample::suite();
        assert_eq!(sentence(&report), "digitalocean, 5 criteria: 2 pass, 1 marginal, 1 fail, 1 not resolved.");
        report.criteria.clear();
        assert_eq!(sentence(&report), "digitalocean: 3 steps measured; no criteria apply to them.");
    }
}
