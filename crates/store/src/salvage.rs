//! Runs of a damaged history, each looked for by itself: a page that is lost takes no other run along.

use qd1_model::Record;
use rusqlite::{Connection, OptionalExtension as _};

use crate::blob::unpack;

/// Places without a run after which none is looked for, where it is not known how many there are.
const GAP_MAX: i64 = 10_000;

/// What was found.
pub struct Salvaged {
    /// Runs that could be read whole, in the order in which they were kept.
    pub records: Vec<Record>,
    /// Runs that are there and cannot be read.
    pub lost: usize,
    /// Whether it is known how many there were: else more may be lost.
    pub is_counted: bool,
}

/// Looks at every place of the table; neither lists nor indices are used.
pub(crate) fn salvage(db: &Connection) -> Salvaged {
    let last: Option<i64> = db.query_row("SELECT max(rowid) FROM run NOT INDEXED", [], |row| row.get(0)).ok().flatten();
    let mut found = Salvaged { records: Vec::new(), lost: 0, is_counted: last.is_some() };
    let mut gap = 0;
    for place in 1.. {
        if last.is_some_and(|last| place > last) || last.is_none() && gap > GAP_MAX {
            break;
        }
        let blob =
            db.query_row("SELECT record FROM run NOT INDEXED WHERE rowid = ?", [place], |row| row.get::<_, Vec<u8>>(0));
        gap += 1;
        match blob.optional() {
            Ok(None) => continue,
            Ok(Some(blob)) => match unpack(&blob, "a newer qd1") {
                Ok(record) => found.records.push(record),
                Err(_) => found.lost += 1,
            },
            // Of a page that leads to many runs each is counted, to the last one that is known.
            Err(_) if last.is_some() => found.lost += 1,
            Err(_) => continue,
        }
        gap = 0;
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

    #[test]
    fn a_lost_page_of_runs_takes_those_on_it() {
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
