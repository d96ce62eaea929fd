//! An existing server: pgbench's tables are in a schema of our own, which is dropped however the run ends.
//!
//! pgbench drops tables by their plain names before it creates its own. So nothing is begun unless those names, on this
//! very connection, refer to our schema and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::access::{Access, Tools};
use crate::program::Site;
use qd1_model::{Problem, ProblemKind};
use qd1_system::child::Cancelled;
use qd1_system::helper::CleanupCommand;

/// pgbench's tables.
const TABLES: [&str; 4] = ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

/// The server with our schema in it.
pub(crate) struct Foreign {
    access: Access,
    schema: String,
    /// Drops the schema.
    cleanup: CleanupCommand,
}

impl Foreign {
    /// Creates the schema.
    ///
    /// # Errors
    /// When the server cannot be reached, denies permission, or already has tables of these names.
    pub(crate) fn enter(tools: &Tools, dsn: &str, site: &Site<'_>) -> Result<Self> {
        let schema = format!("qd1_{}", site.id);
        let plain = access(tools, dsn, None);
        let reached = plain.version(site.cancel);
        reached.with_context(|| format!("cannot use the server of --dsn {}", without_password(dsn)))?;
        let names = TABLES.map(|table| format!("'{table}'")).join(",");
        let sql =
            format!("select schemaname || '.' || tablename from pg_tables where tablename in ({names}) order by 1");
        let existing: Vec<String> = plain.query(&sql, site.cancel)?.into_iter().flatten().collect();
        if !existing.is_empty() {
            let message = format!(
                "this database already has tables with pgbench's names ({}), which pgbench would drop; choose another \
                 database",
                existing.join(", ")
            );
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
        // Before there is anything to drop: after a kill between the two, nobody else would know of it.
        let drop_schema = format!("drop schema if exists {schema} cascade");
        let cleanup = CleanupCommand::run(&plain.tools.psql, &plain.args(&drop_schema))?;
        let this = Self { access: access(tools, dsn, Some(&schema)), schema, cleanup };
        let made = plain.query(&format!("create schema {}", this.schema), site.cancel);
        made.map_err(|error| {
            if error.is::<Cancelled>() {
                return error;
            }
            let message = format!("{error:#}; the user of --dsn needs the right to create a schema in that database");
            Problem::new(ProblemKind::Capability, message).into()
        })?;
        this.must_be_inside(site.cancel)?;
        Ok(this)
    }

    /// Verifies that plain names refer to our schema: a connection pooler may drop the option that sets it.
    fn must_be_inside(&self, cancel: &AtomicBool) -> Result<()> {
        let seen = self.access.query("select current_schema()", cancel)?;
        if seen.first().and_then(|row| row.first()) == Some(&self.schema) {
            return Ok(());
        }
        let message = "this connection does not take search_path as an option (a pooler, or options in --dsn?), so that \
                       pgbench might drop tables of others; connect to the server itself";
        Err(Problem::new(ProblemKind::Unsafe, message).into())
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    /// Drops the schema.
    ///
    /// # Errors
    /// When it cannot be dropped; the message names it.
    pub(crate) fn leave(mut self) -> Result<()> {
        if self.cleanup.now() {
            return Ok(());
        }
        let schema = &self.schema;
        anyhow::bail!("the schema {schema} could not be dropped; do it by hand: drop schema if exists {schema} cascade")
    }
}

fn access(tools: &Tools, dsn: &str, schema: Option<&str>) -> Access {
    let mut env = Vec::new();
    if let Some(schema) = schema {
        let own = std::env::var("PGOPTIONS").map(|options| options + " ").unwrap_or_default();
        env.push(("PGOPTIONS", OsString::from(format!("{own}-c search_path={schema}"))));
    }
    Access { tools: tools.clone(), conninfo: dsn.into(), env, user: None }
}

/// Returns the server's data directory, if it is on this machine and the server shows it.
///
/// # Errors
/// When it is unknown, so that PATH has to name it.
pub(crate) fn data_directory(tools: &Tools, dsn: &str) -> Result<PathBuf> {
    let sql = "select setting from pg_settings where name = 'data_directory' and inet_server_addr() is null";
    let rows = access(tools, dsn, None).query(sql, &AtomicBool::new(false));
    let rows = rows.with_context(|| format!("cannot use the server of --dsn {}", without_password(dsn)))?;
    let directory = rows.into_iter().flatten().next().map(PathBuf::from).filter(|path| path.is_dir());
    directory.ok_or_else(|| {
        let message = "the server does not show where its data is; name that directory as PATH (of a server on another \
                       machine any directory: only the description of the disk comes from it)";
        Problem::usage(message).into()
    })
}

/// Returns a conninfo without its password, for reports and messages.
pub fn without_password(dsn: &str) -> String {
    if let Some((scheme, rest)) = dsn.split_once("://") {
        let (user, host) = rest.rsplit_once('@').unwrap_or(("", rest));
        let user = user.split(':').next().unwrap_or_default();
        let at = if user.is_empty() { "" } else { "@" };
        let host = if host.contains("password") { host.split('?').next().unwrap_or_default() } else { host };
        return format!("{scheme}://{user}{at}{host}");
    }
    if dsn.contains("password") && dsn.contains('\'') {
        // Quoted values may contain spaces: rather show too little than too much.
        return "(a conninfo with a password)".to_owned();
    }
    let secret = |word: &&str| !word.trim_start().starts_with("password");
    dsn.split(' ').filter(secret).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_password_gets_into_a_report() {
        assert_eq!(without_password("host=db password=s3cret dbname=x"), "host=db dbname=x");
        assert_eq!(without_password("postgres://me:s3cret@db:5433/x?password=s3cret"), "postgres://me@db:5433/x");
        assert_eq!(without_password("postgresql:///x?host=/run"), "postgresql:///x?host=/run");
        assert!(!without_password("dbname=x password='s3 cret'").contains("cret"));
        assert_eq!(without_password("dbname=x"), "dbname=x");
    }
}
