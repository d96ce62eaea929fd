//! What a run shows in progress.

use qd1_fio::FioJob;
use qd1_model::job::JobStat;

use crate::log::Chunk;
use crate::plan::ThreadPlan;

/// Watches a run. Everything is called on the controller's thread.
pub trait Watcher {
    /// Files are about to be written, which takes time.
    fn laying_out(&mut self, _job: &FioJob, _files: usize, _bytes: u64) {}
    /// Something that makes figures wrong, or a block that was read back wrong.
    fn warn(&mut self, text: &str);
    /// All files exist; this many threads are about to begin.
    fn starting(&mut self, _threads: usize) {}
    /// These threads begin right after this.
    fn begins(&mut self, _threads: &[ThreadPlan]) {}
    /// This thread has ended.
    fn ended(&mut self, _thread: &ThreadPlan) {}
    /// About fifty times a second.
    fn tick(&mut self, _now: &Now<'_>) {}
    /// Log entries from a thread, in order.
    fn logged(&mut self, _thread: &ThreadPlan, _chunk: Chunk) {}
    /// All counters so far, each time the status interval has passed.
    fn status(&mut self, _threads: &[(ThreadPlan, JobStat)]) {}
}

/// The run, at one moment.
pub struct Now<'a> {
    /// Time since the first thread began, ns.
    pub elapsed_ns: u64,
    /// Every thread.
    pub threads: &'a [ThreadNow],
}

/// One thread, at one moment.
#[derive(Clone, Copy, Debug)]
pub struct ThreadNow {
    /// Which.
    pub plan: ThreadPlan,
    /// Its state.
    pub stage: Stage,
    /// (bytes, requests) so far of reads, writes and trims.
    pub moved: [(u64, u64); 3],
}

/// The state of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Not begun.
    Pending,
    /// Running.
    Running,
    /// Ended.
    Ended,
}
