//! One run of any tool as its figures, which is what `compare` sets side by side: a [`crate::Record`] of qd1, or what
//! another tool wrote.

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use crate::figure::{Estimate, StreamSummary};
use crate::metric::{METRICS, metric};
use crate::op::OpClass;
use crate::plan::{FileUse, IoWork, Rw, StepPlan, Work};
use crate::units::Bytes;

/// One run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// What it is called: a run's id, or a file and what it has in it.
    pub label: String,
    /// Tool and version.
    pub tool: String,
    /// Wall clock at the start, ns since the Unix epoch, where it is known.
    pub started_unix_ns: Option<u64>,
    /// What is known of where and how it was measured, besides the tool.
    pub circumstances: Vec<Circumstance>,
    /// Its steps, in order.
    pub steps: Vec<MeasuredStep>,
    /// What its source does not have and a comparison would need, a sentence each.
    pub missing: Vec<String>,
    /// Whether intervals of its figures are as if operations did not depend on each other: by themselves they prove nothing.
    pub is_without_course: bool,
}

/// One thing that is known of where and how a run was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstance {
    /// Which.
    pub aspect: Aspect,
    /// Its value, for people; equal values are equal circumstances.
    pub value: String,
}

/// A circumstance of a run that runs may differ in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Machine.
    Host,
    /// Vendor and product, an instance type on some clouds.
    Instance,
    /// Where the machine stands, as its provider calls it.
    Region,
    /// What the machine costs, with currency and time.
    Price,
    /// Model and size of the disk.
    Disk,
    /// Filesystem and how it is mounted.
    Filesystem,
    /// Kernel.
    Kernel,
    /// I/O scheduler of the disk.
    Scheduler,
    /// Write cache of the disk.
    WriteCache,
    /// Processor model and number.
    Processors,
    /// Memory.
    Memory,
    /// Name and version of the tool.
    Tool,
    /// What is run: suite or job.
    Suite,
    /// Size of the test file.
    Size,
    /// Engine of a step.
    Engine,
    /// Findings that spoil a run: other traffic, steal, a limit that cut in, a place that is no disk.
    Spoiled,
    /// Whether it was ended early.
    Interrupted,
}

impl Aspect {
    /// Returns its name for people.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::Instance => "instance",
            Self::Region => "region",
            Self::Price => "price",
            Self::Disk => "disk",
            Self::Filesystem => "filesystem",
            Self::Kernel => "kernel",
            Self::Scheduler => "scheduler",
            Self::WriteCache => "write cache",
            Self::Processors => "processors",
            Self::Memory => "memory",
            Self::Tool => "tool",
            Self::Suite => "suite",
            Self::Size => "test file",
            Self::Engine => "engine",
            Self::Spoiled => "spoiled by",
            Self::Interrupted => "ended early",
        }
    }

    /// Returns why runs that differ in it may mislead whoever compares their disks; `None` where that is mostly what is
    /// compared.
    pub const fn warning(self) -> Option<&'static str> {
        match self {
            Self::Host
            | Self::Region
            | Self::Price
            | Self::Disk
            | Self::Filesystem
            | Self::Scheduler
            | Self::WriteCache
            | Self::Suite => None,
            Self::Instance => Some("another machine type has other limits and processors"),
            Self::Kernel => Some("another kernel may take other ways to the disk"),
            Self::Processors => Some("short latencies are partly processor time"),
            Self::Memory => Some("more memory caches more of what is buffered"),
            Self::Tool => Some("tools count and time differently"),
            Self::Size => Some("a small test file may fit into a cache where a large one does not"),
            Self::Engine => Some("engines differ in overhead, which is part of the figures at depth one"),
            Self::Spoiled => Some("that run measured more than the disk"),
            Self::Interrupted => Some("what came later was not measured"),
        }
    }
}

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStep {
    /// Its name.
    pub name: String,
    /// One line for people; may be empty.
    pub title: String,
    /// What it does, where that can be put so.
    pub does: Option<Does>,
    /// Engine that ran; empty where it is not known.
    pub engine: String,
    /// One per kind of operation.
    pub streams: Vec<MeasuredStream>,
    /// Why its figures cannot be used; empty where they can.
    pub fault: String,
    /// Whether a finding says that its figures are not those of the disk alone.
    pub is_spoiled: bool,
    /// Where it is spoiled, the figures of which it is known how much that explains.
    #[serde(default)]
    pub explained: Vec<Explained>,
}

/// How much of a figure what spoiled its step explains at most.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Kind of operation.
    pub class: OpClass,
    /// Which figure: the name of its [`crate::metric::Metric`].
    pub metric: String,
    /// How many times as good it may be without that, at most.
    pub factor: f64,
}

impl MeasuredStep {
    /// Returns how many times as good a figure may be at most without what spoiled the step; `None` where nobody knows.
    pub fn explained(&self, class: OpClass, metric: &str) -> Option<f64> {
        if !self.is_spoiled {
            return Some(1.0);
        }
        let found = self.explained.iter().find(|of| of.class == class && of.metric == metric);
        found.map(|of| of.factor)
    }
}

/// One kind of operation of one step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeasuredStream {
    /// Which.
    pub class: OpClass,
    /// Figures by the name of their [`crate::metric::Metric`].
    #[serde(deserialize_with = "known_figures")]
    pub figures: Vec<(&'static str, Estimate)>,
}

/// Figures whose metrics are known; others are of another version.
fn known_figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(&'static str, Estimate)>, D::Error> {
    let all = Vec::<(String, Estimate)>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|(name, figure)| Some((metric(&name)?.name, figure))).collect())
}

impl MeasuredStream {
    /// Returns the figures of a summed up stream.
    pub fn of(stream: &StreamSummary) -> Self {
        let figures = METRICS.iter().filter_map(|metric| Some((metric.name, (metric.get)(stream)?)));
        Self { class: stream.class, figures: figures.collect() }
    }

    /// Returns the figure called `metric`.
    pub fn figure(&self, metric: &str) -> Option<Estimate> {
        self.figures.iter().find(|(name, _)| *name == metric).map(|(_, figure)| *figure)
    }
}

/// What a step does, as far as steps of different tools can be compared by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Does {
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads, percent.
    pub rwmixread: u8,
    /// Block size, bytes.
    pub block: u32,
    /// Requests in flight, of all workers.
    pub in_flight: u32,
    /// Whether each write is made durable.
    pub commits: bool,
    /// Writes from one sync to the next where that is not each; 0 for none.
    pub sync_every: u32,
    /// Whether it bypasses the page cache; `None` where that is not known.
    pub direct: Option<bool>,
}

impl Does {
    /// Returns what a planned step does on a test file of `whole` bytes; `None` for what no other tool has in the same way:
    /// file operations, several block sizes, a rate, a load beside it, a part of the file.
    pub fn of(step: &StepPlan, whole: Bytes) -> Option<Self> {
        let Work::Io(io) = &step.work else { return None };
        let is_plain = step.background.is_empty() && io.blocks.len() == 1 && !io.arrival.is_open();
        let is_whole = io.file != FileUse::Shared || io.size >= whole;
        (is_plain && is_whole && io.writes_per_sync == 1).then(|| Self::of_io(io))
    }

    fn of_io(io: &IoWork) -> Self {
        Self {
            rw: io.rw,
            rwmixread: io.rwmixread,
            block: io.block_max(),
            in_flight: io.in_flight(),
            commits: io.sync.commits(),
            sync_every: 0,
            direct: Some(io.direct),
        }
    }

    /// Returns true if both do the same, as far as it is known.
    pub fn is_like(&self, other: &Self) -> bool {
        let direct = self.direct.zip(other.direct).is_none_or(|(one, two)| one == two);
        direct && Self { direct: None, ..*self } == Self { direct: None, ..*other }
    }

    /// Returns it for people: `randread 4 KiB, 32 in flight`.
    pub fn title(&self) -> String {
        let mix =
            if self.rw.reads() && self.rw.writes() { format!(" {} % reads", self.rwmixread) } else { String::new() };
        let block = Bytes(u64::from(self.block));
        let commits = match (self.commits, self.sync_every) {
            (true, _) => ", each durable".to_owned(),
            (false, 0) => String::new(),
            (false, every) => format!(", a sync every {every} writes"),
        };
        format!("{}{mix} {block}, {} in flight{commits}", self.rw.name(), self.in_flight)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn does() -> Does {
        Does {
            rw: Rw::Randread,
            rwmixread: 100,
            block: 4096,
            in_flight: 1,
            commits: false,
            sync_every: 0,
            direct: Some(true),
        }
    }

    #[test]
    fn what_is_not_known_of_the_page_cache_does_not_part_two_steps() {
        assert!(does().is_like(&Does { direct: None, ..does() }));
        assert!(!does().is_like(&Does { direct: Some(false), ..does() }));
        assert!(!does().is_like(&Does { in_flight: 2, ..does() }));
    }

    #[test]
    fn titles_say_what_is_done() {
        assert_eq!(does().title(), "randread 4 KiB, 1 in flight");
        let mixed = Does { rw: Rw::Randrw, rwmixread: 70, ..does() };
        assert_eq!(mixed.title(), "randrw 70 % reads 4 KiB, 1 in flight");
    }
}
