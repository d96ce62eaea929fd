//! Stalls: the longest time a disk stood still, and in what share of the moments a request would meet one.
//!
//! A percentile counts requests, and a stall delays few of them, however long it is: where one request waits for the
//! one before, a second of standstill is one slow request among thousands. Programs see it differently. Their requests
//! come at their own times, and all those that come during a stall wait. So the figures here count moments.
//!
//! **Share.** Of the moments in which a request was on its way, the share at which another one would have waited longer
//! than [`STALL_NS`] for it to end: the sum by which latencies exceed that, over the sum of all latencies. For requests
//! that are due at their own times it is simply the share of them that waited longer. Neighbouring intervals that hold
//! such a wait are one stall. The number of stalls is a Poisson count; if their lengths d differ, it is as good as (sum
//! d)^2 / sum d^2 of one length (the variance of a compound Poisson sum). A run without a stall bounds how often one
//! can come, not how long it would be: the upper limit is for stalls of twice [`STALL_NS`].
//!
//! **Longest.** A disk's longest stall is at least as long as the longest one seen. The upper limit says what another
//! run of the same length would see, in 19 of 20: the longest waits of the visits are assumed to follow a power law,
//! whose exponent is taken from the longest six (Hill 1975, Annals of Statistics 3), so that the longest of a run is
//! Frechet's; what the time between visits adds to the step's other figures (see `level.rs`) is added here as well. If
//! a few stalls are separated from all other waits (a gap that a power has in one of a hundred samples), the distance
//! says nothing about their own distribution: it is estimated from them alone and, since they are few, from an ordinary
//! spread with the weight of one. There is no limit if the longest stands alone: a single stall does not show how long
//! the next will be.
//!
//! 19 to 1 is useful to know, but no reason to withhold an answer: a verdict uses how long another run's would be in
//! three of four ([`likely_longest_ns`]).
//!
//! All steps with visits that did the same kind of operation are taken together: what stops the disk stops each of them.

use qd1_model::Estimate;
use qd1_model::hist::{COARSE_BINS, coarse_index};
use qd1_model::op::OpClass;
use qd1_model::record::{Interval, StepRecord};

use crate::episodes::upper_limit;
use crate::level::{Belief, Of};
use crate::series::{Series, bin_middle_ns, of_class};

/// A wait of at least this is a stall: the heartbeat interval of etcd's leader, and the delay that a person perceives
/// as immediate.
pub const STALL_NS: f64 = 100_000_000.0;

/// Number of the visits' longest waits from which their distribution is estimated.
const TAIL: usize = 6;
/// Odds against a longest wait beyond the upper limit: 19 to 1.
const UPPER_ODDS: f64 = 19.0;
/// Odds against one beyond the value used for a verdict: 3 to 1.
const LIKELY_ODDS: f64 = 3.0;
/// Exponents from which nothing is known about longer waits: the longest is more than 1,000 times the next ones.
const HILL_MAX: f64 = 2.35;
/// A gap with this share of the whole range of the longest waits separates those above it.
const GAP_SHARE: f64 = 0.8;
/// Distribution of stalls if few were seen: a power law with this exponent, with the weight of one.
const HILL_OF_STALLS: f64 = 0.5;

/// The stalls that one kind of operation met.
#[derive(Debug)]
pub struct Stalls {
    /// The longest wait of each visit, ns.
    longest_ns: Vec<f64>,
    /// Moments at which a request would have met each stall, ns.
    stalls: Vec<f64>,
    /// All moments in which one could have been met, ns.
    watched_ns: f64,
    /// Half width that the time between visits adds, as a logarithm: the largest of any step.
    level: f64,
    /// Operations.
    ios: u64,
}

impl Stalls {
    /// What these steps with visits saw of them, each with whether its requests are due at their own times; `None` if
    /// none of them did this kind of operation.
    #[must_use]
    pub fn new<'a>(steps: impl IntoIterator<Item = (&'a StepRecord, bool)>, class: OpClass) -> Option<Self> {
        let mut all = Self { longest_ns: Vec::new(), stalls: Vec::new(), watched_ns: 0.0, level: 0.0, ios: 0 };
        steps.into_iter().for_each(|(step, is_open)| all.add(step, class, is_open));
        (all.ios > 0).then_some(all)
    }

    fn add(&mut self, step: &StepRecord, class: OpClass, is_open: bool) {
        let of_step = || step.intervals.iter().filter_map(|interval| of_class(interval, class));
        let ios: u64 = of_step().map(|stream| stream.ios).sum();
        if ios == 0 {
            return;
        }
        let length_ns: f64 = step.intervals.iter().map(|interval| interval.length_ns as f64).sum();
        let lat_sum_ns: f64 = of_step().map(|stream| stream.lat_sum_ns as f64).sum();
        // A request represents its share of the time, or its own time.
        let each_ns = length_ns / ios as f64;
        let at_once = (lat_sum_ns / length_ns.max(1.0)).max(1.0);
        for visit in step.intervals.chunk_by(Interval::goes_on) {
            let mut stall_ns = 0.0;
            let mut longest_ns = 0.0f64;
            for interval in visit {
                let stream = of_class(interval, class);
                let met_ns = stream.map_or(0.0, |stream| {
                    let lat_max_ns = stream.lat_max_ns as f64;
                    longest_ns = longest_ns.max(lat_max_ns);
                    let moments_ns = |lat_ns: f64| match lat_ns > STALL_NS {
                        true if is_open => each_ns,
                        true => (lat_ns - STALL_NS) / at_once,
                        false => 0.0,
                    };
                    // The longest is known to the nanosecond, the others to their bins.
                    let middle_ns = |bin: u16| bin_middle_ns(usize::from(bin)).min(lat_max_ns);
                    let in_bins =
                        stream.bins.iter().map(|(bin, count)| f64::from(*count) * moments_ns(middle_ns(*bin)));
                    let longest_bin = coarse_index(stream.lat_max_ns).min(COARSE_BINS - 1) as u16;
                    in_bins.sum::<f64>() + moments_ns(lat_max_ns) - moments_ns(middle_ns(longest_bin))
                });
                if met_ns <= 0.0 && stall_ns > 0.0 {
                    self.stalls.push(std::mem::take(&mut stall_ns));
                }
                stall_ns += met_ns;
            }
            self.stalls.extend((stall_ns > 0.0).then_some(stall_ns));
            self.longest_ns.extend((longest_ns > 0.0).then_some(longest_ns));
        }
        let series = Series::while_active(&step.intervals, class);
        self.level = self.level.max(Belief::vague().half_width(&series, Of::Latency, &series));
        self.watched_ns += if is_open { length_ns } else { lat_sum_ns / at_once };
        self.ios += ios;
    }

    /// Share of the moments at which a request would wait longer than [`STALL_NS`], 0..1.
    #[must_use]
    pub fn share(&self) -> Estimate {
        let met_ns: f64 = self.stalls.iter().sum();
        let squares: f64 = self.stalls.iter().map(|stall_ns| stall_ns * stall_ns).sum();
        let (value, n) = (met_ns / self.watched_ns.max(1.0), self.ios);
        if squares == 0.0 {
            let high = (upper_limit(0.0) * STALL_NS / self.watched_ns.max(1.0)).min(1.0);
            return Estimate { high: Some(high), ..Estimate::exact(0.0, n) };
        }
        let count = met_ns * met_ns / squares;
        let low = value * lower_limit(count) / count;
        let high = (value * upper_limit(count) / count).min(1.0);
        Estimate { value: Some(value), low: Some(low), high: Some(high), n, n_effective: count, n_needed: 0 }
    }

    /// The longest wait, ns: what was seen, and the most that another run of this length would see.
    #[must_use]
    pub fn longest(&self) -> Estimate {
        let mut longest = self.longest_ns.clone();
        longest.sort_by(|a, b| b.total_cmp(a));
        let (n, n_effective) = (self.ios, longest.len() as f64);
        let [first, _, ..] = longest[..] else {
            return Estimate { n, n_effective, n_needed: 2 * n, ..Estimate::default() };
        };
        let hill = hill(&longest[..longest.len().min(TAIL)]);
        let high = (hill < HILL_MAX).then(|| first * UPPER_ODDS.powf(hill) * self.level.exp());
        let high = high.filter(|high| high.is_finite());
        Estimate { value: Some(first), low: Some(first), high, n, n_effective, n_needed: 0 }
    }
}

/// The exponent of the power law of waits, the longest first: each gap in the logarithm times its place is drawn from
/// one exponential, whose mean it is.
fn hill(longest: &[f64]) -> f64 {
    let gaps: Vec<f64> =
        longest.windows(2).zip(1..).map(|(pair, place)| f64::from(place) * (pair[0] / pair[1]).ln()).collect();
    let all: f64 = gaps.iter().sum();
    let widest = gaps.iter().enumerate().max_by(|one, other| one.1.total_cmp(other.1));
    match widest {
        Some((above, gap)) if above > 0 && *gap > GAP_SHARE * all => {
            (gaps[..above].iter().sum::<f64>() + HILL_OF_STALLS) / (above + 1) as f64
        }
        _ => all / gaps.len() as f64,
    }
}

/// Returns the longest wait, ns, that another run would not exceed in three of four: between what this one saw and the upper
/// limit of `longest`, which Frechet's law puts at 19 to 1. `None` where there is none.
#[must_use]
pub fn likely_longest_ns(longest: &Estimate) -> Option<f64> {
    let (seen, high) = longest.value.zip(longest.high)?;
    Some(seen * (high / seen).powf(LIKELY_ODDS.ln() / UPPER_ODDS.ln()))
}

/// Lower 97.5 % limit of the mean of a Poisson count `k`, as [`upper_limit`].
fn lower_limit(k: f64) -> f64 {
    let k = k.max(0.1);
    (k * (1.0 - 1.0 / (9.0 * k) - crate::Z_975 / (3.0 * k.sqrt())).max(0.0).powi(3)).max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_model::hist::CoarseHist;
    use qd1_model::record::IntervalStream;

    const SECOND_NS: u64 = 1_000_000_000;

    /// A step of 12 visits of a second, 5 s apart, whose reads take the given times, by visit.
    fn step(latencies: impl Fn(u64) -> Vec<u64>) -> StepRecord {
        let visit = |number: u64| {
            let mut coarse = CoarseHist::default();
            let all = latencies(number);
            all.iter().for_each(|lat_ns| coarse.record(*lat_ns));
            let (lat_sum_ns, lat_max_ns) = (all.iter().sum(), *all.iter().max().unwrap());
            let (class, ios, bins) = (OpClass::Read, all.len() as u64, coarse.sparse());
            let stream = IntervalStream { class, ios, bytes: 0, lat_sum_ns, lat_max_ns, bins };
            Interval { start_ns: number * 5 * SECOND_NS, length_ns: SECOND_NS, streams: vec![stream] }
        };
        StepRecord { intervals: (0..12).map(visit).collect(), ..StepRecord::default() }
    }

    /// Of reads one after another.
    fn closed(latencies: impl Fn(u64) -> Vec<u64>) -> Stalls {
        Stalls::new([(&step(latencies), false)], OpClass::Read).unwrap()
    }

    /// As many of a millisecond as fit in besides those, one after another, in a second.
    fn beside(slow_ns: &[u64]) -> Vec<u64> {
        let left_ns = SECOND_NS - slow_ns.iter().sum::<u64>();
        (0..left_ns / 1_000_000).map(|_| 1_000_000).chain(slow_ns.iter().copied()).collect()
    }

    #[test]
    fn a_stall_counts_for_its_time_and_not_for_its_one_request() {
        let one_in_three = |visit| if visit % 3 == 0 { beside(&[400_000_000]) } else { beside(&[]) };
        let share = closed(one_in_three).share();
        // Four times 300 ms of 12 s, at which another request would have waited 100 ms and more.
        assert!((share.value.unwrap() - 0.1).abs() < 0.001, "{share:?}");
        // Exact Poisson limits of four: 1.09 and 10.24.
        assert!((share.low.unwrap() - 0.1 * 1.09 / 4.0).abs() < 0.002, "{share:?}");
        assert!((share.high.unwrap() - 0.1 * 10.24 / 4.0).abs() < 0.002, "{share:?}");
    }

    #[test]
    fn of_requests_at_their_own_times_those_that_waited_are_the_share() {
        let one_in_four = |visit| {
            if visit % 4 == 0 { vec![300_000_000, 200_000_000, 50_000_000, 1_000_000] } else { vec![1_000_000; 4] }
        };
        let share = Stalls::new([(&step(one_in_four), true)], OpClass::Read).unwrap().share();
        assert!((share.value.unwrap() - 6.0 / 48.0).abs() < 1e-9, "{share:?}");
    }

    #[test]
    fn no_stall_is_not_none_for_ever() {
        let stalls = closed(|_| beside(&[]));
        let share = stalls.share();
        // 3.69 of 100 ms in 12 s.
        assert!(share.value == Some(0.0) && (share.high.unwrap() - 0.0307).abs() < 0.001, "{share:?}");
        let longest = stalls.longest();
        assert_eq!((longest.value, longest.low), (Some(1e6), Some(1e6)));
        assert!((longest.high.unwrap() - 1e6).abs() < 1e3, "{longest:?}");
    }

    #[test]
    fn a_longest_stall_that_is_one_of_a_kind_says_little_of_another_run() {
        let stalls = closed(|visit| beside(if visit == 7 { &[600_000_000] } else { &[] }));
        let longest = stalls.longest();
        assert_eq!((longest.value, longest.low), (Some(600e6), Some(600e6)));
        assert!(longest.high.is_none_or(|high| high > 10e9), "{longest:?}");
    }

    /// Regression: three stalls of 0.1 s among waits of 1 ms had no upper limit: the more alike they were, the less was
    /// known.
    #[test]
    fn stalls_that_are_alike_tell_how_long_the_next_is() {
        let stalls_ns = |visit| match visit {
            2 => 130_000_000,
            5 => 110_000_000,
            9 => 100_000_000,
            _ => 1_000_000,
        };
        let longest = closed(|visit| beside(&[stalls_ns(visit)])).longest();
        assert_eq!(longest.value, Some(130e6));
        assert!(longest.high.is_some_and(|high| high > 200e6 && high < 600e6), "{longest:?}");
    }

    #[test]
    fn what_is_likely_lies_between_what_was_seen_and_the_limit() {
        let longest = Estimate { value: Some(120e6), high: Some(1.4e9), ..Estimate::default() };
        let likely_ns = likely_longest_ns(&longest).unwrap();
        // (1.4 / 0.12) to the power of ln 3 / ln 19.
        assert!((likely_ns - 300e6).abs() < 1e6, "{likely_ns}");
        assert_eq!(likely_longest_ns(&Estimate { high: None, ..longest }), None);
    }

    #[test]
    fn without_an_operation_of_the_kind_there_are_no_figures_of_stalls() {
        assert!(Stalls::new([(&step(|_| beside(&[])), false)], OpClass::Commit).is_none());
    }
}
