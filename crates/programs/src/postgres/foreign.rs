//! An existing server: pgbench's tables are in our own schema, which is dropped however the run ends. The schema is in
//! the journal: after a kill a helper drops it, and after a power cut `qd1 restore` or the next run does.
//!
//! pgbench drops tables by their unqualified names before it creates its own. So nothing is started unless those names,
//! on this same connection, refer to our schema and nothing else.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result};

use super::access::{Access, Tools};
use super::conninfo::{Conninfo, without_password};
use crate::program::Site;
use qd1_model::{Problem, ProblemKind};
use qd1_system::child::Cancelled;
use qd1_system::journal::{Change, Journal};
use qd1_system::schema;

/// pgbench's tables.
const TABLES: [&str; 4] = ["pgbench_accounts", "pgbench_branches", "pgbench_history", "pgbench_tellers"];

/// The server with our schema in it.
pub(crate) struct Foreign {
    access: Access,
    schema: String,
    /// Drops the schema.
    journal: Journal,
}

impl Foreign {
    /// Creates the schema.
    ///
    /// # Errors
    /// When the server cannot be reached, denies permission, or already has tables of these names.
    pub(crate) fn enter(tools: &Tools, dsn: &str, site: &Site<'_>) -> Result<Self> {
        let conninfo = Conninfo::parse(dsn)?;
        let schema = schema::name(site.id);
        let plain = access(tools, &conninfo, None);
        let reached = plain.version(site.cancel);
        reached.with_context(|| format!("cannot use the server in --dsn {}", without_password(dsn)))?;
        let names = TABLES.map(|table| format!("'{table}'")).join(",");
        // Tables left by a killed run are harmless: unqualified names refer only to our schema.
        let sql = format!(
            "select schemaname || '.' || tablename from pg_tables where tablename in ({names}) and not exists (select 1 \
             from pg_namespace where nspname = schemaname and nspname ~ '^qd1_[0-9a-f]{{12}}$' and \
             obj_description(oid, 'pg_namespace') like '{}%') order by 1",
            schema::MARK
        );
        let existing: Vec<String> = plain.query(&sql, site.cancel)?.into_iter().flatten().collect();
        if !existing.is_empty() {
            let message = format!(
                "this database already has tables with pgbench's names ({}), which pgbench would drop; choose another \
                 database",
                existing.join(", ")
            );
            return Err(Problem::new(ProblemKind::Unsafe, message).into());
        }
        // This comes before there is anything to drop: after a kill between the two, nobody else would know of it.
        let mut journal = Journal::with_secrets(site.id, "", plain.env.clone())?;
        journal.note(Change::Schema { server: conninfo.public.clone(), name: schema.clone() })?;
        let this = Self { access: access(tools, &conninfo, Some(&schema)), schema, journal };
        let schema = &this.schema;
        let sql = format!("create schema {schema}; comment on schema {schema} is '{} {}'", schema::MARK, site.id);
        let made = plain.query(&sql, site.cancel);
        made.map_err(|error| {
            if error.is::<Cancelled>() {
                return error;
            }
            let message = format!("{error:#}; the user in --dsn needs permission to create a schema in that database");
            Problem::new(ProblemKind::Capability, message).into()
        })?;
        this.must_be_inside(site.cancel)?;
        Ok(this)
    }

    /// Verifies that unqualified names refer to our schema: a connection pooler may drop the option that sets it.
    fn must_be_inside(&self, cancel: &AtomicBool) -> Result<()> {
        let seen = self.access.query("select current_schema()", cancel)?;
        if seen.first().and_then(|row| row.first()) == Some(&self.schema) {
            return Ok(());
        }
        let message = "this connection ignores search_path as an option (a pooler, or options in --dsn?), so pgbench \
                       might drop other users' tables; connect directly to the server";
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
        self.journal.undo_to(0)
    }
}

/// The password is in the environment of the clients: others can read their command lines.
fn access(tools: &Tools, conninfo: &Conninfo, schema: Option<&str>) -> Access {
    let password = conninfo.password.iter().map(|password| ("PGPASSWORD", OsString::from(password)));
    let mut env: Vec<_> = password.collect();
    if let Some(schema) = schema {
        let own = std::env::var("PGOPTIONS").map(|options| options + " ").unwrap_or_default();
        env.push(("PGOPTIONS", OsString::from(format!("{own}-c search_path={schema}"))));
    }
    Access { tools: tools.clone(), conninfo: conninfo.public.clone().into(), env, user: None }
}

/// Returns the server's data directory, if it is on this machine and the server shows it.
///
/// # Errors
/// If it is unknown, so that PATH must name it.
pub(crate) fn data_directory(tools: &Tools, dsn: &str) -> Result<PathBuf> {
    let sql = "select setting from pg_settings where name = 'data_directory' and inet_server_addr() is null";
    let rows = access(tools, &Conninfo::parse(dsn)?, None).query(sql, &AtomicBool::new(false));
    let rows = rows.with_context(|| format!("cannot use the server in --dsn {}", without_password(dsn)))?;
    let directory = rows.into_iter().flatten().next().map(PathBuf::from).filter(|path| path.is_dir());
    directory.ok_or_else(|| {
        let message = "the server does not report where its data is; give that directory as PATH (if the server is on \
                       another machine, any directory: only the description of the disk is taken from it)";
        Problem::usage(message).into()
    })
}
