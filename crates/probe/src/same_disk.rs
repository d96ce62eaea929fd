//! Whether a disk is still the same as at an earlier moment, judged by its filesystem, models and serial numbers.

use std::collections::BTreeSet;

use qd1_model::environment::{BOOT, Device, Environment, Filesystem};

/// Returns how the disk measured `then` differs from the one that would be measured `now`, if these appear to be two
/// disks; `None` for the same disk.
#[must_use]
pub fn difference(then: &Environment, now: &Environment) -> Option<String> {
    let [before, after] = [&then.filesystem, &now.filesystem];
    // A filesystem with an identity of its own may have grown.
    let is_same_filesystem = match before.id.is_empty() || after.id.is_empty() {
        true => (&before.kind, before.size) == (&after.kind, after.size),
        false => before.id == after.id,
    };
    let [models_then, models_now] = [then, now].map(|machine| all(machine, |device| &device.model));
    if !is_same_filesystem || models_then != models_now {
        let described = |filesystem: &Filesystem, models: &[&str]| {
            let on = models.first().map_or_else(String::new, |model| format!(" on {model}"));
            let id = if filesystem.id.is_empty() { String::new() } else { format!(" {}", filesystem.id) };
            format!("{}{id} of {}{on}", filesystem.kind, filesystem.size)
        };
        let (now, then) = (described(after, &models_now), described(before, &models_then));
        let is_resized = before.kind == after.kind && before.size != after.size && after.id.is_empty();
        let hint = if is_resized { "; it may have grown" } else { "" };
        return Some(format!("{now} now, {then} then{hint}"));
    }
    // What identifies a disk only until the next boot says nothing after one. Where a device is overwritten, that doubt
    // is reason enough to refuse.
    let known = |machine| {
        let mut known = all(machine, |device| &device.identity);
        known.retain(|identity| before.kind == "block" || !identity.starts_with(BOOT));
        known
    };
    let (known_then, known_now) = (known(then), known(now));
    let is_other = !known_then.is_empty() && !known_now.is_empty() && known_then != known_now;
    is_other.then(|| "its serial number or the file behind it has changed".to_owned())
}

/// What is known about the devices below, each once, in an order independent of their names, which may change.
fn all(machine: &Environment, of: fn(&Device) -> &String) -> Vec<&str> {
    let known = machine.devices.iter().map(|device| of(device).as_str()).filter(|text| !text.is_empty());
    known.collect::<BTreeSet<&str>>().into_iter().collect()
}

#[cfg(test)]
mod tests {
    use qd1_model::Bytes;

    use super::*;

    /// A run was continued on another disk of the same size, while a filesystem that had grown was refused.
    #[test]
    fn a_disk_is_known_by_its_filesystem_and_its_models() {
        let machine = |id: &str, size: u64, model: &str| Environment {
            filesystem: Filesystem { kind: "ext4".into(), id: id.into(), size: Bytes(size), ..Filesystem::default() },
            devices: vec![Device { model: model.into(), ..Device::default() }],
            ..Environment::default()
        };
        let is_same = |then: &Environment, now: &Environment| difference(then, now).is_none();
        let before = machine("a1", 100, "m");
        assert!(is_same(&before, &before) && is_same(&before, &machine("a1", 200, "m")));
        assert!(!is_same(&before, &machine("a2", 100, "m")) && !is_same(&before, &machine("a1", 100, "other")));
        let without = machine("", 100, "m");
        assert!(is_same(&without, &before) && !is_same(&without, &machine("a1", 200, "m")));
        assert_eq!(
            difference(&without, &machine("", 200, "m")).unwrap(),
            "ext4 of 200 B on m now, ext4 of 100 B on m then; it may have grown"
        );
        assert_eq!(
            difference(&without, &machine("a1", 200, "m")).unwrap(),
            "ext4 a1 of 200 B on m now, ext4 of 100 B on m then"
        );
    }

    /// The image of another loop device of the same size was overwritten.
    #[test]
    fn a_device_is_known_by_its_serial_number() {
        let machine = |kind: &str, identity: &str| Environment {
            filesystem: Filesystem { kind: kind.into(), size: Bytes(100), ..Filesystem::default() },
            devices: vec![Device { identity: identity.into(), ..Device::default() }],
            ..Environment::default()
        };
        let is_same =
            |kind: &str, then: &str, now: &str| difference(&machine(kind, then), &machine(kind, now)).is_none();
        assert!(is_same("block", "S1", "S1") && !is_same("block", "S1", "S2") && !is_same("xfs", "S1", "S2"));
        // After a reboot the sequence number is different.
        assert!(!is_same("block", "boot a 1", "boot b 1") && is_same("xfs", "boot a 1", "boot b 1"));
        // A record of an older version has none.
        assert!(is_same("block", "", "S2"));
        assert!(difference(&machine("block", "S1"), &machine("block", "S2")).unwrap().contains("serial number"));
        // Members of an array change their names, and one of two paths to a disk may be gone.
        let array = |members: &[&str]| Environment {
            devices: members.iter().map(|one| Device { identity: (*one).into(), ..Device::default() }).collect(),
            ..machine("block", "")
        };
        assert!(difference(&array(&["a", "b", "a"]), &array(&["b", "a"])).is_none());
        assert!(difference(&array(&["a", "b"]), &array(&["a", "c"])).is_some());
    }
}
