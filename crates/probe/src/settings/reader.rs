//! Reads files that others wrote: regular ones only, and no more of them than a machine's configuration can have.
//!
//! The configuration of a program belongs to that program's user, and qd1 often runs as root. Such a file can include
//! others, itself among them, so that only what one run reads in all bounds the work.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use qd1_model::setting::{AfterBoot, Setting, SettingKind, Unseen};

use super::scripts::{self, Script};
use crate::Machine;

/// Configuration files are smaller; whatever is larger is something else.
const FILE_MAX: u64 = 4 << 20;
/// Names in one directory.
const NAMES_MAX: usize = 10_000;
/// Files and directories of one run, and the bytes in them: several times those of a machine with many programs.
const FILES_MAX: u32 = 10_000;
const BYTES_MAX: u64 = 32 << 20;
/// Why a file beyond that is not read.
const SPENT: &str = "there are more files, or larger ones, than one run reads";
/// Things that are listed as unseen.
const UNSEEN_MAX: usize = 1000;
/// How deep files include each other; PostgreSQL and Redis allow ten.
const DEPTH_MAX: usize = 10;
/// The device number of `/dev/null`.
const NULL: (u32, u32) = (1, 3);

/// Collects settings, and what could not be read.
pub(super) struct Reader<'a> {
    pub(super) machine: &'a Machine,
    pub(super) scripts: Vec<Script>,
    pub(super) settings: Vec<Setting>,
    pub(super) unseen: Vec<Unseen>,
    budget: Budget,
    /// The configuration files that are being read, each included by the one before it.
    open: Vec<PathBuf>,
}

/// What may still be read.
struct Budget {
    files: u32,
    bytes: u64,
}

impl Budget {
    fn take_file(&mut self) -> io::Result<()> {
        self.files = self.files.checked_sub(1).ok_or_else(|| io::Error::other(SPENT))?;
        Ok(())
    }

    fn take_bytes(&mut self, bytes: u64) -> io::Result<()> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(|| io::Error::other(SPENT))?;
        Ok(())
    }
}

impl<'a> Reader<'a> {
    pub(super) fn new(machine: &'a Machine) -> Self {
        let budget = Budget { files: FILES_MAX, bytes: BYTES_MAX };
        let mut reader =
            Self { machine, scripts: Vec::new(), settings: Vec::new(), unseen: Vec::new(), budget, open: Vec::new() };
        reader.scripts = scripts::read(&mut reader);
        reader
    }

    /// The text of a file; `None` if it does not exist. One that cannot be read is noted.
    pub(super) fn text(&mut self, path: impl AsRef<Path>) -> Option<String> {
        let path = path.as_ref();
        match read_regular(&self.machine.below(path), &mut self.budget) {
            Ok(text) => Some(text),
            Err(error) if is_missing(&error) => None,
            Err(error) => {
                self.unseen(shown(path), reason(&error));
                None
            }
        }
    }

    /// Calls `read` with the text of a program's configuration file, which `read` may use to include others. Not called
    /// for a file that includes itself, and for what is no configuration, as the kernel's files.
    pub(super) fn configuration(&mut self, path: &str, read: impl FnOnce(&mut Self, &str)) {
        if self.budget.files == 0 {
            return self.unseen(path, SPENT);
        }
        let real = self.machine.resolve(Path::new(path));
        if ["/proc", "/sys", "/dev"].iter().any(|dir| real.starts_with(dir)) {
            return self.unseen(path, "a configuration names it, but it is a file of the kernel");
        }
        if self.open.contains(&real) || self.open.len() > DEPTH_MAX {
            return self.unseen(path, "files include each other in a circle, or too deep");
        }
        let Some(text) = self.text(path) else { return };
        self.open.push(real);
        read(self, &text);
        self.open.pop();
    }

    /// The value that a file of `/proc` or `/sys` shows; `None` if there is none.
    pub(super) fn value(&mut self, path: impl AsRef<Path>) -> Option<String> {
        let text = self.text(path)?;
        let value = text.trim_matches(|c: char| c.is_whitespace() || c == '\0');
        (!value.is_empty()).then(|| value.to_owned())
    }

    /// The names in a directory, sorted; empty if it does not exist. What cannot be read is noted.
    pub(super) fn names(&mut self, path: impl AsRef<Path>) -> Vec<String> {
        let path = path.as_ref();
        let mut names = Vec::new();
        match self.budget.take_file().and_then(|()| fs::read_dir(self.machine.below(path))) {
            Ok(entries) => {
                for (at, entry) in entries.flatten().enumerate() {
                    if at == NAMES_MAX {
                        self.unseen(shown(path), format!("it has more than {NAMES_MAX} names"));
                        break;
                    }
                    match entry.file_name().into_string() {
                        Ok(name) => names.push(name),
                        Err(name) => self.unseen(shown(&path.join(name)), "its name is not UTF-8"),
                    }
                }
            }
            Err(error) if is_missing(&error) => {}
            Err(error) => self.unseen(shown(path), reason(&error)),
        }
        names.sort();
        names
    }

    pub(super) fn unseen(&mut self, what: impl Into<String>, why: impl Into<String>) {
        if self.unseen.len() < UNSEEN_MAX {
            self.unseen.push(Unseen { what: what.into(), why: why.into() });
        }
    }

    /// Adds a setting that files assign during a boot, the last of them last.
    pub(super) fn add(
        &mut self,
        (kind, subject, name): (SettingKind, &str, &str),
        place: &str,
        value: &str,
        after: AfterBoot,
    ) {
        let setting = Setting::new(kind, subject, name, value);
        self.settings.push(Setting { place: place.to_owned(), after_boot: after, ..setting });
    }

    /// The configuration files with an ending in directories of decreasing precedence, as systemd reads them: sorted
    /// by name, and of those of the same name only the first. A link to `/dev/null` hides the name.
    pub(super) fn drop_ins(&mut self, dirs: &[&str], ending: &str) -> Vec<String> {
        let mut found: Vec<(String, String)> = Vec::new();
        for dir in dirs {
            for name in self.names(dir) {
                if name.ends_with(ending) && !found.iter().any(|(known, _)| *known == name) {
                    found.push((name.clone(), format!("{dir}/{name}")));
                }
            }
        }
        found.sort();
        found.into_iter().map(|(_, path)| path).collect()
    }
}

/// A path for a list, with what is not UTF-8 escaped.
fn shown(path: &Path) -> String {
    let bytes = path.as_os_str().as_bytes();
    path.to_str().map_or_else(|| bytes.escape_ascii().to_string(), str::to_owned)
}

fn is_missing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

/// Why a file could not be read, in words for a list.
fn reason(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "this user may not read it; root may".to_owned(),
        _ => format!("{error}"),
    }
}

/// Reads a file that is one: a FIFO would wait for ever, and opening some devices has effects.
fn read_regular(path: &Path, budget: &mut Budget) -> io::Result<String> {
    budget.take_file()?;
    let is_regular = |data: &fs::Metadata| match () {
        () if data.is_dir() => Err(io::ErrorKind::NotFound.into()),
        () if !data.is_file() => Err(io::Error::other("it is not a regular file")),
        () => Ok(()),
    };
    let data = fs::metadata(path)?;
    if is_null(&data) {
        return Ok(String::new());
    }
    is_regular(&data)?;
    // It may have been replaced since.
    let file = File::options().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    is_regular(&file.metadata()?)?;
    let mut bytes = Vec::new();
    file.take(FILE_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_MAX {
        return Err(io::Error::other(format!("it is larger than {} MiB", FILE_MAX >> 20)));
    }
    budget.take_bytes(bytes.len() as u64)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Whether it is `/dev/null`: a link to it is how a file is masked.
pub(super) fn is_null(data: &fs::Metadata) -> bool {
    data.file_type().is_char_device() && (libc::major(data.rdev()), libc::minor(data.rdev())) == NULL
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::{Built, Fixture};

    fn reasons(machine: &Built) -> Vec<(String, String)> {
        let unseen = machine.settings(Some(Path::new("/"))).unseen;
        unseen.into_iter().map(|unseen| (unseen.what, unseen.why)).collect()
    }

    fn has(machine: &Built, what: &str, why: &str) {
        let found = reasons(machine);
        assert!(found.iter().any(|(of, reason)| of == what && reason.contains(why)), "{what}: {found:?}");
    }

    #[test]
    fn files_that_include_each_other_over_and_over_end_at_the_budget() {
        let mut made = Fixture::new();
        for level in 0..8 {
            let line = format!("include /etc/redis/level{}.conf\n", level + 1);
            made = made.file(&format!("/etc/redis/level{level}.conf"), &line.repeat(60));
        }
        let made = made.file("/etc/redis/redis.conf", "include /etc/redis/level0.conf\nappendonly yes\n");
        has(&made.machine(), "/etc/redis/level7.conf", "than one run reads");
    }

    #[test]
    fn a_file_that_includes_itself_is_read_once() {
        let text = "include 'postgresql.conf'\nfsync = off\n";
        let machine = Fixture::new().file("/etc/postgresql/16/main/postgresql.conf", text).machine();
        has(&machine, "/etc/postgresql/16/main/postgresql.conf", "in a circle");
        let inventory = machine.settings(Some(Path::new("/")));
        let fsync = inventory.all(SettingKind::Program, "fsync").next().unwrap();
        assert_eq!((fsync.value.as_str(), fsync.after_boot.overridden.len()), ("off", 0));
    }

    #[test]
    fn files_of_the_kernel_are_not_included() {
        let made = Fixture::new().file("/etc/redis/redis.conf", "include /proc/kmsg\n").file("/proc/kmsg", "");
        has(&made.machine(), "/proc/kmsg", "a file of the kernel");
    }

    #[test]
    fn what_is_no_regular_file_is_listed_and_dev_null_is_a_mask() {
        let machine = Fixture::new().link("/etc/sysctl.d/20-mask.conf", "/dev/null").machine();
        let fifo = machine.below("/etc/sysctl.d/10-fifo.conf");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        has(&machine, "/etc/sysctl.d/10-fifo.conf", "not a regular file");
        assert!(!reasons(&machine).iter().any(|(what, _)| what.ends_with("20-mask.conf")));
    }

    #[test]
    fn large_files_and_odd_names_are_listed() {
        let machine = Fixture::new().file("/etc/sysctl.d/10.conf", &"\n".repeat(FILE_MAX as usize + 1)).machine();
        has(&machine, "/etc/sysctl.d/10.conf", "larger than 4 MiB");
        let odd = machine.below("/etc/sysctl.d").join(std::ffi::OsStr::from_bytes(b"20-\xff.conf"));
        fs::write(odd, "vm.dirty_ratio = 1\n").unwrap();
        has(&machine, "/etc/sysctl.d/20-\\xff.conf", "not UTF-8");
    }

    #[test]
    fn a_container_without_proc_and_sys_says_so() {
        let machine = Fixture::new().file("/sys/kernel/x", "").machine();
        has(&machine, "/proc", "no /proc is mounted");
        assert!(!reasons(&machine).iter().any(|(what, _)| what == "/sys"));
    }
}
