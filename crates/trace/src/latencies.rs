//! Histograms of latencies, as counted by `bpf/live.bpf.c`.

use std::fmt;

/// Number of buckets in a histogram.
const BUCKETS: usize = 432;
/// Sixteen buckets for each doubling of the time, from 1024 ns on.
const PER_DOUBLING: usize = 16;
const FIRST_NS: u64 = 1024;
/// `struct latencies`, in words of 32 bits.
pub(crate) const WORDS: usize = 4 + 3 * BUCKETS;

/// A part of a request's time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From its creation until the device got it.
    Queue,
    /// From when the device got it until it was completed.
    Device,
    /// Both.
    Total,
}

/// Histograms of the requests of one operation since the capture began, or between two readings.
#[derive(Clone, PartialEq, Eq)]
pub struct Latencies {
    /// Total bytes of the requests.
    pub bytes: u64,
    /// Requests whose time in the device is not known: the kernel does not record when they were issued, and they
    /// were in flight when this was noticed. For a disk without requests: bios that were not seen to the end.
    pub unstamped: u64,
    buckets: [[u64; BUCKETS]; 3],
}

impl fmt::Debug for Latencies {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Latencies {{ {} requests, {} bytes }}", self.count(Stage::Total), self.bytes)
    }
}

impl Default for Latencies {
    fn default() -> Self {
        Self { bytes: 0, unstamped: 0, buckets: [[0; BUCKETS]; 3] }
    }
}

impl Latencies {
    /// Adds up the counts of all processors.
    pub(crate) fn sum<'a>(processors: impl Iterator<Item = &'a [u32; WORDS]>) -> Self {
        let mut all = Self::default();
        for words in processors {
            all.bytes += u64::from_ne_bytes(two(words[0], words[1]));
            all.unstamped += u64::from(words[2]);
            for (buckets, counted) in all.buckets.iter_mut().zip(words[4..].chunks_exact(BUCKETS)) {
                buckets.iter_mut().zip(counted).for_each(|(bucket, count)| *bucket += u64::from(*count));
            }
        }
        all
    }

    /// Adds requests whose part of the time is in the bucket that has `ns`, as [`Latencies::buckets`] returned them.
    pub fn add(&mut self, stage: Stage, ns: u64, count: u64) {
        let bucket = &mut self.buckets[stage as usize][bucket_of(ns)];
        *bucket = bucket.saturating_add(count);
    }

    /// Returns the counts since an earlier reading.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        // Each processor's counters wrap at 2^32.
        let wrapped = |now: u64, before: u64| u64::from((now as u32).wrapping_sub(before as u32));
        let mut buckets = self.buckets;
        for (stage, before) in buckets.iter_mut().zip(&earlier.buckets) {
            stage.iter_mut().zip(before).for_each(|(now, before)| *now = wrapped(*now, *before));
        }
        Self {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            unstamped: wrapped(self.unstamped, earlier.unstamped),
            buckets,
        }
    }

    /// Returns for how many requests this part of the time is known.
    #[must_use]
    pub fn count(&self, stage: Stage) -> u64 {
        self.buckets[stage as usize].iter().fold(0, |sum, count| sum.saturating_add(*count))
    }

    /// Returns the quantile `share` of the requests' times, ns: the upper end of its bucket, which is at most a
    /// sixteenth above the true time (below 1024 ns: at most 64 ns above). `None` without requests, or if fewer than
    /// one request is expected above it: a p99 needs 100.
    #[must_use]
    pub fn quantile_ns(&self, stage: Stage, share: f64) -> Option<u64> {
        let count = self.count(stage);
        if share < 1.0 && (count as f64) * (1.0 - share) < 1.0 - 1e-9 {
            return None;
        }
        let rank = ((count as f64 * share).ceil() as u64).clamp(1, count.max(1));
        let mut seen = 0;
        let is_there = |count: &u64| {
            seen += count;
            seen >= rank
        };
        self.buckets[stage as usize].iter().position(is_there).map(|bucket| bucket_end_ns(bucket) - 1)
    }

    /// Returns the buckets that are not empty: lower bound (inclusive) and upper bound (exclusive), ns, and count.
    pub fn buckets(&self, stage: Stage) -> impl Iterator<Item = (u64, u64, u64)> {
        let counted = self.buckets[stage as usize].iter().enumerate().filter(|(_, count)| **count > 0);
        counted.map(|(bucket, count)| (bucket_begin_ns(bucket), bucket_end_ns(bucket), *count))
    }
}

fn two(low: u32, high: u32) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&low.to_ne_bytes());
    bytes[4..].copy_from_slice(&high.to_ne_bytes());
    bytes
}

/// The bucket of a time, as the BPF program computes it.
fn bucket_of(ns: u64) -> usize {
    if ns < FIRST_NS {
        return (ns / 64) as usize;
    }
    let bits = 63 - ns.leading_zeros() as usize;
    ((bits - 9) * PER_DOUBLING + (ns >> (bits - 4) & 15) as usize).min(BUCKETS - 1)
}

const fn bucket_begin_ns(bucket: usize) -> u64 {
    let step = FIRST_NS / PER_DOUBLING as u64;
    let (doubling, at) = (bucket / PER_DOUBLING, (bucket % PER_DOUBLING) as u64);
    if doubling == 0 { at * step } else { ((PER_DOUBLING as u64 + at) * step) << (doubling - 1) }
}

const fn bucket_end_ns(bucket: usize) -> u64 {
    bucket_begin_ns(bucket + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latencies(times_ns: &[u64]) -> Latencies {
        let mut words = [0; WORDS];
        for ns in times_ns {
            words[4 + 2 * BUCKETS + bucket_of(*ns)] += 1;
        }
        Latencies::sum([words].iter())
    }

    #[test]
    fn buckets_can_be_put_together_again() {
        let all = latencies(&[5, 1000, 1024, 70_000, 70_000, 3_000_000_000, u64::MAX]);
        let mut again = Latencies::default();
        all.buckets(Stage::Total).for_each(|(from_ns, _, count)| again.add(Stage::Total, from_ns, count));
        assert_eq!(again, all);
    }

    #[test]
    fn a_time_is_in_the_bucket_that_has_it() {
        for ns in [0, 63, 64, 1023, 1024, 1087, 1088, 2047, 2048, 123_456, 10_000_000, 30_000_000_000, (1 << 36) - 1] {
            let bucket = bucket_of(ns);
            assert!((bucket_begin_ns(bucket)..bucket_end_ns(bucket)).contains(&ns), "{ns} in {bucket}");
            assert!(ns < 1024 || bucket_end_ns(bucket) - bucket_begin_ns(bucket) <= ns / 16 + 1, "{ns}");
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_those_of_the_requests_to_within_a_bucket() {
        let times: Vec<u64> = (1..=1000).map(|at| at * 10_000).collect();
        let all = latencies(&times);
        assert_eq!(all.count(Stage::Total), 1000);
        for (share, ns) in [(0.5, 5_000_000), (0.99, 9_900_000), (0.999, 9_990_000), (1.0, 10_000_000)] {
            let found = all.quantile_ns(Stage::Total, share).unwrap();
            assert!((ns..=ns + ns / 16).contains(&found), "{share}: {found}");
        }
        assert_eq!(all.quantile_ns(Stage::Queue, 0.5), None);
        let few = latencies(&[5000; 99]);
        assert_eq!((few.quantile_ns(Stage::Total, 0.99), few.quantile_ns(Stage::Total, 0.5).is_some()), (None, true));
    }

    #[test]
    fn counts_that_begin_again_after_2_to_the_32_are_no_loss() {
        let mut before = latencies(&[5000]);
        let mut now = before.clone();
        let bucket = bucket_of(5000);
        before.buckets[2][bucket] = u64::from(u32::MAX);
        now.buckets[2][bucket] = 2;
        assert_eq!(now.since(&before).count(Stage::Total), 3);
    }
}
