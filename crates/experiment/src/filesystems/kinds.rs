//! The filesystems that can be compared: how each is made, mounted and tuned for databases, and what it requires. One
//! row in [`KINDS`] for each.
//!
//! All are created without discards, which would release the space of the file below, and completely: otherwise ext4
//! would finish its initialization in the background during the measurement.

use qd1_model::Bytes;

use super::zfs;
use qd1_system::tool;

/// One filesystem.
#[derive(Debug)]
pub(super) struct FilesystemKind {
    /// Its name on the command line and in the kernel.
    pub(super) name: &'static str,
    /// The program that creates it.
    pub(super) program: &'static str,
    /// The Debian package of the program.
    pub(super) package: &'static str,
    /// The option that prints the program's version.
    version: &'static str,
    /// Smallest size it can have.
    pub(super) least: Bytes,
    /// The command that creates it, without device and size.
    make: &'static [&'static str],
    /// How the command takes the size.
    sized: SizeArgument,
    /// Mount options.
    options: &'static [&'static str],
    /// Additional options with `--fair`.
    fair: &'static [&'static str],
    /// What those options achieve.
    pub(super) fair_why: &'static str,
}

/// How a program takes the size of the filesystem.
#[derive(Debug)]
enum SizeArgument {
    /// After the device, in KiB.
    AfterInKib,
    /// Before the device, in bytes after this prefix.
    Bytes(&'static str),
    /// As large as the device.
    No,
}

/// All of them, in the order of the table.
pub(super) static KINDS: &[FilesystemKind] = &[
    FilesystemKind {
        name: "ext4",
        program: "mkfs.ext4",
        package: "e2fsprogs",
        version: "-V",
        least: Bytes::mib(64),
        make: &["mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"],
        sized: SizeArgument::AfterInKib,
        options: &[],
        fair: &["noatime"],
        fair_why: "reads do not update access times",
    },
    FilesystemKind {
        name: "xfs",
        program: "mkfs.xfs",
        package: "xfsprogs",
        version: "-V",
        least: Bytes::mib(320),
        make: &["mkfs.xfs", "-q", "-f", "-K"],
        sized: SizeArgument::Bytes("-dsize="),
        options: &[],
        fair: &["noatime"],
        fair_why: "reads do not update access times",
    },
    FilesystemKind {
        name: "btrfs",
        program: "mkfs.btrfs",
        package: "btrfs-progs",
        version: "--version",
        least: Bytes::mib(256),
        make: &["mkfs.btrfs", "-q", "-f", "-K"],
        sized: SizeArgument::Bytes("-b"),
        // By default it discards if the device supports it.
        options: &["nodiscard"],
        fair: &["noatime", "nodatacow"],
        fair_why: "reads do not update access times; data is written in place, without checksums",
    },
    FilesystemKind {
        name: zfs::NAME,
        program: "zpool",
        package: "zfsutils-linux, or zfs-fuse",
        version: "",
        least: Bytes::mib(128),
        make: &["zpool", "create", "-f", "-o", "cachefile=none", "-o", "ashift=12"],
        sized: SizeArgument::No,
        options: &[],
        fair: &["atime=off", "recordsize=8k", "logbias=throughput"],
        fair_why: "reads do not update access times; records as small as a database's pages; commits do not write \
                   data twice",
    },
];

/// A filesystem in the comparison; the same kind may take part twice.
#[derive(Clone, Debug)]
pub(super) struct Participant {
    /// `ext4`; a second one is `ext4-2`.
    pub(super) name: String,
    pub(super) kind: &'static FilesystemKind,
}

impl FilesystemKind {
    /// Returns the kind called `name`.
    pub(super) fn named(name: &str) -> Option<&'static Self> {
        KINDS.iter().find(|kind| kind.name == name)
    }

    /// Returns why it is not available here and what to do; `None` when it is available.
    pub(super) fn missing(&self) -> Option<String> {
        if tool::find(self.program).is_none() {
            return Some(format!("{} is not installed (Debian package {})", self.program, self.package));
        }
        if self.name == zfs::NAME {
            return zfs::missing();
        }
        let known = std::fs::read_to_string("/proc/filesystems").unwrap_or_default();
        let built_in = known.lines().any(|line| line.split_whitespace().next_back() == Some(self.name));
        let module = || tool::tool("modprobe", &["-n", "-q", self.name]).is_ok();
        (!built_in && !module()).then(|| format!("this kernel does not support {}", self.name))
    }

    /// Returns the version that its program prints.
    pub(super) fn version(&self) -> String {
        if self.name == zfs::NAME {
            return zfs::version();
        }
        let text = tool::tool(self.program, &[self.version]).unwrap_or_default();
        text.lines().next().unwrap_or_default().replace("mkfs.btrfs, part of ", "").trim().to_owned()
    }

    /// Returns its mount options; for zfs, the properties it is created with.
    pub(super) fn options(&self, fair: bool) -> Vec<&'static str> {
        self.options.iter().chain(if fair { self.fair } else { &[] }).copied().collect()
    }

    /// Returns the command that creates it on `device`.
    pub(super) fn command(&self, device: &str, size: Option<Bytes>) -> Vec<String> {
        let mut words: Vec<String> = self.make.iter().map(|word| (*word).to_owned()).collect();
        match (&self.sized, size) {
            (SizeArgument::Bytes(flag), Some(size)) => words.extend([format!("{flag}{}", size.0), device.to_owned()]),
            (SizeArgument::AfterInKib, Some(size)) => words.extend([device.to_owned(), format!("{}k", size.0 >> 10)]),
            _ => words.push(device.to_owned()),
        }
        words
    }
}

/// The filesystems that take part, and those that do not, with the reason.
pub(super) struct Participants {
    pub(super) entries: Vec<Participant>,
    pub(super) missing: Vec<(&'static str, String)>,
}

impl Participants {
    /// Returns all available filesystems, or those in `only`.
    ///
    /// # Errors
    /// When `only` has an unknown name.
    pub(super) fn of(only: &[String]) -> Result<Self, String> {
        let mut found = Self { entries: Vec::new(), missing: Vec::new() };
        let names: Vec<&str> = match only {
            [] => KINDS.iter().map(|kind| kind.name).collect(),
            some => some.iter().map(String::as_str).collect(),
        };
        for name in names {
            let Some(kind) = FilesystemKind::named(name) else {
                let known: Vec<&str> = KINDS.iter().map(|kind| kind.name).collect();
                return Err(format!("unknown filesystem {name:?}; choose from {}", known.join(", ")));
            };
            if let Some(why) = kind.missing() {
                if !found.missing.iter().any(|(known, _)| *known == kind.name) {
                    found.missing.push((kind.name, why));
                }
                continue;
            }
            let twins = found.entries.iter().filter(|entry| entry.kind.name == name).count();
            let name = if twins == 0 { name.to_owned() } else { format!("{name}-{}", twins + 1) };
            found.entries.push(Participant { name, kind });
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_command_takes_the_size_in_its_own_form() {
        let made = |name: &str, size| FilesystemKind::named(name).unwrap().command("/dev/x", size).join(" ");
        let size = Some(Bytes::mib(320));
        assert!(made("ext4", size).ends_with("nodiscard /dev/x 327680k"));
        assert_eq!(made("xfs", size), "mkfs.xfs -q -f -K -dsize=335544320 /dev/x");
        assert_eq!(made("btrfs", size), "mkfs.btrfs -q -f -K -b335544320 /dev/x");
        assert_eq!(made("btrfs", None), "mkfs.btrfs -q -f -K /dev/x");
    }

    #[test]
    fn a_name_given_twice_takes_part_twice_an_unknown_is_refused() {
        let both = Participants::of(&["ext4".to_owned(), "ext4".to_owned()]).unwrap();
        if both.missing.is_empty() {
            let names: Vec<&str> = both.entries.iter().map(|entry| entry.name.as_str()).collect();
            assert_eq!(names, ["ext4", "ext4-2"]);
        }
        assert!(Participants::of(&["ntfs".to_owned()]).err().unwrap().contains("ext4, xfs, btrfs, zfs"));
    }

    #[test]
    fn fair_tuning_adds_to_the_usual_options_with_a_reason() {
        for kind in KINDS {
            assert!(kind.options(true).starts_with(&kind.options(false)) && !kind.fair_why.is_empty());
            assert!(kind.options(true).iter().any(|option| option.contains("atime")), "{}", kind.name);
        }
        assert!(FilesystemKind::named("btrfs").unwrap().options(true).contains(&"nodatacow"));
    }
}
