//! Suggestions for misspelt names.

/// Longest name that is compared; no option is longer, and the work grows with the square of the length.
const LONGEST: usize = 40;

/// Returns the candidate with the fewest edits from `name`, if those are at most a third of its length.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let allowed = (name.len() / 3).max(1);
    candidates
        .filter(|candidate| candidate.len() <= LONGEST && candidate.len().abs_diff(name.len()) <= allowed)
        .map(|candidate| (edits(name.as_bytes(), candidate.as_bytes()), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string
/// alignment), both at most [`LONGEST`] bytes.
fn edits(a: &[u8], b: &[u8]) -> usize {
    debug_assert!(a.len() <= LONGEST && b.len() <= LONGEST, "longer names are not compared");
    let mut before_last = [0; LONGEST + 1];
    let mut last: [usize; LONGEST + 1] = std::array::from_fn(|index| index);
    for (i, from) in a.iter().enumerate() {
        let mut row = [i + 1; LONGEST + 1];
        for (j, to) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row[j + 1] = cost;
        }
        before_last = last;
        last = row;
    }
    last[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edits_are_counted() {
        for (a, b, expected) in [("", "abc", 3), ("iodeph", "iodepth", 1), ("siez", "size", 1), ("a", "a", 0)] {
            assert_eq!(edits(a.as_bytes(), b.as_bytes()), expected, "{a} {b}");
        }
    }

    #[test]
    fn an_unlike_name_has_no_nearest() {
        let names = ["size", "iodepth"];
        assert_eq!(nearest("SIZES", names.into_iter()), Some("size"));
        assert_eq!(nearest("frobnicate", names.into_iter()), None);
        assert_eq!(nearest("", names.into_iter()), None);
        assert_eq!(nearest(&"s".repeat(1 << 20), names.into_iter()), None);
    }
}
