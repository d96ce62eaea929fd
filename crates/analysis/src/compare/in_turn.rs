//! Two places that were measured in turn, visit by visit.
//!
//! A disk's level moves more from one minute to the next than most changes matter, and two consecutive runs meet it at
//! different levels. Visits that follow each other within a second meet nearly the same, and so do two disks of one
//! machine that share a host, a network or a neighbour: what moves both cancels out in the difference of a pair. The
//! differences of a step's pairs, as logarithms, are independent observations of the same effect, spread over the run,
//! and their mean follows a Student's t. Which place comes first in a pair is chosen at random for each.
//!
//! A visit with too few operations for a percentile is merged with its neighbours.

use std::collections::BTreeMap;

use qd1_model::comparison::Comparison;
use qd1_model::record::{StepRecord, Stream};
use qd1_model::{Hist, OpClass, Problem};

use super::{Condition, Group, compared};

/// Operations beyond a percentile that a visit has to have, on average.
const BEYOND: f64 = 10.0;

/// The differences of pairs of visits, of every figure.
#[derive(Clone, Debug, Default)]
pub struct Pairs {
    of: BTreeMap<(String, OpClass, &'static str), Vec<f64>>,
}

/// How a figure is derived from the operations of a visit.
#[derive(Clone, Copy)]
enum Read {
    /// A percentile of whole operations.
    Latency(f64),
    /// A percentile of the sync part.
    Sync(f64),
    Mean,
    Rate,
    Bytes,
}

/// Figures by the names of their metrics.
const FIGURES: [(&str, Read); 9] = [
    ("lat_p50_ns", Read::Latency(0.5)),
    ("lat_p99_ns", Read::Latency(0.99)),
    ("lat_p999_ns", Read::Latency(0.999)),
    ("lat_p9999_ns", Read::Latency(0.9999)),
    ("lat_mean_ns", Read::Mean),
    ("sync_p50_ns", Read::Sync(0.5)),
    ("sync_p99_ns", Read::Sync(0.99)),
    ("iops", Read::Rate),
    ("bytes_per_second", Read::Bytes),
];

/// Compares two runs that were measured in turn, of the first place and of the second.
///
/// # Errors
/// As [`super::compare()`].
pub fn compare_in_turn(groups: &[Group; 2], conditions: &[Condition], pairs: &Pairs) -> Result<Comparison, Problem> {
    compared(groups, conditions, Some(pairs))
}

impl Pairs {
    /// Returns the differences of these visits: each of the first place with the adjacent one of the second, in the
    /// order of the run.
    #[must_use]
    pub fn new(visits: &[(StepRecord, StepRecord)]) -> Self {
        let mut steps: Vec<&str> = visits.iter().map(|(first, _)| first.name.as_str()).collect();
        steps.sort_unstable();
        steps.dedup();
        let mut pairs = Self::default();
        for step in steps {
            let of_step: Vec<&(StepRecord, StepRecord)> =
                visits.iter().filter(|(first, other)| first.name == step && other.name == step).collect();
            for class in OpClass::ALL {
                for (metric, read) in FIGURES {
                    let found = differences(&of_step, class, read);
                    if !found.is_empty() {
                        pairs.of.insert((step.to_owned(), class, metric), found);
                    }
                }
            }
        }
        pairs
    }

    /// Returns the differences of a figure, if there are any.
    pub(super) fn of(&self, step: &str, class: OpClass, metric: &str) -> Option<&[f64]> {
        let is_it =
            |(of, of_class, name): &(String, OpClass, &str)| of == step && *of_class == class && *name == metric;
        self.of.iter().find(|(key, _)| is_it(key)).map(|(_, pairs)| pairs.as_slice())
    }
}

/// The logarithm of the second divided by the first, of each pair or of several merged.
fn differences(visits: &[&(StepRecord, StepRecord)], class: OpClass, read: Read) -> Vec<f64> {
    let streams = visits.iter().filter_map(|(first, other)| {
        Some([(first.runtime_ns, first.stream(class)?), (other.runtime_ns, other.stream(class)?)])
    });
    let streams: Vec<[(u64, &Stream); 2]> = streams.collect();
    if streams.is_empty() {
        return Vec::new();
    }
    let ios: u64 = streams.iter().flatten().map(|(_, stream)| stream.lat.count()).sum();
    let each = ios as f64 / (2 * streams.len()) as f64;
    let needed = match read {
        Read::Latency(q) | Read::Sync(q) => BEYOND / (1.0 - q),
        Read::Mean | Read::Rate | Read::Bytes => 1.0,
    };
    let joined = ((needed / each.max(0.1)).ceil() as usize).max(1);
    // The remainder is not an observation like the others.
    let whole = streams.chunks(joined).filter(|chunk| chunk.len() == joined);
    whole
        .filter_map(|chunk| {
            let value = |side: usize| value(chunk.iter().map(|pair| pair[side]), read);
            Some((value(1)? / value(0)?).ln())
        })
        .collect()
}

fn value<'a>(visits: impl Iterator<Item = (u64, &'a Stream)>, read: Read) -> Option<f64> {
    let (mut lat, mut sync, mut has_sync) = (Hist::new(), Hist::new(), true);
    let (mut bytes, mut runtime_ns) = (0, 0);
    for (of_visit_ns, stream) in visits {
        lat.merge(&stream.lat);
        match &stream.sync_part {
            Some(part) => sync.merge(part),
            None => has_sync = false,
        }
        bytes += stream.bytes.0;
        runtime_ns += of_visit_ns;
    }
    let seconds = runtime_ns as f64 / 1e9;
    let value = match read {
        Read::Latency(q) => lat.quantile(q) as f64,
        Read::Sync(q) if has_sync => sync.quantile(q) as f64,
        Read::Sync(_) => return None,
        Read::Mean => lat.mean_ns(),
        Read::Rate => lat.count() as f64 / seconds,
        Read::Bytes => bytes as f64 / seconds,
    };
    (value > 0.0 && value.is_finite()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::Bytes;
    use qd1_stats::random::Random;

    fn visit(lat_ns: f64, count: u64) -> StepRecord {
        let mut lat = Hist::new();
        (0..count).for_each(|_| lat.record(lat_ns as u64));
        let stream = Stream::of(OpClass::Read, Bytes(count * 4096), lat);
        let runtime_ns = (count as f64 * lat_ns) as u64;
        StepRecord { name: "reads".to_owned(), runtime_ns, streams: vec![stream], ..StepRecord::default() }
    }

    #[test]
    fn what_moves_both_places_cancels() {
        let mut random = Random::new(5);
        let visits: Vec<(StepRecord, StepRecord)> = (0..12)
            .map(|_| {
                let level = (0.5 * random.normal()).exp();
                (visit(1e6 * level, 100), visit(1.25e6 * level, 100))
            })
            .collect();
        let pairs = Pairs::new(&visits);
        let of = |metric| &pairs.of[&("reads".to_owned(), OpClass::Read, metric)];
        assert_eq!(of("lat_p50_ns").len(), 12);
        assert!(of("lat_p50_ns").iter().all(|one| (one - 1.25_f64.ln()).abs() < 0.003), "{pairs:?}");
        assert!(of("iops").iter().all(|one| (one + 1.25_f64.ln()).abs() < 0.003));
    }

    #[test]
    fn visits_with_too_few_operations_are_joined() {
        let visits: Vec<(StepRecord, StepRecord)> = (0..13).map(|_| (visit(1e6, 400), visit(1e6, 400))).collect();
        let pairs = Pairs::new(&visits);
        let count = |metric| pairs.of.get(&("reads".to_owned(), OpClass::Read, metric)).map_or(0, Vec::len);
        // p99 needs a thousand: three visits of 400, with the thirteenth left over.
        assert_eq!((count("lat_mean_ns"), count("lat_p99_ns"), count("lat_p999_ns")), (13, 4, 0));
    }
}
