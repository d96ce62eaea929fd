//! Settings of the machine: what is in force, which file decides it after the next boot, and what could not be read.
//!
//! Files are read as the programs that apply them during a boot read them (sysctl.d(5), udev(7), fstab(5), tuned), and
//! in their order. Nothing is changed or run. What this user may not read is listed with the reason.

mod block;
mod etcd;
mod fstab;
mod machine;
mod mounted;
mod mysql;
mod postgres;
mod programs;
mod reader;
mod redis;
mod scripts;
mod sysctl;
#[cfg(test)]
mod systems;
mod tuned;
mod udev;

use std::path::Path;

use qd1_model::environment::FilesystemClass;
use qd1_model::setting::{Assignment, Inventory, Place};

use crate::{Machine, names_in};
use reader::Reader;

impl Machine {
    /// Reads the settings of the machine, and those of the filesystem and devices of `path`; without a path those of
    /// all mounted filesystems on disks.
    #[must_use]
    pub fn settings(&self, path: Option<&Path>) -> Inventory {
        let at = path.unwrap_or(Path::new("/"));
        let places = match path {
            Some(path) => vec![self.place(path)],
            None => self.mounted_places(),
        };
        let mut reader = Reader::new(self);
        let mut inventory = Inventory { environment: self.environment(at), places, ..Inventory::default() };
        for dir in ["/proc", "/sys"] {
            if names_in(&self.below(dir)).is_empty() {
                reader.unseen(dir, format!("no {dir} is mounted here, so that no setting in it was read"));
            }
        }
        sysctl::read(&mut reader);
        block::read(&mut reader, &inventory);
        mounted::read(&mut reader, &inventory);
        machine::read(&mut reader, &inventory);
        programs::read(&mut reader);
        reader.unseen.sort();
        reader.unseen.dedup();
        (inventory.settings, inventory.unseen) = (reader.settings, reader.unseen);
        inventory
    }

    fn place(&self, path: &Path) -> Place {
        let mut filesystem = self.filesystem(path).unwrap_or_default();
        let devices = self.devices(&filesystem, path);
        let top = devices.first().map(|device| device.name.as_str()).unwrap_or_default();
        mounted::complete(self, &mut filesystem, top);
        Place { filesystem, devices }
    }

    /// The filesystems on disks, each once: bind mounts and subvolumes show the same one again.
    fn mounted_places(&self) -> Vec<Place> {
        let mut places: Vec<Place> = Vec::new();
        let mut numbers: Vec<String> = Vec::new();
        for mount in self.mounts() {
            let is_on_disk = self.class_of_mount(&mount) == FilesystemClass::Disk && !mount.source.is_empty();
            if !is_on_disk || numbers.contains(&mount.number) || READ_ONLY.contains(&mount.kind.as_str()) {
                continue;
            }
            let place = self.place(&mount.point);
            let is_covered = place.filesystem.mount_point != mount.point.to_string_lossy();
            let is_known = places.iter().any(|known| {
                known.filesystem.source == place.filesystem.source && known.filesystem.kind == place.filesystem.kind
            });
            if !is_covered && !is_known {
                numbers.push(mount.number);
                places.push(place);
            }
        }
        places
    }
}

/// Images that are only read: their options cost nothing.
const READ_ONLY: [&str; 4] = ["squashfs", "iso9660", "erofs", "udf"];

/// The line number of an index from 0.
fn line_number(index: usize) -> u32 {
    u32::try_from(index + 1).unwrap_or(u32::MAX)
}

/// An assignment.
fn assigned(file: &str, line: u32, value: &str) -> Assignment {
    Assignment { file: file.to_owned(), line, value: value.to_owned() }
}

/// Whether a shell pattern such as `vd[a-z]*|sd?` matches, as udev's rules and TuneD's devices use them.
fn matches(pattern: &str, text: &str) -> bool {
    pattern.split('|').any(|one| globs(one.as_bytes(), text.as_bytes()))
}

fn globs(pattern: &[u8], text: &[u8]) -> bool {
    match pattern.split_first() {
        None => text.is_empty(),
        Some((b'*', rest)) => (0..=text.len()).any(|at| globs(rest, &text[at..])),
        Some((b'?', rest)) => text.split_first().is_some_and(|(_, left)| globs(rest, left)),
        Some((b'[', rest)) => match (rest.iter().position(|letter| *letter == b']'), text.split_first()) {
            (Some(end), Some((letter, left))) => in_set(&rest[..end], *letter) && globs(&rest[end + 1..], left),
            _ => false,
        },
        Some((letter, rest)) => text.split_first().is_some_and(|(first, left)| first == letter && globs(rest, left)),
    }
}

/// Whether a letter is in a set such as `a-z_` or, negated, `!0-9`.
fn in_set(set: &[u8], letter: u8) -> bool {
    let (is_negated, mut set) = match set.split_first() {
        Some((b'!' | b'^', rest)) => (true, rest),
        _ => (false, set),
    };
    let mut is_in = false;
    while let Some((first, rest)) = set.split_first() {
        match rest {
            [b'-', last, after @ ..] => {
                is_in |= (*first..=*last).contains(&letter);
                set = after;
            }
            _ => {
                is_in |= *first == letter;
                set = rest;
            }
        }
    }
    is_in != is_negated
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_in_a_shell() {
        for (pattern, text, expected) in [
            ("vd[a-z]", "vda", true),
            ("vd[a-z]", "vda1", false),
            ("sd*|nvme*n*", "nvme0n1", true),
            ("sd?", "sda", true),
            ("[!s]d*", "sda", false),
            ("", "", true),
            ("sd[", "sd[", false),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }
}
