//! What a trace shows: a request, or a sync with where its time went.

use qd1_trace::{Request, Split, Sync};

/// One of them.
pub(super) enum Item {
    Request(Request),
    Sync(Sync, Box<Split>),
}

impl Item {
    /// Returns when it was complete, ns of CLOCK_MONOTONIC.
    pub(super) const fn complete_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.complete_ns,
            Self::Sync(sync, _) => sync.complete_ns,
        }
    }

    /// Returns how long it took in all, ns.
    pub(super) fn total_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.total_ns(),
            Self::Sync(sync, _) => sync.took_ns,
        }
    }
}
