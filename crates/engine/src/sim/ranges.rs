//! Which bytes of a device have been touched: merged ranges, so that a file written from start to end is a single
//! range.

use std::collections::BTreeMap;

/// Ranges of bytes.
#[derive(Clone, Debug, Default)]
pub(super) struct Ranges(BTreeMap<u64, u64>);

impl Ranges {
    /// Adds `start..end`, merging what it touches.
    pub(super) fn insert(&mut self, start: u64, end: u64) {
        let (mut start, mut end) = (start, end);
        while let Some((known, known_end)) = self.0.range(..=end).next_back().map(|(at, end)| (*at, *end)) {
            if known_end < start {
                break;
            }
            (start, end) = (start.min(known), end.max(known_end));
            self.0.remove(&known);
        }
        self.0.insert(start, end);
    }

    /// Whether any byte of `start..end` is in a range.
    pub(super) fn touches(&self, start: u64, end: u64) -> bool {
        self.0.range(..end).next_back().is_some_and(|(_, known_end)| *known_end > start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_merge_and_are_found_by_any_of_their_bytes() {
        let mut ranges = Ranges::default();
        ranges.insert(100, 200);
        ranges.insert(300, 400);
        assert!(ranges.touches(199, 250) && !ranges.touches(200, 300) && ranges.touches(0, 101));
        ranges.insert(200, 300);
        assert_eq!(ranges.0.len(), 1);
        assert!(ranges.touches(250, 251) && !ranges.touches(400, 500) && !ranges.touches(0, 100));
        ranges.insert(0, 1000);
        ranges.insert(5000, 5001);
        assert_eq!(ranges.0.len(), 2);
    }
}
