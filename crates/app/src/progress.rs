//! Progress on stderr during a run: a live line on a terminal, a plain line now and then elsewhere.

use std::io::IsTerminal as _;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use qd1_clock as clock;
use qd1_engine::run::Progress as Watched;
use qd1_model::plan::time::{OVERHEAD_NS, VISIT_NS};
use qd1_model::plan::{Arrival, Plan, StepPlan, Stop, UNTIL_DONE_NS, Work};
use qd1_model::record::{Interval, StepRecord};
use qd1_model::units::{Bytes, format_count, format_ns, format_rate, format_span_ns};
use qd1_model::{Estimate, OpClass, Subject, printable};
use qd1_runner::watch::Watch;
use qd1_stats as stats;

use crate::message;

/// Without a terminal, a line at most this often.
const LINE_EVERY_NS: u64 = 10_000_000_000;

/// Blocks from this size on are moved about as fast as the test file is written, bytes.
const LARGE: u32 = 64 << 10;
/// The file is written for this long before its speed is used to estimate the time.
const LOOK_NS: u64 = 1_000_000_000;
/// The estimate is printed again if it is shorter than the first one by this factor.
const SHORTER: f64 = 1.2;

/// Progress of one run.
pub(crate) struct Progress {
    mode: Mode,
    steps: Vec<Budget>,
    current: usize,
    /// Steps that are over.
    done: usize,
    figures: String,
    line_ns: u64,
    /// Whether the steps are so many and so short that a line for each would only scroll by.
    brief: bool,
    /// Set while a test file is written of which only the longest time was printed.
    writing: Option<Writing>,
}

/// A test file that is being written.
struct Writing {
    begin_ns: u64,
    bytes: u64,
    longest_ns: u64,
    steps: Vec<Later>,
}

/// A step that comes after the test file is written.
struct Later {
    longest_ns: u64,
    /// Total size that it moves in large blocks, as in writing the file; then it ends.
    bytes: Option<u64>,
}

impl Later {
    fn of(step: &StepPlan) -> Self {
        let bytes = match &step.work {
            Work::Io(io) if io.block_max() >= LARGE && io.arrival == Arrival::Closed => Some(io.io_size.0),
            _ => None,
        };
        Self { longest_ns: step.longest_ns(), bytes: bytes.filter(|bytes| *bytes > 0) }
    }
}

impl Writing {
    /// Returns the time of the whole run if writing the file takes `whole_ns`; `None` unless that is much shorter than
    /// the time printed first.
    fn at_most(&self, whole_ns: u64) -> Option<u64> {
        let byte_ns = whole_ns as f64 / self.bytes.max(1) as f64;
        let step_ns = |step: &Later| match step.bytes {
            Some(bytes) => step.longest_ns.min((bytes as f64 * byte_ns) as u64 + VISIT_NS),
            None => step.longest_ns,
        };
        let printed_ns = self.steps.iter().map(|step| step.longest_ns).sum::<u64>() + self.longest_ns + OVERHEAD_NS;
        let steps_ns: u64 = self.steps.iter().map(step_ns).sum();
        let at_most_ns = steps_ns + whole_ns.min(self.longest_ns) + OVERHEAD_NS;
        (printed_ns as f64 > SHORTER * at_most_ns as f64).then_some(at_most_ns)
    }
}

/// The time of a step.
struct Budget {
    name: String,
    /// Longest time of each visit, ns.
    visit_ns: u64,
    /// Visits to come.
    left: u64,
}

enum Mode {
    Quiet,
    Lines,
    Bar(ProgressBar),
}

impl Progress {
    pub(crate) fn new(quiet: bool) -> Self {
        let mode = if quiet {
            Mode::Quiet
        } else if std::io::stderr().is_terminal() {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            let template = ProgressStyle::with_template("{spinner} {wide_msg}");
            bar.set_style(template.unwrap_or_else(|_| ProgressStyle::default_spinner()).tick_chars("|/-\\ "));
            bar.enable_steady_tick(Duration::from_millis(150));
            Mode::Bar(bar)
        } else {
            Mode::Lines
        };
        Self {
            mode,
            steps: Vec::new(),
            current: 0,
            done: 0,
            figures: String::new(),
            line_ns: 0,
            brief: false,
            writing: None,
        }
    }

    /// Returns how many steps are done, including this one, as `[ 3/10]`; the width is the same for every step. Steps
    /// may be visited in any order.
    fn position(&self) -> String {
        let count = self.steps.len().to_string();
        let number = (self.done + 1).min(self.steps.len().max(1));
        format!("[{number:>width$}/{count}]", width = count.len())
    }

    /// Prints a line that stays.
    fn print(&mut self, line: &str) {
        let line = &*printable(line);
        match &self.mode {
            Mode::Quiet => {}
            Mode::Lines => message::print(line),
            Mode::Bar(bar) => bar.println(line),
        }
        self.line_ns = clock::now_ns();
    }

    /// Prints the estimate again, once it is known how long writing the file takes.
    fn revise_estimate(&mut self, whole_ns: u64) {
        if let Some(at_most_ns) = self.writing.take().and_then(|writing| writing.at_most(whole_ns)) {
            let longest = format_span_ns(at_most_ns);
            self.print(&format!("at most {longest}, judging by how fast the test file is written"));
        }
    }

    /// Shows a line that the next one replaces; without a terminal, at most one line every ten seconds is printed.
    fn show(&mut self, line: &str) {
        match &self.mode {
            Mode::Quiet => {}
            Mode::Bar(bar) => bar.set_message(printable(line).into_owned()),
            Mode::Lines if clock::now_ns() >= self.line_ns + LINE_EVERY_NS => self.print(line),
            Mode::Lines => {}
        }
    }
}

fn budget(step: &StepPlan) -> Budget {
    let left = u64::from(step.visits.max(1));
    Budget { name: step.name.clone(), visit_ns: step.duration_max_ns() / left, left }
}

impl Watch for Progress {
    fn begin(&mut self, plan: &Plan) {
        self.steps = plan.steps.iter().map(budget).collect();
        (self.current, self.done) = (0, 0);
        self.brief = plan.subject.has_many_short_steps();
        if plan.subject == Subject::Filesystems {
            // One of many short runs, which the heading before it names.
            return;
        }
        if plan.needs_shared_file() && plan.over.is_none() {
            let (bytes, longest_ns) = (plan.target.size.0, plan.target.prepare_max_ns);
            let steps = plan.steps.iter().map(Later::of).collect();
            self.writing = Some(Writing { begin_ns: clock::now_ns(), bytes, longest_ns, steps });
        }
        let place = plan.target.path.display();
        let longest = format_span_ns(plan.longest_ns());
        let longest = match plan.subject {
            Subject::Program => format!("at most {longest} of load, plus making the data"),
            Subject::Limits => format!("about {}, at most {longest}", format_span_ns(plan.likely_ns())),
            _ if plan.is_until_done() => "until all is done".to_owned(),
            _ => format!("at most {longest}"),
        };
        let steps = if plan.steps.len() == 1 { "1 step".to_owned() } else { format!("{} steps", plan.steps.len()) };
        self.print(&format!("{}: {steps} on {place}, {longest}", plan.suite));
        if plan.writes_max().0 > 0 {
            self.print(&format!("writes {}", qd1_report::plan::writes(plan)));
        }
    }

    /// Prints the heading of the following steps.
    fn heading(&mut self, text: &str) {
        self.print(text);
    }

    fn prepare(&mut self, size: Bytes) {
        self.figures = format!("writing the test file, {size}");
        self.show(&self.figures.clone());
    }

    /// Shows what a program does before its first load.
    fn note(&mut self, text: &str) {
        self.show(text);
    }

    /// Shows how much of the test file is written.
    fn prepared(&mut self, now: &Watched<'_>) {
        let bytes: u64 = now.intervals.iter().flat_map(|interval| &interval.streams).map(|stream| stream.bytes).sum();
        if let Some(writing) = self.writing.as_ref().filter(|_| now.elapsed_ns >= LOOK_NS && bytes > 0) {
            let whole_ns = now.elapsed_ns as f64 * writing.bytes as f64 / bytes as f64;
            self.revise_estimate(whole_ns as u64);
        }
        if now.elapsed_ns > 0 {
            let rate = format_rate(bytes as f64 * 1e9 / now.elapsed_ns as f64);
            self.show(&format!("{}: {} done, {rate}", self.figures.clone(), Bytes(bytes >> 20 << 20)));
        }
    }

    /// Inserts a step that was decided during the run, unless the plan already has it at that index.
    fn insert(&mut self, index: usize, step: &StepPlan) {
        if self.steps.get(index).is_none_or(|known| known.name != step.name) {
            self.steps.insert(index.min(self.steps.len()), budget(step));
        }
    }

    fn step(&mut self, index: usize, step: &StepPlan) {
        if let Some(writing) = &self.writing {
            self.revise_estimate(clock::now_ns().saturating_sub(writing.begin_ns));
        }
        self.current = index;
        self.figures.clear();
        if let Some(budget) = self.steps.get_mut(index) {
            budget.left = budget.left.saturating_sub(1);
        }
        self.show(&format!("{} {}: {}", self.position(), step.name, step.title));
    }

    /// Updates the live figures of a step: rate and p99.9 of each kind of operation.
    fn figures(&mut self, intervals: &[Interval]) {
        if matches!(self.mode, Mode::Quiet) {
            return;
        }
        let classes = OpClass::ALL.into_iter().filter_map(|class| {
            let of_class = || intervals.iter().flat_map(|i| &i.streams).filter(move |stream| stream.class == class);
            let ios: u64 = of_class().map(|stream| stream.ios).sum();
            (ios > 0).then(|| {
                let last = of_class().next_back().map_or(0, |stream| stream.ios);
                let length_ns = intervals.last().map_or(1, |interval| interval.length_ns.max(1));
                let rate = format_count(last as f64 * 1e9 / length_ns as f64);
                format!("{} {rate}/s, {}", class.name(), percentile(intervals, class))
            })
        });
        self.figures = classes.collect::<Vec<_>>().join("; ");
    }

    fn tick(&mut self, elapsed_ns: u64, stop: &Stop) {
        let later: u64 = self.steps.iter().map(|budget| budget.left * budget.visit_ns).sum();
        let left = match stop.max_ns {
            UNTIL_DONE_NS.. => String::new(),
            max_ns => format!(", at most {} left", format_span_ns(later + max_ns.saturating_sub(elapsed_ns))),
        };
        let name = self.steps.get(self.current).map_or("", |budget| budget.name.as_str());
        let position = self.position();
        let line = format!("{position} {name}{left}  {}", self.figures);
        self.show(&line);
    }

    fn step_done(&mut self, record: &StepRecord) {
        self.print_step(record);
        self.done += 1;
    }
}

impl Progress {
    fn print_step(&mut self, record: &StepRecord) {
        // Kinds of operation that ran one after another have no common rate.
        let mixed = record.streams.len() > 2;
        let parts: Vec<String> = record
            .streams
            .iter()
            .map(|stream| {
                let (class, p50) = (stream.class.name(), format_ns(stream.lat.quantile(0.5) as f64));
                let rate = format_count(stream.lat.count() as f64 * 1e9 / record.runtime_ns.max(1) as f64);
                if mixed { format!("{class} p50 {p50}") } else { format!("{class} {rate}/s, p50 {p50}") }
            })
            .collect();
        if self.brief && record.errors.is_empty() && record.fault.is_empty() {
            return;
        }
        let parts = if parts.is_empty() && record.app.is_some() { vec!["done".to_owned()] } else { parts };
        let position = self.position();
        let width = self.steps.iter().map(|budget| budget.name.chars().count()).max().unwrap_or(0).max(9);
        self.print(&format!("{position} {:<width$} {}", record.name, step_line(parts, record)));
    }
}

/// Returns a step's figures and what failed, as separate parts.
fn step_line(parts: Vec<String>, record: &StepRecord) -> String {
    let failed: u64 = record.errors.iter().map(|error| error.count).sum();
    let failed = match failed {
        _ if !record.fault.is_empty() => vec![format!("FAILED: {}", record.fault)],
        0 => Vec::new(),
        failed => vec![format!("{failed} requests FAILED")],
    };
    [parts, failed].concat().join("; ")
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Mode::Bar(bar) = &self.mode {
            bar.finish_and_clear();
        }
    }
}

/// Returns the highest percentile up to p99.9 that the samples so far resolve.
fn percentile(intervals: &[Interval], class: OpClass) -> String {
    for (name, q) in [("p99.9", 0.999), ("p99", 0.99), ("p50", 0.5)] {
        if let Estimate { value: Some(value), .. } = stats::quantile_coarse(intervals, class, q) {
            return format!("{name} {}", format_ns(value));
        }
    }
    "p99.9 not resolved yet".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression: a run that took half a minute was announced as a minute: a fast disk writes the file in no time.
    #[test]
    fn the_estimate_is_printed_again_if_the_file_is_written_fast() {
        let s = 1_000_000_000;
        let steps = || vec![Later { longest_ns: 40 * s, bytes: None }];
        let writing = Writing { begin_ns: 0, bytes: 2_000_000_000, longest_ns: 20 * s, steps: steps() };
        assert_eq!(writing.at_most(2 * s), Some(42 * s + OVERHEAD_NS));
        assert_eq!(writing.at_most(15 * s), None);
        assert_eq!(writing.at_most(100 * s), None);
        // A step that reads a tenth as much as is written ends after about a tenth of the time.
        let whole = Later { longest_ns: 30 * s, bytes: Some(200_000_000) };
        let writing = Writing { steps: steps().into_iter().chain([whole]).collect(), ..writing };
        assert_eq!(writing.at_most(20 * s), Some(62 * s + VISIT_NS + OVERHEAD_NS));
    }

    /// "28.2 usFAILED: the disk is full"
    #[test]
    fn figures_and_failures_are_kept_apart() {
        let record = StepRecord::failed("wal", "the disk is full".to_owned(), 0);
        assert_eq!(step_line(vec!["p50 28.2 us".to_owned()], &record), "p50 28.2 us; FAILED: the disk is full");
        assert_eq!(step_line(Vec::new(), &record), "FAILED: the disk is full");
    }
}
