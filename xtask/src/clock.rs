//! The one place of xtask that reads time.

use std::time::{Duration, Instant};

/// Now. The product takes its time from `qd1_clock`, so that a simulated disk can stand in; xtask only ever
/// times real programs, and must not depend on the product.
#[allow(clippy::disallowed_methods, reason = "xtask times real programs and has no virtual time to stand in")]
pub(crate) fn now() -> Instant {
    Instant::now()
}

/// Runs `work` and says how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = now();
    let out = work();
    (out, start.elapsed())
}
