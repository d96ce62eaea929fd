//! The parts of a report that belong to one kind of run, or to one kind of statement: a file each, with a `Section` that
//! says what each format shows of it. [`leading`] and [`body`] are the only places that ask a report for its kind.

pub(crate) mod apps;
pub(crate) mod bands;
pub(crate) mod caches;
pub(crate) mod check;
pub(crate) mod criteria;
pub(crate) mod filesystems;
pub(crate) mod findings;
pub(crate) mod identity;
pub(crate) mod impressions;
pub(crate) mod limits;
pub(crate) mod long_check;
pub(crate) mod meta;
pub(crate) mod prediction;
pub(crate) mod reference;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod tail;
pub(crate) mod verdicts;
pub(crate) mod waited_for;
pub(crate) mod watched;

use qd1_model::Report;
use qd1_model::part::Part;

use crate::machine;
use crate::page::Page;
use crate::section::Section;
use crate::words;

/// Returns the section of a part.
fn of<'a>(report: &'a Report, part: &'a Part) -> Box<dyn Section + 'a> {
    match part {
        Part::Filesystems(table) => Box::new(filesystems::Filesystems { report, table }),
        Part::Limits(limits) => Box::new(limits::Found { report, limits }),
        Part::Prediction(prediction) => Box::new(prediction::Expected { report, prediction }),
        Part::LongCheck(over) => Box::new(long_check::OverHours { over }),
        Part::Sweep(surface) => Box::new(sweep::Swept { report, surface }),
        Part::Meta(meta) => Box::new(meta::FileOperations { report, meta }),
        Part::Sync(table) => Box::new(sync::Methods { report, table }),
        Part::App(summary) => Box::new(apps::Program { report, summary }),
        Part::Watch(watched) => Box::new(watched::Seen { report, watched }),
        Part::Identity(identity) => Box::new(identity::Kind { identity }),
    }
}

/// Where a part of a report appears.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is the whole report of the run.
    Whole,
    /// It gives the answer, whatever else is judged, and comes before the steps.
    First,
    /// It comes below the verdicts.
    BelowVerdicts,
    /// It replaces the steps, and gives the answer if nothing is judged.
    Steps,
    /// It is only for other programs: the run was made for something else.
    Hidden,
}

fn place(report: &Report, part: &Part) -> Place {
    match part {
        Part::Filesystems(_) | Part::Limits(_) => Place::Whole,
        Part::Prediction(_) => Place::First,
        Part::Identity(_) if identity::is_identify(report) => Place::First,
        Part::Identity(_) => Place::Hidden,
        Part::LongCheck(_) => Place::BelowVerdicts,
        Part::Watch(_) => Place::Whole,
        Part::Sweep(_) | Part::Meta(_) | Part::Sync(_) | Part::App(_) => Place::Steps,
    }
}

/// Returns the sections of the parts at this place.
fn at(report: &Report, wanted: Place) -> impl Iterator<Item = Box<dyn Section + '_>> {
    let parts = report.parts.iter().filter(move |part| place(report, part) == wanted);
    parts.map(|part| of(report, part))
}

/// Returns the sections of all parts, including those that people are not shown.
pub(crate) fn parts(report: &Report) -> impl Iterator<Item = Box<dyn Section + '_>> {
    report.parts.iter().map(|part| of(report, part))
}

/// Returns the section that answers the command's question.
pub(crate) fn leading(report: &Report) -> Box<dyn Section + '_> {
    let before = at(report, Place::Whole).chain(at(report, Place::First)).next();
    before.unwrap_or_else(|| {
        if verdicts::are_the_answer(report) {
            Box::new(verdicts::Classes { report })
        } else if !report.criteria.is_empty() {
            Box::new(criteria::Criteria { report })
        } else {
            steps(report)
        }
    })
}

/// Returns the section of the steps, or of the part that replaces them.
fn steps(report: &Report) -> Box<dyn Section + '_> {
    at(report, Place::Steps).next().unwrap_or_else(|| Box::new(suite::Steps { report }))
}

/// Returns the sections of the whole report, in their order.
pub(crate) fn body(report: &Report) -> Vec<Box<dyn Section + '_>> {
    let whole: Vec<_> = at(report, Place::Whole).collect();
    if !whole.is_empty() {
        return whole;
    }
    let mut body: Vec<Box<dyn Section + '_>> = Vec::new();
    if !report.verdicts.is_empty() {
        body.push(Box::new(verdicts::Classes { report }));
    }
    body.extend(at(report, Place::BelowVerdicts));
    if !report.criteria.is_empty() {
        body.push(Box::new(criteria::Criteria { report }));
    }
    body.extend(at(report, Place::First));
    body.push(if words::is_check(report) {
        Box::new(check::Figures { report })
    } else if report.criteria.is_empty() {
        steps(report)
    } else {
        Box::new(suite::Steps { report })
    });
    body
}

/// Returns the facts about the place, and how it was measured.
pub(crate) fn place_of(report: &Report) -> Vec<(&'static str, String)> {
    leading(report).place().unwrap_or_else(|| machine::lines(report))
}

/// Writes the figures of a run in a line for each thing that was found, the most important first.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    let leading = leading(report);
    leading.brief(page);
    if !leading.stands_alone() {
        suite::failures(page, report);
    }
}

/// Returns a text as a sentence, with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
