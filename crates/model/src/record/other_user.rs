//! Programs that used the disk while something else was measured or watched.

use crate::order::Order as _;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// A program other than qd1 that used the disk during a step.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct OtherUser {
    /// Name of its thread that was active last.
    pub comm: String,
    /// Process id of the busiest of this name, in the first visit of the step that saw one.
    pub pid: u32,
    /// How many processes of this name there were in one visit, at most.
    pub processes: u64,
    /// Its requests.
    pub requests: u64,
    /// Bytes that its requests read.
    pub read_bytes: Bytes,
    /// Bytes that its requests wrote.
    pub written_bytes: Bytes,
    /// Bytes that it changed in memory, which the kernel writes later.
    pub changed_bytes: Bytes,
}

impl OtherUser {
    /// Adds a less busy process to those of the same name in `others`.
    pub fn add_to(self, others: &mut Vec<Self>) {
        let Some(mine) = others.iter_mut().find(|mine| mine.comm == self.comm) else {
            others.push(self);
            return;
        };
        mine.processes = mine.processes.saturating_add(self.processes);
        mine.requests = mine.requests.saturating_add(self.requests);
        for (mine, more) in [
            (&mut mine.read_bytes, self.read_bytes),
            (&mut mine.written_bytes, self.written_bytes),
            (&mut mine.changed_bytes, self.changed_bytes),
        ] {
            mine.0 = mine.0.saturating_add(more.0);
        }
    }

    /// Adds what it did in another visit of the step. How many of its processes are the same ones is not known, so the
    /// larger number counts.
    pub fn add_visit_to(self, others: &mut Vec<Self>) {
        let processes = self.processes;
        let before = others.iter().find(|mine| mine.comm == self.comm).map(|mine| mine.processes);
        let comm = self.comm.clone();
        self.add_to(others);
        if let (Some(before), Some(mine)) = (before, others.iter_mut().find(|mine| mine.comm == comm)) {
            mine.processes = before.max(processes);
        }
    }

    /// Puts the busiest first.
    pub fn sort(others: &mut [Self]) {
        others.order_by_key(|other| std::cmp::Reverse(other.bytes()));
    }

    /// Keeps the busiest, busiest first.
    pub fn keep_busiest(others: &mut Vec<Self>) {
        Self::sort(others);
        others.truncate(OTHERS_MAX);
    }

    /// Returns all bytes together.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.read_bytes.0.saturating_add(self.written_bytes.0).saturating_add(self.changed_bytes.0)
    }
}

/// Most other programs that are recorded for a step.
pub const OTHERS_MAX: usize = 5;
