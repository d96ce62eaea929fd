//! `flow`: jobs that share out their requests by weight.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// All jobs of one flow.
#[derive(Debug, Default)]
pub(crate) struct Flow {
    requests: AtomicU64,
    weights: AtomicU64,
}

/// One thread's part in its flow.
#[derive(Debug)]
pub(crate) struct Share {
    flow: Arc<Flow>,
    weight: u64,
    requests: u64,
}

impl Flow {
    /// Registers a thread before any thread of the flow begins; [`Flow::share`] returns its part.
    pub(crate) fn expect(&self, weight: u32) {
        self.weights.fetch_add(u64::from(weight), Ordering::Relaxed);
    }

    /// The part of a registered thread. Dropping it leaves the flow to the others.
    pub(crate) fn share(self: &Arc<Self>, weight: u32) -> Share {
        Share { flow: self.clone(), weight: u64::from(weight), requests: 0 }
    }
}

impl Share {
    /// Whether the thread has issued more than its share of all requests so far and has to wait for the others.
    pub(crate) fn is_ahead(&self) -> bool {
        let weights = self.flow.weights.load(Ordering::Relaxed);
        let requests = self.flow.requests.load(Ordering::Relaxed);
        u128::from(self.requests) * u128::from(weights) > u128::from(requests) * u128::from(self.weight)
    }

    /// The thread issued a request.
    pub(crate) fn issued(&mut self) {
        self.requests += 1;
        self.flow.requests.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.flow.weights.fetch_sub(self.weight, Ordering::Relaxed);
        self.flow.requests.fetch_sub(self.requests, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_are_shared_out_by_weight() {
        let flow = Arc::new(Flow::default());
        flow.expect(3);
        flow.expect(1);
        let (mut large, mut small) = (flow.share(3), flow.share(1));
        for _ in 0..10_000 {
            for share in [&mut large, &mut small] {
                if !share.is_ahead() {
                    share.issued();
                }
            }
        }
        let ratio = large.requests as f64 / small.requests as f64;
        assert!((ratio / 3.0 - 1.0).abs() < 0.001, "{ratio}");
    }

    #[test]
    fn who_is_left_alone_is_never_ahead() {
        let flow = Arc::new(Flow::default());
        flow.expect(1);
        flow.expect(1);
        let (mut one, mut other) = (flow.share(1), flow.share(1));
        one.issued();
        other.issued();
        drop(other);
        one.issued();
        assert!(!one.is_ahead());
    }
}
