//! Scripts and units that run during a boot. They can set anything; that one mentions a setting is all that is known.

use super::{Reader, line_number};

/// A line that is run.
pub(super) struct Script {
    file: String,
    line: u32,
    text: String,
}

/// Single files.
const FILES: [&str; 4] = ["/etc/rc.local", "/etc/rc.d/rc.local", "/etc/sysfs.conf", "/etc/cloud/cloud.cfg"];
/// Directories, and how the names of their files end.
const DIRS: [(&str, &str); 6] = [
    ("/etc/systemd/system", ".service"),
    ("/etc/local.d", ".start"),
    ("/etc/sysfs.d", ".conf"),
    ("/etc/tmpfiles.d", ".conf"),
    ("/etc/cloud/cloud.cfg.d", ".cfg"),
    ("/etc/cron.d", ""),
];
/// What a line has to contain to be of interest.
const WORDS: [&str; 6] = ["sysctl", "/proc/sys/", "/sys/", "block/", "blockdev", "mount"];

/// Reads the lines that may change a setting.
pub(super) fn read(reader: &mut Reader<'_>) -> Vec<Script> {
    let mut files: Vec<String> = FILES.iter().map(|file| (*file).to_owned()).collect();
    for (dir, ending) in DIRS {
        let names = reader.names(dir).into_iter().filter(|name| name.ends_with(ending));
        files.extend(names.map(|name| format!("{dir}/{name}")));
    }
    let mut found = Vec::new();
    for file in files {
        let text = reader.text(&file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if !line.starts_with(['#', ';']) && WORDS.iter().any(|word| line.contains(word)) {
                found.push(Script { file: file.clone(), line: line_number(index), text: line.to_owned() });
            }
        }
    }
    found
}

/// Why a setting may be something else after a boot: the line that mentions one of these names; empty if none does.
pub(super) fn mentions(scripts: &[Script], names: &[&str]) -> String {
    described(scripts.iter().find(|script| names.iter().any(|name| script.text.contains(name))))
}

/// The same for the options of a filesystem: a line that remounts it.
pub(super) fn remounts(scripts: &[Script], point: &str) -> String {
    let is_it = |script: &&Script| {
        script.text.contains("remount") && script.text.split([' ', '\t', '"', '\'']).any(|word| word == point)
    };
    described(scripts.iter().find(is_it))
}

fn described(script: Option<&Script>) -> String {
    script.map(|script| format!("{}:{} mentions it", script.file, script.line)).unwrap_or_default()
}
