//! What a trace shows: requests, and syncs with where their time went.

use qd1_trace::{Request, Split, Sync};

/// A request or a sync.
pub(super) enum Item {
    Request(Request),
    Sync(Sync, Box<Split>),
}

impl Item {
    /// Returns when it was completed, ns of CLOCK_MONOTONIC.
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
