//! The first screen of a run's page: a tile for each class with the figure that decided and its bound, and what to do. A reason
//! that holds for several tiles is said once, below them.

use qd1_model::Detector;
use qd1_model::metric::metric;
use qd1_model::order::Order as _;
use qd1_model::verdict::{Impression, Judged};
use qd1_model::{Finding, Grade, Report, Severity};

use crate::formats::worth_telling;
use crate::headline;
use crate::page::unbroken;
use crate::sections::{self, bands, long_check, reference, verdicts};
use crate::words;

/// Most findings that are shown with what to do.
const ADVICE_MAX: usize = 3;
/// Tiles at most: more are a table.
const TILES_MAX: usize = 12;
/// Findings about the machine or the run, which come after those about the disk.
const NOT_OF_THE_DISK: [Detector; 5] = [
    Detector::CpuSpoiled,
    Detector::BehindItsRate,
    Detector::OtherTraffic,
    Detector::EngineFallback,
    Detector::PrepareShortened,
];

/// What the first screen has.
#[derive(Default)]
pub(super) struct Answer {
    /// What commits and reads are like, or the answer of another kind of run.
    pub(super) lead: String,
    pub(super) tiles: Vec<Tile>,
    /// Criteria that have no tile.
    pub(super) more_tiles: usize,
    /// Reasons that several tiles share.
    pub(super) reasons: Vec<String>,
    /// Where the disk stands, and what the verdicts cover.
    pub(super) notes: Vec<String>,
    pub(super) advice: Vec<Advice>,
}

/// One class of workload, or one criterion of a suite.
pub(super) struct Tile {
    /// The word: a grade, a letter, or what reads are like.
    pub(super) word: String,
    /// The class of its colour.
    pub(super) color: &'static str,
    pub(super) title: String,
    pub(super) figure: String,
    pub(super) bound: String,
    /// Who drew the bound.
    pub(super) source: String,
    /// Why it is open, or what else there is to know.
    pub(super) why: String,
}

/// A finding with what to do about it.
pub(super) struct Advice {
    pub(super) severity: &'static str,
    pub(super) color: &'static str,
    pub(super) title: String,
    pub(super) advice: String,
}

/// Returns the first screen of a run.
pub(super) fn of(report: &Report) -> Answer {
    let mut tiles = tiles(report);
    let more_tiles = tiles.len().saturating_sub(TILES_MAX);
    tiles.truncate(TILES_MAX);
    let mut lead = headline::paragraph(report);
    // Its tile has the reason, or the line below the tiles.
    for impression in report.impressions.iter().filter(|impression| impression.word.is_none()) {
        if tiles.iter().any(|tile| tile.why == impression.why) {
            lead = lead.replace(&format!(": {}.", impression.why.trim_end_matches('.')), ".");
        }
    }
    let reasons = shared_reasons(&mut tiles);
    for text in tiles.iter_mut().flat_map(|tile| [&mut tile.figure, &mut tile.bound]).chain([&mut lead]) {
        *text = unbroken(text);
    }
    let notes = [reference::sentence(report).unwrap_or_default(), long_check::speaks_for(report)];
    Answer {
        lead,
        tiles,
        more_tiles,
        reasons,
        notes: notes.into_iter().filter(|note| !note.is_empty()).map(|note| sections::sentence(&note)).collect(),
        advice: advice(report),
    }
}

fn tiles(report: &Report) -> Vec<Tile> {
    let of_verdicts = report.verdicts.iter().filter_map(|verdict| {
        let judged = *words::deciding(verdict).first()?;
        Some(tile(verdict.grade, &verdict.title, judged))
    });
    let mut tiles: Vec<Tile> = of_verdicts.collect();
    if !tiles.is_empty() {
        let reads = report.impressions.iter().find(|impression| impression.requests == "reads");
        tiles.extend(reads.and_then(at_depth_1));
        return tiles;
    }
    let letters = bands::lettered(report).into_iter().map(|lettered| Tile {
        word: lettered.letter,
        bound: lettered.edges,
        why: if lettered.grade == Grade::NotResolved { lettered.judged.why.clone() } else { String::new() },
        ..tile(lettered.grade, &lettered.judged.criterion.step, lettered.judged)
    });
    tiles.extend(letters);
    let worst = [Grade::Fail, Grade::Marginal, Grade::NotResolved, Grade::Pass];
    for grade in worst {
        let of_grade = report.criteria.iter().filter(|judged| judged.grade == grade && bands::letter(judged).is_none());
        tiles.extend(of_grade.map(|judged| tile(grade, &judged.criterion.label, judged)));
    }
    tiles
}

fn tile(grade: Grade, title: &str, judged: &Judged) -> Tile {
    let criterion = &judged.criterion;
    let title = if title.is_empty() { &criterion.step } else { title };
    let figure = verdicts::figure(judged);
    // If a tile is named after its step, that name would appear twice.
    let figure = figure.strip_prefix(title).map_or(figure.as_str(), |rest| rest.trim_start_matches([':', ' ']));
    Tile {
        word: grade.name().to_uppercase(),
        color: verdicts::color(grade),
        title: title.to_owned(),
        figure: figure.to_owned(),
        bound: words::limits(criterion),
        source: criterion.source.clone(),
        why: judged.why.clone(),
    }
}

/// The tile of single reads, which have words of their own.
fn at_depth_1(reads: &Impression) -> Option<Tile> {
    let metric = metric(&reads.metric)?;
    let bounds: Vec<String> = reads
        .bounds
        .iter()
        .map(|bound| format!("{} up to {}", bound.word, words::threshold(metric.unit, bound.up_to)))
        .collect();
    let figure = reads.figure.map_or_else(|| "not measured".to_owned(), |figure| words::known(metric.unit, &figure));
    Some(Tile {
        word: reads.word.as_deref().unwrap_or("not rated").to_uppercase(),
        color: verdicts::color_of_reads(reads),
        title: "one read at a time".to_owned(),
        figure: format!("{} {figure}", metric.title),
        bound: bounds.join(", "),
        source: reads.source.clone(),
        why: reads.why.clone(),
    })
}

/// Takes reasons that several tiles share out of them, and returns each with the tiles that it applies to.
fn shared_reasons(tiles: &mut [Tile]) -> Vec<String> {
    let mut found: Vec<(String, Vec<usize>)> = Vec::new();
    for (at, tile) in tiles.iter().enumerate().filter(|(_, tile)| !tile.why.is_empty()) {
        match found.iter_mut().find(|(why, _)| *why == tile.why) {
            Some((_, places)) => places.push(at),
            None => found.push((tile.why.clone(), vec![at])),
        }
    }
    let mut reasons = Vec::new();
    for (why, places) in found.into_iter().filter(|(_, places)| places.len() > 1) {
        let mut titles: Vec<String> = places.iter().map(|at| tiles[*at].title.clone()).collect();
        titles.dedup();
        let text = format!("{}: {}.", words::join(&titles), why.trim_end_matches('.'));
        reasons.push(sections::sentence(&text));
        places.iter().for_each(|at| tiles[*at].why.clear());
    }
    reasons
}

/// What to do, by severity; within one severity, the disk before the machine. A finding that withholds a grade is
/// critical, and never left out for a lesser one.
fn advice(report: &Report) -> Vec<Advice> {
    let of_machine = |finding: &&Finding| NOT_OF_THE_DISK.contains(&finding.id.detector());
    let mut findings: Vec<&Finding> = worth_telling(report).filter(|finding| !finding.advice.is_empty()).collect();
    findings.order_by_key(|finding| (std::cmp::Reverse(finding.severity), of_machine(finding)));
    let told = |finding: &Finding| Advice {
        severity: words::severity(finding.severity),
        color: match finding.severity {
            Severity::Critical => "bad",
            Severity::Warning => "middling",
            Severity::Info => "open",
        },
        title: sections::sentence(&finding.title),
        advice: finding.advice.clone(),
    };
    findings.into_iter().take(ADVICE_MAX).map(told).collect()
}

/// Returns the number of criteria in words, for those that have no tile.
pub(super) fn more(count: usize) -> String {
    match count {
        0 => String::new(),
        1 => "1 more criterion is in the table below.".to_owned(),
        count => format!("{count} more criteria are in the table below."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples as sample;

    #[test]
    fn each_class_has_a_tile_with_its_figure_bound_and_whose_it_is() {
        let report = sample::slow_vps();
        let answer = of(&report);
        assert_eq!(answer.tiles.len(), report.verdicts.len() + 1, "the classes, and single reads");
        let etcd = &answer.tiles[0];
        assert_eq!((etcd.word.as_str(), etcd.color, etcd.title.as_str()), ("FAIL", "bad", "etcd / Kubernetes"));
        assert_eq!(etcd.figure, "wal sync p99 12.0\u{a0}ms");
        assert_eq!(etcd.bound, "pass up to 2\u{a0}ms, fail above 10\u{a0}ms");
        assert!(etcd.source.contains("OpenShift"), "{}", etcd.source);
        let reads = answer.tiles.last().unwrap();
        assert_eq!((reads.word.as_str(), reads.color), ("POOR OR OVERSOLD", "bad"));
        assert_eq!(reads.bound, "excellent up to 300\u{a0}us, acceptable up to 500\u{a0}us");
    }

    #[test]
    fn a_reason_of_several_classes_is_said_once() {
        let answer = of(&sample::slow_vps());
        let why = "too few samples: n=812, needs about 1000";
        let of_both = format!("Databases in memory and databases that read: {why}.");
        assert_eq!(answer.reasons, [of_both]);
        assert!(answer.tiles.iter().all(|tile| tile.why.is_empty()));
    }

    #[test]
    fn the_lead_leaves_a_reason_to_the_tile_that_has_it() {
        let mut report = sample::slow_vps();
        let reads = report.impressions.iter_mut().find(|impression| impression.requests == "reads").unwrap();
        (reads.word, reads.why) = (None, "the hypervisor gave the processor to others".to_owned());
        let answer = of(&report);
        assert!(answer.lead.contains("Reads: not rated") && !answer.lead.contains("hypervisor"), "{}", answer.lead);
        assert_eq!(answer.tiles.last().unwrap().why, "the hypervisor gave the processor to others");
    }

    #[test]
    fn what_to_do_about_the_disk_comes_before_the_machine() {
        let mut report = sample::slow_vps();
        let mut waits = report.findings[0].clone();
        (waits.id, waits.title) =
            (qd1_model::FindingId::CpuSpoiledRunDelay, "the workers waited for a processor".to_owned());
        report.findings.insert(0, waits);
        let told =
            |report: &Report| -> Vec<String> { of(report).advice.into_iter().map(|advice| advice.title).collect() };
        let critical = told(&report);
        assert!(critical[0].starts_with("Flushes do not reach the device"), "{critical:?}");
        assert_eq!(critical[1], "The workers waited for a processor.", "before what only warns");
        report.findings[0].severity = Severity::Warning;
        report.findings.retain(|finding| finding.severity >= Severity::Warning);
        assert_eq!(told(&report).last().unwrap(), "The workers waited for a processor.");
    }

    #[test]
    fn criteria_of_a_suite_have_tiles_the_worst_first() {
        let answer = of(&sample::suite());
        let words: Vec<&str> = answer.tiles.iter().map(|tile| tile.word.as_str()).collect();
        assert_eq!(words, ["FAIL", "MARGINAL", "NOT RESOLVED", "PASS", "PASS"]);
        assert!(answer.lead.contains("5 criteria"), "{}", answer.lead);
    }
}
