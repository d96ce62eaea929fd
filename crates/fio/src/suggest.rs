//! The nearest known name of an unknown one.

/// Longest name that is compared; no option is longer, and the work grows with the square.
const LONGEST: usize = 40;

/// The candidate with the fewest edits from `name`, where that is at most a third of its length.
pub fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.to_ascii_lowercase();
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let allowed = (name.chars().count() / 3).max(1);
    candidates
        .map(|candidate| (edits(&name, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= allowed && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Insertions, deletions, replacements and swaps of neighbours that turn `a` into `b` (optimal string alignment).
fn edits(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before_last = vec![0; b.len() + 1];
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let mut cost = (last[j] + usize::from(from != to)).min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *from == b[j - 1] && a[i - 1] == *to {
                cost = cost.min(before_last[j - 1] + 1);
            }
            row.push(cost);
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
        for (a, b, expected) in [("", "abc", 3), ("iodeph", "iodepth", 1), ("szie", "size", 1), ("a", "a", 0)] {
            assert_eq!(edits(a, b), expected, "{a} {b}");
        }
    }

    #[test]
    fn a_name_like_none_has_no_nearest() {
        let names = ["size", "iodepth"];
        assert_eq!(nearest("SIZ", names.into_iter()), Some("size"));
        assert_eq!(nearest("frobnicate", names.into_iter()), None);
        assert_eq!(nearest("", names.into_iter()), None);
        assert_eq!(nearest(&"s".repeat(1 << 20), names.into_iter()), None);
    }
}
