//! Something below compresses, deduplicates or leaves out zeros: less is stored than benchmarks write.
//!
//! Formula: P(random > other) over the latencies of two steps that differ only in the data they write (Mann-Whitney,
//! see `qd1_stats::contrast`); reported from 3 standard deviations and a ratio of the medians of 1.15. Where random
//! data was written several times, before and after, every such step has to be slower, so that a disk whose speed
//! changes meanwhile is not taken for one that compresses.
//!
//! It fails where a cache takes the data and compresses later (so the steps to compare are commits), where a rate limit
//! stricter than the cost of compression applies (so they come at a slow rate), and where random data costs no more
//! than zeros although zeros are stored compressed: then compression changes no figure either.

use qd1_model::FindingId;
use qd1_model::plan::{Data, IoWork};
use qd1_model::{Finding, Record, Severity, Summary};

use super::paired::{class_of, format_estimate, is_behind, only_writes, single_requests, was_written};
use super::{base_finding, percent};
use qd1_stats::contrast::{Contrast, Sample, contrast};

const Z_MIN: f64 = 3.0;
const RATIO_MIN: f64 = 1.15;

/// A kind of data that is written faster than random data.
struct Faster {
    step: String,
    data: Data,
    ratio: f64,
    difference: Contrast,
    sample: Sample,
}

pub(super) fn detect(record: &Record, _: &Summary) -> Vec<Finding> {
    let writes: Vec<_> = single_requests(record).filter(|(_, io)| only_writes(io) && was_written(io)).collect();
    let Some((_, work)) = writes.iter().find(|(_, io)| !io.data.is_random()) else { return Vec::new() };
    let alike = |io: &IoWork| IoWork { data: work.data, ..io.clone() } == **work;
    let class = class_of(work);
    let group = || {
        writes.iter().filter(|(_, io)| alike(io)).filter_map(|(step, io)| Some((*step, *io, Sample::of(step, class)?)))
    };
    let random: Vec<Sample> = group().filter(|(_, io, _)| io.data.is_random()).map(|(.., sample)| sample).collect();
    let Some(reference) = random.iter().cloned().reduce(|all, one| all.and(&one)) else { return Vec::new() };
    let faster: Vec<Faster> = group()
        // Random data that cannot keep a pace at which other data is written is slower, with or without a queue.
        .filter(|(step, io, _)| !io.data.is_random() && !is_behind(step, io))
        .filter_map(|(step, io, sample)| {
            let difference = contrast(&reference, &sample);
            let ratio = reference.seen(0.5) / sample.seen(0.5).max(1.0);
            let steady = random.iter().all(|one| contrast(one, &sample).above > 0.5);
            (difference.z >= Z_MIN && ratio >= RATIO_MIN && steady).then(|| Faster {
                step: step.name.clone(),
                data: io.data,
                ratio,
                difference,
                sample,
            })
        })
        .collect();
    conclude(&reference, &faster).into_iter().collect()
}

fn conclude(reference: &Sample, faster: &[Faster]) -> Option<Finding> {
    let of = |wanted: fn(&Data) -> bool| faster.iter().find(|one| wanted(&one.data));
    let compressed = of(|data| matches!(data, Data::Compressible { .. }));
    let (repeated, zeros) = (of(|data| *data == Data::Repeated), of(|data| *data == Data::Zeros));
    let (id, one, what) = match (compressed, repeated, zeros) {
        (Some(one), None, _) => (FindingId::DataReductionCompression, one, "compresses: compressible data is written"),
        (Some(one), Some(_), _) => {
            (FindingId::DataReductionCompression, one, "compresses and deduplicates: compressible data is written")
        }
        (None, Some(one), _) => (FindingId::DataReductionDedup, one, "deduplicates: a repeated block is written"),
        (None, None, Some(one)) => (FindingId::DataReductionZeros, one, "does not store zeros: they are written"),
        (None, None, None) => return None,
    };
    let name = |data: &Data| match data {
        Data::Random => "random".to_owned(),
        Data::Compressible { percent } => format!("{percent} % compressible"),
        Data::Zeros => "zeros".to_owned(),
        Data::Repeated => "one block repeated".to_owned(),
    };
    let each: Vec<String> = faster
        .iter()
        .map(|one| {
            format!(
                "{}: {}, {} of pairs",
                name(&one.data),
                format_estimate(&one.sample.at(0.5)),
                percent(one.difference.above)
            )
        })
        .collect();
    Some(Finding {
        step: one.step.clone(),
        title: format!("something below {what} {:.1} times as fast as random data", one.ratio),
        evidence: format!(
            "medians: random: {}, n={}; {}",
            format_estimate(&reference.at(0.5)),
            reference.n(),
            each.join("; ")
        ),
        advice: "This tool writes random data, the worst case. Tools that write zeros or repeat a buffer \
                 (dd, fio with zero_buffers) show more than programs will get."
            .to_owned(),
        ..base_finding(id, Severity::Info, if one.difference.z > 5.0 { 0.9 } else { 0.8 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use qd1_model::plan::{Rw, Sync};

    /// Commits of random data, of each kind of `others`, and of random data again.
    fn writing(random_ns: [u64; 2], others: &[(Data, u64)]) -> Record {
        let mut record = testing::empty();
        let work = |data| IoWork { data, ..testing::io(Rw::Randwrite, 1 << 19, Sync::Fdatasync, true) };
        testing::step(&mut record, "random-1", work(Data::Random), 2, random_ns[0]);
        for (number, (data, lat_ns)) in others.iter().enumerate() {
            testing::step(&mut record, &format!("other-{number}"), work(*data), 2, *lat_ns);
        }
        testing::step(&mut record, "random-2", work(Data::Random), 2, random_ns[1]);
        record
    }

    const SOME: Data = Data::Compressible { percent: 75 };

    #[test]
    fn what_is_faster_names_what_is_below() {
        let ids = |others: &[(Data, u64)]| {
            let found = testing::run(detect, &writing([4_000_000; 2], others));
            found.into_iter().map(|finding| finding.id.name()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ids(&[(Data::Zeros, 1_000_000), (SOME, 2_000_000)]), "data_reduction.compression");
        assert_eq!(ids(&[(Data::Zeros, 1_000_000), (SOME, 4_000_000)]), "data_reduction.zeros");
        assert_eq!(ids(&[(Data::Repeated, 1_000_000), (SOME, 4_000_000)]), "data_reduction.dedup");
        assert_eq!(ids(&[(Data::Repeated, 4_000_000), (SOME, 4_000_000), (Data::Zeros, 4_000_000)]), "");
    }

    #[test]
    fn a_disk_that_was_slow_for_a_while_does_not_compress() {
        assert_eq!(testing::run(detect, &writing([4_000_000, 1_000_000], &[(SOME, 1_000_000)])), []);
        assert_eq!(testing::run(detect, &testing::record()), []);
    }
}
