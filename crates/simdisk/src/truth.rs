//! The truth about a device's latencies: its own law, run in virtual time at depth 1 until chance no longer matters.

use qd1_engine::sim::{Device, State};
use qd1_engine::{Op, OpKind};

/// Latencies of one kind of operation at depth 1, sorted, in ns.
#[derive(Clone, Debug)]
pub struct Law {
    sorted: Vec<f64>,
}

impl Law {
    /// Reads of `len` bytes, one after the other.
    pub fn reads(device: &Device, len: u32, count: usize) -> Self {
        Self::of(device, &[(OpKind::Read, len)], count)
    }

    /// Writes of `len` bytes, one after the other.
    pub fn writes(device: &Device, len: u32, count: usize) -> Self {
        Self::of(device, &[(OpKind::Write, len)], count)
    }

    /// Flushes, one after the other, with nothing to write; `len` is ignored.
    pub fn flushes(device: &Device, _len: u32, count: usize) -> Self {
        Self::of(device, &[(OpKind::Fdatasync, 0)], count)
    }

    /// Commits: a write of `len` bytes and the flush after it as one operation.
    pub fn commits(device: &Device, len: u32, count: usize) -> Self {
        Self::of(device, &[(OpKind::Write, len), (OpKind::Fdatasync, 0)], count)
    }

    /// Operations that consist of these requests, each started when the previous one has ended. The seed is not the
    /// disk's own: the truth is the law, not the draws that a measurement happened to see.
    fn of(device: &Device, requests: &[(OpKind, u32)], count: usize) -> Self {
        let mut state = State::new(Device { seed: device.seed ^ 0x7247_7468, ..device.clone() });
        let mut now_ns = 0.0;
        let mut sorted = Vec::with_capacity(count);
        for _ in 0..count {
            let begin_ns = now_ns;
            for (kind, len) in requests {
                now_ns = state.complete_ns(&Op { kind: *kind, file: 0, len: *len, offset: 0 }, now_ns);
            }
            sorted.push(now_ns - begin_ns);
        }
        sorted.sort_unstable_by(f64::total_cmp);
        Self { sorted }
    }

    /// The quantile `q` (0 to 1), ns.
    pub fn quantile(&self, q: f64) -> f64 {
        let index = (q * self.sorted.len() as f64).ceil() as usize;
        self.sorted[index.clamp(1, self.sorted.len()) - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use qd1_engine::sim::Service;

    #[test]
    fn the_truth_about_a_log_normal_is_its_formula() {
        let device = Device { read: Service::log_normal(1e6, 0.4), ..Device::default() };
        let law = Law::reads(&device, 4096, 200_000);
        for (q, z) in [(0.5, 0.0), (0.99, 2.3263), (0.999, 3.0902)] {
            let exact = 1e6 * (z * 0.4f64).exp();
            assert!((law.quantile(q) / exact - 1.0).abs() < 0.02, "{q}: {} of {exact}", law.quantile(q));
        }
    }

    #[test]
    fn a_commit_is_the_sum_of_its_parts() {
        let device =
            Device { write: Service::log_normal(1e6, 0.0), flush: Service::log_normal(3e6, 0.0), ..Device::default() };
        assert!((Law::commits(&device, 4096, 10).quantile(0.5) - 4e6).abs() < 1.0);
    }
}
