//! Two programs in turn, round by round, and the statistics of the pairs.

use anyhow::Result;

/// The least, the middle and the greatest of some figures.
pub(super) struct Spread {
    pub(super) min: f64,
    pub(super) median: f64,
    pub(super) max: f64,
}

impl Spread {
    /// Needs at least one figure; without any, all three are NaN, which meets no target.
    pub(super) fn of(figures: impl IntoIterator<Item = f64>) -> Self {
        let mut sorted: Vec<f64> = figures.into_iter().collect();
        sorted.sort_by(f64::total_cmp);
        let n = sorted.len();
        let at = |index: usize| sorted.get(index).copied().unwrap_or(f64::NAN);
        let median = if n % 2 == 1 { at(n / 2) } else { f64::midpoint(at((n / 2).wrapping_sub(1)), at(n / 2)) };
        Self { min: at(0), median, max: at(n.wrapping_sub(1)) }
    }

    /// `min / median / max`, in the given unit's size.
    pub(super) fn shown(&self, unit: f64, digits: usize) -> String {
        let [min, median, max] = [self.min, self.median, self.max].map(|figure| figure / unit);
        format!("{min:.digits$}/{median:.digits$}/{max:.digits$}")
    }
}

/// Runs the peer and ours in turn, `rounds` times; the order changes each round, so that neither a disk that warms up
/// nor a neighbour that becomes active favours one side.
pub(super) fn in_turn<T>(
    rounds: usize,
    peer: impl Fn() -> Result<T>,
    ours: impl Fn() -> Result<T>,
) -> Result<Vec<(T, T)>> {
    let mut pairs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        let first_is_peer = round % 2 == 0;
        let first = if first_is_peer { peer()? } else { ours()? };
        qd1_lab::interrupted()?;
        let second = if first_is_peer { ours()? } else { peer()? };
        qd1_lab::interrupted()?;
        pairs.push(if first_is_peer { (first, second) } else { (second, first) });
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).shown(1.0, 0), "1/2/3");
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).shown(1.0, 1), "1.0/2.5/4.0");
        assert!(Spread::of([]).median.is_nan());
    }

    #[test]
    fn the_first_changes_and_pairs_keep_their_order() {
        let log = RefCell::new(String::new());
        let side = |name: char| {
            log.borrow_mut().push(name);
            Ok(name)
        };
        let pairs = in_turn(3, || side('f'), || side('o')).unwrap();
        assert_eq!(log.borrow().as_str(), "fooffo");
        assert_eq!(pairs, [('f', 'o'); 3]);
    }
}
