//! The load: pgbench's TPC-B-like transaction, on tables of the same shape, over our own connections.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::Sender;

use anyhow::{Context as _, Result};
use fastrand::Rng;
use qd1_clock as clock;
use qd1_model::op::OpClass;
use qd1_model::plan::Stop;
use qd1_model::record::program::{AppStep, AppUnit, Counter};
use qd1_runner::watch::Watch;
use qd1_system::child::Cancelled;

use super::client::Client;
use super::{ACCOUNT, DATABASE};
use crate::answers::{Answer, Connections, DRAIN_NS, POLL, Window, due, loaded, poisson, wait_until};
use crate::program::Loaded;
use crate::tally::Tally;

/// Tables of pgbench: branches, tellers and accounts, and the history of all changes.
const TABLES: [&str; 4] = [
    "create table branches (bid int not null primary key, bbalance int not null, filler char(88) not null)",
    "create table tellers (tid int not null primary key, bid int not null, tbalance int not null, filler char(84) not null)",
    "create table accounts (aid int not null primary key, bid int not null, abalance int not null, filler char(84) not null)",
    "create table history (hid bigint not null auto_increment primary key, tid int not null, bid int not null, \
     aid int not null, delta int not null, mtime datetime not null, filler char(22) not null)",
];
/// Tellers per branch, as in pgbench; a branch has a tenth of pgbench's accounts, so that filling takes seconds.
const TELLERS: u32 = 10;
pub(super) const ACCOUNTS: u32 = 10_000;
/// Rows per statement while the tables are filled.
const ROWS_AT_ONCE: u32 = 2_000;

/// A load.
pub(super) struct Load<'a> {
    pub(super) socket: &'a Path,
    pub(super) scale: u32,
    pub(super) clients: u32,
    /// Transactions per second of all clients, each timed from when it was due.
    pub(super) rate: Option<u32>,
    pub(super) seed: u64,
}

/// Makes and fills the tables.
///
/// # Errors
/// When a statement fails. [`Cancelled`] when it was stopped.
pub(super) fn fill(socket: &Path, scale: u32, cancel: &AtomicBool) -> Result<()> {
    let mut client = Client::connect(socket, ACCOUNT)?;
    client.run(&format!("create database {DATABASE}"))?;
    client.run(&format!("use {DATABASE}"))?;
    TABLES.iter().try_for_each(|table| client.run(table))?;
    let mut insert = |table: &str, count: u32, row: &dyn Fn(u32) -> String| -> Result<()> {
        let mut next = 1;
        while next <= count {
            if cancel.load(Ordering::Relaxed) {
                return Err(Cancelled.into());
            }
            let end = count.min(next.saturating_add(ROWS_AT_ONCE - 1));
            let rows: Vec<String> = (next..=end).map(row).collect();
            client.run(&format!("insert into {table} values {}", rows.join(",")))?;
            next = end + 1;
        }
        Ok(())
    };
    insert("branches", scale, &|bid| format!("({bid},0,'')"))?;
    insert("tellers", scale * TELLERS, &|tid| format!("({tid},{},0,'')", (tid - 1) / TELLERS + 1))?;
    insert("accounts", scale * ACCOUNTS, &|aid| format!("({aid},{},0,'')", (aid - 1) / ACCOUNTS + 1))
}

/// What all connections share.
struct Shared<'a> {
    load: &'a Load<'a>,
    /// When each transaction is due, ns from the start; empty if each client only waits for its answers.
    due_ns: Vec<u64>,
    next: AtomicUsize,
    /// When the measured time begins, on the clock.
    start_ns: u64,
    over: AtomicBool,
    /// All transactions, including those of the ramp: what server and disk count.
    all: AtomicU64,
}

impl Load<'_> {
    /// Runs it for the step's time, after its ramp.
    ///
    /// # Errors
    /// When a transaction fails, or none completes. [`Cancelled`] when it was stopped before.
    pub(super) fn run(&self, stop: &Stop, cancel: &AtomicBool, watch: &mut dyn Watch) -> Result<Loaded> {
        let length_ns = stop.ramp_ns + stop.max_ns;
        let due_ns = self.rate.map(|rate| poisson(&mut Rng::with_seed(self.seed), rate, length_ns));
        let shared = Shared {
            load: self,
            due_ns: due_ns.unwrap_or_default(),
            next: AtomicUsize::new(0),
            start_ns: clock::now_ns() + POLL.as_nanos() as u64 + stop.ramp_ns,
            over: AtomicBool::new(false),
            all: AtomicU64::new(0),
        };
        let window = Window { start_ns: shared.start_ns, stop, cancel };
        // A transaction that was due within the time counts, however late it is answered.
        let counted_ns = if self.rate.is_some() { stop.max_ns + DRAIN_NS } else { stop.max_ns };
        let mut tally = Tally::new(OpClass::Transaction, counted_ns);
        let connections = Connections { count: self.clients as usize, name: "qd1-mysql" };
        let client = |number, answers: &Sender<Result<Answer>>| shared.connection(number, stop, answers);
        connections.run(client, &shared.over, &window, &mut tally, watch)?;
        let seconds = (length_ns + DRAIN_NS) / 1_000_000_000;
        let due = self.rate.map(|_| due(&shared.due_ns, stop));
        let loaded =
            loaded(tally, &window, due)?.with_context(|| format!("no transaction completed within {seconds} s"))?;
        let all = Counter::new("operations", AppUnit::Count, shared.all.load(Ordering::Relaxed) as f64);
        Ok(Loaded { app: AppStep { counters: vec![all], ..loaded.app }, ..loaded })
    }
}

impl Shared<'_> {
    /// Runs one transaction after another on its own connection.
    fn connection(&self, number: usize, stop: &Stop, answers: &Sender<Result<Answer>>) -> Result<()> {
        let mut client = Client::connect(self.load.socket, ACCOUNT)?;
        client.run(&format!("use {DATABASE}"))?;
        let mut random = Rng::with_seed(self.load.seed ^ ((number as u64) << 32));
        let begin_ns = self.start_ns - stop.ramp_ns;
        if !wait_until(begin_ns, &self.over) {
            return Ok(());
        }
        loop {
            let due_ns = match self.load.rate {
                None => clock::now_ns(),
                Some(_) => {
                    let next = self.next.fetch_add(1, Ordering::Relaxed);
                    let Some(due_ns) = self.due_ns.get(next) else { return Ok(()) };
                    if !wait_until(begin_ns + due_ns, &self.over) {
                        return Ok(());
                    }
                    begin_ns + due_ns
                }
            };
            let is_late = self.load.rate.is_none() && due_ns >= self.start_ns + stop.max_ns;
            if is_late || self.over.load(Ordering::Relaxed) {
                return Ok(());
            }
            transaction(&mut client, &mut random, self.load.scale)?;
            let end_ns = clock::now_ns();
            self.all.fetch_add(1, Ordering::Relaxed);
            // At a rate, transactions due in the ramp are not measured, however late they are answered; without a rate,
            // those that ended in it are not.
            let is_measured = match self.load.rate {
                Some(_) => due_ns >= self.start_ns,
                None => end_ns >= self.start_ns,
            };
            let answer = Answer { at_ns: end_ns.saturating_sub(self.start_ns), lat_ns: end_ns - due_ns };
            if is_measured && answers.send(Ok(answer)).is_err() {
                return Ok(());
            }
        }
    }
}

/// Runs one TPC-B-like transaction, as pgbench's tpcb-like: seven round trips.
fn transaction(client: &mut Client, random: &mut Rng, scale: u32) -> Result<()> {
    let aid = random.u32(1..=scale * ACCOUNTS);
    let (tid, bid) = (random.u32(1..=scale * TELLERS), random.u32(1..=scale));
    let delta = random.i32(-5000..=5000);
    client.run("begin")?;
    client.run(&format!("update accounts set abalance = abalance + {delta} where aid = {aid}"))?;
    client.run(&format!("select abalance from accounts where aid = {aid}"))?;
    client.run(&format!("update tellers set tbalance = tbalance + {delta} where tid = {tid}"))?;
    client.run(&format!("update branches set bbalance = bbalance + {delta} where bid = {bid}"))?;
    client.run(&format!(
        "insert into history (tid, bid, aid, delta, mtime, filler) values ({tid}, {bid}, {aid}, {delta}, now(), '')"
    ))?;
    client.run("commit")
}
