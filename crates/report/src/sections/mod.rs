//! The parts of a report that belong to one kind of run, or to one kind of statement.

pub(crate) mod apps;
pub(crate) mod bands;
pub(crate) mod caches;
pub(crate) mod criteria;
pub(crate) mod filesystems;
pub(crate) mod identity;
pub(crate) mod limits;
pub(crate) mod meta;
pub(crate) mod over;
pub(crate) mod prediction;
pub(crate) mod reference;
pub(crate) mod suite;
pub(crate) mod sweep;
pub(crate) mod sync;
pub(crate) mod tail;
pub(crate) mod verdicts;

use qd1_model::Report;

use crate::page::Page;
use crate::words;

/// Writes the figures of a run in a line for each thing that was found, the most important first.
pub(crate) fn brief(page: &mut Page, report: &Report) {
    if let Some(table) = &report.filesystems {
        filesystems::brief(page, table);
    } else if let Some(limits) = &report.limits {
        limits::brief(page, limits);
    } else if let Some(identity) = report.identity.as_ref().filter(|_| identity::is_identify(report)) {
        identity::brief(page, identity);
    } else if let Some(prediction) = &report.prediction {
        prediction::brief(page, prediction);
    } else if words::is_check(report) && !report.verdicts.is_empty() {
        verdicts::brief(page, report);
        if let Some(over) = &report.over {
            over::brief(page, over);
        }
        reference::brief(page, report);
    } else if !report.criteria.is_empty() {
        criteria::brief(page, report);
    } else if let Some(surface) = &report.sweep {
        sweep::brief(page, surface);
    } else if let Some(table) = &report.meta {
        meta::brief(page, table);
    } else if let Some(table) = &report.sync {
        sync::brief(page, table);
    } else if report.record.app.is_some() {
        apps::brief(page, report);
    } else {
        suite::brief(page, report);
    }
    if report.filesystems.is_none() && report.limits.is_none() {
        suite::failures(page, report);
    }
}

/// Returns a text as a sentence, with a capital letter and a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let mut letters = text.trim_end_matches('.').chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", letters.as_str())
}
