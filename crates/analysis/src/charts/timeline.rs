//! The course of each kind of operation of a step over time.

use qd1_model::chart::{Event, Moment, Timeline};
use qd1_model::order::Order as _;
use qd1_model::record::{Interval, Record, StepRecord, Stream};
use qd1_model::units::format_ns;
use qd1_model::{OpClass, Summary};

use crate::detect::{Stall, TOGETHER_NS, changes_of, in_short, stalls_of};
use qd1_stats::bin_ends_ns;
use qd1_stats::change::StepCourse;

/// Largest number of moments of a timeline, not counting visits of one interval.
const MOMENTS_MAX: usize = 400;
/// Operations per moment, on average: with fewer, the rate would be that of one or two. And the smallest number of
/// moments.
const IOS_MIN: u64 = 10;
const MOMENTS_MIN: usize = 12;
/// Number of operations whose 99th percentile is not just the slowest.
const P99_MIN: u64 = 100;

/// Returns one for each kind of operation of each step.
pub(super) fn all(record: &Record, summary: &Summary) -> Vec<Timeline> {
    record.steps.iter().flat_map(|step| of_step(step, summary)).collect()
}

fn of_step(step: &StepRecord, summary: &Summary) -> Vec<Timeline> {
    let (changes, stalls) = (changes_of(&StepCourse::of(&step.intervals)), stalls_of(step, summary));
    let of = |stream: &Stream| {
        let mut timeline = of_stream(step, stream.class);
        let event = |at_ns: u64, lat_ns, text| Event { at_ns: step.started_ns.saturating_add(at_ns), lat_ns, text };
        let changes = changes.iter().filter(|change| change.class == stream.class);
        timeline.events.extend(
            changes.map(|change| event(change.at_ns, None, format!("{}s: {}", change.class.name(), in_short(change)))),
        );
        let stalls = apart(stalls.iter().filter(|stall| stall.class == stream.class));
        timeline.events.extend(stalls.into_iter().map(|stall| {
            event(stall.at_ns, Some(stall.lat_ns as f64), format!("stall of {}", format_ns(stall.lat_ns as f64)))
        }));
        timeline.events.order_by_key(|event| event.at_ns);
        timeline
    };
    step.streams.iter().map(of).collect()
}

/// Of stalls at the same moment, such as those of a batch of requests, the longest.
fn apart<'a>(stalls: impl Iterator<Item = &'a Stall>) -> Vec<Stall> {
    let mut apart: Vec<Stall> = Vec::new();
    for stall in stalls {
        match apart.last_mut() {
            Some(last) if stall.at_ns.saturating_sub(last.at_ns) <= TOGETHER_NS => {
                if stall.lat_ns > last.lat_ns {
                    *last = *stall;
                }
            }
            _ => apart.push(*stall),
        }
    }
    apart
}

fn of_stream(step: &StepRecord, class: OpClass) -> Timeline {
    let count = step.intervals.len();
    let in_streams = step.intervals.iter().flat_map(|interval| &interval.streams);
    let ios: u64 =
        in_streams.filter(|stream| stream.class == class).fold(0, |ios: u64, stream| ios.saturating_add(stream.ios));
    let by_ios = (IOS_MIN * count as u64).div_ceil(ios.max(1)).min(count.div_ceil(MOMENTS_MIN) as u64) as usize;
    let each = count.div_ceil(MOMENTS_MAX).max(by_ios).max(1);
    let visits = step.intervals.chunk_by(Interval::goes_on);
    let mut moments = Vec::new();
    for visit in visits {
        for (at, intervals) in parts(visit, each).into_iter().enumerate() {
            moments.push(Moment { goes_on: at > 0, ..moment(step.started_ns, intervals, class) });
        }
    }
    Timeline { step: step.name.clone(), class, moments, events: Vec::new() }
}

/// Cuts a visit into parts of this many intervals. A short rest, whose rate would say nothing, goes to the part before
/// it.
fn parts(visit: &[Interval], each: usize) -> Vec<&[Interval]> {
    let length_ns = |part: &[Interval]| part.iter().map(|interval| interval.length_ns).sum::<u64>();
    let mut parts: Vec<&[Interval]> = visit.chunks(each).collect();
    if let [.., before, last] = parts.as_slice()
        && length_ns(last) < length_ns(before) / 2
    {
        let from = visit.len() - last.len() - before.len();
        parts.truncate(parts.len() - 2);
        parts.push(&visit[from..]);
    }
    parts
}

/// Returns several intervals as one.
fn moment(started_ns: u64, intervals: &[Interval], class: OpClass) -> Moment {
    let (first, last) = (&intervals[0], &intervals[intervals.len() - 1]);
    let end_ns = last.start_ns.saturating_add(last.length_ns);
    let mut moment = Moment {
        start_ns: started_ns.saturating_add(first.start_ns),
        length_ns: end_ns.saturating_sub(first.start_ns),
        ..Moment::default()
    };
    let mut max_ns = 0;
    let streams = intervals.iter().flat_map(|interval| &interval.streams).filter(|stream| stream.class == class);
    for stream in streams {
        moment.ios = moment.ios.saturating_add(stream.ios);
        moment.bytes = moment.bytes.saturating_add(stream.bytes);
        max_ns = max_ns.max(stream.lat_max_ns);
        for (bin, count) in &stream.bins {
            match moment.bins.binary_search_by_key(bin, |(bin, _)| *bin) {
                Ok(at) => moment.bins[at].1 = moment.bins[at].1.saturating_add(*count),
                Err(at) => moment.bins.insert(at, (*bin, *count)),
            }
        }
    }
    if moment.ios > 0 {
        moment.max_ns = Some(max_ns as f64);
        moment.p50_ns = quantile(&moment.bins, 0.5).map(|ns| ns.min(max_ns as f64));
        moment.p99_ns = quantile(&moment.bins, 0.99).filter(|_| moment.ios >= P99_MIN).map(|ns| ns.min(max_ns as f64));
    }
    moment
}

/// The middle of the bin that holds quantile `q`.
fn quantile(bins: &[(u16, u32)], q: f64) -> Option<f64> {
    let count: u64 = bins.iter().map(|(_, count)| u64::from(*count)).sum();
    let rank = (q * count as f64).ceil() as u64;
    let mut seen = 0;
    let (bin, _) = bins.iter().find(|(_, count)| {
        seen += u64::from(*count);
        seen >= rank
    })?;
    let (low_ns, high_ns) = bin_ends_ns(usize::from(*bin));
    Some(0.5 * (low_ns + high_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{summarize, testing};
    use qd1_model::hist::coarse_index;
    use qd1_model::record::{IntervalStream, Slow};
    use qd1_model::{Bytes, Hist};

    fn interval(start_ns: u64, lat_ns: &[u64]) -> Interval {
        let mut bins: Vec<(u16, u32)> = lat_ns.iter().map(|ns| (coarse_index(*ns) as u16, 1)).collect();
        bins.sort_unstable();
        let stream = IntervalStream {
            class: OpClass::Read,
            ios: lat_ns.len() as u64,
            bytes: 4096 * lat_ns.len() as u64,
            lat_sum_ns: lat_ns.iter().sum(),
            lat_max_ns: lat_ns.iter().copied().max().unwrap_or(0),
            bins,
        };
        Interval { start_ns, length_ns: 100, streams: vec![stream] }
    }

    fn step(intervals: Vec<Interval>) -> StepRecord {
        let stream = Stream::of(OpClass::Read, Bytes(0), Hist::new());
        StepRecord { started_ns: 5000, streams: vec![stream], intervals, ..StepRecord::default() }
    }

    #[test]
    fn visits_stay_apart_and_times_count_from_the_start_of_the_run() {
        let timeline =
            of_stream(&step(vec![interval(0, &[5000]), interval(100, &[]), interval(900, &[70_000])]), OpClass::Read);
        let seen: Vec<_> =
            timeline.moments.iter().map(|moment| (moment.start_ns, moment.goes_on, moment.ios)).collect();
        assert_eq!(seen, [(5000, false, 1), (5100, true, 0), (5900, false, 1)]);
        assert_eq!((timeline.moments[1].p50_ns, timeline.moments[1].max_ns), (None, None));
        assert!((timeline.moments[2].p50_ns.unwrap() / 70_000.0 - 1.0).abs() < 0.07);
        assert_eq!(timeline.moments[2].p99_ns, None, "one operation has no 99th percentile");
    }

    #[test]
    fn a_stall_and_a_change_of_level_are_events_at_their_time() {
        let mut record = testing::record();
        record.steps[0].streams[0].slowest = vec![
            Slow { at_ns: 700_000_000, lat_ns: 80_000_000 },
            // Another of the same batch.
            Slow { at_ns: 700_000_500, lat_ns: 79_000_000 },
        ];
        let summary = summarize(&record);
        let timelines = all(&record, &summary);
        let first = &timelines[0];
        let at_ns = record.steps[0].started_ns + 700_000_000;
        assert_eq!(first.events, [Event { at_ns, lat_ns: Some(80e6), text: "stall of 80.0 ms".to_owned() }]);
        assert!(timelines[1..].iter().all(|timeline| timeline.events.is_empty()));

        let template = record.steps[0].intervals[0].clone();
        record.steps[0].intervals = (0..200)
            .map(|at| {
                let mut interval = Interval { start_ns: at * 100_000_000, ..template.clone() };
                interval.streams[0].ios = if at < 120 { 800 } else { 300 } + at * 7919 % 23;
                interval
            })
            .collect();
        let events = &all(&record, &summary)[0].events;
        let change = events.iter().find(|event| event.lat_ns.is_none()).unwrap();
        let at_s = (change.at_ns - record.steps[0].started_ns) as f64 / 1e9;
        assert!((at_s - 12.0).abs() < 0.3 && change.text.contains("fell"), "{change:?}");
    }

    /// Regression: one read in the last 0.3 ms of a step looked like 3,000 a second.
    #[test]
    fn a_short_rest_of_a_visit_is_no_moment_of_its_own() {
        let rest = Interval { length_ns: 3, ..interval(200, &[4000]) };
        let timeline = of_stream(&step(vec![interval(0, &[1]), interval(100, &[1]), rest]), OpClass::Read);
        let seen: Vec<_> = timeline.moments.iter().map(|moment| (moment.length_ns, moment.ios)).collect();
        assert_eq!(seen, [(100, 1), (103, 2)]);
    }

    #[test]
    fn many_intervals_are_joined_with_all_that_was_in_them() {
        let intervals: Vec<Interval> = (0..1000).map(|at| interval(at * 100, &[1000, 100_000 + at])).collect();
        let timeline = of_stream(&step(intervals), OpClass::Read);
        assert!(timeline.moments.len() <= MOMENTS_MAX && timeline.moments.len() >= MOMENTS_MAX / 2);
        assert_eq!(timeline.moments.iter().map(|moment| moment.ios).sum::<u64>(), 2000);
        let in_bins =
            timeline.moments.iter().flat_map(|moment| &moment.bins).map(|(_, count)| u64::from(*count)).sum::<u64>();
        assert_eq!(in_bins, 2000);
        assert_eq!(timeline.moments.last().unwrap().max_ns, Some(100_999.0));
        let lengths: u64 = timeline.moments.iter().map(|moment| moment.length_ns).sum();
        assert_eq!(lengths, 100_000);
    }
}
