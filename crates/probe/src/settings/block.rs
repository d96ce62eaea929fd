//! Attributes of the block devices, and what udev's rules and TuneD make of them during a boot.

use qd1_model::setting::{AfterBoot, Assignment, Inventory, SettingKind};

use super::tuned::Profile;
use super::udev::Rules;
use super::{Reader, matches, scripts, tuned, udev};
use crate::block::Block;
use crate::names_in;

/// Attributes of whole devices.
const OF_DISK: [&str; 12] = [
    "queue/scheduler",
    "queue/nr_requests",
    "queue/read_ahead_kb",
    "queue/wbt_lat_usec",
    "queue/write_cache",
    "queue/rotational",
    "device/queue_depth",
    "cache_type",
    "alignment_offset",
    "md/consistency_policy",
    "md/degraded",
    "md/sync_action",
];
/// Those of a partition.
const OF_PARTITION: [&str; 2] = ["alignment_offset", "start"];

pub(super) fn read(reader: &mut Reader<'_>, inventory: &Inventory) {
    let rules = udev::read(reader);
    let profile = tuned::active(reader);
    for device in inventory.devices() {
        let Some(block) = reader.machine.block_named(&device.name) else { continue };
        let names: &[&str] = if block.is_partition() { &OF_PARTITION } else { &OF_DISK };
        for name in names {
            let shown = block.attr(name);
            if shown.is_empty() {
                continue;
            }
            let value = if *name == "queue/scheduler" { active(&shown) } else { shown };
            let after = after_boot(reader, &rules, &profile, &block, name);
            let place = format!("/sys/class/block/{}/{name}", device.name.replace('/', "!"));
            reader.add((SettingKind::Block, &device.name, name), &place, &value, after);
        }
        scsi_cache(reader, &block);
        crypt(reader, &block);
    }
}

/// The scheduler in brackets.
fn active(shown: &str) -> String {
    let bracketed = shown.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
    bracketed.map_or(shown, |(name, _)| name).to_owned()
}

fn after_boot(reader: &Reader<'_>, rules: &Rules, profile: &Profile, block: &Block, name: &str) -> AfterBoot {
    let assigned = rules.assigned(block, name);
    let mut all = assigned.certain;
    let key = match name {
        "queue/scheduler" => "elevator",
        "queue/read_ahead_kb" => "readahead",
        _ => "",
    };
    let mut by_variable = false;
    for (section, _) in profile.sections().into_iter().filter(|(_, plugin)| *plugin == "disk") {
        let devices = profile.keys(section).filter(|(key, _)| key.starts_with("devices"));
        let devices = devices.map(|(_, by)| by.value.as_str()).last();
        let is_variable = devices.is_some_and(|devices| devices.contains("${"));
        let is_meant = devices.is_none_or(|patterns| {
            patterns.split([',', ' ']).any(|pattern| !pattern.is_empty() && matches(pattern, &block.name))
        });
        for (_, by) in profile.keys(section).filter(|(known, _)| *known == key) {
            by_variable |= is_variable || by.value.contains("${");
            // `>4096` only raises the value.
            let value = by.value.trim_start_matches('>').to_owned();
            all.extend(is_meant.then(|| Assignment { value, ..by.clone() }));
        }
    }
    let mut after = AfterBoot::last_wins(all);
    after.unsure = match assigned.perhaps {
        Some(why) => why,
        None if by_variable => "a variable of TuneD decides it".to_owned(),
        None => scripts::mentions(&reader.scripts, &[name]),
    };
    after
}

/// Whether the drive itself has a volatile cache, according to its mode page; `queue/write_cache` is only the kernel's
/// view of that.
fn scsi_cache(reader: &mut Reader<'_>, block: &Block) {
    let dir = block.dir.join("device/scsi_disk");
    let Some(address) = names_in(&dir).into_iter().next() else { return };
    let place = format!("/sys/class/scsi_disk/{address}/cache_type");
    let value = block.attr(&format!("device/scsi_disk/{address}/cache_type"));
    if !value.is_empty() {
        reader.add((SettingKind::Block, &block.name, "cache_type"), &place, &value, AfterBoot::default());
    }
}

/// The options of an encrypted volume in `/etc/crypttab`: its third and fourth field are the key and the options.
fn crypt(reader: &mut Reader<'_>, block: &Block) {
    if !block.attr("dm/uuid").starts_with("CRYPT-") {
        return;
    }
    let (file, volume) = ("/etc/crypttab", block.attr("dm/name"));
    let text = reader.text(file).unwrap_or_default();
    let mut entries =
        text.lines().enumerate().map(|(index, line)| (index, line.split_whitespace().collect::<Vec<_>>()));
    let Some((index, fields)) = entries.find(|(_, fields)| fields.first() == Some(&volume.as_str())) else { return };
    let options = fields.get(3).copied().unwrap_or_default();
    let by = super::assigned(file, super::line_number(index), options);
    let after = AfterBoot::last_wins(vec![by]);
    reader.add((SettingKind::Block, &block.name, "crypttab"), file, options, after);
    reader.unseen(
        format!("the queues of the encrypted volume {volume}"),
        "its header and `dmsetup table` show them to root; only /etc/crypttab was read",
    );
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::fixture;

    #[test]
    fn tuned_sets_the_scheduler_and_readahead_after_udev() {
        let machine = fixture::virtio()
            .file("/etc/udev/rules.d/60.rules", "KERNEL==\"vda\", ATTR{queue/read_ahead_kb}=\"64\"\n")
            .file("/etc/tuned/active_profile", "mine")
            .file("/etc/tuned/mine/tuned.conf", "[disk]\ndevices=vd*\nreadahead=>4096\nelevator=none\n");
        let inventory = machine.machine().settings(Some(Path::new("/")));
        let of = |name| inventory.setting(SettingKind::Block, "vda", name).unwrap();
        let readahead = of("queue/read_ahead_kb");
        assert_eq!(
            (readahead.value.as_str(), readahead.place.as_str()),
            ("128", "/sys/class/block/vda/queue/read_ahead_kb")
        );
        assert_eq!(readahead.after_boot.winner.as_ref().unwrap().value, "4096");
        assert_eq!(readahead.after_boot.overridden[0].value, "64");
        assert_eq!(of("queue/scheduler").value, "mq-deadline");
        assert_eq!(of("queue/scheduler").after_boot.winner.as_ref().unwrap().value, "none");
    }

    #[test]
    fn sections_of_tuned_have_types_and_variables() {
        let after = |text: &str| {
            let machine =
                fixture::virtio().file("/etc/tuned/active_profile", "mine").file("/etc/tuned/mine/tuned.conf", text);
            let inventory = machine.machine().settings(Some(Path::new("/")));
            inventory.setting(SettingKind::Block, "vda", "queue/scheduler").unwrap().after_boot.clone()
        };
        let two = after("[disk]\ndevices=sd*\nelevator=bfq\n[fast]\ntype=disk\ndevices=vd*\nelevator=none\n");
        assert_eq!((two.winner.unwrap().value.as_str(), two.unsure.as_str()), ("none", ""));
        assert!(after("[fast]\ntype=disk\nelevator=${x}\n").unsure.contains("variable"));
        assert!(after("[disk]\ndevices=${x}\nelevator=none\n").unsure.contains("variable"));
        assert_eq!(after("[other]\nelevator=none\n").winner, None);
    }

    #[test]
    fn a_rebuild_of_an_array_is_read() {
        let made = fixture::virtio().file("/sys/class/block/vda/md/sync_action", "recover\n");
        let inventory = made.machine().settings(Some(Path::new("/")));
        assert_eq!(inventory.setting(SettingKind::Block, "vda", "md/sync_action").unwrap().value, "recover");
    }

    #[test]
    fn the_options_of_an_encrypted_volume_come_from_crypttab() {
        let laptop = fixture::laptop().file("/etc/crypttab", "# comment\nunlinked UUID=1 none luks,discard\n");
        let inventory = laptop.machine().settings(Some(Path::new("/")));
        let options = inventory.setting(SettingKind::Block, "dm-0", "crypttab").unwrap();
        assert_eq!(options.value, "luks,discard");
        assert!(inventory.unseen.iter().any(|unseen| unseen.what.ends_with("volume unlinked")));
    }
}
