//! Where the slowest operations of a step spent their time.

use qd1_model::figure::TailTime;
use qd1_model::hist::{coarse_index, coarse_low_ns};
use qd1_model::record::Stream;

/// One in this many operations is among the slowest.
const TAIL_OF: u64 = 1000;
/// The slowest are at least this many, and no more than one in ten.
const TAIL_MIN: u64 = 10;

/// For the slowest 0.1 % of the operations, at least ten; `None` if less than half of their time was examined, or there
/// were fewer than a hundred.
pub(crate) fn time(stream: &Stream) -> Option<TailTime> {
    let looked_at = &stream.waits.as_ref()?.looked_at;
    let ios = stream.lat.count().div_ceil(TAIL_OF).max(TAIL_MIN);
    if 10 * ios > stream.lat.count() {
        return None;
    }
    let bins: Vec<(u64, u64)> = stream.lat.bins().collect();
    // From the slowest down, until all of these are counted.
    let (mut left, mut all_ns, mut seen_ns) = (ios, 0.0, 0.0);
    let (mut worked_ns, mut waited_ns) = (0.0, 0.0);
    for (lat_ns, count) in bins.into_iter().rev() {
        if left == 0 {
            break;
        }
        let taken = count.min(left);
        left -= taken;
        let time_ns = lat_ns as f64 * taken as f64;
        all_ns += time_ns;
        let from_ns = coarse_low_ns(coarse_index(lat_ns));
        // Those of a bin that were not examined are assumed to be like those that were.
        let like = looked_at.binary_search_by_key(&from_ns, |bin| bin.from_ns).ok().map(|at| looked_at[at]);
        if let Some(like) = like.filter(|like| like.lat_ns > 0) {
            let part = time_ns / like.lat_ns as f64;
            seen_ns += time_ns;
            worked_ns += part * like.worked_ns as f64;
            waited_ns += part * like.waited_ns as f64;
        }
    }
    let share = |of_ns: f64| (of_ns / seen_ns).min(1.0);
    (seen_ns > 0.0 && 2.0 * seen_ns >= all_ns).then(|| TailTime {
        ios,
        worked: share(worked_ns),
        waited: share(waited_ns),
    })
}

#[cfg(test)]
mod tests {
    use qd1_model::record::{ProcessorWaits, TimeSpent};
    use qd1_model::{Bytes, Hist, OpClass};

    use super::*;

    fn slow(at_ns: u64, ios: u64, worked_ns: u64, waited_ns: u64) -> TimeSpent {
        TimeSpent { from_ns: coarse_low_ns(coarse_index(at_ns)), ios, lat_ns: ios * at_ns, worked_ns, waited_ns }
    }

    /// 10,000 operations, of which ten are the slowest: four of 5 ms and six of 1 ms out of many.
    fn stream(looked_at: Vec<TimeSpent>) -> Stream {
        let mut lat = Hist::new();
        (0..9_900).for_each(|_| lat.record(100_000));
        (0..96).for_each(|_| lat.record(1_000_000));
        (0..4).for_each(|_| lat.record(5_000_000));
        let waits = Some(ProcessorWaits { lat: None, sync: None, looked_at });
        Stream { waits, ..Stream::of(OpClass::Read, Bytes(4096), lat) }
    }

    #[test]
    fn it_is_of_the_slowest_alone() {
        // Of 96 of 1 ms all were at work; of those of 5 ms, half of which were looked at, a fifth waited.
        let looked_at = vec![slow(1_000_000, 96, 96_000_000, 0), slow(5_000_000, 2, 0, 2_000_000)];
        let tail = time(&stream(looked_at)).unwrap();
        assert_eq!(tail.ios, 10);
        // 6 ms of work and 4 ms of waits in 26 ms.
        let is_near = |seen: f64, truth: f64| (seen - truth).abs() < 0.005;
        assert!(is_near(tail.worked, 6.0 / 26.0) && is_near(tail.waited, 4.0 / 26.0), "{tail:?}");
    }

    #[test]
    fn nothing_is_said_of_what_was_hardly_looked_at() {
        assert_eq!(time(&stream(vec![slow(1_000_000, 96, 0, 0)])), None, "6 ms of 26 ms");
        assert_eq!(time(&stream(Vec::new())), None);
        assert!(time(&stream(vec![slow(5_000_000, 1, 0, 0)])).is_some());
    }
}
