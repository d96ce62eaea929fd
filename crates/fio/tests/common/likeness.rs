//! When two lines of a report count as the same.

/// Two lines are the same if their texts are, or if only the last digit of fractions is one off: what we print from
/// was rounded to six digits when fio printed it. Gives how many were.
pub(crate) fn same(ours: &str, theirs: &str, share_differs: bool) -> Option<usize> {
    let split = |line: &str| -> Vec<String> {
        let mut parts = vec![String::new()];
        let mut numeric = false;
        for character in line.chars() {
            let belongs = character.is_ascii_digit() || character == '.';
            if belongs != numeric {
                parts.push(String::new());
                numeric = belongs;
            }
            parts.last_mut().unwrap().push(character);
        }
        parts
    };
    let is_share = |at: usize, parts: &[String]| {
        let before = &parts[at - 1];
        let percent = parts.get(at + 1).is_some_and(|after| after.starts_with('%'));
        before.ends_with("bw_agg\" : ") || before.ends_with("per=") || percent && parts[at].len() > 8
    };
    let (ours, theirs) = (split(ours), split(theirs));
    if ours.len() != theirs.len() {
        return None;
    }
    let mut rounded = 0;
    for at in (0..ours.len()).filter(|at| ours[*at] != theirs[*at]) {
        if share_differs && at > 0 && is_share(at, &ours) {
            continue;
        }
        let (ours, theirs) = (&ours[at], &theirs[at]);
        let places = ours.split_once('.')?.1.len();
        let step = 10f64.powi(-(places as i32));
        let apart = (ours.parse::<f64>().ok()? - theirs.parse::<f64>().ok()?).abs();
        if theirs.split_once('.')?.1.len() != places || apart > 1.5 * step {
            return None;
        }
        rounded += 1;
    }
    Some(rounded)
}
