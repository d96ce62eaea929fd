//! A cache below the kernel answers repeated reads: the hypervisor's memory, a controller's, the drive's.
//!
//! Formula: direct reads of one block at a time, over the whole file without repeating any (*wide*), and of parts of it
//! that were read whole just before (*again*). The latency that best separates the wide ones from those of the smallest
//! part (Kolmogorov and Smirnov, see `qd1_stats::contrast`) is taken to separate misses from hits. A cache is reported
//! if that distance is at least 0.5 and misses take 1.4 times as long, or at least 0.25 and 1.8 times; and if hits take
//! less than 2 ms: seeks are shorter in a small part of a rotating disk, but it still turns. The share of fast reads in
//! a part of size S, over that in the smallest, is the share of it that is held; a cache of size C that drops what was
//! least recently used holds C / S. So the cache is at least as large as the largest part that is held (85 %), and is
//! about the held share x S in the first part that is not held.
//!
//! This is not about the machine's own page cache: direct I/O bypasses it, and steps for which the device counted fewer
//! bytes than were asked for are left out (`cache_answered` reports those). It cannot see a cache that already holds
//! the whole file because writing the file filled it: then no read is slow. A drive's own memory looks the same as a
//! host's.

use qd1_model::FindingId;
use qd1_model::order::Order as _;
use std::cmp::Reverse;

use qd1_model::op::OpClass;
use qd1_model::plan::{IoWork, TargetKind};
use qd1_model::record::StepRecord;
use qd1_model::units::{Bytes, format_ns};
use qd1_model::{Finding, Record, Severity, Summary};

use super::paired::{
    counters, format_estimate, is_behind, is_single, only_reads, rounds, single_requests, was_written,
};
use super::{base_finding, io_of, percent};
use qd1_stats::contrast::{Sample, Split, split};

/// Share of a part that has to be read for it to count as read whole.
const TOUCHED_MIN: f64 = 0.9;
/// Rounds of the wide reads, at most: they must not repeat.
const WIDE_ROUNDS: f64 = 0.25;
/// How many times the smallest part the wide reads have to go over.
const WIDER: u64 = 4;
/// Distance and ratio from which a cache is reported.
const CLEAR: [(f64, f64); 2] = [(CLEARLY, 1.4), (0.25, 1.8)];
/// Distance from which most of the wide reads are misses.
const CLEARLY: f64 = 0.5;
/// An answer from memory takes at most this long, ns; a seek and half a turn take longer.
const HIT_MAX_NS: f64 = 2e6;
/// The same if the wide reads queued.
const CLEAR_OF_QUEUE: [(f64, f64); 1] = [(CLEARLY, 5.0)];
/// The two are so far apart that no significance test is needed.
const FAR: (f64, f64) = (0.9, 10.0);
/// From this share up, all of a part counts as held.
const HELD: f64 = 0.85;
/// From this share up, a part is held to the last block, as far as can be distinguished from chance.
const WHOLLY_HELD: f64 = 0.97;
/// Standard deviations to both sides of a share.
const SIGMAS: f64 = 2.0;
/// Smallest share of the requested bytes that the device has to have counted.
const COUNTED_MIN: f64 = 0.9;

/// How large a cache is: at least this, or between two bounds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum CacheSize {
    /// Everything that was read is held.
    AtLeast(Bytes),
    /// Between the first and the last, about the middle one.
    Between(Bytes, Bytes, Bytes),
}

/// A cache, and the evidence for it.
pub(super) struct CacheEvidence {
    pub(super) step: String,
    pub(super) size: CacheSize,
    /// Latency of a miss divided by that of a hit.
    pub(super) ratio: f64,
    pub(super) evidence: String,
    /// Share of pairs and more: how certain it is.
    confidence: f64,
}

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let Some(seen) = find_cache(record) else { return Vec::new() };
    let size = match seen.size {
        CacheSize::AtLeast(size) => format!("at least {size}"),
        CacheSize::Between(low, about, high) => format!("about {about} ({low} to {high})"),
    };
    // If the data existed before, fast second reads of all of it have another explanation: see `first_touch`.
    let given = matches!(record.plan.target.kind, TargetKind::File | TargetKind::BlockReadOnly);
    if given && matches!(seen.size, CacheSize::AtLeast(_)) {
        return Vec::new();
    }
    vec![Finding {
        step: seen.step,
        title: format!(
            "a cache below the kernel answers repeated reads {:.1} times as fast; its size is {size}",
            seen.ratio
        ),
        evidence: seen.evidence,
        advice:
            "Data that is read often will be faster than the disk's figures, unless that memory belongs to another \
                 guest. Tests on a file that fits into it measure the cache; use a larger --size to measure the disk."
                .to_owned(),
        ..base_finding(FindingId::HostCache, Severity::Warning, seen.confidence)
    }]
}

/// A step that reads a part again.
struct Reread {
    step: String,
    size: u64,
    sample: Sample,
}

/// Finds a cache and its size, if the reads show one.
pub(super) fn find_cache(record: &Record) -> Option<CacheEvidence> {
    let again = rereads(record);
    let hot = again.first()?;
    let block = single_requests(record).find(|(step, _)| step.name == hot.step).map(|(_, io)| io.blocks.clone())?;
    let wide = single_requests(record)
        .filter(|(step, io)| is_probe(io) && io.blocks == block && from_device(record, step))
        .filter(|(step, io)| io.size.0 >= WIDER * hot.size && rounds(step, io) <= WIDE_ROUNDS)
        .filter(|(step, _)| again.iter().all(|again| again.step != step.name))
        // The first of the widest: later ones may read a part that an earlier step read whole.
        .min_by_key(|(_, io)| Reverse(io.size))?;
    // A disk that cannot keep the pace makes its reads queue; only a much larger difference cannot be due to a queue.
    let clear = if is_behind(wide.0, wide.1) { &CLEAR_OF_QUEUE[..] } else { &CLEAR[..] };
    let (size, wide) = (wide.1.size.0, Sample::of(wide.0, OpClass::Read)?);
    let parted = split(&hot.sample, &wide);
    let miss_ns = wide.median_above(parted.at_ns)?;
    let ratio = miss_ns / hot.sample.seen(0.5).max(1.0);
    let is_clear = clear.iter().any(|(distance, least)| parted.distance >= *distance && ratio >= *least);
    // Queued reads depend on each other, so few of them count as samples; but no queue makes this large a difference.
    let far_apart = parted.distance >= FAR.0 && ratio >= FAR.1;
    if !parted.is_sure && !far_apart || !is_clear || hot.sample.seen(0.5) > HIT_MAX_NS {
        return None;
    }
    let reach = cache_size(&again, &wide, parted);
    // Only a cache that was partly filled by writing makes many of the wide reads fast, and such a cache does not hold
    // the whole file.
    let holds_all =
        matches!(reach, CacheSize::AtLeast(_)) && again.last().is_some_and(|last| last.size >= size / 10 * 9);
    if parted.distance < CLEARLY && holds_all {
        return None;
    }
    let shares: Vec<String> = again
        .iter()
        .map(|part| format!("{} {}", Bytes(part.size), percent(part.sample.share_within(parted.at_ns))))
        .collect();
    Some(CacheEvidence {
        step: hot.step.clone(),
        size: reach,
        ratio,
        evidence: format!(
            "whole file: median {}, n={}, median of those slower than {:.0} us {}; {} again: {}, n={}; within {:.0} \
             us: whole file {}, again in {}",
            format_estimate(&wide.at(0.5)),
            wide.n(),
            parted.at_ns / 1e3,
            format_ns(miss_ns),
            Bytes(hot.size),
            format_estimate(&hot.sample.at(0.5)),
            hot.sample.n(),
            parted.at_ns / 1e3,
            percent(wide.share_within(parted.at_ns)),
            shares.join(", ")
        ),
        confidence: if parted.distance > 0.8 { 0.95 } else { 0.8 },
    })
}

/// Random reads of one block at a time of the file that was written.
fn is_probe(io: &IoWork) -> bool {
    only_reads(io) && io.rw.is_random() && was_written(io)
}

/// Whether the device saw the reads, as far as can be known.
fn from_device(record: &Record, step: &StepRecord) -> bool {
    counters(record, step)
        .is_none_or(|device| device.counted.read_bytes as f64 >= COUNTED_MIN * device.asked_read_bytes.0 as f64)
}

/// The steps that read a part of the file which the step before had read whole, from the smallest part up.
fn rereads(record: &Record) -> Vec<Reread> {
    let mut found: Vec<Reread> = Vec::new();
    for pair in record.steps.windows(2) {
        let [before, step] = pair else { continue };
        let (Some(touched), Some(io)) = (io_of(record, before), io_of(record, step)) else { continue };
        let is_same = touched.file == io.file && touched.size == io.size && before.direct;
        let was_whole = only_reads(touched) && rounds(before, touched) >= TOUCHED_MIN;
        let is_alone = is_single(step, io);
        if is_same
            && was_whole
            && is_alone
            && is_probe(io)
            && !is_behind(step, io)
            && from_device(record, step)
            && let Some(sample) = Sample::of(step, OpClass::Read)
        {
            found.push(Reread { step: step.name.clone(), size: io.size.0, sample });
        }
    }
    found.order_by_key(|again| again.size);
    found
}

/// The size that the shares of fast reads indicate.
///
/// Some misses are as fast as hits, and some of the wide reads may have been hits on data that writing the file left in
/// the cache. Which of the two the fast wide reads were is not known, so the interval allows for either.
fn cache_size(again: &[Reread], wide: &Sample, parted: Split) -> CacheSize {
    let fast = |sample: &Sample| sample.share_within(parted.at_ns);
    let (of_hits, of_wide) = (fast(&again[0].sample).max(1e-9), fast(wide));
    let held = |part: &Reread| (fast(&part.sample) / of_hits).min(1.0);
    let Some(partly) = again.iter().position(|part| held(part) < HELD) else {
        let last = &again[again.len() - 1];
        let whole = if held(last) >= WHOLLY_HELD { 1.0 } else { HELD };
        return CacheSize::AtLeast(in_mib(whole * last.size as f64));
    };
    let (below, part) = (HELD * again[partly.saturating_sub(1)].size as f64, &again[partly]);
    let (most, size) = (held(part), part.size as f64);
    let least = ((fast(&part.sample) - of_wide) / (of_hits - of_wide).max(1e-9)).clamp(0.0, most);
    let deviation = |share: f64| {
        let share = share.clamp(0.02, 0.98);
        SIGMAS * (share * (1.0 - share) / part.sample.n_effective()).sqrt()
    };
    let within = |share: f64| in_mib((share * size).clamp(below, size));
    CacheSize::Between(within(least - deviation(least)), within((least + most) / 2.0), within(most + deviation(most)))
}

/// Whole MiB.
fn in_mib(bytes: f64) -> Bytes {
    Bytes::mib((bytes / f64::from(1 << 20)).round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    /// Wide reads take 400 us, then parts of these sizes (MiB) are read again, with the given number of fast reads in ten.
    fn reading(parts: &[(u64, u64)]) -> Record {
        let mut record = testing::empty();
        let work = |mib: u64, bs| IoWork { size: Bytes::mib(mib), ..testing::io(Rw::Randread, bs, Sync::None, true) };
        testing::step(&mut record, "wide", work(1024, 4096), 10, 400_000);
        for (mib, fast) in parts {
            testing::step(&mut record, &format!("touch-{mib}"), work(*mib, 1 << 20), mib.div_ceil(20), 1_000_000);
            let step = testing::step(&mut record, &format!("again-{mib}"), work(*mib, 4096), *fast, 40_000);
            if *fast < 10 {
                let (slow, intervals) = testing::stream(OpClass::Read, 4096, 10 - fast, 400_000);
                step.streams[0].lat.merge(&slow.lat);
                for (all, more) in step.intervals.iter_mut().zip(intervals) {
                    let (all, more) = (&mut all.streams[0], &more.streams[0]);
                    (all.ios, all.lat_sum_ns) = (all.ios + more.ios, all.lat_sum_ns + more.lat_sum_ns);
                    all.bins.extend(&more.bins);
                }
            }
        }
        record
    }

    #[test]
    fn a_caches_size_lies_between_the_parts_that_fit_and_do_not() {
        let record = reading(&[(4, 10), (16, 10), (64, 5)]);
        let found = testing::run(detect, &record);
        assert_eq!(testing::ids(&found), ["host_cache"]);
        let Some(CacheSize::Between(low, about, high)) = find_cache(&record).map(|seen| seen.size) else {
            panic!("{found:?}")
        };
        assert!(low < Bytes::mib(32) && about == Bytes::mib(32) && high > Bytes::mib(32), "{low} {about} {high}");
    }

    /// The title's ratio was that of the misses, which the evidence did not mention.
    #[test]
    fn the_ratio_is_that_of_figures_in_the_evidence() {
        let mut record = reading(&[(4, 10), (16, 10)]);
        // Memory answers a third of the wide reads too.
        let (fast, _) = testing::stream(OpClass::Read, 4096, 5, 40_000);
        record.steps[0].streams[0].lat.merge(&fast.lat);
        let found = testing::run(detect, &record);
        assert!(found[0].title.contains("10.0 times"), "{}", found[0].title);
        assert!(
            found[0].evidence.contains("slower than") && found[0].evidence.contains("slower than 48 us 438 us;"),
            "{}",
            found[0].evidence
        );
        assert!(found[0].evidence.contains("4 MiB again: 43.8 us"), "{}", found[0].evidence);
    }

    #[test]
    fn a_cache_that_holds_all_that_was_read_is_at_least_so_large() {
        let found = testing::run(detect, &reading(&[(4, 10), (16, 10), (64, 10)]));
        assert!(found[0].title.ends_with("at least 64 MiB"), "{}", found[0].title);
    }

    #[test]
    fn no_cache_and_this_machines_page_cache_are_not_reported() {
        assert_eq!(testing::run(detect, &reading(&[(4, 0), (16, 0)])), []);
        assert_eq!(testing::run(detect, &testing::record()), []);
        let mut record = reading(&[(4, 10), (16, 10)]);
        for step in record.steps.iter_mut().filter(|step| step.name.starts_with("again")) {
            step.device.as_mut().unwrap().counted.read_bytes = 0;
        }
        assert_eq!(testing::run(detect, &record), [], "the device saw none of it");
    }

    #[test]
    fn a_given_device_that_is_fast_once_read_leaves_the_cause_open() {
        let mut record = reading(&[(4, 10), (16, 10)]);
        record.plan.target.kind = TargetKind::BlockReadOnly;
        assert_eq!(testing::run(detect, &record), []);
        let first = testing::run(super::super::first_touch::detect, &record);
        assert_eq!(testing::ids(&first), ["first_touch.read"]);
    }
}
