//! Redis and Valkey: their configuration file, and what follows it on the command line (redis.conf).

use qd1_model::setting::Assignment;

use super::programs::{Process, add_as, owns};
use super::{Reader, assigned, line_number};

const NAMES: [&str; 3] = ["appendonly", "appendfsync", "no-appendfsync-on-rewrite"];
const FILES: [(&str, &str); 5] = [
    ("Redis", "/etc/redis.conf"),
    ("Valkey", "/etc/valkey/valkey.conf"),
    ("Valkey", "/etc/valkey.conf"),
    ("Redis", "/usr/local/etc/redis/redis.conf"),
    ("KeyDB", "/etc/keydb/keydb.conf"),
];
const SERVERS: [&str; 5] = ["redis-server", "redis-check-rdb", "valkey-server", "valkey-check-rdb", "keydb-server"];

type Lines = Vec<(String, Assignment)>;

pub(super) fn read(reader: &mut Reader<'_>, processes: &[Process]) {
    let mut found: Vec<(&str, String, Lines)> = Vec::new();
    for (program, file) in files(reader, processes) {
        let mut lines = Vec::new();
        include(reader, &file, &mut lines);
        let of_file = |process: &&Process| process.is(&SERVERS) && process.words.contains(&file);
        for process in processes.iter().filter(of_file) {
            for name in NAMES {
                let value = process.option(&format!("--{name}"));
                lines.extend(value.map(|value| (name.to_owned(), assigned("the server's command line", 0, value))));
            }
        }
        found.push((program, file, lines));
    }
    for (program, file, lines) in &found {
        // A file that another one includes is no server's.
        if found.iter().any(|(_, other, lines)| other != file && lines.iter().any(|(_, by)| by.file == *file)) {
            continue;
        }
        for name in NAMES {
            let of_name = lines.iter().filter(|(known, _)| known == name).map(|(_, by)| by.clone()).collect();
            add_as(reader, &format!("{program} ({file})"), name, of_name, str::to_ascii_lowercase);
        }
    }
}

/// The files that servers run with, and those of distributions, each once.
fn files(reader: &mut Reader<'_>, processes: &[Process]) -> Vec<(&'static str, String)> {
    let mut found = Vec::new();
    for process in processes.iter().filter(|process| process.is(&SERVERS)) {
        let Some(file) = process.words.get(1).filter(|word| word.starts_with('/')) else { continue };
        if owns(reader, process, file) {
            let is_redis = process.is(&SERVERS[..2]);
            let program = if is_redis {
                "Redis"
            } else if process.is(&SERVERS[4..]) {
                "KeyDB"
            } else {
                "Valkey"
            };
            found.push((program, file.clone()));
        }
    }
    let names = reader.names("/etc/redis").into_iter().filter(|name| name.ends_with(".conf"));
    found.extend(names.map(|name| ("Redis", format!("/etc/redis/{name}"))));
    found.extend(FILES.map(|(program, file)| (program, file.to_owned())));
    let mut once: Vec<(&str, String)> = Vec::new();
    for (program, file) in found {
        if !once.iter().any(|(_, known)| *known == file) {
            once.push((program, file));
        }
    }
    once
}

fn include(reader: &mut Reader<'_>, file: &str, lines: &mut Lines) {
    reader.configuration(file, |reader, text| read_lines(reader, file, text, lines));
}

fn read_lines(reader: &mut Reader<'_>, file: &str, text: &str, lines: &mut Lines) {
    for (index, line) in text.lines().enumerate() {
        let mut words = line.split_whitespace();
        let (Some(name), Some(value)) = (words.next(), words.next()) else { continue };
        let (name, value) = (name.to_ascii_lowercase(), value.trim_matches(['"', '\'']));
        if name == "include" {
            include(reader, value, lines);
        } else if NAMES.contains(&name.as_str()) {
            lines.push((name, assigned(file, line_number(index), value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::SettingKind;

    use crate::fixture::Fixture;

    #[test]
    fn included_files_take_effect_where_they_stand() {
        let made = Fixture::new()
            .file(
                "/etc/redis/redis.conf",
                "# appendfsync no\nappendfsync no\ninclude /etc/redis/own.conf\nappendonly yes\n",
            )
            .file("/etc/redis/own.conf", "AppendFsync always\nappendonly no\n");
        let inventory = made.machine().settings(Some(Path::new("/")));
        let of = |name| inventory.setting(SettingKind::Program, "Redis (/etc/redis/redis.conf)", name).unwrap();
        assert_eq!(of("appendfsync").value, "always");
        assert_eq!(of("appendonly").after_boot.winner.as_ref().unwrap().line, 4);
        let own = inventory.setting(SettingKind::Program, "Redis (/etc/redis/own.conf)", "appendonly");
        assert_eq!(own, None);
    }

    #[test]
    fn every_instance_is_read_and_values_have_no_case() {
        let made = Fixture::new()
            .file("/etc/redis/6380.conf", "appendonly YES\n")
            .file("/srv/valkey.conf", "appendfsync No\n")
            .link("/proc/8/exe", "/usr/bin/valkey-server")
            .file("/proc/8/cmdline", "/usr/bin/valkey-server\0/srv/valkey.conf\0--appendonly\0Yes\0");
        let inventory = made.machine().settings(Some(Path::new("/")));
        let of = |program, name| inventory.setting(SettingKind::Program, program, name).unwrap().value.clone();
        assert_eq!(of("Redis (/etc/redis/6380.conf)", "appendonly"), "yes");
        assert_eq!(of("Valkey (/srv/valkey.conf)", "appendfsync"), "no");
        assert_eq!(of("Valkey (/srv/valkey.conf)", "appendonly"), "yes");
    }
}
