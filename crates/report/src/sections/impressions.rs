//! What commits and reads are like, a sentence each.

use qd1_model::metric::{Unit, metric};
use qd1_model::{Estimate, OpClass, Report};

use crate::words;

/// Returns what commits and reads are like, the stalls they met, and what a load does to commits.
pub(crate) fn sentences(report: &Report) -> Vec<String> {
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

/// Returns what a load does to commits, by the first step that measures both: `Under load (26.4 MB/s written): median
/// 3.10 ms, alone 1.24 ms; p99 31.2 ms, alone 2.05 ms.`
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

/// The longest wait says something only if the share of moments in stalls is known to be at most this.
const SHARE_KNOWN: f64 = 0.05;
/// A wait worth mentioning however short the run was, ns.
const STALL_NS: f64 = 100e6;

/// Returns the stalls that commits met.
pub(crate) fn stalls(report: &Report) -> Option<String> {
    let mut streams = report.summary.steps.iter().flat_map(|step| &step.streams);
    let of_commits = streams.find(|stream| stream.class == OpClass::Commit && stream.stall_share.is_some())?;
    let (share, longest_ns) = (of_commits.stall_share?, of_commits.stall_longest_ns?.value?);
    // From a moment or two it shows nothing about the disk.
    let is_known = share.high.is_some_and(|high| high <= SHARE_KNOWN);
    (is_known || longest_ns > STALL_NS).then(|| format!("longest wait {}", Unit::Ns.format(longest_ns)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;
    use qd1_model::LoadSummary;
    use qd1_model::StepSummary;
    use qd1_model::plan::IoWork;
    use qd1_model::plan::Work;

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
        let said = sentences(&report);
        let expected = "Under load (20.0 MB/s written): median 3.10 ms, alone ";
        assert!(said[0].starts_with("Commits: ") && said[0].contains(expected), "{said:?}");
        assert!(said[0].contains("p99 above 31 ms, alone "), "{said:?}");
        report.record.plan.steps.last_mut().unwrap().background.clear();
        assert!(!sentences(&report)[0].contains("Under load"));
    }
}
