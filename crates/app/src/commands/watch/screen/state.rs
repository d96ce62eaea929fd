//! The state of the screen, and how keys change it.

use qd1_model::order::Order as _;
use qd1_model::record::watched::DiskLimits;
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};

use super::heatmap::Heatmap;
use super::keys::{Action, meaning};
use super::names::name;
use crate::commands::watch::processes::ProcessReading;
use crate::commands::watch::reading::{DiskReading, Reading};

/// Intervals that can be chosen, ns.
const INTERVALS_NS: [u64; 7] =
    [200_000_000, 500_000_000, 1_000_000_000, 2_000_000_000, 5_000_000_000, 10_000_000_000, 60_000_000_000];
/// Longest filter, in characters.
const FILTER_MAX: usize = 15;

/// How long the time above a disk's limits is shown, s: at shorter intervals, not each has an answer of the disk.
const LIMITS_S: f64 = 5.0;

/// The column by which processes are sorted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Sort {
    /// All bytes together: which processes load the disk.
    #[default]
    Load,
    /// Which processes suffer.
    SyncWait,
    Read,
    Written,
    Changed,
}

impl Sort {
    const fn next(self) -> Self {
        match self {
            Self::Load => Self::SyncWait,
            Self::SyncWait => Self::Read,
            Self::Read => Self::Written,
            Self::Written => Self::Changed,
            Self::Changed => Self::Load,
        }
    }

    fn of(self, process: &ProcessReading) -> f64 {
        match self {
            Self::Load => process.read + process.written + process.changed,
            Self::SyncWait => process.sync_wait,
            Self::Written => process.written,
            Self::Read => process.read,
            Self::Changed => process.changed,
        }
    }
}

/// The whole state.
pub(super) struct State {
    interval_ns: u64,
    reading: Option<Reading>,
    heatmaps: HashMap<String, Heatmap>,
    /// The last time above each disk's limits, and when it was read, s since the Unix epoch.
    limits: HashMap<String, (f64, DiskLimits)>,
    /// Disks that have been in use since the screen was started.
    used: HashSet<String>,
    /// The disk whose latencies are shown, and whether the user selected it.
    shown: Option<String>,
    is_chosen: bool,
    sort: Sort,
    filter: String,
    is_filter_typed: bool,
    is_paused: bool,
    is_help_shown: bool,
    is_by_cgroup: bool,
    is_over: bool,
    /// How many reports of a recording have been shown, of how many.
    place: Option<(usize, usize)>,
}

impl State {
    pub(super) fn new(interval_ns: u64) -> Self {
        Self {
            interval_ns,
            reading: None,
            heatmaps: HashMap::new(),
            limits: HashMap::new(),
            used: HashSet::new(),
            shown: None,
            is_chosen: false,
            sort: Sort::default(),
            filter: String::new(),
            is_filter_typed: false,
            is_paused: false,
            is_help_shown: false,
            is_by_cgroup: false,
            is_over: false,
            place: None,
        }
    }

    /// Forgets what was seen before: another part of the recording follows.
    pub(super) fn forget(&mut self) {
        self.heatmaps.clear();
        self.limits.clear();
    }

    pub(super) const fn set_place(&mut self, place: Option<(usize, usize)>) {
        self.place = place;
    }

    pub(super) const fn place(&self) -> Option<(usize, usize)> {
        self.place
    }

    /// Takes the next reading.
    pub(super) fn take(&mut self, reading: Reading) {
        let is_there = |name: &String| reading.disks.iter().any(|disk| disk.rates.name == *name);
        self.heatmaps.retain(|name, _| is_there(name));
        self.limits.retain(|name, (at_s, _)| is_there(name) && reading.unix_time_s - *at_s <= LIMITS_S);
        for disk in &reading.disks {
            if let Some(latencies) = &disk.latencies {
                self.heatmaps.entry(disk.rates.name.clone()).or_default().push(latencies);
            }
            if let Some(limits) = disk.limits {
                self.limits.insert(disk.rates.name.clone(), (reading.unix_time_s, limits));
            }
        }
        let is_used = |disk: &&DiskReading| disk.rates.in_flight > 0.0 || disk.rates.busy > 0.0;
        self.used.extend(reading.disks.iter().filter(is_used).map(|disk| disk.rates.name.clone()));
        self.reading = Some(reading);
        self.show_busiest();
    }

    /// Performs the action of a key.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Letter(letter) if self.is_filter_typed => {
                if self.filter.chars().count() < FILTER_MAX && !letter.is_control() {
                    self.filter.push(letter);
                }
            }
            Action::Letter(letter) => {
                if let Some(action) = meaning(letter) {
                    self.act(action);
                }
            }
            Action::Erase if self.is_filter_typed => _ = self.filter.pop(),
            Action::Enter => self.is_filter_typed = false,
            Action::Escape => {
                if self.is_filter_typed || !self.is_help_shown {
                    self.filter.clear();
                }
                (self.is_filter_typed, self.is_help_shown) = (false, false);
            }
            Action::Filter => self.is_filter_typed = true,
            Action::Quit => self.is_over = true,
            Action::Help => self.is_help_shown = !self.is_help_shown,
            Action::Pause => self.is_paused = !self.is_paused,
            Action::Cgroups => self.is_by_cgroup = !self.is_by_cgroup,
            Action::Sort => self.sort = self.sort.next(),
            Action::NextDisk => self.choose(1),
            Action::PreviousDisk => self.choose(-1),
            Action::Faster => {
                let faster = INTERVALS_NS.into_iter().rev().find(|ns| *ns < self.interval_ns);
                self.interval_ns = faster.unwrap_or(self.interval_ns);
            }
            Action::Slower => {
                let slower = INTERVALS_NS.into_iter().find(|ns| *ns > self.interval_ns);
                self.interval_ns = slower.unwrap_or(self.interval_ns);
            }
            // Erase does nothing outside the filter; the loop handles the others.
            Action::Erase | Action::Suspend | Action::Seek(_) => {}
        }
    }

    /// Selects the disk that comes this many places after the current one.
    fn choose(&mut self, places: isize) {
        let disks = self.disks();
        let at = disks.iter().position(|disk| self.shown.as_ref() == Some(&disk.rates.name));
        let count = disks.len().cast_signed();
        let next = at.map(|at| (at.cast_signed() + places).rem_euclid(count.max(1)).cast_unsigned());
        self.shown = next.map(|next| disks[next].rates.name.clone());
        self.is_chosen = true;
    }

    /// Returns the disks that have been in use since the screen was started, by name; all disks if none has.
    pub(super) fn disks(&self) -> Vec<&DiskReading> {
        let all = self.reading.iter().flat_map(|reading| &reading.disks);
        let mut disks: Vec<&DiskReading> =
            all.filter(|disk| self.used.is_empty() || self.used.contains(&disk.rates.name)).collect();
        disks.order_by(|a, b| a.rates.name.cmp(&b.rates.name));
        disks
    }

    /// Returns the disk whose latencies are shown.
    pub(super) fn shown_disk(&self) -> Option<&DiskReading> {
        let name = self.shown.as_ref()?;
        self.reading.iter().flat_map(|reading| &reading.disks).find(|disk| disk.rates.name == *name)
    }

    /// Shows the busiest disk until the user selects one; it does not switch while the current one is in use.
    fn show_busiest(&mut self) {
        let is_in_use = self.shown_disk().is_some_and(|disk| disk.rates.busy > 0.0);
        if self.shown_disk().is_some() && (self.is_chosen || is_in_use) {
            return;
        }
        let disks = self.disks();
        let busiest = disks.iter().max_by(|a, b| a.rates.busy.total_cmp(&b.rates.busy));
        self.shown = busiest.map(|disk| disk.rates.name.clone());
    }

    /// Returns the map of a disk.
    pub(super) fn heatmap(&self, disk: &str) -> Option<&Heatmap> {
        self.heatmaps.get(disk)
    }

    /// Returns the last time above the limits of a disk.
    pub(super) fn limits(&self, disk: &str) -> Option<&DiskLimits> {
        self.limits.get(disk).map(|(_, limits)| limits)
    }

    /// The processes on the shown disk, and those on filesystems that span several disks.
    fn on_shown_disk(&self) -> impl Iterator<Item = &ProcessReading> {
        let numbers = self.shown_disk().and_then(|disk| disk.numbers);
        let all = self.reading.iter().flat_map(|reading| &reading.processes);
        all.filter(move |of| numbers.is_none_or(|numbers| of.process.device == numbers || of.process.device == (0, 0)))
    }

    /// Returns the processes to show, sorted; those of one name are one, with their number and the id of the one that
    /// counts most.
    pub(super) fn processes(&self) -> Vec<(ProcessReading, usize)> {
        let has =
            |process: &&ProcessReading| self.filter.is_empty() || name(&process.process.comm).contains(&self.filter);
        let mut processes: Vec<&ProcessReading> = self.on_shown_disk().filter(has).collect();
        processes.order_by(|a, b| self.order(a, b).then(a.process.pid.cmp(&b.process.pid)));
        let (mut places, mut pids) = (HashMap::new(), HashSet::new());
        let mut groups: Vec<(ProcessReading, usize)> = Vec::new();
        for of in processes {
            let place = *places.entry(of.process.comm).or_insert(groups.len());
            // A process may be on this disk and on a filesystem that spans several.
            let is_new = pids.insert(of.process.pid);
            match groups.get_mut(place) {
                Some((group, count)) => {
                    group.add(of);
                    *count += usize::from(is_new);
                }
                None => groups.push((of.clone(), 1)),
            }
        }
        groups.order_by(|(a, _), (b, _)| self.order(a, b).then(a.process.pid.cmp(&b.process.pid)));
        groups
    }

    fn order(&self, a: &ProcessReading, b: &ProcessReading) -> Ordering {
        let then = |of: &ProcessReading| (Sort::Load.of(of), of.process.longest_sync_ns);
        let (of_a, of_b) = (then(a), then(b));
        self.sort.of(b).total_cmp(&self.sort.of(a)).then(of_b.0.total_cmp(&of_a.0)).then(of_b.1.cmp(&of_a.1))
    }

    /// Returns the name and the summed activity of each control group, sorted.
    pub(super) fn cgroups(&self) -> Vec<(String, ProcessReading)> {
        let mut groups: HashMap<u64, ProcessReading> = HashMap::new();
        for of in self.on_shown_disk() {
            groups.entry(of.process.cgroup).or_default().add(of);
        }
        let names = self.reading.as_ref().map(|reading| &reading.cgroups);
        let named = |(cgroup, of): (u64, ProcessReading)| {
            let name = names.and_then(|names| names.get(&cgroup)).cloned();
            (name.unwrap_or_else(|| format!("(id {cgroup})")), of)
        };
        let mut groups: Vec<(String, ProcessReading)> = groups.into_iter().map(named).collect();
        groups.retain(|(name, _)| name.contains(&self.filter));
        groups.order_by(|(a_name, a), (b_name, b)| self.order(a, b).then_with(|| a_name.cmp(b_name)));
        groups
    }

    pub(super) const fn is_by_cgroup(&self) -> bool {
        self.is_by_cgroup
    }

    pub(super) const fn reading(&self) -> Option<&Reading> {
        self.reading.as_ref()
    }

    pub(super) const fn interval_ns(&self) -> u64 {
        self.interval_ns
    }

    pub(super) const fn sort(&self) -> Sort {
        self.sort
    }

    /// Returns why there are no latencies, on this machine or where the recording was made.
    pub(super) fn refused(&self) -> Option<&str> {
        self.reading.as_ref().map(|reading| reading.unseen.as_str()).filter(|reason| !reason.is_empty())
    }

    /// Returns the process filter, and whether it is being typed.
    pub(super) fn filter(&self) -> (&str, bool) {
        (&self.filter, self.is_filter_typed)
    }

    pub(super) const fn is_paused(&self) -> bool {
        self.is_paused
    }

    pub(super) const fn is_help_shown(&self) -> bool {
        self.is_help_shown
    }

    pub(super) const fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use std::rc::Rc;

    use qd1_probe::activity::DiskRates;
    use qd1_trace::Process;

    use super::*;

    fn disk(minor: u32, busy: f64) -> DiskReading {
        let rates = DiskRates { name: format!("loop{minor}"), busy, ..DiskRates::default() };
        DiskReading { rates, numbers: Some((7, minor)), ..DiskReading::default() }
    }

    fn process(name: &str, minor: u32, written: f64, sync_wait: f64) -> ProcessReading {
        let mut comm = [0; qd1_model::requests::COMM];
        comm[..name.len()].copy_from_slice(name.as_bytes());
        let process = Process { pid: 1, comm, device: (7, minor), cgroup: u64::from(minor), ..Process::default() };
        ProcessReading { process, written, sync_wait, ..ProcessReading::default() }
    }

    fn state(busy: [f64; 3]) -> State {
        let mut state = State::new(1_000_000_000);
        read(&mut state, busy);
        state
    }

    fn read(state: &mut State, busy: [f64; 3]) {
        let processes = vec![
            process("etcd", 1, 10.0, 0.9),
            process("dd", 1, 500.0, 0.0),
            process("elsewhere", 2, 9000.0, 0.0),
            // Of a filesystem on several disks.
            process("btrfs", 0, 1.0, 0.0),
        ];
        let mut processes = processes;
        processes[3].process.device = (0, 0);
        let cgroups = Rc::new(HashMap::from([(1, "/system.slice".to_owned())]));
        let disks = (0..3).map(|minor| disk(minor, busy[minor as usize])).collect();
        state.take(Reading { disks, processes, cgroups, ..Reading::default() });
    }

    fn shown(state: &State) -> &str {
        &state.shown_disk().unwrap().rates.name
    }

    fn names(state: &State) -> Vec<String> {
        state.processes().iter().map(|(of, _)| name(&of.process.comm)).collect()
    }

    #[test]
    fn the_busiest_disk_is_shown_until_it_is_idle_or_a_key_chooses() {
        let mut state = state([10.0, 90.0, 5.0]);
        assert_eq!(shown(&state), "loop1");
        read(&mut state, [99.0, 1.0, 5.0]);
        assert_eq!(shown(&state), "loop1", "it is still in use");
        read(&mut state, [20.0, 0.0, 30.0]);
        assert_eq!(shown(&state), "loop2");
        state.act(Action::NextDisk);
        assert_eq!(shown(&state), "loop0", "after the last comes the first");
        read(&mut state, [0.0, 90.0, 0.0]);
        assert_eq!(shown(&state), "loop0", "a key chose it");
        state.act(Action::PreviousDisk);
        assert_eq!(shown(&state), "loop2");
    }

    #[test]
    fn limits_stay_for_a_while_after_the_disks_answer() {
        let mut state = state([10.0, 0.0, 0.0]);
        let mut reading = |unix_time_s: f64, limits: Option<DiskLimits>| {
            let disks = vec![DiskReading { limits, ..disk(0, 10.0) }];
            state.take(Reading { unix_time_s, disks, ..Reading::default() });
            state.limits("loop0").copied()
        };
        let limits = DiskLimits { observed_ns: 1, ..DiskLimits::default() };
        assert_eq!(reading(100.0, None), None);
        assert_eq!(reading(101.0, Some(limits)), Some(limits));
        assert_eq!(reading(105.0, None), Some(limits), "not each interval has an answer");
        assert_eq!(reading(107.0, None), None, "it answers no more");
    }

    #[test]
    fn processes_of_one_name_are_one() {
        let mut state = state([0.0, 90.0, 5.0]);
        let mut reading = Reading { disks: vec![disk(1, 90.0)], ..Reading::default() };
        reading.processes =
            vec![process("dd", 1, 100.0, 0.0), process("dd", 1, 300.0, 0.1), process("etcd", 1, 350.0, 0.5)];
        for (pid, of) in (10..).zip(&mut reading.processes) {
            of.process.pid = pid;
        }
        state.take(reading);
        let shown = state.processes();
        let of = |at: usize| (shown[at].0.process.pid, shown[at].0.written, shown[at].1);
        assert_eq!((of(0), of(1)), ((11, 400.0, 2), (12, 350.0, 1)));
    }

    #[test]
    fn processes_are_those_of_the_shown_disk_in_the_chosen_order() {
        let mut state = state([0.0, 90.0, 5.0]);
        assert_eq!(names(&state), ["dd", "etcd", "btrfs"], "by all bytes");
        state.act(Action::Letter('s'));
        assert_eq!(names(&state), ["etcd", "dd", "btrfs"], "by waits for syncs");
        "/tc".chars().for_each(|letter| state.act(Action::Letter(letter)));
        assert_eq!((names(&state), state.filter()), (vec!["etcd".to_owned()], ("tc", true)));
        // While a filter is typed, letters are text.
        state.act(Action::Letter('q'));
        assert!(!state.is_over() && names(&state).is_empty());
        state.act(Action::Escape);
        state.act(Action::Letter('c'));
        let groups = state.cgroups();
        assert_eq!(groups[0].0, "/system.slice");
        assert_eq!((groups[0].1.written, groups[0].1.sync_wait), (510.0, 0.9));
    }
}
