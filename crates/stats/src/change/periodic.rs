//! Anything that recurs at a fixed period: stalls (journal commits every five seconds, writeback) and swings of the
//! rate.
//!
//! *Stalls*, by the spacing of slow episodes. An interval is slow if its longest latency is among the K longest of the
//! step and at least half as long again as usual; slow intervals next to each other are one episode. For a trial period
//! P the episodes have phases; if m of K lie within an arc of the share w of the circle, the chance of that for
//! episodes at random is at most K C(K-1, m-1) w^(m-1) (one of them begins the arc, m - 1 others follow). Times the
//! number of trials of K, P and m that is a bound on false alarms that holds whatever was examined. Two episodes in one
//! cycle count once, so bursts are not evidence; most cycles must hold one, so that no fraction of the period is
//! reported. The bound assumes independent phases: it does not hold for slowness that is regular without a period.
//!
//! *Swings*, by a periodogram (Lomb 1976, Scargle 1982) of the ranks of rate and of median latency, so that wild points
//! do not count. Its power is divided by the larger of the local median and an AR(1) spectrum (as in Schulz and
//! Mudelsee's REDFIT, 2002); the rest is exponential if there is no period, and a sum over 1 or 3 harmonics is gamma
//! distributed. The tail, times the frequencies tried, bounds the false alarms.
//!
//! Blind below three intervals: a limiter that works in slices of 100 ms is seen in the latencies, not here.

use std::f64::consts::{LN_2, TAU};

use qd1_model::record::{Interval, StepRecord};
use statrs::function::factorial::ln_binomial;
use statrs::function::gamma::gamma_ur;

use super::trace::{CLASSES, Trace, median, of_class};
use crate::long_run::t_975;

/// Largest number of intervals examined, from the end: two minutes.
const INTERVALS_MAX: usize = 1200;
/// Length of a time slot of a whole run, ns.
const SLOT_NS: u64 = 100_000_000;
/// Shortest period, intervals.
const PERIOD_MIN: f64 = 3.0;
/// Fewest episodes of periodic stalls.
const EPISODES_MIN: usize = 5;
/// How many of the slowest intervals are tried as slow.
const SLOWEST: [usize; 7] = [5, 8, 12, 20, 32, 50, 80];
/// Shares of the episodes that may lie in the arc.
const SHARES: [f64; 3] = [1.0, 0.8, 0.6];
/// Share of the cycles that must hold an episode.
const OCCUPIED_MIN: f64 = 0.6;
/// An interval counts as slow from this logarithm of its longest latency divided by the usual one: half as long again.
const SLOW_MIN: f64 = 0.405;
/// Largest false-alarm bound of stalls, and of swings, whose bound is based on an estimated spectrum.
const ALARM_STALLS: f64 = 1e-3;
const ALARM_SWING: f64 = 1e-5;
/// Fewest cycles of a swing, and its smallest size: logarithm of the highest over the lowest eighth of a period.
const CYCLES_MIN: f64 = 6.0;
const SWING_MIN: f64 = 0.095;
/// Power, divided by that of the noise, from which a longer period is taken for the true one.
const HARMONIC_MIN: f64 = 8.0;
/// Neighbours on each side over which the median of the power is taken.
const NEIGHBOURS: usize = 40;

/// What recurs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Recurrence {
    /// Slow episodes; the median over them of the longest latency, ns, and how many there were.
    Stalls {
        /// Median of their longest latencies, ns.
        latency_ns: f64,
        /// How many.
        episodes: usize,
    },
    /// A swing of the rate or of the median latency: highest over lowest.
    Swing {
        /// Highest over lowest eighth of the period.
        factor: f64,
    },
}

/// Something with a period.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Periodic {
    /// Its period, ns.
    pub period_ns: f64,
    /// Lower 95 % limit, ns.
    pub low_ns: f64,
    /// Upper 95 % limit, ns.
    pub high_ns: f64,
    /// The first one, ns since the step's measurement began.
    pub first_ns: f64,
    /// Cycles seen.
    pub cycles: usize,
    /// What it is.
    pub recurrence: Recurrence,
    /// Bound on the chance of finding this if there is no period.
    pub false_alarm: f64,
}

/// Finds anything that recurs in `intervals` at a fixed period: stalls if there are any, else a swing; nothing in the
/// visits of a step, for which see [`stalls_of_run`].
#[must_use]
pub fn periodic(intervals: &[Interval]) -> Option<Periodic> {
    let part = &intervals[intervals.len().saturating_sub(INTERVALS_MAX)..];
    if has_gaps(part) {
        return None;
    }
    let (first, last) = (part.first()?, part.last()?);
    let slot_ns = (last.start_ns - first.start_ns) as f64 / (part.len() - 1).max(1) as f64;
    let found = stalls(&slowness(part), slot_ns, |slot| part[slot].start_ns as f64);
    found.or_else(|| swing(part))
}

/// Finds stalls that recur at a fixed period in steps whose visits take turns: each saw only some of them, but together
/// they saw most. Times are those of the run.
#[must_use]
pub fn stalls_of_run(steps: &[StepRecord]) -> Option<Periodic> {
    let visited = || steps.iter().filter(|step| has_gaps(&step.intervals));
    let from_ns = visited().map(|step| step.started_ns).min()?;
    let mut slots: Vec<Option<(f64, f64)>> = Vec::new();
    for step in visited() {
        for (interval, slow) in step.intervals.iter().zip(slowness(&step.intervals)) {
            let at_ns = (step.started_ns - from_ns).saturating_add(interval.start_ns + interval.length_ns / 2);
            let slot = (at_ns / SLOT_NS) as usize;
            if slot >= INTERVALS_MAX {
                break;
            }
            slots.resize(slots.len().max(slot + 1), None);
            slots[slot] = slots[slot].into_iter().chain(slow).max_by(|a, b| a.0.total_cmp(&b.0));
        }
    }
    stalls(&slots, SLOT_NS as f64, |slot| from_ns as f64 + slot as f64 * SLOT_NS as f64)
}

/// Whether the intervals are those of several visits.
fn has_gaps(intervals: &[Interval]) -> bool {
    intervals.windows(2).any(|pair| !pair[0].goes_on(&pair[1]))
}

/// One slow episode.
#[derive(Clone, Copy, Debug)]
struct Episode {
    /// Start, in intervals.
    at: f64,
    latency_ns: f64,
}

/// Logarithm of each interval's longest latency divided by the usual one of its class, and that latency; nothing if
/// nothing completed.
fn slowness(intervals: &[Interval]) -> Vec<Option<(f64, f64)>> {
    let usual = CLASSES.map(|class| {
        let longest = intervals.iter().filter_map(|i| of_class(i, class)).filter(|s| s.ios > 0);
        median(&mut longest.map(|s| (s.lat_max_ns.max(1) as f64).ln()).collect::<Vec<_>>())
    });
    let loudest = |interval: &Interval| {
        let of = |(class, usual): (_, &f64)| {
            let stream = of_class(interval, class).filter(|s| s.ios > 0)?;
            Some(((stream.lat_max_ns.max(1) as f64).ln() - usual, stream.lat_max_ns as f64))
        };
        CLASSES.into_iter().zip(&usual).filter_map(of).max_by(|a, b| a.0.total_cmp(&b.0))
    };
    intervals.iter().map(loudest).collect()
}

/// Episodes at or above `level`; intervals without any completion do not end one.
fn episodes(slowness: &[Option<(f64, f64)>], level: f64) -> Vec<Episode> {
    let mut all: Vec<Episode> = Vec::new();
    let mut last = None;
    for (i, (value, latency_ns)) in slowness.iter().enumerate().filter_map(|(i, l)| l.map(|l| (i, l))) {
        if value < level {
            continue;
        }
        let joined = last.is_some_and(|last: usize| slowness[last + 1..i].iter().all(Option::is_none));
        match all.last_mut() {
            Some(episode) if joined => episode.latency_ns = episode.latency_ns.max(latency_ns),
            _ => all.push(Episode { at: i as f64, latency_ns }),
        }
        last = Some(i);
    }
    all
}

/// The best arc of one set of episodes.
struct Arc {
    log_chance: f64,
    period: f64,
    members: Vec<Episode>,
}

/// Finds them in the slowness of time slots of equal length, which begin at `start_ns`.
fn stalls(slowness: &[Option<(f64, f64)>], slot_ns: f64, start_ns: impl Fn(usize) -> f64) -> Option<Periodic> {
    let count = slowness.len();
    let mut sorted: Vec<f64> = slowness.iter().flatten().map(|(value, _)| *value).collect();
    sorted.sort_unstable_by(|a, b| b.total_cmp(a));
    let mut sets: Vec<Vec<Episode>> = Vec::new();
    for slowest in SLOWEST.into_iter().filter(|slowest| slowest * 6 <= count && *slowest <= sorted.len()) {
        let level = sorted[slowest - 1];
        let set = if level >= SLOW_MIN { episodes(slowness, level) } else { Vec::new() };
        if set.len() >= EPISODES_MIN {
            sets.push(set);
        }
    }
    let longest = count as f64 / (EPISODES_MIN - 1) as f64;
    let step = 1.0 + 0.25 / count as f64;
    let trials = (longest / PERIOD_MIN).ln() / step.ln() * (sets.len() * SHARES.len()) as f64;
    let mut best: Option<Arc> = None;
    let mut order = Vec::new();
    for set in &sets {
        let mut period = PERIOD_MIN;
        while period <= longest {
            let least = best.as_ref().map_or(ALARM_STALLS.ln() - trials.ln(), |arc| arc.log_chance);
            if let Some(arc) = arc_of(set, period, least, &mut order) {
                best = Some(arc);
            }
            period *= step;
        }
    }
    let best = best?;
    let mut fitted = fit_line(&best)?;
    let mut latencies: Vec<f64> = best.members.iter().map(|episode| episode.latency_ns).collect();
    fitted.first_ns = start_ns(best.members[0].at as usize);
    (fitted.period_ns, fitted.low_ns, fitted.high_ns) =
        (fitted.period_ns * slot_ns, fitted.low_ns * slot_ns, fitted.high_ns * slot_ns);
    fitted.recurrence = Recurrence::Stalls { latency_ns: median(&mut latencies), episodes: best.members.len() };
    fitted.false_alarm = (best.log_chance + trials.ln()).exp();
    Some(fitted)
}

/// The arc at `period` with the smallest chance, if that is below `least`. `order` is room for the phases of the
/// episodes.
fn arc_of(set: &[Episode], period: f64, least: f64, order: &mut Vec<(f64, usize)>) -> Option<Arc> {
    let total = set.len();
    order.clear();
    order.extend(set.iter().enumerate().map(|(i, e)| ((e.at / period).fract(), i)));
    order.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let phase = |rank: usize| if rank < total { order[rank].0 } else { order[rank - total].0 + 1.0 };
    let log_ways = |of: usize| (total as f64).ln() + ln_binomial(total as u64 - 1, of as u64 - 1);
    let log_chance = |of: usize, width: f64| log_ways(of) + (of - 1) as f64 * width.ln();
    // The width of an arc with this many from which it is not less likely: thousands of arcs are examined, and few are
    // kept.
    let widest = |of: usize, least: f64| ((least - log_ways(of)) / (of - 1) as f64).exp().min(0.5);
    let beside = 1.0 / period;
    let mut best: Option<Arc> = None;
    for share in SHARES {
        let of = ((total as f64 * share).ceil() as usize).max(EPISODES_MIN);
        let mut width_max = widest(of, best.as_ref().map_or(least, |arc| arc.log_chance));
        for begin in 0..total {
            let end = begin + of - 1;
            let width = phase(end) - phase(begin) + beside;
            if width >= width_max {
                continue;
            }
            let mut members: Vec<Episode> = (begin..=end).map(|i| set[order[i % total].1]).collect();
            members.sort_unstable_by(|a, b| a.at.total_cmp(&b.at));
            // Cycles count from the arc's own phase, so that none is cut in two.
            let phase = order[begin].0 * period;
            let cycle = |episode: &Episode| ((episode.at - phase + 0.25) / period).floor();
            members.dedup_by_key(|episode| cycle(episode) as i64);
            let cycles = cycle(&members[members.len() - 1]) - cycle(&members[0]) + 1.0;
            if members.len() < EPISODES_MIN || (members.len() as f64) < OCCUPIED_MIN * cycles {
                continue;
            }
            let chance = log_chance(members.len(), width);
            if chance < best.as_ref().map_or(least, |arc| arc.log_chance) {
                width_max = widest(of, chance);
                best = Some(Arc { log_chance: chance, period, members });
            }
        }
    }
    best
}

/// Period of the members of `arc` by least squares of their times on their cycles, in intervals.
fn fit_line(arc: &Arc) -> Option<Periodic> {
    let first = arc.members[0].at;
    let cycles: Vec<f64> = arc.members.iter().map(|e| ((e.at - first) / arc.period).round()).collect();
    let count = cycles.len() as f64;
    let (mean_cycle, mean_at) =
        (cycles.iter().sum::<f64>() / count, arc.members.iter().map(|e| e.at).sum::<f64>() / count);
    let squares: f64 = cycles.iter().map(|c| (c - mean_cycle).powi(2)).sum();
    let products: f64 = cycles.iter().zip(&arc.members).map(|(c, e)| (c - mean_cycle) * (e.at - mean_at)).sum();
    let period = products / squares;
    let left: f64 =
        cycles.iter().zip(&arc.members).map(|(c, e)| (e.at - mean_at - period * (c - mean_cycle)).powi(2)).sum();
    // A time is known to within an interval, which adds 1/12 to its variance.
    let half = t_975(count - 2.0) * ((left / (count - 2.0) + 1.0 / 12.0) / squares).sqrt();
    Some(Periodic {
        period_ns: period,
        low_ns: (period - half).max(0.0),
        high_ns: period + half,
        first_ns: first,
        cycles: cycles.last().map_or(0, |last| *last as usize + 1),
        recurrence: Recurrence::Swing { factor: 1.0 },
        false_alarm: 1.0,
    })
    .filter(|found| found.period_ns.is_finite() && found.period_ns > 0.0)
}

fn swing(intervals: &[Interval]) -> Option<Periodic> {
    let ops = |class| intervals.iter().filter_map(|i| of_class(i, class)).map(|s| s.ios).sum::<u64>();
    let class = CLASSES.into_iter().max_by_key(|class| ops(*class))?;
    let trace = Trace::new(intervals, class);
    if trace.points.len() < 4 * CYCLES_MIN as usize {
        return None;
    }
    let width_ns = (trace.end_ns() - trace.points[0].start_ns) as f64 / trace.points.len() as f64;
    let found = [trace.rates(), trace.medians()].into_iter().filter_map(|values| swing_of(&values));
    let mut found = found.min_by(|a, b| a.false_alarm.total_cmp(&b.false_alarm))?;
    found.first_ns = trace.points[0].start_ns as f64;
    (found.period_ns, found.low_ns, found.high_ns) =
        (found.period_ns * width_ns, found.low_ns * width_ns, found.high_ns * width_ns);
    Some(found)
}

/// The strongest period of `values`, in points.
fn swing_of(values: &[f64]) -> Option<Periodic> {
    let count = values.len();
    let ranks = ranks(values);
    let power: Vec<f64> = (1..=count).map(|k| power_at(&ranks, k as f64 / (2 * count) as f64)).collect();
    let red = red_noise(&ranks);
    let excess: Vec<f64> = (0..count)
        .map(|i| {
            let mut near = power[i.saturating_sub(NEIGHBOURS)..(i + NEIGHBOURS + 1).min(count)].to_vec();
            power[i] / (median(&mut near) / LN_2).max(red((i + 1) as f64 / (2 * count) as f64)).max(1e-12)
        })
        .collect();
    let (least, most) = (2.0 * CYCLES_MIN, 2.0 * count as f64 / PERIOD_MIN);
    let mut best: Option<(f64, usize)> = None;
    for harmonics in [1usize, 3] {
        for k in least as usize..=(most as usize).min(count) {
            let sum: f64 = (1..=harmonics).filter_map(|h| excess.get(h * k - 1)).sum();
            let chance = gamma_ur(harmonics as f64, sum.max(1e-9)) * 4.0 * (most - least);
            if excess[k - 1] > 3.0 && best.is_none_or(|(least, _)| chance < least) {
                best = Some((chance, k));
            }
        }
    }
    let (chance, strongest) = best.filter(|(chance, _)| *chance <= ALARM_SWING)?;
    // A sharp recurrence has strong harmonics: the period is the longest one of which the strongest is a harmonic.
    let whole = |part: &usize| {
        let near = strongest.div_ceil(*part);
        (near.max(2) - 1..=near).filter(|k| *k as f64 >= least).max_by(|a, b| excess[a - 1].total_cmp(&excess[b - 1]))
    };
    let k = [3, 2].iter().filter_map(whole).find(|k| excess[k - 1] >= HARMONIC_MIN).unwrap_or(strongest);
    let frequency = |offset: f64| (k as f64 + offset) / (2 * count) as f64;
    let peak = (-20..=20)
        .map(|i| frequency(f64::from(i) / 20.0))
        .max_by(|a, b| power_at(&ranks, *a).total_cmp(&power_at(&ranks, *b)))?;
    let factor = fold(values, peak).exp();
    // A frequency is known to within sqrt(6) / (pi T sqrt(z)) / 2 (Bretthorst 1988), where z is the power divided by
    // that of the noise.
    let error = 1.96 * 6f64.sqrt() / (std::f64::consts::PI * count as f64 * (2.0 * excess[k - 1]).sqrt());
    (factor >= SWING_MIN.exp()).then(|| Periodic {
        period_ns: 1.0 / peak,
        low_ns: 1.0 / (peak + error),
        high_ns: 1.0 / (peak - error).max(0.1 * peak),
        first_ns: 0.0,
        cycles: (count as f64 * peak) as usize,
        recurrence: Recurrence::Swing { factor },
        false_alarm: chance,
    })
}

/// Ranks in -0.5..0.5, ties sharing theirs.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    let rank = |v: &f64| sorted.partition_point(|o| o < v) + sorted.partition_point(|o| o <= v);
    values.iter().map(|v| 0.5 * rank(v) as f64 / values.len() as f64 - 0.5).collect()
}

/// Power of `values` at `frequency` (per point): for white noise, its variance.
fn power_at(values: &[f64], frequency: f64) -> f64 {
    let (turn_sin, turn_cos) = (TAU * frequency).sin_cos();
    let (mut sin, mut cos, mut re, mut im) = (0.0, 1.0, 0.0, 0.0);
    for value in values {
        re += value * cos;
        im += value * sin;
        (sin, cos) = (sin * turn_cos + cos * turn_sin, cos * turn_cos - sin * turn_sin);
    }
    (re * re + im * im) / values.len() as f64
}

/// Spectrum of the AR(1) process with the variance and the lag-1 correlation of `values`.
fn red_noise(values: &[f64]) -> impl Fn(f64) -> f64 {
    let power: f64 = values.iter().map(|v| v * v).sum::<f64>() / values.len() as f64;
    let product: f64 = values.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / values.len() as f64;
    let phi = if power > 0.0 { (product / power).clamp(0.0, 0.95) } else { 0.0 };
    move |f| power * (1.0 - phi * phi) / (1.0 - 2.0 * phi * (TAU * f).cos() + phi * phi)
}

/// Highest minus lowest of the medians of the eighths of a period.
fn fold(values: &[f64], frequency: f64) -> f64 {
    let mut eighths: [Vec<f64>; 8] = Default::default();
    for (i, value) in values.iter().enumerate() {
        eighths[((i as f64 * frequency).fract() * 8.0) as usize % 8].push(*value);
    }
    let medians = eighths.iter_mut().filter(|part| !part.is_empty()).map(|part| median(part));
    let (low, high) = medians.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), v| (l.min(v), h.max(v)));
    high - low
}
