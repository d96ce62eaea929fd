//! Issues requests and takes completions.

use qd1_fio::types::{Amount, RwKind, ThinkBlocks};
use rustix::io::Errno;

use super::*;

/// Bytes after which nothing more is issued: with `io_size`, that many per loop, summed over the loops; otherwise those
/// of a round, the size of the job's files. With `time_based`, only time counts.
pub(super) fn bytes_limit(job: &FioJob, round: u64) -> u64 {
    if job.time_based && !job.runtime.is_zero() {
        return u64::MAX;
    }
    if let Some(bytes) = io_size(job, round) {
        return bytes.saturating_mul(job.loops.max(1));
    }
    match job.size {
        Amount::Bytes(bytes) if bytes > 0 && job.filesize.is_some() => bytes.saturating_mul(passes(job)).min(round),
        _ => round,
    }
}

/// Requests after which nothing more is issued: `number_ios`. As in fio, `loops` multiplies it, whichever loop they are
/// issued in.
pub(super) fn ios_limit(job: &FioJob) -> u64 {
    match job.number_ios {
        0 => u64::MAX,
        ios => ios.saturating_mul(passes(job)).saturating_mul(job.loops.max(1)),
    }
}

/// `io_size`, if given.
fn io_size(job: &FioJob, round: u64) -> Option<u64> {
    match job.io_size {
        Amount::Bytes(bytes) => Some(bytes.saturating_mul(passes(job))).filter(|bytes| *bytes > 0),
        Amount::Percent(percent) => Some((u128::from(round) * u128::from(percent) / 100) as u64),
        Amount::Unset => None,
    }
}

/// How many times each block is visited: twice if it is trimmed and then written, which doubles the job's limits.
fn passes(job: &FioJob) -> u64 {
    if matches!(job.rw.kind, RwKind::Trimwrite | RwKind::Randtrimwrite) { 2 } else { 1 }
}

impl Thread<'_> {
    /// Whether `io_size` was given, which repeats the files if it is larger than they are.
    pub(super) fn limits_io(&self) -> bool {
        self.io_size().is_some()
    }

    /// Whether all loops together issued less than `io_size`, by at least one block.
    pub(super) fn owes_bytes(&self) -> bool {
        let block = files::largest_block(self.job);
        self.io_size().is_some_and(|wanted| self.issued_bytes + block <= wanted)
    }

    fn io_size(&self) -> Option<u64> {
        io_size(self.job, self.load.round_bytes())
    }

    pub(super) fn ios_used_up(&self) -> bool {
        self.issued_ios >= self.ios_limit
    }

    /// What comes next.
    pub(super) fn step(&mut self, now_ns: u64) -> Result<Step, JobError> {
        if self.issued_bytes >= self.bytes_limit || self.ios_used_up() {
            return Ok(Step::Over);
        }
        if let Some(kind) = self.sync_due() {
            return Ok(Step::Sync(kind));
        }
        if self.trim_is_due() {
            return Ok(Step::Trim);
        }
        if self.verification_is_due() {
            return Ok(Step::Verify);
        }
        if self.share.as_ref().is_some_and(Share::is_ahead) {
            return Ok(Step::Wait(self.wait_for_flow(now_ns)));
        }
        self.ahead_from_ns = 0;
        if let Some(search) = &self.search
            && self.depth_now >= search.depth
        {
            return Ok(Step::Wait(now_ns + LOOK_NS));
        }
        let mut direction = self.wanted.take().unwrap_or_else(|| self.load.direction());
        let mut due_ns = 0;
        if self.pace.is_paced() {
            let wanted = direction;
            (direction, due_ns) = self.pace.choose(direction, self.job.rw.kind.directions(), now_ns);
            if due_ns > now_ns {
                self.wanted = Some(wanted);
                return Ok(Step::Wait(due_ns));
            }
        }
        self.draw(direction, due_ns)
    }

    /// Until when a thread that is ahead of its flow waits: at first not at all, since the others are usually about to
    /// catch up, and a sleep takes longer than that.
    fn wait_for_flow(&mut self, now_ns: u64) -> u64 {
        let sleep_ns = self.job.flow_sleep.as_nanos() as u64;
        if sleep_ns > 0 {
            return now_ns + sleep_ns;
        }
        if self.ahead_from_ns == 0 {
            self.ahead_from_ns = now_ns;
        }
        if now_ns < self.ahead_from_ns + FLOW_SPIN_NS {
            std::thread::yield_now();
            return now_ns;
        }
        now_ns + FLOW_NS
    }

    /// Puts the next request of a direction into a free slot.
    fn draw(&mut self, direction: usize, due_ns: u64) -> Result<Step, JobError> {
        let Some(next) = self.load.next(direction) else { return Ok(Step::Over) };
        if self.load.take_wrapped() {
            // Data read earlier must come from the disk again.
            files::invalidate(self.job, &self.fds);
        }
        if self.verifier.is_some() && next.direction != READ {
            // With two writes to one place in flight, nobody could tell which one wins.
            if self.in_flight_at(next.file, next.offset, next.len) {
                self.drain()?;
            }
            self.history.remove(next.file, next.offset, u64::from(next.len));
            self.trimmed.remove(next.file, next.offset, u64::from(next.len));
        }
        let slot = self.free.pop().expect("make_room left a slot free");
        let mut expected = None;
        let kind = match next.direction {
            READ => OpKind::Read,
            WRITE => {
                expected = self.contents(slot, next.file, next.offset, next.len);
                OpKind::Write
            }
            _ => OpKind::Trim,
        };
        self.slots[slot as usize].op = Op { kind, file: next.file, len: next.len, offset: next.offset };
        self.flights[slot as usize] =
            Flight { is_busy: true, direction: next.direction, due_ns, expected, check: Check::None };
        self.issued_bytes += u64::from(next.len);
        self.issued_ios += 1;
        self.pace.issued(next.direction, next.len);
        if self.job.thinktime_blocks_type == ThinkBlocks::Issue {
            self.since_think += 1;
        }
        if let Some(share) = &mut self.share {
            share.issued();
        }
        if next.direction == WRITE {
            self.writes_since_sync += 1;
            self.writes_since_verify += 1;
            self.writes_since_trim += 1;
        }
        Ok(Step::Issue(slot))
    }

    /// Whether a request that changes a byte of this range is queued or in flight.
    fn in_flight_at(&self, file: u16, offset: u64, len: u32) -> bool {
        let end = offset + u64::from(len);
        let busy = self.slots.iter().zip(&self.flights).filter(|(_, flight)| flight.is_busy).map(|(slot, _)| &slot.op);
        busy.into_iter().any(|op| {
            op.kind != OpKind::Read && op.file == file && op.offset < end && offset < op.offset + u64::from(op.len)
        })
    }

    /// Fills the buffer of a write; returns what must be found there later, if it is verified.
    fn contents(&mut self, slot: u32, file: u16, offset: u64, len: u32) -> Option<Expected> {
        self.stamp = self.stamp.wrapping_add(1);
        let (filler, verifier, stamp) = (&mut self.filler, &mut self.verifier, self.stamp);
        let mut expected = None;
        self.buffers.fill(slot, len as usize, |bytes| match verifier {
            Some(verifier) => expected = Some(verifier.fill(bytes, file, offset)),
            None => filler.fill(bytes, offset, stamp),
        });
        expected
    }

    /// Submits the queued requests.
    pub(super) fn submit(&mut self) -> Phase {
        let held = self.done.len();
        while !self.queue.is_empty() {
            let taken = self
                .engine
                .submit(&mut self.slots, &self.queue, &mut self.done)
                .map_err(|error| JobError::engine(&self.job.name, &error))?;
            if taken > 0 {
                self.stat.stat.depth.submitted(taken as u32);
            }
            let before = self.depth_now - self.queue.len() as u32;
            // Counted as in fio: requests that are submitted together are in flight together.
            (0..taken).for_each(|_| self.stat.stat.depth.issued(before + taken as u32));
            self.queue.drain(..taken);
            if taken == 0 {
                self.take_back(1, u64::MAX)?;
            }
        }
        // Only for an engine that completes within `submit`: completions held back earlier keep their turn.
        let completed = self.done.len().saturating_sub(held);
        self.account_done(completed, completed, 0)
    }

    /// If the queue is full, waits until no more than `iodepth_low` are in flight.
    pub(super) fn make_room(&mut self) -> Phase {
        if !self.free.is_empty() {
            if self.job.iodepth_batch_complete_min == 0 && self.depth_now > 0 {
                // 0 asks for a poll without waiting after each request.
                self.submit()?;
                return self.take_back(0, 0);
            }
            return Ok(());
        }
        self.submit()?;
        let min = self.job.iodepth_batch_complete_min.max(1);
        while self.free.is_empty() || self.depth_now > self.job.iodepth_low {
            self.take_back(min.min(self.depth_now) as usize, u64::MAX)?;
        }
        Ok(())
    }

    /// Waits for at least `min` completions or until a time, and counts them.
    pub(super) fn reap(&mut self, min: usize, until_ns: u64) -> Phase {
        self.take_back(min, until_ns)
    }

    fn take_back(&mut self, min: usize, until_ns: u64) -> Phase {
        let held = self.done.len();
        if held < min.max(1) {
            let missing = min.saturating_sub(self.done.len());
            self.engine
                .reap(&mut self.slots, missing, until_ns, &mut self.done)
                .map_err(|error| JobError::engine(&self.job.name, &error))?;
        }
        self.account_done(min, self.job.iodepth_batch_complete_max.max(1) as usize, held)
    }

    /// Counts completions, at least `min` and at most `most`, which is `iodepth_batch_complete_max`. The rest count as
    /// in flight until their turn comes, as in fio, so that the queue is kept as full as requested. The first `held`
    /// were held back in this way: fio leaves them with the kernel, and takes the time when it collects them.
    fn account_done(&mut self, min: usize, most: usize, held: usize) -> Phase {
        let count = self.done.len().min(most.max(min));
        if count == 0 {
            return Ok(());
        }
        if held > 0 {
            let now_ns = self.engine.now_ns();
            for number in &self.done[..held.min(count)] {
                self.slots[*number as usize].done.completed_ns = now_ns;
            }
        }
        self.stat.stat.depth.completed(count as u32);
        let mut done = std::mem::take(&mut self.done);
        let mut outcome = Ok(());
        for number in done.drain(..count) {
            self.depth_now -= 1;
            self.free.push(number);
            if outcome.is_ok() {
                outcome = self.account(number);
            }
        }
        self.done = done;
        outcome
    }

    /// Submits the queued requests and waits for everything in flight.
    pub(super) fn drain(&mut self) -> Phase {
        self.submit()?;
        while self.depth_now > 0 {
            self.take_back(self.depth_now as usize, u64::MAX)?;
        }
        debug_assert_eq!(self.free.len(), self.slots.len(), "with nothing in flight every slot is free");
        Ok(())
    }

    /// Counts the completed request in a slot.
    fn account(&mut self, number: u32) -> Phase {
        let Slot { op, done } = self.slots[number as usize];
        let flight = std::mem::take(&mut self.flights[number as usize]);
        if done.result < 0 || (done.result == 0 && op.len > 0 && op.kind != OpKind::Trim) {
            return self.failed(&op, &done, &flight);
        }
        let bytes = if op.kind == OpKind::Trim { op.len } else { done.result as u32 };
        if bytes < op.len {
            self.stat.stat.dirs[flight.direction].short_ios += 1;
        }
        self.count(&op, &done, &flight, bytes);
        if self.job.thinktime_blocks_type == ThinkBlocks::Complete {
            self.since_think += 1;
        }
        self.notice_latency(&op, &done, flight.direction)?;
        match op.kind {
            OpKind::Write => {
                self.last_write = Some((op.file, done.issued_ns, bytes));
                if let Some(expected) = flight.expected.filter(|_| bytes == op.len) {
                    self.history.add(expected);
                }
                self.may_trim_later(&op, bytes);
            }
            OpKind::Trim => {
                self.history.remove(op.file, op.offset, u64::from(op.len));
            }
            OpKind::Read => return self.check_read(number, &op, bytes, &flight),
            _ => {}
        }
        Ok(())
    }

    /// Counts a request that transferred this many bytes.
    pub(super) fn count(&mut self, op: &Op, done: &Done, flight: &Flight, bytes: u32) {
        self.stat.completed(&Completed {
            direction: flight.direction,
            bytes,
            offset: op.offset,
            issued_ns: done.issued_ns,
            submitted_ns: done.submitted_ns,
            completed_ns: done.completed_ns,
            due_ns: flight.due_ns,
        });
        self.live.completed(flight.direction, bytes);
    }

    /// `max_latency` and `latency_target`.
    fn notice_latency(&mut self, op: &Op, done: &Done, direction: usize) -> Phase {
        let lat_ns = done.completed_ns - done.issued_ns;
        let most_ns = self.job.max_latency[direction].as_nanos() as u64;
        if most_ns > 0 && lat_ns > most_ns {
            let text = format!(
                "latency of {} us exceeds max_latency ({} us) at offset {}",
                lat_ns / 1000,
                most_ns / 1000,
                op.offset
            );
            return Err(JobError::new(&self.job.name, Errno::TIMEDOUT, text));
        }
        if let Some(search) = &mut self.search
            && search.completed(lat_ns, done.completed_ns)
        {
            self.stopping = true;
        }
        Ok(())
    }

    /// The sync that must precede the next request.
    fn sync_due(&self) -> Option<OpKind> {
        let due = |every: u32| every > 0 && self.writes_since_sync >= u64::from(every);
        if due(self.job.fsync) {
            Some(OpKind::Fsync)
        } else if due(self.job.fdatasync) {
            Some(OpKind::Fdatasync)
        } else {
            due(self.job.sync_file_range.every).then_some(OpKind::SyncFileRange)
        }
    }

    /// Performs the sync that is due, with nothing else in flight, since it covers only what was written before.
    pub(super) fn sync(&mut self, kind: OpKind) -> Phase {
        self.writes_since_sync = 0;
        let Some((file, write_ns, bytes)) = self.last_write else { return Ok(()) };
        let slot = *self.free.last().expect("nothing is in flight");
        let op = Op { kind, file, len: 0, offset: 0 };
        let done = self.engine.one(slot, &op).map_err(|error| JobError::engine(&self.job.name, &error))?;
        if done.result < 0 {
            return self.failed(&op, &done, &Flight { direction: WRITE, ..Flight::default() });
        }
        self.syncs += 1;
        // fio counts a sync in the depth distribution, but not among the requests that the shares refer to.
        self.stat.stat.depth.issued(1);
        let log = self.job.log_syncs;
        self.stat.synced(kind == OpKind::Fsync, done.issued_ns, done.completed_ns, write_ns, bytes, log);
        Ok(())
    }

    /// The end of a round: `end_fsync` and `fsync_on_close`.
    pub(super) fn settle(&mut self) -> Phase {
        let writes = files::changes_data(self.job) && self.job.ioengine.moves_data();
        if writes && (self.job.end_fsync || self.job.fsync_on_close) {
            self.sync_files()?;
        }
        Ok(())
    }

    /// Makes all written data durable, without counting it.
    pub(super) fn sync_files(&self) -> Phase {
        for fd in &self.fds {
            rustix::fs::fsync(fd).map_err(|errno| {
                JobError::engine(&self.job.name, &EngineError::Broken { engine: "fsync", op: "fsync", errno })
            })?;
        }
        Ok(())
    }
}
