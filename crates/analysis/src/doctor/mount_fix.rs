//! How to change mount options: the line of `/etc/fstab` or of a mount unit, and the command for now.
//!
//! All faults of a mount that are in its line, or that its line can switch off, give the same new line, so that two
//! pieces of advice on one line do not contradict each other.

use qd1_model::doctor::Fix;
use qd1_model::environment::Filesystem;
use qd1_model::setting::{AfterBoot, Assignment, Inventory, Place, SettingKind};
use qd1_model::shell_quoted;

use super::fix;
use super::mounts::{DATA, DISCARD, MountFault, STRICTATIME, faults};

const COMMAND_LINE: &str = "/proc/cmdline";

/// What changes a fault of a place now and for the next boot.
pub(super) fn mount(inventory: &Inventory, place: &Place, fault: &MountFault) -> Fix {
    let fs = &place.filesystem;
    let setting = inventory.setting(SettingKind::Mount, &fs.mount_point, "options");
    let after = setting.map(|setting| setting.after_boot.clone()).unwrap_or_default();
    let (command, by_hand) = now(fs, fault, after.winner.as_ref());
    let boot = next_boot(place, &after, fault);
    let advice: Vec<&str> = [by_hand.as_str(), boot.advice.as_str(), trims(fault)]
        .into_iter()
        .filter(|advice| !advice.is_empty())
        .collect();
    Fix { command, advice: advice.join("; "), ..boot }
}

fn trims(fault: &MountFault) -> &'static str {
    if fault.rule == DISCARD { fix::TRIMMED } else { "" }
}

/// The command for what is mounted, or what to do where none is certain. ext4 refuses to change its data mode while it
/// is mounted, and XFS most options.
fn now(fs: &Filesystem, fault: &MountFault, winner: Option<&Assignment>) -> (String, String) {
    let point = shell_quoted(&fs.mount_point);
    let can_remount = fault.rule != DATA && fs.kind != "xfs" && !fault.instead.is_empty();
    let first = if fault.rule == DISCARD { "systemctl enable --now fstrim.timer" } else { "" };
    let then = if can_remount {
        format!("mount -o remount,{} {point}", fault.instead)
    } else if fs.mount_point == "/" && fs.kind != "overlay" {
        return (first.to_owned(), "it takes effect with the next boot".to_owned());
    } else if winner.is_some() {
        format!("umount {point} && mount {point}")
    } else {
        return (first.to_owned(), format!("unmount it, and mount it again without {}", fault.option));
    };
    let command = if first.is_empty() { then } else { format!("{first} && {then}") };
    (command, String::new())
}

/// The options in a line that cost something. A line without an option for access times means the default.
fn in_line(place: &Place, options: &str) -> Vec<MountFault> {
    let options: Vec<String> = options.split(',').map(str::to_owned).collect();
    let strict = options.iter().any(|option| option == STRICT);
    let fs = Filesystem { options, ..place.filesystem.clone() };
    let found = faults(&fs, &place.devices);
    found.into_iter().filter(|fault| fault.rule != STRICTATIME || strict).collect()
}

const STRICT: &str = "strictatime";

/// Whether ext4's superblock may have an option as a default (tune2fs(8), `-o`).
fn may_be_default(fs: &Filesystem, fault: &MountFault) -> bool {
    matches!(fs.kind.as_str(), "ext3" | "ext4")
        && (["discard", "barrier=0", "nobarrier"].contains(&fault.option.as_str()) || fault.rule == DATA)
}

fn next_boot(place: &Place, after: &AfterBoot, fault: &MountFault) -> Fix {
    let fs = &place.filesystem;
    let is_root_data = fault.rule == DATA && fs.mount_point == "/";
    let assignments = || after.overridden.iter().chain(&after.winner);
    let in_flags = assignments()
        .any(|by| by.file == COMMAND_LINE && in_line(place, &by.value).iter().any(|flag| flag.rule == fault.rule));
    let mut advice = Vec::new();
    if in_flags {
        advice.push(format!("for the next boot: delete {} from rootflags= of the kernel's command line", fault.option));
    }
    let by = after.winner.as_ref().filter(|by| by.file != COMMAND_LINE);
    let is_in_line = by.is_some_and(|by| in_line(place, &by.value).iter().any(|found| found.rule == fault.rule));
    let is_default = !is_in_line && !in_flags && may_be_default(fs, fault);
    let line = by.and_then(|by| line(place, by)).filter(|_| is_in_line || is_default && !is_root_data);
    let mut made = Fix::default();
    if let Some((by, new, changes)) = line {
        if by.line == 0 {
            advice.push(format!("for the next boot: `Options={new}` in the section [Mount] of {}", by.file));
        } else {
            made = Fix { file: by.file.clone(), line: by.line, old: by.value.clone(), new, ..made };
        }
        if changes.len() > 1 {
            advice.push(format!("this line changes all that costs something: {}", changes.join(", ")));
        }
    }
    if is_default {
        if is_root_data {
            advice.push("for the next boot: rootflags=data=ordered on the kernel's command line".to_owned());
        }
        advice.push(format!(
            "no file sets {0}: if `tune2fs -l {1}` lists it as a default mount option, `tune2fs -o ^{2} {1}` removes \
             it",
            fault.option,
            node(place),
            in_superblock(&fault.option)
        ));
    } else if !is_in_line && !in_flags {
        advice.push(format!(
            "no file that was read sets {}: a change lasts until the next boot only if something else mounts it so",
            fault.option
        ));
    }
    Fix { advice: advice.join("; "), ..made }
}

/// A line's new options, with what it changes: without the options that cost something, and with the opposite of those
/// that the superblock may have as defaults.
fn line<'a>(place: &Place, by: &'a Assignment) -> Option<(&'a Assignment, String, Vec<String>)> {
    let fs = &place.filesystem;
    let bad = in_line(place, &by.value);
    let mut new: Vec<String> = by.value.split(',').map(str::to_owned).collect();
    new.retain(|option| !bad.iter().any(|fault| fault.option == *option));
    let mut changes: Vec<String> = bad.iter().map(|fault| fault.option.clone()).collect();
    for fault in faults(fs, &place.devices) {
        let is_root_data = fault.rule == DATA && fs.mount_point == "/";
        let is_known = bad.iter().any(|known| known.rule == fault.rule);
        if may_be_default(fs, &fault) && !is_known && !is_root_data {
            new.push(fault.instead);
            changes.push(fault.option);
        }
    }
    let new = if new.is_empty() { "defaults".to_owned() } else { new.join(",") };
    (!changes.is_empty()).then_some((by, new, changes))
}

/// The names of tune2fs.
fn in_superblock(option: &str) -> &str {
    match option {
        "barrier=0" => "nobarrier",
        "data=journal" => "journal_data",
        "data=writeback" => "journal_data_writeback",
        other => other,
    }
}

fn node(place: &Place) -> String {
    match place.devices.first() {
        Some(device) => shell_quoted(&format!("/dev/{}", device.name)),
        None => "DEVICE".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use qd1_model::environment::Device;
    use qd1_model::setting::Setting;

    use super::*;

    /// A filesystem with options in force, and the lines that set them at boot, the last of which wins.
    fn fixed(kind: &str, point: &str, options: &str, files: &[(&str, u32, &str)]) -> Vec<(String, Fix)> {
        let filesystem = Filesystem {
            kind: kind.to_owned(),
            mount_point: point.to_owned(),
            options: options.split(',').map(str::to_owned).collect(),
            ..Filesystem::default()
        };
        let devices = vec![Device { name: "vda1".to_owned(), ..Device::default() }];
        let by = |(file, line, value): &(&str, u32, &str)| Assignment {
            file: (*file).to_owned(),
            line: *line,
            value: (*value).to_owned(),
        };
        let after_boot = AfterBoot::last_wins(files.iter().map(by).collect());
        let setting = Setting { after_boot, ..Setting::new(SettingKind::Mount, point, "options", options) };
        let place = Place { filesystem, devices };
        let inventory = Inventory { settings: vec![setting], places: vec![place.clone()], ..Inventory::default() };
        let all = faults(&place.filesystem, &place.devices);
        all.iter().map(|fault| (fault.option.clone(), mount(&inventory, &place, fault))).collect()
    }

    #[test]
    fn all_faults_of_a_line_give_the_same_line() {
        // nobarrier is what the kernel shows of barrier=0.
        let old = "barrier=0,discard,noatime";
        let all = fixed("ext4", "/srv", "rw,noatime,nobarrier,discard", &[("/etc/fstab", 4, old)]);
        assert_eq!(all.len(), 2);
        for (option, fix) in &all {
            assert_eq!((fix.line, fix.old.as_str(), fix.new.as_str()), (4, old, "noatime"), "{option}");
            assert!(fix.advice.contains("changes all that costs something: barrier=0, discard"), "{}", fix.advice);
        }
    }

    #[test]
    fn a_default_of_the_superblock_is_switched_off_in_the_line() {
        let all = fixed("ext4", "/", "rw,relatime,discard,nobarrier,data=journal", &[("/etc/fstab", 2, "commit=30")]);
        let of = |option: &str| all.iter().find(|(known, _)| known == option).unwrap().1.clone();
        assert_eq!(of("discard").new, "barrier,nodiscard");
        assert_eq!(of("nobarrier").new, of("discard").new);
        assert!(of("discard").advice.contains("`tune2fs -o ^discard /dev/vda1`"), "{}", of("discard").advice);
        let data = of("data=journal");
        assert_eq!((data.new.as_str(), data.command.as_str()), ("", ""));
        assert!(data.advice.contains("rootflags=data=ordered") && data.advice.contains("^journal_data /dev/vda1"));
    }

    #[test]
    fn options_of_the_kernels_command_line_are_deleted_there() {
        let flags = (COMMAND_LINE, 0, "data=writeback,noatime");
        let all =
            fixed("ext4", "/", "rw,noatime,data=writeback", &[flags, ("/etc/fstab", 2, "noatime,data=writeback")]);
        assert_eq!((all[0].1.new.as_str(), all[0].1.line), ("noatime", 2));
        assert!(all[0].1.advice.contains("delete data=writeback from rootflags="), "{}", all[0].1.advice);
        assert_eq!(fixed("ext4", "/", "rw,noatime,data=writeback", &[flags])[0].1.file, "");
    }

    #[test]
    fn what_no_file_sets_is_said() {
        let fix = fixed("btrfs", "/srv", "rw,noatime,discard", &[("/etc/fstab", 2, "noatime")])[0].1.clone();
        assert_eq!(fix.file, "");
        assert!(fix.advice.contains("no file that was read sets discard"), "{}", fix.advice);
        let fix = fixed("ext4", "/srv", "rw,noatime,data=journal", &[])[0].1.clone();
        assert!(fix.command.is_empty() && fix.advice.starts_with("unmount it, and mount it again"), "{fix:?}");
        // A unit without a line of options.
        let unit = ("/etc/systemd/system/srv.mount", 0, "defaults");
        let fix = fixed("ext4", "/srv", "rw,noatime,discard", &[unit])[0].1.clone();
        assert!(fix.advice.contains("`Options=defaults,nodiscard`"), "{}", fix.advice);
    }

    #[test]
    fn a_mount_point_is_one_word_for_the_shell() {
        let fix = fixed("ext4", "/tmp/x $(id)", "rw,noatime,sync", &[])[0].1.clone();
        assert_eq!(fix.command, "mount -o remount,async '/tmp/x $(id)'");
        let all = fixed("xfs", "/tmp/x;id", "rw,noatime,discard", &[("/etc/fstab", 1, "discard")]);
        let expected = "systemctl enable --now fstrim.timer && umount '/tmp/x;id' && mount '/tmp/x;id'";
        assert_eq!(all[0].1.command, expected);
        assert!(all[0].1.advice.contains("only what /etc/fstab lists"), "{}", all[0].1.advice);
    }
}
