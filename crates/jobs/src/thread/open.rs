//! Sets up what a thread needs: processors and priorities, files, buffers, engine.

use super::*;

impl<'a> ThreadContext<'a> {
    /// Opens everything, signals `ready`, waits for the signal to begin, and runs.
    pub(crate) fn run(self, ready: impl FnOnce(), begin: impl FnOnce() -> bool) -> ThreadOutcome {
        let opened = if self.job.ioengine.moves_data() {
            self.open().map(Some)
        } else {
            crate::fileops::prepare(&self).map(|()| None)
        };
        ready();
        let begins = begin();
        match opened {
            Ok(_) if !begins => ThreadOutcome::default(),
            Ok(Some(thread)) => thread.run(),
            Ok(None) => crate::fileops::run(&self),
            Err(fault) => ThreadOutcome::failed(fault),
        }
    }

    fn open(&self) -> Result<Thread<'a>, JobError> {
        let (job, plan) = (self.job, self.plan);
        crate::place::apply(job, plan.clone)?;
        let fds = files::open(job, &self.files)?;
        files::invalidate(job, &fds);
        files::hint(job, &fds);
        files::pre_read(job, &self.files)?;
        let fault = |error: EngineError| JobError::engine(&job.name, &error);
        let block_max = u32::try_from(files::largest_block(job)).unwrap_or(u32::MAX);
        let buffers = Arc::new(Buffers::new(job.iodepth, block_max, plan.seed ^ 0xDA7A).map_err(fault)?);
        let mut filler = Filler::new(job, plan.seed);
        for slot in 0..job.iodepth {
            buffers.fill(slot, block_max as usize, |bytes| filler.prime(bytes));
        }
        let engine = open_engine(job, &fds, &buffers)?;
        let extents: Vec<_> = self.files.iter().map(|file| file.extent).collect();
        let load = JobLoad::new(job, &extents, plan.seed);
        let bytes_limit = issue::bytes_limit(job, load.round_bytes());
        let depth = job.iodepth as usize;
        // As in fio: with a queue, the null engine takes requests and completes them in two steps.
        let queues = engine.queues() || (job.ioengine == qd1_fio::engines::EngineName::Null && job.iodepth > 1);
        Ok(Thread {
            job,
            plan,
            files: self.files.clone(),
            live: self.live.clone(),
            cancel: self.cancel,
            fds,
            engine,
            buffers,
            load,
            filler,
            verifier: Verifier::new(job, plan.number as u16 + 1, plan.seed),
            history: History::default(),
            trimmed: History::default(),
            to_trim: Vec::new(),
            trim_rng: Xoshiro256PlusPlus::seed_from_u64(plan.seed ^ 0x7213),
            pace: Pace::new(job, 0, plan.seed),
            minimum: None,
            share: (job.flow > 0).then(|| self.flow.share(job.flow)),
            ahead_from_ns: 0,
            search: None,
            stat: Stat::new(job, queues, 0, self.outbox.clone()),
            slots: vec![Slot::default(); depth],
            flights: vec![Flight::default(); depth],
            free: (0..job.iodepth).rev().collect(),
            queue: Vec::with_capacity(depth),
            done: Vec::with_capacity(depth + 64),
            depth_now: 0,
            start_ns: 0,
            ramp_end_ns: u64::MAX,
            deadline_ns: u64::MAX,
            stamp: plan.seed,
            issued_bytes: 0,
            issued_ios: 0,
            bytes_limit,
            ios_limit: issue::ios_limit(job),
            writes_since_sync: 0,
            syncs: 0,
            writes_since_verify: 0,
            writes_since_trim: 0,
            since_think: 0,
            thought_ns: 0,
            late_ns: 0,
            wanted: None,
            next_log_ns: 0,
            last_write: None,
            errors: Vec::new(),
            fault: None,
            mismatches: 0,
            stopping: false,
            spent_ns: [0; 3],
            snapshot_given: 0,
            cost_before: ThreadCost::default(),
            thread_cost: self.thread_cost,
        })
    }
}

/// Opens the job's engine on its files.
fn open_engine(job: &FioJob, fds: &[OwnedFd], buffers: &Arc<Buffers>) -> Result<Box<dyn Engine>, JobError> {
    let setup = Setup {
        files: fds.iter().map(|fd| fd.as_raw_fd()).collect(),
        iodepth: job.iodepth,
        buffers: buffers.clone(),
        sim: None,
        tuning: engines::tuning(job),
    };
    qd1_engine::open(engines::kind(job.ioengine), setup).map_err(|error| JobError::engine(&job.name, &error))
}

impl Thread<'_> {
    /// `unlink_each_loop`: the next round begins with new files.
    pub(super) fn make_files_anew(&mut self) -> Phase {
        for file in self.files.iter_mut().filter(|file| file.kind == files::FileKind::Regular) {
            // Another clone may have deleted it already.
            let _ = std::fs::remove_file(&file.path);
            (file.exists, file.have) = (false, 0);
        }
        let cancel = self.cancel;
        let cancelled = || cancel.load(Ordering::Relaxed);
        files::lay_out(self.job, &self.files, &mut files::LaidOutFiles::default(), &cancelled, &mut |_| {})?;
        let fds = files::open(self.job, &self.files)?;
        self.engine = open_engine(self.job, &fds, &self.buffers)?;
        self.fds = fds;
        Ok(())
    }
}
