//! The headline of a run: its sentences.

use qd1_model::verdict::Durability;
use qd1_model::{Finding, Report, Severity};

use crate::sections::{self, impressions, long_check};
use crate::words::is_check;

/// Returns the sentences that summarise the run, shown first.
pub(crate) fn headline(report: &Report) -> Vec<String> {
    let mut sentences: Vec<String> = interrupted(report).into_iter().collect();
    sentences.extend(impressions::sentences(report));
    sentences.extend(report.durability.as_ref().map(durability));
    sentences.push(sections::leading(report).whole_answer());
    let no_disk = report.no_disk().filter(|_| is_check(report));
    let critical = |finding: &&Finding| finding.severity == Severity::Critical && Some(*finding) != no_disk;
    if let Some(finding) = report.findings.iter().find(critical) {
        sentences.push(format!("Beware: {}.", finding.title.trim_end_matches('.')));
    }
    sentences
}

/// Returns the same in short, as one paragraph: the figures that decided and the findings are shown below it.
pub(crate) fn paragraph(report: &Report) -> String {
    let mut sentences: Vec<String> = interrupted(report).into_iter().collect();
    sentences.extend(long_check::time(report).map(|time| format!("Over {time}.")));
    sentences.extend(impressions::sentences(report));
    let no_disk = report.no_disk().filter(|_| !is_check(report));
    sentences.extend(no_disk.map(|finding| format!("This is not a disk: {}.", finding.title.trim_end_matches('.'))));
    // The classes are below it, each with its grade.
    let leading = sections::leading(report);
    if !leading.answers_in_lines() {
        sentences.push(leading.answer());
    }
    sentences.extend(report.durability.as_ref().map(|found| match found.is_seen {
        true => "Flushes write something out.".to_owned(),
        // What follows the first clause says how it could be otherwise.
        false => format!("Durability unverified: {}.", found.why.split([',', ';']).next().unwrap_or_default()),
    }));
    sentences.join(" ")
}

/// Returns what a run found in one line, for a list of runs.
#[must_use]
pub fn line(report: &Report) -> String {
    sections::leading(report).line().trim_end_matches('.').to_owned()
}

fn interrupted(report: &Report) -> Option<String> {
    let text = "INTERRUPTED: partial run; every figure is based on what was measured by then.";
    report.record.interrupted.then(|| text.to_owned())
}

fn durability(found: &Durability) -> String {
    match found.is_seen {
        true => format!("Flushes write something out: {}.", found.why),
        false => format!("Durability unverified: {}.", found.why),
    }
}
