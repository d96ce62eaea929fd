//! What the programs' own work takes where commits cost nothing, measured as docs/method.md says ("Predictions", "Work").

/// The reference transaction (`environment.reference_ns`) where the others were measured, ns.
pub(super) const REFERENCE_NS: f64 = 12_000.0;

/// PostgreSQL with pgbench: processor time of a transaction, and time that passes beside it, ns.
pub(super) const POSTGRES_NS: f64 = 330_000.0;
pub(super) const POSTGRES_IDLE_NS: f64 = 120_000.0;
/// What one more transaction adds to its log, bytes: mostly images of pages, each at its first change after a checkpoint.
pub(super) const POSTGRES_LOG_BYTES: f64 = 8_000.0;

/// etcd with puts through its gateway: processor time of a put, of it what is done one after another, and time beside it, ns.
pub(super) const ETCD_NS: f64 = 110_000.0;
pub(super) const ETCD_APPLY_NS: f64 = 15_000.0;
pub(super) const ETCD_IDLE_NS: f64 = 100_000.0;

/// SQLite: processor time of a commit with a log, of one with a rollback journal, and of a checkpoint, ns.
pub(super) const SQLITE_NS: f64 = 20_000.0;
pub(super) const SQLITE_ROLLBACK_NS: f64 = 40_000.0;
pub(super) const SQLITE_CHECKPOINT_NS: f64 = 2_000_000.0;

/// Standard deviations of ln(predicted / measured), from the same place.
pub(super) const POSTGRES_DOUBT: f64 = 0.12;
pub(super) const ETCD_DOUBT: f64 = 0.2;
pub(super) const SQLITE_DOUBT: f64 = 0.12;
