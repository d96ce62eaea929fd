//! A throwaway cluster: created in its own directory, accessible only to us, removed afterwards.
//!
//! Its server listens on no address, only on a socket in a directory that only its user can enter. Its data is on the
//! measured disk, its socket and messages elsewhere.

use std::ffi::OsString;
use std::fs::File;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::fs::{Mode, OFlags};
use rustix::process::Signal;

use super::access::{Access, Tools};
use crate::program::{Site, private_dir, scratch_in_memory};
use qd1_system::child::{self, Cancelled, Running, last_lines};
use qd1_system::journal::Journal;
use qd1_system::scratch::Scratch;
use qd1_system::segments;
use qd1_system::user::{ReachablePath, User};

/// The database's superuser.
const OWNER: &str = "qd1";
/// Connections besides pgbench's own: psql's, and those reserved for superusers.
const SPARE_CONNECTIONS: u32 = 20;
/// PostgreSQL's own default.
const CONNECTIONS: u32 = 100;
/// Longest wait for a server to be ready, in steps of 20 ms: disks that take 40 ms for a sync are slow to recover on.
const READY_STEPS: u32 = 6_000;
/// Longest wait for a server that closed a connection to end, in the same steps.
const GONE_STEPS: u32 = 250;
/// Longest wait for an immediate shutdown.
const END: Duration = Duration::from_secs(10);
/// Longest postmaster.pid, bytes; it has eight short lines.
const PID_FILE_MAX: u64 = 4096;

/// The cluster; ended and removed by [`Cluster::stop`], or on drop.
pub(crate) struct Cluster {
    server: Running,
    access: Access,
    data: PathBuf,
    messages: PathBuf,
    _reachable: ReachablePath,
    // Dropped last: the directories used by the fields above, and what is left in memory.
    _disk: Scratch,
    _temp: Scratch,
    _memory: Option<Scratch>,
    _segments: Option<Journal>,
}

impl Cluster {
    /// Creates it and starts its server.
    ///
    /// # Errors
    /// If initdb or the server fails; the message has the end of its output. [`Cancelled`] if it was stopped.
    pub(crate) fn start(
        tools: &Tools,
        user: Option<User>,
        set: &[String],
        clients: u32,
        site: &Site<'_>,
    ) -> Result<Self> {
        let (disk, temp) = (site.scratch()?, site.temp_scratch()?);
        if let Some(user) = &user {
            user.must_reach(temp.path())?;
        }
        let (data, sockets) = (disk.path().join("data"), temp.path().join("s"));
        private_dir(&data, user.as_ref())?;
        private_dir(&sockets, user.as_ref())?;
        let reachable = user
            .as_ref()
            .map_or_else(|| Ok(ReachablePath::own(disk.path())), |user| user.reachable_path(disk.path()))?;
        let servers_data = reachable.path().join("data");
        let env = vec![
            ("PGHOST", sockets.clone().into_os_string()),
            ("PGPORT", OsString::from("5432")),
            ("PGUSER", OsString::from(OWNER)),
        ];
        let access = Access { tools: tools.clone(), conninfo: "postgres".into(), env, user };
        let uid = access.user.as_ref().map_or_else(|| rustix::process::geteuid().as_raw(), |user| user.uid);
        // Without a journal, a killed run leaves this behind.
        let segments = segments::watch(site.id, uid).ok();
        // One sync of everything at the end instead of one for each of a thousand files.
        let fixed = ["--auth=trust", "--encoding=UTF8", "--no-locale", "--no-sync", "-U", OWNER, "-D"];
        let args = fixed.into_iter().map(OsString::from).chain([servers_data.clone().into_os_string()]).collect();
        let made = access.client(&tools.initdb, args).output(site.cancel);
        if made.is_err() {
            // A server that it started may run on for a moment.
            child::end_orphans();
        }
        made?;
        rustix::fs::syncfs(File::open(&data)?).context("the new cluster cannot be written to the disk")?;
        let memory = share_memory(&data, access.user.as_ref(), site.id)?;
        let messages = temp.path().join("server.log");
        let server = serve(&access, &servers_data, &sockets, set, clients, &messages)?;
        let mut this = Self {
            server,
            access,
            data,
            messages,
            _reachable: reachable,
            _disk: disk,
            _temp: temp,
            _memory: memory,
            _segments: segments,
        };
        this.wait_until_ready(site)?;
        Ok(this)
    }

    pub(crate) fn access(&self) -> &Access {
        &self.access
    }

    fn wait_until_ready(&mut self, site: &Site<'_>) -> Result<()> {
        for _ in 0..READY_STEPS {
            if let Some(status) = self.server.ended()? {
                bail!("the PostgreSQL server did not start ({status}): {}", self.last_messages());
            }
            if site.is_cancelled() {
                return Err(Cancelled.into());
            }
            if self.pid_file_line(7).is_some_and(|status| status == "ready") {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        bail!("the PostgreSQL server did not become ready in time: {}", self.last_messages())
    }

    /// Returns a line of the server's postmaster.pid, counted from 0. The server's user could put anything there.
    fn pid_file_line(&self, line: usize) -> Option<String> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = rustix::fs::open(self.data.join("postmaster.pid"), flags, Mode::empty()).ok()?;
        let mut text = String::new();
        File::from(file).take(PID_FILE_MAX).read_to_string(&mut text).ok()?;
        Some(text.lines().nth(line)?.trim().to_owned())
    }

    /// Returns the server's last messages: its panics or fatal errors, if any.
    fn last_messages(&self) -> String {
        let text = std::fs::read_to_string(&self.messages).unwrap_or_default();
        let lines_with = |word: &str| text.lines().filter(|line| line.contains(word)).collect::<Vec<_>>().join("\n");
        // Messages after a panic are its consequences.
        let severe = ["PANIC:", "FATAL:"].map(lines_with).into_iter().find(|lines| !lines.is_empty());
        last_lines(severe.as_deref().unwrap_or(&text))
    }

    /// Adds how the server ended, if it did, to a client's error.
    pub(crate) fn explain(&mut self, error: anyhow::Error) -> anyhow::Error {
        if error.is::<Cancelled>() {
            return error;
        }
        // A server takes a moment to end after a client has lost its connection.
        let steps = if lost_its_server(&error.to_string()) { GONE_STEPS } else { 1 };
        for _ in 0..steps {
            if let Ok(Some(status)) = self.server.ended() {
                return error.context(format!("the PostgreSQL server ended ({status}): {}", self.last_messages()));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        error
    }

    /// Ends the server immediately, without a last checkpoint: its data is removed anyway.
    pub(crate) fn stop(&mut self) {
        self.server.stop(Signal::QUIT, END);
        child::end_orphans();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        self.stop();
    }
}

/// Puts the dynamic shared memory of the server's processes into our own files, in memory and not on the measured disk:
/// the default kind outlives a killed server, under names that nobody knows.
fn share_memory(data: &Path, user: Option<&User>, id: &str) -> Result<Option<Scratch>> {
    let Some(memory) = scratch_in_memory(id) else { return Ok(None) };
    let (to, usual) = (memory.path().join("dsm"), data.join("pg_dynshmem"));
    private_dir(&to, user)?;
    let moved = std::fs::remove_dir(&usual).and_then(|()| std::os::unix::fs::symlink(&to, &usual));
    moved.with_context(|| format!("cannot move {}", usual.display()))?;
    Ok(Some(memory))
}

fn serve(
    access: &Access,
    data: &Path,
    sockets: &Path,
    set: &[String],
    clients: u32,
    messages: &Path,
) -> Result<Running> {
    let connections = CONNECTIONS.max(clients + SPARE_CONNECTIONS);
    let mut settings = vec![format!("max_connections={connections}")];
    if access.tools.major >= 14 {
        settings.push("track_wal_io_timing=on".to_owned());
    }
    settings.extend(set.iter().cloned());
    // Last, so that no other setting overrides who can reach it.
    let socket_dir = format!("unix_socket_directories={}", sockets.display());
    settings.extend(["listen_addresses=", &socket_dir, "unix_socket_permissions=0700", "port=5432"].map(str::to_owned));
    settings.push("dynamic_shared_memory_type=mmap".to_owned());
    settings.extend(["logging_collector=off", "log_destination=stderr"].map(str::to_owned));
    // After a restart, nobody would report why the server ended.
    settings.push("restart_after_crash=off".to_owned());
    let mut args = vec![OsString::from("-D"), data.as_os_str().to_owned()];
    args.extend(settings.into_iter().flat_map(|setting| [OsString::from("-c"), setting.into()]));
    let log = File::create(messages).with_context(|| format!("cannot write {}", messages.display()))?;
    let mut server = access.client(&access.tools.postgres, args);
    server.on_death = Signal::QUIT;
    server.start(log.try_clone()?.into(), log.into(), false)
}

/// Whether a client's message says that its server is gone. pgbench prints one of several, depending on what it notices
/// first.
fn lost_its_server(message: &str) -> bool {
    ["connection", "backend died", "Run was aborted"].iter().any(|words| message.contains(words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After a backend died, nobody waited for the server to end.
    #[test]
    fn a_client_that_lost_its_server_is_known_by_its_message() {
        let aborted = "pgbench: error: client 0 aborted in command 4 (SQL) of script 0; perhaps the backend died while \
                       processing\npgbench: error: Run was aborted; the above results are incomplete.";
        assert!(lost_its_server(aborted));
        assert!(lost_its_server("server closed the connection unexpectedly"));
        assert!(!lost_its_server("psql: ERROR:  relation \"a\" does not exist"));
    }
}
