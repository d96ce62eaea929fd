//! What the programs' own work takes where commits cost nothing, measured as docs/method.md says ("Predictions").

/// What the processor took for its sorting (`environment.sort_ns`) where the others were measured, ns.
pub(super) const SORT_NS: f64 = 300_000.0;

/// Processor time of a commit where it was not measured, ns: of one over written space it is 55,000 on ext4 and xfs,
/// and 410,000 on btrfs; of an append 130,000 and 420,000.
pub(super) const COMMIT_NS: f64 = 80_000.0;

/// A processor that slept through a commit wakes the later the longer that took: beyond this time, ns.
pub(super) const ASLEEP_NS: f64 = 500_000.0;

/// What pgbench's transaction costs a server.
pub(super) struct Transactions {
    /// Processor time of a transaction where nobody waits for a processor, and what passes besides with a single client, ns.
    pub(super) work_ns: f64,
    pub(super) idle_ns: f64,
    /// So much more for each factor of e beyond [`ASLEEP_NS`]: late to wake, with cold caches, ns.
    pub(super) wake_ns: f64,
    /// Processor time beside that on a disk: of a transaction (pages that are written out), and of a flush beside that
    /// of a commit as it is measured (who wakes whom), ns.
    pub(super) aside_ns: f64,
    pub(super) flush_ns: f64,
    /// What a transaction adds to the log, bytes.
    pub(super) log_bytes: f64,
    /// By how much work takes longer where more want to work than there are processors.
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

/// MariaDB with connections of our own: PostgreSQL's times by what both took in one run (`--disk work` of 26 November
/// 2026: 349 us of work and 451 us beside it, where PostgreSQL took 317 and 736). Whole pages are not in its log, but in
/// its doublewrite buffer.
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

/// etcd with puts through its gateway: processor time of a put, of it what is done one after another, of a sync beside
/// that of a commit as it is measured, and time beside a put, ns.
pub(super) const ETCD_NS: f64 = 170_000.0;
pub(super) const ETCD_APPLY_NS: f64 = 15_000.0;
pub(super) const ETCD_SYNC_NS: f64 = 60_000.0;
pub(super) const ETCD_IDLE_NS: f64 = 500_000.0;
/// All processors pause after so many puts, for so long in the mean, ns: what makes the 99th percentile without a disk,
/// from 3 ms at 1,000 puts a second to 10 ms at 3,500.
pub(super) const ETCD_PAUSE_PUTS: f64 = 300.0;
pub(super) const ETCD_PAUSE_NS: f64 = 4_500_000.0;

/// SQLite: processor time of a commit with a log, of one with a rollback journal, and of a checkpoint, ns.
pub(super) const SQLITE_NS: f64 = 8_000.0;
pub(super) const SQLITE_ROLLBACK_NS: f64 = 28_000.0;
pub(super) const SQLITE_CHECKPOINT_NS: f64 = 700_000.0;

/// Standard deviations of ln(predicted / measured): of the nine disks that the models were set with, and of three drawn at
/// random (seeds 3000 to 3002), on which they were off by far more (docs/method/predict.md).
pub(super) const ETCD_DOUBT: f64 = 1.2;
pub(super) const SQLITE_DOUBT: f64 = 0.35;
/// The same of the time of what waits for commits alone, for a rate that is predicted to be none.
pub(super) const NONE_DOUBT: f64 = 0.17;
