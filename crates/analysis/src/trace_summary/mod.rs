//! Summarises a recorded trace, request by request, in bounded memory.
//!
//! Requests come in the order of completion. Within windows of 65,536 requests, they are put in the order of arrival, in
//! which sequences are recognised, and then in the order of issue, in which the depth is counted. docs/method/trace-file.md has the definitions.

mod blocks;
mod fio_job;
mod load;
mod resemblance;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};

use qd1_model::requests::{Op, Request, Sync};
use qd1_model::trace_summary::{FileSummary, ProgramSummary, Resemblance, SyncSummary, TraceSummary};

use load::{Load, Spread};

/// What a trace knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known {
    /// How long requests waited before the device got them.
    pub queue: bool,
    /// How long the device took.
    pub device: bool,
    /// Which programs made files durable.
    pub syncs: bool,
    /// Real positions, not hashes.
    pub positions: bool,
    /// Files instead of programs: devices are files.
    pub files: bool,
}

/// Requests that are sorted by arrival at a time.
const WINDOW: usize = 65_536;
/// Most programs that are counted separately; further ones are counted together as "others".
const NAMES_MAX: usize = 200;
/// Most programs and files in the summary.
const SHOWN_MAX: usize = 20;
/// Most process ids and inodes that are counted.
const IDS_MAX: usize = 100_000;
/// The name of those that are counted together.
const OTHERS: &str = "others";

/// Requests and syncs of one program.
#[derive(Default)]
struct Program {
    load: Load,
    processes: HashSet<u32>,
    syncs: u64,
    sync_ns: u64,
    took: Spread,
}

/// Syncs of one call.
#[derive(Default)]
struct Calls {
    took: Spread,
    inodes: HashSet<u64>,
}

/// A summary in the making.
pub struct Summarizer {
    known: Known,
    window: Vec<Request>,
    all: Load,
    programs: HashMap<String, Program>,
    calls: HashMap<&'static str, Calls>,
    files: HashMap<(u32, u32), FileSummary>,
}

impl Summarizer {
    /// Begins a summary of a trace.
    #[must_use]
    pub fn new(known: Known) -> Self {
        Self {
            known,
            window: Vec::with_capacity(WINDOW),
            all: Load::default(),
            programs: HashMap::new(),
            calls: HashMap::new(),
            files: HashMap::new(),
        }
    }

    /// Adds a request.
    pub fn push(&mut self, request: &Request) {
        self.window.push(*request);
        if self.window.len() >= WINDOW {
            self.sort();
        }
    }

    /// Adds a sync. Direct reads and writes are left out: their requests are counted.
    pub fn push_sync(&mut self, sync: &Sync) {
        if sync.is_direct() {
            return;
        }
        self.all.sees_span(sync.complete_ns.saturating_sub(sync.took_ns), sync.complete_ns);
        let call = self.calls.entry(sync.call).or_default();
        call.took.record(sync.took_ns);
        if call.inodes.len() < IDS_MAX {
            call.inodes.insert(sync.inode);
        }
        let program = named(&mut self.programs, program_name(&sync.asker.name()));
        program.syncs += 1;
        program.sync_ns = program.sync_ns.saturating_add(sync.took_ns);
        program.load.count_sync();
        self.all.count_sync();
        if program.processes.len() < IDS_MAX {
            program.processes.insert(sync.asker.pid);
        }
    }

    /// Takes the requests of the window in the order of their arrival.
    fn sort(&mut self) {
        let mut window = std::mem::take(&mut self.window);
        window.sort_by_key(|request| (arrived_ns(request), request.complete_ns));
        for request in &window {
            let is_sequential = self.all.push(request);
            if self.known.files {
                self.count_file(request);
                continue;
            }
            let program = named(&mut self.programs, program_name(&request.asker.name()));
            program.load.push_known(request, is_sequential);
            program.took.record(request.total_ns());
            if program.processes.len() < IDS_MAX {
                program.processes.insert(request.asker.pid);
            }
        }
        // The device gets them in another order.
        window.sort_by_key(issued_ns);
        for request in &window {
            self.all.count_depth(request);
            if !self.known.files {
                named(&mut self.programs, program_name(&request.asker.name())).load.count_depth(request);
            }
        }
        window.clear();
        self.window = window;
    }

    fn count_file(&mut self, request: &Request) {
        if self.files.len() >= IDS_MAX && !self.files.contains_key(&request.device) {
            return;
        }
        let file = self.files.entry(request.device).or_default();
        file.requests += 1;
        match request.op() {
            Op::Read => file.read_bytes += u64::from(request.bytes),
            Op::Write => file.written_bytes += u64::from(request.bytes),
            _ => {}
        }
    }

    /// Returns the summary. `file_name` names an iolog's file; `steps` are those it may resemble.
    #[must_use]
    pub fn end(mut self, file_name: impl Fn((u32, u32)) -> String, steps: Vec<Resemblance>) -> TraceSummary {
        self.sort();
        let span_ns = self.all.span_ns();
        let shape = if self.known.device { self.all.shape() } else { None };
        let fio_job = self.fio_job();
        let mut files: Vec<FileSummary> =
            self.files.drain().map(|(device, file)| FileSummary { name: file_name(device), ..file }).collect();
        files.sort_by(|one, other| other.requests.cmp(&one.requests).then_with(|| one.name.cmp(&other.name)));
        files.truncate(SHOWN_MAX);
        TraceSummary {
            span_ns,
            sees_queue: self.known.queue,
            sees_device: self.known.device,
            sees_syncs: self.known.syncs,
            all: self.all.summary(self.known.device),
            operations: self.all.operations(self.known.queue, self.known.device),
            syncs: self.syncs(),
            programs: self.programs(),
            files,
            fio_job,
            resembles: shape.map_or_else(Vec::new, |shape| resemblance::closest(&shape, steps)),
        }
    }

    fn syncs(&self) -> Vec<SyncSummary> {
        let mut syncs: Vec<SyncSummary> = self
            .calls
            .iter()
            .map(|(call, of)| SyncSummary {
                call: (*call).to_owned(),
                syncs: of.took.count(),
                files: of.inodes.len() as u64,
                took: of.took.times(),
            })
            .collect();
        syncs.sort_by(|one, other| other.syncs.cmp(&one.syncs).then_with(|| one.call.cmp(&other.call)));
        syncs
    }

    fn programs(&self) -> Vec<ProgramSummary> {
        let mut programs: Vec<ProgramSummary> = self
            .programs
            .iter()
            .map(|(name, program)| ProgramSummary {
                name: name.clone(),
                processes: program.processes.len() as u64,
                requests: program.load.requests(),
                read_bytes: program.load.bytes(Op::Read),
                written_bytes: program.load.bytes(Op::Write),
                sequential_share: program.load.sequential_share(),
                syncs: program.syncs,
                sync_ns: program.sync_ns,
                p99_ns: (self.known.device && program.took.count() > 0).then(|| program.took.quantile(0.99)),
            })
            .collect();
        let weight = |program: &ProgramSummary| program.requests + program.syncs;
        programs.sort_by(|one, other| weight(other).cmp(&weight(one)).then_with(|| one.name.cmp(&other.name)));
        programs.truncate(SHOWN_MAX);
        programs
    }

    fn fio_job(&self) -> String {
        let (requests, bytes) = (self.all.moves(), self.all.moved_bytes());
        let is_large = |load: &Load| load.moves() * 20 >= requests || load.moved_bytes() * 20 >= bytes;
        let mut parts: Vec<(&str, &Load)> = self
            .programs
            .iter()
            .filter(|(_, program)| program.load.moves() > 0)
            .map(|(name, program)| (name.as_str(), &program.load))
            .collect();
        parts.sort_by(|one, other| other.1.moves().cmp(&one.1.moves()).then_with(|| one.0.cmp(other.0)));
        // A filesystem's journal belongs to those who sync.
        let is_journal = |name: &str| name.starts_with("jbd2/");
        let has_others = parts.iter().any(|(name, load)| !is_journal(name) && is_large(load));
        let is_left_out = |(name, load): &(&str, &Load)| has_others && is_journal(name) || !is_large(load);
        let left_out: Vec<&str> = parts.iter().filter(|part| is_left_out(part)).map(|(name, _)| *name).collect();
        parts.retain(|part| !is_left_out(part));
        if parts.is_empty() && requests > 0 {
            parts.push(("trace", &self.all));
        }
        fio_job::text(&parts, &left_out, &self.all, self.known)
    }
}

/// When a request was created, or when the device got it if that is not known, ns.
fn arrived_ns(request: &Request) -> u64 {
    request.complete_ns.saturating_sub(request.total_ns())
}

/// When the device got a request, ns.
const fn issued_ns(request: &Request) -> u64 {
    request.complete_ns.saturating_sub(request.device_ns)
}

/// Kernel workers carry the number of their processor in their name; they are one program.
fn program_name(comm: &str) -> &str {
    if comm.starts_with("kworker/") { "kworker" } else { comm }
}

fn named<'a>(programs: &'a mut HashMap<String, Program>, name: &str) -> &'a mut Program {
    let name = if programs.len() < NAMES_MAX || programs.contains_key(name) { name } else { OTHERS };
    if !programs.contains_key(name) {
        programs.insert(name.to_owned(), Program { load: Load::of_program(), ..Program::default() });
    }
    programs.get_mut(name).expect("it was just inserted")
}
