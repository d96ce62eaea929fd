//! SQLite, one client that commits one row at a time.
//!
//! With a write-ahead log and synchronous=FULL a commit is its work and one sync of the log; with NORMAL there is none.
//! In both a commit in a thousand pages reads the pages collected in the log and writes them into the database
//! (`wal_autocheckpoint`), and syncs log and database. With a rollback journal a commit makes that file durable, with
//! its directory; syncs it again when it contains the number of its pages; writes and syncs the database; and removes
//! the journal (sqlite.org, "Atomic Commit In SQLite").

use qd1_model::prediction::Predicts;

/// `wal_autocheckpoint`: pages, and commits of one page.
const CHECKPOINT_COMMITS: f64 = 1000.0;
/// Pages that it reads back from the log and writes: for two commits to the same page, only the later one.
const CHECKPOINT_PAGES: f64 = 900.0;
/// Writes of a commit to the log: a page and its header. A measured commit includes one of them.
const LOG_WRITES: f64 = 2.0;
/// Bytes of a commit in the log.
const LOG_BYTES: f64 = 4120.0;
/// Syncs of a commit with a rollback journal besides those that create the journal: of its header and of the database;
/// and writes besides theirs, as `strace` shows them: header, two numbers, two pages, two checksums. Names: it is
/// looked up, and removed. Reads: of the database's counter of changes, and of the journal's end.
const ROLLBACK_SYNCS: f64 = 2.0;
const ROLLBACK_WRITES: f64 = 7.0;
const ROLLBACK_NAMES: f64 = 2.0;
const ROLLBACK_READS: f64 = 2.0;

/// The time its parts take, ns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Costs {
    /// A commit's work.
    pub(super) work_ns: f64,
    /// A write to the page cache.
    pub(super) write_ns: f64,
    /// A read of data written recently: from memory, if there is a page cache.
    pub(super) read_ns: f64,
    /// Each further byte written out.
    pub(super) byte_ns: f64,
    /// A checkpoint's work, and a thousand pages written with a sync.
    pub(super) checkpoint_work_ns: f64,
    pub(super) checkpoint_ns: f64,
    /// A small file made, written, synced with its directory, and closed.
    pub(super) journal_ns: f64,
    /// An operation on a name: removing a file.
    pub(super) name_ns: f64,
}

impl Costs {
    /// Mean time of a commit if one of a single page, write and sync, takes `page_ns`.
    pub(super) fn commit_ns(&self, what: Predicts, page_ns: f64) -> f64 {
        let pages_ns = CHECKPOINT_PAGES * (self.checkpoint_ns / CHECKPOINT_COMMITS + self.read_ns);
        let checkpoints_ns = (self.checkpoint_work_ns + pages_ns + page_ns) / CHECKPOINT_COMMITS;
        match what {
            Predicts::SqliteWalFull => self.work_ns + (LOG_WRITES - 1.0) * self.write_ns + page_ns + checkpoints_ns,
            // The contents of its log are written out only now.
            Predicts::SqliteWalNormal => {
                self.work_ns + LOG_WRITES * self.write_ns + checkpoints_ns + LOG_BYTES * self.byte_ns
            }
            _ => {
                let file_ns = self.journal_ns + ROLLBACK_NAMES * self.name_ns + ROLLBACK_READS * self.read_ns;
                self.work_ns + file_ns + ROLLBACK_SYNCS * page_ns + ROLLBACK_WRITES * self.write_ns
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_waits_for_its_own_syncs() {
        let costs = Costs {
            work_ns: 20e3,
            write_ns: 1e3,
            read_ns: 10e3,
            byte_ns: 0.0,
            checkpoint_work_ns: 2e6,
            checkpoint_ns: 20e6,
            journal_ns: 5e6,
            name_ns: 10e3,
        };
        let us = |what| costs.commit_ns(what, 2e6) / 1e3;
        let found = [Predicts::SqliteWalFull, Predicts::SqliteWalNormal, Predicts::SqliteRollbackFull].map(us);
        assert!(
            found.iter().zip([2052.0, 53.0, 9067.0]).all(|(found, wanted)| (found - wanted).abs() < 0.1),
            "{found:?}"
        );
    }
}
