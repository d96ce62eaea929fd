//! fio's latency bins, so that programs that read fio's JSON+ and histogram logs can read ours: 29 groups of 64 bins.
//!
//! Values below 128 have a bin each; above, each power of two is cut into 64. A value read back is the middle of its
//! bin, at most 1/128 off.

/// Number of bins.
pub const PLAT_BINS: usize = GROUPS * PER_GROUP;

const GROUPS: usize = 29;
const BITS: u32 = 6;
const PER_GROUP: usize = 1 << BITS;

/// A histogram of latencies in nanoseconds with fio's bins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlatHist {
    counts: Box<[u64; PLAT_BINS]>,
}

impl Default for PlatHist {
    fn default() -> Self {
        let counts = vec![0; PLAT_BINS].into_boxed_slice();
        Self { counts: counts.try_into().expect("made with this length") }
    }
}

/// The bin of a value; the last one also holds larger values.
#[inline]
pub const fn plat_index(value_ns: u64) -> usize {
    if value_ns < 2 * PER_GROUP as u64 {
        return value_ns as usize;
    }
    let shift = value_ns.ilog2() - BITS;
    let index = ((shift as usize + 1) << BITS) + ((value_ns >> shift) as usize & (PER_GROUP - 1));
    if index < PLAT_BINS { index } else { PLAT_BINS - 1 }
}

/// The middle of a bin (below [`PLAT_BINS`]), ns.
pub const fn plat_value_ns(index: usize) -> u64 {
    if index < 2 * PER_GROUP {
        return index as u64;
    }
    let shift = (index >> BITS) - 1;
    let low = ((PER_GROUP + (index & (PER_GROUP - 1))) as u64) << shift;
    low + (1 << shift >> 1)
}

impl PlatHist {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.counts[plat_index(value_ns)] += 1;
    }

    /// Counts of all bins.
    pub fn counts(&self) -> &[u64; PLAT_BINS] {
        &self.counts
    }

    /// Sets the count of a bin (below [`PLAT_BINS`]).
    pub fn set(&mut self, index: usize, count: u64) {
        self.counts[index] = count;
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.counts.iter_mut().zip(other.counts.iter()).for_each(|(mine, theirs)| *mine += theirs);
    }

    /// Empties it.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// The value at a percentile (0 to 100): the middle of the bin that holds rank `ceil(p / 100 * n)`; 0 when empty.
    pub fn percentile_ns(&self, percentile: f64) -> u64 {
        let wanted = rank(percentile, self.count());
        let mut seen = 0;
        let found = self.counts.iter().position(|count| {
            seen += count;
            seen >= wanted
        });
        found.map_or(0, plat_value_ns)
    }

    /// Bins that hold something, rising: (middle in ns, count).
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().filter(|(_, n)| **n > 0).map(|(index, n)| (plat_value_ns(index), *n))
    }
}

/// The rank of a percentile among `n` values, from 1: `ceil(p / 100 * n)` without any rounding, which is in effect what
/// fio does (in extended precision). It matters: 99.95 has no exact representation and is slightly more than it looks,
/// so of 2,000 values it selects the last, not number 1,999, to which a computation in doubles rounds.
fn rank(percentile: f64, n: u64) -> u64 {
    if percentile <= 0.0 || n == 0 {
        return 1;
    }
    // percentile = mantissa / 2^shift; anything too small for this form has rank 1 anyway.
    let bits = percentile.to_bits();
    let (mantissa, shift) = ((bits & ((1 << 52) - 1)) | (1 << 52), 1075 - (bits >> 52));
    if shift > 120 {
        return 1;
    }
    let rank = (u128::from(mantissa) * u128::from(n)).div_ceil(100 << shift);
    u64::try_from(rank).unwrap_or(n).clamp(1, n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_read_back_is_at_most_one_128th_off() {
        for value in (0..5000).chain((0..30).map(|power| (1u64 << power) + (1 << power) / 3)) {
            let back = plat_value_ns(plat_index(value));
            assert!(back.abs_diff(value) * 128 <= value.max(128), "{value} came back as {back}");
        }
    }

    #[test]
    fn every_bin_is_reached_by_its_own_middle() {
        for index in 0..PLAT_BINS {
            assert_eq!(plat_index(plat_value_ns(index)), index);
        }
        assert_eq!(plat_index(u64::MAX), PLAT_BINS - 1);
    }

    #[test]
    fn ranks_are_those_that_fio_was_seen_to_take() {
        for (percentile, n, expected) in [
            (30.0, 50, 15),
            (60.0, 390, 234),
            (95.0, 220, 209),
            (99.9, 1000, 1000),
            (99.95, 2000, 2000),
            (99.95, 6000, 5998),
            (99.5, 200, 199),
            (100.0, 3, 3),
        ] {
            assert_eq!(rank(percentile, n), expected, "{percentile} of {n}");
        }
        assert_eq!((rank(100.0, u64::MAX), rank(1e-9, 5), rank(1e-300, 5), rank(0.0, 5)), (u64::MAX, 1, 1, 1));
    }

    #[test]
    fn a_percentile_is_the_value_at_its_rank() {
        let mut hist = PlatHist::default();
        (1..=100).for_each(|value| hist.record(value));
        assert_eq!((hist.percentile_ns(50.0), hist.percentile_ns(99.0), hist.percentile_ns(99.9)), (50, 99, 100));
        assert_eq!(PlatHist::default().percentile_ns(50.0), 0);
    }
}
