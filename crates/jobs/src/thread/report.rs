//! What a thread reports: snapshots and logs while it runs, everything at the end.

use super::*;

impl Thread<'_> {
    #[cold]
    pub(super) fn give_snapshot(&mut self, wanted: u32, now_ns: u64) {
        self.snapshot_given = wanted;
        let mut stat = self.stat.stat.clone();
        let spent_ms = now_ns.saturating_sub(self.stat.begin_ns()) / 1_000_000;
        for direction in stat.dirs.iter_mut().filter(|direction| direction.total_ios > 0) {
            direction.runtime_ms = direction.runtime_ms.max(spent_ms);
        }
        self.describe(&mut stat, now_ns);
        *self.live.snapshot.lock().expect("no holder of this lock panics") = Some((wanted, stat));
    }

    /// About once a second: hands over the log so far, so that it can be read while the job runs.
    #[cold]
    pub(super) fn hand_over_logs(&mut self, now_ns: u64) {
        self.next_log_ns = now_ns + LOGS_NS;
        let logged = self.stat.take_logs();
        if !logged.is_empty() {
            self.live.logged.lock().expect("no holder of this lock panics").append(logged);
        }
    }

    /// Fills in what the counters do not cover.
    fn describe(&self, stat: &mut JobStat, now_ns: u64) {
        stat.groupid = self.plan.group;
        stat.pid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
        stat.job_start_ms = (clock::wall_ns().saturating_sub(now_ns.saturating_sub(self.start_ns))) / 1_000_000;
        stat.elapsed_s = now_ns.saturating_sub(self.start_ns).div_ceil(1_000_000_000);
        stat.job_runtime_ms = now_ns.saturating_sub(self.stat.begin_ns()) / 1_000_000;
        stat.cost = (self.thread_cost)().since(&self.cost_before);
        stat.latency_target = self.search.as_ref().map(DepthSearch::outcome);
        stat.total_err_count = self.errors.iter().map(|error| error.count).sum();
        if let Some(fault) = &self.fault {
            (stat.error, stat.error_text) = (fault.errno, fault.text.clone());
        }
    }

    pub(super) fn end(mut self) -> ThreadOutcome {
        let now_ns = self.engine.now_ns();
        let mut stat = std::mem::take(&mut self.stat.stat);
        self.describe(&mut stat, now_ns);
        self.stat.stat = stat;
        let measured_ns = self.stat.begin_ns();
        let (stat, streams, logged) = self.stat.finish(now_ns);
        ThreadOutcome {
            stat,
            streams,
            errors: self.errors,
            fault: self.fault,
            engine: Some(self.engine.kind()),
            caveat: self.engine.caveat(),
            measured_ns,
            ended_ns: now_ns,
            logged,
            syncs: self.syncs,
        }
    }
}
