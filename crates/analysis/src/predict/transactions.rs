//! PostgreSQL, or MariaDB and MySQL, under pgbench's TPC-B-like transaction, as stations in virtual time: processors,
//! one row of the branches for each unit of scale, and one flush of the log at a time, which carries all waiting
//! clients.
//!
//! A transaction is work, a row that it locks, some more work, and a commit. PostgreSQL's row is free again once the
//! commit is durable ("Explicit Locking": locks are held until the end of the transaction); InnoDB's once it is in the
//! log, before the log is flushed. A flush takes all transactions whose records are in the log when it begins (group
//! commit; `XLogFlush`, `log_write_up_to`), and takes as long as a measured commit, plus the time for further bytes.

use std::collections::{BinaryHeap, VecDeque};

use qd1_model::prediction::Bound;

use super::disk::{Commits, Disk};
use super::draw::Draw;

/// Share of a transaction's work that is already done when it locks its branch: four of seven statements, and the
/// longest of them.
const WORK_BEFORE_LOCK: f64 = 0.7;
/// Number of transactions left out at the beginning, per client, and number counted in all.
const WARM_UP: u64 = 20;
const COUNTED: u64 = 20_000;

/// The load and its costs.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransactionLoad {
    pub(super) clients: u32,
    /// Rows of `pgbench_branches`: pgbench's scale.
    pub(super) rows: u32,
    pub(super) processors: u32,
    /// Processor time of one transaction, server and client together, ns.
    pub(super) work_ns: f64,
    /// Time of one transaction in which no processor works: messages in transit, threads waking, ns.
    pub(super) idle_ns: f64,
    /// What the log of a transaction adds to a flush of a page, ns.
    pub(super) more_ns: f64,
    /// Processor time of a transaction and of a flush that nobody waits for: pages that are written out, the kernel's
    /// threads, ns.
    pub(super) aside_ns: f64,
    pub(super) flush_work_ns: f64,
    /// If twice as many clients as processors want to work, work takes 1 + this times ln 2 as long: the threads of
    /// server and clients take turns, meet cold caches and each other's locks, and are woken by each flush to see
    /// whether it was theirs.
    pub(super) crowded: f64,
    /// A row is held until its commit is durable.
    pub(super) holds_rows: bool,
}

/// The outcome of a simulation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Transactions a second.
    pub(super) tps: f64,
    pub(super) bound: Bound,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Asks for a processor for the first part.
    Begin,
    /// Has done the first part; wants its row.
    Row,
    /// Has done the second part; wants to commit.
    Commit,
    /// The flush that this client waits for, or leads, has ended.
    Flushed,
}

/// An event at a given time; the earliest comes first.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Event {
    at_ns: f64,
    client: u32,
    stage: Stage,
}

impl Eq for Event {}

impl Ord for Event {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        other.at_ns.total_cmp(&self.at_ns).then(other.client.cmp(&self.client))
    }
}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

struct Server<'a> {
    load: TransactionLoad,
    disk: Disk<'a>,
    draw: Draw,
    events: BinaryHeap<Event>,
    /// When each processor is free.
    processors: Vec<f64>,
    /// The holder of each row and those who wait for it.
    rows: Vec<VecDeque<u32>>,
    /// The row of each client.
    row_of: Vec<u32>,
    /// The clients that the current flush carries.
    flushing: Vec<u32>,
    waiting: Vec<u32>,
    flushed_ns: f64,
    worked_ns: f64,
    locked_ns: f64,
    wants_row_ns: Vec<f64>,
    /// Clients that work, or wait for a processor.
    working: u32,
}

/// Simulates `load` on a disk whose commits take `commits`.
pub(super) fn simulate(load: TransactionLoad, commits: &Commits, seed: u64) -> Outcome {
    let clients = load.clients as usize;
    let mut server = Server {
        load,
        disk: Disk::new(commits),
        draw: Draw::new(seed),
        events: (0..load.clients).map(|client| Event { at_ns: 0.0, client, stage: Stage::Begin }).collect(),
        processors: vec![0.0; load.processors.max(1) as usize],
        rows: vec![VecDeque::new(); load.rows.max(1) as usize],
        row_of: vec![0; clients],
        flushing: Vec::new(),
        waiting: Vec::new(),
        flushed_ns: 0.0,
        worked_ns: 0.0,
        locked_ns: 0.0,
        wants_row_ns: vec![0.0; clients],
        working: 0,
    };
    let (mut done, mut begin_ns) = (0, 0.0);
    let warm_up = WARM_UP * u64::from(load.clients);
    while let Some(event) = server.events.pop() {
        let before = done;
        done += server.handle(event);
        if before < warm_up && done >= warm_up {
            begin_ns = event.at_ns;
            (server.flushed_ns, server.worked_ns, server.locked_ns) = (0.0, 0.0, 0.0);
        }
        if done >= warm_up + COUNTED {
            let span_ns = event.at_ns - begin_ns;
            let tps = (done - warm_up) as f64 * 1e9 / span_ns;
            return Outcome { tps, bound: server.bound(span_ns) };
        }
    }
    unreachable!("a client always does something next")
}

impl Server<'_> {
    /// Handles an event; returns how many transactions it ends.
    fn handle(&mut self, Event { at_ns, client, stage }: Event) -> u64 {
        self.working -= u32::from(matches!(stage, Stage::Row | Stage::Commit));
        match stage {
            Stage::Begin => self.work(at_ns, client, WORK_BEFORE_LOCK, Stage::Row),
            Stage::Row => {
                let row = self.draw.below(self.rows.len() as u32);
                self.row_of[client as usize] = row;
                self.wants_row_ns[client as usize] = at_ns;
                let queue = &mut self.rows[row as usize];
                queue.push_back(client);
                if queue.len() == 1 {
                    self.work(at_ns, client, 1.0 - WORK_BEFORE_LOCK, Stage::Commit);
                }
            }
            Stage::Commit => {
                if !self.load.holds_rows {
                    self.free_row(at_ns, client);
                }
                self.waiting.push(client);
                if self.flushing.is_empty() {
                    self.flush(at_ns, client);
                }
            }
            Stage::Flushed => return self.flushed(at_ns),
        }
        0
    }

    /// A part of the work of a transaction, on the processor that is free first, and the step after it.
    fn work(&mut self, at_ns: f64, client: u32, share: f64, then: Stage) {
        let idle_ns = self.draw.around(self.load.idle_ns * share);
        self.working += 1;
        let busy_ns = self.draw.around(self.load.work_ns * share) * self.crowding();
        let first = self.processors.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is a processor");
        let begin_ns = first.max(at_ns + idle_ns);
        *first = begin_ns + busy_ns;
        self.worked_ns += busy_ns;
        self.events.push(Event { at_ns: begin_ns + busy_ns, client, stage: then });
    }

    /// How much longer work takes because of the number of clients that want to.
    fn crowding(&self) -> f64 {
        let each = f64::from(self.working) / self.processors.len() as f64;
        1.0 + self.load.crowded * each.max(1.0).ln()
    }

    /// Work that nobody waits for.
    fn unwaited_work(&mut self, at_ns: f64, work_ns: f64) {
        let first = self.processors.iter_mut().min_by(|a, b| a.total_cmp(b)).expect("there is a processor");
        *first = first.max(at_ns) + work_ns;
        self.worked_ns += work_ns;
    }

    /// Begins a flush that carries all waiting clients.
    fn flush(&mut self, at_ns: f64, client: u32) {
        self.flushing = std::mem::take(&mut self.waiting);
        let more = self.flushing.len() as f64;
        let mut takes_ns = self.disk.commit(at_ns, more * self.load.more_ns, &mut self.draw);
        if self.working > self.load.processors {
            // The flushing client and the kernel's threads wait for a processor too.
            takes_ns += self.load.flush_work_ns * self.crowding();
        }
        self.flushed_ns += takes_ns;
        self.unwaited_work(at_ns, self.load.flush_work_ns + self.flushing.len() as f64 * self.load.aside_ns);
        self.events.push(Event { at_ns: at_ns + takes_ns, client, stage: Stage::Flushed });
    }

    /// Ends a flush: its transactions end, their rows go to the next clients, and those that have arrived meanwhile are
    /// flushed.
    fn flushed(&mut self, at_ns: f64) -> u64 {
        let carried = std::mem::take(&mut self.flushing);
        if let Some(leader) = self.waiting.first().copied() {
            self.flush(at_ns, leader);
        }
        for client in &carried {
            if self.load.holds_rows {
                self.free_row(at_ns, *client);
            }
            self.events.push(Event { at_ns, client: *client, stage: Stage::Begin });
        }
        carried.len() as u64
    }

    /// Gives the client's row to the next who waits for it.
    fn free_row(&mut self, at_ns: f64, client: u32) {
        let queue = &mut self.rows[self.row_of[client as usize] as usize];
        queue.pop_front();
        if let Some(next) = queue.front().copied() {
            self.locked_ns += at_ns - self.wants_row_ns[next as usize];
            self.work(at_ns, next, 1.0 - WORK_BEFORE_LOCK, Stage::Commit);
        }
    }

    /// Where most of the time goes.
    fn bound(&self, span_ns: f64) -> Bound {
        let processor = self.worked_ns / span_ns / self.processors.len() as f64;
        let locks = self.locked_ns / span_ns / f64::from(self.load.clients);
        let commits = self.flushed_ns / span_ns;
        if processor > 0.9 || processor > commits {
            Bound::Processor
        } else if locks > 0.5 {
            Bound::Locks
        } else {
            Bound::Commits
        }
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::Hist;

    use super::*;

    fn constant(ns: u64) -> Commits {
        let mut hist = Hist::new();
        (0..10).for_each(|_| hist.record(ns));
        Commits::new(&hist, None, 1.0)
    }

    const LOAD: TransactionLoad = TransactionLoad {
        clients: 1,
        rows: 1000,
        processors: 2,
        work_ns: 300e3,
        idle_ns: 100e3,
        more_ns: 0.0,
        aside_ns: 0.0,
        flush_work_ns: 0.0,
        crowded: 0.52,
        holds_rows: true,
    };

    fn near(found: f64, wanted: f64, share: f64) {
        assert!((found / wanted - 1.0).abs() < share, "{found} against {wanted}");
    }

    #[test]
    fn one_client_waits_for_its_work_and_its_commit() {
        let outcome = simulate(LOAD, &constant(5_000_000), 1);
        near(outcome.tps, 1e9 / 5.4e6, 0.01);
        assert_eq!(outcome.bound, Bound::Commits);
    }

    #[test]
    fn many_clients_share_flushes() {
        // A client that arrives during a flush waits for its rest and for the next one: a group every 5 ms, of nearly
        // all clients.
        let outcome = simulate(TransactionLoad { clients: 100, ..LOAD }, &constant(50_000_000), 1);
        assert!(outcome.tps > 0.9 * 100.0 / 0.1 && outcome.tps < 1.1 * 100.0 / 0.05, "{}", outcome.tps);
    }

    #[test]
    fn a_fast_disk_leaves_the_processors() {
        let outcome = simulate(TransactionLoad { clients: 100, ..LOAD }, &constant(10_000), 1);
        // All clients except those waiting for a row or a flush want a processor.
        let crowding = 1.0 + LOAD.crowded * f64::ln(50.0);
        near(outcome.tps, 2.0 * 1e9 / 300e3 / crowding, 0.05);
        assert_eq!(outcome.bound, Bound::Processor);
    }

    #[test]
    fn one_row_makes_transactions_come_one_after_another() {
        let outcome = simulate(TransactionLoad { clients: 10, rows: 1, ..LOAD }, &constant(5_000_000), 1);
        near(outcome.tps, 1e9 / (5e6 + 0.3 * 400e3), 0.02);
        assert_eq!(outcome.bound, Bound::Locks);
    }

    /// InnoDB frees rows before it flushes: clients waiting for the one row then share flushes.
    #[test]
    fn one_row_that_is_free_before_the_flush_holds_nobody_for_it() {
        let load = TransactionLoad { clients: 10, rows: 1, holds_rows: false, ..LOAD };
        let outcome = simulate(load, &constant(5_000_000), 1);
        assert!(outcome.tps > 4.0 * 1e9 / (5e6 + 0.3 * 400e3), "{}", outcome.tps);
    }
}
