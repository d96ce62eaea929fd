//! Which file is next: `file_service_type`, within the window of `openfiles`.

use qd1_fio::FioJob;
use qd1_fio::types::FileOrder;

use super::rng::Rng;
use super::skew::FileSkew;

/// Number of random draws of a file before the next usable one is taken.
const TRIES: u32 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Waits for a place in the window.
    Waiting,
    Open,
    Done,
}

/// The choice of files.
#[derive(Clone, Debug)]
pub(super) struct Service {
    order: FileOrder,
    every: u32,
    skew: Option<FileSkew>,
    states: Box<[State]>,
    window: usize,
    open: usize,
    done: usize,
    next: usize,
    current: usize,
    left: u32,
}

impl Service {
    pub(super) fn new(job: &FioJob, files: usize, seed: u64) -> Self {
        let order = job.file_service_type.order;
        let skew = FileSkew::new(order, files as u64, seed);
        // Files chosen by popularity are never done, so a window would exclude all but the first.
        let window = if skew.is_some() || job.openfiles == 0 { files } else { job.openfiles as usize };
        let mut service = Self {
            order,
            every: job.file_service_type.every.max(1),
            skew,
            states: vec![State::Waiting; files].into(),
            window,
            open: 0,
            done: 0,
            next: 0,
            current: 0,
            left: 0,
        };
        service.restart();
        service
    }

    /// Whether files are chosen by popularity, so that they restart when they end.
    pub(super) fn is_skewed(&self) -> bool {
        self.skew.is_some()
    }

    pub(super) fn restart(&mut self) {
        self.states.fill(State::Waiting);
        (self.open, self.done, self.next, self.current, self.left) = (0, 0, 0, 0, 0);
        if self.states.len() == 1 {
            self.take(0);
        }
    }

    /// The file of the next request; `None` when all are done.
    #[inline]
    pub(super) fn pick(&mut self, rng: &mut Rng) -> Option<usize> {
        if self.done == self.states.len() {
            return None;
        }
        if self.states.len() == 1 {
            return Some(0);
        }
        if self.states[self.current] == State::Open {
            if self.order == FileOrder::Sequential {
                return Some(self.current);
            }
            if self.left > 0 {
                self.left -= 1;
                return Some(self.current);
            }
        }
        self.current = match self.order {
            FileOrder::Roundrobin | FileOrder::Sequential => self.from(self.next),
            _ => self.drawn(rng),
        };
        self.take(self.current);
        self.next = (self.current + 1) % self.states.len();
        self.left = self.every - 1;
        Some(self.current)
    }

    /// This file has nothing left.
    pub(super) fn finish(&mut self, file: usize) {
        if self.states[file] == State::Open {
            self.open -= 1;
        }
        self.states[file] = State::Done;
        self.done += 1;
    }

    fn will_do(&self, file: usize) -> bool {
        match self.states[file] {
            State::Open => true,
            State::Waiting => self.open < self.window,
            State::Done => false,
        }
    }

    fn from(&self, first: usize) -> usize {
        let files = self.states.len();
        (first..files).chain(0..first).find(|file| self.will_do(*file)).unwrap_or(first)
    }

    fn drawn(&self, rng: &mut Rng) -> usize {
        let mut file = 0;
        for _ in 0..TRIES {
            file = match &self.skew {
                Some(skew) => skew.draw(rng),
                None => rng.below(self.states.len() as u64) as usize,
            };
            if self.will_do(file) {
                return file;
            }
        }
        self.from(file)
    }

    fn take(&mut self, file: usize) {
        if self.states[file] == State::Waiting {
            self.states[file] = State::Open;
            self.open += 1;
        }
    }
}
