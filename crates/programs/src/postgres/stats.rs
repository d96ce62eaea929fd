//! A server's own counters: syncs of its log, and checkpoints. Each version has them in different views.

use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};
use qd1_model::record::program::{AppUnit, Counter};

use super::access::Access;

/// Names, units and factors of the columns, in the order of [`sql`].
const COLUMNS: [(&str, AppUnit, f64); 9] = [
    ("wal_bytes", AppUnit::Bytes, 1.0),
    ("wal_write", AppUnit::Count, 1.0),
    ("wal_write_time", AppUnit::Ns, 1e6),
    ("wal_sync", AppUnit::Count, 1.0),
    ("wal_sync_time", AppUnit::Ns, 1e6),
    ("checkpoints_timed", AppUnit::Count, 1.0),
    ("checkpoints_requested", AppUnit::Count, 1.0),
    ("checkpoint_write_time", AppUnit::Ns, 1e6),
    ("checkpoint_sync_time", AppUnit::Ns, 1e6),
];

/// The counters at one moment; `None` for those that this version does not have.
#[derive(Debug)]
pub(crate) struct Stats {
    version: u32,
    values: Vec<Option<f64>>,
}

/// Returns the query for a server of this version (150018 for 15.18).
fn sql(version: u32) -> String {
    let wal = match version {
        180_000.. => {
            "(select sum(writes) from pg_stat_io where object = 'wal'), \
                      (select sum(write_time) from pg_stat_io where object = 'wal'), \
                      (select sum(fsyncs) from pg_stat_io where object = 'wal'), \
                      (select sum(fsync_time) from pg_stat_io where object = 'wal')"
        }
        140_000.. => {
            "(select wal_write from pg_stat_wal), (select wal_write_time from pg_stat_wal), \
                      (select wal_sync from pg_stat_wal), (select wal_sync_time from pg_stat_wal)"
        }
        _ => "null, null, null, null",
    };
    let checkpoints = match version {
        170_000.. => {
            "(select num_timed from pg_stat_checkpointer), (select num_requested from pg_stat_checkpointer), \
                      (select write_time from pg_stat_checkpointer), (select sync_time from pg_stat_checkpointer)"
        }
        _ => {
            "(select checkpoints_timed from pg_stat_bgwriter), (select checkpoints_req from pg_stat_bgwriter), \
              (select checkpoint_write_time from pg_stat_bgwriter), (select checkpoint_sync_time from pg_stat_bgwriter)"
        }
    };
    // A standby writes no log of its own.
    let bytes = "case when pg_is_in_recovery() then null else pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0') end";
    format!("select {bytes}, {wal}, {checkpoints}")
}

impl Stats {
    /// Reads the counters.
    ///
    /// # Errors
    /// When the server does not answer.
    pub(crate) fn read(access: &Access, cancel: &AtomicBool) -> Result<Self> {
        let version = access.version_number(cancel)?;
        let rows = access.query(&sql(version), cancel)?;
        let row = rows.first().context("the server does not report its counters")?;
        Ok(Self { version, values: row.iter().map(|field| field.parse().ok()).collect() })
    }

    /// Returns true if counters pass through a collector, which writes them at most twice a second.
    pub(crate) fn is_delayed(&self) -> bool {
        self.version < 150_000
    }

    /// Returns the change since `before`.
    pub(crate) fn since(&self, before: &Self) -> Vec<Counter> {
        let changes = self.values.iter().zip(&before.values).map(|(now, then)| Some(now.as_ref()? - then.as_ref()?));
        // Counters that were reset meanwhile are left out.
        let changes = changes.map(|change: Option<f64>| change.filter(|change| *change >= 0.0));
        let named = changes.zip(COLUMNS);
        named.filter_map(|(change, (name, unit, factor))| Some(Counter::new(name, unit, change? * factor))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_version_is_queried_where_it_has_its_counters() {
        assert!(!sql(130_011).contains("pg_stat_wal") && sql(130_011).contains("checkpoints_req"));
        assert!(sql(150_018).contains("wal_sync_time from pg_stat_wal") && sql(150_018).contains("checkpoints_req"));
        assert!(sql(170_002).contains("pg_stat_checkpointer") && sql(170_002).contains("from pg_stat_wal"));
        assert!(sql(180_000).contains("pg_stat_io") && !sql(180_000).contains("pg_stat_wal"));
    }

    #[test]
    fn counters_that_are_missing_or_were_reset_are_left_out() {
        let at = |values: [Option<f64>; 9]| Stats { version: 130_000, values: values.to_vec() };
        let mut values = [Some(10.0); 9];
        let before = at(values);
        (values[0], values[3], values[5], values[4]) = (Some(110.0), None, Some(3.0), Some(12.0));
        let change = at(values).since(&before);
        let value = |name: &str| change.iter().find(|counter| counter.name == name).map(|counter| counter.value);
        assert_eq!(value("wal_bytes"), Some(100.0));
        assert_eq!((value("wal_sync"), value("checkpoints_timed")), (None, None));
        assert_eq!(value("wal_sync_time"), Some(2e6), "ms as ns");
    }
}
