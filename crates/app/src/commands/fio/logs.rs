//! fio's log files, written while the jobs run.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_fio::output::logs::{self, LogKind};
use qd1_fio::{FioJob, Invocation};
use qd1_jobs::ThreadPlan;
use qd1_jobs::log::{Chunk, KINDS};
use qd1_model::{Problem, ProblemKind};

use crate::output::{check_in_place, create_in_place};

/// All open logs of a run.
pub(crate) struct Logs<'a> {
    jobs: &'a [FioJob],
    directory: PathBuf,
    /// Open logs by path. A log is emptied when its first line is written.
    files: HashMap<PathBuf, BufWriter<File>>,
    start_unix_ms: u64,
    aggregate: bool,
    aggregate_before: [u64; 3],
    aggregate_next_ms: u64,
    problem: Option<anyhow::Error>,
}

/// Interval at which the bandwidth of all jobs is logged (`--bandwidth-log`), ms, as in fio.
const AGGREGATE_MS: u64 = 500;
const DIRECTIONS: [&str; 3] = ["read", "write", "trim"];

fn aggregate_name(direction: &str) -> String {
    format!("agg-{direction}_bw.log")
}

impl<'a> Logs<'a> {
    /// Returns the logs of these jobs. None is opened yet, but each can be.
    ///
    /// # Errors
    /// When a log cannot be written, so that this is known before anything is measured; or when a log exists that
    /// must not be replaced.
    pub(crate) fn new(
        invocation: &'a Invocation,
        start_unix_ms: u64,
        may_replace: &dyn Fn(&Path) -> bool,
    ) -> Result<Self> {
        let directory: PathBuf = invocation.flags.aux_path.as_ref().map(PathBuf::from).unwrap_or_default();
        let check = |name: String| {
            let path = directory.join(name);
            if path.is_file() && !may_replace(&path) {
                let path = path.display();
                let message =
                    format!("the log {path} exists and would be overwritten; if it may be, add --destroy {path}");
                return Err(Problem::new(ProblemKind::Unsafe, message).into());
            }
            check_in_place("the log", &path)
        };
        for thread in qd1_jobs::threads(&invocation.jobs, 0) {
            let job = &invocation.jobs[thread.job];
            let number = job.per_job_logs.then_some(thread.number + 1);
            wanted(job).try_for_each(|(prefix, kind)| check(logs::file_name(prefix, kind, number)))?;
        }
        if invocation.flags.bandwidth_log {
            DIRECTIONS.into_iter().try_for_each(|direction| check(aggregate_name(direction)))?;
        }
        Ok(Self {
            jobs: &invocation.jobs,
            directory,
            files: HashMap::new(),
            start_unix_ms,
            aggregate: invocation.flags.bandwidth_log,
            aggregate_before: [0; 3],
            aggregate_next_ms: AGGREGATE_MS,
            problem: None,
        })
    }

    /// Writes what a thread logged.
    pub(crate) fn add(&mut self, thread: &ThreadPlan, mut chunk: Chunk) {
        let job = &self.jobs[thread.job];
        let number = job.per_job_logs.then_some(thread.number + 1);
        let epoch_ms = if job.log_unix_epoch { self.start_unix_ms } else { 0 };
        for (kind, entries) in KINDS.into_iter().zip(&mut chunk.entries).filter(|(_, entries)| !entries.is_empty()) {
            entries.iter_mut().for_each(|entry| entry.ms += epoch_ms);
            let text = logs::lines(entries, job.log_offset);
            self.append(prefix(job, kind), kind, number, &text);
        }
        if job.write_lat_log.is_some() {
            // A synchronous engine has no submission part; fio leaves the file empty.
            self.append(prefix(job, LogKind::Slat), LogKind::Slat, number, "");
        }
        for hist in &chunk.hists {
            let text =
                logs::histogram_line(hist.ms + epoch_ms, hist.direction, hist.bs, &hist.bins, job.log_hist_coarseness);
            self.append(prefix(job, LogKind::ClatHist), LogKind::ClatHist, number, &text);
        }
    }

    fn append(&mut self, prefix: &str, kind: LogKind, number: Option<u32>, text: &str) {
        self.append_to(self.directory.join(logs::file_name(prefix, kind, number)), text);
    }

    fn append_to(&mut self, path: PathBuf, text: &str) {
        let written = match self.files.get_mut(&path) {
            Some(file) => file.write_all(text.as_bytes()).map_err(anyhow::Error::from),
            None => create_in_place("the log", &path).and_then(|file| {
                let file = self.files.entry(path.clone()).or_insert(BufWriter::new(file));
                Ok(file.write_all(text.as_bytes())?)
            }),
        };
        // Flushed, so that the log can be read while the jobs run.
        let flushed = written.and_then(|()| Ok(self.files.get_mut(&path).map_or(Ok(()), BufWriter::flush)?));
        if let Err(error) = flushed {
            self.problem.get_or_insert(error.context(format!("cannot write the log {}", path.display())));
        }
    }

    /// Logs the bandwidth of all jobs together for `--bandwidth-log`; `bytes` is the sum moved so far.
    pub(crate) fn aggregate(&mut self, elapsed_ms: u64, bytes: [u64; 3]) {
        if !self.aggregate || elapsed_ms < self.aggregate_next_ms {
            return;
        }
        let spent_ms = elapsed_ms + AGGREGATE_MS - self.aggregate_next_ms;
        self.aggregate_next_ms = elapsed_ms + AGGREGATE_MS;
        for (direction, name) in DIRECTIONS.into_iter().enumerate() {
            let moved = bytes[direction] - self.aggregate_before[direction];
            if bytes[direction] > 0 {
                let kib = moved * 1000 / spent_ms.max(1) / 1024;
                let line = format!("{elapsed_ms}, {kib}, {direction}, 0, 0\n");
                self.append_to(self.directory.join(aggregate_name(name)), &line);
            }
        }
        self.aggregate_before = bytes;
    }

    /// Closes the logs.
    ///
    /// # Errors
    /// When a log could not be written; returns the first error.
    pub(crate) fn finish(mut self) -> Result<()> {
        for (path, file) in &mut self.files {
            file.flush().with_context(|| format!("cannot write the log {}", path.display()))?;
        }
        self.problem.map_or(Ok(()), Err)
    }
}

/// Returns the prefix of a log's name: as given, or the job's name.
fn prefix(job: &FioJob, kind: LogKind) -> &str {
    given(job, kind).filter(|prefix| !prefix.is_empty()).unwrap_or(&job.name)
}

/// Returns the prefix that a job's option gives to a kind of log; `None` when the job does not write it.
fn given(job: &FioJob, kind: LogKind) -> Option<&str> {
    match kind {
        LogKind::Bw => &job.write_bw_log,
        LogKind::Iops => &job.write_iops_log,
        LogKind::Lat | LogKind::Clat | LogKind::Slat => &job.write_lat_log,
        LogKind::ClatHist => &job.write_hist_log,
    }
    .as_deref()
}

/// Returns the prefix and the kind of each log that a job writes.
fn wanted(job: &FioJob) -> impl Iterator<Item = (&str, LogKind)> {
    let kinds = [LogKind::Bw, LogKind::Iops, LogKind::Lat, LogKind::Clat, LogKind::Slat, LogKind::ClatHist];
    kinds.into_iter().filter(|kind| given(job, *kind).is_some()).map(|kind| (prefix(job, kind), kind))
}
