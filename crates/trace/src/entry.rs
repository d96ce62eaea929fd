//! What a trace consists of: requests, and syncs with where their time went.

use qd1_model::requests::{Request, Sync};

use crate::split::Split;

/// A request or a sync.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// A completed request.
    Request(Request),
    /// A sync that is over.
    Sync(Sync, Box<Split>),
}

impl Entry {
    /// Returns when it was completed, ns on the clock of its trace.
    #[must_use]
    pub const fn complete_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.complete_ns,
            Self::Sync(sync, _) => sync.complete_ns,
        }
    }

    /// Returns how long it took in all, ns.
    #[must_use]
    pub fn total_ns(&self) -> u64 {
        match self {
            Self::Request(request) => request.total_ns(),
            Self::Sync(sync, _) => sync.took_ns,
        }
    }
}
