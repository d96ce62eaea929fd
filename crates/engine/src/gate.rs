//! Lets all workers of a step start at the same moment, or none of them.

use std::sync::{Condvar, Mutex, MutexGuard};

use qd1_model::plan::Stop;

use crate::window::Window;
use qd1_clock as clock;

/// Where workers wait for each other.
pub(crate) struct Gate {
    workers: u32,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    begun: u32,
    arrived: u32,
    abandoned: bool,
    window: Option<Window>,
}

impl Gate {
    pub(crate) fn new(workers: u32) -> Self {
        Self { workers, state: Mutex::default(), changed: Condvar::new() }
    }

    /// Waits until each worker has its thread, before any of them takes memory that the next thread needs. False if a
    /// thread could not be started.
    pub(crate) fn begin(&self) -> bool {
        let mut state = self.lock();
        state.begun += 1;
        self.changed.notify_all();
        while state.begun < self.workers && !state.abandoned {
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
        state.begun == self.workers
    }

    /// Waits for the other workers. Returns when the step measures; `None` if one of them cannot take part.
    pub(crate) fn pass(&self, stop: &Stop, interval_ns: u64) -> Option<Window> {
        let mut state = self.lock();
        state.arrived += 1;
        if state.arrived == self.workers && !state.abandoned {
            let measure_ns = clock::now_ns() + stop.ramp_ns;
            let deadline_ns = measure_ns + stop.max_ns;
            state.window = Some(Window { measure_ns, deadline_ns, interval_ns });
            self.changed.notify_all();
        }
        while state.window.is_none() && !state.abandoned {
            state = self.changed.wait(state).expect("no holder of this lock panics");
        }
        state.window
    }

    /// Releases those who wait for a worker that leaves, by an error or a panic, before it has passed.
    pub(crate) fn abandon_on_leaving(&self) -> Leaving<'_> {
        Leaving(self)
    }

    /// Releases those who wait and turns away those who come later.
    pub(crate) fn abandon(&self) {
        self.lock().abandoned = true;
        self.changed.notify_all();
    }

    /// When the step measures; `None` until all workers have arrived.
    pub(crate) fn window(&self) -> Option<Window> {
        self.lock().window
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no holder of this lock panics")
    }
}

/// A worker that may leave.
pub(crate) struct Leaving<'a>(&'a Gate);

impl Drop for Leaving<'_> {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STOP: Stop = Stop { min_ns: 0, max_ns: 1_000, ramp_ns: 10, quantile: 0.0, tolerance: 0.0 };

    #[test]
    fn all_workers_get_the_same_window() {
        let gate = Gate::new(3);
        let windows: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..3).map(|_| scope.spawn(|| gate.pass(&STOP, 100).unwrap().measure_ns)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        });
        assert!(windows.iter().all(|window| *window == windows[0]));
        assert_eq!(gate.window().unwrap().deadline_ns, windows[0] + 1_000);
    }

    /// When the third thread could not be started, two waited at a barrier forever.
    #[test]
    fn workers_that_wait_for_one_that_cannot_come_are_sent_away() {
        let gate = Gate::new(3);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..2).map(|_| scope.spawn(|| gate.pass(&STOP, 100).is_none())).collect();
            drop(gate.abandon_on_leaving());
            assert!(workers.into_iter().all(|worker| worker.join().unwrap()));
        });
        assert!(gate.pass(&STOP, 100).is_none() && gate.window().is_none());
    }

    #[test]
    fn no_worker_begins_before_all_have_their_threads() {
        let gate = Gate::new(2);
        let together = std::thread::scope(|scope| {
            let first = scope.spawn(|| gate.begin());
            gate.begin() && first.join().unwrap()
        });
        assert!(together);
        let gate = Gate::new(2);
        gate.abandon();
        assert!(!gate.begin());
    }

    #[test]
    fn a_worker_that_has_ended_sends_nobody_away_who_passed() {
        let gate = Gate::new(1);
        assert!(gate.pass(&STOP, 100).is_some());
        gate.abandon();
        assert!(gate.window().is_some());
    }
}
