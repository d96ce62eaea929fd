//! `steadystate`: whether throughput has settled, checked once a second over a moving window.

use std::collections::VecDeque;

use qd1_fio::FioJob;
use qd1_fio::types::SteadyCriterion;
use qd1_model::job::SteadyState;

/// The watch over one job, or over all jobs of a group that reports as one.
pub(crate) struct Steady {
    criterion: SteadyCriterion,
    limit: f64,
    percent: bool,
    window: usize,
    ramp_s: u64,
    seconds: u64,
    last: (u64, u64),
    iops: VecDeque<u64>,
    bw: VecDeque<u64>,
    attained: bool,
    reached: f64,
    slope: f64,
}

impl Steady {
    /// The watch that a job asks for, if any.
    pub(crate) fn new(job: &FioJob) -> Option<Self> {
        let wanted = job.steadystate?;
        let window = job.steadystate_duration.as_secs() as usize;
        (window > 0).then(|| Self {
            criterion: wanted.criterion,
            limit: wanted.limit,
            percent: wanted.percent,
            window,
            ramp_s: job.steadystate_ramp_time.as_secs(),
            seconds: 0,
            last: (0, 0),
            iops: VecDeque::with_capacity(window),
            bw: VecDeque::with_capacity(window),
            attained: false,
            reached: 0.0,
            slope: 0.0,
        })
    }

    /// About a second has passed (exactly `passed_ns`); `ios` and `bytes` are the totals so far. Returns true once the
    /// criterion holds.
    pub(crate) fn second(&mut self, ios: u64, bytes: u64, passed_ns: u64) -> bool {
        let rate = |now: u64, before: u64| {
            (u128::from(now.saturating_sub(before)) * 1_000_000_000 / u128::from(passed_ns.max(1))) as u64
        };
        let (iops, bw) = (rate(ios, self.last.0), rate(bytes, self.last.1));
        self.last = (ios, bytes);
        self.seconds += 1;
        if self.attained || self.seconds <= self.ramp_s {
            return self.attained;
        }
        if self.iops.len() == self.window {
            self.iops.pop_front();
            self.bw.pop_front();
        }
        self.iops.push_back(iops);
        self.bw.push_back(bw);
        if self.iops.len() == self.window {
            self.judge();
        }
        self.attained
    }

    fn judge(&mut self) {
        let series = match self.criterion {
            SteadyCriterion::Iops | SteadyCriterion::IopsSlope => &self.iops,
            SteadyCriterion::Bw | SteadyCriterion::BwSlope => &self.bw,
        };
        let n = series.len() as f64;
        let mean = series.iter().sum::<u64>() as f64 / n;
        let scale = if self.percent && mean > 0.0 { 100.0 / mean } else { 1.0 };
        self.reached = match self.criterion {
            SteadyCriterion::Iops | SteadyCriterion::Bw => {
                series.iter().map(|value| (*value as f64 - mean).abs()).fold(0.0, f64::max) * scale
            }
            SteadyCriterion::IopsSlope | SteadyCriterion::BwSlope => {
                // Ordinary least squares over 0, 1, .. n - 1.
                let middle = (n - 1.0) / 2.0;
                let spread: f64 = (0..series.len()).map(|x| (x as f64 - middle).powi(2)).sum();
                let products: f64 =
                    series.iter().enumerate().map(|(x, y)| (x as f64 - middle) * (*y as f64 - mean)).sum();
                self.slope = if spread > 0.0 { products / spread * scale } else { 0.0 };
                self.slope.abs()
            }
        };
        self.attained = self.reached < self.limit;
    }

    /// Returns the outcome for the report.
    pub(crate) fn outcome(&self) -> SteadyState {
        let unit = if self.percent { "%" } else { "" };
        SteadyState {
            criterion: format!("{}:{:.6}{unit}", self.criterion.name(), self.limit),
            duration_s: self.window as u64,
            attained: self.attained,
            limit: self.limit,
            reached: self.reached,
            slope: self.slope,
            iops: self.iops.iter().copied().collect(),
            bw: self.bw.iter().copied().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn steady(criterion: SteadyCriterion, limit: f64) -> Steady {
        let mut job = FioJob::new("t");
        job.steadystate = Some(qd1_fio::types::SteadyState { criterion, limit, percent: true });
        job.steadystate_duration = Duration::from_secs(5);
        Steady::new(&job).unwrap()
    }

    fn attained_after(steady: &mut Steady, iops: impl Fn(u64) -> u64) -> Option<u64> {
        let mut total = 0;
        (1..100).find(|second| {
            total += iops(*second);
            steady.second(total, total * 4096, 1_000_000_000)
        })
    }

    #[test]
    fn a_level_series_is_steady_as_soon_as_the_window_is_full() {
        assert_eq!(attained_after(&mut steady(SteadyCriterion::Iops, 1.0), |_| 1000), Some(5));
        assert_eq!(attained_after(&mut steady(SteadyCriterion::BwSlope, 1.0), |_| 1000), Some(5));
    }

    #[test]
    fn a_falling_series_is_steady_only_once_it_has_settled() {
        let falls = |second: u64| if second < 20 { 3000 - 100 * second } else { 1000 };
        assert_eq!(attained_after(&mut steady(SteadyCriterion::IopsSlope, 0.5), falls), Some(24));
        let swings = |second: u64| if second.is_multiple_of(2) { 1000 } else { 1300 };
        assert_eq!(attained_after(&mut steady(SteadyCriterion::Iops, 5.0), swings), None);
    }
}
