//! What happened around slow requests: the last two seconds are kept, and shown once a request is slow.

use std::collections::VecDeque;

use qd1_trace::Entry;

/// How much is shown before and after a slow request, ns.
const AROUND_NS: u64 = 2_000_000_000;
/// Most requests and syncs that are kept: about 20 MB.
const KEPT_MAX: usize = 200_000;

/// The requests and syncs of the last two seconds.
pub(super) struct Around {
    slow_ns: u64,
    kept: VecDeque<Entry>,
    /// After a slow request: until when everything is shown.
    until_ns: Option<u64>,
    /// Most items that are kept.
    room: usize,
    /// Completion time of the last item that was dropped for lack of room.
    evicted_ns: Option<u64>,
    /// Slow requests for which the two seconds before are incomplete.
    cut_short: u64,
    /// Slow requests.
    slow: u64,
}

impl Around {
    /// Looks for requests that took at least `slow_ns`.
    pub(super) fn new(slow_ns: u64) -> Self {
        Self { slow_ns, kept: VecDeque::new(), until_ns: None, room: KEPT_MAX, evicted_ns: None, cut_short: 0, slow: 0 }
    }

    /// Takes the next item and calls `show` for each item to show. Only an item that `counts` can be slow.
    pub(super) fn take(&mut self, item: Entry, counts: bool, mut show: impl FnMut(&Entry)) {
        let now_ns = item.complete_ns();
        if counts && item.total_ns() >= self.slow_ns {
            self.slow += 1;
            self.cut_short += u64::from(self.evicted_ns.is_some_and(|evicted_ns| evicted_ns + AROUND_NS >= now_ns));
            self.kept.drain(..).filter(|kept| kept.complete_ns() + AROUND_NS >= now_ns).for_each(|kept| show(&kept));
            self.until_ns = Some(now_ns.saturating_add(AROUND_NS));
        }
        if self.until_ns.is_some_and(|until_ns| now_ns <= until_ns) {
            show(&item);
            return;
        }
        while self.kept.front().is_some_and(|kept| kept.complete_ns() + AROUND_NS < now_ns) {
            self.kept.pop_front();
        }
        if self.kept.len() >= self.room {
            self.evicted_ns = self.kept.pop_front().map(|oldest| oldest.complete_ns());
        }
        self.kept.push_back(item);
    }

    /// Returns how many requests were slow.
    pub(super) const fn slow(&self) -> u64 {
        self.slow
    }

    /// Returns for how many slow requests the two seconds before are incomplete, for lack of room.
    pub(super) const fn cut_short(&self) -> u64 {
        self.cut_short
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::requests::{Asker, Request};

    use super::*;

    fn request(complete_ms: u64, took_ms: u64) -> Entry {
        Entry::Request(Request {
            complete_ns: complete_ms * 1_000_000,
            queue_ns: Some(0),
            device_ns: took_ms * 1_000_000,
            sector: 0,
            bytes: 4096,
            device: (7, 0),
            flags: 0,
            asker: Asker::default(),
            blkcg: 0,
            errno: 0,
        })
    }

    #[test]
    fn two_seconds_before_and_after_a_slow_request_are_shown() {
        let mut around = Around::new(50_000_000);
        let mut shown = Vec::new();
        for (at_ms, took_ms) in
            [(0, 1), (900, 1), (2_000, 1), (2_950, 60), (3_000, 1), (4_900, 1), (5_000, 1), (9_000, 1)]
        {
            around.take(request(at_ms, took_ms), true, |item| shown.push(item.complete_ns() / 1_000_000));
        }
        assert_eq!(shown, [2_000, 2_950, 3_000, 4_900]);
        assert_eq!((around.cut_short(), around.slow()), (0, 1));
    }

    #[test]
    fn what_had_no_room_is_said_where_it_was_near_a_slow_request() {
        let mut around = Around { room: 3, ..Around::new(50_000_000) };
        let mut shown = Vec::new();
        // Four requests in the two seconds before a slow one, but room for three; long after that, nothing is missing.
        for (at_ms, took_ms) in [(0, 1), (100, 1), (200, 1), (300, 1), (400, 60), (9_000, 1), (9_100, 60)] {
            around.take(request(at_ms, took_ms), true, |item| shown.push(item.complete_ns() / 1_000_000));
        }
        assert_eq!(shown, [100, 200, 300, 400, 9_000, 9_100]);
        assert_eq!((around.cut_short(), around.slow()), (1, 2));
    }
}
