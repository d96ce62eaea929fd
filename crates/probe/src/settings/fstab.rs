//! What is mounted during a boot, and with which options: `/etc/fstab` and systemd's mount units.

use qd1_model::setting::Assignment;

use super::{Reader, assigned, line_number};
use crate::mounts::unescape;

/// One filesystem that is mounted during a boot.
pub(super) struct Entry {
    pub(super) point: String,
    /// Where its options stand, and what they are.
    pub(super) options: Assignment,
}

/// Reads `/etc/fstab` and the mount units of the administrator, which win over those generated from it
/// (systemd.unit(5), systemd-fstab-generator(8)). Not so for `/` and `/usr`, which are mounted before any unit is:
/// fstab decides there, whose options systemd-remount-fs applies (systemd-remount-fs.service(8)).
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Entry> {
    let mut entries = Vec::new();
    let text = reader.text("/etc/fstab").unwrap_or_default();
    for (index, line) in text.lines().enumerate() {
        let mut fields = line.split_whitespace();
        let (Some(spec), Some(point), Some(_), options) = (fields.next(), fields.next(), fields.next(), fields.next())
        else {
            continue;
        };
        if !spec.starts_with('#') {
            let options = assigned("/etc/fstab", line_number(index), options.unwrap_or("defaults"));
            entries.push(Entry { point: unescape(point), options });
        }
    }
    for dir in ["/run/systemd/system", "/etc/systemd/system"] {
        for name in reader.names(dir).into_iter().filter(|name| name.ends_with(".mount")) {
            let unit = unit(reader, &format!("{dir}/{name}"));
            let is_early = unit.as_ref().is_some_and(|unit| {
                unit.point == "/" || unit.point == "/usr" && entries.iter().any(|entry| entry.point == unit.point)
            });
            entries.extend(unit.filter(|_| !is_early));
        }
    }
    entries
}

fn unit(reader: &mut Reader<'_>, file: &str) -> Option<Entry> {
    let text = reader.text(file)?;
    let mut entry = Entry { point: String::new(), options: assigned(file, 0, "defaults") };
    for (index, line) in text.lines().enumerate() {
        match line.trim().split_once('=') {
            Some(("Where", point)) => entry.point = point.trim().to_owned(),
            Some(("Options", options)) => entry.options = assigned(file, line_number(index), options.trim()),
            _ => {}
        }
    }
    (!entry.point.is_empty()).then_some(entry)
}
