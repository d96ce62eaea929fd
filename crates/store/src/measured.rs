//! What `compare` needs of a run, kept with it: computing it takes a second for a long run.

use qd1_model::measured::Measured;
use rusqlite::{Connection, OptionalExtension as _};

use crate::Store;
use crate::blob::{inflate, pack_json};

impl Store {
    /// Returns what was noted on a run for comparisons, if this version of the analysis noted it.
    #[must_use]
    pub fn measured(&self, id_prefix: &str, by: &str) -> Option<Measured> {
        noted(&self.db, &self.resolve(id_prefix).ok()?, by)
    }

    /// Notes what `compare` needs of a run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn note_measured(&self, id: &str, by: &str, measured: &Measured) -> anyhow::Result<()> {
        note(&self.db, id, by, measured)
    }
}

/// What this version of the analysis noted on a run; `None` if there is nothing, it is damaged, or it belongs to
/// another run.
fn noted(db: &Connection, id: &str, by: &str) -> Option<Measured> {
    let sql = "SELECT measured FROM measured WHERE run = ? AND noted_by = ?";
    let blob: Vec<u8> = db.query_row(sql, (id, by), |row| row.get(0)).optional().ok()??;
    let measured: Measured = serde_json::from_slice(&inflate(&blob).ok()?).ok()?;
    id.starts_with(&measured.label).then_some(measured)
}

/// Notes it.
fn note(db: &Connection, id: &str, by: &str, measured: &Measured) -> anyhow::Result<()> {
    let blob = pack_json(&serde_json::to_vec(measured)?)?;
    db.execute("INSERT OR REPLACE INTO measured (run, noted_by, measured) VALUES (?, ?, ?)", (id, by, blob))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::record;
    use qd1_model::measured::{Circumstance, MeasuredStep, MeasuredStream};
    use qd1_model::{Estimate, OpClass};

    #[test]
    fn notes_are_read_back_unless_another_analysis_made_them() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(&dir.path().join("history.db")).unwrap();
        store.save(&record("aa0000000001", 1)).unwrap();
        let figures = vec![("lat_p99_ns", Estimate { low: None, ..Estimate::exact(0.1, 3) })];
        let step = MeasuredStep {
            name: "a".to_owned(),
            streams: vec![MeasuredStream { class: OpClass::Commit, figures }],
            is_spoiled: true,
            ..MeasuredStep::default()
        };
        let circumstances = vec![Circumstance { aspect: qd1_model::measured::Aspect::Kernel, value: "6.1".to_owned() }];
        let run = Measured { label: "aa".to_owned(), steps: vec![step], circumstances, ..Measured::default() };
        store.note_measured("aa0000000001", "1", &run).unwrap();
        assert_eq!(store.measured("aa00", "1"), Some(run));
        assert_eq!(store.measured("aa00", "2"), None);
        let of_another = Measured { label: "bb000000".to_owned(), ..Measured::default() };
        note(&store.db, "aa0000000001", "1", &of_another).unwrap();
        assert_eq!(store.measured("aa00", "1"), None);
        store.db.execute("UPDATE measured SET measured = x'00'", []).unwrap();
        assert_eq!(store.measured("aa00", "1"), None, "damage is computed again");
        store.remove(&["aa0000000001".to_owned()]).unwrap();
        let left: i64 = store.db.query_row("SELECT count(*) FROM measured", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}
