//! The figures of one run of any tool, which is what `compare` works on: a [`crate::Record`] of qd1, or the output of
//! another tool.

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
    /// Its name: a run's id, or a file and what it contains.
    pub label: String,
    /// Tool and version.
    pub tool: String,
    /// Wall clock at the start, ns since the Unix epoch, if known.
    pub started_unix_ns: Option<u64>,
    /// What is known about where and how it was measured, besides the tool.
    pub circumstances: Vec<Circumstance>,
    /// Its steps, in order.
    pub steps: Vec<MeasuredStep>,
    /// What a comparison would need but its source does not contain, one sentence each.
    pub missing: Vec<String>,
    /// Whether the intervals of its figures assume independent operations: on their own they prove nothing.
    pub is_without_course: bool,
}

/// One fact about where and how a run was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Circumstance {
    /// Which.
    pub aspect: Aspect,
    /// Its value, for people; equal values are equal circumstances.
    pub value: String,
}

/// A circumstance in which runs may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Aspect {
    /// Machine.
    Host,
    /// Vendor and product, an instance type on some clouds.
    Instance,
    /// Where the machine is located, in its provider's terms.
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
    /// What was run: suite or job.
    Suite,
    /// Size of the test file.
    Size,
    /// Engine of a step.
    Engine,
    /// Findings that spoil a run: other traffic, steal, a limit that took effect, a place that is not a disk.
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

    /// Returns why differences in it may mislead someone who compares disks; `None` if that is usually what the user
    /// wants to compare.
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
            Self::Kernel => Some("another kernel may use the disk differently"),
            Self::Processors => Some("short latencies are partly processor time"),
            Self::Memory => Some("more memory caches more of the buffered data"),
            Self::Tool => Some("tools count and time differently"),
            Self::Size => Some("a small test file may fit into a cache where a large one does not"),
            Self::Engine => Some("engines differ in overhead, which is part of the figures at depth one"),
            Self::Spoiled => Some("that run did not measure the disk alone"),
            Self::Interrupted => Some("later steps were not measured"),
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
    /// What it does, if it can be expressed this way.
    pub does: Option<Does>,
    /// Engine that ran; empty if unknown.
    pub engine: String,
    /// One per kind of operation.
    pub streams: Vec<MeasuredStream>,
    /// Why its figures cannot be used; empty if they can.
    pub fault: String,
    /// Whether a finding says that its figures are not only those of the disk.
    pub is_spoiled: bool,
    /// If it is spoiled, the figures for which the size of the effect is known.
    #[serde(default)]
    pub explained: Vec<Explained>,
}

/// The maximum effect on a figure of what spoiled its step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Explained {
    /// Kind of operation.
    pub class: OpClass,
    /// Which figure: the name of its [`crate::metric::Metric`].
    pub metric: String,
    /// How many times better it would be without that, at most.
    pub factor: f64,
}

impl MeasuredStep {
    /// Returns how many times better a figure could be, at most, without what spoiled the step; `None` if unknown.
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

/// Figures whose metrics are known; others are from another version.
fn known_figures<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<(&'static str, Estimate)>, D::Error> {
    let all = Vec::<(String, Estimate)>::deserialize(deserializer)?;
    Ok(all.into_iter().filter_map(|(name, figure)| Some((metric(&name)?.name, figure))).collect())
}

impl MeasuredStream {
    /// Returns the figures of a summarized stream.
    pub fn of(stream: &StreamSummary) -> Self {
        let figures = METRICS.iter().filter_map(|metric| Some((metric.name, (metric.get)(stream)?)));
        Self { class: stream.class, figures: figures.collect() }
    }

    /// Returns the figure called `metric`.
    pub fn figure(&self, metric: &str) -> Option<Estimate> {
        self.figures.iter().find(|(name, _)| *name == metric).map(|(_, figure)| *figure)
    }
}

/// What a step does, in terms that are comparable between tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Does {
    /// Direction and order.
    pub rw: Rw,
    /// Share of reads, percent.
    pub rwmixread: u8,
    /// Block size, bytes.
    pub block: u32,
    /// Requests in flight, in all workers.
    pub in_flight: u32,
    /// Whether each write is made durable.
    pub commits: bool,
    /// Writes from one sync to the next, if not after each write; 0 for none.
    pub sync_every: u32,
    /// Whether it bypasses the page cache; `None` if unknown.
    pub direct: Option<bool>,
}

impl Does {
    /// Returns what a planned step does on a test file of `whole` bytes; `None` for features that no other tool has in
    /// the same way: file operations, several block sizes, a rate, a background load, a part of the file.
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
            (false, every) => format!(", sync every {every} writes"),
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
