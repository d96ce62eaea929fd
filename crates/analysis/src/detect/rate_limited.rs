//! A step ran into a rate limit: its figures are the limiter's, not the disk's.
//!
//! Concludes from the fingerprints of [`crate::limits`]: the count of a step stays on a line (a flat top), and there is
//! one strong sign, or a round figure and another weak sign. Strong: with one request at a time, latencies vary much
//! more than so steady a count allows; requests are released in slices; another step, which is also flat, has the same
//! rate of requests or of bytes at another block size or depth, or small requests in the other direction. Weak: the
//! rate is a round figure within its interval; throughput came down to it from a burst; latencies have two modes with
//! nothing in between. How often each is seen with and without a limit is in docs/method.md.
//!
//! It cannot distinguish a provider's limit from another constant rate, such as that of a network link. Steps whose
//! requests come at a fixed rate and buffered ones are left out: their rate is not the disk's. `qd1 limits` finds the
//! limit itself.

use qd1_model::FindingId;
use qd1_model::limits::Quantity;
use qd1_model::plan::{Arrival, IoWork};
use qd1_model::record::StepRecord;
use qd1_model::units::{Bytes, format_count, format_rate};
use qd1_model::{Finding, Record, Severity};

use super::{base_finding, io_of};
use crate::limits::{Fit, Series, fingerprint};
use qd1_stats::change::StepCourse;

/// Shortest time and fewest requests from which a flat top is recognised.
const SECONDS_MIN: f64 = 2.0;
const REQUESTS_MIN: f64 = 150.0;
/// Share of the time that has to lie at the level: what remains of a disk that alternates between two levels is flat
/// too.
const UNDISTURBED: f64 = 0.7;
/// Rates are the same within this and their uncertainty, which may be at most `UNSURE`.
const SAME: f64 = 0.005;
const UNSURE: f64 = 0.02;
/// Largest block at which reads and writes of a disk without a limit have no common bound.
const SMALL: u32 = 16 << 10;

/// A step whose count stays on a line.
struct Flat<'a> {
    step: &'a StepRecord,
    io: &'a IoWork,
    fit: Fit,
}

pub(super) fn detect(record: &Record, _: &[StepCourse]) -> Vec<Finding> {
    let flat: Vec<Flat<'_>> = record.steps.iter().filter_map(|step| flat(record, step)).collect();
    flat.iter().filter_map(|one| limited(one, &flat)).collect()
}

/// Returns `step` as flat, if its rate is the disk's or a limiter's.
fn flat<'a>(record: &'a Record, step: &'a StepRecord) -> Option<Flat<'a>> {
    let io = io_of(record, step)?;
    let is_own = io.arrival == Arrival::Closed && step.background.is_empty() && (step.direct || io.sync.commits());
    let series = Series::new(&step.intervals, Quantity::Requests, 1);
    let fit = series.fit().filter(|_| is_own)?;
    let level = &fit.sustained;
    let before_s = fit.burst.map_or(0.0, |burst| burst.seconds);
    let is_flat = level.seconds >= SECONDS_MIN
        && level.seconds >= UNDISTURBED * (series.seconds() - before_s)
        && level.requests >= REQUESTS_MIN
        && fingerprint::is_flat(level, Quantity::Requests);
    is_flat.then_some(Flat { step, io, fit })
}

fn limited(one: &Flat<'_>, all: &[Flat<'_>]) -> Option<Finding> {
    let (level, intervals) = (&one.fit.sustained, &one.step.intervals);
    let (mut strong, mut weak) = (Vec::new(), Vec::new());
    let one_at_a_time = one.io.in_flight() == 1;
    if let Some(factor) = fingerprint::too_regular(intervals, level).filter(|_| one_at_a_time) {
        strong.push(format!("latencies vary {factor:.0} times as much as such a steady count allows"));
    }
    strong.extend(fingerprint::slices(intervals));
    let others = all.iter().filter(|other| other.step.name != one.step.name);
    strong.extend(others.filter_map(|other| shared_rate(one, other)).take(2));
    let block = one.io.block_max();
    let bytes = Series::new(intervals, Quantity::Bytes, block).fit();
    let round = fingerprint::round_number(Quantity::Requests, level)
        .or_else(|| fingerprint::round_number(Quantity::Bytes, &bytes?.sustained).filter(|_| one.io.blocks.len() == 1));
    let is_round = round.is_some();
    weak.extend(round.map(|round| round.text));
    if one.fit.burst.is_some() {
        weak.push("throughput came down to it from a burst".to_owned());
    }
    weak.extend(fingerprint::two_modes(intervals).map(|waits| waits.text()));
    // A write cache that is full leaves a burst and two modes as well, but no round figure.
    if strong.is_empty() && (weak.len() < 2 || !is_round) {
        return None;
    }
    let confidence = match (strong.len(), weak.len()) {
        (0, _) => 0.7,
        (1, 0) => 0.8,
        (1, _) => 0.9,
        _ => 0.95,
    };
    let rate = format!("{} requests a second", format_count(level.rate));
    let bytes = bytes.map_or_else(String::new, |fit| format!(" ({})", format_rate(fit.sustained.rate)));
    let flat = fingerprint::pinned(level, Quantity::Requests).text;
    Some(Finding {
        step: one.step.name.clone(),
        title: format!("step {} ran into a rate limit: {rate}{bytes}, and no more", one.step.name),
        evidence: [vec![flat], strong, weak].concat().join("; "),
        advice: "The figures of this step describe the limiter, not the disk. qd1 limits finds which limits there \
                 are, what a burst holds and which one binds at which block size."
            .to_owned(),
        ..base_finding(FindingId::RateLimited, Severity::Warning, confidence)
    })
}

/// What another flat step has in common with this one, if only a limit explains it.
fn shared_rate(one: &Flat<'_>, other: &Flat<'_>) -> Option<String> {
    let unsure = |flat: &Flat<'_>| flat.fit.sustained.half / flat.fit.sustained.rate.max(1e-9);
    let unsure = unsure(one) + unsure(other);
    let is = |ratio: f64| unsure <= UNSURE && (ratio - 1.0).abs() <= SAME + unsure;
    let ratio = other.fit.sustained.rate / one.fit.sustained.rate.max(1e-9);
    let (block, there) = (one.io.block_max(), other.io.block_max());
    let name = &other.step.name;
    let depth = |flat: &Flat<'_>| u64::from(flat.io.in_flight());
    // Large reads and writes share the disk's bandwidth; small ones share nothing.
    let is_other_way = one.io.rw.reads() != other.io.rw.reads() && block <= SMALL;
    if is(ratio) && (block != there || depth(one) != depth(other) || is_other_way) {
        return Some(format!(
            "step {name} does as many requests of {}, {} in flight",
            Bytes(u64::from(there)),
            depth(other)
        ));
    }
    let of_bytes = ratio * f64::from(there) / f64::from(block);
    let moved = || format_rate(other.fit.sustained.rate * f64::from(there));
    (block != there && is(of_bytes)).then(|| format!("step {name} moves as many bytes, {}", moved()))
}

#[cfg(test)]
mod tests {
    use qd1_model::plan::{Rw, Sync};

    use super::*;
    use crate::testing;

    /// A record of random reads: `counts` requests in each interval, with the given bytes each and number in flight.
    fn add(record: &mut Record, name: &str, block: u32, depth: u32, counts: impl Fn(u64) -> u64) {
        let work = IoWork { iodepth: depth, ..testing::io(Rw::Randread, block, Sync::None, true) };
        let step = testing::step(record, name, work, 100, 1_000_000);
        let template = step.intervals[0].clone();
        step.intervals = (0..50)
            .map(|number| {
                let mut interval = template.clone();
                interval.start_ns = number * 100_000_000;
                interval.streams[0].ios = counts(number);
                interval.streams[0].bytes = counts(number) * u64::from(block);
                interval
            })
            .collect();
    }

    #[test]
    fn two_block_sizes_at_one_flat_rate_are_a_limit() {
        let mut record = testing::empty();
        add(&mut record, "small", 4096, 32, |at| 613 + at % 2);
        add(&mut record, "larger", 16384, 32, |at| 613 + at % 2);
        let found = testing::run_along(detect, &record);
        assert_eq!(testing::ids(&found), ["rate_limited", "rate_limited"]);
        assert!(found[0].evidence.contains("step larger does as many requests of 16 KiB"), "{}", found[0].evidence);
        assert!(found[0].title.contains("6.14k requests a second"), "{}", found[0].title);
    }

    #[test]
    fn the_same_bytes_at_two_block_sizes_are_a_limit_too() {
        let mut record = testing::empty();
        add(&mut record, "small", 65536, 8, |_| 173);
        add(&mut record, "large", 131_072, 8, |at| 86 + at % 2);
        let found = testing::run_along(detect, &record);
        assert!(found.len() == 2 && found[0].evidence.contains("moves as many bytes"), "{found:?}");
    }

    #[test]
    fn a_disk_whose_rate_wanders_has_no_limit_at_whatever_rate() {
        let mut record = testing::empty();
        // A second faster, a second slower, as on any disk, with a round number as the mean.
        add(&mut record, "small", 4096, 32, |at| if at / 10 % 2 == 0 { 520 } else { 480 });
        add(&mut record, "larger", 16384, 32, |at| if at / 10 % 2 == 0 { 520 } else { 480 });
        assert_eq!(testing::run_along(detect, &record), []);
    }

    #[test]
    fn a_flat_rate_alone_is_no_limit() {
        let mut record = testing::empty();
        add(&mut record, "small", 4096, 32, |at| 613 + at % 2);
        assert_eq!(testing::run_along(detect, &record), []);
    }
}
