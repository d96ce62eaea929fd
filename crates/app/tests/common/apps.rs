//! Places for servers of others, and what they leave behind: processes, sockets, shared memory.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use qd1_engine::sim::{Device, Service};
use qd1_lab::Mounted;
use qd1_simdisk::Scenario;
use rustix::process::Pid;
use tempfile::TempDir;

use super::disk::Disk;
use super::{Place, names, wait_until};

/// A place with a directory for temporary files of its own, all of which a server's user can pass through.
pub(crate) struct Site {
    pub(crate) place: Place,
    aside: TempDir,
    // Dropped last: what the place is on.
    _disk: On,
}

/// What the measured directory is on.
enum On {
    Nothing,
    Loop { _disk: Mounted },
    Simulated { _disk: Box<Disk> },
}

impl Site {
    /// On a disk of its own where there can be one: of the machine's, enough may not be free. Else as [`Site::new`].
    ///
    /// # Errors
    /// Names a program that is missing.
    pub(crate) fn roomy(programs: &[&str]) -> Result<Self, String> {
        match Mounted::ext4("nodiscard") {
            Ok(disk) => {
                fs::set_permissions(disk.path(), fs::Permissions::from_mode(0o755)).unwrap();
                Self::over(Place::at(disk.path()), On::Loop { _disk: disk }, programs)
            }
            Err(_) => Self::new(programs),
        }
    }

    /// On a simulated disk.
    ///
    /// # Errors
    /// Names a program that is missing, or why no disk can be simulated here.
    pub(crate) fn simulated(scenario: Scenario, programs: &[&str]) -> Result<Self, String> {
        let disk = Disk::new(scenario)?;
        Self::over(Place::at(disk.place.dir()), On::Simulated { _disk: Box::new(disk) }, programs)
    }

    /// In a directory that every user can enter.
    ///
    /// # Errors
    /// Names a program that is missing.
    pub(crate) fn new(programs: &[&str]) -> Result<Self, String> {
        Self::over(Place::open_to_all(), On::Nothing, programs)
    }

    /// In a directory of the test's own making.
    ///
    /// # Errors
    /// Names a program that is missing.
    pub(crate) fn at(dir: &Path, programs: &[&str]) -> Result<Self, String> {
        Self::over(Place::at(dir), On::Nothing, programs)
    }

    fn over(place: Place, disk: On, programs: &[&str]) -> Result<Self, String> {
        if let Some(missing) = programs.iter().find(|name| program(name).is_none()) {
            return Err(format!("{missing} is not installed"));
        }
        let aside = TempDir::new().unwrap();
        fs::set_permissions(aside.path(), fs::Permissions::from_mode(0o755)).unwrap();
        Ok(Self { place, aside, _disk: disk })
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = self.place.command(&[&["app"], args].concat());
        command.env("TMPDIR", self.aside.path());
        command
    }

    /// As [`Site::command`], in real time, which what it starts inherits.
    pub(crate) fn real_time(&self, args: &[&str]) -> Command {
        let mut command = self.place.real_time(&[&["app"], args].concat());
        command.env("TMPDIR", self.aside.path());
        command
    }

    /// Where the run's directory for sockets is, while there is one.
    pub(crate) fn aside(&self) -> Option<PathBuf> {
        names(self.aside.path()).first().map(|name| self.aside.path().join(name))
    }

    /// Processes that have the measured directory, or the one aside, on their command line, or work in it, but for qd1
    /// and its helpers.
    pub(crate) fn servers(&self) -> Vec<Pid> {
        let dirs = [self.place.dir_str().to_owned(), self.aside.path().to_str().unwrap().to_owned()];
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw)
            else {
                continue;
            };
            let line = fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).into_owned();
            let program = line.split('\0').next().unwrap_or_default();
            let ours = program == super::qd1() || program == "/proc/self/exe";
            // PostgreSQL's processes name themselves anew, and work in the data's directory.
            let at = fs::read_link(entry.path().join("cwd")).unwrap_or_default();
            let is_there = |dir: &String| line.contains(dir.as_str()) || at.starts_with(dir);
            if !ours && dirs.iter().any(is_there) {
                found.push(pid);
            }
        }
        found
    }

    /// Nothing runs any more, and no file is left.
    #[track_caller]
    pub(crate) fn assert_clean(&self) {
        wait_until("no server runs", || self.servers().is_empty());
        wait_until("no file is left", || names(self.place.dir()).is_empty() && names(self.aside.path()).is_empty());
    }
}

/// A simulated disk on which only flushes take long: so many nanoseconds.
pub(crate) fn disk_with_flushes_of(flush_ns: f64) -> Scenario {
    let mut scenario = Scenario::named("network-block").unwrap();
    let quick = Service::log_normal(150e3, 0.1);
    scenario.device = Device {
        seed: 7,
        channels: 16,
        read: quick.clone(),
        write: quick,
        flush: Service::log_normal(flush_ns, 0.1),
        ..Device::default()
    };
    scenario
}

/// Where a program is, in PATH or where PostgreSQL's lie.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut dirs: Vec<PathBuf> = std::env::split_paths(&path).collect();
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    dirs.extend(versions.map(|entry| entry.path().join("bin")));
    dirs.into_iter().map(|dir| dir.join(name)).find(|file| file.is_file())
}

/// Processes with this parent.
pub(crate) fn children(of: u32) -> Vec<Pid> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().flatten() {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let parent = stat.rsplit_once(')').and_then(|(_, rest)| rest.split_whitespace().nth(1)?.parse::<u32>().ok());
        let pid = entry.file_name().to_str().and_then(|name| name.parse().ok()).and_then(Pid::from_raw);
        found.extend(pid.filter(|_| parent == Some(of)));
    }
    found
}

/// Numbers of the machine's segments of shared memory (System V).
pub(crate) fn segments() -> Vec<String> {
    let text = fs::read_to_string("/proc/sysvipc/shm").unwrap_or_default();
    text.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1).map(str::to_owned)).collect()
}

/// The addresses of a network on which a process listens, as `/proc/net/tcp` has them: hexadecimal address and port.
pub(crate) fn listening(pid: Pid) -> Vec<String> {
    let root = format!("/proc/{}", pid.as_raw_nonzero());
    let sockets: Vec<String> = fs::read_dir(format!("{root}/fd"))
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|fd| fs::read_link(fd.path()).ok())
        .filter_map(|to| Some(to.to_str()?.strip_prefix("socket:[")?.trim_end_matches(']').to_owned()))
        .collect();
    let of_kind = |kind: &str| {
        let text = fs::read_to_string(format!("{root}/net/{kind}")).unwrap_or_default();
        let local = |line: &str| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            let (local, remote, inode) = (fields.get(1)?, fields.get(2)?, fields.get(9)?);
            let from_anywhere = remote.trim_matches(['0', ':']).is_empty();
            (from_anywhere && sockets.iter().any(|socket| socket == inode)).then(|| (*local).to_owned())
        };
        text.lines().skip(1).filter_map(local).collect::<Vec<String>>()
    };
    ["tcp", "tcp6", "udp", "udp6"].into_iter().flat_map(of_kind).collect()
}
