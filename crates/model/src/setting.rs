//! Settings of the machine that disks and programs depend on: where each stands, what is in force now, and what will be
//! in force after the next boot.
//!
//! `qd1-probe` reads them, `analysis/doctor` judges them. What a setting is coupled with is data here, since whoever
//! changes one has to know what else changes and whether it can be undone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::environment::{Device, Environment, Filesystem, FilesystemClass};

/// What sort of place a setting stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SettingKind {
    /// Below `/proc/sys`.
    Sysctl,
    /// An attribute of a block device in sysfs.
    Block,
    /// An option of a mounted filesystem.
    Mount,
    /// A parameter of a kernel module.
    Module,
    /// Anything else of the machine: processors, clocks, timers, libraries loaded into every program.
    System,
    /// A line in the configuration of a program.
    Program,
}

/// One setting.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Setting {
    /// What sort of place it stands in.
    pub kind: SettingKind,
    /// What it belongs to: a block device, a mount point, a program; empty for the whole machine.
    pub subject: String,
    /// Its name there: `vm.dirty_ratio`, `queue/scheduler`, `commit`, `fsync`.
    pub name: String,
    /// The file that shows it.
    pub place: String,
    /// The value in force; for a program, the value that its files give.
    pub value: String,
    /// What will be in force after the next boot.
    pub after_boot: AfterBoot,
    /// What else changes when it is written; empty if nothing is known.
    pub also_changes: String,
    /// Whether the running kernel accepts a lower value again.
    pub can_be_lowered: bool,
}

/// What the files that are applied during a boot do with a setting.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AfterBoot {
    /// The assignment that wins; absent if no file sets it, so that the default is in force.
    pub winner: Option<Assignment>,
    /// Assignments that do not win, in the order in which they are applied.
    pub overridden: Vec<Assignment>,
    /// Why this may be wrong, such as a script that mentions the setting; empty if nothing suggests that.
    pub unsure: String,
}

/// A line of a file that sets something.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Assignment {
    /// The file.
    pub file: String,
    /// Its line, from 1; 0 if the file has no lines of its own, as the kernel's command line.
    pub line: u32,
    /// What it sets.
    pub value: String,
}

/// Something that could not be looked at.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Unseen {
    /// What.
    pub what: String,
    /// Why not.
    pub why: String,
}

/// A filesystem and the devices below it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// The filesystem; its kind is `block` for a device that was named directly.
    pub filesystem: Filesystem,
    /// The devices, the topmost first.
    pub devices: Vec<Device>,
}

impl Place {
    /// Whether data that is written there reaches a disk, of this machine or of another one.
    #[must_use]
    pub fn has_storage(&self) -> bool {
        let fs = &self.filesystem;
        let is_elsewhere = !fs.source.is_empty() || !fs.mount_point.is_empty();
        let is_none = matches!(fs.class, FilesystemClass::Memory | FilesystemClass::Pseudo);
        !self.devices.is_empty() || is_elsewhere && !is_none
    }
}

/// All that was read of a machine's settings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inventory {
    /// The machine.
    pub environment: Environment,
    /// The filesystems that were looked at.
    pub places: Vec<Place>,
    /// The settings.
    pub settings: Vec<Setting>,
    /// What could not be looked at.
    pub unseen: Vec<Unseen>,
}

/// What else changes when a setting is written. `admin-guide/sysctl/vm.rst`: only one of each pair of bytes and ratio
/// is in force, the other reads as 0. The kernel's `block/elevator.c` and `block/bfq-iosched.c`: a scheduler allocates its
/// own requests, and bfq disables writeback throttling.
const COUPLINGS: &[(&str, &str)] = &[
    ("vm.dirty_bytes", "vm.dirty_ratio becomes 0"),
    ("vm.dirty_ratio", "vm.dirty_bytes becomes 0"),
    ("vm.dirty_background_bytes", "vm.dirty_background_ratio becomes 0"),
    ("vm.dirty_background_ratio", "vm.dirty_background_bytes becomes 0"),
    ("queue/scheduler", "queue/nr_requests is reset; bfq turns queue/wbt_lat_usec off"),
];

/// Settings that the running kernel does not lower again once they have this value (`admin-guide/LSM/Yama.rst`,
/// `admin-guide/sysctl/kernel.rst`).
const ONE_WAY: &[(&str, &str)] = &[
    ("kernel.yama.ptrace_scope", "3"),
    ("kernel.unprivileged_bpf_disabled", "1"),
    ("kernel.modules_disabled", "1"),
    ("kernel.kexec_load_disabled", "1"),
];

/// The pairs of which only one is in force: bytes, then percent.
pub const DIRTY_PAIRS: [(&str, &str); 2] =
    [("vm.dirty_bytes", "vm.dirty_ratio"), ("vm.dirty_background_bytes", "vm.dirty_background_ratio")];

/// Returns a mount option as its name and its value, the same for all ways to write it: `nobarrier` and `barrier=0` are
/// (`barrier`, `0`), `commit=030` is (`commit`, `30`), and an option without a value has the value `1`. The three ways
/// to keep access times are one option.
#[must_use]
pub fn mount_option(option: &str) -> (String, String) {
    if ["noatime", "relatime", "strictatime"].contains(&option) {
        return ("atime".to_owned(), option.to_owned());
    }
    if let Some((name, value)) = option.split_once('=') {
        let is_number = !value.is_empty() && value.bytes().all(|digit| digit.is_ascii_digit());
        let short = value.trim_start_matches('0');
        let value = if !is_number {
            value
        } else if short.is_empty() {
            "0"
        } else {
            short
        };
        return (name.to_owned(), value.to_owned());
    }
    match option {
        "async" => ("sync".to_owned(), "0".to_owned()),
        _ => match option.strip_prefix("no").filter(|name| NEGATED.contains(name)) {
            Some(name) => (name.to_owned(), "0".to_owned()),
            None => (option.to_owned(), "1".to_owned()),
        },
    }
}

/// Options that `no` in front of them turns off.
const NEGATED: [&str; 7] = ["barrier", "discard", "autodefrag", "delalloc", "datacow", "datasum", "diratime"];

/// Returns the value of the last option with a name in a list such as `rw,commit=5`, as [`mount_option`] names it.
#[must_use]
pub fn option_of(options: &str, name: &str) -> Option<String> {
    let mut all = options.split(',').map(mount_option).filter(|(known, _)| known == name);
    all.next_back().map(|(_, value)| value)
}

impl Setting {
    /// Makes one, with what is known of its couplings.
    #[must_use]
    pub fn new(kind: SettingKind, subject: &str, name: &str, value: &str) -> Self {
        let coupling = COUPLINGS.iter().find(|(known, _)| *known == name);
        Self {
            kind,
            subject: subject.to_owned(),
            name: name.to_owned(),
            place: String::new(),
            value: value.to_owned(),
            after_boot: AfterBoot::default(),
            also_changes: coupling.map(|(_, also)| (*also).to_owned()).unwrap_or_default(),
            can_be_lowered: !(kind == SettingKind::Sysctl && ONE_WAY.contains(&(name, value))),
        }
    }

    /// The value as a number.
    #[must_use]
    pub fn number(&self) -> Option<i64> {
        self.value.trim().parse().ok()
    }
}

impl AfterBoot {
    /// What is known without a doubt to follow from these assignments, of which the last one wins.
    #[must_use]
    pub fn last_wins(mut assignments: Vec<Assignment>) -> Self {
        let winner = assignments.pop();
        Self { winner, overridden: assignments, unsure: String::new() }
    }
}

impl Inventory {
    /// Returns a setting by where it stands.
    #[must_use]
    pub fn setting(&self, kind: SettingKind, subject: &str, name: &str) -> Option<&Setting> {
        let is_it = |setting: &&Setting| setting.kind == kind && setting.subject == subject && setting.name == name;
        self.settings.iter().find(is_it)
    }

    /// Returns a setting of the whole machine below `/proc/sys`.
    #[must_use]
    pub fn sysctl(&self, name: &str) -> Option<&Setting> {
        self.setting(SettingKind::Sysctl, "", name)
    }

    /// Returns the line that decides an option of a mounted filesystem, named as [`mount_option`] names it; absent if
    /// none does, so that the default is in force, or what the filesystem's superblock says.
    #[must_use]
    pub fn mount_option(&self, point: &str, name: &str) -> Option<&Assignment> {
        // What is known of this option alone.
        if let Some(setting) = self.setting(SettingKind::Mount, point, name) {
            return setting.after_boot.winner.as_ref();
        }
        let winner = self.setting(SettingKind::Mount, point, "options")?.after_boot.winner.as_ref();
        winner.filter(|by| option_of(&by.value, name).is_some())
    }

    /// Returns the settings of a kind with this name, whatever they belong to.
    pub fn all<'a>(&'a self, kind: SettingKind, name: &'a str) -> impl Iterator<Item = &'a Setting> {
        self.settings.iter().filter(move |setting| setting.kind == kind && setting.name == name)
    }

    /// Returns the devices of all places, each once.
    #[must_use]
    pub fn devices(&self) -> Vec<&Device> {
        let mut found: Vec<&Device> = Vec::new();
        for device in self.places.iter().flat_map(|place| &place.devices) {
            if !found.iter().any(|known| known.name == device.name) {
                found.push(device);
            }
        }
        found
    }

    /// Returns the place that a block device belongs to.
    #[must_use]
    pub fn place_of(&self, device: &str) -> Option<&Place> {
        self.places.iter().find(|place| place.devices.iter().any(|found| found.name == device))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sysctl(name: &str, value: &str) -> Setting {
        Setting::new(SettingKind::Sysctl, "", name, value)
    }

    #[test]
    fn memory_and_what_the_kernel_generates_are_not_storage() {
        let of = |class| {
            let filesystem = Filesystem { class, mount_point: "/x".to_owned(), ..Filesystem::default() };
            Place { filesystem, devices: Vec::new() }.has_storage()
        };
        assert!(of(FilesystemClass::Network) && of(FilesystemClass::Overlay) && of(FilesystemClass::Disk));
        assert!(!of(FilesystemClass::Pseudo) && !of(FilesystemClass::Memory) && !Place::default().has_storage());
    }

    #[test]
    fn a_setting_names_what_writing_it_changes_as_well() {
        assert_eq!(sysctl("vm.swappiness", "1").also_changes, "");
        for (bytes, ratio) in DIRTY_PAIRS {
            assert!(sysctl(bytes, "").also_changes.contains(ratio));
            assert!(sysctl(ratio, "").also_changes.contains(bytes));
        }
    }

    #[test]
    fn a_one_way_setting_cannot_be_lowered() {
        assert!(!sysctl("kernel.yama.ptrace_scope", "3").can_be_lowered);
        assert!(sysctl("kernel.yama.ptrace_scope", "2").can_be_lowered);
        assert!(sysctl("kernel.unprivileged_bpf_disabled", "2").can_be_lowered);
    }

    #[test]
    fn mount_options_are_the_same_however_they_are_written() {
        for (one, other) in [
            ("nobarrier", "barrier=0"),
            ("barrier", "barrier=1"),
            ("commit=030", "commit=30"),
            ("barrier=00", "nobarrier"),
            ("async", "sync=0"),
        ] {
            assert_eq!(mount_option(one), mount_option(other));
        }
        assert_eq!(mount_option("norecovery"), ("norecovery".to_owned(), "1".to_owned()));
        assert_eq!(mount_option("discard=async").1, "async");
        assert_eq!(mount_option("data=").1, "");
        assert_eq!(option_of("rw,noatime,commit=5,relatime", "atime").as_deref(), Some("relatime"));
        assert_eq!(option_of("rw", "commit"), None);
    }

    #[test]
    fn the_last_assignment_wins_and_the_others_are_kept() {
        let line = |line| Assignment { file: "/etc/fstab".to_owned(), line, value: line.to_string() };
        let after = AfterBoot::last_wins(vec![line(1), line(2), line(3)]);
        assert_eq!((after.winner, after.overridden.len()), (Some(line(3)), 2));
        assert_eq!(AfterBoot::last_wins(Vec::new()), AfterBoot::default());
    }
}
