//! Watches a run of jobs: shows progress, writes logs and interim reports.

use std::path::Path;

use anyhow::Result;
use qd1_clock as clock;
use qd1_fio::{FioJob, Format, Invocation};
use qd1_jobs::log::Chunk;
use qd1_jobs::{JobCounters, Now, ThreadPlan, Watcher};
use qd1_model::job::JobStat;
use qd1_model::printable;

use super::RunStyle;
use super::disks::Disks;
use super::eta::Line;
use super::logs::Logs;
use super::sink::Sink;
use crate::message;

/// The watcher of `qd1 fio`.
pub(crate) struct Watch<'a, 'b> {
    invocation: &'a Invocation,
    sink: Option<&'b mut Sink>,
    /// Name printed before each warning.
    program: &'static str,
    line: Line<'a>,
    logs: Logs<'a>,
    disks: &'b Disks<'a>,
    kernel: &'b mut JobCounters<'a>,
    problem: Option<anyhow::Error>,
}

impl<'a, 'b> Watch<'a, 'b> {
    /// Returns a watcher of these jobs. `may_replace` is asked about a log of an earlier run.
    ///
    /// # Errors
    /// When a log cannot be written.
    pub(crate) fn new(
        invocation: &'a Invocation,
        style: RunStyle<'b>,
        disks: &'b Disks<'a>,
        kernel: &'b mut JobCounters<'a>,
        may_replace: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let logs = Logs::new(invocation, clock::wall_ns() / 1_000_000, may_replace)?;
        let (sink, program, quiet) = match style {
            RunStyle::Fio(sink) => (Some(sink), "fio", false),
            RunStyle::Own { quiet, .. } => (None, "qd1", quiet),
        };
        let line = Line::new(invocation, quiet);
        Ok(Self { invocation, sink, program, line, logs, disks, kernel, problem: None })
    }

    fn write(&mut self, text: &str) {
        if let Some(sink) = &mut self.sink
            && let Err(error) = sink.write(text)
        {
            self.problem.get_or_insert(error);
        }
    }

    fn is_normal(&self) -> bool {
        self.invocation.flags.output_format.contains(&Format::Normal)
    }

    /// Closes the logs.
    ///
    /// # Errors
    /// When something could not be written while the jobs ran; returns the first error.
    pub(crate) fn finish(mut self) -> Result<()> {
        self.line.finish();
        self.logs.finish()?;
        self.problem.map_or(Ok(()), Err)
    }
}

impl Watcher for Watch<'_, '_> {
    fn laying_out(&mut self, job: &FioJob, files: usize, bytes: u64) {
        if self.is_normal() {
            let plural = if files == 1 { "" } else { "s" };
            let text = format!(
                "{}: Laying out IO file{plural} ({files} file{plural} / {}MiB)\n",
                printable(&job.name),
                bytes >> 20
            );
            self.write(&text);
        }
    }

    fn warn(&mut self, text: &str) {
        self.line.finish();
        message::print(format_args!("{}: {text}", self.program));
    }

    fn begins(&mut self, threads: &[ThreadPlan]) {
        self.kernel.begins(threads);
    }

    fn ended(&mut self, thread: &ThreadPlan) {
        self.kernel.ended(thread);
    }

    fn tick(&mut self, now: &Now<'_>) {
        self.line.tick(now);
        let bytes = |direction: usize| now.threads.iter().map(|thread| thread.moved[direction].0).sum();
        self.logs.aggregate(now.elapsed_ns / 1_000_000, [bytes(0), bytes(1), bytes(2)]);
    }

    fn logged(&mut self, thread: &ThreadPlan, chunk: Chunk) {
        self.logs.add(thread, chunk);
    }

    fn status(&mut self, threads: &[(ThreadPlan, JobStat)]) {
        let stats: Vec<(usize, JobStat)> = threads.iter().map(|(plan, stat)| (plan.job, stat.clone())).collect();
        let text = super::render_stats(self.invocation, &stats, self.disks.end(), true);
        self.line.finish();
        self.write(&text);
    }
}
