//! Where a rising line meets a ceiling.
//!
//! Two questions have the same form. Throughput against depth: few requests see the unloaded device, X = N / R0; many
//! see its ceiling, X = C. Bytes per second against block size: small blocks are bound by operations per second,
//! W = I b; large ones by bytes per second, W = B. Both are fitted by
//!
//! ```text
//! y = a x / (1 + (x / b)^p)^(1/p)
//! ```
//!
//! whose asymptotes y = a x and y = a b meet at x = b: for depth this is N* = C R0, the saturation point of a closed
//! queueing network (Denning and Buzen, "The Operational Analysis of Queueing Network Models", 1978); for block size it
//! is B / I. p says how sharp the corner is: p = 1 is the mean-value solution of one server with random service, or a
//! service time with a share for each byte; a hard corner (p = [`HARD`]) is what a token bucket or a fixed service time
//! on c channels gives.
//!
//! The fit is least squares of ln y, each point weighted by its own uncertainty. b and p are searched on a grid, a has
//! a closed form. The interval of b is its profile likelihood: all b whose best fit is not worse than the best of
//! all by more than chi-square (or, where the curve fits worse than the points' spread explains, Student's t) allows.

use qd1_model::Estimate;
use qd1_model::sweep::{Bend, BendState};

use qd1_stats::t_975;

/// One measured point.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
    /// Standard deviation of ln y.
    pub(super) sigma: f64,
}

/// The fit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) bend: Bend,
    /// Rise of the line, y per x.
    pub(super) rise: f64,
    /// The ceiling.
    pub(super) ceiling: f64,
}

/// Step of ln b.
const STEP: f64 = 0.01;
/// How far beyond the measured range b is searched for, ln.
const BEYOND: f64 = 1.4;
/// Stands for a hard corner.
const HARD: f64 = 100.0;
const SHARPNESS: [f64; 9] = [1.0, 1.4, 2.0, 3.0, 4.5, 7.0, 12.0, 30.0, HARD];
/// No device follows the form better than this, and two runs of it do not agree better.
const SIGMA_MIN: f64 = 0.01;
/// A bend this close to the last point, relative, was not really seen.
const NEAR_END: f64 = 0.9;
const NEAR_BEGIN: f64 = 1.05;
/// chi-square of one degree of freedom, 95 %.
const CHI2_95: f64 = 3.841;

/// Fits `points`; `None` for fewer than three, or if one has no throughput.
pub(super) fn fit(points: &[Point]) -> Option<Fit> {
    if points.len() < 3 || points.iter().any(|point| !(point.x > 0.0 && point.y > 0.0)) {
        return None;
    }
    let first = points.iter().map(|point| point.x).fold(f64::INFINITY, f64::min);
    let last = points.iter().map(|point| point.x).fold(0.0, f64::max);
    if last < 2.0 * first {
        return None;
    }
    let (from, steps) = (first.ln() - BEYOND, (((last / first).ln() + 2.0 * BEYOND) / STEP) as usize);
    let mut profile = Vec::with_capacity(steps + 1);
    for step in 0..=steps {
        let b = (from + step as f64 * STEP).exp();
        let best = SHARPNESS.map(|p| Trial::new(points, b, p)).into_iter().min_by(|x, y| x.chi2.total_cmp(&y.chi2))?;
        profile.push(best);
    }
    let at = (0..profile.len()).min_by(|x, y| profile[*x].chi2.total_cmp(&profile[*y].chi2))?;
    let best = profile[at];
    let degrees = (points.len() as f64 - 3.0).max(1.0);
    let scale = best.chi2 / degrees;
    let allowed = best.chi2 + if scale <= 1.0 { CHI2_95 } else { scale * t_975(degrees).powi(2) };
    let low = profile.iter().position(|trial| trial.chi2 <= allowed)?;
    let high = profile.iter().rposition(|trial| trial.chi2 <= allowed)?;
    let open = (low == 0, high == profile.len() - 1);
    let (range, interval) = ((first, last), [profile[low].b, best.b, profile[high].b]);
    let state = state(interval, range, open);
    let bend =
        Bend { state, at: estimate(points.len(), interval, range, state), sharpness: best.p, residual: best.residual };
    Some(Fit { bend, rise: best.rise, ceiling: best.rise * best.b })
}

/// `open`: whether the interval has no end on that side. A bound outside the measured range is not evidence.
fn state([low, b, high]: [f64; 3], (first, last): (f64, f64), open: (bool, bool)) -> BendState {
    match open {
        (true, true) => BendState::NotResolved,
        _ if open.1 || b >= last * NEAR_END => {
            if low > first {
                BendState::AtLeast
            } else {
                BendState::NotResolved
            }
        }
        _ if open.0 || b <= first * NEAR_BEGIN => {
            if high < last {
                BendState::AtMost
            } else {
                BendState::NotResolved
            }
        }
        _ => BendState::Seen,
    }
}

fn estimate(n: usize, [low, b, high]: [f64; 3], (first, last): (f64, f64), state: BendState) -> Estimate {
    let known = Estimate { n: n as u64, n_effective: n as f64, ..Estimate::default() };
    match state {
        BendState::Seen => Estimate { value: Some(b), low: Some(low), high: Some(high), ..known },
        BendState::AtLeast => Estimate { low: Some(low.min(last)), ..known },
        BendState::AtMost => Estimate { high: Some(high.max(first)), ..known },
        BendState::NotResolved => known,
    }
}

/// The best line for one bend and sharpness.
#[derive(Clone, Copy)]
struct Trial {
    b: f64,
    p: f64,
    rise: f64,
    chi2: f64,
    residual: f64,
}

impl Trial {
    fn new(points: &[Point], b: f64, p: f64) -> Self {
        let weight = |point: &Point| point.sigma.max(SIGMA_MIN).powi(-2);
        let rest = |point: &Point| point.y.ln() - shape(point.x, b, p);
        let total: f64 = points.iter().map(weight).sum();
        let level = points.iter().map(|point| weight(point) * rest(point)).sum::<f64>() / total;
        let squares = |weigh: &dyn Fn(&Point) -> f64| -> f64 {
            points.iter().map(|point| weigh(point) * (rest(point) - level).powi(2)).sum()
        };
        let residual = (squares(&|_| 1.0) / points.len() as f64).sqrt();
        Self { b, p, rise: level.exp(), chi2: squares(&weight), residual }
    }
}

/// ln of the form for a = 1.
fn shape(x: f64, b: f64, p: f64) -> f64 {
    if p >= HARD {
        return x.min(b).ln();
    }
    // Above the bend the other factor is extracted so that nothing overflows.
    if x <= b { x.ln() - (x / b).powf(p).ln_1p() / p } else { b.ln() - (b / x).powf(p).ln_1p() / p }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn points(xs: &[f64], y: impl Fn(f64) -> f64) -> Vec<Point> {
        xs.iter().map(|x| Point { x: *x, y: y(*x), sigma: 0.01 }).collect()
    }

    const DEPTHS: [f64; 7] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0];

    fn seen(fit: &Fit) -> f64 {
        assert_eq!(fit.bend.state, BendState::Seen, "{fit:?}");
        fit.bend.at.value.unwrap()
    }

    #[test]
    fn a_hard_corner_is_found_wherever_it_lies_between_the_points() {
        for corner in [2.0, 3.0, 5.0, 8.0, 11.0, 16.0, 27.0, 40.0] {
            let fit = fit(&points(&DEPTHS, |n| n.min(corner) / 100e-6)).unwrap();
            let at = seen(&fit);
            assert!((at / corner - 1.0).abs() < 0.03, "{at} for {corner}");
            assert!((fit.rise * 100e-6 - 1.0).abs() < 0.02 && (fit.ceiling / (corner * 1e4) - 1.0).abs() < 0.03);
            assert!(fit.bend.at.low.unwrap() <= corner * 1.01 && fit.bend.at.high.unwrap() >= corner * 0.99);
        }
    }

    #[test]
    fn a_smooth_curve_bends_where_its_asymptotes_meet() {
        // One server with random service: X = N / (R0 + N / C).
        let fit = fit(&points(&DEPTHS, |n| n / (100e-6 + n / 100e3))).unwrap();
        assert!((seen(&fit) / 10.0 - 1.0).abs() < 0.05 && fit.bend.sharpness < 1.1, "{fit:?}");
    }

    #[test]
    fn a_rising_curve_bends_beyond_its_end_and_a_flat_one_before() {
        let rising = fit(&points(&DEPTHS, |n| n * 1e4)).unwrap().bend;
        assert_eq!(rising.state, BendState::AtLeast);
        assert!(rising.at.value.is_none() && (50.0..=64.0).contains(&rising.at.low.unwrap()), "{rising:?}");
        let flat = fit(&points(&DEPTHS, |_| 1e4)).unwrap().bend;
        assert_eq!(flat.state, BendState::AtMost);
        assert!(flat.at.value.is_none() && (1.0..1.1).contains(&flat.at.high.unwrap()), "{flat:?}");
    }

    #[test]
    fn a_bound_beyond_what_was_measured_is_no_bound() {
        let mut vague = points(&[1.0, 4.0, 16.0, 64.0], |n| n.sqrt());
        vague.iter_mut().for_each(|point| point.sigma = 1.0);
        let bend = fit(&vague).unwrap().bend;
        assert_eq!((bend.state, bend.at.low, bend.at.high), (BendState::NotResolved, None, None));
    }

    #[test]
    fn points_too_few_too_close_or_empty_give_no_fit() {
        assert!(fit(&points(&[1.0, 2.0], |n| n)).is_none());
        assert!(fit(&points(&[10.0, 11.0, 12.0], |n| n)).is_none());
        assert!(fit(&points(&DEPTHS, |_| 0.0)).is_none());
    }

    #[test]
    fn less_certain_points_give_a_wider_interval() {
        let width = |sigma: f64| {
            let mut points = points(&DEPTHS, |n| n.min(10.0));
            points.iter_mut().for_each(|point| point.sigma = sigma);
            let at = fit(&points).unwrap().bend.at;
            (at.high.unwrap() / at.low.unwrap()).ln()
        };
        assert!(width(0.1) > 3.0 * width(0.01));
    }
}
