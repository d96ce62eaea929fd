//! The machine a run took place on, and the counters it keeps: read by `qd1-probe`, never changed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Everything about the machine that explains a figure. Empty strings and `None` mean "could not be read".
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Environment {
    /// Host name.
    pub hostname: String,
    /// `uname -r`.
    pub kernel: String,
    /// `PRETTY_NAME` of os-release.
    pub os: String,
    /// CPU model name.
    pub cpu_model: String,
    /// Processors this process may run on.
    pub cpus: u32,
    /// MemTotal.
    pub memory: Bytes,
    /// Hypervisor or container: `kvm`, `xen`, `docker`, `none`, ...
    pub virtualization: String,
    /// Cloud or hardware vendor from DMI: `DigitalOcean`, `Amazon EC2`, ...
    pub vendor: String,
    /// DMI product name; an instance type on some clouds.
    pub product: String,
    /// Effective user is root.
    pub root: bool,
    /// Clock.
    pub clock: Clock,
    /// Filesystem under the target.
    pub filesystem: Filesystem,
    /// Block devices from the filesystem down to the hardware, the topmost first; empty where there is none.
    pub devices: Vec<Device>,
    /// Writeback settings.
    pub dirty: Dirty,
    /// Memory limit of the control group, bytes, if any.
    pub cgroup_memory_max: Option<Bytes>,
    /// I/O limits of the control group, as the kernel words them (`8:0 rbps=max wbps=1048576`).
    pub cgroup_io_limits: Vec<String>,
    /// CPU frequency governor of cpu0.
    pub cpu_governor: String,
    /// What sorting 16,384 random numbers takes before anything is measured, ns: how fast the processors are, in the mean.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sort_ns: Option<f64>,
}

/// The clock that times requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Clock {
    /// Kernel clock source: `tsc`, `kvm-clock`, `hpet`, ...
    pub source: String,
    /// Median cost of reading it once, ns.
    pub read_cost_ns: f64,
    /// Smallest step seen between two readings, ns.
    pub resolution_ns: u64,
}

/// What kind of thing holds the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FilesystemClass {
    /// On a block device of this machine.
    #[default]
    Disk,
    /// In memory: tmpfs, ramfs, layers whose writes land there.
    Memory,
    /// Layers: overlayfs, aufs.
    Overlay,
    /// On another machine: nfs, cifs, ceph, 9p, virtiofs.
    Network,
    /// A user-space filesystem.
    Fuse,
    /// Made up by the kernel: proc, sysfs. Nothing can be measured there.
    Pseudo,
}

/// The filesystem under the target.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Filesystem {
    /// Type as in mountinfo: `ext4`, `fuse.sshfs`.
    pub kind: String,
    /// What sort of filesystem that is.
    pub class: FilesystemClass,
    /// Source as mounted: `/dev/vda1`, `host:/export`.
    pub source: String,
    /// Mount point.
    pub mount_point: String,
    /// Mount and superblock options.
    pub options: Vec<String>,
    /// For overlayfs: the filesystem of the upper directory, when it can be seen.
    pub upper: String,
    /// For ZFS: the version of its module; empty where it cannot be read.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Its `f_fsid`, where that is made of the filesystem's own UUID, else the UUID; empty where neither is known.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// Total size.
    pub size: Bytes,
    /// Free for this user.
    pub available: Bytes,
    /// Files it can hold at most and how many more this user can make; absent where there is no such limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<Inodes>,
}

/// How many files a filesystem can hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Inodes {
    /// In all.
    pub total: u64,
    /// Free for this user.
    pub available: u64,
}

/// Begins the [`Device::identity`] of a device that is known until the machine is started again.
pub const BOOT: &str = "boot ";

/// One block device of the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Device {
    /// Kernel name: `vda`, `dm-0`, `nvme0n1`.
    pub name: String,
    /// Major and minor number as `254:0`.
    pub number: String,
    /// `disk`, `partition`, `dm`, `md`, `loop`, `zram`, `ram`.
    pub kind: String,
    /// How it is attached, as far as sysfs tells: `virtio`, `nvme`, `scsi`, `xen`, `mmc`, `nbd`, `rbd`, ...
    pub transport: String,
    /// Model and vendor.
    pub model: String,
    /// Firmware revision.
    pub firmware: String,
    /// By what it is known again: a serial number, WWID or UUID, or the file of a loop device; else its sequence number,
    /// which begins with [`BOOT`] and holds until the machine is started again. Empty where nothing is known; `--redact`
    /// takes it out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub identity: String,
    /// Size.
    pub size: Bytes,
    /// Active scheduler.
    pub scheduler: String,
    /// Kernel believes it rotates.
    pub rotational: Option<bool>,
    /// `write back` or `write through`; empty when unknown.
    pub write_cache: String,
    /// Whether it takes discards.
    pub discard: Option<bool>,
    /// Logical block size, bytes.
    pub logical_block: u32,
    /// Physical block size, bytes.
    pub physical_block: u32,
    /// `queue/nr_requests`.
    pub nr_requests: u32,
    /// `queue/read_ahead_kb`.
    pub read_ahead_kib: u32,
    /// For a loop device: its backing file.
    pub backing: String,
    /// For a loop device: whether its backing file lies in memory.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_backed_by_memory: bool,
    /// For an NVMe namespace: what its controller says. Absent for others, and in Records of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nvme: Option<Nvme>,
}

/// What an NVMe controller says of itself: from sysfs, and as root from its Identify and SMART / Health data (NVM Express
/// Base Specification 2.0, figures 275 and 207). What could not be read is `None` or empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Nvme {
    /// `nvme0`.
    pub controller: String,
    /// Model number.
    pub model: String,
    /// Serial number; `--redact` takes it out.
    pub serial: String,
    /// Firmware revision.
    pub firmware: String,
    /// PCI vendor.
    pub vendor_id: Option<u16>,
    /// How the controller is reached: `pcie`, `tcp`, `rdma`, `fc`, `loop`.
    pub transport: String,
    /// Memory node it is attached to; negative where there is only one.
    pub numa_node: Option<i32>,
    /// Queues for requests.
    pub queues: Option<u32>,
    /// Entries of each.
    pub queue_entries: Option<u32>,
    /// Version of the specification it follows, as `1.4.0`.
    pub version: String,
    /// Whether it has a volatile write cache: one that a flush has to empty.
    pub volatile_write_cache: Option<bool>,
    /// Most bytes of one request, as the controller has it.
    pub transfer_max: Option<Bytes>,
    /// SMART / Health.
    pub health: Option<NvmeHealth>,
}

/// SMART / Health data of an NVMe controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NvmeHealth {
    /// Bits of the critical warning; 0 when all is well.
    pub critical_warning: u8,
    /// Composite temperature, kelvin.
    pub temperature_k: u16,
    /// Spare blocks left, percent.
    pub available_spare_percent: u8,
    /// Spare below which it warns, percent.
    pub spare_threshold_percent: u8,
    /// Endurance used, percent; may exceed 100.
    pub used_percent: u8,
    /// Bytes read over its life, in steps of 512,000.
    pub read_bytes: u64,
    /// Bytes written over its life, in steps of 512,000.
    pub written_bytes: u64,
    /// Hours switched on.
    pub power_on_hours: u64,
    /// Times switched off without warning.
    pub unsafe_shutdowns: u64,
    /// Media and data integrity errors.
    pub media_errors: u64,
}

/// Kernel writeback settings (`/proc/sys/vm/dirty_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Dirty {
    /// `dirty_ratio`, percent of available memory; 0 when `bytes` is in force.
    pub ratio: u32,
    /// `dirty_background_ratio`, percent.
    pub background_ratio: u32,
    /// `dirty_bytes`; 0 when the ratio is in force.
    pub bytes: Bytes,
    /// `dirty_background_bytes`.
    pub background_bytes: Bytes,
    /// `dirty_expire_centisecs`.
    pub expire_centisecs: u32,
    /// `dirty_writeback_centisecs`.
    pub writeback_centisecs: u32,
}

/// Counters of one block device (`/proc/diskstats`, kernel documentation `admin-guide/iostats`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct DeviceCounters {
    /// Reads completed.
    pub reads: u64,
    /// Reads merged before being queued.
    pub read_merges: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Time spent reading, summed over requests, ms.
    pub read_ticks_ms: u64,
    /// Writes completed.
    pub writes: u64,
    /// Writes merged.
    pub write_merges: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Time spent writing, summed, ms.
    pub write_ticks_ms: u64,
    /// Time with anything in flight, ms.
    pub busy_ms: u64,
    /// Weighted time in flight, ms.
    pub queue_ms: u64,
    /// Discards completed.
    pub discards: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Flushes completed; 0 on kernels before 5.5.
    pub flushes: u64,
    /// Time spent flushing, summed, ms.
    pub flush_ticks_ms: u64,
}

impl DeviceCounters {
    /// Change from `before` to `self`; counters that wrapped or were reset count as zero.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        self.each_with(before, u64::saturating_sub)
    }

    /// Sum over two times.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        self.each_with(other, u64::saturating_add)
    }

    fn each_with(&self, other: &Self, of: impl Fn(u64, u64) -> u64) -> Self {
        let (mut numbers, others) = (self.numbers(), other.numbers());
        numbers.iter_mut().zip(others).for_each(|(number, other)| *number = of(*number, other));
        Self::from_numbers(numbers)
    }

    /// All counters, in their order.
    #[must_use]
    pub fn numbers(&self) -> [u64; 14] {
        let mut counters = *self;
        counters.each().map(|number| *number)
    }

    /// The counters whose [`numbers`](Self::numbers) these are.
    #[must_use]
    pub fn from_numbers(numbers: [u64; 14]) -> Self {
        let mut counters = Self::default();
        counters.each().into_iter().zip(numbers).for_each(|(counter, number)| *counter = number);
        counters
    }

    fn each(&mut self) -> [&mut u64; 14] {
        [
            &mut self.reads,
            &mut self.read_merges,
            &mut self.read_bytes,
            &mut self.read_ticks_ms,
            &mut self.writes,
            &mut self.write_merges,
            &mut self.write_bytes,
            &mut self.write_ticks_ms,
            &mut self.busy_ms,
            &mut self.queue_ms,
            &mut self.discards,
            &mut self.discard_bytes,
            &mut self.flushes,
            &mut self.flush_ticks_ms,
        ]
    }
}

/// Data in memory that waits to be written to disks (`Dirty` and `Writeback` of `/proc/meminfo`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Writeback {
    /// Changed, and not yet on its way.
    pub dirty_bytes: u64,
    /// On its way.
    pub writeback_bytes: u64,
}

/// Time of a thread, ns. The rest of its time it slept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// At work on a processor.
    pub worked_ns: u64,
    /// Ready, and waiting for a processor.
    pub waited_ns: u64,
}

/// What a thread cost, or several summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ThreadCost {
    /// User processor time, ns.
    pub user_ns: u64,
    /// System processor time, ns.
    pub system_ns: u64,
    /// Time runnable but waiting for a processor (`schedstat`), ns.
    pub run_delay_ns: u64,
    /// Context switches by its own choice (waits for I/O).
    pub voluntary_switches: u64,
    /// Context switches forced on it.
    pub involuntary_switches: u64,
    /// Major page faults.
    pub major_faults: u64,
    /// Minor page faults.
    pub minor_faults: u64,
}

impl ThreadCost {
    /// Change from `before` to `self`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            user_ns: self.user_ns.saturating_sub(before.user_ns),
            system_ns: self.system_ns.saturating_sub(before.system_ns),
            run_delay_ns: self.run_delay_ns.saturating_sub(before.run_delay_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(before.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(before.involuntary_switches),
            major_faults: self.major_faults.saturating_sub(before.major_faults),
            minor_faults: self.minor_faults.saturating_sub(before.minor_faults),
        }
    }

    /// Sum of two threads.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            user_ns: self.user_ns + other.user_ns,
            system_ns: self.system_ns + other.system_ns,
            run_delay_ns: self.run_delay_ns + other.run_delay_ns,
            voluntary_switches: self.voluntary_switches + other.voluntary_switches,
            involuntary_switches: self.involuntary_switches + other.involuntary_switches,
            major_faults: self.major_faults + other.major_faults,
            minor_faults: self.minor_faults + other.minor_faults,
        }
    }
}

/// Share of time stalled over a step (PSI `some` totals), 0..1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Pressure {
    /// Waiting for I/O.
    pub io: f64,
    /// Waiting for memory.
    pub memory: f64,
    /// Waiting for a processor.
    pub cpu: f64,
}

/// Machine-wide counters at one moment, to be subtracted.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineCounters {
    /// All processor time, in clock ticks.
    pub cpu_total_ticks: u64,
    /// Of it, stolen by the hypervisor.
    pub cpu_steal_ticks: u64,
    /// Of it, with nothing to do, or nothing but waiting for I/O.
    pub cpu_idle_ticks: u64,
    /// PSI `some` totals in microseconds (io, memory, cpu), where the kernel has PSI.
    pub pressure_us: Option<[u64; 3]>,
}

impl MachineCounters {
    /// Share of processor time stolen since `before`, 0..1.
    pub fn steal_since(&self, before: &Self) -> f64 {
        self.share_since(before, |counters| counters.cpu_steal_ticks)
    }

    /// Share of processor time that was worked since `before`, by whomever, 0..1.
    pub fn busy_since(&self, before: &Self) -> f64 {
        self.share_since(before, |counters| {
            counters.cpu_total_ticks.saturating_sub(counters.cpu_steal_ticks + counters.cpu_idle_ticks)
        })
    }

    fn share_since(&self, before: &Self, ticks: impl Fn(&Self) -> u64) -> f64 {
        let total = self.cpu_total_ticks.saturating_sub(before.cpu_total_ticks);
        let part = ticks(self).saturating_sub(ticks(before));
        if total == 0 { 0.0 } else { part as f64 / total as f64 }
    }

    /// Pressure since `before`, over `elapsed_ns`.
    pub fn pressure_since(&self, before: &Self, elapsed_ns: u64) -> Option<Pressure> {
        let (now, then) = (self.pressure_us?, before.pressure_us?);
        let share = |i: usize| (now[i].saturating_sub(then[i]) as f64 * 1e3 / elapsed_ns.max(1) as f64).min(1.0);
        Some(Pressure { io: share(0), memory: share(1), cpu: share(2) })
    }
}
