//! Chooses which requests and syncs are shown, up to a limit, and sums up the shown syncs.

use qd1_model::requests::Sync;
use qd1_trace::{Entry, Event, Syncs};

use super::answer::Answer;
use super::args::Filter;
use super::sink::Sink;
use super::slow::Around;
use super::tail::{Bound, Tail};

/// Most syncs analysed between two readings.
const EXPLAINED_AT_ONCE: usize = 1000;

/// Chooses what is shown, and counts it.
pub(super) struct Shown<'a> {
    filter: Filter<'a>,
    pub(super) sink: Sink<'a>,
    /// Syncs and the events that explain them, if syncs were requested.
    pub(super) syncs: Option<Syncs>,
    pub(super) around: Option<Around>,
    /// Selects by percentile, if that was requested.
    tail: Option<Tail>,
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
            tail: match args.min_lat {
                Some(Bound::Quantile(quantile)) => Some(Tail::new(quantile)),
                _ => None,
            },
            count: 0,
            answer: Answer::default(),
        }
    }

    /// Takes the next event.
    pub(super) fn take(&mut self, event: Event) {
        if let Some(syncs) = &mut self.syncs {
            // With --slow, any sync may have to be shown.
            let (filter, tail, all) = (&self.filter, &mut self.tail, self.around.is_some());
            let mut is_in_tail = |sync: &Sync| tail.as_mut().is_none_or(|tail| tail.takes(sync.call, sync.took_ns));
            syncs.take(event, |sync| all || filter.takes_sync(sync) && is_in_tail(sync));
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
            let entry = Entry::Sync(sync, Box::new(split));
            let is_wanted = self.filter.takes(&entry);
            self.present(entry, is_wanted);
        }
        true
    }

    /// Takes a request, or an explained sync of a recording.
    pub(super) fn show(&mut self, item: Entry) {
        let kind = match &item {
            Entry::Request(request) => request.op().name(),
            Entry::Sync(sync, _) => sync.call,
        };
        let (filter, tail) = (&self.filter, &mut self.tail);
        let is_wanted = filter.takes(&item) && tail.as_mut().is_none_or(|tail| tail.takes(kind, item.total_ns()));
        self.present(item, is_wanted);
    }

    fn present(&mut self, item: Entry, is_wanted: bool) {
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
