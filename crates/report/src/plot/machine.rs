//! What the machine and the device did while a step was measured: processors and waits, data that waited to be written,
//! and the device's own counters. On the same time axis as the step's latencies.

use qd1_model::chart::Timeline;
use qd1_model::record::machine::MachineInterval;

use super::time::{TIME, place, seconds, timelines, visits};
use super::{Axis, AxisUnit, Body, Chart, Pictured, Series, Time, look, named};

/// Points of a line at most; neighbours are joined.
const POINTS_MAX: usize = 400;

/// One line: its name, and its value in neighbouring intervals together.
struct Line {
    name: &'static str,
    value: fn(&[MachineInterval]) -> Option<f64>,
}

/// One chart: how it is named, and its lines.
struct Kind {
    id: &'static str,
    title: &'static str,
    note: &'static str,
    y: Axis,
    lines: &'static [Line],
}

const KINDS: [Kind; 4] = [
    Kind {
        id: "machine",
        title: "CPU use and waits of the machine",
        note: "Busy and stolen: share of the processors' time. Waited: share of the time in which at least one task on \
               the machine waited (PSI).",
        y: Axis { label: "share", unit: AxisUnit::Share, is_log: false },
        lines: &[
            Line { name: "busy", value: |parts| mean(parts, |part| Some(part.busy_ppm)) },
            Line { name: "stolen", value: |parts| mean(parts, |part| Some(part.steal_ppm)) },
            Line { name: "waited for I/O", value: |parts| mean(parts, |part| part.pressure_ppm.map(|psi| psi.io)) },
            Line {
                name: "waited for memory",
                value: |parts| mean(parts, |part| part.pressure_ppm.map(|psi| psi.memory)),
            },
            Line {
                name: "waited for a processor",
                value: |parts| mean(parts, |part| part.pressure_ppm.map(|psi| psi.cpu)),
            },
        ],
    },
    Kind {
        id: "dirty",
        title: "unwritten data in memory",
        note: "Of the whole machine (Dirty and Writeback in /proc/meminfo).",
        y: Axis { label: "bytes", unit: AxisUnit::Bytes, is_log: false },
        lines: &[
            Line { name: "dirty", value: |parts| Some(parts.last()?.writeback?.dirty_bytes as f64) },
            Line { name: "being written", value: |parts| Some(parts.last()?.writeback?.writeback_bytes as f64) },
        ],
    },
    Kind {
        id: "device",
        title: "device requests",
        note: "As counted by the kernel, for all users of the device.",
        y: Axis { label: "per second", unit: AxisUnit::PerSecond, is_log: false },
        lines: &[
            Line { name: "reads", value: |parts| per_second(parts, |part| Some(part.device?.reads)) },
            Line { name: "writes", value: |parts| per_second(parts, |part| Some(part.device?.writes)) },
            Line { name: "flushes", value: |parts| per_second(parts, |part| Some(part.device?.flushes)) },
        ],
    },
    Kind {
        id: "queue",
        title: "device requests in flight",
        note: "Average, as counted by the kernel, for all users of the device.",
        y: Axis { label: "requests", unit: AxisUnit::Number, is_log: false },
        // Milliseconds of waiting per second; a thousandth of that is the number of requests that waited.
        lines: &[Line {
            name: "in flight",
            value: |parts| per_second(parts, |part| Some(part.device?.queue_ms)).map(|ms| ms / 1e3),
        }],
    },
];

/// Returns the charts of a step.
pub(super) fn of_step(runs: &[Pictured], step: &str) -> Vec<Chart> {
    KINDS.iter().filter_map(|kind| chart(kind, runs, step)).collect()
}

fn chart(kind: &Kind, runs: &[Pictured], step: &str) -> Option<Chart> {
    let mut series = Vec::new();
    for (color, run) in runs.iter().enumerate() {
        let Some((found, parts)) = measured(run, step) else { continue };
        for (dash, line) in kind.lines.iter().enumerate() {
            let Some(drawn) = drawn(line, found, parts) else { continue };
            series.push(Series { name: named(runs, run, line.name), look: look(runs, color, dash), ..drawn });
        }
    }
    let only = if runs.len() == 1 { measured(&runs[0], step) } else { None };
    (!series.is_empty()).then(|| Chart {
        id: format!("{}-{step}", kind.id),
        title: format!("{step}: {}", kind.title),
        note: kind.note.to_owned(),
        x: TIME,
        y: kind.y,
        body: Body::Lines { series },
        time: Some(Time {
            step: step.to_owned(),
            visits: only.map(|(found, _)| visits(found)).unwrap_or_default(),
            marks: Vec::new(),
        }),
        bounds: Vec::new(),
        made: String::new(),
    })
}

/// What a run has of a step over time, if it is more than a point.
fn measured<'a>(run: &'a Pictured, step: &str) -> Option<(&'a Timeline, &'a [MachineInterval])> {
    let parts = run.report.record.step(step)?.machine.as_slice();
    (parts.len() > 1).then_some(())?;
    Some((timelines(run, step).into_iter().next()?, parts))
}

/// The line, with gaps between visits; `None` where nothing is known, or nothing happened.
fn drawn(line: &Line, found: &Timeline, parts: &[MachineInterval]) -> Option<Series> {
    let started_ns = found.moments.first()?.start_ns;
    let at = |ns: u64| place(found, started_ns.saturating_add(ns));
    let each = parts.len().div_ceil(POINTS_MAX);
    let mut series = Series::default();
    let mut push = |x: f64, y: Option<f64>| {
        series.x.push(Some(x));
        series.y.push(y);
    };
    let visits: Vec<usize> = parts.chunk_by(MachineInterval::goes_on).map(<[_]>::len).collect();
    let mut rest = parts;
    // If there are thousands of visits, several become one.
    for lengths in visits.chunks(visits.len().div_ceil(POINTS_MAX)) {
        let visit;
        (visit, rest) = rest.split_at(lengths.iter().sum());
        push(at(visit[0].start_ns), None);
        for parts in visit.chunks(each) {
            let (first, last) = (&parts[0], &parts[parts.len() - 1]);
            push(0.5 * (at(first.start_ns) + at(last.end_ns().saturating_sub(1))), (line.value)(parts));
        }
    }
    let end_s = seconds(found.moments.iter().fold(0, |sum: u64, moment| sum.saturating_add(moment.length_ns)));
    push(end_s, None);
    series.y.iter().flatten().any(|value| *value > 0.0).then_some(series)
}

/// The mean of a share, weighted by time.
fn mean(parts: &[MachineInterval], ppm: impl Fn(&MachineInterval) -> Option<u32>) -> Option<f64> {
    let known = parts.iter().filter_map(|part| Some((part.length_ns as f64, f64::from(ppm(part)?))));
    let (length, sum) = known.fold((0.0, 0.0), |(length, sum), (ns, ppm)| (length + ns, sum + ns * ppm));
    (length > 0.0).then(|| sum / length / 1e6)
}

fn per_second(parts: &[MachineInterval], count: impl Fn(&MachineInterval) -> Option<u64>) -> Option<f64> {
    let known = parts.iter().filter_map(|part| Some((part.length_ns as f64, count(part)? as f64)));
    let (length, sum) = known.fold((0.0, 0.0), |(length, sum), (ns, count)| (length + ns, sum + count));
    (length > 0.0).then(|| sum / (length / 1e9))
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::OpClass;
    use qd1_model::chart::Moment;
    use qd1_model::environment::DeviceCounters;

    fn part(start_s: u64, reads: u64) -> MachineInterval {
        MachineInterval {
            start_ns: start_s * 1_000_000_000,
            length_ns: 1_000_000_000,
            busy_ppm: 250_000,
            device: Some(DeviceCounters { reads, queue_ms: 2000, ..DeviceCounters::default() }),
            ..MachineInterval::default()
        }
    }

    fn timeline() -> Timeline {
        let moment = |start_s: u64, goes_on| Moment {
            start_ns: (100 + start_s) * 1_000_000_000,
            length_ns: 2_000_000_000,
            goes_on,
            ..Moment::default()
        };
        Timeline {
            step: "reads".to_owned(),
            class: OpClass::Read,
            moments: vec![moment(0, false), moment(30, false)],
            events: Vec::new(),
        }
    }

    #[test]
    fn counters_are_at_the_times_of_the_latencies() {
        let parts = [part(0, 100), part(1, 300), part(30, 500)];
        let of = |kind: usize, line: usize| drawn(&KINDS[kind].lines[line], &timeline(), &parts);
        let reads = of(2, 0).unwrap();
        let x: Vec<f64> = reads.x.iter().flatten().map(|x| (x * 1e3).round() / 1e3).collect();
        assert_eq!(x, [0.0, 0.5, 1.5, 2.0, 2.5, 4.0], "the second visit follows the first");
        assert_eq!(reads.y, [None, Some(100.0), Some(300.0), None, Some(500.0), None]);
        assert_eq!(of(3, 0).unwrap().y[1], Some(2.0), "2,000 ms of waiting in a second are two requests");
        assert_eq!(of(0, 0).unwrap().y[1], Some(0.25));
        assert!(of(0, 1).is_none() && of(1, 0).is_none(), "nothing was stolen, and dirty pages are not known");
    }

    #[test]
    fn days_of_counters_become_a_few_hundred_points() {
        let parts: Vec<MachineInterval> = (0..100_000).map(|at| part(at, 7)).collect();
        let line = drawn(&KINDS[2].lines[0], &timeline(), &parts).unwrap();
        assert!(line.x.len() < POINTS_MAX + 3);
        let apart: Vec<MachineInterval> = (0..100_000).map(|at| part(2 * at, 7)).collect();
        assert!(drawn(&KINDS[2].lines[0], &timeline(), &apart).unwrap().x.len() < 3 * POINTS_MAX);
        assert!(line.y.iter().flatten().all(|rate| (rate - 7.0).abs() < 1e-9));
    }
}
