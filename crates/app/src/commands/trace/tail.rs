//! `--min-lat p99`: what is slower than that percentile of the same kind so far.

use std::collections::HashMap;

use qd1_model::hist::Hist;

/// Fewest of a kind from which a percentile is taken; before that, nothing is shown.
const COUNT_MIN: u64 = 100;

/// The shortest time that is shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// Fixed, ns.
    Ns(u64),
    /// The quantile, from 0 to 1, of the operations of the same kind that ended so far.
    Quantile(f64),
}

impl Bound {
    /// Parses a percentile such as `p99.9`; `None` if it does not look like one.
    pub(super) fn percentile(text: &str) -> Option<Result<Self, String>> {
        let percent = text.strip_prefix(['p', 'P'])?;
        Some(match percent.parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent < 100.0 => Ok(Self::Quantile(percent / 100.0)),
            _ => Err("not a percentile; write for example p99 or p99.9".to_owned()),
        })
    }
}

/// Times of one kind so far.
#[derive(Default)]
struct Seen {
    times: Hist,
    bound_ns: u64,
    /// At how many times the bound is computed again.
    next: u64,
}

/// Times by kind so far.
pub(super) struct Tail {
    quantile: f64,
    seen: HashMap<&'static str, Seen>,
}

impl Tail {
    /// Selects what is slower than this quantile, from 0 to 1.
    pub(super) fn new(quantile: f64) -> Self {
        Self { quantile, seen: HashMap::new() }
    }

    /// Takes the time of one of a kind; returns true if it is in the tail of those before it.
    pub(super) fn takes(&mut self, kind: &'static str, took_ns: u64) -> bool {
        let seen = self.seen.entry(kind).or_default();
        let count = seen.times.count();
        if count >= COUNT_MIN && count >= seen.next {
            seen.bound_ns = seen.times.quantile(self.quantile);
            // Each tenth more changes it little.
            seen.next = count + count / 10;
        }
        seen.times.record(took_ns);
        count >= COUNT_MIN && took_ns > seen.bound_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_hundredth_of_each_kind_is_shown() {
        let mut tail = Tail::new(0.99);
        let shown = |tail: &mut Tail, kind, at: u64| tail.takes(kind, 1_000 * (at * 7919 % 10_007));
        let of_reads = (0..10_000).filter(|at| shown(&mut tail, "read", *at)).count();
        assert!((60..=160).contains(&of_reads), "{of_reads} of 10000");
        assert!(!shown(&mut tail, "write", 0), "the first of its kind");
        assert!(tail.takes("read", 20_000_000));
        assert!(!(1..COUNT_MIN).any(|_| tail.takes("write", 1)));
        assert!(tail.takes("write", 1_000_000) && !tail.takes("write", 1));
    }

    #[test]
    fn percentiles_are_read() {
        assert_eq!(Bound::percentile("p50"), Some(Ok(Bound::Quantile(0.5))));
        assert_eq!(Bound::percentile("10ms"), None);
        for wrong in ["p", "p0", "p100", "p-1", "p99x", "pNaN"] {
            assert!(Bound::percentile(wrong).unwrap().is_err(), "{wrong}");
        }
    }
}
