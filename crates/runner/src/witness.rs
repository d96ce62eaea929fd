//! Who else used the disk during a step, as far as somebody watches it.

use std::collections::HashMap;

use qd1_model::Bytes;
use qd1_model::record::OtherUser;

/// Knows what other programs do on the disk. The runner does not know how.
pub trait Witness {
    /// Returns what other programs have done so far, in any order.
    fn others(&self) -> Vec<OtherUser>;
}

/// Returns what they did between two readings, by name, busiest first.
pub(crate) fn between(before: &[OtherUser], now: Vec<OtherUser>) -> Vec<OtherUser> {
    let before: HashMap<u32, &OtherUser> = before.iter().map(|before| (before.pid, before)).collect();
    let less = |now: Bytes, before: Bytes| Bytes(now.0.saturating_sub(before.0));
    let mut others = Vec::new();
    for mut now in now {
        if let Some(before) = before.get(&now.pid) {
            now.requests = now.requests.saturating_sub(before.requests);
            now.read_bytes = less(now.read_bytes, before.read_bytes);
            now.written_bytes = less(now.written_bytes, before.written_bytes);
            now.changed_bytes = less(now.changed_bytes, before.changed_bytes);
        }
        if now.bytes() > 0 {
            now.add_to(&mut others);
        }
    }
    OtherUser::keep_busiest(&mut others);
    others
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_done_in_between_counts() {
        let user = |pid, read, changed| OtherUser {
            comm: format!("program{}", pid % 3),
            pid,
            processes: 1,
            requests: 1,
            read_bytes: Bytes(read),
            changed_bytes: Bytes(changed),
            ..OtherUser::default()
        };
        let before = [user(1, 10, 0), user(2, 5, 5)];
        let now = vec![user(1, 10, 0), user(2, 5, 9), user(3, 100, 0), user(6, 200, 0)];
        let found: Vec<_> =
            between(&before, now).iter().map(|other| (other.pid, other.bytes(), other.processes)).collect();
        assert_eq!(found, [(6, 300, 2), (2, 4, 1)]);
    }
}
