//! Which file and which command change a setting of the machine.
//!
//! A line is only given where it is certain to be valid and to win; otherwise the change is described in words.

use qd1_model::doctor::Fix;
use qd1_model::environment::Device;
use qd1_model::setting::{Assignment, DIRTY_PAIRS, Inventory, Setting};
use qd1_model::shell_quoted;

/// What systemd's timer leaves out.
pub(super) const TRIMMED: &str =
    "fstrim.timer trims only what /etc/fstab lists; run `fstrim` regularly for other filesystems";
const SYSCTL_CONF: &str = "/etc/sysctl.conf";

/// Sets `/proc/sys` by a drop-in whose name is sorted after all that set the same names or their counterparts.
///
/// Where `/etc/sysctl.conf` itself is read, it is read last: without systemd, and again by TuneD. The lines then go to
/// its end.
pub(super) fn sysctl(inventory: &Inventory, values: &[(&str, u64)]) -> Fix {
    let lines: Vec<String> = values.iter().map(|(name, value)| format!("{name} = {value}")).collect();
    let words: Vec<String> = values.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let settings: Vec<&Setting> = values.iter().flat_map(|(name, _)| of_pair(inventory, name)).collect();
    let assignments: Vec<&Assignment> = settings.iter().flat_map(|setting| all_of(setting)).collect();
    let files: Vec<&str> =
        assignments.iter().map(|by| by.file.as_str()).filter(|file| file.contains("/sysctl.d/")).collect();
    let mut advice = Vec::new();
    let file = if assignments.iter().any(|by| by.file == SYSCTL_CONF) {
        advice.push("put the lines at the end of the file, which is read last".to_owned());
        SYSCTL_CONF.to_owned()
    } else {
        last_file("/etc/sysctl.d", ".conf", &files)
    };
    advice.extend(values.iter().filter_map(|(name, value)| same_value(inventory, name, *value)));
    if let Some(by) = settings.iter().find_map(|setting| of_tuned(setting)) {
        advice.push(format!(
            "TuneD sets it as well ({}:{}); it applies /etc/sysctl.d after that, unless reapply_sysctl is off in \
             /etc/tuned/tuned-main.conf",
            by.file, by.line
        ));
    }
    Fix {
        file,
        new: lines.join("; "),
        command: format!("sysctl -w {}", words.join(" ")),
        advice: advice.join("; "),
        ..Fix::default()
    }
}

/// A setting, and the one that it replaces.
fn of_pair<'a>(inventory: &'a Inventory, name: &'a str) -> impl Iterator<Item = &'a Setting> {
    let pair = DIRTY_PAIRS.into_iter().find(|(bytes, ratio)| *bytes == name || *ratio == name);
    let names = pair.map_or(vec![name], |(bytes, ratio)| vec![bytes, ratio]);
    names.into_iter().filter_map(|name| inventory.sysctl(name))
}

fn all_of(setting: &Setting) -> impl Iterator<Item = &Assignment> {
    setting.after_boot.overridden.iter().chain(&setting.after_boot.winner)
}

/// systemd-sysctl ignores a line that repeats the value of an earlier one, even if its counterpart was set in between.
fn same_value(inventory: &Inventory, name: &str, value: u64) -> Option<String> {
    let after = &inventory.sysctl(name)?.after_boot;
    let is_replaced = after.winner.as_ref().is_some_and(|by| by.value == "0");
    let by = after.overridden.iter().find(|by| is_replaced && by.line > 0 && by.value == value.to_string())?;
    Some(format!(
        "delete {}:{}, since systemd-sysctl ignores a line that repeats the value of another",
        by.file, by.line
    ))
}

fn of_tuned(setting: &Setting) -> Option<&Assignment> {
    setting.after_boot.winner.as_ref().filter(|by| by.file.ends_with("/tuned.conf"))
}

/// A file of ours in a directory, named so that it is sorted after others.
fn last_file(dir: &str, ending: &str, others: &[&str]) -> String {
    let last = others.iter().map(|file| file.rsplit('/').next().unwrap_or_default()).max().unwrap_or_default();
    let own = ["99-qd1", "zz-qd1"].map(|stem| format!("{stem}{ending}"));
    // A hyphen would be sorted before the dot of the other name, an underscore is sorted after it.
    let beyond = || format!("{}_qd1{ending}", last.trim_end_matches(ending));
    format!("{dir}/{}", own.into_iter().find(|name| name.as_str() >= last).unwrap_or_else(beyond))
}

/// Sets an attribute of a disk by a rule of udev, which is applied again whenever the disk appears.
pub(super) fn udev(inventory: &Inventory, setting: &Setting, value: &str) -> Fix {
    let (device, attribute) = (&setting.subject, &setting.name);
    let place = format!("/sys/block/{}/{attribute}", device.replace('/', "!"));
    let command = format!("echo {} > {}", shell_quoted(value), shell_quoted(&place));
    if let Some(by) = of_tuned(setting) {
        let advice = format!(
            "for the next boot: TuneD sets it after udev ({}:{}); change that key in the section [disk] of a profile \
             of your own in /etc/tuned",
            by.file, by.line
        );
        return Fix { command, advice, ..Fix::default() };
    }
    let unsure = setting.after_boot.unsure.split(':').next().filter(|file| file.ends_with(".rules"));
    let files: Vec<&str> = all_of(setting).map(|by| by.file.as_str()).chain(unsure).collect();
    let found = inventory.devices().into_iter().find(|known| known.name == *device).and_then(stable);
    let (is_it, advice) = match found {
        Some(is_it) => (is_it, String::new()),
        None => (
            format!("KERNEL==\"{}\"", device.replace('/', "?")),
            format!(
                "the name {device} may change when disks are added; ENV{{ID_SERIAL}}, which `udevadm info \
                 --query=property` shows, does not"
            ),
        ),
    };
    Fix {
        file: last_file("/etc/udev/rules.d", ".rules", &files),
        new: format!("ACTION==\"add|change\", SUBSYSTEM==\"block\", {is_it}, ATTR{{{attribute}}}=\"{value}\""),
        command,
        advice,
        ..Fix::default()
    }
}

/// What a rule of udev recognises a whole device by, whatever the kernel calls it.
fn stable(device: &Device) -> Option<String> {
    let is_plain = |text: &str| {
        !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_alphanumeric() || b"._-:".contains(&letter))
    };
    let identity = device.identity.as_str();
    let (key, value) = match device.kind.as_str() {
        "dm" => ("ENV{DM_NAME}", device.model.split(' ').next_back()?),
        "disk" if device.transport == "nvme" => ("ATTR{wwid}", identity),
        "disk" if device.transport == "virtio" => ("ATTR{serial}", identity),
        "disk" if identity.starts_with("naa.") => ("ATTRS{wwid}", identity),
        _ => return None,
    };
    is_plain(value).then(|| format!("{key}==\"{value}\""))
}

/// Only a command.
pub(super) fn command(command: impl Into<String>) -> Fix {
    Fix { command: command.into(), ..Fix::default() }
}

/// Something that no command does alone.
pub(super) fn advice(advice: impl Into<String>) -> Fix {
    Fix { advice: advice.into(), ..Fix::default() }
}

#[cfg(test)]
mod tests {
    use qd1_model::setting::{AfterBoot, Place, SettingKind};

    use super::*;

    fn by(file: &str, value: &str) -> Assignment {
        Assignment { file: file.to_owned(), line: 3, value: value.to_owned() }
    }

    fn set_by(kind: SettingKind, subject: &str, name: &str, all: &[(&str, &str)]) -> Setting {
        let after_boot = AfterBoot::last_wins(all.iter().map(|(file, value)| by(file, value)).collect());
        Setting { after_boot, ..Setting::new(kind, subject, name, "40") }
    }

    fn limits(settings: Vec<Setting>) -> Fix {
        let inventory = Inventory { settings, ..Inventory::default() };
        sysctl(&inventory, &[("vm.dirty_bytes", 100), ("vm.dirty_background_bytes", 25)])
    }

    #[test]
    fn no_other_file_comes_after_a_drop_in() {
        for (file, expected) in [
            ("/etc/sysctl.conf", "/etc/sysctl.conf"),
            ("/etc/sysctl.d/10-a.conf", "/etc/sysctl.d/99-qd1.conf"),
            // Often a link to /etc/sysctl.conf.
            ("/etc/sysctl.d/99-sysctl.conf", "/etc/sysctl.d/zz-qd1.conf"),
            ("/usr/lib/sysctl.d/zz.conf", "/etc/sysctl.d/zz_qd1.conf"),
            ("/usr/lib/tuned/x/tuned.conf", "/etc/sysctl.d/99-qd1.conf"),
        ] {
            // The counterpart of the name, and the counterpart of the second name.
            for name in ["vm.dirty_ratio", "vm.dirty_background_ratio"] {
                let fix = limits(vec![set_by(SettingKind::Sysctl, "", name, &[(file, "40")])]);
                assert_eq!((fix.file.as_str(), fix.line), (expected, 0), "{file}");
                let last = expected.rsplit('/').next().unwrap();
                assert!(!file.contains("sysctl.d") || last > file.rsplit('/').next().unwrap());
            }
        }
    }

    #[test]
    fn a_line_that_would_be_ignored_as_a_repetition_is_to_be_deleted() {
        let all = [("/etc/sysctl.d/10-a.conf", "100"), ("/etc/sysctl.d/20-b.conf", "0")];
        let fix = limits(vec![set_by(SettingKind::Sysctl, "", "vm.dirty_bytes", &all)]);
        assert!(fix.advice.contains("delete /etc/sysctl.d/10-a.conf:3"), "{}", fix.advice);
    }

    #[test]
    fn tuned_is_named_where_it_comes_later() {
        let file = "/usr/lib/tuned/mine/tuned.conf";
        let fix = limits(vec![set_by(SettingKind::Sysctl, "", "vm.dirty_ratio", &[(file, "40")])]);
        assert!(fix.advice.contains("reapply_sysctl"), "{}", fix.advice);
        let setting = set_by(SettingKind::Block, "sda", "queue/scheduler", &[(file, "bfq")]);
        let fix = udev(&Inventory::default(), &setting, "none");
        assert_eq!((fix.file.as_str(), fix.command.as_str()), ("", "echo none > /sys/block/sda/queue/scheduler"));
        assert!(fix.advice.contains("[disk]"), "{}", fix.advice);
    }

    #[test]
    fn a_rule_of_udev_comes_last_and_recognises_the_disk() {
        let rule = |device: Device, file: &str| {
            let setting = set_by(SettingKind::Block, &device.name, "queue/scheduler", &[(file, "bfq")]);
            let places = vec![Place { devices: vec![device], ..Place::default() }];
            udev(&Inventory { places, ..Inventory::default() }, &setting, "none")
        };
        let device = |name: &str, kind: &str, transport: &str, identity: &str| Device {
            name: name.to_owned(),
            kind: kind.to_owned(),
            transport: transport.to_owned(),
            identity: identity.to_owned(),
            model: "LVM vg-root".to_owned(),
            ..Device::default()
        };
        let nvme = rule(device("nvme0n1", "disk", "nvme", "eui.0025"), "/etc/udev/rules.d/60-a.rules");
        assert!(nvme.new.contains("ATTR{wwid}==\"eui.0025\"") && nvme.advice.is_empty(), "{}", nvme.new);
        assert_eq!(nvme.file, "/etc/udev/rules.d/99-qd1.rules");
        let volume = rule(device("dm-0", "dm", "", "LVM-x"), "/usr/lib/udev/rules.d/99-z.rules");
        assert!(volume.new.contains("ENV{DM_NAME}==\"vg-root\""), "{}", volume.new);
        assert_eq!(volume.file, "/etc/udev/rules.d/zz-qd1.rules");
        // A pattern of udev, or nothing known: the kernel's name, and a warning.
        for identity in ["", "a*", "boot 1 2"] {
            let other = rule(device("cciss/c0d0", "disk", "virtio", identity), "/etc/udev/rules.d/zz.rules");
            assert!(other.new.contains("KERNEL==\"cciss?c0d0\"") && other.advice.contains("may change"), "{other:?}");
            assert_eq!(other.command, "echo none > '/sys/block/cciss!c0d0/queue/scheduler'");
            assert_eq!(other.file, "/etc/udev/rules.d/zz_qd1.rules");
        }
    }
}
