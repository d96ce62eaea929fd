//! Settings of databases and stores that are found on the machine: where their files are, and what these say.
//!
//! What a running server was given by other means (`SET GLOBAL`, `CONFIG SET`) is in no file and is not seen. SQLite
//! has no configuration: each program sets `PRAGMA synchronous` and `journal_mode` for itself.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use qd1_model::setting::{AfterBoot, Assignment, SettingKind};

use super::{Reader, etcd, mysql, postgres, redis};
use crate::names_in;

/// More processes than this are not looked at.
const PROCESSES_MAX: usize = 20_000;
/// The programs, as their files are named. Redis is one file with its tools, whose name may be that of a tool.
const PROGRAMS: [&str; 8] = [
    "postgres",
    "postmaster",
    "etcd",
    "redis-server",
    "redis-check-rdb",
    "valkey-server",
    "valkey-check-rdb",
    "keydb-server",
];
/// Ordinary users begin here (login.defs(5)); nobody is above it.
const USER_MIN: u32 = 1000;
/// Assignments of one setting that are kept.
const ASSIGNMENTS_MAX: usize = 100;

pub(super) fn read(reader: &mut Reader<'_>) {
    let processes = processes(reader);
    postgres::read(reader, &processes);
    mysql::read(reader);
    etcd::read(reader, &processes);
    redis::read(reader, &processes);
}

/// A process of a program that is looked at, and its command line.
pub(super) struct Process {
    number: String,
    /// The user that it runs as.
    user: u32,
    program: String,
    pub(super) words: Vec<String>,
}

impl Process {
    /// Whether its program has one of these file names.
    pub(super) fn is(&self, programs: &[&str]) -> bool {
        programs.contains(&self.program.as_str())
    }

    /// The value of the last option with this name, as `-D DIR`, `--name=value` or `--name value`.
    pub(super) fn option(&self, name: &str) -> Option<&str> {
        let mut found = None;
        for (at, word) in self.words.iter().enumerate().skip(1) {
            if let Some(rest) = word.strip_prefix(name) {
                match rest.strip_prefix('=') {
                    Some(value) => found = Some(value),
                    None if rest.is_empty() => found = self.words.get(at + 1).map(String::as_str),
                    // `-D/dir`.
                    None if name.len() == 2 => found = Some(rest),
                    None => {}
                }
            }
        }
        found
    }
}

/// The processes of these programs. Any user can start one under such a name, with a configuration that only looks like
/// a server's; those are listed instead.
fn processes(reader: &mut Reader<'_>) -> Vec<Process> {
    let names = names_in(&reader.machine.below("/proc"));
    let numbers = names.into_iter().filter(|name| name.bytes().all(|letter| letter.is_ascii_digit()));
    let all: Vec<Process> = numbers.take(PROCESSES_MAX).filter_map(|number| process(reader, number)).collect();
    let (trusted, others) = all.into_iter().partition::<Vec<_>, _>(|process| is_system_user(process.user, own_user()));
    let mut users = Vec::new();
    for process in others {
        if !users.contains(&process.user) {
            users.push(process.user);
            distrust(reader, &process);
        }
    }
    trusted
}

fn process(reader: &Reader<'_>, number: String) -> Option<Process> {
    let dir = format!("/proc/{number}");
    let user = fs::metadata(reader.machine.below(&dir)).ok()?.uid();
    let exe = fs::read_link(reader.machine.below(format!("{dir}/exe")));
    let words =
        || -> Vec<String> { reader.machine.text(format!("{dir}/cmdline")).split('\0').map(str::to_owned).collect() };
    let path = match exe {
        Ok(path) => path.to_string_lossy().trim_end_matches(" (deleted)").to_owned(),
        // Root may read it of any process, and what another user reads here changes nothing for root.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => words()[0].clone(),
        Err(_) => return None,
    };
    let program = path.rsplit('/').next().unwrap_or_default();
    let program = program.split(':').next().unwrap_or_default().to_owned();
    PROGRAMS.contains(&program.as_str()).then(|| Process { number, user, program, words: words() })
}

fn own_user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether a user is one of the system, or the one who asks.
fn is_system_user(user: u32, own: u32) -> bool {
    user < USER_MIN || user == own
}

fn distrust(reader: &mut Reader<'_>, process: &Process) {
    let what = format!("the configuration of {} (process {})", process.program, process.number);
    reader.unseen(what, format!("process {} of user {} is not trusted", process.number, process.user));
}

/// Whether a file or directory is that of a process: it belongs to the process's user or to root, or it does not exist.
/// One of another user is listed.
pub(super) fn owns(reader: &mut Reader<'_>, process: &Process, path: &str) -> bool {
    let owner = fs::metadata(reader.machine.below(path)).ok().map(|data| data.uid());
    let is_own = is_owner(process.user, owner);
    if !is_own {
        distrust(reader, process);
    }
    is_own
}

fn is_owner(user: u32, owner: Option<u32>) -> bool {
    owner.is_none_or(|owner| owner == user || owner == 0)
}

/// Adds one setting of a program: its assignments in the order in which the program reads them.
pub(super) fn add(reader: &mut Reader<'_>, program: &str, name: &str, assignments: Vec<Assignment>) {
    add_as(reader, program, name, assignments, str::to_owned);
}

/// The same with a value that the program understands in several forms, of which `read` makes one.
pub(super) fn add_as(
    reader: &mut Reader<'_>,
    program: &str,
    name: &str,
    mut assignments: Vec<Assignment>,
    read: fn(&str) -> String,
) {
    assignments.drain(..assignments.len().saturating_sub(ASSIGNMENTS_MAX));
    let Some(last) = assignments.last() else { return };
    let (file, value) = (last.file.clone(), read(&last.value));
    let after = AfterBoot::last_wins(assignments);
    reader.add((SettingKind::Program, program, name), &file, &value, after);
}

/// Adds what is known of the disk that holds a program's data.
pub(super) fn add_storage(reader: &mut Reader<'_>, program: &str, dir: &str) {
    if dir.is_empty() {
        return;
    }
    let path = Path::new(dir);
    let Ok(filesystem) = reader.machine.filesystem(path) else { return };
    let key = (SettingKind::Program, program, "data filesystem");
    reader.add(key, dir, &filesystem.kind, AfterBoot::default());
    let devices = reader.machine.devices(&filesystem, path);
    let rotates = devices.iter().filter(|device| device.kind == "disk").map(|device| device.rotational);
    let is_solid = devices.iter().any(|device| device.kind == "disk") && rotates.clone().all(|it| it == Some(false));
    if is_solid {
        let key = (SettingKind::Program, program, "data disk");
        reader.add(key, dir, "not rotating", AfterBoot::default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn found(made: Fixture) -> (Option<String>, Vec<String>) {
        let inventory = made.machine().settings(Some(Path::new("/")));
        let fsync = inventory.all(SettingKind::Program, "fsync").next().map(|setting| setting.value.clone());
        (fsync, inventory.unseen.into_iter().map(|unseen| unseen.why).collect())
    }

    fn server(exe: &str) -> Fixture {
        Fixture::new()
            .file("/srv/pg/postgresql.conf", "fsync = off\n")
            .file("/proc/9/cmdline", "postgres\0-D/srv/pg\0")
            .link("/proc/9/exe", exe)
    }

    #[test]
    fn the_file_that_runs_says_which_program_it_is() {
        assert_eq!(found(server("/usr/lib/postgresql/16/bin/postgres")).0.as_deref(), Some("off"));
        assert_eq!(found(server("/usr/lib/postgresql/16/bin/postgres (deleted)")).0.as_deref(), Some("off"));
        assert_eq!(found(server("/usr/bin/python3.13")).0, None);
    }

    #[test]
    fn a_process_of_an_ordinary_user_is_not_trusted() {
        assert!(is_system_user(999, 0) && is_system_user(1000, 1000));
        assert!(!is_system_user(1000, 0) && !is_system_user(65534, 0) && !is_system_user(1001, 1000));
        assert!(is_owner(70, Some(70)) && is_owner(70, Some(0)) && is_owner(70, None));
        assert!(!is_owner(70, Some(1000)) && !is_owner(0, Some(1000)));
        let made = server("/usr/bin/postgres");
        // Only root can make a process's directory someone else's.
        if made.give("/proc/9", 1000) {
            let (value, reasons) = found(made);
            assert_eq!(value, None);
            assert!(reasons.contains(&"process 9 of user 1000 is not trusted".to_owned()), "{reasons:?}");
        }
        let made = server("/usr/bin/postgres");
        if made.give("/srv/pg", 1000) {
            assert_eq!(found(made).0, None);
        }
    }
}
