//! Runs of a damaged history, each looked for on its own, so that a lost page costs no other run.

use anyhow::Result;
use qd1_model::Record;
use rusqlite::{Connection, OptionalExtension as _};

use crate::Store;
use crate::blob::unpack;

/// Damaged places in a row after which the search ends: if a page that leads to many runs is damaged, so are all their
/// places.
const DAMAGED_MAX: usize = 10_000;

/// What was found.
pub struct Salvaged {
    /// Runs that could be read whole, in the order in which they were kept.
    pub records: Vec<Record>,
    /// Runs that exist but cannot be read.
    pub lost: usize,
    /// Whether it is known how many there were; otherwise more may be lost.
    pub is_counted: bool,
}

impl Store {
    /// Returns the runs of a damaged history that can be read, each looked for on its own. For an unfinished check over
    /// hours it is what was last kept whole.
    #[must_use]
    pub fn salvage(&self) -> Salvaged {
        salvage(&self.db)
    }

    /// Returns how many runs the table has, whatever its list says.
    ///
    /// # Errors
    /// When the table is damaged on the way to them.
    pub fn count(&self) -> Result<usize> {
        let count = self.db.query_row("SELECT count(*) FROM run NOT INDEXED", [], |row| row.get::<_, i64>(0));
        Ok(usize::try_from(count.map_err(|error| self.advise(error))?)?)
    }
}

/// Goes from run to run through the table; neither lists nor indices are used. Where the way is damaged, each place
/// after it is looked at on its own.
fn salvage(db: &Connection) -> Salvaged {
    let last: Option<i64> = db.query_row("SELECT max(rowid) FROM run NOT INDEXED", [], |row| row.get(0)).ok().flatten();
    let mut found = Salvaged { records: Vec::new(), lost: 0, is_counted: last.is_some() };
    let at = |sql: &str, place: i64| {
        let run = |row: &rusqlite::Row<'_>| Ok((row.get::<_, i64>(0)?, row.get::<_, Vec<u8>>(1)?));
        db.query_row(sql, [place], run).optional()
    };
    let (mut place, mut damaged) = (0_i64, 0);
    while damaged < DAMAGED_MAX && place < i64::MAX {
        let next = at("SELECT rowid, record FROM run NOT INDEXED WHERE rowid > ? ORDER BY rowid LIMIT 1", place);
        let run = match next {
            Ok(None) => break,
            Ok(Some(run)) => Some(run),
            Err(_) => {
                place += 1;
                damaged += 1;
                match at("SELECT rowid, record FROM run NOT INDEXED WHERE rowid = ?", place) {
                    Ok(run) => run,
                    Err(_) => {
                        found.lost += usize::from(last.is_some_and(|last| place <= last));
                        None
                    }
                }
            }
        };
        let Some((rowid, blob)) = run else { continue };
        (place, damaged) = (rowid, 0);
        match unpack(&blob, "a newer qd1") {
            Ok(record) => found.records.push(record),
            Err(_) => found.lost += 1,
        }
    }
    if damaged == DAMAGED_MAX {
        (found.lost, found.is_counted) = (found.lost.saturating_sub(DAMAGED_MAX), false);
    }
    found
}

#[cfg(test)]
mod tests {
    use rusqlite::Connection;

    use crate::{Store, tests::record};

    /// Overwrites a page of the database, numbered from 1.
    fn damage(path: &std::path::Path, page: u64) {
        let mut bytes = std::fs::read(path).unwrap();
        let at = (page as usize - 1) * 4096;
        bytes[at..at + 4096].fill(0xA5);
        std::fs::write(path, bytes).unwrap();
    }

    /// A closed history of five runs, and the root page of one of its parts.
    fn five(part: &str) -> (tempfile::TempDir, std::path::PathBuf, u64) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("history.db");
        let store = Store::open(&path).unwrap();
        for number in 1..=5 {
            store.save(&record(&format!("{number:012x}"), number)).unwrap();
        }
        drop(store);
        let db = Connection::open(&path).unwrap();
        let page = db.query_row("SELECT rootpage FROM sqlite_schema WHERE name = ?", [part], |row| row.get(0)).unwrap();
        db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
        drop(db);
        (dir, path, page)
    }

    #[test]
    fn all_runs_are_found_without_the_list_and_without_the_index_of_ids() {
        for part in ["run_list", "sqlite_autoindex_run_1"] {
            let (_dir, path, page) = five(part);
            damage(&path, page);
            let store = Store::read(&path).unwrap();
            let is_listed = store.list(9).is_ok_and(|rows| rows.iter().all(|row| store.load(&row.id).is_ok()));
            assert!(!is_listed, "{part} is not used");
            let found = store.salvage();
            assert_eq!((found.records.len(), found.lost), (5, 0), "{part}");
            assert_eq!(found.records[4].id, "000000000005");
        }
    }

    /// Cause: every place up to the largest was looked at, which would take years.
    #[test]
    fn a_huge_place_of_a_run_is_reached_immediately() {
        let (_dir, path, page) = five("run_list");
        let db = Connection::open(&path).unwrap();
        db.execute("UPDATE run SET rowid = 4611686018427387904 WHERE id = '000000000003'", []).unwrap();
        db.query_row("PRAGMA journal_mode = DELETE", [], |_| Ok(())).unwrap();
        drop(db);
        damage(&path, page);
        assert_eq!(Store::read(&path).unwrap().salvage().records.len(), 5);
    }

    #[test]
    fn a_lost_page_costs_only_the_runs_on_it() {
        let (_dir, path, root) = five("run");
        let pages = std::fs::metadata(&path).unwrap().len() / 4096;
        let mut most = 0;
        for page in (2..=pages).filter(|page| *page != root) {
            let whole = std::fs::read(&path).unwrap();
            damage(&path, page);
            let found = Store::read(&path).map(|store| store.salvage());
            if let Ok(found) = found {
                let count = found.records.len() + found.lost;
                assert!(count == 5 || count == 4 && !found.is_counted, "page {page}: {count}");
                most = most.max(found.lost);
            }
            std::fs::write(&path, whole).unwrap();
        }
        assert!(most >= 1, "some page held a run");
    }
}
