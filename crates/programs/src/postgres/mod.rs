//! `qd1 app postgres`: pgbench against a throwaway cluster on the disk, or against an existing server.
//!
//! pgbench times and logs each transaction; the log is read through a pipe while it runs, so that it costs the disk
//! nothing. The server's own counters (syncs of its log, checkpoints) are read before and after.

mod access;
mod cluster;
mod conninfo;
mod foreign;
mod log;
mod pgbench;
mod stats;

pub use conninfo::without_password;

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_model::Bytes;
use qd1_model::plan::program::Program;
use qd1_model::plan::{StepPlan, Work};
use qd1_model::record::program::Setting;

use crate::options::PostgresOptions;
use qd1_system::{source, user};

use crate::program::{Driver, Loaded, Site, client_steps, enough};
use access::{Access, Tools};
use cluster::Cluster;
use foreign::Foreign;
use qd1_model::Problem;
use qd1_runner::watch::Watch;

/// Space for one unit of pgbench's scale, including indexes.
const SCALE_BYTES: u64 = 16 << 20;
/// Space for a new cluster.
const CLUSTER_BYTES: u64 = 64 << 20;
/// Default of `max_wal_size`.
const WAL_BYTES: u64 = 1 << 30;

/// PostgreSQL with its options.
pub struct Postgres {
    options: PostgresOptions,
    scale: u32,
    tools: Option<Tools>,
    server: Server,
}

/// The server that pgbench connects to.
enum Server {
    None,
    /// Created for this run.
    Own(Box<Cluster>),
    /// Someone else's.
    Foreign(Box<Foreign>),
}

impl PostgresOptions {
    /// Lets all of its data fit in the server's memory, up to a quarter of the machine's memory.
    #[must_use]
    pub fn in_memory(mut self, memory: Bytes) -> Self {
        let scale = self.scale.or(self.clients.iter().copied().max()).unwrap_or(1);
        let needed = (64 << 20) + u64::from(scale) * SCALE_BYTES * 5 / 4;
        self.set.push(format!("shared_buffers={}MB", needed.min(memory.0 / 4) >> 20));
        self.prewarm = true;
        self
    }
}

impl Postgres {
    /// Creates the driver.
    ///
    /// # Errors
    /// When a time or setting makes no sense.
    pub fn new(options: PostgresOptions) -> Result<Self> {
        if options.runtime_ns < 1_000_000_000 {
            return Err(Problem::usage("--runtime must be at least one second, pgbench's shortest time").into());
        }
        options.rate.map_or(Ok(()), |rate| enough(rate, options.runtime_ns))?;
        if let Some(wrong) = options.set.iter().find(|set| !set.contains('=')) {
            return Err(Problem::usage(format!("-c {wrong}: write NAME=VALUE")).into());
        }
        for name in ["listen_addresses", "unix_socket_directories", "port", "data_directory"] {
            if options.set.iter().any(|set| set.split('=').next().is_some_and(|set| set.trim() == name)) {
                let message = format!("-c {name}: qd1 sets this for a throwaway server; leave it out");
                return Err(Problem::usage(message).into());
            }
        }
        let most = options.clients.iter().copied().max().unwrap_or(1);
        Ok(Self { scale: options.scale.unwrap_or(most), options, tools: None, server: Server::None })
    }

    fn access(&self) -> Result<&Access> {
        match &self.server {
            Server::Own(cluster) => Ok(cluster.access()),
            Server::Foreign(foreign) => Ok(foreign.access()),
            Server::None => anyhow::bail!("the server has not been started"),
        }
    }

    /// Returns a short name of what the loads run.
    fn script(&self) -> String {
        match self.options.script.as_slice() {
            [] => self.options.builtin.clone(),
            [one] => one.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            many => format!("{} scripts", many.len()),
        }
    }

    fn threads(&self, clients: u32) -> u32 {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.options.threads.unwrap_or(cpus).min(clients)
    }

    /// Returns the largest log that the server keeps between checkpoints, from its settings.
    fn wal_max(&self) -> u64 {
        let named =
            |set: &String| set.split_once('=').filter(|(name, _)| name.trim() == "max_wal_size")?.1.parse().ok();
        self.options.set.iter().rev().find_map(named).map_or(WAL_BYTES, |bytes: Bytes| bytes.0)
    }
}

impl Driver for Postgres {
    fn program(&self) -> Program {
        Program::Postgres
    }

    fn path(&self) -> Option<&Path> {
        self.options.path.as_deref()
    }

    fn steps(&self) -> Vec<StepPlan> {
        let what = format!("pgbench {}, scale {}", self.script(), self.scale);
        let (ramp_ns, max_ns) = (self.options.warmup_ns, self.options.runtime_ns);
        client_steps(Program::Postgres, &self.options.clients, self.options.rate, &what, ramp_ns, max_ns)
    }

    fn space(&self) -> Bytes {
        match self.options.dsn {
            Some(_) => Bytes(0),
            // The log may grow beyond its limit during a checkpoint.
            None => Bytes(CLUSTER_BYTES + u64::from(self.scale) * SCALE_BYTES + self.wal_max() * 5 / 4),
        }
    }

    fn caution(&self) -> String {
        match self.options.dsn {
            Some(_) => "creates its own schema on that server, dropped however the run ends".to_owned(),
            None => "none afterwards: data, sockets and server are removed with the run".to_owned(),
        }
    }

    fn check(&mut self) -> Result<()> {
        let tools = Tools::find(self.options.bindir.as_deref(), self.options.dsn.is_none())?;
        for script in &self.options.script {
            source::open(script, pgbench::SCRIPT).map_err(|error| Problem::usage(format!("--script {error}")))?;
        }
        match &self.options.dsn {
            None => {
                user::for_server(self.options.user.as_deref(), "postgres")?;
                self.options.path.get_or_insert_with(|| PathBuf::from("."));
            }
            Some(dsn) if self.options.path.is_none() => self.options.path = Some(foreign::data_directory(&tools, dsn)?),
            Some(_) => {}
        }
        self.tools = Some(tools);
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        let tools = self.tools.clone().ok_or_else(|| anyhow::anyhow!("the programs have not been searched for"))?;
        self.server = match &self.options.dsn {
            Some(dsn) => Server::Foreign(Box::new(Foreign::enter(&tools, dsn, site)?)),
            None => {
                let user = user::for_server(self.options.user.as_deref(), "postgres")?;
                let most = self.options.clients.iter().copied().max().unwrap_or(1);
                watch.note("initdb: creating a cluster");
                Server::Own(Box::new(Cluster::start(&tools, user, &self.options.set, most, site)?))
            }
        };
        let access = self.access()?;
        let version = access.version(site.cancel)?;
        watch.note(&format!("pgbench -i: filling the tables, scale {}", self.scale));
        pgbench::fill(access, self.scale, site)?;
        if self.options.prewarm {
            watch.note("pg_prewarm: reading the tables");
            pgbench::prewarm(access, site)?;
        }
        let mut settings = vec![
            Setting { name: "pgbench script".to_owned(), value: self.script() },
            Setting { name: "pgbench scale".to_owned(), value: self.scale.to_string() },
        ];
        if self.options.prewarm {
            settings.push(Setting { name: "prewarmed".to_owned(), value: "tables and indexes".to_owned() });
        }
        settings.extend(access.settings(&self.options.set, site.cancel)?);
        Ok((version, settings))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
        let Work::App(work) = &step.work else { anyhow::bail!("not a load of PostgreSQL") };
        let run = pgbench::PgbenchRun {
            clients: work.clients,
            rate: work.rate,
            threads: self.threads(work.clients),
            builtin: &self.options.builtin,
            scripts: &self.options.script,
            stop: step.stop,
        };
        let outcome = pgbench::run(self.access()?, &run, site, watch);
        // pgbench only reports that it lost its server; the server's log has the reason.
        match (&mut self.server, outcome) {
            (Server::Own(cluster), Err(error)) => Err(cluster.explain(error)),
            (Server::Own(cluster), Ok(loaded)) if !loaded.fault.is_empty() => {
                let fault = format!("{:#}", cluster.explain(anyhow::anyhow!("{}", loaded.fault)));
                Ok(Loaded { fault, ..loaded })
            }
            (_, outcome) => outcome,
        }
    }

    fn end(&mut self) -> Result<()> {
        match std::mem::replace(&mut self.server, Server::None) {
            Server::Own(mut cluster) => cluster.stop(),
            Server::Foreign(foreign) => return foreign.leave(),
            Server::None => {}
        }
        Ok(())
    }
}
