//! What the readings of a watch amount to: a run as of every other command, with a step for each disk.

mod disk;

use std::collections::{BTreeSet, HashMap};

use qd1_model::Bytes;
use qd1_model::environment::Pressure;
use qd1_model::order::Order as _;
use qd1_model::record::watched::{LongWait, PROGRAMS_MAX, WAITS_MAX, WatchRecord, WatchedProgram};
use qd1_model::record::{OTHERS_MAX, OtherUser, StepRecord};

use super::processes::ProcessReading;
use super::reading::{Reading, SyncReading};
use disk::DiskSum;

/// Share of a reading's time that a process must wait for syncs for its neighbours to count.
const WAITS: f64 = 0.05;
/// Most programs of a reading whose neighbours are looked for.
const VICTIMS_MAX: usize = 20;
/// Names of the kernel's threads that write for others, and so are no neighbours.
const KERNELS: [&str; 6] = ["jbd2/", "kworker/", "xfsaild/", "xfs-", "btrfs-", "txg_sync"];
/// Most programs and waits that are kept while it goes on; the least important are dropped.
const KEPT: usize = 2000;

/// The sum of all readings so far.
#[derive(Default)]
pub(super) struct Sum {
    readings: u64,
    seconds: f64,
    began_unix_s: f64,
    disks: HashMap<String, DiskSum>,
    programs: HashMap<(String, String), ProgramSum>,
    waits: HashMap<Wait, WaitSum>,
    /// Why there are no latencies, or no waits.
    unseen: String,
    waits_dropped: u64,
    /// Seconds of the processors' time in use and stolen, and of waits for a processor, disks and memory.
    busy: f64,
    steal: f64,
    pressure: Option<[f64; 3]>,
}

/// A wait is the same in two readings if it began at about the same time.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Wait {
    what: String,
    disk: String,
    pid: u32,
    /// When it began, in tenths of a second since the Unix epoch.
    began: i64,
}

/// Requests of one process that began together.
struct WaitSum {
    longest: LongWait,
    /// How many there were in one reading, at most, and how many there are in this one.
    count: u64,
    in_reading: u64,
    reading: u64,
}

#[derive(Default)]
struct ProgramSum {
    program: WatchedProgram,
    moved: Moved,
    syncs: f64,
    sync_s: f64,
    /// What others moved while it waited, by name.
    beside: HashMap<String, Moved>,
}

/// The processes of a program, and the bytes that they moved.
#[derive(Default)]
struct Moved {
    pids: BTreeSet<u32>,
    read: f64,
    written: f64,
    changed: f64,
}

impl Moved {
    fn push(&mut self, of: &ProcessReading, seconds: f64) {
        if self.pids.len() < KEPT {
            self.pids.insert(of.process.pid);
        }
        self.read += of.read * seconds;
        self.written += of.written * seconds;
        self.changed += of.changed * seconds;
    }

    fn bytes(&self) -> f64 {
        self.read + self.written + self.changed
    }
}

/// Rates times seconds are not exact; the kernel counts sectors and pages.
fn bytes(bytes: f64) -> Bytes {
    Bytes(((bytes / 512.0).round() as u64).saturating_mul(512))
}

impl Sum {
    /// Adds a reading.
    pub(super) fn push(&mut self, reading: &Reading) {
        let (seconds, begin_s) = (reading.rates.seconds, self.seconds);
        if self.readings == 0 {
            self.began_unix_s = reading.unix_time_s - seconds;
        }
        self.readings += 1;
        self.seconds += seconds;
        let why = if reading.unseen.is_empty() { &reading.no_waits } else { &reading.unseen };
        if !why.is_empty() {
            self.unseen.clone_from(why);
        }
        for disk in &reading.disks {
            if self.disks.len() >= KEPT && !self.disks.contains_key(&disk.rates.name) {
                continue;
            }
            self.disks.entry(disk.rates.name.clone()).or_default().push(disk, begin_s, seconds);
        }
        let name_of = |device: (u32, u32)| {
            let disk = reading.disks.iter().find(|disk| disk.numbers == Some(device));
            match disk {
                Some(disk) => disk.rates.name.clone(),
                None if device == (0, 0) => String::new(),
                None => format!("{}:{}", device.0, device.1),
            }
        };
        for of in &reading.processes {
            self.push_process(of, &name_of(of.process.device), seconds);
        }
        let mut waiting: HashMap<(String, (u32, u32)), f64> = HashMap::new();
        for of in reading.processes.iter().filter(|of| of.sync_wait >= WAITS) {
            *waiting.entry((of.process.name().into_owned(), of.process.device)).or_default() += of.sync_wait;
        }
        let mut waiting: Vec<_> = waiting.into_iter().collect();
        waiting.order_by(|a, b| b.1.total_cmp(&a.1));
        for ((comm, device), _) in waiting.into_iter().take(VICTIMS_MAX) {
            let Some(sum) = self.programs.get_mut(&(comm, name_of(device))) else { continue };
            reading
                .processes
                .iter()
                .filter(|of| of.process.device == device)
                .for_each(|of| sum.push_beside(of, seconds));
        }
        let busy = reading.rates.cpu.user + reading.rates.cpu.nice + reading.rates.cpu.system;
        self.busy += busy / 100.0 * seconds;
        self.steal += reading.rates.cpu.steal / 100.0 * seconds;
        if let Some(shares) = reading.rates.pressure {
            let sums = self.pressure.get_or_insert([0.0; 3]);
            sums.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share / 100.0 * seconds);
        }
        for request in &reading.requests {
            let place = if request.is_issued { "in the device" } else { "in the queue" };
            let asker = &request.asker;
            self.push_wait(
                LongWait {
                    age_ns: request.age_ns,
                    what: request.op.name().to_owned(),
                    disk: name_of(request.device),
                    comm: asker.name().into_owned(),
                    pid: asker.pid,
                    place: place.to_owned(),
                    ..LongWait::default()
                },
                reading.unix_time_s,
            );
        }
        for SyncReading { sync, waits_for } in &reading.syncs {
            let key = (sync.asker.name().into_owned(), name_of(sync.device));
            if let Some(sum) = self.programs.get_mut(&key).filter(|_| waits_for.contains("limit")) {
                sum.program.limit.clone_from(waits_for);
            }
            let place = if waits_for.is_empty() { String::new() } else { format!("for {waits_for}") };
            self.push_wait(
                LongWait {
                    place,
                    age_ns: sync.age_ns,
                    what: sync.call.to_owned(),
                    disk: name_of(sync.device),
                    comm: sync.asker.name().into_owned(),
                    pid: sync.asker.pid,
                    ..LongWait::default()
                },
                reading.unix_time_s,
            );
        }
        self.drop_least();
    }

    fn push_process(&mut self, of: &ProcessReading, disk: &str, seconds: f64) {
        let comm = of.process.name().into_owned();
        let sum = self.programs.entry((comm.clone(), disk.to_owned())).or_default();
        if sum.moved.pids.is_empty() {
            sum.program =
                WatchedProgram { comm, pid: of.process.pid, disk: disk.to_owned(), ..WatchedProgram::default() };
        }
        sum.moved.push(of, seconds);
        sum.syncs += of.syncs * seconds;
        sum.sync_s += of.sync_wait * seconds;
        // The counter is that of the whole capture.
        sum.program.longest_sync_ns = sum.program.longest_sync_ns.max(of.process.longest_sync_ns);
    }

    fn push_wait(&mut self, wait: LongWait, unix_time_s: f64) {
        let began = ((unix_time_s - wait.age_ns as f64 / 1e9) * 10.0).round() as i64;
        let at = |began: i64| Wait { what: wait.what.clone(), disk: wait.disk.clone(), pid: wait.pid, began };
        let near = [began, began.saturating_sub(1), began.saturating_add(1)];
        let key = near.into_iter().map(at).find(|key| self.waits.contains_key(key)).unwrap_or_else(|| at(began));
        let at_ns = (self.seconds * 1e9) as u64;
        let (count, in_reading, reading) = (0, 0, self.readings);
        let longest = LongWait { at_ns, ..LongWait::default() };
        let sum = self.waits.entry(key).or_insert(WaitSum { longest, count, in_reading, reading });
        if sum.reading != self.readings {
            (sum.reading, sum.in_reading) = (self.readings, 0);
        }
        sum.in_reading += 1;
        sum.count = sum.count.max(sum.in_reading);
        if wait.age_ns >= sum.longest.age_ns {
            sum.longest = LongWait { at_ns: sum.longest.at_ns, ..wait };
        }
    }

    /// Keeps the memory of a watch of weeks bounded.
    fn drop_least(&mut self) {
        if self.programs.len() > 2 * KEPT {
            let mut ranks: Vec<f64> = self.programs.values().map(ProgramSum::rank).collect();
            ranks.order_by(f64::total_cmp);
            let least = ranks[ranks.len() - KEPT];
            self.programs.retain(|_, of| of.rank() > least);
        }
        if self.waits.len() > 2 * KEPT {
            let mut ages: Vec<u64> = self.waits.values().map(|wait| wait.longest.age_ns).collect();
            ages.sort_unstable();
            let least = ages[ages.len() - KEPT];
            let dropped: u64 =
                self.waits.values().filter(|wait| wait.longest.age_ns <= least).map(|wait| wait.count).sum();
            self.waits.retain(|_, wait| wait.longest.age_ns > least);
            self.waits_dropped += dropped;
        }
    }

    /// Number of readings so far.
    pub(super) const fn readings(&self) -> u64 {
        self.readings
    }

    /// Returns when the first interval began, ns since the Unix epoch.
    pub(super) fn began_unix_ns(&self) -> u64 {
        (self.began_unix_s.max(0.0) * 1e9) as u64
    }

    /// Returns the time of all readings, ns.
    pub(super) fn watched_ns(&self) -> u64 {
        (self.seconds * 1e9) as u64
    }

    /// Returns what was seen, and a step for each disk in use.
    pub(super) fn finish(self) -> (WatchRecord, Vec<StepRecord>) {
        let (seconds, watched_ns) = (self.seconds.max(1e-9), self.watched_ns());
        let is_used =
            |(_, disk): &(String, DiskSum)| disk.counted.iter().any(|[count, ..]| *count > 0.0) || disk.busy > 0.0;
        let mut disks: Vec<(String, DiskSum)> = self.disks.into_iter().filter(is_used).collect();
        disks.order_by(|a, b| b.1.busy.total_cmp(&a.1.busy).then_with(|| a.0.cmp(&b.0)));
        let mut programs: Vec<ProgramSum> = self.programs.into_values().filter(|of| of.rank() > 0.0).collect();
        programs.order_by(|a, b| {
            let waits = |of: &ProgramSum| if of.sync_s >= WAITS * seconds { of.sync_s } else { 0.0 };
            waits(b).total_cmp(&waits(a)).then_with(|| b.moved.bytes().total_cmp(&a.moved.bytes()))
        });
        programs.truncate(PROGRAMS_MAX);
        let waits_seen = self.waits.values().map(|wait| wait.count).sum::<u64>() + self.waits_dropped;
        let mut waits: Vec<LongWait> = self.waits.into_values().map(|wait| wait.longest).collect();
        waits.order_by(|a, b| b.age_ns.cmp(&a.age_ns).then_with(|| a.what.cmp(&b.what)));
        waits.truncate(WAITS_MAX);
        let record = WatchRecord {
            readings: self.readings,
            watched_ns,
            unseen: self.unseen,
            disks: disks.iter().map(|(name, disk)| disk.counters(name, seconds)).collect(),
            programs: programs.into_iter().map(ProgramSum::finish).collect(),
            waits,
            waits_seen,
        };
        let (busy, steal) = (self.busy / seconds, self.steal / seconds);
        let pressure = self.pressure.map(|sums| sums.map(|sum| sum / seconds));
        let pressure = pressure.map(|[cpu, io, memory]| Pressure { cpu, io, memory });
        let with_latencies = disks.into_iter().filter(|(_, disk)| !disk.latencies.is_empty());
        (
            record,
            with_latencies
                .map(|(name, disk)| StepRecord { busy, steal, pressure, ..disk.step(name, watched_ns) })
                .collect(),
        )
    }
}

impl ProgramSum {
    /// Adds what a process did while this program waited.
    fn push_beside(&mut self, of: &ProcessReading, seconds: f64) {
        let comm = of.process.name().into_owned();
        let has_used = of.read + of.written + of.changed > 0.0;
        if KERNELS.iter().any(|prefix| comm.starts_with(prefix)) {
            return;
        }
        // A process may be known by the names of several threads.
        if comm == self.program.comm
            || self.moved.pids.contains(&of.process.pid)
            || !has_used
            || self.beside.len() >= KEPT && !self.beside.contains_key(&comm)
        {
            return;
        }
        self.beside.entry(comm).or_default().push(of, seconds);
    }

    /// How much it matters: its bytes, and for each second that it waited for syncs as much as a GB.
    fn rank(&self) -> f64 {
        self.moved.bytes() + 1e9 * self.sync_s
    }

    fn finish(self) -> WatchedProgram {
        let other = |(comm, of): (String, Moved)| OtherUser {
            comm,
            pid: of.pids.first().copied().unwrap_or_default(),
            processes: of.pids.len() as u64,
            requests: 0,
            read_bytes: bytes(of.read),
            written_bytes: bytes(of.written),
            changed_bytes: bytes(of.changed),
        };
        let mut beside: Vec<OtherUser> = self.beside.into_iter().map(other).filter(|of| of.bytes() > 0).collect();
        OtherUser::sort(&mut beside);
        beside.truncate(OTHERS_MAX);
        WatchedProgram {
            processes: self.moved.pids.len() as u64,
            read_bytes: bytes(self.moved.read),
            written_bytes: bytes(self.moved.written),
            changed_bytes: bytes(self.moved.changed),
            syncs: self.syncs.round() as u64,
            sync_ns: (self.sync_s * 1e9) as u64,
            beside,
            ..self.program
        }
    }
}
