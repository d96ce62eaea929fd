//! A throwaway MySQL or MariaDB server: its data is on the measured disk, its socket and messages are elsewhere; it
//! reads none of the machine's own configuration and opens no port.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_model::record::program::{AppUnit, Counter, Setting};
use qd1_model::{Problem, ProblemKind};
use qd1_system::child::{Cancelled, Program, Running, last_lines};
use qd1_system::scratch::Scratch;
use qd1_system::user::{ReachablePath, User};
use rustix::process::Signal;

use super::ACCOUNT;
use super::client::Client;
use crate::find;
use crate::program::{Site, private_dir};

/// Longest wait for the server to answer, in steps of [`POLL`].
const READY_STEPS: u32 = 6_000;
const POLL: Duration = Duration::from_millis(20);
const END: Duration = Duration::from_secs(10);

/// The server's programs.
#[derive(Clone, Debug)]
pub(super) struct Tools {
    server: PathBuf,
    /// Creates MariaDB's system tables; MySQL's server does this itself.
    install: Option<PathBuf>,
}

impl Tools {
    /// Searches for MariaDB, then for MySQL.
    ///
    /// # Errors
    /// If neither is installed.
    pub(super) fn find(bindir: Option<&Path>) -> Result<Self> {
        let mut dirs = find::dirs(bindir);
        if bindir.is_none() {
            dirs.extend(["/usr/sbin", "/usr/libexec", "/usr/local/mysql/bin"].map(PathBuf::from));
        }
        let install = find::among("mariadb-install-db", &dirs).or_else(|| find::among("mysql_install_db", &dirs));
        if let Some(server) = find::among("mariadbd", &dirs).filter(|_| install.is_some()) {
            // The script reads its options with this program, which is in another package that a container may lack.
            find::needed("my_print_defaults", &dirs, "mariadb-client-core")?;
            return Ok(Self { server, install });
        }
        if let Some(server) = find::among("mysqld", &dirs) {
            // MariaDB's server may have this name as well, and needs the script to create its data.
            let real = server.canonicalize().unwrap_or_default();
            if install.is_none() && real.file_name().is_some_and(|name| name.to_string_lossy().contains("mariadb")) {
                let message = format!(
                    "{} belongs to MariaDB, but mariadb-install-db, which creates its data, is not in PATH; name its \
                     directory with --bindir",
                    server.display()
                );
                return Err(Problem::new(ProblemKind::Capability, message).into());
            }
            return Ok(Self { server, install });
        }
        let message = "neither mariadbd (with mariadb-install-db) nor mysqld is installed or in PATH; on Debian and \
                       Ubuntu: apt-get install mariadb-server; elsewhere name its directory with --bindir";
        Err(Problem::new(ProblemKind::Capability, message).into())
    }
}

/// The server; ended and removed when dropped.
pub(super) struct Server {
    running: Running,
    socket: PathBuf,
    messages: PathBuf,
    _reachable: ReachablePath,
    // Dropped last, because the server uses them.
    _disk: Scratch,
    _temp: Scratch,
}

impl Server {
    /// Creates its data and starts it.
    ///
    /// # Errors
    /// If it does not start; the message ends with the server's last messages. [`Cancelled`] if it was stopped.
    pub(super) fn start(
        tools: &Tools,
        user: Option<&User>,
        set: &[String],
        clients: u32,
        site: &Site<'_>,
    ) -> Result<Self> {
        let (disk, temp) = (site.scratch()?, site.temp_scratch()?);
        if let Some(user) = user {
            user.must_reach(temp.path())?;
        }
        let (data, place) = (disk.path().join("data"), temp.path().join("s"));
        private_dir(&data, user)?;
        private_dir(&place, user)?;
        let reachable =
            user.map_or_else(|| Ok(ReachablePath::own(disk.path())), |user| user.reachable_path(disk.path()))?;
        let servers_data = reachable.path().join("data");
        make_data(tools, user, &servers_data, &place, site)?;
        rustix::fs::syncfs(File::open(&data)?).context("the new data cannot be written to the disk")?;
        let (socket, messages) = (place.join("socket"), temp.path().join("server.log"));
        let mut settings = vec![format!("--max-connections={}", clients + 10)];
        settings.extend(set.iter().map(|set| format!("--{set}")));
        // Last, so that no other setting overrides who can reach it.
        settings.extend([
            format!("--datadir={}", servers_data.display()),
            format!("--socket={}", socket.display()),
            format!("--pid-file={}", place.join("pid").display()),
            format!("--tmpdir={}", place.display()),
            "--skip-networking".to_owned(),
        ]);
        let mut program = Program::new(&tools.server, &[&"--no-defaults"]).user(user);
        program.args.extend(settings.into_iter().map(OsString::from));
        let log = File::create(&messages).with_context(|| format!("cannot write {}", messages.display()))?;
        let running = program.start(log.try_clone()?.into(), log.into(), false)?;
        let mut this = Self { running, socket, messages, _reachable: reachable, _disk: disk, _temp: temp };
        this.wait_until_ready(site)?;
        Ok(this)
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    fn wait_until_ready(&mut self, site: &Site<'_>) -> Result<()> {
        for _ in 0..READY_STEPS {
            if let Some(status) = self.running.ended()? {
                bail!("the server did not start ({status}): {}", self.last_messages());
            }
            if site.is_cancelled() {
                return Err(Cancelled.into());
            }
            if self.socket.exists() && Client::connect(&self.socket, ACCOUNT).is_ok() {
                return Ok(());
            }
            std::thread::sleep(POLL);
        }
        bail!("the server did not become ready in time: {}", self.last_messages())
    }

    fn last_messages(&self) -> String {
        let text = std::fs::read_to_string(&self.messages).unwrap_or_default();
        let errors = text.lines().filter(|line| line.contains("[ERROR]")).collect::<Vec<_>>().join("\n");
        last_lines(if errors.is_empty() { &text } else { &errors })
    }

    /// Adds how the server ended, if it did, to a client's error.
    pub(super) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        match self.running.ended() {
            Ok(Some(status)) if !error.is::<Cancelled>() => {
                error.context(format!("the server ended ({status}): {}", self.last_messages()))
            }
            _ => error,
        }
    }

    /// Returns the server's version.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn version(&self) -> Result<String> {
        let mut version = String::new();
        Client::connect(&self.socket, ACCOUNT)?.rows("select version()", |row| version = row.concat())?;
        Ok(version)
    }

    /// Returns the settings that decide what a commit costs.
    ///
    /// # Errors
    /// When it does not answer.
    pub(super) fn settings(&self) -> Result<Vec<Setting>> {
        let names = DECISIVE.map(|name| format!("'{name}'")).join(",");
        let mut settings = Vec::new();
        let query = format!("show global variables where variable_name in ({names})");
        Client::connect(&self.socket, ACCOUNT)?.rows(&query, |row| {
            if let [name, value] = &row[..] {
                settings.push(Setting { name: name.clone(), value: value.clone() });
            }
        })?;
        Ok(settings)
    }
}

/// Returns the counters of the server at `socket` that [`counted`] compares.
///
/// # Errors
/// When it does not answer.
pub(super) fn status(socket: &Path) -> Result<Vec<(String, f64)>> {
    let names = COUNTERS.map(|(name, ..)| format!("'{name}'")).join(",");
    let mut status = Vec::new();
    let query = format!("show global status where variable_name in ({names})");
    Client::connect(socket, ACCOUNT)?.rows(&query, |row| {
        if let [name, value] = &row[..] {
            status.extend(value.parse().ok().map(|value| (name.clone(), value)));
        }
    })?;
    Ok(status)
}

impl Drop for Server {
    fn drop(&mut self) {
        // Its data is removed too, so it need not write anything out.
        self.running.stop(Signal::KILL, END);
    }
}

/// Settings that decide what a commit costs.
const DECISIVE: [&str; 8] = [
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_use_fdatasync",
    "innodb_doublewrite",
    "innodb_buffer_pool_size",
    "innodb_log_file_size",
    "log_bin",
    "sync_binlog",
];

/// The server's counters, and our names for them.
const COUNTERS: [(&str, &str, AppUnit); 2] =
    [("Innodb_os_log_fsyncs", "wal_sync", AppUnit::Count), ("Innodb_os_log_written", "wal_bytes", AppUnit::Bytes)];

/// Returns the change in the counters between two readings.
pub(super) fn counted(before: &[(String, f64)], after: &[(String, f64)]) -> Vec<Counter> {
    let change = |name: &str| {
        let value =
            |of: &[(String, f64)]| of.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, v)| *v);
        Some(value(after)? - value(before)?)
    };
    COUNTERS.iter().filter_map(|(name, ours, unit)| Some(Counter::new(*ours, *unit, change(name)?))).collect()
}

/// Creates the system tables, with an account that has no password and can be reached only through the socket.
fn make_data(tools: &Tools, user: Option<&User>, data: &Path, place: &Path, site: &Site<'_>) -> Result<()> {
    let datadir = format!("--datadir={}", data.display());
    let made = match &tools.install {
        Some(install) => {
            let mut program = Program::new(install, &[&"--no-defaults", &datadir]).user(user);
            let args = ["--auth-root-authentication-method=normal", "--skip-test-db", "--skip-name-resolve"];
            program.args.extend(args.map(OsString::from));
            program.args.push(format!("--tmpdir={}", place.display()).into());
            program.output(site.cancel)
        }
        None => Program::new(&tools.server, &[&"--no-defaults", &"--initialize-insecure", &datadir])
            .user(user)
            .output(site.cancel),
    };
    made.map(drop)
        .map_err(|error| {
            // Its last lines are advice; the failure comes before them.
            let text = format!("{error:#}");
            let errors: Vec<&str> = text.lines().filter(|line| line.contains("ERROR")).collect();
            if errors.is_empty() { error } else { anyhow::anyhow!("{}", errors.join("; ")) }
        })
        .context("the server's data could not be created")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_compared_by_name_and_missing_ones_left_out() {
        let at = |value: f64| vec![("Innodb_os_log_fsyncs".to_owned(), value)];
        let counted = counted(&at(10.0), &at(25.0));
        assert_eq!(counted.iter().map(|one| (one.name.as_str(), one.value)).collect::<Vec<_>>(), [("wal_sync", 15.0)]);
    }
}
