//! How a step went: operations by time and latency, with the events that were found, and the rate.
//!
//! Only measured time is shown: a step in visits would otherwise be a few thin lines in a wide chart.

use qd1_model::OpClass;
use qd1_model::chart::{Event, Moment, Timeline};
use qd1_model::hist::coarse_low_ns;
use qd1_model::order::Order as _;

use crate::words::plural;

use super::{Axis, AxisUnit, Body, Chart, Heat, Mark, Pictured, Series, Time, bounds, look, named};

pub(super) const TIME: Axis = Axis { label: "measured time", unit: AxisUnit::Seconds, is_log: false };
const LATENCY: Axis = Axis { label: "latency", unit: AxisUnit::Ns, is_log: true };

/// Most stalls that are marked: the longest.
const STALLS_MAX: usize = 5;

/// Returns the charts over time of a step.
pub(super) fn of_step(runs: &[Pictured], step: &str) -> Vec<Chart> {
    let mut charts = Vec::new();
    for run in runs {
        let of = |found: &&Timeline| heat(runs, found, named(runs, run, step), &named(runs, run, found.class.name()));
        charts.extend(timelines(run, step).iter().map(of));
    }
    charts.extend(rates(runs, step));
    charts
}

/// The kinds of operation of a step that say anything over time.
pub(super) fn timelines<'a>(run: &'a Pictured, step: &str) -> Vec<&'a Timeline> {
    let shows =
        |found: &&Timeline| found.step == step && found.moments.iter().filter(|moment| moment.ios > 0).count() > 1;
    run.data.timelines.iter().filter(shows).collect()
}

fn heat(runs: &[Pictured], found: &Timeline, place: String, name: &str) -> Chart {
    let (step, class, plural) = (&found.step, found.class.name(), plural(found.class));
    let line =
        |name: &str, value: fn(&Moment) -> Option<f64>| Series { name: name.to_owned(), ..over_time(found, value) };
    let series = vec![
        line("slowest", |moment| moment.max_ns),
        line("p99", |moment| moment.p99_ns),
        line("p50", |moment| moment.p50_ns),
    ];
    let series = series.into_iter().filter(|line| line.y.iter().any(Option::is_some)).collect();
    Chart {
        id: format!("heat-{}-{class}", place.replace(' ', "-")),
        title: format!("{step}: latency of {} over time", name.replacen(class, plural, 1)),
        note: note(found),
        x: TIME,
        y: LATENCY,
        body: Body::Heat { heat: cells(found), series },
        time: Some(Time { step: step.clone(), visits: visits(found), marks: marks(found) }),
        bounds: bounds::of_latency(runs, step, found.class),
        made: String::new(),
    }
}

fn note(found: &Timeline) -> String {
    let mut note =
        "The more a cell stands out from the page, the more operations took that long at that time.".to_owned();
    if found.events.iter().any(|event| event.lat_ns.is_some()) {
        note += " Circles: the longest stalls.";
    }
    if found.events.iter().any(|event| event.lat_ns.is_none()) {
        note += " Dashed: the level changed.";
    }
    note
}

fn cells(found: &Timeline) -> Heat {
    let bins = || found.moments.iter().flat_map(|moment| &moment.bins).map(|(bin, _)| *bin);
    let (Some(first), Some(last)) = (bins().min(), bins().max()) else { return Heat::default() };
    let mut heat = Heat {
        edges: (first..=last.saturating_add(1)).map(|bin| coarse_low_ns(usize::from(bin))).collect(),
        ..Heat::default()
    };
    for (moment, (begin, end)) in measured(found).filter(|(moment, _)| moment.ios > 0) {
        heat.columns.push((begin, end));
        heat.cells.push(moment.bins.iter().flat_map(|(bin, count)| [u32::from(bin - first), *count]).collect());
    }
    heat
}

pub(super) fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

/// Each moment with its begin and end in measured time, s.
fn measured(found: &Timeline) -> impl Iterator<Item = (&Moment, (f64, f64))> {
    found.moments.iter().scan(0_u64, |at_ns, moment| {
        let begin_ns = *at_ns;
        *at_ns = at_ns.saturating_add(moment.length_ns);
        Some((moment, (seconds(begin_ns), seconds(*at_ns))))
    })
}

/// Where each visit begins, in measured time and in that of the run, s.
pub(super) fn visits(found: &Timeline) -> Vec<(f64, f64)> {
    let begins = measured(found).filter(|(moment, _)| !moment.goes_on);
    begins.map(|(moment, (begin, _))| (begin, seconds(moment.start_ns))).collect()
}

/// A line through the moments, with a gap where a visit ends and where there is no value.
fn over_time(found: &Timeline, value: impl Fn(&Moment) -> Option<f64>) -> Series {
    let (mut series, mut last) = (Series::default(), 0.0);
    for (moment, (begin, end)) in measured(found) {
        if !moment.goes_on {
            series.x.push(Some(begin));
            series.y.push(None);
        }
        series.x.push(Some(0.5 * (begin + end)));
        series.y.push(value(moment));
        last = end;
    }
    // All lines of a step begin and end at the same places, whatever they show.
    series.x.push(Some(last));
    series.y.push(None);
    series
}

fn marks(found: &Timeline) -> Vec<Mark> {
    let (mut stalls, changes): (Vec<&Event>, Vec<&Event>) =
        found.events.iter().partition(|event| event.lat_ns.is_some());
    stalls.order_by(|a, b| b.lat_ns.unwrap_or(0.0).total_cmp(&a.lat_ns.unwrap_or(0.0)));
    stalls.truncate(STALLS_MAX);
    let mut marked: Vec<&Event> = stalls.into_iter().chain(changes).collect();
    marked.order_by_key(|event| event.at_ns);
    let mark = |event: &Event| Mark { x: place(found, event.at_ns), y: event.lat_ns, text: event.text.clone() };
    marked.into_iter().map(mark).collect()
}

/// A time of the run in measured time, s: within the last moment that began before it.
pub(super) fn place(found: &Timeline, at_ns: u64) -> f64 {
    let before = measured(found).take_while(|(moment, _)| moment.start_ns <= at_ns).last();
    before.map_or(0.0, |(moment, (begin, end))| (begin + seconds(at_ns - moment.start_ns)).min(end))
}

/// Operations per second of all kinds, or bytes per second of a step that moves large blocks.
fn rates(runs: &[Pictured], step: &str) -> Option<Chart> {
    let all: Vec<(&Pictured, &Timeline)> =
        runs.iter().flat_map(|run| timelines(run, step).into_iter().map(move |found| (run, found))).collect();
    let is_of_bytes = !all.is_empty() && all.iter().all(|(_, found)| moves_large_blocks(found));
    let of = |moment: &Moment| {
        let amount = if is_of_bytes { moment.bytes } else { moment.ios };
        (moment.length_ns > 0).then(|| amount as f64 / (moment.length_ns as f64 / 1e9))
    };
    let one_class = |run: &Pictured| timelines(run, step).len() == 1 && runs.len() > 1;
    let line = |number: usize, run: &Pictured| {
        let of_class = move |(dash, found): (usize, &Timeline)| {
            let class = if one_class(run) { "" } else { found.class.name() };
            Series { name: named(runs, run, class), look: look(runs, number, dash), ..over_time(found, of) }
        };
        timelines(run, step).into_iter().enumerate().map(of_class).collect::<Vec<_>>()
    };
    let series: Vec<Series> = runs.iter().enumerate().flat_map(|(number, run)| line(number, run)).collect();
    let unit = if is_of_bytes { AxisUnit::BytesPerSecond } else { AxisUnit::PerSecond };
    let label = if is_of_bytes { "throughput" } else { "operations per second" };
    let chart = Chart {
        id: format!("rate-{step}"),
        title: format!("{step}: {label} over time"),
        note: String::new(),
        x: TIME,
        y: Axis { label, unit, is_log: false },
        body: Body::Lines { series },
        time: Some(Time {
            step: step.to_owned(),
            // Those of several runs are at different places.
            visits: if runs.len() == 1 {
                all.first().map(|(_, found)| visits(found)).unwrap_or_default()
            } else {
                Vec::new()
            },
            marks: all.iter().flat_map(|(run, found)| changes(runs, run, found)).collect(),
        }),
        bounds: bounds::of_rate(runs, step, is_of_bytes),
        made: String::new(),
    };
    (!all.is_empty()).then_some(chart)
}

/// The changes of level, with the run's name if there are several runs.
fn changes(runs: &[Pictured], run: &Pictured, found: &Timeline) -> Vec<Mark> {
    let changes = marks(found).into_iter().filter(|mark| mark.y.is_none());
    changes.map(|mark| Mark { text: named(runs, run, &mark.text), ..mark }).collect()
}

/// Whether its operations are of 128 KiB and more on average, as streams are.
fn moves_large_blocks(found: &Timeline) -> bool {
    const LARGE: u64 = 128 << 10;
    let sum = |of: fn(&Moment) -> u64| found.moments.iter().map(of).fold(0, u64::saturating_add);
    let (ios, bytes) = (sum(|moment| moment.ios), sum(|moment| moment.bytes));
    matches!(found.class, OpClass::Read | OpClass::Write) && ios > 0 && bytes / ios >= LARGE
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timeline() -> Timeline {
        let moment = |start_ns: u64, goes_on, bins: Vec<(u16, u32)>| Moment {
            start_ns,
            length_ns: 1_000_000_000,
            goes_on,
            ios: bins.iter().map(|(_, count)| u64::from(*count)).sum(),
            bytes: 4096,
            p50_ns: Some(5e3),
            p99_ns: None,
            max_ns: Some(9e3),
            bins,
        };
        Timeline {
            step: "reads".to_owned(),
            class: OpClass::Read,
            moments: vec![
                moment(0, false, vec![(80, 3), (82, 1)]),
                moment(1_000_000_000, true, vec![(81, 2)]),
                moment(5_000_000_000, false, vec![(80, 1)]),
            ],
            events: Vec::new(),
        }
    }

    #[test]
    fn cells_hold_every_operation_at_its_time_and_latency() {
        let heat = cells(&timeline());
        assert_eq!(heat.columns, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)]);
        assert_eq!(visits(&timeline()), [(0.0, 0.0), (2.0, 5.0)]);
        assert_eq!(heat.cells, [vec![0, 3, 2, 1], vec![1, 2], vec![0, 1]]);
        assert_eq!(heat.edges, [80, 81, 82, 83].map(coarse_low_ns));
    }

    #[test]
    fn a_line_has_a_gap_between_visits() {
        let line = over_time(&timeline(), |moment| moment.p50_ns);
        assert_eq!(line.x, [0.0, 0.5, 1.5, 2.0, 2.5, 3.0].map(Some));
        assert_eq!(line.y, [None, Some(5e3), Some(5e3), None, Some(5e3), None]);
    }

    #[test]
    fn changes_and_the_longest_stalls_are_marked() {
        let event = |at_ns, lat_ns| Event { at_ns, lat_ns, text: "x".to_owned() };
        let mut events: Vec<Event> = (1..=9).map(|at| event(at, Some(at as f64))).collect();
        events.push(event(10, None));
        let marked = marks(&Timeline { events, ..timeline() });
        assert_eq!(marked.iter().filter_map(|mark| mark.y).collect::<Vec<_>>(), [5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(marked.len(), 6);
        let at = |ns: u64| place(&timeline(), ns);
        assert_eq!([at(500_000_000), at(1_500_000_000), at(4_000_000_000), at(5_250_000_000)], [0.5, 1.5, 2.0, 2.25]);
    }
}
