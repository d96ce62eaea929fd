//! A host's read cache in front of the device: the page cache of a hypervisor, or the memory of a controller or storage
//! server. The least recently used line is evicted first.

use std::collections::{HashMap, VecDeque};

use super::Service;

/// A read cache.
#[derive(Clone, Debug, PartialEq)]
pub struct HostCache {
    /// Bytes it holds.
    pub capacity: u64,
    /// Size of a line, bytes; a miss reads whole lines.
    pub line: u64,
    /// Time to answer from it.
    pub hit: Service,
    /// Whether written data stays in it as well.
    pub fill_on_write: bool,
}

/// The lines it holds.
#[derive(Debug)]
pub(super) struct CacheLines {
    lines_max: u64,
    line: u64,
    /// Line, and when it was last used.
    used: HashMap<u64, u64>,
    /// (when, line) in the order of use; an entry whose line was used later is stale.
    order: VecDeque<(u64, u64)>,
    clock: u64,
}

impl CacheLines {
    pub(super) fn new(cache: &HostCache) -> Self {
        let line = cache.line.max(512);
        Self { lines_max: (cache.capacity / line).max(1), line, used: HashMap::new(), order: VecDeque::new(), clock: 0 }
    }

    fn lines(&self, offset: u64, len: u32) -> std::ops::Range<u64> {
        offset / self.line..(offset + u64::from(len)).div_ceil(self.line)
    }

    /// Whether a whole range is cached.
    pub(super) fn holds(&self, offset: u64, len: u32) -> bool {
        self.lines(offset, len).all(|line| self.used.contains_key(&line))
    }

    /// Caches a range, or notes that it was used again.
    pub(super) fn touch(&mut self, offset: u64, len: u32) {
        for line in self.lines(offset, len) {
            self.clock += 1;
            self.used.insert(line, self.clock);
            self.order.push_back((self.clock, line));
            while self.used.len() as u64 > self.lines_max {
                self.drop_oldest();
            }
        }
        if self.order.len() > 4 * self.used.len() + 1024 {
            let used = &self.used;
            self.order.retain(|(at, line)| used.get(line) == Some(at));
        }
    }

    fn drop_oldest(&mut self) {
        while let Some((at, line)) = self.order.pop_front() {
            if self.used.get(&line) == Some(&at) {
                self.used.remove(&line);
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_line_goes_first() {
        let cache =
            HostCache { capacity: 3 * 4096, line: 4096, hit: Service::log_normal(1.0, 0.0), fill_on_write: false };
        let mut held = CacheLines::new(&cache);
        [0, 1, 2, 0, 3].iter().for_each(|line| held.touch(line * 4096, 4096));
        assert_eq!([0, 1, 2, 3].map(|line| held.holds(line * 4096, 4096)), [true, false, true, true]);
        assert!(!held.holds(0, 8192), "half of it is gone");
    }

    #[test]
    fn what_is_used_again_and_again_takes_no_more_room() {
        let cache =
            HostCache { capacity: 1 << 20, line: 4096, hit: Service::log_normal(1.0, 0.0), fill_on_write: false };
        let mut held = CacheLines::new(&cache);
        (0..100_000u64).for_each(|n| held.touch(n % 100 * 4096, 4096));
        assert!(held.order.len() < 2000 && held.used.len() == 100);
    }
}
