//! Reading back what was written, and finding what is wrong.

use qd1_fio::types::ContinueOnError;
use rustix::io::Errno;

use super::*;

/// Wrong blocks that are named one by one; the rest is counted.
const NAMED_MAX: u64 = 100;

impl Thread<'_> {
    /// Whether blocks written in a round are read back after it.
    pub(super) fn verifies_later(&self) -> bool {
        self.verifier.is_some() && self.job.do_verify && !self.history.is_empty() && !self.stopping_at_once()
    }

    fn stopping_at_once(&self) -> bool {
        self.cancel.load(Ordering::Relaxed) || self.live.stop.load(Ordering::Relaxed)
    }

    /// `verify_only`: draws the writes of a round without making them, so that what an earlier run wrote is known.
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

    /// Reads back what the round wrote, in the order it was written.
    pub(super) fn verify_round(&mut self) -> Phase {
        let from_ns = self.engine.now_ns();
        // Verification goes on past the runtime, as the writes it is about are made.
        while !self.stopping_at_once()
            && let Some(expected) = self.history.take_next()
        {
            self.read_back(expected)?;
            self.make_room()?;
        }
        self.drain()?;
        self.writes_since_verify = 0;
        self.phase_over(from_ns, [true, false, false]);
        Ok(())
    }

    fn read_back(&mut self, expected: Expected) -> Phase {
        let slot = self.free.pop().expect("make_room left a slot free");
        let op = Op { kind: OpKind::Read, file: expected.file, len: expected.len, offset: expected.offset };
        self.slots[slot as usize].op = op;
        self.flights[slot as usize] = Flight { direction: READ, due_ns: 0, expected: Some(expected), verifying: true };
        self.queue.push(slot);
        self.depth_now += 1;
        if self.queue.len() >= self.job.iodepth_batch as usize { self.submit() } else { Ok(()) }
    }

    /// Compares what was read with what was written there: in a verification, and in a job that only reads.
    pub(super) fn check_read(&mut self, slot: u32, op: &Op, bytes: u32, flight: &Flight) -> Phase {
        let reads_only = !self.job.rw.kind.writes();
        let Some(verifier) = self.verifier.as_ref().filter(|_| flight.verifying || reads_only && self.job.do_verify)
        else {
            return Ok(());
        };
        let checked =
            self.buffers.look(slot, bytes as usize, |read| verifier.check(read, op.offset, flight.expected.as_ref()));
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
        // The first one is told as what failed the job.
        if (self.mismatches > 1 || passes) && self.mismatches <= NAMED_MAX {
            self.live.say(format!("job `{}`: {text}", self.job.name));
        }
        match self.errors.iter_mut().find(|known| known.error == "EILSEQ") {
            Some(known) => known.count += 1,
            None => self.errors.push(IoErrors { error: "EILSEQ".to_owned(), count: 1, first_offset: offset }),
        }
        let fault = JobError::new(&self.job.name, Errno::ILSEQ, text);
        if self.job.verify_fatal && !passes {
            return Err(fault);
        }
        if !passes {
            // All of it is looked at; the first wrong block fails the job in the end.
            self.fault.get_or_insert(fault);
        }
        Ok(())
    }
}
