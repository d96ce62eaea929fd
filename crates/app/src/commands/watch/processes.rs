//! What processes did between two readings, from counters that only grow, and syncs that have not ended.

use std::collections::HashMap;

use qd1_model::requests::comm_of;
use qd1_probe::activity::ProcessIo;
use qd1_trace::{Process, SyncUnderWay};

/// How long a process stays on the screen after its last activity, ns.
const RECENT_NS: u64 = 30_000_000_000;

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

impl ProcessReading {
    fn new(process: Process, before: &Process, seconds: f64) -> Self {
        let rate = |of: fn(&Process) -> u64| of(&process).saturating_sub(of(before)) as f64 / seconds.max(0.001);
        Self {
            read: rate(|of| of.read_bytes),
            written: rate(|of| of.write_bytes),
            changed: rate(|of| of.changed_bytes),
            syncs: rate(|of| of.syncs),
            sync_wait: rate(|of| of.sync_ns) / 1e9,
            process,
        }
    }

    /// Adds another process.
    pub(super) fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.written += other.written;
        self.changed += other.changed;
        self.syncs += other.syncs;
        self.sync_wait += other.sync_wait;
        self.process.longest_sync_ns = self.process.longest_sync_ns.max(other.process.longest_sync_ns);
    }

    pub(super) fn is_active(&self) -> bool {
        self.read + self.written + self.changed + self.syncs + self.sync_wait > 0.0
    }
}

/// The processes as of the last reading.
#[derive(Default)]
pub(super) struct Processes {
    known: HashMap<(u32, (u32, u32)), Known>,
}

/// A process, and when it was last active.
struct Known {
    process: Process,
    active_ns: u64,
}

impl Processes {
    /// Takes the counters of all processes and the syncs in progress, read in this order, `seconds` after the previous
    /// reading. Returns the processes that were active recently.
    pub(super) fn take(
        &mut self,
        mut all: Vec<Process>,
        syncs: &[SyncUnderWay],
        now_ns: u64,
        seconds: f64,
    ) -> Vec<ProcessReading> {
        add_pending(&mut all, syncs);
        let mut recent = Vec::new();
        let mut now_known = HashMap::with_capacity(all.len());
        for mut process in all {
            let key = (process.pid, process.device);
            let known = self.known.get(&key);
            // A process that was evicted from the kernel's table in between starts again from zero.
            let before =
                known.map(|known| known.process).filter(|before| goes_on(before, &process)).unwrap_or_default();
            // A sync that ended between reading the two tables is in neither: do not count its time again later.
            process.sync_ns = process.sync_ns.max(before.sync_ns);
            let reading = ProcessReading::new(process, &before, seconds);
            let active_ns = if reading.is_active() { now_ns } else { known.map_or(0, |known| known.active_ns) };
            // Keep it for a while: a process that hangs does nothing, but is the one to look for.
            if active_ns > 0 && now_ns - active_ns < RECENT_NS {
                recent.push(reading);
            }
            now_known.insert(key, Known { process, active_ns });
        }
        self.known = now_known;
        recent
    }
}

/// The processes as the kernel's accounts know them (`/proc/PID/task/TID/io`), where BPF does not: all disks together, without
/// syncs.
#[derive(Default)]
pub(super) struct Accounts {
    known: HashMap<(u32, u64), ProcessIo>,
    active: HashMap<(u32, u64), u64>,
    last: Vec<ProcessReading>,
    /// When they were last read, and when they may be read again, ns: with thousands of processes it takes long.
    read_ns: u64,
    next_ns: u64,
}

/// Share of the time that may be spent on reading accounts: one in this.
const ACCOUNTS_SHARE: u64 = 100;

impl Accounts {
    /// Reads all accounts with `read`, unless that was done too recently; returns the processes that were active recently.
    pub(super) fn take(
        &mut self,
        now_ns: impl Fn() -> u64,
        read: impl FnOnce() -> Vec<ProcessIo>,
    ) -> Vec<ProcessReading> {
        let begin_ns = now_ns();
        if begin_ns < self.next_ns {
            return self.last.clone();
        }
        let all = read();
        self.next_ns = begin_ns + ACCOUNTS_SHARE * (now_ns() - begin_ns);
        let seconds = begin_ns.saturating_sub(self.read_ns) as f64 / 1e9;
        let is_first = self.read_ns == 0;
        self.read_ns = begin_ns;
        self.last.clear();
        let mut active = HashMap::new();
        for now in &all {
            let key = (now.pid, now.started);
            let before = self.known.get(&key);
            let grown = |of: fn(&ProcessIo) -> u64| of(now).saturating_sub(before.map_or(0, of)) as f64;
            let (read, changed) = (grown(|of| of.read_bytes), grown(|of| of.write_bytes));
            let is_active = !is_first && read + changed > 0.0;
            let active_ns = if is_active { begin_ns } else { self.active.get(&key).copied().unwrap_or(0) };
            if active_ns == 0 || begin_ns - active_ns >= RECENT_NS {
                continue;
            }
            active.insert(key, active_ns);
            self.last.push(ProcessReading {
                process: Process { pid: now.pid, comm: comm_of(&now.comm), ..Process::default() },
                read: read / seconds.max(0.001),
                changed: changed / seconds.max(0.001),
                ..ProcessReading::default()
            });
        }
        self.active = active;
        self.known = all.into_iter().map(|of| ((of.pid, of.started), of)).collect();
        self.last.clone()
    }
}

/// Adds the time of syncs in progress to their processes: it counts as it passes, not in one lump at the end.
fn add_pending(all: &mut Vec<Process>, syncs: &[SyncUnderWay]) {
    let mut places: HashMap<(u32, (u32, u32)), usize> =
        all.iter().enumerate().map(|(at, of)| ((of.pid, of.device), at)).collect();
    for sync in syncs {
        let place = *places.entry((sync.asker.pid, sync.device)).or_insert(all.len());
        match all.get_mut(place) {
            Some(process) => {
                process.sync_ns += sync.age_ns;
                process.longest_sync_ns = process.longest_sync_ns.max(sync.age_ns);
            }
            None => all.push(Process {
                pid: sync.asker.pid,
                device: sync.device,
                comm: sync.asker.comm,
                cgroup: sync.asker.cgroup,
                sync_ns: sync.age_ns,
                longest_sync_ns: sync.age_ns,
                ..Process::default()
            }),
        }
    }
}

/// Whether the counters of `now` continue those of `before`.
fn goes_on(before: &Process, now: &Process) -> bool {
    let grows = |of: fn(&Process) -> u64| of(before) <= of(now);
    grows(|of| of.requests) && grows(|of| of.syncs) && grows(|of| of.changed_bytes)
}

#[cfg(test)]
mod tests {
    use qd1_model::requests::Asker;

    use super::*;

    const S: u64 = 1_000_000_000;

    fn process(syncs: u64, sync_ns: u64) -> Process {
        Process {
            pid: 7,
            device: (8, 0),
            requests: syncs,
            write_bytes: syncs * 4096,
            syncs,
            sync_ns,
            ..Process::default()
        }
    }

    fn pending(age_ns: u64) -> SyncUnderWay {
        let asker = Asker { pid: 7, tid: 7, ..Asker::default() };
        SyncUnderWay { asker, age_ns, call: "fsync", device: (8, 0), inode: 0 }
    }

    #[test]
    fn a_sync_counts_while_it_lasts_and_once() {
        let mut processes = Processes::default();
        let mut wait = |at_s: u64, all: Vec<Process>, syncs: &[SyncUnderWay]| {
            processes.take(all, syncs, at_s * S, 1.0)[0].sync_wait
        };
        // One of 3.2 s, which is the first that the process does.
        assert!((wait(1, vec![], &[pending(S / 2)]) - 0.5).abs() < 1e-9);
        assert!((wait(2, vec![], &[pending(S / 2 + S)]) - 1.0).abs() < 1e-9);
        assert!((wait(3, vec![], &[pending(S / 2 + 2 * S)]) - 1.0).abs() < 1e-9);
        assert!((wait(4, vec![process(1, 3_200_000_000)], &[]) - 0.7).abs() < 1e-9);
    }

    #[test]
    fn a_sync_that_ends_between_the_tables_is_not_counted_twice() {
        let mut processes = Processes::default();
        processes.take(vec![process(1, S)], &[pending(S)], S, 1.0);
        // It is in neither table.
        assert_eq!(processes.take(vec![process(1, S)], &[], 2 * S, 1.0)[0].sync_wait, 0.0);
        assert!((processes.take(vec![process(2, 2 * S + S / 10)], &[], 3 * S, 1.0)[0].sync_wait - 0.1).abs() < 1e-9);
    }

    #[test]
    fn a_process_that_was_evicted_begins_at_zero_again() {
        let mut processes = Processes::default();
        processes.take(vec![process(100, S)], &[], S, 1.0);
        let readings = processes.take(vec![process(2, S / 10)], &[], 2 * S, 1.0);
        assert_eq!((readings[0].syncs, readings[0].written), (2.0, 8192.0));
    }

    #[test]
    fn accounts_become_rates_and_are_read_less_often_if_that_takes_long() {
        let mut accounts = Accounts::default();
        let clock = std::cell::Cell::new(S);
        let io = |read_bytes: u64| ProcessIo { pid: 7, started: 1, comm: "dd".to_owned(), read_bytes, write_bytes: 0 };
        let mut take = |read_bytes: u64, took_ns: u64| {
            let found = accounts.take(
                || clock.get(),
                || {
                    clock.set(clock.get() + took_ns);
                    vec![io(read_bytes)]
                },
            );
            clock.set(clock.get() + S - took_ns);
            found.first().map(|of| of.read)
        };
        assert_eq!(take(4096, 0), None, "what it did before is not known");
        assert_eq!(take(8192, 0), Some(4096.0));
        assert_eq!(take(8192, S / 40), Some(0.0));
        // For two and a half seconds, the last figures stay.
        assert_eq!([take(9000, 0), take(9000, 0), take(11192, 0)], [Some(0.0), Some(0.0), Some(1000.0)]);
    }

    #[test]
    fn a_process_that_does_nothing_any_more_stays_for_half_a_minute() {
        let mut processes = Processes::default();
        processes.take(vec![process(1, S)], &[], S, 1.0);
        assert_eq!(processes.take(vec![process(1, S)], &[], 30 * S, 29.0).len(), 1);
        assert_eq!(processes.take(vec![process(1, S)], &[], 31 * S, 1.0), []);
    }
}
