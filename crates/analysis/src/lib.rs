//! From a Record to figures, findings and verdicts. Pure: it opens no file, reads no clock and spawns nothing, so a
//! newer analysis can judge an old Record again with a single function call.
//!
//! [`summarize()`] applies the estimators of `qd1_stats` to every stream, [`findings`] runs the table of detectors,
//! [`judge()`] compares with thresholds, and [`analyse`] does all of it. [`sweep`] turns the steps of a sweep into a
//! surface with knees, [`limits`] finds rate limits, [`meta`] makes the table of file operations, [`mod@sync`] compares
//! ways to make writes durable, [`filesystems`] compares filesystems in rounds, [`identify`](mod@identify) what kind of
//! storage it is, [`predict`](mod@predict) what databases will do on it, and
//! [`doctor`] what the machine's settings cost. [`apps`] reads the counters of real programs.
//! The `truth` crate measures whether the intervals hold as often as they claim.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod apps;
mod charts;
pub mod compare;
mod detect;
pub mod doctor;
mod durability;
pub mod extend;
pub mod filesystems;
mod grade;
pub mod identify;
mod impression;
mod judge;
pub mod limits;
mod long_check;
pub mod meta;
mod parts;
pub mod predict;
pub mod reference;
mod spoiling;
mod steal;
mod summarize;
pub mod sweep;
pub mod sync;
mod tail;
pub mod trace_summary;
pub mod trend;
mod version;
mod watched;

#[cfg(test)]
mod testing;

pub use charts::charts;
pub use detect::findings;
pub use judge::{judge, judge_criteria};
pub use summarize::summarize;

use qd1_model::figure::Summary;
use qd1_model::report::no_disk;
use qd1_model::{Finding, Record, Report, SCHEMA_VERSION, Subject, Thresholds};

/// Analyses `record`: figures, findings (most severe first), verdicts by `thresholds`
/// and the grades of what its suite expects.
#[must_use]
pub fn analyse(record: Record, thresholds: &Thresholds) -> Report {
    let of_rounds = record.plan.over.map(|_| long_check::thresholds(&record, thresholds));
    let thresholds = of_rounds.as_ref().unwrap_or(thresholds);
    let summary = summarize(&record);
    let mut report = unjudged(record, summary);
    let (record, summary) = (&report.record, &report.summary);
    if let Some(alone) = parts::alone(record, summary) {
        report.parts.push(alone);
        return report;
    }
    // Detectors look at what a step was planned to do; a watch plans nothing.
    let mut findings = if record.watched.is_some() { Vec::new() } else { findings(record, summary) };
    let nothing = Thresholds { class: Vec::new() };
    let has_disk = no_disk(&findings).is_none();
    let thresholds = if has_disk { thresholds } else { &nothing };
    report.verdicts = judge(record, summary, &findings, thresholds);
    if has_disk && record.plan.subject == Subject::Check {
        report.impressions = impression::of(record, summary, &findings);
        report.durability = durability::of(record, &findings);
        report.standings = reference::of(summary, &report.impressions);
        report.among_vps = reference::among_vps(summary, &report.impressions);
    }
    report.criteria = judge_criteria(record, summary, &findings);
    let judged = report.verdicts.iter().flat_map(|verdict| &verdict.judged).chain(&report.criteria);
    detect::weigh_by_effect(&mut findings, &judged.collect::<Vec<_>>());
    let judged = parts::Judged { record, summary, findings: &findings, thresholds };
    report.parts = parts::PARTS.iter().filter_map(|work_out| work_out(&judged)).collect();
    let more: Vec<Finding> = report.parts.iter().flat_map(|part| parts::findings(part, record)).collect();
    if !more.is_empty() {
        findings.extend(more);
        detect::sort(&mut findings);
    }
    report.findings = detect::merge_repeated(findings);
    report
}

/// Returns a Record with its figures, before any judgement.
fn unjudged(record: Record, summary: Summary) -> Report {
    Report {
        schema_version: SCHEMA_VERSION,
        verdicts: Vec::new(),
        impressions: Vec::new(),
        durability: None,
        criteria: Vec::new(),
        findings: Vec::new(),
        parts: Vec::new(),
        standings: Vec::new(),
        among_vps: Vec::new(),
        summary,
        record,
    }
}
