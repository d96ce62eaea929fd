//! Chooses which requests and syncs are shown, up to a limit, and sums up the shown syncs.

use qd1_trace::{Entry, Event, Syncs};

use super::answer::Answer;
use super::args::Filter;
use super::sink::Sink;
use super::slow::Around;

/// Most syncs analysed between two readings.
const EXPLAINED_AT_ONCE: usize = 1000;

/// Chooses what is shown, and counts it.
pub(super) struct Shown<'a> {
    filter: Filter<'a>,
    pub(super) sink: Sink<'a>,
    /// Syncs and the events that explain them, if syncs were requested.
    pub(super) syncs: Option<Syncs>,
    pub(super) around: Option<Around>,
    /// Requests and syncs that were shown.
    pub(super) count: u64,
    /// A summary of the shown syncs.
    pub(super) answer: Answer,
}

impl<'a> Shown<'a> {
    /// Shows what the filter selects.
    pub(super) fn new(filter: Filter<'a>, sink: Sink<'a>) -> Self {
        let args = filter.args;
        Self {
            filter,
            sink,
            syncs: args.has_syncs().then(Syncs::default),
            around: args.slow.map(Around::new),
            count: 0,
            answer: Answer::default(),
        }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: Event) {
        if let Some(syncs) = &mut self.syncs {
            // With --slow, any sync may have to be shown.
            let (filter, all) = (&self.filter, self.around.is_some());
            syncs.take(event, |sync| all || filter.takes_sync(sync));
        }
        if let Event::Request(request) = event {
            self.show(Entry::Request(request));
        }
    }

    /// Shows some of the syncs that ended before `now_ns`, up to the line limit. Returns true if there may be more.
    pub(super) fn explain(&mut self, now_ns: u64) -> bool {
        for _ in 0..EXPLAINED_AT_ONCE {
            let next =
                if self.is_full() { None } else { self.syncs.as_mut().and_then(|syncs| syncs.next_explained(now_ns)) };
            let Some((sync, split)) = next else { return false };
            self.show(Entry::Sync(sync, Box::new(split)));
        }
        true
    }

    pub(super) fn show(&mut self, item: Entry) {
        let (sink, count, most) = (&mut self.sink, &mut self.count, self.filter.args.count);
        let answer = &mut self.answer;
        let mut show = |item: &Entry| {
            if most.is_none_or(|most| *count < most) {
                *count += u64::from(sink.push(item));
                if let Entry::Sync(sync, split) = item {
                    answer.count(sync, split);
                }
            }
        };
        let is_wanted = self.filter.takes(&item);
        match &mut self.around {
            Some(around) => around.take(item, is_wanted, show),
            None if is_wanted => show(&item),
            None => {}
        }
    }

    pub(super) fn is_full(&self) -> bool {
        self.filter.args.count.is_some_and(|count| self.count >= count)
    }
}
