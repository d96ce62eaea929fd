//! Drift: a figure that creeps, instead of stepping, over a whole step.
//!
//! Slope: the median of the slopes of all pairs of points (Theil 1950; Sen 1968) of the logarithm against time, on at
//! most [`POINTS`] block medians; up to 29 % wild points do not move it. Its 95 % interval: residuals are resampled in
//! blocks (moving block bootstrap, Kunsch 1989) and the slope is taken [`REPEATS`] times. Blocks are as long as the
//! dependence requires (n^(1/3) times the variance inflation, at most an eighth). A short, strongly dependent series
//! has too few blocks for this to be wide enough, so the interval is at least that of a regression with the long-run
//! variance of the residuals ([`crate`]).

use super::segment::inflation;
use super::trace::median;
use crate::long_run::long_run;
use crate::random::Random;

/// Largest number of points from which a slope is computed.
const POINTS: usize = 64;
/// Smallest number of points.
const POINTS_MIN: usize = 24;
/// Repeats of the bootstrap.
const REPEATS: usize = 199;

/// A creeping figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// Factor from the start to the end of the step: 0.8 says that it fell by a fifth.
    pub factor: f64,
    /// Lower 95 % limit.
    pub low: f64,
    /// Upper 95 % limit.
    pub high: f64,
}

/// Drift of `values`, logarithms at equal distances; `None` if they are few, or move over the whole by less than
/// `least` (a logarithm) or than `certain` half widths of the interval. The bootstrap is skipped if the regression's
/// interval, which is the minimum, is too wide for that: it takes the most time.
pub(super) fn drift(values: &[f64], least: f64, certain: f64) -> Option<Drift> {
    let merge = values.len().div_ceil(POINTS).max(1);
    let y: Vec<f64> = values.chunks_exact(merge).map(|chunk| median(&mut chunk.to_vec())).collect();
    let count = y.len();
    if count < POINTS_MIN {
        return None;
    }
    let slope = slope_of(&y);
    if (slope * count as f64).abs() < least {
        return None;
    }
    let residuals = residuals_of(&y, slope);
    let of_regression = regression_half_width(&residuals)?;
    if slope.abs() < certain * of_regression {
        return None;
    }
    let longest = (count / 8).max(1);
    let block = ((count as f64).cbrt() * inflation(&residuals)).ceil().clamp(1.0, longest as f64) as usize;
    let mut random = Random::new(count as u64);
    let mut slopes: Vec<f64> = (0..REPEATS)
        .map(|_| {
            let mut drawn = Vec::with_capacity(count + block);
            while drawn.len() < count {
                let from = (random.uniform() * (count - block + 1) as f64) as usize;
                drawn.extend_from_slice(&residuals[from..(from + block).min(count)]);
            }
            drawn.truncate(count);
            slope_of(&drawn)
        })
        .collect();
    slopes.sort_unstable_by(f64::total_cmp);
    let bootstrap = slopes[REPEATS / 40].abs().max(slopes[REPEATS - 1 - REPEATS / 40].abs());
    let half = bootstrap.max(of_regression);
    if slope.abs() < certain * half {
        return None;
    }
    let whole = count as f64;
    Some(Drift {
        factor: (slope * whole).exp(),
        low: ((slope - half) * whole).exp(),
        high: ((slope + half) * whole).exp(),
    })
}

/// Median of the slopes of all pairs.
fn slope_of(y: &[f64]) -> f64 {
    let mut slopes: Vec<f64> =
        (0..y.len()).flat_map(|i| (i + 1..y.len()).map(move |j| (y[j] - y[i]) / (j - i) as f64)).collect();
    median(&mut slopes)
}

/// The residuals of the line through the medians, with median 0.
fn residuals_of(y: &[f64], slope: f64) -> Vec<f64> {
    let mut left: Vec<f64> = y.iter().enumerate().map(|(i, v)| v - slope * i as f64).collect();
    let middle = median(&mut left.clone());
    left.iter_mut().for_each(|v| *v -= middle);
    left
}

/// Half width of the slope of a least-squares line with the long-run variance of `residuals`.
fn regression_half_width(residuals: &[f64]) -> Option<f64> {
    let count = residuals.len() as f64;
    let mean = residuals.iter().sum::<f64>() / count;
    let centred: Vec<f64> = residuals.iter().map(|v| v - mean).collect();
    let run = long_run(&centred)?;
    // `variance` is that of the sum; the slope's is 12 sigma^2 / n^3.
    Some(run.t_975() * (12.0 * run.variance / count / count).sqrt() / count)
}

/// Sum of the absolute deviations of `values` from their Theil-Sen line.
pub(super) fn misfit_of_line(values: &[f64]) -> f64 {
    let merge = values.len().div_ceil(POINTS).max(1);
    let y: Vec<f64> = values.chunks_exact(merge).map(|chunk| median(&mut chunk.to_vec())).collect();
    residuals_of(values, slope_of(&y) / merge as f64).iter().map(|v| v.abs()).sum()
}

/// Sum of the absolute deviations of `values` from the medians between `changes`.
pub(super) fn misfit_of_steps(values: &[f64], changes: &[usize]) -> f64 {
    let mut ends = vec![0];
    ends.extend(changes);
    ends.push(values.len());
    ends.windows(2)
        .map(|pair| {
            let part = &values[pair[0]..pair[1]];
            let middle = median(&mut part.to_vec());
            part.iter().map(|v| (v - middle).abs()).sum::<f64>()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn noise(count: usize, seed: u64) -> Vec<f64> {
        let mut random = Random::new(seed);
        (0..count).map(|_| 0.1 * random.normal()).collect()
    }

    #[test]
    fn a_slope_is_found_though_a_tenth_of_the_points_are_wild() {
        let mut values: Vec<f64> = noise(300, 2).iter().enumerate().map(|(i, v)| v - 0.3 * i as f64 / 300.0).collect();
        values.iter_mut().step_by(10).for_each(|v| *v -= 5.0);
        let found = drift(&values, 0.0, 0.0).unwrap();
        assert!((found.factor / (-0.3f64).exp() - 1.0).abs() < 0.06, "{found:?}");
        assert!(found.low < (-0.3f64).exp() && (-0.3f64).exp() < found.high && found.high < 1.0, "{found:?}");
    }

    #[test]
    fn a_line_fits_a_slope_and_steps_fit_a_step() {
        let sloping: Vec<f64> = noise(300, 3).iter().enumerate().map(|(i, v)| v + i as f64 / 300.0).collect();
        assert!(misfit_of_line(&sloping) < misfit_of_steps(&sloping, &[150]));
        let stepped: Vec<f64> = noise(300, 4).iter().enumerate().map(|(i, v)| v + f64::from(i >= 150)).collect();
        assert!(misfit_of_steps(&stepped, &[150]) < 0.8 * misfit_of_line(&stepped));
    }
}
