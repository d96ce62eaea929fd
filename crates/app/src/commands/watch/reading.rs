//! One reading per interval: the counters of the machine and its disks, plus BPF data where the kernel allows it.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use anyhow::{Result, bail};
use qd1_clock as clock;
use qd1_model::{Problem, printable};
use qd1_probe::activity::{Activity, DiskRates, Rates};
use qd1_probe::{BlockQueue, Machine};
use qd1_trace::{Device, Disks, InFlight, Latencies, Live, Op, Process, SyncUnderWay};

use crate::bpf::refusal;

/// Requests and syncs that have been pending for at least this long are shown, ns.
pub(super) const LONG_NS: u64 = 500_000_000;

/// Shortest interval between reads of the control groups' names, ns: a machine may have thousands.
const CGROUPS_NS: u64 = 10_000_000_000;

/// How long a process stays on the screen after its last activity, ns.
const RECENT_NS: u64 = 30_000_000_000;

/// What happened since the previous reading.
pub(super) struct Reading {
    pub(super) now: Activity,
    pub(super) rates: Rates,
    pub(super) disks: Vec<DiskReading>,
    pub(super) processes: Vec<ProcessReading>,
    /// Names of the processes' control groups, as far as known.
    pub(super) cgroups: Rc<HashMap<u64, String>>,
    /// Requests pending for [`LONG_NS`] or longer, oldest first.
    pub(super) requests: Vec<InFlight>,
    /// Syncs pending for [`LONG_NS`] or longer, oldest first.
    pub(super) syncs: Vec<SyncUnderWay>,
}

/// A disk.
pub(super) struct DiskReading {
    pub(super) rates: DiskRates,
    /// Major and minor number.
    pub(super) numbers: Option<(u32, u32)>,
    /// True if it has a request queue; false if it passes requests on to other disks.
    pub(super) has_queue: bool,
    /// By operation; `None` if they are not recorded.
    pub(super) latencies: Option<Vec<(Op, Latencies)>>,
}

/// What a process did on a disk, per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct ProcessReading {
    pub(super) process: Process,
    pub(super) read: f64,
    pub(super) written: f64,
    pub(super) changed: f64,
    pub(super) syncs: f64,
    /// Seconds per second that its threads spent waiting for syncs.
    pub(super) sync_wait: f64,
}

/// A process as of the last reading, and when it was last active.
struct Known {
    process: Process,
    active_ns: u64,
}

/// Which BPF programs to load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// None: counters only.
    Counters,
    /// Latencies; it is an error if they are not available.
    Latencies,
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
    /// Why there are no latencies, if they were requested.
    refused: Option<String>,
    queues: HashMap<String, Option<BlockQueue>>,
    /// Whether, for at least one disk, the kernel does not record when requests were created.
    no_start: bool,
    before: Option<Activity>,
    latencies: HashMap<Device, Vec<(Op, Latencies)>>,
    processes: HashMap<(u32, (u32, u32)), Known>,
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
        let mut watcher = Self {
            machine,
            disk,
            live: None,
            has_waits: wanted == Wanted::Everything,
            refused: None,
            queues: HashMap::new(),
            no_start: false,
            before: None,
            latencies: HashMap::new(),
            processes: HashMap::new(),
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
                disks.sort_by_key(|disk| !disk.is_used);
                disks.into_iter().map(|disk| disk.name).collect()
            }
        };
        let devices: Vec<Device> = names.iter().filter_map(|name| watcher.device(name)).collect();
        let disks = match (&watcher.disk, &devices[..]) {
            (Some(name), []) => {
                let reason = format!("{} passes its requests on to other disks; watch one of those", printable(name));
                return watcher.without(reason, wanted);
            }
            (Some(_), [only, ..]) => Disks::Only(*only),
            _ => Disks::Of(&devices),
        };
        let begun = Live::begin(disks, watcher.no_start, watcher.has_waits).or_else(|error| {
            // Some kernels allow the latency program but not the others.
            let live = if watcher.has_waits { Live::begin(disks, watcher.no_start, false) } else { Err(error) };
            watcher.has_waits = false;
            live
        });
        match begun {
            Ok(live) => watcher.live = Some(live),
            Err(error) => return watcher.without(refusal(&error), wanted),
        }
        Ok(watcher)
    }

    fn without(mut self, reason: String, wanted: Wanted) -> Result<Self> {
        if wanted == Wanted::Latencies {
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

    /// Returns a disk's device numbers if its latencies can be recorded.
    fn device(&mut self, name: &str) -> Option<Device> {
        // On a disk that appeared later and keeps no start times, stale timestamps of earlier requests would be used.
        let queue = self.queue(name).filter(|queue| queue.has_requests)?;
        (queue.has_times || self.no_start).then_some(Device { major: queue.major, minor: queue.minor })
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
            disks.push(DiskReading { rates, numbers, has_queue, latencies });
        }
        let processes = self.processes(now.at_ns, rates.seconds)?;
        let at_ns = clock::now_ns();
        let is_unknown = |of: &ProcessReading| !self.cgroups.contains_key(&of.process.cgroup);
        if processes.iter().any(is_unknown) && at_ns >= self.cgroups_ns + CGROUPS_NS {
            (self.cgroups, self.cgroups_ns) = (Rc::new(self.machine.cgroup_names()), at_ns);
        }
        let (mut requests, mut syncs) = (Vec::new(), Vec::new());
        if let Some(live) = self.live.as_mut().filter(|_| self.has_waits) {
            match live.in_flight(at_ns, LONG_NS) {
                Ok(found) => requests = found,
                // Counters and latencies still work.
                Err(_) => self.has_waits = false,
            }
            syncs = live.syncs(at_ns)?;
            syncs.retain(|sync| sync.age_ns >= LONG_NS);
        }
        self.before = Some(now.clone());
        let cgroups = self.cgroups.clone();
        Ok(Reading { now, rates, disks, processes, cgroups, requests, syncs })
    }

    fn latencies(&mut self, name: &str) -> Result<Option<Vec<(Op, Latencies)>>> {
        let device = self.device(name);
        let (Some(device), Some(live)) = (device, &mut self.live) else { return Ok(None) };
        if self.disk.is_none() && !live.add(device)? {
            return Ok(None);
        }
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
        self.queues.retain(|name, _| now.disks.iter().any(|disk| disk.name == *name));
        let of = |queue: &BlockQueue| Device { major: queue.major, minor: queue.minor };
        let known: HashSet<Device> = self.queues.values().flatten().map(of).collect();
        self.latencies.retain(|device, _| known.contains(device));
        match &mut self.live {
            Some(live) if self.disk.is_none() => live.keep(|device| known.contains(&device)),
            _ => Ok(()),
        }
    }

    fn processes(&mut self, now_ns: u64, seconds: f64) -> Result<Vec<ProcessReading>> {
        let Some(live) = self.live.as_ref().filter(|_| self.has_waits) else { return Ok(Vec::new()) };
        let mut all = live.processes()?;
        // The time of a sync counts while it is in progress, not in one lump at its end.
        for sync in live.syncs(now_ns)? {
            let is_its = |of: &&mut Process| of.pid == sync.asker.pid && of.device == sync.device;
            match all.iter_mut().find(is_its) {
                Some(process) => process.sync_ns += sync.age_ns,
                None => all.push(Process {
                    pid: sync.asker.pid,
                    device: sync.device,
                    comm: sync.asker.comm,
                    cgroup: sync.asker.cgroup,
                    sync_ns: sync.age_ns,
                    ..Process::default()
                }),
            }
        }
        let rate = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds.max(0.001);
        let reading = |process: &Process| {
            // A process that was evicted from the table in between starts again from zero.
            let known = self.processes.get(&(process.pid, process.device)).map(|known| known.process);
            let is_same = |before: &Process| {
                let is_more = |of: fn(&Process) -> u64| of(before) <= of(process);
                is_more(|of| of.requests) && is_more(|of| of.syncs) && is_more(|of| of.changed_bytes)
            };
            let before = known.filter(is_same).unwrap_or_default();
            ProcessReading {
                process: *process,
                read: rate(process.read_bytes, before.read_bytes),
                written: rate(process.write_bytes, before.write_bytes),
                changed: rate(process.changed_bytes, before.changed_bytes),
                syncs: rate(process.syncs, before.syncs),
                sync_wait: rate(process.sync_ns, before.sync_ns) / 1e9,
            }
        };
        let mut recent = Vec::new();
        let mut processes = HashMap::with_capacity(all.len());
        for process in all {
            let (key, of) = ((process.pid, process.device), reading(&process));
            // A sync that ended between reading the two tables is in neither: do not count its time twice later.
            let counted_ns = self.processes.get(&key).map_or(0, |known| known.process.sync_ns);
            let is_same = self.processes.get(&key).is_some_and(|known| known.process.syncs <= process.syncs);
            let sync_ns = if is_same { process.sync_ns.max(counted_ns) } else { process.sync_ns };
            let process = Process { sync_ns, ..process };
            let is_active = of.read + of.written + of.changed + of.syncs + of.sync_wait > 0.0;
            let known = self.processes.get(&key);
            let active_ns = if is_active { now_ns } else { known.map_or(0, |known| known.active_ns) };
            processes.insert(key, Known { process, active_ns });
            // Keep it for a while: a process that hangs does nothing, but is the one to look for.
            if active_ns + RECENT_NS > now_ns {
                recent.push(of);
            }
        }
        self.processes = processes;
        Ok(recent)
    }
}
