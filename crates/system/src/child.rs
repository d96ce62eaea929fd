//! Programs that are started for a run and must not outlive it, however it ends.
//!
//! Each is started through `qd1 __guard`, which asks the kernel for a signal when qd1 dies, even by SIGKILL, and then
//! becomes the program. It has its own process group, so that Ctrl-C in a terminal reaches only qd1, which ends it
//! properly. The children of a killed server (PostgreSQL's backends) are reparented to qd1 as the subreaper and are
//! ended too.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::Read as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use qd1_clock as clock;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions};

use crate::user::User;

/// Time between two checks while waiting for a program.
const POLL: Duration = Duration::from_millis(20);
/// Tells the guard to run the program as the user of qd1.
const OWN: &str = "-";
/// The environment variables that a program of another user gets.
const FOR_ALL: [&str; 3] = ["PATH", "LD_LIBRARY_PATH", "TZ"];
/// Last lines of a program's messages that an error quotes.
const QUOTED_LINES: usize = 4;

/// Children that qd1 already had before exec, such as the server of a filesystem that it runs on.
static OTHERS: Mutex<Vec<Pid>> = Mutex::new(Vec::new());

/// Makes qd1 the parent of its children's orphans from now on (the subreaper).
pub fn adopt_orphans() {
    // Never refused; without it a killed server's helpers would be reparented to init.
    let _ = rustix::process::set_child_subreaper(Some(rustix::process::getpid()));
    *OTHERS.lock().unwrap_or_else(PoisonError::into_inner) = children();
}

/// A program to be started.
pub struct Program<'a> {
    /// Its executable file.
    pub file: &'a Path,
    /// Its arguments.
    pub args: Vec<OsString>,
    /// The user it runs as; `None` for the user of qd1.
    pub user: Option<&'a User>,
    /// The signal it receives when qd1 dies.
    pub on_death: Signal,
    /// Variables of its environment.
    pub env: Vec<(&'static str, OsString)>,
    /// Its working directory.
    pub dir: &'a Path,
}

impl<'a> Program<'a> {
    /// A program to be started as the user of qd1, in the root directory, and killed when qd1 dies.
    pub fn new(file: &'a Path, args: &[&dyn AsRef<OsStr>]) -> Self {
        Self {
            file,
            args: args.iter().map(|arg| (*arg).as_ref().to_owned()).collect(),
            user: None,
            on_death: Signal::KILL,
            env: Vec::new(),
            dir: Path::new("/"),
        }
    }

    /// Sets the user to run as.
    pub fn user(self, user: Option<&'a User>) -> Self {
        Self { user, ..self }
    }

    /// Starts it with these streams. With `hold`, it waits for a byte on its stdin before it becomes the program.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(&self, stdout: Stdio, stderr: Stdio, hold: bool) -> Result<Running> {
        let mut command = Command::new("/proc/self/exe");
        command.arg("__guard").arg(self.on_death.as_raw().to_string());
        command.arg(rustix::process::getpid().as_raw_nonzero().to_string());
        // The guard switches the user, not we: that user may not be able to run our file.
        let user = self.user.map_or_else(|| OWN.to_owned(), |user| format!("{}:{}", user.uid, user.gid));
        command.arg(if hold { "hold" } else { "go" }).arg("--").arg(user).arg(self.file).args(&self.args);
        command.stdin(if hold { Stdio::piped() } else { Stdio::null() }).stdout(stdout).stderr(stderr);
        // The user's own client settings (PGHOST, PGOPTIONS, ETCDCTL_ENDPOINTS) are not meant for our servers.
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            // Another user must not see the rest, which may contain passwords.
            let is_others = self.user.is_some() && !FOR_ALL.contains(&text.as_ref());
            if is_others || self.clears(&text) {
                command.env_remove(name);
            }
        }
        command.envs(self.env.iter().map(|(name, value)| (name, value))).env("LC_ALL", "C");
        command.current_dir(self.dir).process_group(0);
        let name = self.file.file_name().unwrap_or(self.file.as_os_str()).to_string_lossy().into_owned();
        let child = command.spawn().with_context(|| format!("cannot start {}", self.file.display()))?;
        Ok(Running { child, name })
    }

    /// Returns true for variables to remove from the environment of our servers. Those of an existing server stay
    /// (`env` has no PGHOST then), since its user set them for it.
    fn clears(&self, name: &str) -> bool {
        let ours = self.env.iter().any(|(name, _)| *name == "PGHOST");
        (ours && name.starts_with("PG")) || name.starts_with("ETCD")
    }

    /// Runs it to its end, or until `cancel`, and returns its stdout.
    ///
    /// # Errors
    /// When it fails; the message includes the end of its output. [`Cancelled`] when it was stopped.
    pub fn output(&self, cancel: &AtomicBool) -> Result<String> {
        let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
        let mut running = self.start(stdout.try_clone()?.into(), stderr.try_clone()?.into(), false)?;
        let status = loop {
            if let Some(status) = running.ended()? {
                break status;
            }
            if cancel.load(Ordering::Relaxed) {
                drop(running);
                return Err(Cancelled.into());
            }
            std::thread::sleep(POLL);
        };
        let (out, err) = (read_whole(&mut stdout)?, read_whole(&mut stderr)?);
        if !status.success() {
            let text = if err.trim().is_empty() { &out } else { &err };
            bail!("{} failed ({status}): {}", running.name, last_lines(text));
        }
        Ok(out)
    }
}

/// The run was stopped by a signal, which is not a failure.
#[derive(Debug)]
pub struct Cancelled;

impl std::fmt::Display for Cancelled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("stopped")
    }
}

impl std::error::Error for Cancelled {}

/// Returns the whole content of a file.
pub fn read_whole(file: &mut File) -> Result<String> {
    use std::io::Seek as _;
    file.rewind()?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Returns the last lines of a program's output, joined into one.
pub fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    lines[lines.len().saturating_sub(QUOTED_LINES)..].join("; ")
}

/// A running program; killed with its group when dropped.
pub struct Running {
    child: Child,
    /// Its name, for messages.
    pub name: String,
}

impl Running {
    /// Returns its process id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Lets a program that was started with `hold` continue.
    ///
    /// # Errors
    /// When it was not held, or has ended.
    pub fn release(&mut self) -> Result<()> {
        use std::io::Write as _;
        let mut stdin = self.child.stdin.take().context("it was not started on hold")?;
        stdin.write_all(b"x").with_context(|| format!("{} did not start", self.name))
    }

    /// Returns its status; `None` while it runs.
    ///
    /// # Errors
    /// When the kernel has no such child.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        self.child.try_wait().with_context(|| format!("cannot wait for {}", self.name))
    }

    /// Asks it to exit with `signal`, and kills it if that takes longer than `patience`.
    pub fn stop(&mut self, signal: Signal, patience: Duration) {
        if matches!(self.ended(), Ok(None)) {
            let _ = rustix::process::kill_process(Pid::from_child(&self.child), signal);
            let until_ns = clock::now_ns() + patience.as_nanos() as u64;
            while matches!(self.ended(), Ok(None)) && clock::now_ns() < until_ns {
                std::thread::sleep(POLL);
            }
        }
        self.kill();
    }

    fn kill(&mut self) {
        if matches!(self.ended(), Ok(None)) {
            // The group first: its leader's id cannot be reused until we have waited for it.
            let _ = rustix::process::kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

/// Ends the orphans of programs that are now qd1's children: all its children except those that run qd1's own file and
/// those that existed before.
pub fn end_orphans() {
    let others = OTHERS.lock().unwrap_or_else(PoisonError::into_inner).clone();
    let own = std::fs::read_link("/proc/self/exe").ok();
    // A killed server's processes exit on their own within moments, and some become ours only then.
    for _ in 0..50 {
        let is_stray = |pid: &Pid| exe_of(*pid) != own && !others.contains(pid);
        let strays: Vec<Pid> = children().into_iter().filter(is_stray).collect();
        if strays.is_empty() {
            return;
        }
        for pid in strays {
            let _ = rustix::process::kill_process(pid, Signal::KILL);
            let _ = rustix::process::waitpid(Some(pid), WaitOptions::NOHANG);
        }
        std::thread::sleep(POLL);
    }
}

fn exe_of(pid: Pid) -> Option<std::path::PathBuf> {
    std::fs::read_link(format!("/proc/{}/exe", pid.as_raw_nonzero())).ok()
}

fn children() -> Vec<Pid> {
    let me = rustix::process::getpid().as_raw_nonzero().get();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    pids.filter(|pid| parent_of(*pid) == Some(me)).filter_map(Pid::from_raw).collect()
}

/// Reads the parent from /proc/PID/stat, whose second field is a name in parentheses that may contain any characters.
fn parent_of(pid: i32) -> Option<i32> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}

/// `qd1 __guard SIGNAL PARENT go|hold -- UID:GID PROGRAM ARGS`: becomes the program, as that user (`-`: our own), which
/// receives the signal when the parent dies.
///
/// # Errors
/// When it cannot become the program.
pub fn guard(signal: i32, parent: i32, hold: bool, command: &[OsString]) -> Result<ExitCode> {
    let signal = Signal::from_named_raw(signal).context("no such signal")?;
    let [user, program, args @ ..] = command else { bail!("no program") };
    // Before the signal is requested: the kernel forgets that request when the user changes.
    if user != OWN {
        become_user(&user.to_string_lossy()).with_context(|| format!("cannot become the user {}", user.display()))?;
    }
    rustix::process::set_parent_process_death_signal(Some(signal)).context("no signal for the parent's death")?;
    // It may have died before the request.
    let parent_lives = || rustix::process::getppid().is_some_and(|pid| pid.as_raw_nonzero().get() == parent);
    let mut byte = [0];
    if !parent_lives() || (hold && std::io::stdin().read(&mut byte).unwrap_or(0) == 0) {
        return Ok(ExitCode::FAILURE);
    }
    let mut command_line = Command::new(program);
    if hold {
        command_line.stdin(Stdio::null());
    }
    Err(command_line.args(args).exec()).with_context(|| format!("cannot run {}", Path::new(program).display()))
}

/// Permanently becomes a user, given as `UID:GID`. This affects only the calling thread; the guard has no other.
fn become_user(user: &str) -> Result<()> {
    let (uid, gid) = user.split_once(':').context("no UID:GID")?;
    rustix::thread::set_thread_groups(&[])?;
    rustix::thread::set_thread_gid(Gid::from_raw(gid.parse()?))?;
    rustix::thread::set_thread_uid(Uid::from_raw(uid.parse()?))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_fails_is_quoted_by_its_last_lines() {
        let text = "one\n\ntwo\nthree\nfour\nfive\n";
        assert_eq!(last_lines(text), "two; three; four; five");
        assert_eq!(last_lines(""), "");
    }

    #[test]
    fn a_name_with_parentheses_does_not_hide_the_parent() {
        let me = rustix::process::getpid().as_raw_nonzero().get();
        let parent = rustix::process::getppid().unwrap().as_raw_nonzero().get();
        assert_eq!(parent_of(me), Some(parent));
    }
}
