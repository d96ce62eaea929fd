//! From a Record to figures, findings and verdicts. Pure: it opens no file, reads no clock and spawns nothing,
//! so that an old Record is judged again by a newer analysis with no more than a function call.
//!
//! [`stats`] turns histograms and intervals into estimates with confidence intervals, [`summarize()`] applies them
//! to every stream, [`findings`] runs the table of detectors, [`judge()`] compares with thresholds, and [`analyse`]
//! does all of it. [`sweep`] chooses the order of a sweep's steps and turns them into a surface with knees, [`limits`]
//! finds rate limits, [`change`] tells how a step went over time, [`identify`](mod@identify) what kind of storage it is.
//! [`filesystems`] compares filesystems in rounds. [`apps`] reads the counters of real programs. [`coverage`] measures
//! whether the intervals deserve their name.
#![forbid(unsafe_code)]
#![deny(missing_docs)]

pub mod apps;
mod blocks;
pub mod change;
pub mod coverage;
mod detect;
pub mod filesystems;
pub mod identify;
mod judge;
pub mod limits;
pub mod stats;
mod summarize;
pub mod sweep;

#[cfg(test)]
mod testing;

pub use detect::findings;
pub use judge::{judge, judge_criteria};
pub use summarize::summarize;

use qd1_model::{Record, Report, SCHEMA_VERSION, Thresholds};

/// Everything the analysis has to say about `record`: figures, findings (most severe first), verdicts by `thresholds`
/// and the grades of what its suite expects.
#[must_use]
pub fn analyse(record: Record, thresholds: &Thresholds) -> Report {
    let summary = summarize(&record);
    let filesystems = filesystems::compare(&record, &summary);
    if filesystems.is_some() {
        // Each filesystem has an environment of its own, and so its own findings; they are in the table.
        let (verdicts, criteria) = (Vec::new(), Vec::new());
        let findings = Vec::new();
        let (sweep, identity) = (None, None);
        return Report {
            schema_version: SCHEMA_VERSION,
            verdicts,
            criteria,
            findings,
            sweep,
            filesystems,
            identity,
            app: None,
            summary,
            record,
        };
    }
    let mut findings = findings(&record, &summary);
    let verdicts = judge(&record, &summary, &findings, thresholds);
    let criteria = judge_criteria(&record, &summary, &findings);
    let sweep = sweep::surface(&record);
    if let Some(surface) = &sweep {
        findings.extend(sweep::findings(surface));
        detect::sort(&mut findings);
    }
    let findings = detect::together(findings);
    let identity = identify::identify(&record);
    let app = apps::summarize(&record);
    Report {
        schema_version: SCHEMA_VERSION,
        verdicts,
        criteria,
        findings,
        sweep,
        filesystems,
        identity,
        app,
        summary,
        record,
    }
}
