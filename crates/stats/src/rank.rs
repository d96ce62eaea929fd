//! Which ranks of a sorted sample enclose a quantile with 95 % confidence.
//!
//! The k-th of n sorted values, seen through the distribution function, is Beta(k, n+1-k) distributed; so the
//! rank l with P(Beta(l, n+1-l) <= q) = 97.5 % is the lower limit of a two-sided 95 % interval and the rank u
//! with 2.5 % the upper one (Hahn and Meeker, Statistical Intervals, 2nd edition, section 5.2). Whole ranks
//! cover too much, up to 99 % where few samples lie beyond the quantile; *fractional* ranks, interpolated between
//! neighbours, cover nearly 95 % (Hutson 1999, "Calculating nonparametric confidence intervals for quantiles
//! using fractional order statistics").

use statrs::function::gamma::ln_gamma;

/// Chance left on each side of the interval.
const TAIL: f64 = 0.025;

/// Fractional ranks as shares of n + 1, both in 0..1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Ranks {
    /// Lower limit; absent if even the smallest value is not certainly below.
    pub(crate) low: Option<f64>,
    /// Upper limit; absent if even the largest value is not certainly above.
    pub(crate) high: Option<f64>,
}

/// Samples that an interval around quantile `q` needs: the largest of n lies above the quantile with 97.5 %
/// probability, 1 - q^n >= 0.975, and the smallest lies below it likewise. 6 for the median, 368 for p99, 3,688 for
/// p99.9.
pub(crate) fn samples_needed(q: f64) -> f64 {
    let extreme = q.max(1.0 - q).clamp(0.5, 1.0 - 1e-12);
    (TAIL.ln() / extreme.ln()).ceil()
}

/// Ranks that enclose quantile `q` of `n` independent samples (`n` may be fractional: an effective number).
pub(crate) fn enclosing(n: f64, q: f64) -> Ranks {
    let high = (q.powf(n) <= TAIL).then(|| solve(n, q, TAIL) / (n + 1.0));
    let low = ((1.0 - q).powf(n) <= TAIL).then(|| solve(n, q, 1.0 - TAIL) / (n + 1.0));
    Ranks { low, high }
}

/// Relative precision of a rank: far better than that of the values.
const ACCURACY: f64 = 1e-11;

/// The rank k at which P(Beta(k, n+1-k) <= q) = `chance`: it falls as k rises, so bisection finds it.
fn solve(n: f64, q: f64, chance: f64) -> f64 {
    let spread = 8.0 * (n * q * (1.0 - q)).sqrt() + 8.0;
    let (mut low, mut high) = ((n * q - spread).max(1e-9), (n * q + spread).min(n + 1.0 - 1e-9));
    while high - low > ACCURACY * high {
        let middle = 0.5 * (low + high);
        if beta_cdf(middle, n + 1.0 - middle, q) > chance {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

/// Distribution function of Beta(a, b) at x: the continued fraction of NIST DLMF 8.17.22, evaluated by Lentz's
/// method. statrs' own stops after 140 terms, too few for the 10^6 samples of a fast disk.
fn beta_cdf(a: f64, b: f64, x: f64) -> f64 {
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_cdf(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp() / a;
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let (mut c, mut d) = (1.0, 1.0 / guard(1.0 - (a + b) * x / (a + 1.0)));
    let mut fraction = d;
    for step in 1..20_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        fraction *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let change = d * c;
        fraction *= change;
        if (change - 1.0).abs() < 1e-12 {
            break;
        }
    }
    front * fraction
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_of_thumb_numbers_come_out() {
        assert_eq!(samples_needed(0.5), 6.0);
        assert_eq!(samples_needed(0.99), 368.0);
        assert_eq!(samples_needed(0.999), 3688.0);
    }

    #[test]
    fn ranks_of_a_hundred_agree_with_hahn_and_meeker() {
        // Their table for n = 100, median: order statistics 40 and 61 enclose it with 95 %; fractional ranks lie
        // just inside.
        let ranks = enclosing(100.0, 0.5);
        let (low, high) = (ranks.low.unwrap() * 101.0, ranks.high.unwrap() * 101.0);
        assert!((40.0..41.0).contains(&low), "{low}");
        assert!((60.0..61.0).contains(&high), "{high}");
    }

    #[test]
    fn an_upper_limit_beyond_the_largest_value_is_not_invented() {
        assert_eq!(enclosing(300.0, 0.99).high, None);
        assert!(enclosing(400.0, 0.99).high.is_some());
    }

    #[test]
    fn a_million_samples_are_no_harder_than_a_hundred() {
        let n = 1e6;
        let ranks = enclosing(n, 0.99);
        let expected = 1.96 * (0.99 * 0.01 / n).sqrt();
        assert!((ranks.high.unwrap() - 0.99 - expected).abs() < 0.03 * expected);
        assert!((0.99 - ranks.low.unwrap() - expected).abs() < 0.03 * expected);
    }
}
