//! Lists of runs: from the columns of the table, so that nothing has to be unpacked.

use qd1_model::history::{Filter, Row};
use qd1_model::trend::{FigureName, KeptFigure};
use rusqlite::{Connection, Row as Found, ToSql};

use crate::Store;
use crate::file::version;

/// The versions of the tables that introduced unfinished runs, headlines, and hosts, tags and notes.
const UNFINISHED: usize = 2;
const HEADLINES: usize = 3;
const TAGS: usize = 4;
/// Separates the tags of a run in a list; no tag contains it.
const BETWEEN: &str = " ";

/// Returns the last `limit` runs that match the filter, the newest first.
pub(crate) fn find(db: &Connection, filter: &Filter, limit: usize) -> rusqlite::Result<Vec<Row>> {
    let version = version(db)?;
    let (conditions, values) = conditions(filter, version);
    let mut statement = db.prepare(&list_query(version, &conditions))?;
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).chain([&limit as &dyn ToSql]).collect();
    statement.query_map(values.as_slice(), row)?.collect()
}

fn list_query(version: usize, conditions: &str) -> String {
    // A history that an earlier qd1 wrote, and that cannot be written here, lacks some columns.
    let since = |version_of: usize, column: &'static str| if version >= version_of { column } else { "NULL" };
    let columns = [
        since(HEADLINES, "headline"),
        since(TAGS, "host"),
        since(TAGS, "note"),
        if version >= UNFINISHED { "unfinished" } else { "0" },
        since(TAGS, "(SELECT group_concat(tag, ' ' ORDER BY tag) FROM tag WHERE tag.run = run.id)"),
    ];
    format!(
        "SELECT id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted, {}
         FROM run WHERE {conditions} ORDER BY started_unix_ns DESC, id LIMIT ?",
        columns.join(", ")
    )
}

/// A run in the trend of a figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Kept {
    /// The run.
    pub row: Row,
    /// Its figure.
    pub figure: KeptFigure,
    /// The kernel's release; empty where it is not known.
    pub kernel: String,
    /// Bytes of the test file or device; 0 where they are not known.
    pub size: u64,
}

/// Returns the ids of the runs that match the filter and whose figures were not noted, the oldest first.
pub(crate) fn without_figures(db: &Connection, filter: &Filter) -> rusqlite::Result<Vec<String>> {
    let (conditions, values) = conditions(filter, version(db)?);
    let mut statement = db.prepare(&without_figures_query(&conditions))?;
    let values: Vec<&dyn ToSql> = values.iter().map(AsRef::as_ref).collect();
    statement.query_map(values.as_slice(), |row| row.get(0))?.collect()
}

fn without_figures_query(conditions: &str) -> String {
    format!("SELECT id FROM run WHERE has_figures = 0 AND unfinished = 0 AND {conditions} ORDER BY started_unix_ns, id")
}

fn trend_query(conditions: &str, has_op: bool) -> String {
    let op = if has_op { "AND figure.op = ?" } else { "" };
    format!(
        "SELECT id, started_unix_ns, elapsed_ns, suite, path, device, filesystem, version, interrupted, NULL, host, note,
                unfinished, NULL, figure.op, figure.value, figure.low, figure.high, kernel, size
         FROM run CROSS JOIN figure ON figure.run = run.id
         WHERE figure.step = ? AND figure.metric = ? {op} AND {conditions} ORDER BY started_unix_ns, id"
    )
}

/// Returns a figure of the runs that match the filter, the oldest first.
pub(crate) fn trend(db: &Connection, filter: &Filter, figure: &FigureName) -> rusqlite::Result<Vec<Kept>> {
    let (conditions, values) = conditions(filter, version(db)?);
    let mut statement = db.prepare(&trend_query(&conditions, figure.op.is_some()))?;
    let name = figure.op.map(qd1_model::OpClass::name);
    let first: [&dyn ToSql; 2] = [&figure.step, &figure.metric];
    let op_value = name.as_ref().map(|name| name as &dyn ToSql);
    let values: Vec<&dyn ToSql> = first.into_iter().chain(op_value).chain(values.iter().map(AsRef::as_ref)).collect();
    let kept = |found: &Found<'_>| {
        Ok(Kept {
            row: row(found)?,
            figure: KeptFigure {
                step: figure.step.clone(),
                op: found.get(14)?,
                metric: figure.metric.to_owned(),
                value: found.get(15)?,
                low: found.get(16)?,
                high: found.get(17)?,
            },
            kernel: found.get::<_, Option<String>>(18)?.unwrap_or_default(),
            size: found.get::<_, Option<i64>>(19)?.unwrap_or(0).max(0) as u64,
        })
    };
    statement.query_map(values.as_slice(), kept)?.collect()
}

/// The conditions of a filter, and the values of their question marks.
fn conditions(filter: &Filter, version: usize) -> (String, Vec<Box<dyn ToSql>>) {
    let mut conditions = vec!["1"];
    let mut values: Vec<Box<dyn ToSql>> = Vec::new();
    let has_tags = version >= TAGS;
    let host = if has_tags { "host = ?" } else { "0 AND 1 = ?" };
    let tag =
        if has_tags { "EXISTS (SELECT 1 FROM tag WHERE tag.run = run.id AND tag.tag = ?)" } else { "0 AND 1 = ?" };
    for (condition, value) in
        [(host, &filter.host), ("device = ?", &filter.device), ("suite = ?", &filter.suite), (tag, &filter.tag)]
    {
        if let Some(value) = value {
            conditions.push(condition);
            values.push(Box::new(value.clone()));
        }
    }
    if let Some(path) = &filter.path {
        let path = path.trim_end_matches('/').to_owned();
        conditions.push("(path = ? OR substr(path, 1, length(?)) = ?)");
        let below = format!("{path}/");
        values.push(Box::new(if path.is_empty() { "/".to_owned() } else { path }));
        values.push(Box::new(below.clone()));
        values.push(Box::new(below));
    }
    let time = |ns: u64| Box::new(i64::try_from(ns).unwrap_or(i64::MAX));
    for (condition, ns) in
        [("started_unix_ns >= ?", filter.since_unix_ns), ("started_unix_ns < ?", filter.until_unix_ns)]
    {
        if let Some(ns) = ns {
            conditions.push(condition);
            values.push(time(ns));
        }
    }
    (conditions.join(" AND "), values)
}

fn row(row: &Found<'_>) -> rusqlite::Result<Row> {
    let optional = |column: usize| row.get::<_, Option<String>>(column);
    Ok(Row {
        id: text(row, 0)?,
        started_unix_ns: row.get::<_, i64>(1)?.max(0) as u64,
        elapsed_ns: row.get::<_, i64>(2)?.max(0) as u64,
        suite: text(row, 3)?,
        path: text(row, 4)?,
        device: text(row, 5)?,
        filesystem: text(row, 6)?,
        version: text(row, 7)?,
        interrupted: row.get(8)?,
        headline: optional(9)?,
        host: optional(10)?,
        note: optional(11)?,
        unfinished: row.get(12)?,
        tags: optional(13)?.iter().flat_map(|tags| tags.split(BETWEEN)).map(str::to_owned).collect(),
    })
}

/// Returns a column's text; a damaged one must not cost the other rows.
fn text(row: &Found<'_>, column: usize) -> rusqlite::Result<String> {
    Ok(String::from_utf8_lossy(row.get_ref(column)?.as_bytes()?).into_owned())
}

impl Store {
    /// Returns the names of the steps whose figures are noted.
    ///
    /// # Errors
    /// As [`Self::without_figures`].
    pub fn steps(&self) -> anyhow::Result<Vec<String>> {
        let steps = || -> rusqlite::Result<Vec<String>> {
            self.db.prepare("SELECT DISTINCT step FROM figure")?.query_map([], |row| row.get(0))?.collect()
        };
        steps().map_err(|error| self.advise(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::MIGRATIONS;

    /// Columns after the record can only be read through all of it: 10,000 runs took more than a second.
    #[test]
    fn no_list_reads_the_rows_themselves() {
        let db = Connection::open_in_memory().unwrap();
        MIGRATIONS.iter().for_each(|script| db.execute_batch(script).unwrap());
        let word = || Some("x".to_owned());
        let all = Filter {
            host: word(),
            device: word(),
            path: word(),
            suite: word(),
            tag: word(),
            since_unix_ns: Some(1),
            until_unix_ns: Some(2),
        };
        for filter in [Filter::default(), all] {
            let (conditions, _) = conditions(&filter, MIGRATIONS.len());
            let queries = [
                list_query(MIGRATIONS.len(), &conditions),
                without_figures_query(&conditions),
                trend_query(&conditions, true),
            ];
            for query in queries {
                let mut statement = db.prepare(&format!("EXPLAIN QUERY PLAN {query}")).unwrap();
                let steps = statement.raw_query().mapped(|row| row.get::<_, String>(3));
                let steps: Vec<String> = steps.map(Result::unwrap).collect();
                let of_runs: Vec<&String> =
                    steps.iter().filter(|step| step.split(' ').any(|word| word == "run")).collect();
                assert!(
                    !of_runs.is_empty() && of_runs.iter().all(|step| step.contains("COVERING INDEX run_list")),
                    "{query}: {steps:?}"
                );
            }
        }
    }
}
