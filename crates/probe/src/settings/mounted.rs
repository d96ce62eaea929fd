//! Options of the mounted filesystems: those in force, and those of the next boot.

use qd1_model::environment::Filesystem;
use qd1_model::setting::{AfterBoot, Inventory, SettingKind, mount_option, option_of};

use super::{Reader, assigned, fstab, scripts};
use crate::Machine;

/// Options that ext4 keeps in its superblock as defaults (tune2fs(8), `-o`) and then shows in
/// `/proc/fs/ext4/DEVICE/options` only.
const HIDDEN: [&str; 4] = ["discard", "nobarrier", "data=journal", "data=writeback"];

/// Adds to the options in mountinfo those that only ext4's own list shows.
pub(super) fn complete(machine: &Machine, fs: &mut Filesystem, device: &str) {
    if fs.kind != "ext4" || device.is_empty() {
        return;
    }
    let text = machine.text(format!("/proc/fs/ext4/{device}/options"));
    let all = text.lines().filter(|option| HIDDEN.contains(option)).map(str::to_owned);
    let new: Vec<String> = all.filter(|option| !fs.options.contains(option)).collect();
    fs.options.extend(new);
}

pub(super) fn read(reader: &mut Reader<'_>, inventory: &Inventory) {
    let entries = fstab::read(reader);
    for place in &inventory.places {
        let fs = &place.filesystem;
        if fs.mount_point.is_empty() {
            continue;
        }
        let of_boot = entries.iter().filter(|entry| entry.point == fs.mount_point).map(|entry| entry.options.clone());
        let mut after = AfterBoot::last_wins(of_boot.collect());
        if fs.mount_point == "/" {
            root(reader, fs, &mut after);
        }
        if after.unsure.is_empty() {
            after.unsure = scripts::remounts(&reader.scripts, &fs.mount_point);
        }
        let subject = (SettingKind::Mount, fs.mount_point.as_str(), "options");
        reader.add(subject, "/proc/self/mountinfo", &fs.options.join(","), after);
        if fs.kind == "zfs" {
            let what = format!("the properties sync, logbias and recordsize of {}", fs.source);
            reader.unseen(what, "only `zfs get` shows them");
        }
    }
}

/// The root is first mounted with `rootflags=` of the kernel's command line, then remounted with the options of fstab
/// (systemd-remount-fs.service(8)): what fstab does not name stays as it was. Each such option is a setting of its own.
/// The data mode of ext4 stays in any case, since a remount cannot change it.
fn root(reader: &mut Reader<'_>, fs: &Filesystem, after: &mut AfterBoot) {
    let text = reader.text("/proc/cmdline").unwrap_or_default();
    let flags = text.split_whitespace().filter_map(|word| word.strip_prefix("rootflags=")).next_back();
    let flags: Vec<&str> = flags.unwrap_or_default().split(',').filter(|option| !option.is_empty()).collect();
    if after.winner.is_none() && !flags.is_empty() {
        after.winner = Some(assigned("/proc/cmdline", 0, &flags.join(",")));
        return;
    }
    let in_fstab = |name: &str| after.winner.as_ref().and_then(|by| option_of(&by.value, name));
    let (mut kept, mut overridden) = (Vec::new(), Vec::new());
    for (at, flag) in flags.iter().enumerate() {
        let (name, _) = mount_option(flag);
        if flags[at + 1..].iter().any(|later| mount_option(later).0 == name) {
            continue;
        }
        if name != "data" && in_fstab(&name).is_some() {
            overridden.push(*flag);
        } else {
            kept.push((name, *flag));
        }
    }
    let data = in_fstab("data").filter(|_| fs.kind.starts_with("ext"));
    let in_force = |name: &str| option_of(&fs.options.join(","), name);
    let mode = in_force("data").unwrap_or_else(|| "ordered".to_owned());
    if data.is_some() && !kept.iter().any(|(name, _)| name == "data") {
        let place = after.winner.as_ref().map(|by| by.file.clone()).unwrap_or_default();
        let ignored = AfterBoot {
            overridden: after.winner.clone().into_iter().collect(),
            unsure: "only rootflags= or the superblock set it for the root".to_owned(),
            ..AfterBoot::default()
        };
        reader.add((SettingKind::Mount, "/", "data"), &place, &mode, ignored);
    }
    for (name, flag) in kept {
        let (_, value) = mount_option(flag);
        let by = AfterBoot::last_wins(vec![assigned("/proc/cmdline", 0, flag)]);
        reader.add((SettingKind::Mount, "/", &name), "/proc/cmdline", &in_force(&name).unwrap_or(value), by);
    }
    if !overridden.is_empty() {
        after.overridden.insert(0, assigned("/proc/cmdline", 0, &overridden.join(",")));
    }
    if data.is_some_and(|data| data != mode) {
        after.unsure = "a remount fails if it changes the data mode, and then none of these options apply".to_owned();
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture;

    fn root_with(fstab: &str, flags: &str) -> fixture::Fixture {
        fixture::virtio()
            .file("/etc/fstab", &format!("# a comment\nUUID=1 / ext4 {fstab} 0 1\nUUID=2 /srv ext4 noatime 0 1\n"))
            .file("/proc/cmdline", &format!("root=/dev/vda1 {flags}\n"))
    }

    fn inventory(made: fixture::Fixture) -> Inventory {
        made.machine().settings(Some(Path::new("/")))
    }

    fn options(made: fixture::Fixture) -> qd1_model::setting::Setting {
        inventory(made).setting(SettingKind::Mount, "/", "options").unwrap().clone()
    }

    #[test]
    fn fstab_says_what_is_mounted_after_a_boot_but_a_unit_for_the_root_does_not() {
        let made = || root_with("discard,commit=30", "");
        let setting = options(made());
        assert_eq!(setting.value, "rw,relatime,discard");
        let winner = setting.after_boot.winner.unwrap();
        assert_eq!((winner.line, winner.value.as_str()), (2, "discard,commit=30"));
        let unit = made().file("/etc/systemd/system/-.mount", "[Mount]\nWhere=/\nOptions=noatime\n");
        assert_eq!(options(unit).after_boot.winner.unwrap().value, "discard,commit=30");
        let script = made().file("/etc/rc.local", "mount -o remount,nodiscard /srv\nmount -o remount,nodiscard /\n");
        assert_eq!(options(script).after_boot.unsure, "/etc/rc.local:2 mentions it");
    }

    #[test]
    fn a_mount_unit_wins_over_fstab_elsewhere() {
        let unit = |point: &str| format!("[Mount]\nWhere={point}\nOptions=sync\n");
        let made = fixture::virtio()
            .file("/etc/fstab", "UUID=2 /srv ext4 noatime 0 1\nUUID=3 /usr ext4 ro 0 1\n")
            .file("/etc/systemd/system/srv.mount", &unit("/srv"))
            .file("/etc/systemd/system/usr.mount", &unit("/usr"));
        let machine = made.machine();
        let entries = fstab::read(&mut Reader::new(&machine));
        let last = |point: &str| entries.iter().rfind(|entry| entry.point == point).unwrap().options.value.clone();
        assert_eq!((last("/srv").as_str(), last("/usr").as_str()), ("sync", "ro"));
    }

    #[test]
    fn the_options_of_rootflags_stay_unless_fstab_names_them() {
        let inventory =
            inventory(root_with("barrier,commit=030", "rootflags=data=writeback,barrier=0,commit=5,noatime"));
        let overridden = &inventory.setting(SettingKind::Mount, "/", "options").unwrap().after_boot.overridden;
        assert_eq!(overridden[0].value, "barrier=0,commit=5");
        let by = |name| inventory.mount_option("/", name).map(|by| (by.file.as_str(), by.value.as_str()));
        assert_eq!(by("data"), Some(("/proc/cmdline", "data=writeback")));
        assert_eq!(by("atime"), Some(("/proc/cmdline", "noatime")));
        assert_eq!(by("commit"), Some(("/etc/fstab", "barrier,commit=030")));
        assert_eq!(by("barrier"), Some(("/etc/fstab", "barrier,commit=030")));
        assert_eq!(by("discard"), None);
    }

    #[test]
    fn without_fstab_the_root_stays_as_rootflags_made_it() {
        let made = fixture::virtio().file("/proc/cmdline", "rootflags=data=writeback,noatime\n");
        let inventory = inventory(made);
        let by = inventory.mount_option("/", "data").unwrap();
        assert_eq!((by.file.as_str(), by.value.as_str()), ("/proc/cmdline", "data=writeback,noatime"));
    }

    #[test]
    fn fstab_cannot_set_the_data_mode_of_the_root() {
        let inventory = inventory(root_with("data=journal", ""));
        assert_eq!(inventory.mount_option("/", "data"), None);
        let data = inventory.setting(SettingKind::Mount, "/", "data").unwrap();
        assert_eq!(data.after_boot.overridden[0].line, 2);
        assert!(inventory.setting(SettingKind::Mount, "/", "options").unwrap().after_boot.unsure.contains("data mode"));
    }

    #[test]
    fn defaults_in_the_superblock_are_seen() {
        let made = fixture::virtio().file("/proc/fs/ext4/vda1/options", "rw\nnobarrier\ncommit=5\ndata=ordered\n");
        let inventory = made.machine().settings(Some(Path::new("/")));
        assert_eq!(inventory.places[0].filesystem.options, ["rw", "relatime", "discard", "nobarrier"]);
    }

    #[test]
    fn without_a_path_every_filesystem_on_a_disk_is_read_once() {
        let made = fixture::virtio().file(
            "/proc/self/mountinfo",
            "22 27 0:21 / /proc rw - proc proc rw\n27 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
             28 27 254:1 /srv /bind rw - ext4 /dev/vda1 rw\n29 27 7:0 / /snap/x ro - squashfs /dev/loop0 ro\n",
        );
        let inventory = made.machine().settings(None);
        let points: Vec<&str> = inventory.places.iter().map(|place| place.filesystem.mount_point.as_str()).collect();
        assert_eq!(points, ["/"]);
    }
}
