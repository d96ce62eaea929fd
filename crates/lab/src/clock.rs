//! The one place of the lab, and of what uses it, that reads time.

use std::time::{Duration, Instant};

/// Now. The product takes its time from `qd1_clock`, so that a simulated disk can stand in; here only real programs are
/// timed, and nothing here may depend on the product.
#[allow(clippy::disallowed_methods, reason = "real programs are timed; there is no virtual time to stand in")]
pub fn now() -> Instant {
    Instant::now()
}

/// Runs `work` and says how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = now();
    let out = work();
    (out, start.elapsed())
}
