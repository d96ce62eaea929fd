//! What a watch saw besides the latencies of its disks, which are its steps: a step for each disk, named as the disk.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::OtherUser;
use crate::op::OpClass;
use crate::units::Bytes;

/// Most programs that are recorded.
pub const PROGRAMS_MAX: usize = 30;
/// Most long waits that are recorded.
pub const WAITS_MAX: usize = 100;

/// A watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchRecord {
    /// Number of readings.
    pub readings: u64,
    /// What the readings cover, ns.
    pub watched_ns: u64,
    /// Why there are no latencies, syncs or waits; empty if there are.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unseen: String,
    /// The disks that were in use, busiest first.
    pub disks: Vec<WatchedDisk>,
    /// Programs that used them: first those that waited longest for their syncs, then those that moved most bytes.
    pub programs: Vec<WatchedProgram>,
    /// Requests and syncs that took 0.5 s or longer, as far as a reading saw them, longest first; at most [`WAITS_MAX`].
    pub waits: Vec<LongWait>,
    /// How many there were.
    pub waits_seen: u64,
}

/// The counters of a disk (`/proc/diskstats`) over the watch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedDisk {
    /// The kernel's name.
    pub name: String,
    /// Operations that took place.
    pub ops: Vec<WatchedOp>,
    /// Requests in flight, on average.
    pub in_flight: f64,
    /// Share of the time with any request in flight, 0..1.
    pub busy: f64,
    /// Share of the time that belongs to readings in which this share was 0.95 or more, 0..1.
    pub full: f64,
    /// For how long demand was above its limits; absent if the disk does not count that, or did not answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limits: Option<DiskLimits>,
}

/// For how long demand was above the limits of a cloud's disk, as the disk itself counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DiskLimits {
    /// Time that the answers of the disk cover, ns; the rest was not seen.
    pub observed_ns: u64,
    /// Above the IOPS of the volume, ns.
    pub volume_iops_ns: u64,
    /// Above the throughput of the volume, ns.
    pub volume_throughput_ns: u64,
    /// Above the IOPS that the instance allows for such volumes, ns; absent, like the next, if that is not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_iops_ns: Option<u64>,
    /// Above the throughput that the instance allows for such volumes, ns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_throughput_ns: Option<u64>,
}

/// A limit of a cloud's disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskLimit {
    /// Requests per second of the volume.
    VolumeIops,
    /// Bytes per second of the volume.
    VolumeThroughput,
    /// Requests per second that the instance allows.
    InstanceIops,
    /// Bytes per second that the instance allows.
    InstanceThroughput,
}

impl DiskLimit {
    /// Returns its name: `volume IOPS`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::VolumeIops => "volume IOPS",
            Self::VolumeThroughput => "volume throughput",
            Self::InstanceIops => "instance IOPS",
            Self::InstanceThroughput => "instance throughput",
        }
    }
}

impl DiskLimits {
    /// Returns the limits that the disk has, with the share of the observed time above each, 0..1.
    pub fn shares(&self) -> impl Iterator<Item = (DiskLimit, f64)> {
        let all = [
            (DiskLimit::VolumeIops, Some(self.volume_iops_ns)),
            (DiskLimit::VolumeThroughput, Some(self.volume_throughput_ns)),
            (DiskLimit::InstanceIops, self.instance_iops_ns),
            (DiskLimit::InstanceThroughput, self.instance_throughput_ns),
        ];
        let observed_ns = self.observed_ns.max(1) as f64;
        // The device's clock is not ours, and it may count in steps.
        all.into_iter().filter_map(move |(limit, ns)| Some((limit, (ns? as f64 / observed_ns).min(1.0))))
    }

    /// Returns the sum of two times of the same disk.
    #[must_use]
    pub fn and(self, more: Self) -> Self {
        let both = |mine: Option<u64>, more: Option<u64>| match (mine, more) {
            (Some(mine), Some(more)) => Some(mine.saturating_add(more)),
            (one, other) => one.or(other),
        };
        Self {
            observed_ns: self.observed_ns.saturating_add(more.observed_ns),
            volume_iops_ns: self.volume_iops_ns.saturating_add(more.volume_iops_ns),
            volume_throughput_ns: self.volume_throughput_ns.saturating_add(more.volume_throughput_ns),
            instance_iops_ns: both(self.instance_iops_ns, more.instance_iops_ns),
            instance_throughput_ns: both(self.instance_throughput_ns, more.instance_throughput_ns),
        }
    }
}

/// One kind of operation of a disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedOp {
    /// Kind.
    pub class: OpClass,
    /// Completed requests.
    pub ios: f64,
    /// Bytes moved.
    pub bytes: Bytes,
    /// Mean time of one in queue and device, ns.
    pub await_ns: f64,
}

/// A process, or several of one name, on one disk.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WatchedProgram {
    /// Name of its thread that was active last.
    pub comm: String,
    /// Process id of the first that was seen.
    pub pid: u32,
    /// How many processes had this name.
    pub processes: u64,
    /// The disk; empty for a filesystem on several.
    pub disk: String,
    /// Bytes that its requests read.
    pub read_bytes: Bytes,
    /// Bytes that its requests wrote.
    pub written_bytes: Bytes,
    /// Bytes that it changed in memory, which the kernel writes later.
    pub changed_bytes: Bytes,
    /// Syncs.
    pub syncs: u64,
    /// Time that its threads waited for them, ns.
    pub sync_ns: u64,
    /// The longest, ns.
    pub longest_sync_ns: u64,
    /// The limit that held back its syncs when they were seen to take half a second; empty if there was none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// Other programs that used the disk in readings in which it waited for syncs for at least a twentieth of the time,
    /// busiest first, at most [`super::OTHERS_MAX`].
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub beside: Vec<OtherUser>,
}

/// A sync that took this long is worth a word, ns.
pub const LONG_SYNC_NS: u64 = 100_000_000;
/// So is this share of the time spent on waiting for syncs.
const SYNC_SHARE: f64 = 0.2;

impl WatchedProgram {
    /// Returns true if it waited long, or for much of the time, for its syncs.
    #[must_use]
    pub fn suffers(&self, watched_ns: u64) -> bool {
        let share = self.sync_ns as f64 / watched_ns.max(1) as f64;
        self.sync_ns > 0 && (self.longest_sync_ns >= LONG_SYNC_NS || share >= SYNC_SHARE)
    }
}

/// A request or a sync that took long.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LongWait {
    /// When it was first seen, ns since the watch began.
    pub at_ns: u64,
    /// Its age when it was last seen, ns: it took at least this long.
    pub age_ns: u64,
    /// The operation or the system call: `read`, `fsync`.
    pub what: String,
    /// The disk; empty for a filesystem on several.
    pub disk: String,
    /// Name of the thread that waited for it, or issued it.
    pub comm: String,
    /// Its process.
    pub pid: u32,
    /// Where it was, or what it waited for; empty if that is not known.
    pub place: String,
}
