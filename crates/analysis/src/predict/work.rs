//! What the programs' own work takes where commits cost nothing, measured as docs/method.md says ("Predictions").

/// What the processor took for its sorting (`environment.sort_ns`) where the others were measured, ns.
pub(super) const SORT_NS: f64 = 300_000.0;

/// Processor time of a commit where it was not measured, ns: of one over written space it is 55,000 on ext4 and xfs,
/// and 410,000 on btrfs; of an append 130,000 and 420,000.
pub(super) const COMMIT_NS: f64 = 80_000.0;

/// PostgreSQL with pgbench: processor time of a transaction where nobody waits for a processor, and what passes besides
/// with a single client, ns.
pub(super) const POSTGRES_NS: f64 = 215_000.0;
pub(super) const POSTGRES_IDLE_NS: f64 = 80_000.0;
/// A processor that slept through a commit wakes the later the longer that took, and its caches are cold: so much for
/// each factor of e beyond this time, ns.
pub(super) const POSTGRES_WAKE_NS: f64 = 300_000.0;
pub(super) const POSTGRES_ASLEEP_NS: f64 = 500_000.0;
/// Processor time beside that on a disk: of a transaction (pages that are written out), and of a flush beside that of a
/// commit as it is measured (who wakes whom), ns.
pub(super) const POSTGRES_ASIDE_NS: f64 = 30_000.0;
pub(super) const POSTGRES_FLUSH_NS: f64 = 90_000.0;
/// What a transaction adds to its log, bytes: mostly images of pages, each at its first change after a checkpoint.
pub(super) const POSTGRES_LOG_BYTES: f64 = 10_000.0;

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
pub(super) const POSTGRES_DOUBT: f64 = 0.45;
pub(super) const ETCD_DOUBT: f64 = 1.2;
pub(super) const SQLITE_DOUBT: f64 = 0.35;
/// The same of the time of what waits for commits alone, for a rate that is predicted to be none.
pub(super) const NONE_DOUBT: f64 = 0.17;
