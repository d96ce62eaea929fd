//! What one thread counts: fio's statistics, and also the streams and intervals of qd1's own Record.

use qd1_engine::meter::{Meter, Outbox, Parts, Timing};
use qd1_fio::FioJob;
use qd1_fio::types::SubmitMode;
use qd1_model::job::JobStat;
use qd1_model::op::OpClass;
use qd1_model::record::Stream;

use crate::log::{Chunk, LoggedRequest, Logs, SYNC};

/// Lanes of the meter: reads, writes, trims and commits.
const LANES: usize = 4;
const COMMIT: usize = 3;
/// Length of the intervals of qd1's Record, ns.
const INTERVAL_NS: u64 = 100_000_000;

/// One completed request.
#[derive(Clone, Copy)]
pub(crate) struct Completed {
    pub(crate) direction: usize,
    pub(crate) bytes: u32,
    pub(crate) offset: u64,
    pub(crate) issued_ns: u64,
    pub(crate) submitted_ns: u64,
    pub(crate) completed_ns: u64,
    /// When it should have been issued under a rate; 0 without.
    pub(crate) due_ns: u64,
}

/// The counters of one thread.
pub(crate) struct Stat {
    /// fio's.
    pub(crate) stat: JobStat,
    keeps: MeasuredLatencies,
    counts_from_due: bool,
    queues: bool,
    begin_ns: u64,
    samples: [Samples; 2],
    logs: Option<Logs>,
    meter: Meter<LANES>,
    outbox: Outbox,
    started_ns: u64,
}

/// Which latencies the job wants measured (`disable_*`, `gtod_reduce`).
#[derive(Clone, Copy)]
struct MeasuredLatencies {
    slat: bool,
    clat: bool,
    lat: bool,
}

/// Samples of bytes or requests per second over windows of a fixed length.
struct Samples {
    window_ns: u64,
    from_ns: u64,
    counts: [u64; 3],
}

impl Samples {
    fn new(window_ns: u64, from_ns: u64) -> Self {
        Self { window_ns: window_ns.max(1_000_000), from_ns, counts: [0; 3] }
    }

    /// Closes the window if it is over; returns what each direction did per second.
    #[inline]
    fn turn(&mut self, now_ns: u64) -> Option<[u64; 3]> {
        let spent_ns = now_ns.saturating_sub(self.from_ns);
        if spent_ns < self.window_ns {
            return None;
        }
        let counts = std::mem::take(&mut self.counts);
        self.from_ns = now_ns;
        Some(counts.map(|count| (u128::from(count) * 1_000_000_000 / u128::from(spent_ns)) as u64))
    }
}

impl Stat {
    /// Counters that begin at `begin_ns`. `queues`: whether the engine has a submission part.
    pub(crate) fn new(job: &FioJob, queues: bool, begin_ns: u64, outbox: Outbox) -> Self {
        let reduced = job.gtod_reduce;
        Self {
            stat: JobStat { members: 1, ..JobStat::default() },
            keeps: MeasuredLatencies {
                slat: !(reduced || job.disable_slat),
                clat: !(reduced || job.disable_clat),
                lat: !(reduced || job.disable_lat),
            },
            counts_from_due: job.io_submit_mode == SubmitMode::Offload,
            queues,
            begin_ns,
            samples: [
                Samples::new(job.bwavgtime.as_nanos() as u64, begin_ns),
                Samples::new(job.iopsavgtime.as_nanos() as u64, begin_ns),
            ],
            logs: Logs::new(job),
            meter: meter(queues, begin_ns, outbox.clone()),
            outbox,
            started_ns: begin_ns,
        }
    }

    /// The job begins now.
    pub(crate) fn begin(&mut self, now_ns: u64) {
        self.started_ns = now_ns;
        self.restart(now_ns);
    }

    /// The ramp is over: the counts so far are discarded.
    pub(crate) fn restart(&mut self, now_ns: u64) {
        self.stat = JobStat { members: 1, ..JobStat::default() };
        self.begin_ns = now_ns;
        self.samples.iter_mut().for_each(|samples| *samples = Samples::new(samples.window_ns, now_ns));
        self.outbox.lock().expect("no holder of this lock panics").clear();
        self.meter = meter(self.queues, now_ns, self.outbox.clone());
    }

    /// When counting began.
    pub(crate) fn begin_ns(&self) -> u64 {
        self.begin_ns
    }

    /// A request completed.
    #[inline]
    pub(crate) fn completed(&mut self, request: &Completed) {
        let direction = &mut self.stat.dirs[request.direction];
        // With io_submit_mode=offload, a request that had to wait for earlier ones counts from when it was due.
        let from_ns = if request.due_ns > 0 { request.due_ns.min(request.issued_ns) } else { request.issued_ns };
        let lat_ns = request.completed_ns - if self.counts_from_due { from_ns } else { request.issued_ns };
        let slat_ns = request.submitted_ns - request.issued_ns;
        let clat_ns = request.completed_ns - request.submitted_ns;
        direction.total_ios += 1;
        direction.io_bytes += u64::from(request.bytes);
        if self.keeps.slat && self.queues {
            direction.slat.add(slat_ns);
        }
        if self.keeps.clat {
            direction.clat.add(clat_ns);
            self.stat.buckets.record(clat_ns);
        }
        if self.keeps.lat {
            direction.lat.add(lat_ns);
        }
        self.sample(request);
        let timing = Timing {
            lat_ns: request.completed_ns - from_ns,
            part_ns: slat_ns,
            completed_ns: request.completed_ns.max(self.begin_ns),
        };
        self.meter.record(request.direction, request.bytes, &timing);
        if let Some(logs) = &mut self.logs {
            logs.add(&LoggedRequest {
                at_ns: request.completed_ns.saturating_sub(self.started_ns),
                direction: request.direction,
                bytes: request.bytes,
                offset: request.offset,
                lat_ns,
                clat_ns,
                slat_ns,
            });
        }
    }

    #[inline]
    fn sample(&mut self, request: &Completed) {
        if let Some(rates) = self.samples[0].turn(request.completed_ns) {
            let dirs = self.stat.dirs.iter_mut().zip(rates).filter(|(_, rate)| *rate > 0);
            dirs.for_each(|(direction, rate)| direction.bw.add(rate / 1024));
        }
        if let Some(rates) = self.samples[1].turn(request.completed_ns) {
            let dirs = self.stat.dirs.iter_mut().zip(rates).filter(|(_, rate)| *rate > 0);
            dirs.for_each(|(direction, rate)| direction.iops.add(rate));
        }
        self.samples[0].counts[request.direction] += u64::from(request.bytes);
        self.samples[1].counts[request.direction] += 1;
    }

    /// A sync completed. `commit_from_ns` is when the last write before it was issued, 0 where there was none;
    /// `write_bytes` are that write's.
    pub(crate) fn synced(
        &mut self,
        is_fsync: bool,
        issued_ns: u64,
        completed_ns: u64,
        commit_from_ns: u64,
        write_bytes: u32,
        log: bool,
    ) {
        let sync = &mut self.stat.sync;
        let sync_ns = completed_ns - issued_ns;
        sync.total_ios += 1;
        sync.fsyncs += u64::from(is_fsync);
        sync.lat.add(sync_ns);
        if commit_from_ns > 0 {
            let lat_ns = completed_ns - commit_from_ns;
            sync.commit.add(lat_ns);
            let timing = Timing { lat_ns, part_ns: sync_ns, completed_ns: completed_ns.max(self.begin_ns) };
            self.meter.record(COMMIT, write_bytes, &timing);
        }
        if let Some(logs) = self.logs.as_mut().filter(|_| log) {
            let at_ns = completed_ns.saturating_sub(self.started_ns);
            let (bytes, offset) = (0, 0);
            let (lat_ns, clat_ns, slat_ns) = (sync_ns, sync_ns, 0);
            logs.add(&LoggedRequest { at_ns, direction: SYNC, bytes, offset, lat_ns, clat_ns, slat_ns });
        }
    }

    /// The log entries since the last call.
    pub(crate) fn take_logs(&mut self) -> Chunk {
        self.logs.as_mut().map(Logs::take).unwrap_or_default()
    }

    /// Ends the logs and returns the counters and the streams.
    pub(crate) fn finish(mut self, now_ns: u64) -> (JobStat, Vec<Stream>, Chunk) {
        let mut chunk = Chunk::default();
        if let Some(logs) = &mut self.logs {
            logs.finish(now_ns.saturating_sub(self.started_ns));
            chunk = logs.take();
        }
        let streams = self.meter.finish();
        debug_assert!(counts_agree(&self.stat, &streams), "fio's counters and the streams see the same requests");
        (self.stat, streams, chunk)
    }
}

/// Whether fio's counters and the streams hold the same number of requests in each direction.
fn counts_agree(stat: &JobStat, streams: &[Stream]) -> bool {
    let classes = [OpClass::Read, OpClass::Write, OpClass::Trim];
    let counted = |class| streams.iter().find(|stream| stream.class == class).map_or(0, |stream| stream.lat.count());
    stat.dirs.iter().zip(classes).all(|(direction, class)| direction.total_ios == counted(class))
}

fn meter(queues: bool, begin_ns: u64, outbox: Outbox) -> Meter<LANES> {
    let parts = if queues { Parts::Submission } else { Parts::None };
    let classes =
        [(OpClass::Read, parts), (OpClass::Write, parts), (OpClass::Trim, parts), (OpClass::Commit, Parts::Sync)];
    Meter::new(classes, begin_ns, INTERVAL_NS, outbox)
}
