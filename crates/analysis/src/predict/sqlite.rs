//! SQLite, one client that commits one row at a time.
//!
//! With a write-ahead log and synchronous=FULL a commit is its work and one sync of the log; with NORMAL there is none. In both a
//! commit in a thousand pages writes what the log has gathered into the database (`wal_autocheckpoint`), and syncs log and
//! database. With a rollback journal a commit makes that file durable, with its directory; syncs it again when the number of
//! its pages is in it; writes and syncs the database; and removes the journal (sqlite.org, "Atomic Commit In SQLite").

use qd1_model::prediction::Predicts;

/// `wal_autocheckpoint`: pages, and commits of one page.
const CHECKPOINT_COMMITS: f64 = 1000.0;
/// Syncs of a commit with a rollback journal beside those that make the journal a file: of its header, of the database.
const ROLLBACK_SYNCS: f64 = 2.0;

/// What its parts take, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// A commit's work.
    pub(super) work_ns: f64,
    /// A checkpoint: its work, and a thousand pages with a sync.
    pub(super) checkpoint_ns: f64,
    /// A small file made, written, synced with its directory, closed and removed.
    pub(super) journal_ns: f64,
}

impl Costs {
    /// Mean time of a commit where a sync of a page takes `sync_ns`.
    pub(super) fn commit_ns(&self, what: Predicts, sync_ns: f64) -> f64 {
        let checkpoints_ns = (self.checkpoint_ns + sync_ns) / CHECKPOINT_COMMITS;
        match what {
            Predicts::SqliteWalFull => self.work_ns + sync_ns + checkpoints_ns,
            Predicts::SqliteWalNormal => self.work_ns + checkpoints_ns,
            _ => self.work_ns + self.journal_ns + ROLLBACK_SYNCS * sync_ns,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_waits_for_its_own_syncs() {
        let costs = Costs { work_ns: 20e3, checkpoint_ns: 20e6, journal_ns: 5e6 };
        let ms = |what| costs.commit_ns(what, 2e6) / 1e6;
        let found = [Predicts::SqliteWalFull, Predicts::SqliteWalNormal, Predicts::SqliteRollbackFull].map(ms);
        assert!(
            found.iter().zip([2.042, 0.042, 9.02]).all(|(found, wanted)| (found - wanted).abs() < 1e-3),
            "{found:?}"
        );
    }
}
