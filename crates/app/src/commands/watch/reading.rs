//! One reading per interval: the counters of the machine and its disks, plus BPF data where the kernel allows it.

use qd1_model::order::Order as _;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use anyhow::{Result, bail};
use qd1_clock as clock;
use qd1_model::record::watched::DiskLimits;
use qd1_model::requests::{Op, Sync};
use qd1_model::{Problem, printable};
use qd1_probe::activity::{Activity, DiskRates, Rates};
use qd1_probe::{BlockQueue, Machine, Mapped};
use qd1_trace::{Device, Disks, InFlight, Latencies, Live, LiveDisk, SyncUnderWay};

use super::limits::Limits;
use super::processes::{Accounts, ProcessReading, Processes};
use crate::bpf::refusal;
use crate::mappings::Mappings;

/// Requests and syncs that have been pending for at least this long are shown, ns.
pub(super) const LONG_NS: u64 = 500_000_000;

/// Most syncs whose reason is looked for.
const REASONS_MAX: usize = 20;
/// Shortest interval between reads of the control groups' names, ns: a machine may have thousands.
const CGROUPS_NS: u64 = 10_000_000_000;

/// What happened since the previous reading.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Reading {
    /// When it was taken, s since the Unix epoch.
    pub(super) unix_time_s: f64,
    pub(super) now: Activity,
    pub(super) rates: Rates,
    pub(super) disks: Vec<DiskReading>,
    pub(super) processes: Vec<ProcessReading>,
    /// Names of the processes' control groups, as far as known.
    pub(super) cgroups: Rc<HashMap<u64, String>>,
    /// Requests pending for [`LONG_NS`] or longer, oldest first.
    pub(super) requests: Vec<InFlight>,
    /// Syncs pending for [`LONG_NS`] or longer, oldest first.
    pub(super) syncs: Vec<SyncReading>,
    /// Why there are no latencies, syncs and waits; empty if there are.
    pub(super) unseen: String,
    /// Why there are latencies, but no syncs and waits; empty if there are.
    pub(super) no_waits: String,
}

impl Reading {
    /// Says how many disks have no latencies although others do: not all of them fit into the kernel's table.
    pub(super) fn unrecorded(&self) -> Option<String> {
        let (all, recorded) = (self.disks.len(), self.disks.iter().filter(|disk| disk.latencies.is_some()).count());
        (0 < recorded && recorded < all).then(|| {
            let without = all - recorded;
            format!("latencies of {without} of {all} disks are not recorded; qd1 watch DISK records those of one")
        })
    }
}

/// A sync that takes long.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SyncReading {
    pub(super) sync: SyncUnderWay,
    /// What it waits for now; empty if that is not known.
    pub(super) waits_for: String,
}

/// A disk.
#[derive(Debug, Default, PartialEq)]
pub(super) struct DiskReading {
    pub(super) rates: DiskRates,
    /// Major and minor number.
    pub(super) numbers: Option<(u32, u32)>,
    /// True if it has a request queue; false for zram, device mapper and md, whose bios count as requests.
    pub(super) has_queue: bool,
    /// By operation; `None` if they are not recorded.
    pub(super) latencies: Option<Vec<(Op, Latencies)>>,
    /// For how long demand was above its limits; `None` if it does not count that, or did not answer in this interval.
    pub(super) limits: Option<DiskLimits>,
}

/// Which BPF programs to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// None: counters only.
    Counters,
    /// Latencies; it is an error if they are not available. Waits, too, if wanted and possible.
    Latencies { with_waits: bool },
    /// Latencies and waits, if the kernel and this user's privileges allow it.
    Everything,
}

/// Reads all disks in use, or a single one.
pub(super) struct Watcher {
    machine: Machine,
    disk: Option<String>,
    live: Option<Live>,
    /// Whether waits are recorded, too.
    has_waits: bool,
    /// Why not, if they were wanted.
    no_waits: String,
    /// Why there are no latencies, if they were requested.
    refused: Option<String>,
    queues: HashMap<String, Option<BlockQueue>>,
    /// Whether, for at least one disk, the kernel does not record when requests were created.
    no_start: bool,
    before: Option<Activity>,
    latencies: HashMap<Device, Vec<(Op, Latencies)>>,
    limits: Limits,
    processes: Processes,
    mappings: Mappings,
    accounts: Accounts,
    cgroups: Rc<HashMap<u64, String>>,
    /// When the names of the control groups were last read.
    cgroups_ns: u64,
}

impl Watcher {
    /// Starts watching.
    ///
    /// # Errors
    /// If latencies were requested explicitly but are not available.
    pub(super) fn begin(machine: Machine, disk: Option<String>, wanted: Wanted) -> Result<Self> {
        let mappings = Mappings::new(&machine);
        let mut watcher = Self {
            machine,
            disk,
            live: None,
            has_waits: matches!(wanted, Wanted::Everything | Wanted::Latencies { with_waits: true }),
            no_waits: String::new(),
            refused: None,
            queues: HashMap::new(),
            no_start: false,
            before: None,
            latencies: HashMap::new(),
            limits: Limits::default(),
            processes: Processes::default(),
            mappings,
            accounts: Accounts::default(),
            cgroups: Rc::default(),
            cgroups_ns: 0,
        };
        if wanted == Wanted::Counters {
            return Ok(watcher);
        }
        let names: Vec<String> = match &watcher.disk {
            Some(name) => vec![name.clone()],
            None => {
                // There may be more disks than slots, so disks in use come first.
                let mut disks = watcher.machine.activity().rates(None).disks;
                disks.order_by_key(|disk| !disk.is_used);
                disks.into_iter().map(|disk| disk.name).collect()
            }
        };
        let devices: Vec<LiveDisk> = names.iter().filter_map(|name| watcher.live_disk(name)).collect();
        let disks = match (&watcher.disk, &devices[..]) {
            (Some(name), []) => {
                let reason = format!("{} is not in /sys/block", printable(name));
                return watcher.without(reason, wanted);
            }
            (Some(_), [only, ..]) => Disks::Only(*only),
            _ => Disks::Of(&devices),
        };
        let begun = Live::begin(disks, watcher.no_start, watcher.has_waits).or_else(|error| {
            // Some kernels allow the latency program but not the others.
            if !watcher.has_waits {
                return Err(error);
            }
            watcher.has_waits = false;
            watcher.no_waits = refusal(&error);
            Live::begin(disks, watcher.no_start, false)
        });
        match begun {
            Ok(live) => watcher.live = Some(live),
            Err(error) => return watcher.without(refusal(&error), wanted),
        }
        Ok(watcher)
    }

    fn without(mut self, reason: String, wanted: Wanted) -> Result<Self> {
        if matches!(wanted, Wanted::Latencies { .. }) {
            let message = format!("latencies are not available: {reason}");
            bail!(Problem::new(qd1_model::ProblemKind::Capability, message));
        }
        self.refused = Some(reason);
        Ok(self)
    }

    /// Returns why there are no latencies, if they were requested.
    pub(super) fn refused(&self) -> Option<&str> {
        self.refused.as_deref()
    }

    /// Returns the device numbers and queue of a whole disk.
    fn queue(&mut self, name: &str) -> Option<BlockQueue> {
        if let Some(known) = self.queues.get(name) {
            return *known;
        }
        let queue = self.machine.is_whole_disk(name).then(|| self.machine.block_queue(name)).flatten();
        self.no_start |= self.live.is_none() && queue.is_some_and(|queue| queue.has_requests && !queue.has_times);
        self.queues.insert(name.to_owned(), queue);
        queue
    }

    /// Returns a disk if its latencies can be recorded.
    fn live_disk(&mut self, name: &str) -> Option<LiveDisk> {
        let BlockQueue { major, minor, has_requests, has_times } = self.queue(name)?;
        // On a disk that appeared later and keeps no start times, stale timestamps of earlier requests would be used.
        let is_timed = !has_requests || has_times || self.no_start;
        is_timed.then_some(LiveDisk { device: Device { major, minor }, has_requests })
    }

    /// Reads the counters and returns the change since the previous reading (at first: since the machine started).
    ///
    /// # Errors
    /// If the disk is gone, or the BPF maps cannot be read.
    pub(super) fn read(&mut self) -> Result<Reading> {
        let now = self.machine.activity();
        let mut rates = now.rates(self.before.as_ref());
        let is_shown = |rates: &DiskRates| match &self.disk {
            Some(name) => rates.name == *name,
            None => rates.is_used && self.machine.is_whole_disk(&rates.name),
        };
        let shown: Vec<DiskRates> = std::mem::take(&mut rates.disks).into_iter().filter(is_shown).collect();
        if self.before.is_some()
            && let (Some(name), []) = (&self.disk, &shown[..])
        {
            return Err(Problem::usage(format!("disk {} is gone", printable(name))).into());
        }
        self.forget_gone(&now)?;
        let mut disks = Vec::with_capacity(shown.len());
        for rates in shown {
            let latencies = self.latencies(&rates.name)?;
            let queue = self.queue(&rates.name);
            let numbers = queue.map(|queue| (queue.major, queue.minor));
            let has_queue = queue.is_none_or(|queue| queue.has_requests);
            let limits = self.limits.read(&self.machine, &rates.name);
            disks.push(DiskReading { rates, numbers, has_queue, latencies, limits });
        }
        let (at_ns, unix_time_s) = (clock::now_ns(), clock::wall_ns() as f64 / 1e9);
        let (mut requests, mut syncs, mut processes) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(live) = self.live.as_mut().filter(|_| self.has_waits) {
            match live.in_flight(at_ns, LONG_NS) {
                Ok(found) => requests = found,
                // Counters and latencies remain available.
                Err(error) => (self.has_waits, self.no_waits) = (false, refusal(&error)),
            }
            // In this order: see `Processes::take`.
            let all = live.processes()?;
            syncs = live.syncs(at_ns)?;
            processes = self.processes.take(all, &syncs, at_ns, rates.seconds);
            let only = self.disk.as_ref().and_then(|disk| self.queues.get(disk).copied().flatten());
            let only = only.map(|only| (only.major, only.minor));
            processes.retain_mut(|of| is_shown_process(of, &mut self.mappings, only));
            syncs.retain_mut(|sync| sync.age_ns >= LONG_NS && is_shown_sync(sync, &mut self.mappings, only));
        }
        if self.refused.is_some() || !self.no_waits.is_empty() {
            processes = self.accounts.take(clock::now_ns, || self.machine.process_io());
        }
        let has_old = |device: (u32, u32)| requests.iter().any(|request| request.device == device);
        let with_reason = |(at, sync): (usize, SyncUnderWay)| {
            let waits_for = if at < REASONS_MAX { self.waits_for(&sync, has_old(sync.device)) } else { String::new() };
            SyncReading { sync, waits_for }
        };
        let syncs = syncs.into_iter().enumerate().map(with_reason).collect();
        let is_unknown = |of: &ProcessReading| !self.cgroups.contains_key(&of.process.cgroup);
        if processes.iter().any(is_unknown) && at_ns >= self.cgroups_ns + CGROUPS_NS {
            (self.cgroups, self.cgroups_ns) = (Rc::new(self.machine.cgroup_names()), at_ns);
        }
        self.before = Some(now.clone());
        let cgroups = self.cgroups.clone();
        let (unseen, no_waits) = (self.refused.clone().unwrap_or_default(), self.no_waits.clone());
        Ok(Reading { unix_time_s, now, rates, disks, processes, cgroups, requests, syncs, unseen, no_waits })
    }

    /// What a sync waits for. If it waits for requests, but its disk has none as old as that, and its control group may
    /// write only so much to this disk, that limit holds them back.
    fn waits_for(&self, sync: &SyncUnderWay, has_old_request: bool) -> String {
        let waits = self.machine.waits_for(sync.asker.pid, sync.asker.tid);
        let is_its_disk = |queue: &BlockQueue| (queue.major, queue.minor) == sync.device;
        let may_be_held = waits.is_none_or(|waits| waits.is_for_requests) && !has_old_request;
        if may_be_held && self.queues.values().flatten().any(is_its_disk) {
            let limits = self.machine.write_limits(sync.asker.pid, sync.device);
            if !limits.is_empty() {
                return format!("its control group's limit ({limits})");
            }
        }
        waits.map_or_else(String::new, |waits| waits.what.to_owned())
    }

    fn latencies(&mut self, name: &str) -> Result<Option<Vec<(Op, Latencies)>>> {
        let disk = self.live_disk(name);
        let (Some(disk), Some(live)) = (disk, &mut self.live) else { return Ok(None) };
        if self.disk.is_none() && !live.add(disk)? {
            return Ok(None);
        }
        let device = disk.device;
        let now = live.latencies(device)?;
        let before = self.latencies.insert(device, now.clone());
        // The slot of a disk that was just added may still hold the counts of a disk that is gone.
        let before = if self.before.is_some() { before.unwrap_or_else(|| now.clone()) } else { Vec::new() };
        let since = |(op, latencies): (Op, Latencies)| {
            let earlier = before.iter().find(|(known, _)| *known == op);
            (op, earlier.map_or(latencies.clone(), |(_, earlier)| latencies.since(earlier)))
        };
        Ok(Some(now.into_iter().map(since).collect()))
    }

    /// Forgets disks that are gone: their names and slots may be reused by others.
    fn forget_gone(&mut self, now: &Activity) -> Result<()> {
        let is_there = |name: &str| now.disks.iter().any(|disk| disk.name == name);
        self.queues.retain(|name, _| is_there(name));
        self.limits.keep(is_there);
        let of = |queue: &BlockQueue| Device { major: queue.major, minor: queue.minor };
        let known: HashSet<Device> = self.queues.values().flatten().map(of).collect();
        self.latencies.retain(|device, _| known.contains(device));
        match &mut self.live {
            Some(live) if self.disk.is_none() => live.keep(|device| known.contains(&device)),
            _ => Ok(()),
        }
    }
}

/// Completes what a process waited for on an unknown disk with that of its last msync. Returns false if that is not the
/// `only` one that is watched, or it was a sync of all disks.
fn is_shown_process(of: &mut ProcessReading, mappings: &mut Mappings, only: Option<(u32, u32)>) -> bool {
    let process = &mut of.process;
    if process.device == (0, 0)
        && process.mapped_at > 0
        && let Some(Mapped::File { device, .. }) = mappings.find(process.pid, process.mapped_at)
    {
        process.device = device;
    }
    only.is_none_or(|only| only == process.device)
}

/// Completes an msync with the disk of its file, which the kernel's programs do not know. Returns false if a sync is for no
/// disk, or for another than the `only` one that is watched.
fn is_shown_sync(sync: &mut SyncUnderWay, mappings: &mut Mappings, only: Option<(u32, u32)>) -> bool {
    if sync.call == Sync::MSYNC {
        match mappings.find(sync.asker.pid, sync.inode) {
            Some(Mapped::Memory) => return false,
            Some(Mapped::File { device, .. }) => sync.device = device,
            None => {}
        }
    }
    only.is_none_or(|only| [only, (0, 0)].contains(&sync.device))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_that_do_not_fit_are_counted_unless_none_is_recorded() {
        let of = |recorded: &[bool]| {
            let disk =
                |is_recorded: &bool| DiskReading { latencies: is_recorded.then(Vec::new), ..DiskReading::default() };
            Reading { disks: recorded.iter().map(disk).collect(), ..Reading::default() }.unrecorded()
        };
        assert!(of(&[true, false, false]).unwrap().starts_with("latencies of 2 of 3 disks are not recorded"));
        assert_eq!([of(&[true, true]), of(&[false, false]), of(&[])], [None, None, None]);
    }
}
