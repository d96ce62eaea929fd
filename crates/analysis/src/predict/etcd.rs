//! etcd with one member under puts that come at a rate, as stations in virtual time: processors, the write-ahead log,
//! and the backend.
//!
//! A put is processed, then waits for the log: one sync at a time, which carries all puts that came before it began
//! (raft's `Ready` batches). Then it is applied, one at a time, and may have to wait for the backend, which is
//! committed ten times a second or after 10,000 puts (`backend-batch-interval`, `backend-batch-limit`) and syncs its
//! file twice each time: data, then the page that refers to it (bbolt).

use super::disk::{Commits, Disk};
use super::draw::Draw;

/// etcd's default `--backend-batch-interval`, ns, and `--backend-batch-limit`.
const BACKEND_EVERY_NS: f64 = 100e6;
const BACKEND_PUTS: u32 = 10_000;
/// Syncs of one commit of bbolt.
const BACKEND_SYNCS: u32 = 2;
/// Puts simulated for each rate, and how many of them are left out at the beginning.
const PUTS: usize = 60_000;
const WARM_UP: usize = 3_000;
/// Tries of the bisection: a range of 10^6 is narrowed to a factor of 1.002.
const HALVINGS: u32 = 13;
/// The golden ratio's fraction: its multiples are spread most evenly.
const GOLDEN: f64 = 0.618_033_988_75;
/// Range of rates examined, puts/s.
const RATES: (f64, f64) = (1.0, 1e6);

/// What a put costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    pub(super) processors: u32,
    /// Processor time of a put, client and server, ns.
    pub(super) work_ns: f64,
    /// The part of it that is applied one at a time, ns.
    pub(super) apply_ns: f64,
    /// Processor time of a sync: the kernel's threads, and wake-ups between threads, ns.
    pub(super) sync_ns: f64,
    /// Time of a put in which no processor works on it, ns.
    pub(super) idle_ns: f64,
    /// All processors pause after this many puts (Go collects garbage each time its heap has grown by a share), for
    /// this mean, ns.
    pub(super) pause_puts: f64,
    pub(super) pause_ns: f64,
}

/// Returns the puts a second at which the 99th percentile of their latency is `bound_ns`; `None` if it is above that at
/// any rate.
pub(super) fn rate(costs: &Costs, sync: &Commits, bound_ns: f64, seed: u64) -> Option<f64> {
    let holds = |rate: f64| p99_ns(costs, sync, rate, seed) <= bound_ns;
    if !holds(RATES.0) {
        return None;
    }
    let (mut low, mut high) = RATES;
    for _ in 0..HALVINGS {
        let middle = (low * high).sqrt();
        if holds(middle) { low = middle } else { high = middle }
    }
    Some((low * high).sqrt())
}

/// The 99th percentile of the latency of puts that come at random, `rate` a second, ns.
pub(super) fn p99_ns(costs: &Costs, sync: &Commits, rate: f64, seed: u64) -> f64 {
    let (mut draw, mut disk) = (Draw::new(seed), Disk::new(sync));
    let mut now_ns = 0.0;
    let arrivals: Vec<f64> = std::iter::repeat_with(|| {
        now_ns += draw.exponential(1e9 / rate);
        now_ns
    })
    .take(PUTS)
    .collect();
    // Each put has its own sync until syncs follow one another without a gap.
    let syncs = (1e9 / rate / sync.mean_ns().max(1.0)).min(1.0);
    let work_ns = costs.work_ns - costs.apply_ns + syncs * costs.sync_ns;
    let worked = worked(costs, work_ns, &arrivals, &mut draw);
    let mut backend = Backend { free_ns: 0.0, next_ns: BACKEND_EVERY_NS, puts: 0 };
    let (mut log_free_ns, mut applied_ns) = (0.0f64, 0.0f64);
    let mut latencies = Vec::with_capacity(PUTS);
    let mut at = 0;
    while at < worked.len() {
        let begin_ns = log_free_ns.max(worked[at].0);
        let end = at + worked[at..].partition_point(|(done_ns, _)| *done_ns <= begin_ns);
        log_free_ns = begin_ns + disk.commit(begin_ns, 0.0, &mut draw);
        applied_ns = applied_ns.max(log_free_ns);
        for (_, arrived_ns) in &worked[at..end] {
            applied_ns = backend.admit(applied_ns, &mut disk, &mut draw) + costs.apply_ns;
            latencies.push(applied_ns - arrived_ns);
        }
        at = end;
    }
    latencies.drain(..WARM_UP);
    latencies.sort_unstable_by(f64::total_cmp);
    latencies[latencies.len() * 99 / 100]
}

/// Returns when the processors finish each put, which takes them `work_ns`, and when it arrived, in time order.
fn worked(costs: &Costs, work_ns: f64, arrivals: &[f64], draw: &mut Draw) -> Vec<(f64, f64)> {
    let mut processors = vec![0.0f64; costs.processors.max(1) as usize];
    let mut pauses = Pauses::new(costs);
    let mut worked: Vec<(f64, f64)> = arrivals
        .iter()
        .map(|arrived_ns| {
            let pause_ns = pauses.at_put();
            if pause_ns > 0.0 {
                processors.iter_mut().for_each(|free_ns| *free_ns = free_ns.max(*arrived_ns) + pause_ns);
            }
            let first = processors.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is a processor");
            *first = first.max(*arrived_ns) + draw.around(work_ns);
            (*first + costs.idle_ns, *arrived_ns)
        })
        .collect();
    worked.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    worked
}

/// Exponential pauses after this many puts each. There are too few of them to leave to chance: the parts of the
/// distribution take turns (a Weyl sequence).
struct Pauses {
    puts: f64,
    mean_ns: f64,
    since: f64,
    part: f64,
}

impl Pauses {
    const fn new(costs: &Costs) -> Self {
        Self { puts: costs.pause_puts, mean_ns: costs.pause_ns, since: 0.0, part: 0.5 }
    }

    /// The pause that comes with the next put, ns; 0 for none.
    fn at_put(&mut self) -> f64 {
        self.since += 1.0;
        if self.since < self.puts {
            return 0.0;
        }
        self.since -= self.puts;
        self.part = (self.part + GOLDEN).fract();
        -self.mean_ns * (1.0 - self.part).ln()
    }
}

/// The file of keys, which takes no puts while it is committed.
struct Backend {
    free_ns: f64,
    next_ns: f64,
    puts: u32,
}

impl Backend {
    /// Returns when a put that is ready at `at_ns` is admitted.
    fn admit(&mut self, at_ns: f64, disk: &mut Disk<'_>, draw: &mut Draw) -> f64 {
        while at_ns.max(self.free_ns) >= self.next_ns || self.puts >= BACKEND_PUTS {
            let begin_ns = if self.puts >= BACKEND_PUTS { at_ns.max(self.free_ns) } else { self.next_ns };
            // With nothing to commit it takes no time.
            let syncs = if self.puts > 0 { BACKEND_SYNCS } else { 0 };
            self.free_ns = begin_ns.max(self.free_ns);
            for _ in 0..syncs {
                self.free_ns += disk.commit(self.free_ns, 0.0, draw);
            }
            self.next_ns = self.free_ns + BACKEND_EVERY_NS;
            self.puts = 0;
        }
        self.puts += 1;
        at_ns.max(self.free_ns)
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::Hist;

    use super::*;

    const COSTS: Costs = Costs {
        processors: 2,
        work_ns: 100e3,
        apply_ns: 10e3,
        sync_ns: 0.0,
        idle_ns: 100e3,
        pause_puts: f64::INFINITY,
        pause_ns: 0.0,
    };
    const BOUND_NS: f64 = 10e6;

    fn constant(ns: u64) -> Commits {
        let mut hist = Hist::new();
        (0..10).for_each(|_| hist.record(ns));
        Commits::new(&hist, None, 1.0)
    }

    #[test]
    fn a_fast_disk_leaves_the_processors() {
        let rate = rate(&COSTS, &constant(20_000), BOUND_NS, 1).unwrap();
        assert!((15e3..=22.5e3).contains(&rate), "{rate}");
    }

    #[test]
    fn a_sync_of_ten_milliseconds_passes_the_bound_at_any_rate() {
        assert_eq!(rate(&COSTS, &constant(10_000_000), BOUND_NS, 1), None);
    }

    #[test]
    fn a_lone_put_waits_for_one_sync() {
        let p99_ns = p99_ns(&COSTS, &constant(2_000_000), 2.0, 1);
        // One in fifty comes while the backend commits, for two syncs.
        assert!((2.1e6..4.4e6).contains(&p99_ns), "{p99_ns}");
    }

    #[test]
    fn pauses_decide_where_the_disk_does_not() {
        let costs = Costs { pause_puts: 300.0, pause_ns: 5e6, ..COSTS };
        let rate = rate(&costs, &constant(20_000), BOUND_NS, 1).unwrap();
        assert!((1e3..6e3).contains(&rate), "{rate}");
    }

    #[test]
    fn syncs_that_take_the_processors_bear_fewer_puts() {
        let of = |sync_ns| rate(&Costs { sync_ns, ..COSTS }, &constant(20_000), BOUND_NS, 1).unwrap();
        // Two processors, and twice as much work for each put.
        let ratio = of(COSTS.work_ns - COSTS.apply_ns) / of(0.0);
        assert!((0.45..0.6).contains(&ratio), "{ratio}");
    }

    #[test]
    fn pauses_come_evenly_and_have_the_mean_that_is_asked_for() {
        let mut pauses = Pauses::new(&Costs { pause_puts: 300.0, pause_ns: 5e6, ..COSTS });
        let met: Vec<f64> = (0..300_000).map(|_| pauses.at_put()).filter(|ns| *ns > 0.0).collect();
        let mean_ns = met.iter().sum::<f64>() / met.len() as f64;
        assert!(met.len() == 1000 && (mean_ns / 5e6 - 1.0).abs() < 0.01, "{} of {mean_ns}", met.len());
        let long = met.iter().filter(|ns| **ns > 5e6 * f64::ln(10.0)).count();
        assert!((95..=105).contains(&long), "a tenth of an exponential time is longer: {long}");
    }

    #[test]
    fn slower_syncs_bear_fewer_puts() {
        let of = |ns: u64| rate(&COSTS, &constant(ns), BOUND_NS, 1).unwrap_or(0.0);
        let (fast, slow) = (of(500_000), of(4_500_000));
        assert!(fast >= slow, "{fast} {slow}");
    }
}
