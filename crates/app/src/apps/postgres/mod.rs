//! `qd1 app postgres`: pgbench against a throwaway cluster on the disk, or against a server that is there.
//!
//! Transactions are timed by pgbench, which logs each; the log comes through a pipe, so that it costs the disk nothing, and
//! is counted as it comes. What the server alone knows (syncs of its log, checkpoints) is read before and after.

mod access;
mod cluster;
mod foreign;
mod log;
mod pgbench;
mod stats;

use std::path::{Path, PathBuf};

use anyhow::Result;
use qd1_model::Bytes;
use qd1_model::app::{Program, Setting};
use qd1_model::plan::StepPlan;

use super::args::{AppCommon, PostgresArgs};
use super::{App, Loaded, World, user};
use crate::progress::Progress;
use access::{Access, Tools};
use cluster::Cluster;
use foreign::Foreign;
use qd1_model::Problem;

/// Space of one unit of pgbench's scale, its indexes included.
pub(super) const SCALE_BYTES: u64 = 16 << 20;
/// A new cluster.
const CLUSTER_BYTES: u64 = 64 << 20;
/// `max_wal_size` where nobody sets it.
const WAL_BYTES: u64 = 1 << 30;

/// The program with what it was asked.
pub(super) struct Postgres {
    args: PostgresArgs,
    scale: u32,
    tools: Option<Tools>,
    server: Server,
}

/// What pgbench talks to.
enum Server {
    None,
    /// Made for this run.
    Own(Box<Cluster>),
    /// Somebody else's.
    Foreign(Box<Foreign>),
}

impl Postgres {
    /// From the command line.
    ///
    /// # Errors
    /// For times and settings that make no sense.
    pub(super) fn new(args: PostgresArgs) -> Result<Self> {
        if args.runtime < 1_000_000_000 {
            return Err(Problem::usage("--runtime of at least one second: pgbench knows no less").into());
        }
        if let Some(wrong) = args.set.iter().find(|set| !set.contains('=')) {
            return Err(Problem::usage(format!("-c {wrong}: write NAME=VALUE")).into());
        }
        for name in ["listen_addresses", "unix_socket_directories", "port", "data_directory"] {
            if args.set.iter().any(|set| set.split('=').next().is_some_and(|set| set.trim() == name)) {
                let message = format!("-c {name}: a throwaway server keeps to itself; leave it out");
                return Err(Problem::usage(message).into());
            }
        }
        let most = args.clients.iter().copied().max().unwrap_or(1);
        Ok(Self { scale: args.scale.unwrap_or(most), args, tools: None, server: Server::None })
    }

    fn access(&self) -> Result<&Access> {
        match &self.server {
            Server::Own(cluster) => Ok(cluster.access()),
            Server::Foreign(foreign) => Ok(foreign.access()),
            Server::None => anyhow::bail!("there is no server"),
        }
    }

    /// What the loads are, in a word.
    fn script(&self) -> String {
        match self.args.script.as_slice() {
            [] => self.args.builtin.clone(),
            [one] => one.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            many => format!("{} scripts", many.len()),
        }
    }

    fn threads(&self, clients: u32) -> u32 {
        let cpus = std::thread::available_parallelism().map_or(1, |n| n.get() as u32);
        self.args.threads.unwrap_or(cpus).min(clients)
    }

    /// Largest log that the server keeps between checkpoints, from its settings.
    fn wal_max(&self) -> u64 {
        let named =
            |set: &String| set.split_once('=').filter(|(name, _)| name.trim() == "max_wal_size")?.1.parse().ok();
        self.args.set.iter().rev().find_map(named).map_or(WAL_BYTES, |bytes: Bytes| bytes.0)
    }
}

impl App for Postgres {
    fn program(&self) -> Program {
        Program::Postgres
    }

    fn path(&self) -> Option<&Path> {
        self.args.path.as_deref()
    }

    fn common(&self) -> &AppCommon {
        &self.args.common
    }

    fn steps(&self) -> Vec<StepPlan> {
        let step = |clients: &u32| {
            let name = if *clients == 1 { "1 client".to_owned() } else { format!("{clients} clients") };
            let title = format!("pgbench {}, scale {}, {name}", self.script(), self.scale);
            super::step(Program::Postgres, name, title, *clients, self.args.warmup, self.args.runtime)
        };
        let mut clients = self.args.clients.clone();
        clients.dedup();
        clients.iter().map(step).collect()
    }

    fn space(&self) -> Bytes {
        match self.args.dsn {
            Some(_) => Bytes(0),
            // The log may grow beyond its bound while a checkpoint is at work.
            None => Bytes(CLUSTER_BYTES + u64::from(self.scale) * SCALE_BYTES + self.wal_max() * 5 / 4),
        }
    }

    fn caution(&self) -> String {
        match self.args.dsn {
            Some(_) => "a schema of its own in that server, dropped at the end however it ends".to_owned(),
            None => "nothing after it: data, sockets and server go with the run".to_owned(),
        }
    }

    fn check(&mut self) -> Result<()> {
        let tools = Tools::find(self.args.bindir.as_deref(), self.args.dsn.is_none())?;
        for script in &self.args.script {
            if let Err(error) = std::fs::File::open(script) {
                return Err(Problem::usage(format!("--script {}: {error}", script.display())).into());
            }
        }
        match &self.args.dsn {
            None => {
                user::for_server(self.args.user.as_deref())?;
                self.args.path.get_or_insert_with(|| PathBuf::from("."));
            }
            Some(dsn) if self.args.path.is_none() => self.args.path = Some(foreign::data_directory(&tools, dsn)?),
            Some(_) => {}
        }
        self.tools = Some(tools);
        Ok(())
    }

    fn options(&self) -> Vec<String> {
        let args = &self.args;
        let clients: Vec<String> = args.clients.iter().map(u32::to_string).collect();
        let ms = |ns: u64| format!("{}ms", ns / 1_000_000);
        let mut words = vec!["--clients".to_owned(), clients.join(","), "--scale".to_owned(), self.scale.to_string()];
        words.extend(["--runtime".to_owned(), ms(args.runtime), "--warmup".to_owned(), ms(args.warmup)]);
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if args.script.is_empty() {
            option("--builtin", args.builtin.clone());
        }
        let absolute =
            |path: &PathBuf| std::path::absolute(path).unwrap_or(path.clone()).to_string_lossy().into_owned();
        args.script.iter().for_each(|script| option("--script", absolute(script)));
        args.set.iter().for_each(|set| option("-c", set.clone()));
        if args.prewarm {
            words.push("--prewarm".to_owned());
        }
        let mut option = |name: &str, value: String| words.extend([name.to_owned(), value]);
        if let Some(threads) = args.threads {
            option("--threads", threads.to_string());
        }
        if let Some(dir) = &args.bindir {
            option("--bindir", absolute(dir));
        }
        if let Some(user) = &args.user {
            option("--user", user.clone());
        }
        if let Some(dsn) = &args.dsn {
            option("--dsn", foreign::without_password(dsn));
        }
        words
    }

    fn prepare(&mut self, world: &World<'_>, progress: &mut Progress) -> Result<(String, Vec<Setting>)> {
        let tools = self.tools.clone().ok_or_else(|| anyhow::anyhow!("the programs were not looked for"))?;
        self.server = match &self.args.dsn {
            Some(dsn) => Server::Foreign(Box::new(Foreign::enter(&tools, dsn, world)?)),
            None => {
                let user = user::for_server(self.args.user.as_deref())?;
                let most = self.args.clients.iter().copied().max().unwrap_or(1);
                progress.note("initdb: making a cluster");
                Server::Own(Box::new(Cluster::start(&tools, user, &self.args.set, most, world)?))
            }
        };
        let access = self.access()?;
        let version = access.version(world.cancel)?;
        progress.note(&format!("pgbench -i: filling the tables, scale {}", self.scale));
        pgbench::fill(access, self.scale, world)?;
        if self.args.prewarm {
            progress.note("pg_prewarm: reading the tables");
            pgbench::prewarm(access, world)?;
        }
        let mut settings = vec![
            Setting { name: "pgbench script".to_owned(), value: self.script() },
            Setting { name: "pgbench scale".to_owned(), value: self.scale.to_string() },
        ];
        if self.args.prewarm {
            settings.push(Setting { name: "prewarmed".to_owned(), value: "tables and indexes".to_owned() });
        }
        settings.extend(access.settings(&self.args.set, world.cancel)?);
        Ok((version, settings))
    }

    fn load(&mut self, step: &StepPlan, world: &World<'_>, progress: &mut Progress) -> Result<Loaded> {
        let qd1_model::plan::Work::App(work) = &step.work else { anyhow::bail!("no load of PostgreSQL") };
        let asked = pgbench::Asked {
            clients: work.clients,
            threads: self.threads(work.clients),
            builtin: &self.args.builtin,
            scripts: &self.args.script,
            stop: step.stop,
        };
        let outcome = pgbench::run(self.access()?, &asked, world, progress);
        // pgbench only says that it lost its server; the server's log says why.
        match (&mut self.server, outcome) {
            (Server::Own(cluster), Err(error)) => Err(cluster.explained(error)),
            (Server::Own(cluster), Ok(loaded)) if !loaded.fault.is_empty() => {
                let fault = format!("{:#}", cluster.explained(anyhow::anyhow!("{}", loaded.fault)));
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
