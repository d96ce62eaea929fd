//! `trim_percentage`: some of the written blocks are trimmed, and must read back as zeros.

use rand_core::RngCore as _;

use super::*;

impl Thread<'_> {
    /// Keeps a written block for trimming, as often as `trim_percentage` says.
    pub(super) fn may_trim_later(&mut self, op: &Op, bytes: u32) {
        if self.job.trim_percentage == 0 || self.job.trim_backlog == 0 || bytes < op.len {
            return;
        }
        let draw = (self.trim_rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        if draw * 100.0 < f64::from(self.job.trim_percentage) {
            let (file, offset, len) = (op.file, op.offset, op.len);
            self.to_trim.push(Expected { file, written: false, len, offset, sequence: 0 });
        }
    }

    /// Whether `trim_backlog` writes have been made since the last trims.
    pub(super) fn trim_is_due(&self) -> bool {
        self.job.trim_backlog > 0 && self.writes_since_trim >= self.job.trim_backlog && !self.to_trim.is_empty()
    }

    /// Trims the oldest `trim_backlog_batch` of the blocks kept, or all, with nothing else in flight.
    pub(super) fn trim_written(&mut self) -> Phase {
        self.writes_since_trim = 0;
        let batch = match self.job.trim_backlog_batch {
            0 => self.to_trim.len(),
            batch => (batch as usize).min(self.to_trim.len()),
        };
        let blocks: Vec<Expected> = self.to_trim.drain(..batch).collect();
        for block in blocks {
            let slot = *self.free.last().expect("nothing is in flight");
            let op = Op { kind: OpKind::Trim, file: block.file, len: block.len, offset: block.offset };
            let done = self.engine.one(slot, &op).map_err(|error| JobError::engine(&self.job.name, &error))?;
            let flight = Flight { direction: TRIM, ..Flight::default() };
            if done.result < 0 {
                self.failed(&op, &done, &flight)?;
                continue;
            }
            self.count(&op, &done, &flight, op.len);
            self.history.remove(block.file, block.offset, u64::from(block.len));
            if self.job.trim_verify_zero {
                self.trimmed.add(block);
            }
        }
        Ok(())
    }
}
