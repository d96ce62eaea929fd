//! Differences between runs other than their figures.

use qd1_model::Detector;
use qd1_model::comparison::Difference;
use qd1_model::measured::{Aspect, Circumstance, Measured};
use qd1_model::{Finding, Record, Summary};

use super::Group;
use super::align::Aligned;
use crate::detect;

/// Detectors whose findings say that the figures do not describe the disk alone, or not its usual state.
const SPOILERS: [Detector; 8] = [
    Detector::NotADisk,
    Detector::CacheAnswered,
    Detector::CpuSpoiled,
    Detector::OtherTraffic,
    Detector::ThrottledCgroup,
    Detector::RateChanged,
    Detector::RateLimited,
    Detector::ShortOrFailedIo,
];
/// Number of values of one side that are listed.
const VALUES_MAX: usize = 3;

/// What a Record says about where and how it was measured.
pub(super) fn of(record: &Record) -> Vec<Circumstance> {
    let environment = &record.environment;
    let filesystem = &environment.filesystem;
    let device = environment.devices.first();
    let joined = |parts: &[&str]| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join(" ")
    };
    let of_device = |value: fn(&qd1_model::environment::Device) -> String| device.map(value).unwrap_or_default();
    let all = [
        (Aspect::Host, environment.hostname.clone()),
        (Aspect::Instance, joined(&[&environment.vendor, &environment.product])),
        (Aspect::Disk, of_device(|device| format!("{} {}", device.model, device.size).trim().to_owned())),
        (Aspect::Filesystem, joined(&[&filesystem.kind, &filesystem.options.join(",")])),
        (Aspect::Kernel, environment.kernel.clone()),
        (Aspect::Scheduler, of_device(|device| device.scheduler.clone())),
        (Aspect::WriteCache, of_device(|device| device.write_cache.clone())),
        (Aspect::Processors, format!("{} x {}", environment.cpus, environment.cpu_model)),
        (Aspect::Memory, about(environment.memory.0)),
        (Aspect::Suite, record.plan.suite.clone()),
        (Aspect::Size, record.plan.target.size.to_string()),
        (Aspect::Interrupted, if record.interrupted { "yes" } else { "no" }.to_owned()),
    ];
    let known = all.into_iter().filter(|(_, value)| !value.is_empty());
    known.map(|(aspect, value)| Circumstance { aspect, value }).collect()
}

/// Memory to the half GiB: the kernel reserves a different part of it at each start.
fn about(bytes: u64) -> String {
    let halves = (bytes as f64 / f64::from(1 << 29)).round();
    if bytes == 0 { String::new() } else { format!("{:.1} GiB", halves / 2.0) }
}

/// The findings that spoil a run.
pub(super) fn spoilers(record: &Record, summary: &Summary) -> Vec<Finding> {
    // A watch is of whatever happens.
    if record.watched.is_some() {
        return Vec::new();
    }
    detect::merge_repeated(detect::findings_of(record, summary, |detector| SPOILERS.contains(&detector)))
}

/// A finding that spoils a run, in words.
pub(super) fn spoiled(finding: &Finding) -> Circumstance {
    let steps: Vec<&str> = std::iter::once(&finding.step).chain(&finding.also_in).map(String::as_str).collect();
    // The step is named before it.
    let named = [", in", " during", " of", " in"].map(|word| format!("{word} step {}", finding.step));
    let title = named.iter().fold(finding.title.clone(), |title, named| title.replace(named, ""));
    let steps = if finding.step.is_empty() { String::new() } else { format!("{}: ", steps.join(", ")) };
    Circumstance { aspect: Aspect::Spoiled, value: format!("{steps}{title}") }
}

/// What the sides differ in: as whole runs, and in the engines of steps.
pub(super) fn differences(groups: &[Group], steps: &[Aligned<'_>]) -> Vec<Difference> {
    let mut aspects: Vec<Aspect> = groups
        .iter()
        .flat_map(|group| &group.runs)
        .flat_map(|run| &run.circumstances)
        .map(|known| known.aspect)
        .chain([Aspect::Tool])
        .collect();
    aspects.sort_unstable();
    aspects.dedup();
    let of_aspect = |aspect: Aspect| {
        let of = |group: &Group| match aspect {
            Aspect::Spoiled => spoilt(group),
            _ => values(group.runs.iter().map(|run| value(run, aspect))),
        };
        let values = groups.iter().map(of);
        difference(aspect, String::new(), values.collect())
    };
    let of_engine = |aligned: &Aligned<'_>| {
        let values = (0..groups.len()).map(|side| values(aligned.of(side).map(|step| step.engine.clone())));
        difference(Aspect::Engine, aligned.first.name.clone(), values.collect())
    };
    aspects.into_iter().filter_map(of_aspect).chain(steps.iter().filter_map(of_engine)).collect()
}

fn value(run: &Measured, aspect: Aspect) -> String {
    if aspect == Aspect::Tool {
        return run.tool.clone();
    }
    let known = run.circumstances.iter().filter(|known| known.aspect == aspect).map(|known| known.value.as_str());
    known.collect::<Vec<_>>().join(if aspect == Aspect::Spoiled { "\n" } else { "; " })
}

/// What spoils the runs of a side, one per line.
fn spoilt(group: &Group) -> String {
    let mut lines: Vec<String> = Vec::new();
    for line in
        group.runs.iter().flat_map(|run| value(run, Aspect::Spoiled).lines().map(str::to_owned).collect::<Vec<_>>())
    {
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    lines.join("\n")
}

/// The different values of a side's runs; empty where none is known.
fn values(runs: impl Iterator<Item = String>) -> String {
    let mut found: Vec<String> = Vec::new();
    for value in runs.filter(|value| !value.is_empty()) {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    let more = found.len().saturating_sub(VALUES_MAX);
    found.truncate(VALUES_MAX);
    if more > 0 {
        found.push(format!("and {more} more"));
    }
    found.join(" | ")
}

/// `None` if all known values are the same. What spoils a run is reported wherever it is known.
fn difference(aspect: Aspect, step: String, values: Vec<String>) -> Option<Difference> {
    let mut known = values.iter().filter(|value| !value.is_empty());
    let first = known.next()?;
    let differs = known.any(|other| other != first) || first.contains(" | ");
    let is_spoiled = aspect == Aspect::Spoiled;
    let warning = aspect.warning().unwrap_or_default().to_owned();
    (differs || is_spoiled).then_some(Difference { aspect, step, values, warning })
}
