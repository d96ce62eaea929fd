//! Reads back what was written, and finds what is wrong.

use qd1_fio::types::ContinueOnError;
use rustix::io::Errno;

use super::*;

/// Number of wrong blocks that are reported individually; the rest are only counted.
const NAMED_MAX: u64 = 100;

impl Thread<'_> {
    /// Whether blocks written in a round are read back after it.
    pub(super) fn verifies_later(&self) -> bool {
        let some = !self.history.is_empty() || !self.trimmed.is_empty();
        self.verifier.is_some() && self.job.do_verify && some && !self.stopping_at_once()
    }

    fn stopping_at_once(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.live.stop.load(Ordering::Relaxed)
    }

    /// `verify_only`: draws the writes of a round without making them, to know what an earlier run wrote.
    pub(super) fn pretend(&mut self) -> Phase {
        while self.issued_bytes < self.bytes_limit && !self.ios_used_up() {
            let direction = self.load.direction();
            let Some(next) = self.load.next(direction) else { break };
            self.issued_bytes += u64::from(next.len);
            self.issued_ios += 1;
            if next.direction == WRITE
                && let Some(expected) =
                    self.verifier.as_mut().map(|verifier| verifier.expect(next.file, next.offset, next.len))
            {
                self.history.add(expected);
            }
        }
        Ok(())
    }

    /// Reads back what the round wrote, in the order of the writes: from the disk, not from the page cache.
    pub(super) fn verify_round(&mut self) -> Phase {
        if files::changes_data(self.job) && !self.job.direct {
            self.sync_files()?;
            files::invalidate(self.job, &self.fds);
        }
        self.read_back_some(u64::MAX)
    }

    /// `verify_backlog`: reads back `verify_backlog_batch` of the blocks written since the last time, or all of them.
    pub(super) fn verify_backlog(&mut self) -> Phase {
        self.writes_since_verify = 0;
        self.read_back_some(match self.job.verify_backlog_batch {
            0 => u64::MAX,
            batch => u64::from(batch),
        })
    }

    /// Whether `verify_backlog` writes have been made since blocks were last read back.
    pub(super) fn verification_is_due(&self) -> bool {
        let backlog = self.job.verify_backlog;
        backlog > 0 && self.writes_since_verify >= backlog && self.job.do_verify && self.verifier.is_some()
    }

    /// Reads back at most this many of the oldest blocks. It continues past the job's runtime, as in fio, so that
    /// everything written is checked.
    fn read_back_some(&mut self, most: u64) -> Phase {
        let from_ns = self.engine.now_ns();
        let mut left = most;
        while left > 0 && !self.stopping_at_once() {
            let next = self.history.take_next().map(|expected| (expected, Check::Block));
            let next = next.or_else(|| self.trimmed.take_next().map(|expected| (expected, Check::Zeros)));
            let Some((expected, check)) = next else { break };
            self.read_back(expected, check)?;
            self.make_room()?;
            left -= 1;
        }
        self.drain()?;
        self.phase_over(from_ns, [true, false, false]);
        Ok(())
    }

    fn read_back(&mut self, expected: Expected, check: Check) -> Phase {
        let slot = self.free.pop().expect("make_room left a slot free");
        let op = Op { kind: OpKind::Read, file: expected.file, len: expected.len, offset: expected.offset };
        self.slots[slot as usize].op = op;
        let expected = Some(expected);
        self.flights[slot as usize] = Flight { is_busy: true, direction: READ, due_ns: 0, expected, check };
        self.queue.push(slot);
        self.depth_now += 1;
        if self.queue.len() >= self.job.iodepth_batch as usize { self.submit() } else { Ok(()) }
    }

    /// Compares what was read with what was written there: in a verification, and in a job that only reads.
    pub(super) fn check_read(&mut self, slot: u32, op: &Op, bytes: u32, flight: &Flight) -> Phase {
        if flight.check == Check::Zeros {
            let wrong = self.buffers.inspect(slot, bytes as usize, |read| read.iter().position(|byte| *byte != 0));
            return match wrong {
                None => Ok(()),
                Some(at) => self.wrong(op, op.offset + at as u64, "it was trimmed but does not read as zero"),
            };
        }
        let reads_only = !self.job.rw.kind.writes();
        let checks = flight.check == Check::Block || (reads_only && self.job.do_verify);
        let Some(verifier) = self.verifier.as_ref().filter(|_| checks) else { return Ok(()) };
        let checked = self
            .buffers
            .inspect(slot, bytes as usize, |read| verifier.check(read, op.offset, flight.expected.as_ref()));
        match checked {
            Ok(()) => Ok(()),
            Err(mismatch) => self.wrong(op, mismatch.offset, &mismatch.what),
        }
    }

    #[cold]
    fn wrong(&mut self, op: &Op, offset: u64, what: &str) -> Phase {
        self.mismatches += 1;
        let file = self.files.get(usize::from(op.file)).map(|file| file.path.display().to_string()).unwrap_or_default();
        let text = format!("verify: {file} at offset {offset} (request of {} bytes at {}): {what}", op.len, op.offset);
        let passes = matches!(self.job.continue_on_error, ContinueOnError::Verify | ContinueOnError::All);
        // The first wrong block is reported as the job's failure.
        if (self.mismatches > 1 || passes) && self.mismatches <= NAMED_MAX {
            self.live.warn(format!("job `{}`: {text}", self.job.name));
        }
        IoErrors::once("EILSEQ", offset).add_to(&mut self.errors);
        let fault = JobError::new(&self.job.name, Errno::ILSEQ, text);
        if self.job.verify_fatal && !passes {
            return Err(fault);
        }
        if !passes {
            // Everything is checked; the first wrong block fails the job in the end.
            self.fault.get_or_insert(fault);
        }
        Ok(())
    }
}
