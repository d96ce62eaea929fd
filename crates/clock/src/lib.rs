//! The one clock: nanoseconds of CLOCK_MONOTONIC, or of the processor's counter scaled to it, and its cost.
//! All other code takes the time as an argument.

#![deny(missing_docs)]

mod tsc;

use rustix::thread::{ClockId, clock_nanosleep_absolute};
use rustix::time::Timespec;

pub use tsc::use_tsc;

/// Returns the time in nanoseconds since an arbitrary start, for occasional readings; an engine keeps a [`Clock`].
pub fn now_ns() -> u64 {
    Clock::new().now_ns()
}

/// The clock as one engine reads it, several times a request.
///
/// Where [`use_tsc`] found the processor's counter trustworthy it is read directly (about 10 ns), else
/// CLOCK_MONOTONIC (about 25 ns). Holds a copy of the scale, so that it is not loaded again for every reading.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    tsc: tsc::Scale,
}

impl Clock {
    /// The clock as calibrated so far: later calls of [`use_tsc`] do not change it.
    pub fn new() -> Self {
        Self { tsc: tsc::scale() }
    }

    /// Now, in nanoseconds; the same as [`now_ns()`].
    #[inline(always)]
    pub fn now_ns(&self) -> u64 {
        match self.tsc.now_ns() {
            Some(now_ns) => now_ns,
            None => monotonic_ns(),
        }
    }
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

/// CLOCK_MONOTONIC, in nanoseconds.
///
/// Uses libc's call rather than rustix's: the latter finds the vDSO itself and does not survive callgrind, with
/// which the cost of a request is counted. Not inlined, to keep it out of the way of the counter.
#[inline(never)]
pub fn monotonic_ns() -> u64 {
    read(libc::CLOCK_MONOTONIC)
}

/// Now, in nanoseconds since the Unix epoch.
pub fn wall_ns() -> u64 {
    read(libc::CLOCK_REALTIME)
}

/// Time since the machine was booted, in nanoseconds, including suspended time.
pub fn boot_ns() -> u64 {
    read(libc::CLOCK_BOOTTIME)
}

#[inline]
fn read(clock: libc::clockid_t) -> u64 {
    let mut time = std::mem::MaybeUninit::<libc::timespec>::uninit();
    // SAFETY: these clocks exist on every Linux, so the call cannot fail and has filled in `time`.
    let time = unsafe {
        libc::clock_gettime(clock, time.as_mut_ptr());
        time.assume_init()
    };
    (time.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(time.tv_nsec as u64)
}

/// Sleeping ends this much early and the rest is spun: the kernel's timer slack is 50 us by default.
const SPIN_NS: u64 = 80_000;

/// Waits until `until_ns`: sleeps, then spins over the last [`SPIN_NS`], so that a request is issued when due.
pub fn sleep_until(until_ns: u64) {
    // An interrupted sleep ends early; the spin below still keeps the promise.
    nap_until(until_ns.saturating_sub(SPIN_NS));
    // No spin_loop(): a hypervisor takes the processor away from guests that execute many of its instructions.
    while now_ns() < until_ns {}
}

/// Sleeps until `until_ns`, or a little less if a signal comes, without spinning: for pauses, whose end is not a
/// request's due time, and where the processor is better left to others.
pub fn nap_until(until_ns: u64) {
    let left_ns = until_ns.saturating_sub(now_ns());
    if left_ns > 0 {
        let wake_ns = monotonic_ns() + left_ns;
        let at = Timespec { tv_sec: (wake_ns / 1_000_000_000) as i64, tv_nsec: (wake_ns % 1_000_000_000) as i64 };
        let _ = clock_nanosleep_absolute(ClockId::Monotonic, &at);
    }
}

/// Cost of one reading in nanoseconds (median of 101 batches of 100), and the smallest step seen, in nanoseconds.
pub fn cost() -> (f64, u64) {
    let clock = Clock::new();
    let mut batches = [0u64; 101];
    let mut step = u64::MAX;
    for batch in &mut batches {
        let begin = clock.now_ns();
        let mut last = begin;
        for _ in 0..100 {
            let now = clock.now_ns();
            if now > last {
                step = step.min(now - last);
            }
            last = now;
        }
        *batch = last - begin;
    }
    batches.sort_unstable();
    (batches[50] as f64 / 100.0, if step == u64::MAX { 0 } else { step })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_does_not_run_backwards_and_costs_something() {
        let first = now_ns();
        assert!(now_ns() >= first);
        assert!(cost().0 > 0.0);
    }

    #[test]
    fn sleeping_never_ends_early() {
        let until = now_ns() + 300_000;
        sleep_until(until);
        assert!(now_ns() >= until);
    }
}
