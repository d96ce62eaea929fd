//! Answers that several connections of a load send to the one thread that counts them.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use qd1_clock as clock;
use qd1_engine::threads::room_for_one;
use qd1_model::op::Ended;
use qd1_model::plan::Stop;
use qd1_model::record::program::{AppStep, Due};
use qd1_runner::watch::{Pacer, Watch};
use qd1_system::child::Cancelled;

use crate::program::Loaded;
use crate::tally::Tally;

/// How long a waiting thread sleeps between checks.
pub(crate) const POLL: Duration = Duration::from_millis(20);

/// How long to wait for outstanding answers after the end.
pub(crate) const DRAIN_NS: u64 = 2_000_000_000;

/// An answer: when, ns from the start of the measured time, and how long after it was due. Answers before that start
/// are not sent.
pub(crate) struct Answer {
    pub(crate) at_ns: u64,
    pub(crate) lat_ns: u64,
}

/// The window in which answers are waited for.
pub(crate) struct Window<'a> {
    /// When the measured time began, on the clock.
    pub(crate) start_ns: u64,
    pub(crate) stop: &'a Stop,
    pub(crate) cancel: &'a AtomicBool,
}

/// Connections of a load, each on a thread of its own.
pub(crate) struct Connections {
    pub(crate) count: usize,
    /// Prefix of the threads' names; the number of the connection follows.
    pub(crate) name: &'static str,
}

impl Connections {
    /// Runs each until it returns, and counts their answers. Sets `over` when it stops waiting for more.
    ///
    /// # Errors
    /// The first error of a connection, or if a thread cannot be started.
    pub(crate) fn run(
        &self,
        connection: impl Fn(usize, &Sender<Result<Answer>>) -> Result<()> + Sync,
        over: &AtomicBool,
        window: &Window<'_>,
        tally: &mut Tally,
        watch: &mut dyn Watch,
    ) -> Result<()> {
        let (sender, receiver) = mpsc::channel();
        std::thread::scope(|scope| {
            for number in 0..self.count {
                let (sender, connection) = (sender.clone(), &connection);
                let work = move || {
                    let result = connection(number, &sender);
                    // The receiver may have given up; nobody needs the error then.
                    let _ = result.map_err(|error| sender.send(Err(error)));
                };
                let thread = std::thread::Builder::new().name(format!("{}-{number}", self.name));
                if let Err(error) = room_for_one().and_then(|()| thread.spawn_scoped(scope, work)) {
                    over.store(true, Ordering::Relaxed);
                    return Err(error).context("cannot start a thread");
                }
            }
            drop(sender);
            let outcome = gather(&receiver, window, tally, watch);
            over.store(true, Ordering::Relaxed);
            outcome
        })
    }
}

/// Returns what was counted, as a load of the program; `None` if nothing was, unless operations were due at a rate:
/// then it is a result that none was answered.
///
/// # Errors
/// [`Cancelled`] when it was stopped before the first answer.
pub(crate) fn loaded(mut tally: Tally, window: &Window<'_>, due: Option<Due>) -> Result<Option<Loaded>> {
    let app = AppStep { due, ..AppStep::default() };
    let interrupted = window.cancel.load(Ordering::Relaxed);
    if tally.settle() == 0 {
        if interrupted {
            return Err(Cancelled.into());
        }
        let none = Loaded { runtime_ns: window.stop.max_ns, ended: Ended::Time, app, ..Loaded::default() };
        return Ok(due.is_some_and(|due| due.count > 0).then_some(none));
    }
    let ended = if interrupted { Ended::Interrupted } else { Ended::Time };
    let runtime_ns = tally.seen_ns().max(if interrupted { 1 } else { window.stop.max_ns });
    let (stream, intervals) = tally.finish(runtime_ns);
    Ok(Some(Loaded { streams: stream.into_iter().collect(), intervals, runtime_ns, ended, app, ..Loaded::default() }))
}

/// Returns the part of the schedule, ns from the start of the ramp, that was due in the measured time.
pub(crate) fn due(schedule_ns: &[u64], stop: &Stop) -> Due {
    let measured = schedule_ns.iter().filter(|due_ns| **due_ns >= stop.ramp_ns).count();
    Due { count: measured as u64, drain_ns: DRAIN_NS }
}

/// Counts answers until all connections have ended, the time is up, or the user stops it.
///
/// # Errors
/// The first error of a connection.
fn gather(
    receiver: &Receiver<Result<Answer>>,
    window: &Window<'_>,
    tally: &mut Tally,
    watch: &mut dyn Watch,
) -> Result<()> {
    let mut pacer = Pacer::default();
    let stop = window.stop;
    loop {
        match receiver.recv_timeout(POLL) {
            Ok(Ok(answer)) => tally.add(answer.at_ns, answer.lat_ns),
            Ok(Err(error)) => return Err(error),
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {}
        }
        let elapsed_ns = clock::now_ns().saturating_sub(window.start_ns);
        if window.cancel.load(Ordering::Relaxed) || elapsed_ns > stop.max_ns + DRAIN_NS {
            return Ok(());
        }
        pacer.take(elapsed_ns, || {
            watch.figures(&tally.so_far());
            watch.tick(elapsed_ns.min(stop.max_ns), stop);
        });
    }
}

/// Returns the times of a Poisson process of `rate` a second, ns, over `length_ns`; at least one, so that there is
/// something to report.
pub(crate) fn poisson(random: &mut Rng, rate: u32, length_ns: u64) -> Vec<u64> {
    let mut at_ns = 0.0;
    let mut due_ns = Vec::new();
    loop {
        at_ns -= (1.0 - random.f64()).ln() * 1e9 / f64::from(rate);
        if at_ns >= length_ns as f64 {
            break;
        }
        due_ns.push(at_ns as u64);
    }
    debug_assert!(due_ns.is_sorted(), "requests are sent in the order in which they are due");
    if due_ns.is_empty() { vec![0] } else { due_ns }
}

/// Waits until `at_ns`; returns false if the load ends before.
pub(crate) fn wait_until(at_ns: u64, over: &AtomicBool) -> bool {
    loop {
        if over.load(Ordering::Relaxed) {
            return false;
        }
        let left_ns = at_ns.saturating_sub(clock::now_ns());
        if left_ns == 0 {
            return true;
        }
        std::thread::sleep(Duration::from_nanos(left_ns).min(POLL));
    }
}
