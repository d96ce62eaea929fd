//! A one-line summary of what the shown syncs waited for, all together.

use qd1_model::order::Order as _;
use std::collections::HashMap;
use std::fmt::Write as _;

use qd1_model::requests::Sync;
use qd1_model::units::{format_ns, format_share};
use qd1_report::thousands;
use qd1_trace::{Part, Split};

use super::columns::shown_name;

/// Most programs that are named.
const NAMED_MAX: usize = 3;
/// Most programs that are counted.
const COUNTED_MAX: usize = 1000;

/// Sums over the shown syncs.
#[derive(Default)]
pub(super) struct Answer {
    syncs: u64,
    /// Direct reads and writes.
    direct: u64,
    took_ns: u64,
    longest_ns: u64,
    parts_ns: HashMap<&'static str, u64>,
    /// By thread name: during how many syncs it used the disk.
    others: HashMap<String, u64>,
}

impl Answer {
    /// Adds one sync.
    pub(super) fn count(&mut self, sync: &Sync, split: &Split) {
        *(if sync.is_direct() { &mut self.direct } else { &mut self.syncs }) += 1;
        self.took_ns += sync.took_ns;
        self.longest_ns = self.longest_ns.max(sync.took_ns);
        for part in Part::ALL {
            *self.parts_ns.entry(part.name()).or_default() += split.of(part);
        }
        let mut names: Vec<String> = split.others.iter().map(|other| shown_name(&other.asker)).collect();
        names.sort();
        names.dedup();
        for name in names {
            if self.others.len() < COUNTED_MAX || self.others.contains_key(&name) {
                *self.others.entry(name).or_default() += 1;
            }
        }
    }

    /// Returns the summary as text; `None` if neither was shown.
    pub(super) fn words(&self) -> Option<String> {
        let named = |count: u64, name: &str| match count {
            0 => None,
            1 => Some(format!("1 {name}")),
            count => Some(format!("{} {name}s", thousands(count))),
        };
        let counts = [named(self.syncs, "sync"), named(self.direct, "direct call")];
        let counts: Vec<String> = counts.into_iter().flatten().collect();
        if counts.is_empty() {
            return None;
        }
        let longest = format_ns(self.longest_ns as f64);
        let mut text = format!("{} shown, the longest {longest}; they waited for", counts.join(" and "));
        let mut parts: Vec<(&str, f64)> = Part::ALL
            .into_iter()
            .map(|part| (part.name(), self.parts_ns.get(part.name()).copied().unwrap_or(0)))
            .map(|(name, ns)| (name, ns as f64 / self.took_ns.max(1) as f64))
            .filter(|(_, share)| *share >= 0.02)
            .collect();
        parts.order_by(|a, b| b.1.total_cmp(&a.1));
        for (at, (name, share)) in parts.iter().enumerate() {
            let _ = write!(text, "{} {name} {}", if at > 0 { "," } else { "" }, format_share(*share));
        }
        let mut others: Vec<(&String, u64)> = self.others.iter().map(|(name, during)| (name, *during)).collect();
        others.order_by_key(|(name, during)| (std::cmp::Reverse(*during), *name));
        for (at, (name, during)) in others.iter().take(NAMED_MAX).enumerate() {
            let before = if at > 0 { "," } else { "; meanwhile" };
            let _ = write!(text, "{before} {name} (during {})", thousands(*during));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::requests::Asker;
    use qd1_trace::Other;

    use super::*;

    fn asker(name: &str) -> Asker {
        let mut comm = [0; qd1_model::requests::COMM];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        Asker { comm, ..Asker::default() }
    }

    #[test]
    fn it_says_what_was_waited_for_and_who_was_there() {
        let mut answer = Answer::default();
        assert_eq!(answer.words(), None);
        for (took_ms, data_ms, other) in [(100, 90, "backup"), (50, 30, "backup"), (10, 0, "etcd")] {
            let sync = Sync {
                complete_ns: 0,
                took_ns: took_ms * 1_000_000,
                run_delay_ns: 0,
                inode: 1,
                bytes: 0,
                device: (7, 0),
                call: "fsync",
                blkcg: 0,
                asker: asker("dd"),
                errno: 0,
            };
            let mut parts_ns = [0; Part::ALL.len()];
            parts_ns[Part::Data as usize] = data_ms * 1_000_000;
            parts_ns[Part::Unknown as usize] = (took_ms - data_ms) * 1_000_000;
            // A program that appears twice counts once per sync.
            let others = [other, other].map(|name| Other { asker: asker(name), ..Other::default() }).into();
            answer.count(&sync, &Split { parts_ns, others });
        }
        assert_eq!(
            answer.words().unwrap(),
            "3 syncs shown, the longest 100 ms; they waited for data 75 %, unknown 25 %; meanwhile backup (during 2), \
             etcd (during 1)"
        );
    }
}
