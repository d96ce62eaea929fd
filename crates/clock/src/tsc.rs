//! The processor's time-stamp counter as a clock, where the kernel itself trusts it.
//!
//! A reading costs 10 ns instead of 25, which at 600,000 requests a second is 3 % of a core. The scale is found
//! once, against CLOCK_MONOTONIC; over the 20 ms that takes, the error of two bracketed readings (about 50 ns) is
//! 3 parts in a million of any latency.

use std::sync::atomic::{AtomicU64, Ordering};

/// [`Scale::per_tick`]; written last.
static PER_TICK: AtomicU64 = AtomicU64::new(0);
/// [`Scale::offset_ns`].
static OFFSET_NS: AtomicU64 = AtomicU64::new(0);

/// How long it takes to measure the scale.
const CALIBRATION_NS: u64 = 20_000_000;

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn ticks() -> u64 {
    // SAFETY: every x86-64 processor has the instruction; a system that traps it (PR_SET_TSC) kills the
    // process, and one that emulates it is not using it as its clock source, which `use_tsc` asks for.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn ticks() -> u64 {
    0
}

/// How ticks become nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// Nanoseconds per tick in units of 2^-64, so that the high half of one multiplication is the time; 0 while
    /// CLOCK_MONOTONIC is used.
    per_tick: u64,
    /// What is added, modulo 2^64, to agree with CLOCK_MONOTONIC at calibration.
    offset_ns: u64,
}

/// The scale found by [`use_tsc`].
pub(super) fn scale() -> Scale {
    let per_tick = PER_TICK.load(Ordering::Acquire);
    Scale { per_tick, offset_ns: OFFSET_NS.load(Ordering::Relaxed) }
}

impl Scale {
    #[inline(always)]
    pub(super) fn now_ns(&self) -> Option<u64> {
        (self.per_tick != 0).then(|| scaled(ticks(), self.per_tick).wrapping_add(self.offset_ns))
    }
}

#[inline(always)]
fn scaled(ticks: u64, per_tick: u64) -> u64 {
    ((u128::from(ticks) * u128::from(per_tick)) >> 64) as u64
}

/// A pair of readings of both clocks, taken as close together as eleven attempts allow.
fn pair() -> (u64, u64) {
    (0..11)
        .map(|_| {
            let before = ticks();
            let ns = super::monotonic_ns();
            let after = ticks();
            (after.wrapping_sub(before), before.wrapping_add(after.wrapping_sub(before) / 2), ns)
        })
        .min()
        .map_or((0, 0), |(_, ticks, ns)| (ticks, ns))
}

/// Reads the processor's counter from now on if `clocksource`, the kernel's, is `tsc`: the kernel has then
/// checked that it is constant, keeps running during sleep and agrees between processors. Call it once, before any
/// worker starts; takes 20 ms. Returns whether it is used.
pub fn use_tsc(clocksource: &str) -> bool {
    let used = PER_TICK.load(Ordering::Acquire) != 0;
    if used || clocksource != "tsc" || !cfg!(target_arch = "x86_64") {
        return used;
    }
    let (ticks_before, ns_before) = pair();
    while super::monotonic_ns() < ns_before + CALIBRATION_NS {
        std::thread::sleep(std::time::Duration::from_millis(2));
    }
    let (ticks_after, ns_after) = pair();
    let ticks = ticks_after.wrapping_sub(ticks_before);
    let per_tick = (u128::from(ns_after - ns_before) << 64) / u128::from(ticks.max(1));
    // Between 1 GHz (a slower counter's nanoseconds per tick do not fit) and 20 GHz; anything else is not a counter
    // we understand.
    let Some(per_tick) = u64::try_from(per_tick).ok().filter(|per_tick| *per_tick >= u64::MAX / 20) else {
        return false;
    };
    OFFSET_NS.store(ns_after.wrapping_sub(scaled(ticks_after, per_tick)), Ordering::Relaxed);
    PER_TICK.store(per_tick, Ordering::Release);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    // A single test, since there is a single counter.
    #[test]
    fn the_counter_keeps_to_the_monotonic_clock_within_1e_3() {
        assert!(!use_tsc("hpet"), "a source that is not trusted is not used");
        let source = std::fs::read_to_string("/sys/devices/system/clocksource/clocksource0/current_clocksource");
        if !use_tsc(source.unwrap_or_default().trim()) {
            return; // Not the kernel's clock source here: nothing to compare.
        }
        let begin = pair();
        std::thread::sleep(std::time::Duration::from_millis(200));
        let end = pair();
        let counted_ns = scaled(end.0 - begin.0, scale().per_tick);
        let spent_ns = end.1 - begin.1;
        // Network time synchronisation adjusts the monotonic clock by up to 5e-4.
        assert!((counted_ns as f64 / spent_ns as f64 - 1.0).abs() < 1e-3, "{counted_ns} ns against {spent_ns} ns");
        assert!(use_tsc("hpet"), "what is in use stays so");
    }
}
