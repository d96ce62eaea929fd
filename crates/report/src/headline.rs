//! The headline of a run: its sentences, and its key figures.

use qd1_model::metric::{Unit, metric};
use qd1_model::plan::{IoWork, Order, Sync, Work};
use qd1_model::units::format_span_ns;
use qd1_model::verdict::Durability;
use qd1_model::{Bytes, Estimate, Finding, Grade, OpClass, Report, Severity, StepSummary, StreamSummary, Verdict};

use crate::sections::{apps, caches, criteria, filesystems, identity, limits, meta, prediction, sweep, sync};
use crate::words::{self, deciding, is_check, join, judged, plural, steps};

/// Returns the sentences that summarise the run, shown first.
pub(crate) fn headline(report: &Report) -> Vec<String> {
    let mut sentences: Vec<String> = interrupted(report).into_iter().collect();
    sentences.extend(impressions(report));
    sentences.extend(report.durability.as_ref().map(durability));
    sentences.push(answer(report, true));
    let no_disk = report.no_disk().filter(|_| is_check(report));
    let critical = |finding: &&Finding| finding.severity == Severity::Critical && Some(*finding) != no_disk;
    if let Some(finding) = report.findings.iter().find(critical) {
        sentences.push(format!("Beware: {}.", finding.title.trim_end_matches('.')));
    }
    sentences
}

/// Returns the same in short, as one paragraph: the figures that decided and the findings are told below it.
pub(crate) fn paragraph(report: &Report) -> String {
    let mut sentences: Vec<String> = interrupted(report).into_iter().collect();
    sentences.extend(report.over.as_ref().map(|over| format!("Over {}.", format_span_ns(over.duration_ns))));
    sentences.extend(impressions(report));
    let no_disk = report.no_disk().filter(|_| !is_check(report));
    sentences.extend(no_disk.map(|finding| format!("This is no disk: {}.", finding.title.trim_end_matches('.'))));
    // The classes stand below it, each with its grade.
    let has_classes = is_check(report) && !report.verdicts.is_empty() && report.prediction.is_none();
    if !has_classes {
        sentences.push(answer(report, false));
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
    words_of_check(report).unwrap_or_else(|| answer(report, false)).trim_end_matches('.').to_owned()
}

/// `commits p99 12.9 ms, reads p99.9 2.46 ms; 1 pass, 2 marginal`; `None` where no class was judged.
fn words_of_check(report: &Report) -> Option<String> {
    if report.verdicts.is_empty() || report.prediction.is_some() {
        return None;
    }
    let figures = report.impressions.iter().filter_map(|impression| {
        let metric = metric(&impression.metric)?;
        let figure = impression.figure.filter(|_| impression.word.is_some())?;
        Some(format!("{} {} {}", impression.requests, metric.title, words::known(metric.unit, &figure)))
    });
    let figures: Vec<String> = figures.chain(stalls(report)).collect();
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

fn interrupted(report: &Report) -> Option<String> {
    let text = "INTERRUPTED: partial run; every figure rests on what was measured until then.";
    report.record.interrupted.then(|| text.to_owned())
}

/// Returns the answer to what the command asks, with the figures of classes that failed or without.
fn answer(report: &Report, with_figures: bool) -> String {
    let classes = classes(report, with_figures);
    if let Some(prediction) = &report.prediction {
        prediction::sentence(prediction)
    } else if let Some(finding) = report.no_disk().filter(|_| is_check(report)) {
        format!("Nothing is judged: {}. {}", finding.title.trim_end_matches('.'), finding.advice)
    } else if !classes.is_empty() {
        let over =
            report.over.as_ref().map_or_else(String::new, |over| format!(" over {}", format_span_ns(over.duration_ns)));
        format!("This disk{over}: {}.", classes.join("; "))
    } else if is_check(report) && report.criteria.is_empty() {
        format!("{} measured; no class of workload was judged.", steps(report.summary.steps.len()))
    } else if let Some(table) = &report.filesystems {
        filesystems::sentence(report, table)
    } else if let Some(limits) = &report.limits {
        limits::sentence(limits)
    } else if let Some(surface) = &report.sweep {
        sweep::sentence(report, surface)
    } else if let Some(table) = report.meta.as_ref().filter(|_| report.criteria.is_empty()) {
        meta::sentence(report, table)
    } else if let Some(table) = &report.sync {
        sync::sentence(table)
    } else if let Some(app) = &report.record.app {
        apps::sentence(report, app)
    } else if let Some(identity) = report.identity.as_ref().filter(|_| identity::is_identify(report)) {
        identity::sentence(identity)
    } else if let Some(sentence) = caches::sentence(report) {
        sentence
    } else {
        criteria::sentence(report)
    }
}

/// Returns the classes of each grade in words: `fine for bulk`.
fn classes(report: &Report, with_figures: bool) -> Vec<String> {
    let titles = |grade: Grade| {
        let of_grade = report.verdicts.iter().filter(|verdict| verdict.grade == grade);
        let title = |verdict: &Verdict| match deciding(verdict).first() {
            Some(worst) if grade == Grade::Fail && with_figures => format!("{} ({})", verdict.title, judged(worst)),
            _ => verdict.title.clone(),
        };
        join(&of_grade.map(title).collect::<Vec<_>>())
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

/// Returns what commits and reads are like, the stalls that were met, and what a load does to commits.
fn impressions(report: &Report) -> Vec<String> {
    let mut loaded = under_load(report);
    let each = report.impressions.iter().map(|impression| {
        let mut requests = impression.requests.clone();
        requests[..1].make_ascii_uppercase();
        let metric = metric(&impression.metric);
        let known = |estimate: &Estimate| estimate.value.is_some() || estimate.low.is_some() || estimate.high.is_some();
        let of = |title: &str, estimate: Option<Estimate>| {
            let (metric, estimate) = metric.zip(estimate.filter(known))?;
            Some(format!("{title} {}", words::known(metric.unit, &estimate)))
        };
        let median = of("median", impression.median);
        let figure = of(metric.map_or("", |metric| metric.title), impression.figure);
        let with_waits = impression.with_waits.and_then(|with| with.value).zip(metric);
        let figure = figure.map(|figure| match with_waits {
            Some((with, metric)) => format!("{figure}; {} with waits for a processor", metric.unit.format(with)),
            None => figure,
        });
        let is_shown = impression.requests == "commits" && impression.word.is_some();
        let stalls = if is_shown { stalls(report) } else { None };
        let seen: Vec<String> = [median, figure, stalls].into_iter().flatten().collect();
        let seen = if seen.is_empty() { String::new() } else { format!(" ({})", seen.join(", ")) };
        let sentence = match &impression.word {
            Some(word) => format!("{requests}: {word}{seen}."),
            None => format!("{requests}: not rated{seen}: {}.", impression.why.trim_end_matches('.')),
        };
        let loaded = if impression.requests == "commits" { loaded.take() } else { None };
        [sentence].into_iter().chain(loaded).collect::<Vec<_>>().join(" ")
    });
    let mut sentences: Vec<String> = each.collect();
    sentences.extend(loaded);
    sentences
}

/// Returns what the first step of commits beside a load makes of them: `Under load (26.4 MB/s written): median 3.10 ms, alone
/// 1.24 ms; p99 31.2 ms, alone 2.05 ms.`
fn under_load(report: &Report) -> Option<String> {
    let commits = |name: &str| report.summary.stream(name, OpClass::Commit);
    let mut pairs = report.summary.steps.iter().filter_map(|loaded| {
        let alone = report.record.plan.without_load(&loaded.name)?;
        Some((loaded, commits(&loaded.name)?, commits(&alone.name)?))
    });
    let (step, loaded, alone) = pairs.next()?;
    let known = |estimate: &Estimate| match estimate.value.or(estimate.low).or(estimate.high) {
        Some(_) => words::known(Unit::Ns, estimate),
        None => "not resolved".to_owned(),
    };
    let each = [("median", loaded.lat_p50_ns, alone.lat_p50_ns), ("p99", loaded.lat_p99_ns, alone.lat_p99_ns)];
    let each = each.map(|(title, loaded, alone)| format!("{title} {}, alone {}", known(&loaded), known(&alone)));
    Some(format!("Under load ({}): {}.", words::load(step), each.join("; ")))
}

fn durability(found: &Durability) -> String {
    match found.is_seen {
        true => format!("Flushes write something out: {}.", found.why),
        false => format!("Durability unverified: {}.", found.why),
    }
}

/// Upper limit of the share of moments in stalls from which the longest wait that was met says something.
const SHARE_KNOWN: f64 = 0.05;
/// A wait that is worth a word however short the run was, ns.
const STALL_NS: f64 = 100e6;

/// Returns the stalls that commits met.
fn stalls(report: &Report) -> Option<String> {
    let mut streams = report.summary.steps.iter().flat_map(|step| &step.streams);
    let of_commits = streams.find(|stream| stream.class == OpClass::Commit && stream.stall_share.is_some())?;
    let (share, longest_ns) = (of_commits.stall_share?, of_commits.stall_longest_ns?.value?);
    // Of a moment or two of a disk it shows nothing.
    let is_known = share.high.is_some_and(|high| high <= SHARE_KNOWN);
    (is_known || longest_ns > STALL_NS).then(|| format!("longest wait {}", Unit::Ns.format(longest_ns)))
}

/// One of the key figures of the run.
pub(crate) struct Headline {
    pub(crate) estimate: Estimate,
    pub(crate) what: String,
}

/// Returns the latencies at queue depth 1 and of durable commits, of all steps that measured them.
pub(crate) fn headline_figures(report: &Report) -> Vec<Headline> {
    let mut figures = Vec::new();
    // A check measures in visits what programs wait for; its other steps with one request at a time look for caches.
    let planned = &report.record.plan.steps;
    let has_visits = planned.iter().any(|step| step.visits > 1);
    let counts = |name: &str| !has_visits || planned.iter().any(|step| step.name == name && step.visits > 1);
    for step in report.summary.steps.iter().filter(|step| counts(&step.name)) {
        let Some(Work::Io(io)) = report.record.plan.steps.iter().find(|s| s.name == step.name).map(|s| &s.work) else {
            continue;
        };
        let alone = io.iodepth == 1 && io.numjobs == 1 && io.order != Order::Sequential;
        for stream in &step.streams {
            match stream.class {
                OpClass::Read | OpClass::Write if alone => depth_1(&mut figures, step, stream, io),
                OpClass::Commit => commit(&mut figures, step, stream, io),
                _ => {}
            }
        }
    }
    figures
}

fn depth_1(figures: &mut Vec<Headline>, step: &StepSummary, stream: &StreamSummary, io: &IoWork) {
    let (name, class) = (&step.name, plural(stream.class));
    let cached = if io.direct { "" } else { ", through the page cache" };
    let what = |title: &str| format!("{name}: {title} of {} {class} at queue depth 1{cached}", size(io));
    figures.push(Headline { estimate: stream.lat_p999_ns, what: what("p99.9") });
    if !stream.lat_p999_ns.is_resolved() {
        figures.push(Headline { estimate: stream.lat_p99_ns, what: what("p99") });
    }
}

fn commit(figures: &mut Vec<Headline>, step: &StepSummary, stream: &StreamSummary, io: &IoWork) {
    let (write, sync) = match io.sync {
        Sync::Fdatasync => ("write + fdatasync", "fdatasync"),
        Sync::Fsync => ("write + fsync", "fsync"),
        Sync::OSync => ("O_SYNC write", "sync"),
        Sync::ODsync => ("O_DSYNC write", "sync"),
        Sync::RwfDsync => ("RWF_DSYNC write", "sync"),
        Sync::SyncFileRange => ("write + sync_file_range", "sync_file_range"),
        Sync::None | Sync::EndFsync => ("write", "sync"),
    };
    let writers = if io.numjobs == 1 { String::new() } else { format!(", {} writers", io.numjobs) };
    let what = |title: &str| format!("{}: {title} of {} {write}{writers}", step.name, size(io));
    // Requests at their own times are too few for a tail, but in a long run.
    if !io.arrival.is_open() || stream.lat_p99_ns.is_resolved() {
        figures.push(Headline { estimate: stream.lat_p99_ns, what: what("p99") });
    }
    if !stream.lat_p99_ns.is_resolved() {
        figures.push(Headline { estimate: stream.lat_p50_ns, what: what("p50") });
    } else if let Some(estimate) = stream.sync_p99_ns {
        figures.push(Headline { estimate, what: format!("{}: p99 of the {sync} alone", step.name) });
    }
}

fn size(io: &IoWork) -> String {
    match io.blocks.as_slice() {
        [one] => Bytes(one.bytes.into()).to_string(),
        _ => "mixed-size".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use qd1_model::LoadSummary;
    use qd1_model::plan::IoWork;

    #[test]
    fn the_second_sentence_says_what_a_load_does_to_commits() {
        let mut report = samples::fast_nvme();
        let is_commit = |step: &&StepSummary| step.streams.iter().any(|stream| stream.class == OpClass::Commit);
        let alone = report.summary.steps.iter().find(is_commit).unwrap().clone();
        let mut plan = report.record.plan.step(&alone.name).unwrap().clone();
        let Work::Io(io) = &plan.work else { panic!("{} does I/O", alone.name) };
        let load: Vec<IoWork> = vec![io.clone()];
        (plan.name, plan.background) = ("commit-load".to_owned(), load);
        report.record.plan.steps.push(plan);
        let mut step = StepSummary { name: "commit-load".to_owned(), ..alone };
        step.background.push(LoadSummary { class: OpClass::Write, iops: 20.0, bytes_per_second: 20e6 });
        let stream = step.streams.iter_mut().find(|stream| stream.class == OpClass::Commit).unwrap();
        (stream.lat_p50_ns, stream.lat_p99_ns) = (Estimate::exact(3.1e6, 900), Estimate::default());
        stream.lat_p99_ns.low = Some(31e6);
        report.summary.steps.push(step);
        let said = impressions(&report);
        let expected = "Under load (20.0 MB/s written): median 3.10 ms, alone ";
        assert!(said[0].starts_with("Commits: ") && said[0].contains(expected), "{said:?}");
        assert!(said[0].contains("p99 above 31 ms, alone "), "{said:?}");
        report.record.plan.steps.last_mut().unwrap().background.clear();
        assert!(!impressions(&report)[0].contains("Under load"));
    }
}
