//! What is derived from a run besides its figures, findings and verdicts: a row for each kind of part.

use qd1_model::figure::Summary;
use qd1_model::identity::Identity;
use qd1_model::part::{IsPart, Part};
use qd1_model::sweep::Surface;
use qd1_model::watched::Watched;
use qd1_model::{Finding, Record, Subject, Thresholds};

use crate::{apps, filesystems, identify, limits, long_check, meta, predict, sweep, sync, watched};

/// What a part is derived from.
pub(crate) struct Judged<'a> {
    pub(crate) record: &'a Record,
    pub(crate) summary: &'a Summary,
    /// Findings before they are merged.
    pub(crate) findings: &'a [Finding],
    /// The thresholds by which the classes were judged.
    pub(crate) thresholds: &'a Thresholds,
}

/// Derives a part; `None` in runs without it.
type WorkOut = fn(&Judged<'_>) -> Option<Part>;

/// All parts but [`alone`]'s.
pub(crate) const PARTS: [WorkOut; 9] = [
    |run| (run.record.plan.subject == Subject::Limits).then(|| limits::of_record(run.record).into_part()),
    |run| {
        let is_asked = run.record.plan.subject == Subject::Predict || run.record.plan.prediction.is_some();
        is_asked.then(|| predict::predict(run.record)).flatten().map(IsPart::into_part)
    },
    |run| long_check::summary(run.record, run.summary, run.findings, run.thresholds).map(IsPart::into_part),
    |run| sweep::surface(run.record).map(IsPart::into_part),
    |run| meta::table(run.record, run.summary).map(IsPart::into_part),
    |run| sync::table(run.record).map(IsPart::into_part),
    |run| apps::summarize(run.record).map(IsPart::into_part),
    |run| watched::of(run.record).map(IsPart::into_part),
    |run| {
        let asked = || (run.record.plan.subject == Subject::Identify).then(Identity::default);
        identify::identify(run.record).or_else(asked).map(IsPart::into_part)
    },
];

/// Returns the part that makes up the whole run: each filesystem of a comparison has its own environment, and so its
/// own findings, which are in its table.
pub(crate) fn alone(record: &Record, summary: &Summary) -> Option<Part> {
    filesystems::compare(record, summary).map(IsPart::into_part)
}

/// What a part adds to the findings of the run.
pub(crate) fn findings(part: &Part, record: &Record) -> Vec<Finding> {
    let of_watch = Watched::of(part).map(|watched| watched::findings(watched, record));
    of_watch.or_else(|| Surface::of(part).map(sweep::findings)).unwrap_or_default()
}
