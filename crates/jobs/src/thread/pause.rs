//! The pauses of `thinktime`.

use super::*;

impl Thread<'_> {
    /// Pauses where it is time to: after `thinktime_blocks` requests or `thinktime_iotime` of I/O, with nothing in
    /// flight.
    pub(super) fn think(&mut self) -> Phase {
        let job = self.job;
        if job.thinktime.is_zero() || !self.has_done_enough() {
            return Ok(());
        }
        self.drain()?;
        let from_ns = self.engine.now_ns();
        let until_ns = (from_ns + job.thinktime.as_nanos() as u64).min(self.deadline_ns);
        let spin_until_ns = from_ns + job.thinktime_spin.as_nanos() as u64;
        while self.engine.now_ns() < spin_until_ns.min(until_ns) {
            std::hint::spin_loop();
        }
        while !self.stopping && self.engine.now_ns() < until_ns {
            let now_ns = self.engine.now_ns();
            clock::sleep_until(until_ns.min(now_ns + LOOK_NS));
            self.look(now_ns)?;
        }
        (self.since_think, self.thought_ns) = (0, self.engine.now_ns());
        Ok(())
    }

    fn has_done_enough(&mut self) -> bool {
        let job = self.job;
        let iotime_ns = job.thinktime_iotime.as_nanos() as u64;
        // With a time of I/O, a block count of 1 is fio's default and means none.
        let counts = iotime_ns == 0 || job.thinktime_blocks > 1;
        (counts && self.since_think >= u64::from(job.thinktime_blocks.max(1)))
            || (iotime_ns > 0 && self.engine.now_ns() >= self.thought_ns + iotime_ns)
    }
}
