//! Stable sorting in little code. The standard library's takes 4 to 6 KB of the binary for each type and comparison;
//! here only positions are sorted, by one instance of it. For lists that are sorted once a run or once a report.

use std::cmp::Ordering;

/// Sorts a list, keeping the order of equal elements.
pub trait Order<T> {
    /// Like [`slice::sort_by`].
    fn order_by(&mut self, compare: impl FnMut(&T, &T) -> Ordering);

    /// Like [`slice::sort_by_key`].
    fn order_by_key<K: Ord>(&mut self, mut key: impl FnMut(&T) -> K) {
        self.order_by(|a, b| key(a).cmp(&key(b)));
    }
}

impl<T> Order<T> for [T] {
    fn order_by(&mut self, mut compare: impl FnMut(&T, &T) -> Ordering) {
        let mut order = positions(self.len(), &mut |a, b| compare(&self[a], &self[b]));
        // Each cycle of the permutation is walked once.
        for start in 0..self.len() {
            let mut at = start;
            loop {
                let from = std::mem::replace(&mut order[at], at);
                if from == start {
                    break;
                }
                self.swap(at, from);
                at = from;
            }
        }
    }
}

/// The position in the list of each element of the sorted one.
fn positions(len: usize, compare: &mut dyn FnMut(usize, usize) -> Ordering) -> Vec<usize> {
    let mut order: Vec<usize> = (0..len).collect();
    order.sort_by(|a, b| compare(*a, *b));
    order
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_sorts_as_the_standard_library_does(keys in proptest::collection::vec(0u8..20, 0..200)) {
            let list: Vec<(u8, usize)> = keys.into_iter().enumerate().map(|(at, key)| (key, at)).collect();
            let (mut ours, mut theirs) = (list.clone(), list);
            ours.order_by_key(|(key, _)| *key);
            theirs.sort_by_key(|(key, _)| *key);
            prop_assert_eq!(&ours, &theirs);
            ours.order_by(|a, b| b.0.cmp(&a.0));
            theirs.sort_by_key(|(key, _)| std::cmp::Reverse(*key));
            prop_assert_eq!(ours, theirs);
        }
    }
}
