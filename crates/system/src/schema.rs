//! A schema of ours in somebody's PostgreSQL server, dropped with psql.

use std::ffi::OsString;
use std::process::Stdio;

use anyhow::{Context as _, Result, ensure};

use crate::tool::command;

/// Prefix of the comment on each of our schemas.
pub const MARK: &str = "made by qd1, run";
/// Never wait forever for a lock that somebody holds on our tables.
const LIMITS: &str = "set lock_timeout = '5s'; set statement_timeout = '60s'";
/// Prefix of the names.
const PREFIX: &str = "qd1_";

/// Returns the name of a run's schema.
pub fn name(id: &str) -> String {
    format!("{PREFIX}{id}")
}

/// Returns true for a name that qd1 would choose.
pub(crate) fn is_ours(name: &str) -> bool {
    name.strip_prefix(PREFIX).is_some_and(|id| id.len() == 12 && id.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// Drops a schema; returns true if it existed. `server` is a connection string without secrets; those are in `env` or
/// where libpq looks for them.
///
/// # Errors
/// When the server cannot be reached or refuses; the message says what to do.
pub(crate) fn drop_schema(server: &str, name: &str, env: &[(&'static str, OsString)]) -> Result<bool> {
    let ask = |sql: &str| -> Result<String> {
        let mut psql = command("psql");
        psql.args(["-X", "-A", "-t", "-q", "-w", "-v", "ON_ERROR_STOP=1", "-c", LIMITS, "-c", sql, "-d", server]);
        psql.envs(env.iter().map(|(name, value)| (name, value))).env("PGCONNECT_TIMEOUT", "5").stdin(Stdio::null());
        let output = psql.output().context("cannot run psql")?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let dropped = ask(&format!("select count(*) from pg_namespace where nspname = '{name}'")).and_then(|count| {
        // A notice for each table would only be noise.
        ask(&format!("set client_min_messages = warning; drop schema if exists {name} cascade")).map(|_| count != "0")
    });
    dropped.with_context(|| {
        format!(
            "the schema {name} may still be on the server {server:?}; to remove it by hand: drop schema if exists {name} \
             cascade (psql takes the password from PGPASSWORD or ~/.pgpass)"
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_runs_are_ours() {
        assert!(is_ours(&name("0123456789ab")));
        for other in ["public", "qd1_", "qd1_0123456789", "qd1_0123456789ag", "qd1_x; drop table y"] {
            assert!(!is_ours(other), "{other}");
        }
    }
}
