//! The progress line: with fio's content, but on stderr, so that reports on stdout stay clean.

use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::time::Duration;

use qd1_fio::output::units::{Unit, short};
use qd1_fio::{Eta, FioJob, Invocation};
use qd1_jobs::{Now, Stage};

/// Shows progress about once a second.
pub(crate) struct Line<'a> {
    jobs: &'a [FioJob],
    shown: bool,
    interval_ns: u64,
    newline_ns: Option<u64>,
    next_ns: u64,
    next_line_ns: u64,
    before: [(u64, u64); 3],
    before_ns: u64,
    open: bool,
}

impl<'a> Line<'a> {
    /// Returns a line that follows `--eta`, `--eta-interval` and `--eta-newline`, and is never shown if `quiet`.
    pub(crate) fn new(invocation: &'a Invocation, quiet: bool) -> Self {
        let flags = &invocation.flags;
        let shown = match flags.eta {
            _ if quiet => false,
            Eta::Always => true,
            Eta::Never => false,
            Eta::Auto => std::io::stderr().is_terminal(),
        };
        let ns = |time: Duration| time.as_nanos() as u64;
        Self {
            jobs: &invocation.jobs,
            shown,
            interval_ns: flags.eta_interval.map_or(1_000_000_000, ns),
            newline_ns: flags.eta_newline.map(ns),
            next_ns: 0,
            next_line_ns: 0,
            before: [(0, 0); 3],
            before_ns: 0,
            open: false,
        }
    }

    /// Shows the line if it is time.
    pub(crate) fn tick(&mut self, now: &Now<'_>) {
        if !self.shown || now.elapsed_ns < self.next_ns {
            return;
        }
        self.next_ns = now.elapsed_ns + self.interval_ns;
        let text = self.text(now);
        let mut stderr = std::io::stderr().lock();
        // A run continues even if its progress cannot be shown.
        let _ = write!(stderr, "\r{text}\x1b[K");
        self.open = true;
        if let Some(newline_ns) = self.newline_ns
            && now.elapsed_ns >= self.next_line_ns
        {
            self.next_line_ns = now.elapsed_ns + newline_ns;
            let _ = writeln!(stderr);
            self.open = false;
        }
        let _ = stderr.flush();
    }

    fn text(&mut self, now: &Now<'_>) -> String {
        let sum = |pick: fn((u64, u64)) -> u64, direction: usize| {
            now.threads.iter().map(|thread| pick(thread.moved[direction])).sum::<u64>()
        };
        let moved = [0, 1, 2].map(|direction| (sum(|(bytes, _)| bytes, direction), sum(|(_, ios)| ios, direction)));
        let seconds = (now.elapsed_ns - self.before_ns).max(1) as f64 / 1e9;
        let running = now.threads.iter().filter(|thread| thread.stage == Stage::Running).count();
        let mut text = format!("Jobs: {running}: {}", self.letters(now));
        if let Some(left_s) = self.left_s(now) {
            let total_s = now.elapsed_ns / 1_000_000_000 + left_s;
            let _ = write!(text, "[{:.1}%]", 100.0 * (now.elapsed_ns as f64 / 1e9 / total_s.max(1) as f64).min(1.0));
        }
        let mut rates = Vec::new();
        let mut iops = Vec::new();
        for (direction, letter) in ["r", "w", "t"].into_iter().enumerate() {
            let (bytes, ios) =
                (moved[direction].0 - self.before[direction].0, moved[direction].1 - self.before[direction].1);
            if moved[direction].1 > 0 {
                rates.push(format!("{letter}={}/s", short((bytes as f64 / seconds) as u64, 4, true, Unit::Bytes)));
                iops.push(format!("{letter}={}", short((ios as f64 / seconds) as u64, 4, false, Unit::Plain)));
            }
        }
        let _ = write!(text, "[{}][{} IOPS]", rates.join(","), iops.join(","));
        if let Some(left_s) = self.left_s(now) {
            let _ = write!(text, "[eta {:02}m:{:02}s]", left_s / 60, left_s % 60);
        }
        (self.before, self.before_ns) = (moved, now.elapsed_ns);
        text
    }

    /// Returns a letter for each thread, with equal neighbours counted: `[r(3),w(1),_(1)]`.
    fn letters(&self, now: &Now<'_>) -> String {
        let mut runs: Vec<(char, u32)> = Vec::new();
        for thread in now.threads {
            let kind = self.jobs[thread.plan.job].rw.kind;
            let letter = match (thread.stage, kind.is_random()) {
                (Stage::Pending, _) => 'P',
                (Stage::Ended, _) => '_',
                (Stage::Running, random) => {
                    let letter = match (kind.reads(), kind.writes(), kind.trims()) {
                        (true, true, _) => 'm',
                        (true, ..) => 'r',
                        (_, true, _) => 'w',
                        _ => 'd',
                    };
                    // fio writes random in lower case and sequential in upper case.
                    if random { letter } else { letter.to_ascii_uppercase() }
                }
            };
            match runs.last_mut().filter(|(last, _)| *last == letter) {
                Some((_, count)) => *count += 1,
                None => runs.push((letter, 1)),
            }
        }
        let runs: Vec<String> = runs.iter().map(|(letter, count)| format!("{letter}({count})")).collect();
        format!("[{}]", runs.join(","))
    }

    /// Returns the time left of timed jobs, seconds; `None` when no job is timed.
    fn left_s(&self, now: &Now<'_>) -> Option<u64> {
        let timed = now.threads.iter().filter(|thread| thread.stage != Stage::Ended);
        let length = |job: &FioJob| job.runtime + job.ramp_time;
        let longest = timed.map(|thread| length(&self.jobs[thread.plan.job])).max()?;
        (!longest.is_zero()).then(|| longest.as_secs().saturating_sub(now.elapsed_ns / 1_000_000_000))
    }

    /// Ends the line, so that later output starts on a new one.
    pub(crate) fn finish(&mut self) {
        if self.open {
            let _ = writeln!(std::io::stderr());
            self.open = false;
        }
    }
}
