//! The time of the programs' own work if commits cost nothing, measured as docs/method.md describes ("Predictions").

/// The processor's sorting time (`environment.sort_ns`) on the machine where the others were measured, ns.
pub(super) const SORT_NS: f64 = 300_000.0;

/// Processor time of a commit if it was not measured, ns: for one over written space it is 55,000 on ext4 and xfs, and
/// 410,000 on btrfs; for an append 130,000 and 420,000.
pub(super) const COMMIT_NS: f64 = 80_000.0;

/// A processor that slept through a commit wakes later the longer the commit took, beyond this time, ns.
pub(super) const ASLEEP_NS: f64 = 500_000.0;

/// The cost of pgbench's transaction on a server.
pub(super) struct Transactions {
    /// Processor time of a transaction if nobody waits for a processor, and the time besides it with a single client,
    /// ns.
    pub(super) work_ns: f64,
    pub(super) idle_ns: f64,
    /// Additional time for each factor of e beyond [`ASLEEP_NS`]: waking late, with cold caches, ns.
    pub(super) wake_ns: f64,
    /// Additional processor time on a disk: of a transaction (pages that are written out), and of a flush beyond that
    /// of a commit as measured (wake-ups between threads), ns.
    pub(super) aside_ns: f64,
    pub(super) flush_ns: f64,
    /// What a transaction adds to the log, bytes.
    pub(super) log_bytes: f64,
    /// By how much longer work takes if more clients want to work than there are processors.
    pub(super) crowded: f64,
    /// Rows are held until their commit is durable.
    pub(super) holds_rows: bool,
    /// As below.
    pub(super) doubt: f64,
}

/// PostgreSQL with pgbench. Its log is mostly images of pages, each at its first change after a checkpoint.
pub(super) const POSTGRES: Transactions = Transactions {
    work_ns: 215_000.0,
    idle_ns: 80_000.0,
    wake_ns: 300_000.0,
    aside_ns: 30_000.0,
    flush_ns: 90_000.0,
    log_bytes: 10_000.0,
    crowded: 0.52,
    holds_rows: true,
    doubt: 0.45,
};

/// MariaDB with connections of our own: PostgreSQL's times scaled by those of both in one run (`--disk work` of 26
/// November 2026: 349 us of work and 451 us besides, where PostgreSQL took 317 and 736). Whole pages are not in its
/// log, but in its doublewrite buffer.
pub(super) const MYSQL: Transactions = Transactions {
    work_ns: 236_000.0,
    idle_ns: 50_000.0,
    wake_ns: 300_000.0,
    aside_ns: 30_000.0,
    flush_ns: 90_000.0,
    log_bytes: 430.0,
    crowded: 0.52,
    holds_rows: false,
    doubt: 0.45,
};

/// etcd with puts through its gateway: processor time of a put, the part of it done one at a time, of a sync beyond
/// that of a commit as measured, and the time besides work of a put, ns.
pub(super) const ETCD_NS: f64 = 170_000.0;
pub(super) const ETCD_APPLY_NS: f64 = 15_000.0;
pub(super) const ETCD_SYNC_NS: f64 = 60_000.0;
pub(super) const ETCD_IDLE_NS: f64 = 500_000.0;
/// All processors pause after this many puts, for this long on average, ns: this makes the 99th percentile without a
/// disk, from 3 ms at 1,000 puts a second to 10 ms at 3,500.
pub(super) const ETCD_PAUSE_PUTS: f64 = 300.0;
pub(super) const ETCD_PAUSE_NS: f64 = 4_500_000.0;

/// SQLite: processor time of a commit with a log, of one with a rollback journal, and of a checkpoint, ns.
pub(super) const SQLITE_NS: f64 = 8_000.0;
pub(super) const SQLITE_ROLLBACK_NS: f64 = 28_000.0;
pub(super) const SQLITE_CHECKPOINT_NS: f64 = 700_000.0;

/// Standard deviations of ln(predicted / measured): for the nine disks with which the models were set, and for three
/// drawn at random (seeds 3000 to 3002), on which they were off by much more (docs/method/predict.md).
pub(super) const ETCD_DOUBT: f64 = 1.2;
pub(super) const SQLITE_DOUBT: f64 = 0.35;
/// The same for the time of programs that only wait for commits, for a rate predicted to be zero.
pub(super) const NONE_DOUBT: f64 = 0.17;
