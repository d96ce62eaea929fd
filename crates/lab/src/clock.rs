//! The only place in the lab, and in the code that uses it, that reads the time.

use std::time::{Duration, Instant};

/// Now. The product takes its time from `qd1_clock`, so that a simulated disk can replace it; here only real programs
/// are timed, and nothing here may depend on the product.
#[allow(clippy::disallowed_methods, reason = "real programs are timed; there is no virtual time to stand in")]
pub fn now() -> Instant {
    Instant::now()
}

/// Runs `work` and returns how long it took.
pub fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = now();
    let out = work();
    (out, start.elapsed())
}
