//! The kinds of changes to the system, and how each is undone.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};

use crate::scratch::{self, Held};
use crate::segments::Segments;
use crate::tool::{find, retry_while_busy, tool};
use crate::{loops, mounts, schema};

/// Prefix of the names of our ZFS pools.
pub const POOL_PREFIX: &str = "qd1_";
/// The servers that a journal may name.
const DAEMONS: [&str; 1] = ["zfs-fuse"];
/// One change of the system. A new kind is a variant here and an arm in [`Change::undo`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "change", rename_all = "snake_case")]
pub enum Change {
    /// A scratch directory of ours, with its contents.
    Scratch {
        /// Its path.
        dir: PathBuf,
    },
    /// Loop devices over this file.
    Loop {
        /// Path of the file.
        file: PathBuf,
    },
    /// A mount on this directory.
    Mount {
        /// The directory.
        point: PathBuf,
    },
    /// A ZFS pool.
    Pool {
        /// Its name.
        name: String,
    },
    /// A server that we started; its process id is in the file.
    Daemon {
        /// Its name, as the kernel shows it.
        program: String,
        /// Path of the file.
        pidfile: PathBuf,
    },
    /// Shared memory that one of our PostgreSQL servers leaves behind when it is killed.
    Segments {
        /// Segments that existed before.
        before: Segments,
    },
    /// A schema in somebody's PostgreSQL server.
    Schema {
        /// How to connect to it, without secrets.
        server: String,
        /// Its name.
        name: String,
    },
}

/// An environment variable that undoing needs and that must not be in the journal, such as PGPASSWORD.
pub type Secret = (&'static str, OsString);

impl Change {
    /// Returns true if it names only things that qd1 makes.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Scratch { dir } => is_direct(dir) && scratch::is_scratch(dir),
            Self::Loop { file: path } | Self::Mount { point: path } => is_direct(path) && scratch::is_inside(path),
            Self::Pool { name } => name.starts_with(POOL_PREFIX),
            Self::Daemon { program, pidfile } => {
                DAEMONS.contains(&program.as_str()) && is_direct(pidfile) && scratch::is_inside(pidfile)
            }
            Self::Segments { before } => before.is_ours(),
            Self::Schema { name, .. } => schema::is_ours(name),
        }
    }

    /// Returns the change with paths that another process can use: our descriptors mean nothing to it.
    pub(crate) fn resolved(mut self) -> Result<Self> {
        match &mut self {
            Self::Scratch { dir: path }
            | Self::Loop { file: path }
            | Self::Mount { point: path }
            | Self::Daemon { pidfile: path, .. } => {
                if let (Some(dir), Some(name)) =
                    (path.parent().filter(|dir| dir.starts_with("/proc/self")), path.file_name())
                {
                    *path = std::fs::canonicalize(dir)?.join(name);
                }
            }
            Self::Pool { .. } | Self::Segments { .. } | Self::Schema { .. } => {}
        }
        Ok(self)
    }

    /// Undoes the change; returns what was done, or `None` when nothing was left to undo.
    ///
    /// # Errors
    /// When it is in use, or names something that qd1 does not make.
    pub(crate) fn undo(&self, held: &[(PathBuf, Held)], env: &[Secret]) -> Result<Option<String>> {
        ensure!(self.is_ours(), "not something that qd1 makes, so it is left alone: {}", serde_json::to_string(self)?);
        let message = |done: bool, text: String| done.then_some(text);
        Ok(match self {
            Self::Scratch { dir } => {
                let is_removed =
                    held_as(held, dir).map_or_else(|| scratch::clear(dir), |held| held.clear().map(|()| true));
                message(is_removed?, format!("removed {}", dir.display()))
            }
            Self::Loop { file } => {
                message(inside(held, file, &loops::detach)?, format!("detached the loop device of {}", file.display()))
            }
            Self::Mount { point } => {
                message(inside(held, point, &mounts::unmount)?, format!("unmounted {}", point.display()))
            }
            Self::Pool { name } => message(destroy_pool(name)?, format!("destroyed the pool {name}")),
            Self::Daemon { program, pidfile } => {
                message(inside(held, pidfile, &|pidfile| end(program, pidfile))?, format!("ended {program}"))
            }
            Self::Segments { before } => {
                let removed = before.clear()?;
                message(!removed.is_empty(), format!("removed {}", removed.join(", ")))
            }
            Self::Schema { server, name } => {
                message(schema::drop_schema(server, name, env)?, format!("dropped the schema {name}"))
            }
        })
    }
}

fn held_as<'a>(held: &'a [(PathBuf, Held)], dir: &Path) -> Option<&'a Held> {
    held.iter().find(|(path, _)| path == dir).map(|(_, held)| held)
}

/// Undoes what is in a scratch directory, wherever that is now. Another directory with its name has nothing of ours.
fn inside(held: &[(PathBuf, Held)], path: &Path, undo: &dyn Fn(&Path) -> Result<bool>) -> Result<bool> {
    let dir = path.ancestors().skip(1).find(|dir| scratch::is_scratch(dir)).context("not in a scratch directory")?;
    let place = match held_as(held, dir) {
        Some(held) => held.place()?,
        None => Held::open(dir)?.map_or(Ok(None), |held| held.place())?,
    };
    place.map_or(Ok(false), |place| undo(&place.join(path.strip_prefix(dir)?)))
}

/// Whether a path is absolute and without `..`, so that it really is inside the directory it appears to be in.
fn is_direct(path: &Path) -> bool {
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

/// Destroys a pool; returns false if it does not exist, as when its daemon and disk are gone.
fn destroy_pool(name: &str) -> Result<bool> {
    if find("zpool").is_none() || tool("zpool", &["list", name]).is_err() {
        return Ok(false);
    }
    retry_while_busy(|| Ok(tool("zpool", &["destroy", "-f", name]).is_ok()))?
        .then_some(true)
        .with_context(|| format!("the pool {name} is still in use; when it is free, run: zpool destroy -f {name}"))
}

/// Ends the process whose id is in `pidfile` if it is still `program`; returns true if it was running.
fn end(program: &str, pidfile: &Path) -> Result<bool> {
    let number = std::fs::read_to_string(pidfile).ok().and_then(|text| text.trim().parse::<i32>().ok());
    let Some(pid) = number.and_then(Pid::from_raw) else { return Ok(false) };
    let proc = PathBuf::from(format!("/proc/{}", pid.as_raw_nonzero()));
    let lives = || {
        // Our own child must be reaped.
        let _ = rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::NOHANG);
        let name = std::fs::read_to_string(proc.join("comm")).unwrap_or_default();
        let stat = std::fs::read_to_string(proc.join("stat")).unwrap_or_default();
        // A zombie counts as ended.
        let ended = stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('Z'));
        // The kernel keeps fifteen letters of a name.
        name.trim_end() == &program[..program.len().min(15)] && !ended
    };
    if !lives() {
        return Ok(false);
    }
    let _ = rustix::process::kill_process(pid, Signal::TERM);
    if !retry_while_busy(|| Ok(!lives()))? {
        let _ = rustix::process::kill_process(pid, Signal::KILL);
        ensure!(retry_while_busy(|| Ok(!lives()))?, "{program} (process {}) does not exit", pid.as_raw_nonzero());
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `restore` used to undo whatever a journal named: any mount, loop device, process or pool.
    #[test]
    fn what_qd1_does_not_make_is_not_undone() {
        for change in [
            Change::Mount { point: "/home".into() },
            Change::Mount { point: "/d/.qd1-scratch-0/../../home".into() },
            Change::Loop { file: ".qd1-scratch-0/disk.img".into() },
            Change::Scratch { dir: "/home/u/../.qd1-scratch-0".into() },
            Change::Loop { file: "/var/disk.img".into() },
            Change::Scratch { dir: "/home/u".into() },
            Change::Pool { name: "tank".to_owned() },
            Change::Daemon { program: "sshd".to_owned(), pidfile: "/run/sshd.pid".into() },
            Change::Daemon { program: "zfs-fuse".to_owned(), pidfile: "/run/zfs-fuse.pid".into() },
        ] {
            let error = change.undo(&[], &[]).unwrap_err().to_string();
            assert!(error.contains("left alone"), "{change:?}: {error}");
        }
    }

    /// The owner of the directory replaced a scratch directory with a link: another's loop device was detached, and
    /// what was mounted elsewhere unmounted.
    #[test]
    fn what_is_in_the_directory_of_others_is_not_undone() {
        let dir = tempfile::tempdir().unwrap();
        let (elsewhere, name) = (dir.path().join("elsewhere"), dir.path().join(".qd1-scratch-0"));
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &name).unwrap();
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(elsewhere.join("pid"), sleeper.id().to_string()).unwrap();
        let daemon = |dir: &Path| -> Result<bool> { end("sleep", &dir.join("pid")) };
        assert!(inside(&[], &name.join("x"), &|path| daemon(path.parent().unwrap())).is_ok_and(|done| !done));
        assert!(sleeper.try_wait().unwrap().is_none(), "it goes on");
        // In one of our directories, wherever that was moved, it is ended.
        let scratch = scratch::Scratch::create(dir.path(), "1").unwrap();
        let at = dir.path().canonicalize().unwrap();
        let made = std::fs::read_dir(&at).unwrap().flatten().map(|entry| entry.path());
        let made = made.into_iter().find(|path| scratch::is_scratch(path) && !path.is_symlink()).unwrap();
        std::fs::write(scratch.path().join("pid"), sleeper.id().to_string()).unwrap();
        std::fs::rename(&made, at.join("moved")).unwrap();
        let held = [(made.clone(), scratch.held().unwrap())];
        assert!(inside(&held, &made.join("pid"), &|path| end("sleep", path)).unwrap());
        assert!(!sleeper.wait().is_ok_and(|status| status.success()));
    }

    #[test]
    fn undoing_what_is_not_there_does_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let inside = dir.path().join(".qd1-scratch-0");
        for change in [
            Change::Mount { point: inside.join("mount") },
            Change::Loop { file: inside.join("disk.img") },
            Change::Scratch { dir: inside.clone() },
            Change::Daemon { program: "zfs-fuse".to_owned(), pidfile: inside.join("pid") },
        ] {
            assert_eq!(change.undo(&[], &[]).unwrap(), None, "{change:?}");
        }
    }

    #[test]
    fn only_the_program_that_was_started_is_ended() {
        let dir = tempfile::tempdir().unwrap();
        let pidfile = dir.path().join("pid");
        let mut sleeper = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        std::fs::write(&pidfile, sleeper.id().to_string()).unwrap();
        assert!(!end("other", &pidfile).unwrap());
        assert!(sleeper.try_wait().unwrap().is_none());
        assert!(end("sleep", &pidfile).unwrap());
        // Reaped already, or to be reaped now: it did not exit on its own.
        assert!(!sleeper.wait().is_ok_and(|status| status.success()));
    }
}
