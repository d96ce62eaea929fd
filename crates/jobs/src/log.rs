//! The logs of one thread: a line for each request, or averages over `log_avg_msec`.
//!
//! Entries collect here and are handed over in chunks while the job runs, so that the log so far can be read before the
//! end.

use qd1_fio::FioJob;
use qd1_fio::output::logs::{LogEntry, LogKind};
use qd1_model::job::Moments;
use qd1_model::plat::PlatHist;

/// The single-value logs, in the order of [`Chunk::entries`].
pub const KINDS: [LogKind; 5] = [LogKind::Bw, LogKind::Iops, LogKind::Lat, LogKind::Clat, LogKind::Slat];

/// The direction that stands for syncs in logs, after reads, writes and trims.
pub const SYNC: usize = 3;

/// A logged histogram of the completion latencies of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct HistEntry {
    /// ms since the job began.
    pub ms: u64,
    /// 0 to 2 for reads, writes, trims.
    pub direction: u8,
    /// Largest block of the direction, bytes.
    pub bs: u64,
    /// The latencies since the entry before.
    pub bins: PlatHist,
}

/// Entries of one log since the last time they were taken.
#[derive(Debug, Default)]
pub struct Chunk {
    /// Entries of the five logs, in the order of [`KINDS`].
    pub entries: [Vec<LogEntry>; 5],
    /// Histograms.
    pub hists: Vec<HistEntry>,
}

impl Chunk {
    /// Whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.entries.iter().all(Vec::is_empty) && self.hists.is_empty()
    }

    /// Adds later entries.
    pub fn append(&mut self, mut later: Self) {
        self.entries.iter_mut().zip(&mut later.entries).for_each(|(mine, later)| mine.append(later));
        self.hists.append(&mut later.hists);
    }
}

/// One request, for the logs.
#[derive(Clone, Copy)]
pub(crate) struct LoggedRequest {
    /// ns since the job began.
    pub(crate) at_ns: u64,
    /// 0 to 2, or [`SYNC`].
    pub(crate) direction: usize,
    pub(crate) bytes: u32,
    pub(crate) offset: u64,
    pub(crate) lat_ns: u64,
    pub(crate) clat_ns: u64,
    pub(crate) slat_ns: u64,
}

/// The logs of one thread.
pub(crate) struct Logs {
    wanted: [bool; 5],
    /// Length of a window of averages; 0 logs each request.
    window_ns: u64,
    /// The largest value of each window instead of its mean.
    maximum: bool,
    window_end_ns: u64,
    /// Of each direction: latency, completion part, submission part in this window.
    windows: [[Moments; 3]; 4],
    moved: [(u64, u64); 3],
    hist_ns: u64,
    hist_end_ns: u64,
    hists: [PlatHist; 3],
    block_max: [u64; 3],
    ready: Chunk,
}

impl Logs {
    /// The logs that a job asks for, if any.
    pub(crate) fn new(job: &FioJob) -> Option<Self> {
        let latency = job.write_lat_log.is_some();
        let slat = latency && job.ioengine.is_async();
        let each_bw = job.disable_bw_measurement && job.log_avg_msec.is_zero();
        let wanted = [job.write_bw_log.is_some() && !each_bw, job.write_iops_log.is_some(), latency, latency, slat];
        let hist = job.write_hist_log.is_some();
        if !hist && !wanted.contains(&true) {
            return None;
        }
        let window_ns = job.log_avg_msec.as_nanos() as u64;
        let hist_ns = if hist { (job.log_hist_msec.as_nanos() as u64).max(1_000_000) } else { 0 };
        Some(Self {
            wanted,
            window_ns,
            maximum: job.log_max_value,
            window_end_ns: window_ns,
            windows: Default::default(),
            moved: Default::default(),
            hist_ns,
            hist_end_ns: hist_ns,
            hists: Default::default(),
            block_max: std::array::from_fn(|direction| job.block_range(direction).max),
            ready: Chunk::default(),
        })
    }

    /// Adds a request.
    pub(crate) fn add(&mut self, request: &LoggedRequest) {
        self.turn(request.at_ns);
        if self.hist_ns > 0 && request.direction < 3 {
            self.hists[request.direction].record(request.clat_ns);
        }
        if self.window_ns == 0 {
            return self.each(request);
        }
        let window = &mut self.windows[request.direction];
        window[0].add(request.lat_ns);
        window[1].add(request.clat_ns);
        window[2].add(request.slat_ns);
        if let Some(moved) = self.moved.get_mut(request.direction) {
            *moved = (moved.0 + u64::from(request.bytes), moved.1 + 1);
        }
    }

    /// A line for this request in each log.
    fn each(&mut self, request: &LoggedRequest) {
        // For one request: its bytes divided by its own latency, as in fio.
        let bandwidth = u64::from(request.bytes) * 1_000_000_000 / request.lat_ns.max(1) / 1024;
        let values = [bandwidth, 1, request.lat_ns, request.clat_ns, request.slat_ns];
        for (index, value) in values.into_iter().enumerate().filter(|(index, _)| self.wanted[*index]) {
            if request.direction == SYNC && index < 2 {
                continue;
            }
            self.ready.entries[index].push(LogEntry {
                ms: request.at_ns / 1_000_000,
                value,
                direction: request.direction as u8,
                bs: u64::from(request.bytes),
                offset: request.offset,
            });
        }
    }

    /// Closes the windows that are over.
    fn turn(&mut self, at_ns: u64) {
        if self.window_ns > 0 && at_ns >= self.window_end_ns {
            self.close(self.window_end_ns);
            self.window_end_ns = (at_ns / self.window_ns + 1) * self.window_ns;
        }
        if self.hist_ns > 0 && at_ns >= self.hist_end_ns {
            self.close_hists(self.hist_end_ns);
            self.hist_end_ns = (at_ns / self.hist_ns + 1) * self.hist_ns;
        }
    }

    fn close(&mut self, end_ns: u64) {
        let window_ns = (end_ns - (self.window_end_ns - self.window_ns)).max(1);
        let mut push = |index: usize, direction: usize, value: u64| {
            if self.wanted[index] {
                let (ms, direction) = (end_ns / 1_000_000, direction as u8);
                self.ready.entries[index].push(LogEntry { ms, value, direction, bs: 0, offset: 0 });
            }
        };
        for (direction, window) in self.windows.iter_mut().enumerate() {
            if window[0].n == 0 {
                continue;
            }
            for (part, moments) in window.iter().enumerate() {
                let value = if self.maximum { moments.max } else { moments.mean.round() as u64 };
                push(2 + part, direction, value);
            }
            *window = Default::default();
        }
        // A rate over the last moments of a job is random, and would be the highest peak of a graph: fio drops it too.
        // Latencies are valid however few there are.
        let stump = window_ns < self.window_ns / 2 && self.window_end_ns > self.window_ns;
        for (direction, moved) in self.moved.iter_mut().enumerate().filter(|(_, moved)| moved.1 > 0 && !stump) {
            let per_second = |n: u64| (u128::from(n) * 1_000_000_000 / u128::from(window_ns)) as u64;
            push(0, direction, per_second(moved.0) / 1024);
            push(1, direction, per_second(moved.1));
            *moved = (0, 0);
        }
    }

    fn close_hists(&mut self, end_ns: u64) {
        for direction in 0..3 {
            if self.hists[direction].count() > 0 {
                let bins = std::mem::take(&mut self.hists[direction]);
                let (ms, bs) = (end_ns / 1_000_000, self.block_max[direction]);
                self.ready.hists.push(HistEntry { ms, direction: direction as u8, bs, bins });
            }
        }
    }

    /// Closes open windows at the end of the job.
    pub(crate) fn finish(&mut self, at_ns: u64) {
        self.turn(at_ns);
        if self.window_ns > 0 {
            self.close(at_ns.max(self.window_end_ns - self.window_ns + 1));
        }
        if self.hist_ns > 0 {
            self.close_hists(at_ns);
        }
    }

    /// The entries that are ready to be written.
    pub(crate) fn take(&mut self) -> Chunk {
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn request(at_ms: u64, lat_ns: u64) -> LoggedRequest {
        let at_ns = at_ms * 1_000_000;
        LoggedRequest { at_ns, direction: 0, bytes: 4096, offset: 8192, lat_ns, clat_ns: lat_ns, slat_ns: 0 }
    }

    fn job(average_ms: u64) -> FioJob {
        let mut job = FioJob::new("t");
        job.write_lat_log = Some(String::new());
        job.write_bw_log = Some(String::new());
        job.log_avg_msec = Duration::from_millis(average_ms);
        job
    }

    #[test]
    fn without_averaging_each_request_has_a_line() {
        let mut logs = Logs::new(&job(0)).unwrap();
        logs.add(&request(3, 4_096_000));
        let chunk = logs.take();
        let wanted = LogEntry { ms: 3, value: 4_096_000, direction: 0, bs: 4096, offset: 8192 };
        assert_eq!(chunk.entries[3], [wanted]);
        assert_eq!(chunk.entries[0][0].value, 976, "4 KiB in 4.096 ms, KiB/s");
    }

    #[test]
    fn averages_are_those_of_their_window() {
        let mut logs = Logs::new(&job(10)).unwrap();
        for (at_ms, lat_ns) in [(1, 100), (9, 300), (12, 700), (40, 900)] {
            logs.add(&request(at_ms, lat_ns));
        }
        logs.finish(41_000_000);
        let chunk = logs.take();
        let lat: Vec<(u64, u64)> = chunk.entries[2].iter().map(|entry| (entry.ms, entry.value)).collect();
        assert_eq!(lat, [(10, 200), (20, 700), (41, 900)]);
        assert_eq!(chunk.entries[0][0].value, 800, "8 KiB in 10 ms, KiB/s");
    }

    #[test]
    fn only_a_short_job_logs_the_rate_of_its_last_moments() {
        let rates = |requests: &[u64], end_ns: u64| {
            let mut logs = Logs::new(&job(10)).unwrap();
            requests.iter().for_each(|at_ms| logs.add(&request(*at_ms, 100)));
            logs.finish(end_ns);
            let chunk = logs.take();
            assert_eq!(chunk.entries[2].last().unwrap().ms, end_ns / 1_000_000, "its latencies are");
            chunk.entries[0].iter().map(|entry| (entry.ms, entry.value)).collect::<Vec<_>>()
        };
        assert_eq!(rates(&[1, 20], 20_000_050), [(10, 400)]);
        assert_eq!(rates(&[1, 20], 25_000_000), [(10, 400), (25, 800)]);
        assert_eq!(rates(&[1], 2_000_000), [(2, 2000)]);
    }

    #[test]
    fn logged_histograms_hold_each_latency_once() {
        let mut job = job(0);
        (job.write_hist_log, job.log_hist_msec) = (Some(String::new()), Duration::from_millis(5));
        let mut logs = Logs::new(&job).unwrap();
        (0..20).for_each(|at_ms| logs.add(&request(at_ms, 1000)));
        logs.finish(20_000_000);
        let chunk = logs.take();
        assert_eq!(chunk.hists.len(), 4);
        assert_eq!(chunk.hists.iter().map(|hist| hist.bins.count()).sum::<u64>(), 20);
    }
}
