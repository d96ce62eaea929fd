//! TuneD's active profile, as far as it concerns disks, memory and processors.
//!
//! `/etc/tuned/active_profile` names profiles, of which later ones override; each is in `/etc/tuned/profiles`,
//! `/etc/tuned`, `/usr/lib/tuned/profiles` or `/usr/lib/tuned`, and may `include` others first (tuned-profiles(7),
//! tuned.conf(5)).

use qd1_model::setting::Assignment;

use super::{Reader, assigned, line_number};

/// Directories of profiles; the first that has one wins.
const DIRS: [&str; 4] = ["/etc/tuned/profiles", "/etc/tuned", "/usr/lib/tuned/profiles", "/usr/lib/tuned"];
/// How deep profiles include each other; more than this is a loop.
const DEPTH_MAX: u32 = 8;

/// The lines of the active profile and of those that it includes, in their order: section, key, value.
#[derive(Default)]
pub(super) struct Profile {
    lines: Vec<(String, String, Assignment)>,
}

impl Profile {
    /// The sections in their order, each with the plugin that it configures: that of its name, unless it has a `type`.
    pub(super) fn sections(&self) -> Vec<(&str, &str)> {
        let mut found: Vec<(&str, &str)> = Vec::new();
        for (section, key, by) in &self.lines {
            let at = found.iter().position(|(known, _)| known == section).unwrap_or_else(|| {
                found.push((section, section));
                found.len() - 1
            });
            if key == "type" {
                found[at].1 = &by.value;
            }
        }
        found
    }

    /// The keys of a section, except for that of its plugin.
    pub(super) fn keys<'a>(&'a self, section: &'a str) -> impl Iterator<Item = (&'a str, &'a Assignment)> {
        let of_section = self.lines.iter().filter(move |(known, key, _)| known == section && key != "type");
        of_section.map(|(_, key, by)| (key.as_str(), by))
    }
}

/// Reads the active profile; empty if TuneD is not installed or has none.
pub(super) fn active(reader: &mut Reader<'_>) -> Profile {
    let mut profile = Profile::default();
    for name in reader.text("/etc/tuned/active_profile").unwrap_or_default().split_whitespace() {
        add(reader, name, &mut profile, 0);
    }
    profile
}

/// Whether TuneD applies the files of `/etc` again after its own values, which is its default.
pub(super) fn reapplies_sysctl(reader: &mut Reader<'_>) -> bool {
    let text = reader.text("/etc/tuned/tuned-main.conf").unwrap_or_default();
    let pairs = text.lines().filter_map(|line| line.split_once('='));
    let value = pairs.filter(|(key, _)| key.trim() == "reapply_sysctl").map(|(_, value)| value.trim()).next_back();
    !value.is_some_and(|value| matches!(value.to_ascii_lowercase().as_str(), "0" | "n" | "no" | "false"))
}

fn add(reader: &mut Reader<'_>, name: &str, profile: &mut Profile, depth: u32) {
    let files = DIRS.map(|dir| format!("{dir}/{name}/tuned.conf"));
    let Some(file) = files.into_iter().find(|file| reader.machine.has(file)) else { return };
    if depth > DEPTH_MAX {
        return;
    }
    let text = reader.text(&file).unwrap_or_default();
    let (mut section, mut own, mut included) = (String::new(), Vec::new(), Vec::new());
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(title) = line.strip_prefix('[') {
            section = title.trim_end_matches(']').to_owned();
            continue;
        }
        let Some((key, value)) = line.split_once('=').filter(|_| !line.starts_with(['#', ';'])) else { continue };
        let (key, value) = (key.trim(), value.trim().trim_matches('"'));
        if section == "main" && key == "include" {
            included.extend(value.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned));
        } else {
            own.push((section.clone(), key.to_owned(), assigned(&file, line_number(index), value)));
        }
    }
    for name in included {
        add(reader, &name, profile, depth + 1);
    }
    profile.lines.extend(own);
}
