//! `latency_target`: the search for the largest depth at which enough requests keep to a latency.
//!
//! Each depth is tried for one window. As long as the latency target is met, the depth doubles; after that, the gap
//! between the largest depth that met it and the smallest that did not is halved until it closes.

use qd1_fio::FioJob;
use qd1_model::job::LatencyTarget;

/// The search of one thread.
pub(crate) struct DepthSearch {
    target_ns: u64,
    window_ns: u64,
    percentile: f64,
    depth_max: u32,
    /// Depth in force.
    pub(crate) depth: u32,
    held: u32,
    failed: u32,
    goes_on: bool,
    window_from_ns: u64,
    kept: u64,
    total: u64,
}

impl DepthSearch {
    /// The search that a job asks for, if any.
    pub(crate) fn new(job: &FioJob, start_ns: u64) -> Option<Self> {
        if job.latency_target.is_zero() {
            return None;
        }
        Some(Self {
            target_ns: job.latency_target.as_nanos() as u64,
            window_ns: job.latency_window.as_nanos() as u64,
            percentile: job.latency_percentile,
            depth_max: job.iodepth,
            depth: if job.latency_window.is_zero() { job.iodepth } else { 1 },
            held: 0,
            failed: job.iodepth + 1,
            goes_on: job.latency_run,
            window_from_ns: start_ns,
            kept: 0,
            total: 0,
        })
    }

    /// A request completed. Returns true once the search is over and the job must end.
    pub(crate) fn completed(&mut self, lat_ns: u64, now_ns: u64) -> bool {
        self.total += 1;
        self.kept += u64::from(lat_ns <= self.target_ns);
        if self.window_ns == 0 || now_ns < self.window_from_ns + self.window_ns {
            return false;
        }
        let held = self.holds();
        (self.kept, self.total, self.window_from_ns) = (0, 0, now_ns);
        if held {
            self.held = self.held.max(self.depth);
        } else {
            self.failed = self.failed.min(self.depth);
            // A depth that once met the target now fails: the disk has changed, so search again below it.
            self.held = self.held.min(self.failed.saturating_sub(1));
        }
        self.next_depth()
    }

    /// Whether the requests of this window met the target.
    fn holds(&self) -> bool {
        self.kept as f64 >= self.total as f64 * self.percentile / 100.0
    }

    fn next_depth(&mut self) -> bool {
        if self.failed == 1 {
            // Not even one request at a time meets the target.
            self.depth = 1;
            return !self.goes_on;
        }
        if self.failed - self.held <= 1 {
            self.depth = self.held;
            return !self.goes_on;
        }
        let doubled = self.held.max(1) * 2;
        self.depth =
            if self.failed > self.depth_max { doubled.min(self.depth_max) } else { (self.held + self.failed) / 2 };
        false
    }

    /// Returns the outcome for the report.
    pub(crate) fn outcome(&self) -> LatencyTarget {
        LatencyTarget {
            depth: self.depth,
            target_us: self.target_ns / 1000,
            percentile: self.percentile,
            window_us: self.window_ns / 1000,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// A disk whose latency is proportional to the depth.
    fn found(per_depth_ns: u64, iodepth: u32) -> u32 {
        let mut job = FioJob::new("t");
        job.latency_target = Duration::from_micros(1000);
        job.latency_window = Duration::from_millis(1);
        job.latency_percentile = 99.0;
        job.iodepth = iodepth;
        let mut search = DepthSearch::new(&job, 0).unwrap();
        let mut now_ns = 0;
        for _ in 0..1_000_000 {
            now_ns += 10_000;
            if search.completed(per_depth_ns * u64::from(search.depth), now_ns) {
                return search.outcome().depth;
            }
        }
        panic!("the search did not end");
    }

    #[test]
    fn the_largest_depth_that_keeps_to_the_latency_is_found() {
        assert_eq!(found(100_000, 128), 10);
        assert_eq!(found(100_000, 8), 8);
        assert_eq!(found(1_000_000, 64), 1);
        assert_eq!(found(30_000, 256), 33);
    }

    #[test]
    fn a_disk_that_never_keeps_to_it_ends_at_depth_one() {
        assert_eq!(found(2_000_000, 32), 1);
    }
}
