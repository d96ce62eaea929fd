//! What databases will do on a disk, from the commits of one Record: docs/method.md, "Predictions".
//!
//! Each program is a small model of what it waits for: its own work on the processors, and commits, which several
//! clients share. The commits are those measured; the work was measured once for each program (`work.rs`), and is
//! scaled by the time this machine's processor takes for a reference task (`environment.sort_ns`). The interval holds
//! the uncertainty of the commits' own interval, and the errors of the model where it was verified: on other machines,
//! and on this one as far as the run's plan contains them (`experience.rs`).

mod disk;
mod draw;
mod etcd;
mod experience;
mod rounds;
mod sqlite;
mod transactions;
mod verified;
mod work;

use qd1_model::order::Order as _;
use std::ops::Range;

use qd1_model::op::OpClass;
use qd1_model::plan::Work;
use qd1_model::plan::prediction::{Experience, plain_name};
use qd1_model::prediction::{Bound, Predicted, Prediction, Predicts};
use qd1_model::record::{StepRecord, Stream};
use qd1_model::{Estimate, Hist, Record};

use self::disk::{Commits, Limit};
use self::experience::Doubt;
pub use self::experience::{PastError, errors_beside, errors_of, experience};
use self::rounds::{AdjacentCommits, Rounds};
use qd1_stats::{self as stats, Z_975};

/// Numbers of clients of the database servers.
pub const CLIENTS: [u32; 3] = [1, 10, 100];

/// All predicted figures, and for how many clients.
const FIGURES: [(Predicts, u32); 10] = [
    (Predicts::PostgresTps, CLIENTS[0]),
    (Predicts::PostgresTps, CLIENTS[1]),
    (Predicts::PostgresTps, CLIENTS[2]),
    (Predicts::MysqlTps, CLIENTS[0]),
    (Predicts::MysqlTps, CLIENTS[1]),
    (Predicts::MysqlTps, CLIENTS[2]),
    (Predicts::EtcdRate, 1),
    (Predicts::SqliteWalFull, 1),
    (Predicts::SqliteWalNormal, 1),
    (Predicts::SqliteRollbackFull, 1),
];

/// pgbench's scale unless another one is requested: one row of branches for each of the most clients, as its
/// documentation recommends.
const SCALE: u32 = 100;
/// etcd's bound on the 99th percentile, ns.
const ETCD_BOUND_NS: f64 = 10e6;
/// Writes of one commit of the step `checkpoint`.
const CHECKPOINT_WRITES: f64 = 1000.0;
/// The seed of the models' draws: the same Record gives the same prediction.
const SEED: u64 = 1;

/// Predicts what `record` allows; `None` if it has no commits.
#[must_use]
pub fn predict(record: &Record) -> Option<Prediction> {
    let rounds = Rounds::of(record);
    let first = Inputs::of(record, &rounds.first(), &rounds.first())?;
    let mut prediction = Prediction::default();
    if first.wal.is_none() {
        prediction.missing.push("etcd: the run has no step wal".to_owned());
    }
    if first.checkpoint.is_none() || first.journal.is_none() {
        prediction.missing.push("SQLite: the run has no steps checkpoint and journal".to_owned());
    }
    for (what, clients) in FIGURES {
        let Some(mut row) = first.predict(what, clients) else { continue };
        let at_first = row.value.value;
        if let Some(around) = rounds.around(what).and_then(|around| ran_between(record, &around, what, clients)) {
            row.value = around;
        }
        row.verified = verified::verified(record, &row, at_first);
        prediction.rows.push(row);
    }
    Some(prediction)
}

/// The expected figures of a program that ran where `around` says.
fn ran_between(record: &Record, around: &AdjacentCommits, what: Predicts, clients: u32) -> Option<Estimate> {
    let of = |steps: &Range<usize>| Some(Inputs::of(record, steps, &around.whole())?.predict(what, clients)?.value);
    let before = of(&around.before)?;
    match around.after.as_ref().and_then(of) {
        Some(after) => Some(rounds::between(&before, &after)),
        None => Some(before),
    }
}

/// Returns the puts a second at which the 99th percentile of etcd's latency reaches its bound on the disk as it was
/// last; `None` if it is above it at any rate, or if that cannot be predicted.
#[must_use]
pub fn etcd_rate(record: &Record) -> Option<f64> {
    let last = Rounds::of(record).last();
    let row = Inputs::of(record, &last, &last)?.predict(Predicts::EtcdRate, 1)?;
    row.value.value.filter(|rate| *rate > 0.0)
}

/// Operations of one step that a program waits for.
struct WaitedFor<'a> {
    stream: &'a Stream,
    mean: Estimate,
    limit: Option<(Limit, u64)>,
    /// Processor time of one, including the kernel's threads, ns.
    work_ns: f64,
}

/// What predictions need of a Record.
struct Inputs<'a> {
    /// Small commits over written space; appends to etcd's log; many writes with one sync; repeated reads of the same
    /// data; small files made durable, and removed.
    commit: WaitedFor<'a>,
    wal: Option<WaitedFor<'a>>,
    checkpoint: Option<WaitedFor<'a>>,
    reread: Option<WaitedFor<'a>>,
    journal: Option<WaitedFor<'a>>,
    removal: Option<WaitedFor<'a>>,
    processors: u32,
    /// Time that work takes here, as a multiple of that on the machine where it was measured.
    slowness: f64,
    scale: u32,
    /// What one more byte adds to a commit, ns.
    byte_ns: f64,
    experience: &'a [Experience],
}

impl<'a> Inputs<'a> {
    /// From one round of commits; `about` are the steps next to which the processors were examined.
    fn of(record: &'a Record, round: &Range<usize>, about: &Range<usize>) -> Option<Self> {
        let waits = |name: &str, class: OpClass| {
            let steps = record.steps.get(round.clone())?;
            waits(record, steps.iter().find(|step| plain_name(&step.name) == name)?, class)
        };
        let commit = waits("commit1", OpClass::Commit)?;
        let large = waits("commit-large", OpClass::Commit);
        let bytes_of = |name: &str| {
            record.plan.step(name).and_then(|step| match &step.work {
                Work::Io(io) => Some(f64::from(io.block_max())),
                _ => None,
            })
        };
        let sizes = bytes_of("commit-large").zip(bytes_of("commit1"));
        let byte_ns = large.as_ref().zip(sizes).map_or(0.0, |(large, (more, less))| {
            ((large.stream.lat.mean_ns() - commit.stream.lat.mean_ns()) / (more - less)).max(0.0)
        });
        Some(Self {
            commit,
            wal: waits("wal", OpClass::Commit),
            checkpoint: waits("checkpoint", OpClass::Commit),
            reread: waits("reread", OpClass::Read),
            journal: waits("journal", OpClass::Create),
            removal: waits("journal", OpClass::Delete),
            processors: record.environment.cpus.max(1),
            slowness: slowness(record, about),
            scale: record.plan.prediction.as_ref().map_or(SCALE, |plan| plan.scale),
            byte_ns,
            experience: record.plan.prediction.as_ref().map_or(&[], |plan| &plan.experience),
        })
    }

    /// A figure; `None` if its inputs were not measured.
    fn predict(&self, what: Predicts, clients: u32) -> Option<Predicted> {
        match what {
            Predicts::PostgresTps => Some(self.transactions(what, clients, &work::POSTGRES)),
            Predicts::MysqlTps => Some(self.transactions(what, clients, &work::MYSQL)),
            Predicts::EtcdRate => Some(self.etcd(self.wal.as_ref()?)),
            Predicts::SqliteWalFull | Predicts::SqliteWalNormal | Predicts::SqliteRollbackFull => self.sqlite(what),
        }
    }

    /// The expected error of the model of a figure.
    fn doubt(&self, what: Predicts, clients: u32) -> Doubt {
        let known = self.experience.iter().find(|known| (known.what, known.clients) == (what, clients));
        Doubt::of(what, known.map_or(&[], |known| &known.errors))
    }

    fn transactions(&self, what: Predicts, clients: u32, costs: &work::Transactions) -> Predicted {
        let slept = self.commit.stream.lat.quantile(0.5) as f64 / work::ASLEEP_NS;
        let waking_ns = costs.wake_ns * slept.ln_1p();
        let load = transactions::TransactionLoad {
            clients,
            rows: self.scale,
            processors: self.processors,
            work_ns: costs.work_ns * self.slowness,
            idle_ns: (costs.idle_ns + waking_ns) * self.slowness,
            more_ns: costs.log_bytes * self.byte_ns,
            aside_ns: costs.aside_ns * self.slowness,
            flush_work_ns: self.commit.work_ns + costs.flush_ns * self.slowness,
            crowded: costs.crowded,
            holds_rows: costs.holds_rows,
        };
        let outcome = |commit: &Commits| transactions::simulate(load, commit, SEED);
        let bound = outcome(&self.commit.commits(1.0)).bound;
        let model = self.doubt(what, clients);
        let value = self.commit.figure(|commit| outcome(commit).tps, self.commit.doubt(), model);
        Predicted { what, clients, value, bound, disks_before: model.disks, verified: None }
    }

    fn etcd(&self, wal: &WaitedFor<'_>) -> Predicted {
        let costs = etcd::Costs {
            processors: self.processors,
            work_ns: work::ETCD_NS * self.slowness,
            apply_ns: work::ETCD_APPLY_NS * self.slowness,
            sync_ns: wal.work_ns + work::ETCD_SYNC_NS * self.slowness,
            idle_ns: work::ETCD_IDLE_NS * self.slowness,
            pause_puts: work::ETCD_PAUSE_PUTS,
            pause_ns: work::ETCD_PAUSE_NS * self.slowness,
        };
        let rate = |sync: &Commits| etcd::rate(&costs, sync, ETCD_BOUND_NS, SEED).unwrap_or(0.0);
        let model = self.doubt(Predicts::EtcdRate, 1);
        let value = wal.figure(rate, wal.doubt(), model);
        // The rate it would reach on an infinitely fast disk.
        let most = rate(&wal.commits(0.0)) * (-model.bias).exp();
        let bound = if value.value.unwrap_or(0.0) > 0.7 * most { Bound::Processor } else { Bound::Commits };
        Predicted { what: Predicts::EtcdRate, clients: 1, value, bound, disks_before: model.disks, verified: None }
    }

    fn sqlite(&self, what: Predicts) -> Option<Predicted> {
        let (checkpoint, journal) = (self.checkpoint.as_ref()?, self.journal.as_ref()?);
        let (checkpoint_ns, journal_ns) = (checkpoint.stream.lat.mean_ns(), journal.stream.lat.mean_ns());
        let name_ns = self.removal.as_ref().map_or(0.0, |removal| removal.stream.lat.mean_ns());
        // It takes longer after a sync, with cold caches, than among many others; SQLite does both.
        let after_sync_ns = self.commit.stream.write_part.as_ref().map_or(0.0, Hist::mean_ns);
        let among_many_ns = checkpoint.stream.write_part.as_ref().map_or(0.0, Hist::mean_ns) / CHECKPOINT_WRITES;
        let write_ns = (after_sync_ns + among_many_ns) / 2.0;
        // A run from before this was measured has a page cache, like nearly all.
        let read_ns = self.reread.as_ref().map_or(0.0, |reread| reread.stream.lat.mean_ns());
        let data = checkpoint.doubt().max(self.commit.doubt()).max(journal.doubt());
        let model = self.doubt(what, 1);
        let costs = sqlite::Costs {
            write_ns,
            read_ns,
            byte_ns: self.byte_ns,
            work_ns: self.slowness
                * if what == Predicts::SqliteRollbackFull { work::SQLITE_ROLLBACK_NS } else { work::SQLITE_NS },
            checkpoint_work_ns: work::SQLITE_CHECKPOINT_NS * self.slowness,
            checkpoint_ns,
            journal_ns,
            name_ns,
        };
        let value = self.commit.figure(|commit| 1e9 / costs.commit_ns(what, commit.mean_ns()), data, model);
        let waited = costs.commit_ns(what, self.commit.stream.lat.mean_ns()) - costs.work_ns;
        let bound = if waited > costs.work_ns { Bound::Commits } else { Bound::Processor };
        Some(Predicted { what, clients: 1, value, bound, disks_before: model.disks, verified: None })
    }
}

/// The median of all measurements: on a shared machine, each processor may be half as fast again for some seconds, and
/// a program that ran before leaves some work behind.
fn slowness(record: &Record, about: &Range<usize>) -> f64 {
    let steps = record.steps.get(about.clone()).unwrap_or_default();
    let mut took_ns: Vec<f64> = steps.iter().filter_map(|step| step.sort_ns).collect();
    // That was just before the first of them.
    took_ns.extend(record.environment.sort_ns.filter(|_| about.start == 0));
    took_ns.order_by(f64::total_cmp);
    took_ns.get(took_ns.len() / 2).map_or(1.0, |median_ns| median_ns / work::SORT_NS)
}

fn waits<'a>(record: &'a Record, step: &'a StepRecord, class: OpClass) -> Option<WaitedFor<'a>> {
    let stream = step.stream(class).filter(|stream| stream.lat.count() > 0)?;
    let mean = stats::mean(&stream.lat, &step.intervals, class);
    let worked_ns = step.busy * f64::from(record.environment.cpus.max(1)) * step.runtime_ns as f64;
    let work_ns = if step.busy > 0.0 { worked_ns / stream.lat.count() as f64 } else { work::COMMIT_NS };
    Some(WaitedFor { stream, mean, limit: Limit::of(&stream.lat, &step.intervals, class), work_ns })
}

impl WaitedFor<'_> {
    /// As a disk performs them, each time multiplied by `scale`.
    fn commits(&self, scale: f64) -> Commits {
        Commits::new(&self.stream.lat, self.limit, scale)
    }

    /// Half the width of the interval of their mean, as a share of it.
    fn doubt(&self) -> f64 {
        match (self.mean.value, self.mean.low, self.mean.high) {
            (Some(value), Some(low), Some(high)) if value > 0.0 => ((high - low) / 2.0 / value).min(1.0),
            // A mean that is not resolved may be off by as much as one more sample may add.
            _ => 1.0,
        }
    }

    /// Returns a figure and its interval, from `model` with waits longer and shorter by the share `data`, and what the
    /// model is expected to be off by.
    fn figure(&self, model: impl Fn(&Commits) -> f64, data: f64, doubt: Doubt) -> Estimate {
        let of = |scale: f64| model(&self.commits(scale)) * (-doubt.bias).exp();
        let value = of(1.0);
        let slower = of(1.0 + data).min(value);
        let faster = of((1.0 - data).max(0.05)).max(value);
        let widen = |data: f64| data.hypot(doubt.half_width);
        let (low, high) = if value > 0.0 {
            let down = if slower > 0.0 { (-widen((value / slower).ln())).exp() } else { 0.0 };
            (value * down, value * widen((faster / value).ln()).exp())
        } else {
            // A rate of zero cannot be off by a share of itself; the time of a commit can.
            (0.0, of((1.0 - data).max(0.05) * (-Z_975 * work::NONE_DOUBT).exp()))
        };
        let (n, n_effective) = (self.mean.n, self.mean.n_effective);
        Estimate { value: Some(value), low: Some(low), high: Some(high), n, n_effective, n_needed: 0 }
    }
}
