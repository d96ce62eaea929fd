//! `qd1 app mysql`: pgbench's transaction on a throwaway MariaDB or MySQL server, over our own connections, so that its
//! figures can be compared with PostgreSQL's.

mod client;
mod load;
mod server;

use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_model::plan::program::Program;
use qd1_model::plan::{StepPlan, Work};
use qd1_model::record::program::{AppStep, Setting};
use qd1_model::{Bytes, Problem};
use qd1_runner::watch::Watch;
use qd1_system::user;

use crate::options::MysqlOptions;
use crate::program::{Driver, Loaded, Site, client_steps, enough};
use load::{ACCOUNTS, Load};
use server::{Server, Tools, counted, status};

/// The account of a new server, and the database of the load.
const ACCOUNT: &str = "root";
const DATABASE: &str = "qd1";
/// Space for a new server: its tables, undo log, redo log of 96 MB, and temporary tables.
const SERVER_BYTES: u64 = 400 << 20;
/// Space for one account, with its share of the history table.
const ACCOUNT_BYTES: u64 = 300;

/// MariaDB or MySQL with its options.
pub struct Mysql {
    options: MysqlOptions,
    scale: u32,
    tools: Option<Tools>,
    server: Option<Server>,
}

impl MysqlOptions {
    /// Lets all of its data fit in the server's memory, up to a quarter of the machine's memory.
    #[must_use]
    pub fn in_memory(mut self, memory: Bytes) -> Self {
        let scale = self.scale.or(self.clients.iter().copied().max()).unwrap_or(1);
        let needed = (128 << 20) + u64::from(scale) * u64::from(ACCOUNTS) * ACCOUNT_BYTES;
        self.set.push(format!("innodb_buffer_pool_size={}M", needed.min(memory.0 / 4) >> 20));
        self
    }
}

impl Mysql {
    /// Creates the driver.
    ///
    /// # Errors
    /// When a setting makes no sense.
    pub fn new(options: MysqlOptions) -> Result<Self> {
        if options.runtime_ns == 0 {
            return Err(Problem::usage("--runtime must be more than zero, for example 30s").into());
        }
        for set in &options.set {
            let name = set.split('=').next().unwrap_or_default().trim().replace('_', "-");
            if !set.contains('=') {
                return Err(Problem::usage(format!("-c {set}: write NAME=VALUE")).into());
            }
            if set.split_once('=').is_some_and(|(_, value)| value.contains('/')) {
                let message =
                    format!("-c {set}: a path would take the server outside its throwaway directory; leave it out");
                return Err(Problem::usage(message).into());
            }
            let is_ours = ["datadir", "socket", "pid-file", "tmpdir", "port", "bind-address", "user"];
            if name.starts_with('-') || is_ours.contains(&name.trim_start_matches('-')) {
                let message = format!("-c {set}: qd1 sets this for a throwaway server; leave it out");
                return Err(Problem::usage(message).into());
            }
        }
        options.rate.map_or(Ok(()), |rate| enough(rate, options.runtime_ns))?;
        let most = options.clients.iter().copied().max().unwrap_or(1);
        Ok(Self { scale: options.scale.unwrap_or(most), options, tools: None, server: None })
    }
}

impl Driver for Mysql {
    fn program(&self) -> Program {
        Program::Mysql
    }

    fn path(&self) -> Option<&Path> {
        Some(&self.options.path)
    }

    fn steps(&self) -> Vec<StepPlan> {
        let what = format!("TPC-B-like transactions, scale {}", self.scale);
        let (ramp_ns, max_ns) = (self.options.warmup_ns, self.options.runtime_ns);
        client_steps(Program::Mysql, &self.options.clients, self.options.rate, &what, ramp_ns, max_ns)
    }

    fn space(&self) -> Bytes {
        Bytes(SERVER_BYTES + u64::from(self.scale) * u64::from(ACCOUNTS) * ACCOUNT_BYTES)
    }

    fn check(&mut self) -> Result<()> {
        user::for_server(self.options.user.as_deref(), "mysql")?;
        self.tools = Some(Tools::find(self.options.bindir.as_deref())?);
        Ok(())
    }

    fn prepare(&mut self, site: &Site<'_>, watch: &mut dyn Watch) -> Result<(String, Vec<Setting>)> {
        let tools = self.tools.clone().context("the programs have not been searched for")?;
        let user = user::for_server(self.options.user.as_deref(), "mysql")?;
        let most = self.options.clients.iter().copied().max().unwrap_or(1);
        watch.note("creating the server's data");
        let server = self.server.insert(Server::start(&tools, user.as_ref(), &self.options.set, most, site)?);
        watch.note(&format!("filling the tables, scale {}", self.scale));
        load::fill(server.socket(), self.scale, site.cancel).map_err(|error| server.explain(error))?;
        let setting = |name: &str, value: String| Setting { name: name.to_owned(), value };
        let mut settings = vec![
            setting("transaction", "pgbench's tpcb-like".to_owned()),
            setting("scale", format!("{} ({ACCOUNTS} accounts each)", self.scale)),
        ];
        settings.extend(server.settings()?);
        Ok((server.version()?, settings))
    }

    fn load(&mut self, step: &StepPlan, site: &Site<'_>, watch: &mut dyn Watch) -> Result<Loaded> {
        let Work::App(work) = &step.work else { anyhow::bail!("not a load of MySQL") };
        let server = self.server.as_mut().context("the server has not been started")?;
        let socket = server.socket().to_owned();
        let (scale, seed) = (self.scale, site.seed);
        let load = Load { socket: &socket, scale, clients: work.clients, rate: work.rate, seed };
        let before = status(&socket);
        let loaded = load.run(&step.stop, site.cancel, watch).map_err(|error| server.explain(error))?;
        let mut counters = loaded.app.counters;
        if let (Ok(before), Ok(after)) = (before, status(&socket)) {
            counters.extend(counted(&before, &after));
        }
        Ok(Loaded { app: AppStep { counters, ..loaded.app }, ..loaded })
    }

    fn end(&mut self) -> Result<()> {
        self.server = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_throwaway_server_needs_is_not_the_users_to_set() {
        let with = |set: &str| Mysql::new(MysqlOptions { set: vec![set.to_owned()], ..MysqlOptions::default() });
        for set in ["datadir=x", "pid_file=x", "--socket=x", "nothing", "general-log-file=/tmp/x", "log-bin=../x"] {
            assert!(with(set).is_err(), "{set}");
        }
        assert!(with("sync_binlog=1").is_ok());
    }
}
