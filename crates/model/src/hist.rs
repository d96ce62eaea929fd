//! The two histograms: `Hist` for results (HDR, three digits), `CoarseHist` for one interval of a heatmap.

mod v2;

use crate::order::Order as _;
pub(crate) use v2::values_in;

/// Largest distinguishable latency, in nanoseconds; longer ones count as this (about 18 minutes).
pub const LATENCY_MAX_NS: u64 = 1 << 40;

/// A latency histogram in nanoseconds with three significant digits: a value read back is at most 0.1 % off, after
/// [`Hist::to_two_digits`] 0.45 %.
///
/// Serialized as `{"count", "min_ns", "max_ns", "sum_ns", "hdr_v2"}`, the last one being the base64 of HdrHistogram's
/// V2 encoding, compressed, which its libraries in every language can read. (Layouts 1 and 2 have it without
/// compression.)
///
/// Only non-empty bins take memory: a quarter of a MiB per histogram would be gigabytes for a record of 10 MB, or for
/// that of a check over hours. A [`Recorder`] is filled value by value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hist {
    /// In rising order.
    held: Vec<Held>,
    count: u64,
    sum_ns: u128,
}

/// A non-empty bin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Held {
    /// Its index as given by [`fine_index`].
    index: u32,
    count: u64,
}

impl Held {
    fn of(value_ns: u64, count: u64) -> Self {
        let index = fine_index(value_ns);
        Self { index: if index < FINE_BINS { index } else { FINE_LAST } as u32, count }
    }

    fn low_ns(self) -> u64 {
        fine_low_ns(self.index as usize)
    }

    fn width_ns(self) -> u64 {
        1 << (self.index >> FINE_BITS).saturating_sub(1)
    }

    /// Its largest value.
    fn high_ns(self) -> u64 {
        self.low_ns() + self.width_ns() - 1
    }

    fn middle_ns(self) -> u64 {
        self.low_ns() + self.width_ns() / 2
    }
}

impl Hist {
    /// An empty histogram.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts one value.
    pub fn record(&mut self, value_ns: u64) {
        let one = Held::of(value_ns, 1);
        match self.held.binary_search_by_key(&one.index, |held| held.index) {
            Ok(at) => self.held[at].count = self.held[at].count.saturating_add(1),
            Err(at) => self.held.insert(at, one),
        }
        self.count = self.count.saturating_add(1);
        self.sum_ns += u128::from(value_ns);
    }

    /// Returns a histogram with this many of each value, whose sum is known more precisely.
    pub fn of_values(values: impl IntoIterator<Item = (u64, u64)>, sum_ns: u128) -> Self {
        let held =
            values.into_iter().filter(|(_, count)| *count > 0).map(|(value_ns, count)| Held::of(value_ns, count));
        let mut hist = Self { held: held.collect(), count: 0, sum_ns };
        hist.gather();
        // Thousands of histograms are kept in memory.
        hist.held.shrink_to_fit();
        hist
    }

    /// Adds all of `other`: the same as recording its values here.
    pub fn merge(&mut self, other: &Hist) {
        self.held.extend_from_slice(&other.held);
        self.gather();
        self.sum_ns += other.sum_ns;
    }

    /// Sorts the bins and merges duplicates.
    fn gather(&mut self) {
        // Two sorted lists in a row are merged in one pass.
        self.held.order_by_key(|held| held.index);
        self.held.dedup_by(|next, kept| {
            let is_same = next.index == kept.index;
            kept.count = if is_same { kept.count.saturating_add(next.count) } else { kept.count };
            is_same
        });
        self.count = self.held.iter().fold(0, |sum, held| sum.saturating_add(held.count));
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Exact sum of the values in nanoseconds.
    pub fn sum_ns(&self) -> u128 {
        self.sum_ns
    }

    /// Exact mean in nanoseconds; 0 when empty.
    pub fn mean_ns(&self) -> f64 {
        if self.count() == 0 { 0.0 } else { self.sum_ns as f64 / self.count() as f64 }
    }

    /// Standard deviation in nanoseconds, from bin midpoints; 0 when empty.
    pub fn stdev_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        let count = self.count as f64;
        let mean_ns = self.bins().fold(0.0, |sum, (ns, times)| sum + ns as f64 * times as f64 / count);
        let squares = self.bins().fold(0.0, |sum, (ns, times)| {
            let off_ns = ns as f64 - mean_ns;
            sum + off_ns * off_ns * times as f64
        });
        (squares / count).sqrt()
    }

    /// Smallest value (its bin's low end); 0 when empty.
    pub fn min_ns(&self) -> u64 {
        self.held.first().map_or(0, |held| held.low_ns())
    }

    /// Largest value (its bin's high end, at most 0.1 % above); 0 when empty.
    pub fn max_ns(&self) -> u64 {
        self.held.last().map_or(0, |held| held.high_ns())
    }

    /// The value at 1-based rank `rank` in sorted order, as its bin's midpoint; 0 when empty.
    pub fn at_rank(&self, rank: u64) -> u64 {
        let wanted = rank.clamp(1, self.count.max(1));
        let mut seen = 0_u64;
        let found = self.held.iter().find(|held| {
            seen = seen.saturating_add(held.count);
            seen >= wanted
        });
        found.map_or(self.max_ns(), |held| held.middle_ns())
    }

    /// The value at quantile `q` (0..=1): rank `ceil(q * n)`, as fio and HdrHistogram do.
    pub fn quantile(&self, q: f64) -> u64 {
        self.at_rank((q * self.count() as f64).ceil() as u64)
    }

    /// Number of values above `value_ns`, to the resolution of a bin.
    pub fn count_above(&self, value_ns: u64) -> u64 {
        let last = fine_index(value_ns.min(LATENCY_MAX_NS)) as u32;
        let above = self.held.iter().rev().take_while(|held| held.index > last);
        above.fold(0, |sum, held| sum.saturating_add(held.count))
    }

    /// Returns the same values with two significant digits: at most 0.45 % off, with minimum and maximum unchanged. Its
    /// text is a third as long.
    #[must_use]
    pub fn to_two_digits(&self) -> Self {
        let (least_ns, largest_ns) = (self.min_ns(), self.max_ns());
        let values = self.held.iter().map(|held| {
            let value_ns = held.low_ns();
            let width_bits = (value_ns | 0xff).ilog2() - 7;
            let middle_ns = (value_ns >> width_bits << width_bits) + (1 << width_bits >> 1);
            let is_end = value_ns <= least_ns || held.high_ns() >= largest_ns;
            let shown_ns = if is_end { value_ns } else { middle_ns.clamp(least_ns, largest_ns) };
            (shown_ns, held.count)
        });
        Self::of_values(values, self.sum_ns)
    }

    /// Recorded bins in rising order: (midpoint in ns, count).
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.held.iter().map(|held| (held.middle_ns(), held.count))
    }
}

/// Bins below this value are exact; above, each power of two has half as many.
const FINE_EXACT: u64 = 2048;
/// log2 of the bins per power of two.
const FINE_BITS: u32 = 10;
const FINE_BINS: usize = ((41 - FINE_BITS as usize) << FINE_BITS) + 1024;

/// The bin of [`LATENCY_MAX_NS`], which also holds what lies above.
const FINE_LAST: usize = fine_index(LATENCY_MAX_NS);

/// Index of the fine bin of a latency; beyond [`FINE_LAST`] for one above the maximum.
#[inline(always)]
const fn fine_index(value_ns: u64) -> usize {
    let shift = (value_ns | (FINE_EXACT - 1)).ilog2() - FINE_BITS;
    ((shift as usize) << FINE_BITS) + (value_ns >> shift) as usize
}

/// Lowest value of fine bin `index`, in nanoseconds.
fn fine_low_ns(index: usize) -> u64 {
    let shift = (index >> FINE_BITS).saturating_sub(1);
    ((index - (shift << FINE_BITS)) as u64) << shift
}

/// Filled by the hot loop: the bins of a [`Hist`] as a flat array, one add per value.
///
/// `Hist::record` keeps count, minimum and maximum up to date and costs five times as much; here [`Recorder::finish`]
/// computes them at the end.
#[derive(Clone, Debug)]
pub struct Recorder {
    counts: Box<[u64; FINE_BINS]>,
}

impl Default for Recorder {
    fn default() -> Self {
        let counts = vec![0; FINE_BINS].into_boxed_slice();
        Self { counts: counts.try_into().expect("made with this length") }
    }
}

impl Recorder {
    /// Counts one value; returns its bin, for [`CoarseHist::record_fine`].
    #[inline(always)]
    pub fn record(&mut self, value_ns: u64) -> FineBin {
        let index = fine_index(value_ns);
        // One comparison both clamps the value and keeps the index inside the array.
        if index > FINE_LAST {
            return self.record_last();
        }
        self.counts[index] += 1;
        FineBin(index)
    }

    #[cold]
    fn record_last(&mut self) -> FineBin {
        self.counts[FINE_LAST] += 1;
        FineBin(FINE_LAST)
    }

    /// Counts a value this many times.
    pub fn record_n(&mut self, value_ns: u64, times: u64) {
        let count = &mut self.counts[fine_index(value_ns).min(FINE_LAST)];
        *count = count.saturating_add(times);
    }

    /// The non-empty bins, lowest first: their lowest value, ns, and count.
    pub fn bins(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let held = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        held.map(|(index, count)| (fine_low_ns(index), *count))
    }

    /// Whether nothing was counted.
    pub fn is_empty(&self) -> bool {
        self.counts.iter().all(|count| *count == 0)
    }

    /// The values counted, as a [`Hist`]. The caller provides their exact sum; otherwise it is that of the bins'
    /// midpoints.
    pub fn finish(&self, sum_ns: Option<u64>) -> Hist {
        let mut hist = Hist::of_values(self.bins(), 0);
        let middles_ns = |hist: &Hist| hist.bins().map(|(ns, count)| u128::from(ns) * u128::from(count)).sum();
        hist.sum_ns = sum_ns.map_or_else(|| middles_ns(&hist), u128::from);
        hist
    }
}

/// The bin of one value in a [`Recorder`].
#[derive(Clone, Copy, Debug)]
pub struct FineBin(usize);

/// Bins of a [`CoarseHist`]: 64 fine bins each.
pub const COARSE_BINS: usize = FINE_BINS >> COARSE_BITS;
/// log2 of the fine bins in a coarse one.
const COARSE_BITS: usize = 6;

/// Index of the coarse bin of a latency: 64 ns wide below 1,024 ns, then 16 bins per power of two (at most 6.25 %
/// wide).
#[inline]
pub fn coarse_index(value_ns: u64) -> usize {
    fine_index(value_ns.min(LATENCY_MAX_NS)) >> COARSE_BITS
}

/// Lowest value of coarse bin `index`, in nanoseconds: the inverse of [`coarse_index`].
pub fn coarse_low_ns(index: usize) -> u64 {
    fine_low_ns(index << COARSE_BITS)
}

/// A fixed-size latency histogram for one interval, cheap to fill: one add per value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoarseHist {
    counts: Box<[u32; COARSE_BINS]>,
}

impl Default for CoarseHist {
    fn default() -> Self {
        Self { counts: Box::new([0; COARSE_BINS]) }
    }
}

impl CoarseHist {
    /// Counts one value.
    #[inline]
    pub fn record(&mut self, value_ns: u64) {
        self.counts[coarse_index(value_ns)] += 1;
    }

    /// Counts one value that [`Recorder::record`] put into bin `fine`.
    #[inline(always)]
    pub fn record_fine(&mut self, fine: FineBin) {
        self.counts[fine.0 >> COARSE_BITS] += 1;
    }

    /// Clears everything but keeps the memory.
    pub fn clear(&mut self) {
        self.counts.fill(0);
    }

    /// Adds all of `other`.
    pub fn merge(&mut self, other: &CoarseHist) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
    }

    /// The non-empty bins as (bin index, count), ascending.
    pub fn sparse(&self) -> Vec<(u16, u32)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(index, count)| (index as u16, *count))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hdrhistogram::Histogram;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merging_is_recording_both(a in prop::collection::vec(0u64..1 << 41, 0..200), b in prop::collection::vec(0u64..1 << 41, 0..200)) {
            let of = |values: &[u64]| { let mut hist = Hist::new(); values.iter().for_each(|v| hist.record(*v)); hist };
            let exported = |values: &[u64]| -> Hist { serde_json::from_str(&serde_json::to_string(&of(values)).unwrap()).unwrap() };
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            for (mut merged, other) in [(of(&a), of(&b)), (exported(&a), exported(&b))] {
                merged.merge(&other);
                prop_assert_eq!(merged, of(&both));
            }
        }

        /// The result agrees with HdrHistogram's for the same values.
        #[test]
        fn a_hist_says_what_hdr_histogram_does(values in prop::collection::vec(0u64..1 << 42, 0..200), at in 0u64..1 << 41) {
            let mut hist = Hist::new();
            values.iter().for_each(|value| hist.record(*value));
            let mut hdr = Histogram::<u64>::new_with_bounds(1, LATENCY_MAX_NS, 3).unwrap();
            values.iter().for_each(|value| hdr.saturating_record(*value));
            prop_assert_eq!(&v2::to_hdr(&hist), &hdr);
            prop_assert_eq!((hist.count(), hist.min_ns(), hist.max_ns()), (hdr.len(), hdr.min(), hdr.max()));
            prop_assert_eq!(hist.stdev_ns(), hdr.stdev());
            prop_assert_eq!(hist.count_above(at), hdr.len() - hdr.count_between(0, at.min(LATENCY_MAX_NS)));
            let bins = hdr.iter_recorded();
            let middles = bins.map(|bin| (hdr.median_equivalent(bin.value_iterated_to()), bin.count_since_last_iteration()));
            prop_assert_eq!(hist.bins().collect::<Vec<_>>(), middles.collect::<Vec<_>>());
        }

        #[test]
        fn a_recorder_counts_as_a_hist_does(values in prop::collection::vec(0u64..LATENCY_MAX_NS, 0..200)) {
            let (mut recorder, mut hist) = (Recorder::default(), Hist::new());
            for value in &values { recorder.record(*value); hist.record(*value); }
            let recorded = recorder.finish(Some(values.iter().sum()));
            prop_assert_eq!(recorded.sum_ns(), hist.sum_ns());
            prop_assert_eq!(recorded.bins().collect::<Vec<_>>(), hist.bins().collect::<Vec<_>>());
        }

        #[test]
        fn coarse_merging_is_recording_both(a in prop::collection::vec(any::<u64>(), 0..200), b in prop::collection::vec(any::<u64>(), 0..200)) {
            let of = |values: &[u64]| { let mut hist = CoarseHist::default(); values.iter().for_each(|v| hist.record(*v)); hist };
            let mut merged = of(&a);
            merged.merge(&of(&b));
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            prop_assert_eq!(merged.sparse(), of(&both).sparse());
        }

        #[test]
        fn a_value_read_back_is_at_most_a_thousandth_off(value in 1u64..LATENCY_MAX_NS) {
            let mut hist = Hist::new();
            hist.record(value);
            let error = (hist.quantile(0.5) as f64 - value as f64).abs() / value as f64;
            prop_assert!(error <= 0.001, "{value}: {error}");
        }

        #[test]
        fn two_digits_are_less_than_half_a_percent_off(values in prop::collection::vec(0u64..LATENCY_MAX_NS, 1..200)) {
            let mut hist = Hist::new();
            values.iter().for_each(|value| hist.record(*value));
            let rounded = hist.to_two_digits();
            prop_assert_eq!((rounded.count(), rounded.sum_ns()), (hist.count(), hist.sum_ns()));
            prop_assert_eq!((rounded.min_ns(), rounded.max_ns()), (hist.min_ns(), hist.max_ns()));
            for rank in 1..=hist.count() {
                let (exact, near) = (hist.at_rank(rank) as f64, rounded.at_rank(rank) as f64);
                prop_assert!((near - exact).abs() <= 0.0045 * exact, "{exact} became {near}");
            }
            prop_assert_eq!(rounded.to_two_digits(), rounded);
        }

        #[test]
        fn coarse_bins_hold_their_values(value in 0u64..LATENCY_MAX_NS) {
            let index = coarse_index(value);
            prop_assert!(coarse_low_ns(index) <= value);
            prop_assert!(index + 1 == COARSE_BINS || value < coarse_low_ns(index + 1));
        }
    }

    #[test]
    fn a_recorder_holds_the_edges_of_every_bin() {
        for bit in 0..=40 {
            for value in [(1u64 << bit) - 1, 1 << bit, (1 << bit) + 1] {
                let mut recorder = Recorder::default();
                recorder.record(value);
                let mut direct = Hist::new();
                direct.record(value.min(LATENCY_MAX_NS));
                assert_eq!(
                    recorder.finish(None).bins().collect::<Vec<_>>(),
                    direct.bins().collect::<Vec<_>>(),
                    "{value}"
                );
            }
        }
    }

    #[test]
    fn ranks_are_one_based_and_clamped() {
        let mut hist = Hist::new();
        (1..=100).for_each(|v| hist.record(v));
        assert_eq!(hist.at_rank(1), 1);
        assert_eq!(hist.at_rank(50), 50);
        assert_eq!(hist.at_rank(1000), 100);
        assert_eq!(hist.quantile(0.99), 99);
        assert_eq!(hist.count_above(90), 10);
    }
}
