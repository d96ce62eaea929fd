//! Signs of a limiter besides its rate: a flat top, requests released in slices, latencies near the disk's floor or
//! near a slice with none between, a round figure.
//!
//! A limiter counts, so the number of completions stays on a line. That of a disk does not: its count is a sum of
//! service times, a random walk, and wanders by about 1.25 c sqrt(n), where c is their coefficient of variation (the
//! range of a Brownian bridge is sqrt(pi / 2): Kuiper 1960). So latencies that vary a lot under a count that does not
//! wander are not those of a disk. docs/method.md has the table of how often each is seen with and without a limit.

use qd1_model::hist::coarse_low_ns;
use qd1_model::limits::{Evidence, Quantity};
use qd1_model::record::Interval;
use qd1_model::units::{format_count, format_ns, format_rate};

use super::series::{Fit, Level, Series};

/// Largest wander of a limited count, per square root of requests; see [`Level::wander`]. Disks' service times vary by
/// 0.2 of their mean and more, which makes 0.25.
const WANDER_MAX: f64 = 0.1;
/// The same for bytes, whose requests are few and take long: there the test at another size decides.
const WANDER_MAX_BYTES: f64 = 0.3;
/// A count within this many requests of a line is as close to it as counting allows.
const COUNTING: f64 = 3.0;
/// Largest growth of the scatter of a limited count; see [`Level::growth`].
const GROWTH_MAX: f64 = 0.1;
/// The range of a count is this times the coefficient of variation times the square root of the count: sqrt(pi / 2).
const BRIDGE: f64 = 1.2533;
/// From this factor up, latencies vary more than the count explains.
const TOO_REGULAR: f64 = 4.0;
/// And only if they vary this much at all.
const VARIATION_MIN: f64 = 0.5;
/// Shares of requests that make a mode of latencies, and largest share of the rarer mode between the two.
const MODE_MIN: f64 = 0.002;
const BETWEEN_MAX: f64 = 0.1;
/// The modes are further apart than this.
const APART_MIN: f64 = 4.0;
/// Fewest requests from which latencies are evidence.
const REQUESTS_MIN: f64 = 100.0;
/// Shorter slices may be the disk's own batches, s.
const SLICE_MIN_S: f64 = 0.005;
/// The largest distance to a round figure, and the largest chance of a figure being this close to one.
const ROUND_NEAR: f64 = 0.003;
const ROUND_CHANCE: f64 = 0.1;

/// Whether a count is too level for a disk without a limiter.
pub(crate) fn is_flat(level: &Level, quantity: Quantity) -> bool {
    level.wander <= wander_max(level, quantity) || level.growth <= GROWTH_MAX
}

fn wander_max(level: &Level, quantity: Quantity) -> f64 {
    let most = if quantity == Quantity::Bytes { WANDER_MAX_BYTES } else { WANDER_MAX };
    most.max(COUNTING / level.requests.max(1.0).sqrt())
}

/// The flat top as evidence, for or against.
pub(crate) fn pinned(level: &Level, quantity: Quantity) -> Evidence {
    let (wander, most) = (level.wander, wander_max(level, quantity));
    let mut text =
        format!("the count wanders by {wander:.2} times its square root; a limiter's count by less than {most:.2}");
    if wander > most && level.growth <= GROWTH_MAX {
        let growth = level.growth;
        text = format!("the count scatters, but returns to its line ({growth:.2} of a random walk's growth)");
    }
    Evidence { id: "pinned".to_owned(), speaks_for: is_flat(level, quantity), text }
}

/// Further evidence if a limit was found. None of it is decisive.
pub(super) fn of(quantity: Quantity, fit: &Fit, intervals: &[Interval]) -> Vec<Evidence> {
    let mut found = Vec::new();
    let mut add = |id: &str, text: String| found.push(Evidence { id: id.to_owned(), speaks_for: true, text });
    if let Some(round) = round_number(quantity, &fit.sustained) {
        add("round", round.text);
    }
    if fit.burst.is_some() {
        add("burst_ended", "throughput began above the limit and came down to it once".to_owned());
    }
    if let Some(text) = slices(intervals) {
        add("slices", text);
    }
    if let Some(two_modes) = two_modes(intervals) {
        add("bimodal", two_modes.text());
    }
    found
}

/// Requests that are released together, once per slice.
pub(crate) fn slices(intervals: &[Interval]) -> Option<String> {
    let (lump, every_s) = Series::new(intervals, Quantity::Requests, 1).slices()?;
    let every = format_ns(every_s * 1e9);
    (every_s >= SLICE_MIN_S).then(|| format!("requests come {} at a time, every {every}", format_count(lump)))
}

/// Latencies of two kinds with almost nothing between them.
pub(crate) struct TwoModes {
    floor_ns: f64,
    wait_ns: f64,
    /// Share of requests that waited.
    share: f64,
}

impl TwoModes {
    pub(crate) fn text(&self) -> String {
        format!(
            "latencies are near {} or ({:.1} % of them) near {}, with none in between",
            format_ns(self.floor_ns),
            self.share * 100.0,
            format_ns(self.wait_ns)
        )
    }
}

/// Looks for two modes of latency.
pub(crate) fn two_modes(intervals: &[Interval]) -> Option<TwoModes> {
    let bins = bins(intervals);
    let total: f64 = bins.iter().map(|(_, count)| count).sum();
    if total < REQUESTS_MIN {
        return None;
    }
    let middle = |part: &[(f64, f64)]| {
        let half = part.iter().map(|(_, count)| count).sum::<f64>() / 2.0;
        let mut below = 0.0;
        let found = part.iter().find(|(_, count)| {
            below += count;
            below >= half
        });
        found.map_or(0.0, |(value, _)| *value)
    };
    let mut best: Option<(f64, TwoModes)> = None;
    for at in 1..bins.len() {
        // There can only be a gap where bins are missing.
        if bins[at].0 < bins[at - 1].0 * 1.5 {
            continue;
        }
        let (low, high) = bins.split_at(at);
        let (floor_ns, wait_ns) = (middle(low), middle(high));
        let waiting: f64 = high.iter().map(|(_, count)| count).sum();
        let rarer = waiting.min(total - waiting);
        let apart = wait_ns / floor_ns.max(1.0);
        let (from, to) = (floor_ns * apart.powf(0.3), floor_ns * apart.powf(0.7));
        let between: f64 = bins.iter().filter(|(value, _)| *value > from && *value < to).map(|(_, count)| count).sum();
        let is_two = apart >= APART_MIN && rarer >= (MODE_MIN * total).max(10.0) && between <= BETWEEN_MAX * rarer;
        if is_two && best.as_ref().is_none_or(|(most, _)| apart > *most) {
            best = Some((apart, TwoModes { floor_ns, wait_ns, share: waiting / total }));
        }
    }
    best.map(|(_, two_modes)| two_modes)
}

/// Factor by which latencies vary more than such a steady count allows, one request at a time; nothing if it is not
/// evidence.
pub(crate) fn too_regular(intervals: &[Interval], level: &Level) -> Option<f64> {
    let bins = bins(intervals);
    let total: f64 = bins.iter().map(|(_, count)| count).sum();
    let mean = bins.iter().map(|(value, count)| value * count).sum::<f64>() / total.max(1.0);
    let variance = bins.iter().map(|(value, count)| (value - mean).powi(2) * count).sum::<f64>() / total.max(1.0);
    let variation = variance.sqrt() / mean.max(1.0);
    // A count cannot be closer to a line than one request.
    let wander = level.wander.max(1.0 / level.requests.max(1.0).sqrt());
    let factor = BRIDGE * variation / wander;
    (total >= REQUESTS_MIN && variation >= VARIATION_MIN && factor >= TOO_REGULAR).then_some(factor)
}

/// (latency in ns, count), in order.
fn bins(intervals: &[Interval]) -> Vec<(f64, f64)> {
    let mut counts = std::collections::BTreeMap::new();
    for (bin, count) in intervals.iter().flat_map(|interval| &interval.streams).flat_map(|stream| &stream.bins) {
        *counts.entry(*bin).or_insert(0.0) += f64::from(*count);
    }
    let middle = |bin: u16| {
        let bin = usize::from(bin);
        f64::midpoint(coarse_low_ns(bin) as f64, coarse_low_ns(bin + 1) as f64)
    };
    counts.into_iter().map(|(bin, count)| (middle(bin), count)).collect()
}

/// A round figure near a rate.
pub(crate) struct RoundNumber {
    pub(crate) text: String,
}

/// A figure of one or two digits within the interval of a rate, if being this close to one is rare by chance.
pub(crate) fn round_number(quantity: Quantity, level: &Level) -> Option<RoundNumber> {
    let rate = level.rate;
    let near = (level.half / rate.max(1e-9)).clamp(0.0005, ROUND_NEAR);
    let of = |unit: f64, digits: i32| {
        let scale = 10f64.powf((rate / unit).log10().floor() - f64::from(digits - 1));
        let digits = (rate / unit / scale).round();
        let figure = digits * scale * unit;
        // Figures with this many digits are 1 / digits apart.
        let chance = 2.0 * near * digits;
        ((rate / figure - 1.0).abs() <= near && chance <= ROUND_CHANCE).then_some(figure)
    };
    let pick = |unit: f64| of(unit, 1).or_else(|| of(unit, 2));
    let text = match quantity {
        Quantity::Requests => pick(1.0).map(|figure| format!("a round number, {} a second", format_count(figure))),
        Quantity::Bytes => pick(1e6).map(|figure| format!("a round number, {}", format_rate(figure))).or_else(|| {
            let mib = f64::from(1 << 20);
            pick(mib).map(|figure| format!("a round number of MiB, {:.0} a second", figure / mib))
        }),
    };
    text.map(|text| RoundNumber { text })
}

#[cfg(test)]
mod tests {
    use qd1_model::OpClass;
    use qd1_model::hist::CoarseHist;
    use qd1_model::record::IntervalStream;

    use super::*;

    /// Intervals of `length_ns`, each with the latencies that `of` gives for its number.
    fn intervals(count: u64, length_ns: u64, of: impl Fn(u64) -> Vec<u64>) -> Vec<Interval> {
        (0..count)
            .map(|number| {
                let latencies = of(number);
                let mut hist = CoarseHist::default();
                latencies.iter().for_each(|latency| hist.record(*latency));
                let streams = vec![IntervalStream {
                    class: OpClass::Read,
                    ios: latencies.len() as u64,
                    bytes: latencies.len() as u64 * 4096,
                    lat_sum_ns: latencies.iter().sum(),
                    lat_max_ns: latencies.iter().copied().max().unwrap_or(0),
                    bins: hist.sparse(),
                }];
                let streams = if latencies.is_empty() { Vec::new() } else { streams };
                Interval { start_ns: number * length_ns, length_ns, streams }
            })
            .collect()
    }

    fn level(intervals: &[Interval]) -> Level {
        Series::new(intervals, Quantity::Requests, 4096).fit().unwrap().sustained
    }

    #[test]
    fn requests_at_the_floor_and_at_the_slice_are_two_modes() {
        let throttled = intervals(60, 100_000_000, |_| [vec![50_000; 9], vec![99_000_000]].concat());
        let found = two_modes(&throttled).unwrap();
        assert!((found.share - 0.1).abs() < 1e-9 && found.text().contains("(10.0 % of them) near"), "{}", found.text());
        assert!(too_regular(&throttled, &level(&throttled)).unwrap() > 10.0);
        assert!(is_flat(&level(&throttled), Quantity::Requests));
    }

    #[test]
    fn a_disk_with_a_long_tail_has_one_mode() {
        let disk = intervals(60, 100_000_000, |number| {
            (0..50).map(|op| 80_000 + (number * 50 + op) * 7919 % 400_000).collect()
        });
        assert!(two_modes(&disk).is_none());
    }

    #[test]
    fn ten_requests_every_100_ms_are_slices_with_an_exact_rate() {
        // Intervals of 30 ms: a slice falls into every third or fourth.
        let lumps = |number: u64| {
            let slices = |at: u64| at * 30 / 100;
            if slices(number + 1) > slices(number) { vec![99_000_000; 10] } else { Vec::new() }
        };
        let throttled = intervals(110, 30_000_000, lumps);
        let (lump, every_s) = Series::new(&throttled, Quantity::Requests, 1).slices().unwrap();
        assert!(lump == 10.0 && (every_s - 0.1).abs() < 0.001, "{lump} every {every_s} s");
        let level = level(&throttled);
        assert!((level.rate / 100.0 - 1.0).abs() < 0.01 && level.half < 2.0, "{level:?}");
    }

    #[test]
    fn stalls_are_not_slices() {
        let stalled = intervals(100, 100_000_000, |number| vec![100_000; if number % 20 == 19 { 0 } else { 500 }]);
        assert!(slices(&stalled).is_none());
    }

    #[test]
    fn a_figure_is_round_only_if_few_figures_are() {
        let level = |rate: f64, half: f64| Level { rate, half, ..Level::default() };
        let is_round = |quantity, rate, half| round_number(quantity, &level(rate, half)).is_some();
        assert!(is_round(Quantity::Requests, 5001.0, 4.0));
        assert!(is_round(Quantity::Bytes, 125.02 * 1_048_576.0 / 1.25, 2e5));
        assert!(!is_round(Quantity::Requests, 5130.0, 4.0));
        // 98 is round to a hundredth, but so is every second figure that is known only to half a percent.
        assert!(!is_round(Quantity::Requests, 9800.0, 50.0));
    }
}
