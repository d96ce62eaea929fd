//! The pauses of `thinktime`.

use super::*;

/// Maximum expected lateness of a wake-up, ns.
const LATE_MAX_NS: u64 = 1_000_000;

impl Thread<'_> {
    /// Pauses if it is time: after `thinktime_blocks` requests or `thinktime_iotime` of I/O, with nothing in flight.
    pub(super) fn think(&mut self) -> Phase {
        let job = self.job;
        if job.thinktime.is_zero() || !self.has_done_enough() {
            return Ok(());
        }
        self.drain()?;
        let from_ns = self.engine.now_ns();
        let until_ns = (from_ns + job.thinktime.as_nanos() as u64).min(self.deadline_ns);
        // No spin_loop(): a hypervisor takes the processor away from threads that execute many pause instructions.
        let spin_until_ns = from_ns + job.thinktime_spin.as_nanos() as u64;
        while self.engine.now_ns() < spin_until_ns.min(until_ns) {}
        // In a virtual machine a sleeping thread wakes up some 100 us late, so it is woken that much earlier; spinning
        // instead would use processor time that others may need.
        let awake_ns = until_ns.saturating_sub(self.late_ns);
        while !self.stopping && self.engine.now_ns() < awake_ns {
            let now_ns = self.engine.now_ns();
            clock::nap_until(awake_ns.min(now_ns + LOOK_NS));
            self.check_time(now_ns)?;
        }
        if !self.stopping {
            let late_ns = self.engine.now_ns().saturating_sub(awake_ns).min(LATE_MAX_NS);
            self.late_ns = (7 * self.late_ns + late_ns) / 8;
        }
        (self.since_think, self.thought_ns) = (0, self.engine.now_ns());
        Ok(())
    }

    fn has_done_enough(&mut self) -> bool {
        let job = self.job;
        let iotime_ns = job.thinktime_iotime.as_nanos() as u64;
        // With thinktime_iotime, a block count of 1 is fio's default and means no limit.
        let counts = iotime_ns == 0 || job.thinktime_blocks > 1;
        (counts && self.since_think >= u64::from(job.thinktime_blocks.max(1)))
            || (iotime_ns > 0 && self.engine.now_ns() >= self.thought_ns + iotime_ns)
    }
}
