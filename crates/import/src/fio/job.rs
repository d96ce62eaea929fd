//! A job as it appears in a report, with its processes added up, and the step it becomes.

use qd1_model::OpClass;
use qd1_model::measured::{Does, MeasuredStep, MeasuredStream};

use crate::figures::{self, NO_SPREAD, Samples};
use crate::gathered::{note, short};

/// Note about commits.
const APART: &str = "fio times writes and their syncs separately, so there is no latency for whole commits";
/// Note about groups.
const UNLIKE: &str =
    "a group of jobs that do different things is compared by its name; its figures are those of all of them together";
/// Note about percentiles that were left out.
const OF_PROCESSES: &str =
    "the percentiles of processes that differ cannot be combined; fio's --group_reporting gives those of all processes";
/// Percentiles of processes that differ by more than this factor have no common percentile.
const ALIKE: f64 = 1.1;
/// How far the size of a request may be from the block size, relative, since rates are rounded.
const SAME_BLOCK: f64 = 0.03;

/// How a job's writes are made durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Durable {
    /// They are not, or only occasionally.
    #[default]
    No,
    /// The write itself is durable.
    InTheWrite,
    /// A sync follows each.
    BySync,
}

/// A job as it appears in a report: one process, or the sum of several.
#[derive(Clone, Debug, Default)]
pub(super) struct Job {
    pub(super) name: String,
    /// fio's number of its group.
    pub(super) group: String,
    /// Where it ran, if on another machine (`--client`).
    pub(super) host: String,
    /// Process id; `None` if the format has none.
    pub(super) pid: Option<u64>,
    /// What it does; requests in flight are those of one process.
    pub(super) does: Option<Does>,
    pub(super) engine: String,
    /// fio's error, or 0.
    pub(super) error: String,
    pub(super) durable: Durable,
    /// Whether it is the sum of jobs that do different things.
    pub(super) is_of_unlike: bool,
    /// Whether the share of reads is computed from what the job did, since nothing else states it.
    pub(super) is_mix_counted: bool,
    /// How many processes it is the sum of, according to the report.
    pub(super) processes: u32,
    /// Number of processes according to its options. A report has one job for each, or one job that is the sum of all.
    pub(super) numjobs: u32,
    /// How many jobs of a report it is the sum of.
    pub(super) joined: u32,
    pub(super) parts: Vec<Part>,
    /// Percentiles of the syncs, (percent, ns), and the number of syncs.
    pub(super) syncs: Vec<(f64, f64)>,
    pub(super) sync_count: u64,
}

/// What a job did in one direction.
#[derive(Clone, Debug, Default)]
pub(super) struct Part {
    pub(super) class: Option<OpClass>,
    pub(super) n: u64,
    pub(super) iops: f64,
    pub(super) bytes_per_second: f64,
    pub(super) runtime_ms: f64,
    /// Samples of KiB per second, and of IOPS.
    pub(super) bw: Samples,
    pub(super) ios: Samples,
    /// Mean of the whole latency, ns.
    pub(super) lat_mean_ns: Option<f64>,
    /// (percent, ns).
    pub(super) percentiles: Vec<(f64, f64)>,
}

impl Job {
    pub(super) fn runtime_ms(&self) -> f64 {
        self.parts.iter().map(|part| part.runtime_ms).fold(0.0, f64::max)
    }

    pub(super) fn count(&self) -> u64 {
        self.parts.iter().map(|part| part.n).fold(0, u64::saturating_add)
    }

    /// Adds the work of another process of the same job at the same time.
    pub(super) fn join(&mut self, other: Self, notes: &mut Vec<String>) {
        self.processes = self.processes.saturating_add(other.processes);
        if self.error == "0" {
            self.error = other.error;
        }
        self.joined = self.joined.saturating_add(1);
        for part in other.parts {
            match self.parts.iter_mut().find(|known| known.class == part.class) {
                Some(known) => known.join(&part, notes),
                None => self.parts.push(part),
            }
        }
        common(&mut self.syncs, self.sync_count, &other.syncs, other.sync_count, notes);
        self.sync_count = self.sync_count.saturating_add(other.sync_count);
    }

    /// How many processes its samples cover in addition to what the report states: one job with options for several is
    /// their sum.
    fn unstated_processes(&self) -> u32 {
        if self.joined == 1 { self.numjobs.max(1) } else { 1 }
    }

    /// Requests in flight of all its processes, each of which does so.
    pub(super) fn in_flight(&self, does: Does) -> u32 {
        does.in_flight.saturating_mul(self.processes.max(self.unstated_processes()))
    }

    /// Returns it as a step called `name`.
    pub(super) fn step(self, name: String, notes: &mut Vec<String>) -> MeasuredStep {
        let unstated = self.unstated_processes();
        let is_of_one_kind = self.does.is_none_or(|does| self.has_blocks_of(does.block));
        let does = self.does.filter(|_| is_of_one_kind).map(|does| Does {
            in_flight: self.in_flight(does),
            commits: does.rw.writes() && self.durable != Durable::No,
            rwmixread: self.share_of_reads().unwrap_or(does.rwmixread),
            ..does
        });
        if !is_of_one_kind || self.is_of_unlike {
            note(notes, UNLIKE);
        }
        let fault = if matches!(self.error.as_str(), "" | "0") {
            String::new()
        } else {
            format!("fio reports error {} for this job", short(&self.error))
        };
        let mut streams = Vec::new();
        for part in self.parts.iter().filter(|part| part.n > 0) {
            let Some(class) = part.class else { continue };
            let is_commit = class == OpClass::Write && self.durable != Durable::No;
            let is_apart = class == OpClass::Write && self.durable == Durable::BySync;
            let mut figures = part.rates(unstated);
            if is_apart {
                note(notes, APART);
                figures.extend(figures::sync_percentiles(&self.syncs, self.sync_count));
            } else {
                figures.extend(part.latencies(unstated));
                if !part.percentiles.is_empty() {
                    note(notes, NO_SPREAD);
                }
            }
            streams.push(MeasuredStream { class: if is_commit { OpClass::Commit } else { class }, figures });
        }
        let title = does.map_or_else(String::new, |does| does.title());
        MeasuredStep { name, title, does, engine: self.engine, streams, fault, ..MeasuredStep::default() }
    }

    /// Percent of reads, rounded to the nearest 5 %, if nothing else states it: apart from chance, it is what was
    /// requested.
    fn share_of_reads(&self) -> Option<u8> {
        let of =
            |class: OpClass| self.parts.iter().filter(|part| part.class == Some(class)).map(|part| part.n).sum::<u64>();
        let (reads, writes) = (of(OpClass::Read) as f64, of(OpClass::Write) as f64);
        (self.is_mix_counted && reads > 0.0 && writes > 0.0)
            .then(|| (20.0 * reads / (reads + writes)).round() as u8 * 5)
    }

    /// Whether its requests had this many bytes on average.
    fn has_blocks_of(&self, block: u32) -> bool {
        let sum = |of: fn(&Part) -> f64| self.parts.iter().map(of).sum::<f64>();
        let (rate, iops) = (sum(|part| part.bytes_per_second), sum(|part| part.iops));
        if iops < 1.0 || rate <= 0.0 {
            return true;
        }
        let off = rate / iops / f64::from(block);
        (off.ln().abs() - 1.0 / iops) < SAME_BLOCK
    }
}

impl Part {
    fn join(&mut self, other: &Self, notes: &mut Vec<String>) {
        let (mine, theirs) = (self.n as f64, other.n as f64);
        common(&mut self.percentiles, self.n, &other.percentiles, other.n, notes);
        let both = self.lat_mean_ns.zip(other.lat_mean_ns).filter(|_| mine + theirs > 0.0);
        self.lat_mean_ns = both.map(|(one, two)| (one * mine + two * theirs) / (mine + theirs));
        self.n = self.n.saturating_add(other.n);
        self.iops += other.iops;
        self.bytes_per_second += other.bytes_per_second;
        self.runtime_ms = self.runtime_ms.max(other.runtime_ms);
        self.bw = self.bw.beside(other.bw);
        self.ios = self.ios.beside(other.ios);
    }

    /// IOPS, and bytes per second, of this many processes.
    fn rates(&self, processes: u32) -> Vec<(&'static str, qd1_model::Estimate)> {
        let bw = self.bw.of_sum(self.bytes_per_second / 1024.0, processes);
        let mut figures = Vec::new();
        if self.iops > 0.0 {
            figures.push(("iops", figures::rate(self.iops, self.n, self.samples(processes))));
        }
        figures.push(("bytes_per_second", figures::rate(self.bytes_per_second, self.n, bw)));
        figures
    }

    fn latencies(&self, processes: u32) -> impl Iterator<Item = (&'static str, qd1_model::Estimate)> + '_ {
        let mean = self.lat_mean_ns.map(|mean| ("lat_mean_ns", figures::rate(mean, self.n, self.samples(processes))));
        mean.into_iter().chain(figures::percentiles(&self.percentiles, self.n))
    }

    /// Samples of its IOPS, or of a figure proportional to them.
    fn samples(&self, processes: u32) -> Samples {
        if self.ios.count > 0.0 {
            self.ios.of_sum(self.iops, processes)
        } else {
            self.bw.of_sum(self.bytes_per_second / 1024.0, processes)
        }
    }
}

/// Keeps those percentiles of `list`, of `n` operations, that are about the same in `other`: the combined percentile
/// lies between the two.
fn common(list: &mut Vec<(f64, f64)>, n: u64, other: &[(f64, f64)], more: u64, notes: &mut Vec<String>) {
    if n == 0 || more == 0 {
        if n == 0 {
            *list = other.to_vec();
        }
        return;
    }
    let before = list.len();
    list.retain_mut(|(percent, ns)| {
        let Some((_, theirs)) = other.iter().find(|(other, _)| other == percent) else { return false };
        let is_alike = ns.max(*theirs) <= ALIKE * ns.min(*theirs);
        *ns = (*ns * n as f64 + theirs * more as f64) / (n as f64 + more as f64);
        is_alike
    });
    if list.len() < before {
        note(notes, OF_PROCESSES);
    }
}
