//! How fast this machine's processor is at what databases do: small transactions of SQLite in memory, where no disk is met.
//!
//! `qd1 predict` needs it for the part of a transaction that is not the disk's, and a Record keeps it so that predictions can be
//! made of it elsewhere. It takes 20 ms on one processor, before anything is measured.

use anyhow::Result;
use qd1_engine::clock;
use rusqlite::Connection;

/// Transactions of one batch, some 2 ms of them.
const BATCH: u32 = 200;
/// Batches; the quickest counts, since others only ever take time away.
const BATCHES: u32 = 8;
/// Rows of the largest table.
const ACCOUNTS: i64 = 10_000;

const SCHEMA: &str = "
    PRAGMA journal_mode = MEMORY; PRAGMA synchronous = OFF;
    CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER, filler TEXT);
    CREATE TABLE tellers (id INTEGER PRIMARY KEY, balance INTEGER);
    CREATE TABLE branches (id INTEGER PRIMARY KEY, balance INTEGER);
    CREATE TABLE history (teller INTEGER, branch INTEGER, account INTEGER, delta INTEGER);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10000)
        INSERT INTO accounts SELECT i, 0, printf('%84s', i) FROM n;
    INSERT INTO tellers SELECT id, 0 FROM accounts WHERE id <= 10;
    INSERT INTO branches VALUES (1, 0);";

/// Time of a transaction like pgbench's (three updates, a query, an insert) in memory, ns.
///
/// # Errors
/// When SQLite cannot make a database in memory.
pub(crate) fn transaction_ns() -> Result<f64> {
    let database = Connection::open_in_memory()?;
    database.execute_batch(SCHEMA)?;
    let mut least_ns = u64::MAX;
    for batch in 0..BATCHES {
        let begin_ns = clock::now_ns();
        for number in 0..BATCH {
            transaction(&database, i64::from(batch * BATCH + number))?;
        }
        least_ns = least_ns.min(clock::now_ns() - begin_ns);
    }
    Ok(least_ns as f64 / f64::from(BATCH))
}

fn transaction(database: &Connection, number: i64) -> rusqlite::Result<()> {
    // A step that visits every account before one comes again: 7919 and 10,000 have no common factor.
    let account = number * 7919 % ACCOUNTS + 1;
    let teller = number % 10 + 1;
    let run = |sql: &str, values: &[i64]| -> rusqlite::Result<()> {
        database.prepare_cached(sql)?.execute(rusqlite::params_from_iter(values)).map(drop)
    };
    run("BEGIN", &[])?;
    run("UPDATE accounts SET balance = balance + ? WHERE id = ?", &[number, account])?;
    let balance: i64 =
        database.prepare_cached("SELECT balance FROM accounts WHERE id = ?")?.query_row([account], |row| row.get(0))?;
    run("UPDATE tellers SET balance = balance + ? WHERE id = ?", &[balance, teller])?;
    run("UPDATE branches SET balance = balance + ? WHERE id = 1", &[number])?;
    run("INSERT INTO history VALUES (?, 1, ?, ?)", &[teller, account, number])?;
    run("COMMIT", &[])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transaction_in_memory_takes_some_microseconds() {
        let ns = transaction_ns().unwrap();
        assert!((500.0..5e6).contains(&ns), "{ns}");
    }
}
