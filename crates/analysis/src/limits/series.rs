//! Throughput over time, fitted by a token bucket: the sustained rate, and the burst before it.
//!
//! A bucket that holds `B` tokens and earns `r` a second lets through `N(t) = B + r t` once it is empty, whatever the
//! disk did in between. So the sustained rate is the slope of the count after the burst, and the burst's volume is the
//! intercept; neither needs a model of the disk. Stalls are removed as outliers along with their neighbours: under a
//! bucket without depth the tokens of a stall are lost, and under a deep one they are used just after it. Some limiters
//! release requests in lumps, once per slice; windows with and without a lump are not stalls, and the slope is then
//! that of a line through the count.

use qd1_model::Estimate;
use qd1_model::limits::Quantity;
use qd1_model::record::Interval;

use super::windows::{cells, joined, lump, lump_half, median, slope, windows};
use qd1_stats::t_975;

/// Number of windows for which a level has to stay at what it came down to.
const STAYS: usize = 30;
/// Batches for the variance of a mean.
const BATCHES: usize = 12;
/// Rates that differ by more than this are different.
const STEP_MIN: f64 = 0.04;
/// At least one in this many windows has to lie undisturbed among its neighbours.
const KEPT_MIN: usize = 4;

/// Number of places at which a change is looked for, to find where the end of a series begins.
const SPLITS: usize = 24;
/// Throughput in windows of about 100 ms, all kinds of operation together.
#[derive(Clone, Debug, Default)]
pub struct Series {
    /// (length in seconds, amount) of each window.
    windows: Vec<(f64, f64)>,
    /// Amount of one request.
    unit: f64,
    /// The number of requests let through together, if more than a few.
    lump: Option<f64>,
}

/// A level of throughput.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Level {
    /// Amount per second.
    pub rate: f64,
    /// Half of its 95 % interval.
    pub half: f64,
    /// Number of windows it is based on.
    pub n: usize,
    /// Number of seconds it is based on.
    pub seconds: f64,
    /// Range of the count around a straight line, in requests, over the square root of the requests: a limiter keeps
    /// the count within a few requests of the line, a disk's own speed lets it wander as a random walk does.
    pub wander: f64,
    /// Number of requests it is based on.
    pub requests: f64,
    /// How much more the count scatters over an eighth of the time than from window to window, by the variance, over
    /// what independent windows would give: 1 for a random walk, about 1 / the number of windows for a count that
    /// returns to its line, however unevenly slices come. 1 if there are too few windows to tell.
    pub growth: f64,
    /// Tolerance within which a window belongs to the level, amount per second.
    pub tolerance: f64,
}

impl Level {
    /// As a figure for a report.
    pub fn estimate(&self) -> Estimate {
        Estimate {
            value: Some(self.rate),
            low: Some((self.rate - self.half).max(0.0)),
            high: Some(self.rate + self.half),
            n: self.n as u64,
            n_effective: self.n as f64,
            n_needed: 0,
        }
    }
}

/// A series, fitted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Fit {
    /// The level after the burst, or of the whole series.
    pub sustained: Level,
    /// The burst before it, if one ended.
    pub burst: Option<BurstFit>,
}

/// A burst that ended.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstFit {
    /// Amount beyond the sustained rate, and half of its 95 % interval.
    pub volume: (f64, f64),
    /// Level while it lasted.
    pub level: Level,
    /// Seconds it lasted.
    pub seconds: f64,
}

impl Series {
    /// From a step's intervals, in windows of about 100 ms; what is left over at the end is dropped. Intervals in
    /// which nothing completed may be missing.
    pub fn new(intervals: &[Interval], quantity: Quantity, block: u32) -> Self {
        let unit = if quantity == Quantity::Bytes { f64::from(block.max(1)) } else { 1.0 };
        let cells = cells(intervals, quantity);
        let windows = joined(windows(&cells), unit);
        let lump = lump(&cells, unit);
        Self { windows, unit, lump }
    }

    /// Seconds covered.
    pub fn seconds(&self) -> f64 {
        self.windows.iter().map(|(length, _)| length).sum()
    }

    /// Fits a bucket; nothing if there are too few windows.
    pub fn fit(&self) -> Option<Fit> {
        if self.windows.len() < 10 {
            return None;
        }
        let tail_from = self.tail_from();
        let tail = self.level(tail_from, self.windows.len());
        let Some(end) = self.burst_end(&tail) else {
            return Some(Fit { sustained: self.level(0, self.windows.len()), burst: None });
        };
        let end = self.spent(end, tail.rate);
        // The window in which the burst ended belongs to neither part.
        let from = (end + 2).min(tail_from.max(end));
        let sustained = self.level(from, self.windows.len());
        let seconds: f64 = self.windows[..from].iter().map(|(length, _)| length).sum();
        let amount: f64 = self.windows[..from].iter().map(|(_, amount)| amount).sum();
        let volume = amount - sustained.rate * seconds;
        let scatter = sustained.wander * (sustained.rate / self.unit * sustained.seconds).sqrt() * self.unit / 2.0;
        let half = (sustained.half * seconds).hypot(scatter.max(self.unit));
        let level = self.level(0, end.max(1));
        let lasted = volume / (level.rate - sustained.rate).max(sustained.rate * 0.01);
        let is_burst = volume > 3.0 * half && volume > 4.0 * self.unit && volume > 0.1 * sustained.rate * STEP_MIN;
        if !is_burst {
            return Some(Fit { sustained, burst: None });
        }
        Some(Fit { sustained, burst: Some(BurstFit { volume: (volume, half), level, seconds: lasted }) })
    }

    /// Whether the throughput at the end has been level for `seconds`, so that looking longer would only repeat it.
    pub fn settled(&self, seconds: f64, precision: f64) -> bool {
        let Some(fit) = self.fit() else { return false };
        fit.sustained.seconds >= seconds && fit.sustained.half <= precision * fit.sustained.rate
    }

    /// Amount let through together, and how often, s, if requests come in lumps.
    pub fn slices(&self) -> Option<(f64, f64)> {
        let lump = self.lump?;
        let rate = slope(&self.windows);
        (rate > 0.0).then(|| (lump, lump / rate))
    }

    /// Where the end of the series begins, whose level is examined first: the last third, or the part after the largest
    /// change, if that is later.
    fn tail_from(&self) -> usize {
        let n = self.windows.len();
        let third = n - (n / 3).max(10);
        let rates: Vec<f64> = self.windows.iter().map(|(length, amount)| amount / length).collect();
        let cost = |part: &[f64]| {
            let middle = median(part);
            // Beyond a tenth it is a stall, or the catching up after one.
            let cost = |rate: &f64| (rate - middle).abs().min(0.1 * middle);
            (part.iter().map(cost).sum::<f64>(), middle)
        };
        let splits = (1..SPLITS).map(|part| n * part / SPLITS).filter(|at| *at > third && at + 10 <= n);
        let best = splits
            .map(|at| (at, cost(&rates[..at]), cost(&rates[at..])))
            .min_by(|a, b| (a.1.0 + a.2.0).total_cmp(&(b.1.0 + b.2.0)));
        let whole = cost(&rates).0;
        match best {
            Some((at, (before, high), (after, low)))
                if high > low * (1.0 + STEP_MIN) && before + after < 0.8 * whole =>
            {
                at
            }
            _ => third,
        }
    }

    /// Where the burst is spent, if it seems so from window `end` on: where the count beyond `rate` stops growing. A
    /// stall in the last seconds of a burst looks like its end, but the requests it held back follow.
    fn spent(&self, end: usize, rate: f64) -> usize {
        let beyond = |to: usize| self.windows[..to].iter().map(|(length, amount)| amount - rate * length).sum::<f64>();
        let last = (end + STAYS).min(self.windows.len().saturating_sub(6)).max(end);
        let most = (end..=last).map(beyond).fold(f64::NEG_INFINITY, f64::max);
        (end..=last).find(|to| beyond(*to) >= most - 2.5 * self.unit).unwrap_or(end)
    }

    /// The window at which throughput has come down to `tail` for good, if it began above it.
    fn burst_end(&self, tail: &Level) -> Option<usize> {
        let rates: Vec<f64> = self.windows.iter().map(|(length, amount)| amount / length).collect();
        let bound = tail.rate + tail.tolerance.max(STEP_MIN * tail.rate);
        let first = median(&rates[..3.min(rates.len())]);
        let one_window = rates[0] > bound * 1.5;
        if first <= bound {
            // A burst may be over within the first window or two.
            return one_window.then_some(usize::from(rates[1] > bound) + 1);
        }
        let is_tail = |at: usize| (rates[at] - tail.rate).abs() <= bound - tail.rate;
        // Stalls, and the catching up after them, lie on both sides, and take at most half of the time.
        let stays = |at: &usize| {
            let next = *at..(*at + STAYS).min(rates.len());
            is_tail(*at) && next.clone().filter(|at| is_tail(*at)).count() * 2 >= next.len()
        };
        let mut end = (0..rates.len()).find(stays)?;
        while end < rates.len() && rates[end] > bound {
            end += 1;
        }
        (end > 0 && end + 5 < rates.len()).then_some(end)
    }
}

impl Series {
    /// The level of windows that share one, without stalls.
    fn level(&self, from: usize, to: usize) -> Level {
        let (windows, unit) = (&self.windows[from..to], self.unit);
        let rates: Vec<f64> = windows.iter().map(|(length, amount)| amount / length).collect();
        let middle = median(&rates);
        let deviations: Vec<f64> = rates.iter().map(|rate| (rate - middle).abs()).collect();
        let length = windows.iter().map(|(length, _)| length).sum::<f64>() / windows.len().max(1) as f64;
        // A deviation of one request is an effect of counting, not scatter.
        let deviation = Some(median(&deviations)).filter(|deviation| *deviation > 1.01 * unit / length).unwrap_or(0.0);
        let counting = 2.5 * self.lump.unwrap_or(unit) / length;
        let tolerance = (4.0 * 1.4826 * deviation).max(0.03 * middle).max(counting);
        let is_in: Vec<bool> = deviations.iter().map(|deviation| *deviation <= tolerance).collect();
        let kept = kept(windows, &is_in);
        let seconds: f64 = kept.iter().map(|(length, _)| length).sum();
        let amount: f64 = kept.iter().map(|(_, amount)| amount).sum();
        let mean = if seconds > 0.0 { amount / seconds } else { 0.0 };
        let (rate, half) = match self.lump {
            Some(lump) => (slope(&kept), lump_half(lump, mean, seconds)),
            None => (mean, half_width(&kept, mean)),
        };
        let (mut count, mut lowest, mut highest) = (0.0f64, 0.0f64, 0.0f64);
        for (length, amount) in &kept {
            count += (amount - mean * length) / self.lump.unwrap_or(unit);
            (lowest, highest) = (lowest.min(count), highest.max(count));
        }
        let wander = (highest - lowest) / (amount / unit).max(1.0).sqrt();
        let growth = growth(&kept, mean);
        // The mean is at least as uncertain as the request at either end.
        let half = half.hypot(unit / seconds.max(1e-9));
        Level { rate, half, n: kept.len(), seconds, wander, requests: amount / unit, growth, tolerance }
    }
}

/// The windows whose neighbours are normal as well; if stalls leave too few of these, all windows that are normal.
fn kept(windows: &[(f64, f64)], is_in: &[bool]) -> Vec<(f64, f64)> {
    let around = |at: &usize| is_in[at.saturating_sub(1)..(at + 2).min(is_in.len())].iter().all(|is_in| *is_in);
    let pick = |is: &dyn Fn(&usize) -> bool| -> Vec<(f64, f64)> {
        (0..windows.len()).filter(|at| is(at)).map(|at| windows[at]).collect()
    };
    let kept = pick(&around);
    if kept.len() * KEPT_MIN >= windows.len() {
        return kept;
    }
    let kept = pick(&|at| is_in[*at]);
    // If there are outliers everywhere, they are not outliers.
    if kept.len() * 2 >= windows.len() { kept } else { windows.to_vec() }
}

/// See [`Level::growth`].
fn growth(windows: &[(f64, f64)], rate: f64) -> f64 {
    let lag = windows.len() / 8;
    if lag < 6 {
        return 1.0;
    }
    let off: Vec<f64> = windows.iter().map(|(length, amount)| amount - rate * length).collect();
    let scatter = |lag: usize| {
        let sums: Vec<f64> = off.windows(lag).map(|part| part.iter().sum::<f64>().powi(2)).collect();
        sums.iter().sum::<f64>() / sums.len() as f64
    };
    let (near, far) = (scatter(1), scatter(lag));
    if near > 0.0 { far / (near * lag as f64) } else { 0.0 }
}

/// Half of the 95 % interval of a rate, from the means of a dozen batches.
fn half_width(windows: &[(f64, f64)], rate: f64) -> f64 {
    let size = windows.len().div_ceil(BATCHES).max(1);
    let means: Vec<f64> = windows
        .chunks(size)
        .filter(|batch| batch.len() == size)
        .map(|batch| {
            batch.iter().map(|(_, amount)| amount).sum::<f64>() / batch.iter().map(|(length, _)| length).sum::<f64>()
        })
        .collect();
    if means.len() < 3 {
        return rate;
    }
    let k = means.len() as f64;
    let mean = means.iter().sum::<f64>() / k;
    let variance = means.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (k - 1.0);
    t_975(k - 1.0) * (variance / k).sqrt()
}

#[cfg(test)]
mod tests {
    use qd1_model::OpClass;
    use qd1_model::record::IntervalStream;

    use super::super::windows::WINDOW_NS;
    use super::*;

    /// Intervals of 100 ms with these counts.
    fn series(counts: impl IntoIterator<Item = u64>) -> Series {
        let intervals: Vec<Interval> = counts
            .into_iter()
            .enumerate()
            .map(|(at, ios)| Interval {
                start_ns: at as u64 * WINDOW_NS,
                length_ns: WINDOW_NS,
                streams: vec![IntervalStream {
                    class: OpClass::Read,
                    ios,
                    bytes: ios * 4096,
                    lat_sum_ns: 0,
                    lat_max_ns: 0,
                    bins: Vec::new(),
                }],
            })
            .collect();
        Series::new(&intervals, Quantity::Requests, 4096)
    }

    #[test]
    fn a_level_rate_is_its_mean_and_has_no_burst() {
        let fit = series((0..80).map(|at| 50 + at % 2)).fit().unwrap();
        assert!((fit.sustained.rate - 505.0).abs() < 1.0 && fit.burst.is_none(), "{fit:?}");
        assert!(fit.sustained.wander < 0.1, "{fit:?}");
    }

    #[test]
    fn a_burst_is_the_intercept_of_the_count() {
        // 3,000 a second for 5.04 s, then 500: 2,500 x 5.04 beyond the sustained rate.
        let fit = series((0..50).map(|_| 300).chain([150]).chain((0..100).map(|_| 50))).fit().unwrap();
        let burst = fit.burst.unwrap();
        assert!((fit.sustained.rate - 500.0).abs() < 1.0, "{fit:?}");
        assert!((burst.volume.0 - (50.0 * 250.0 + 100.0)).abs() < 60.0, "{fit:?}");
        assert!((burst.level.rate - 3000.0).abs() < 30.0, "{fit:?}");
    }

    #[test]
    fn a_burst_within_one_interval_is_seen() {
        let fit = series([900, 50].into_iter().chain((0..60).map(|_| 50))).fit().unwrap();
        assert!((fit.burst.unwrap().volume.0 - 850.0).abs() < 10.0, "{fit:?}");
    }

    #[test]
    fn stalls_change_neither_the_rate_nor_make_a_burst() {
        let fit = series((0..120).map(|at| if at % 20 == 19 { 0 } else { 500 })).fit().unwrap();
        assert!((fit.sustained.rate - 5000.0).abs() < 10.0 && fit.burst.is_none(), "{fit:?}");
    }

    #[test]
    fn a_random_walk_wanders_and_a_limiter_does_not() {
        // Deviations that add up for seconds, as those of a disk do by chance.
        let walk = series((0..120).map(|at| 1000 + 10 * ((at / 12) % 2))).fit().unwrap();
        let pinned = series((0..120).map(|at| 1000 + 10 * (at % 2))).fit().unwrap();
        assert!(walk.sustained.wander > 0.15 && pinned.sustained.wander < 0.05, "{walk:?} {pinned:?}");
    }
}
