//! PostgreSQL: `postgresql.conf`, what it includes, `postgresql.auto.conf`, and the server's command line, each of
//! which overrides those before it (PostgreSQL's manual, 19.1, "Setting Parameters").

use qd1_model::setting::Assignment;

use super::programs::{Process, add, add_storage, owns};
use super::{Reader, assigned, line_number};

/// What the rules look at.
const NAMES: [&str; 8] = [
    "fsync",
    "synchronous_commit",
    "wal_sync_method",
    "full_page_writes",
    "effective_io_concurrency",
    "random_page_cost",
    "data_sync_retry",
    "data_directory",
];

struct Line {
    name: String,
    by: Assignment,
}

pub(super) fn read(reader: &mut Reader<'_>, processes: &[Process]) {
    let mut found: Vec<(String, Option<&Process>)> = Vec::new();
    for process in processes.iter().filter(|process| process.is(&["postgres", "postmaster"])) {
        let data = process.option("-D");
        if !data.is_none_or(|dir| owns(reader, process, dir)) {
            continue;
        }
        let dir = data.map(|dir| format!("{dir}/postgresql.conf"));
        let named = process.words.iter().find_map(|word| word.trim_start_matches("--").strip_prefix("config_file="));
        let file = named.map(str::to_owned).or(dir);
        if let Some(file) = file.filter(|file| owns(reader, process, file)) {
            found.push((file, Some(process)));
        }
    }
    for file in installed(reader) {
        if !found.iter().any(|(known, _)| *known == file) {
            found.push((file, None));
        }
    }
    for (file, process) in found {
        cluster(reader, &file, process);
    }
}

/// Where distributions keep their clusters: Debian, Red Hat, Arch, Alpine and containers.
fn installed(reader: &mut Reader<'_>) -> Vec<String> {
    let mut dirs = vec!["/var/lib/pgsql/data".to_owned(), "/var/lib/postgres/data".to_owned()];
    for version in reader.names("/etc/postgresql") {
        let dir = format!("/etc/postgresql/{version}");
        dirs.extend(reader.names(&dir).into_iter().map(|name| format!("{dir}/{name}")));
    }
    for version in reader.names("/var/lib/pgsql") {
        dirs.push(format!("/var/lib/pgsql/{version}/data"));
    }
    for version in reader.names("/var/lib/postgresql") {
        dirs.push(format!("/var/lib/postgresql/{version}"));
        dirs.push(format!("/var/lib/postgresql/{version}/data"));
    }
    let files = dirs.into_iter().map(|dir| format!("{dir}/postgresql.conf"));
    let is_there = |file: &String| !is_absent(reader, file);
    files.filter(is_there).collect()
}

/// Whether a file does not exist, as far as this user can see; one in a closed directory may.
fn is_absent(reader: &Reader<'_>, file: &str) -> bool {
    let found = std::fs::symlink_metadata(reader.machine.below(file));
    found.is_err_and(|error| error.kind() != std::io::ErrorKind::PermissionDenied)
}

fn cluster(reader: &mut Reader<'_>, file: &str, process: Option<&Process>) {
    let mut lines = Vec::new();
    include(reader, file, &mut lines);
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    let named = lines.iter().rfind(|line| line.name == "data_directory").map(|line| line.by.value.clone());
    let given = process.and_then(|process| process.option("-D")).map(str::to_owned);
    let data = named.or(given).unwrap_or_else(|| dir.to_owned());
    if lines.is_empty() && reader.unseen.iter().any(|unseen| unseen.what == file) {
        return;
    }
    include(reader, &format!("{data}/postgresql.auto.conf"), &mut lines);
    lines.extend(process.iter().flat_map(|process| of_command_line(process)));
    let version = reader.machine.text(format!("{data}/PG_VERSION"));
    let version = if version.is_empty() { number_in(file) } else { version };
    let program = format!("PostgreSQL {version} ({dir})").replace("  ", " ");
    for name in NAMES {
        let of_name = lines.iter().filter(|line| line.name == name).map(|line| line.by.clone());
        add(reader, &program, name, of_name.collect());
    }
    let found = vec![assigned(file, 0, &version)];
    add(reader, &program, "version", found);
    add_storage(reader, &program, &data);
}

/// The version in a path such as `/etc/postgresql/16/main`.
fn number_in(file: &str) -> String {
    let is_number = |part: &&str| part.starts_with(|c: char| c.is_ascii_digit());
    file.split('/').find(is_number).unwrap_or_default().to_owned()
}

fn include(reader: &mut Reader<'_>, file: &str, lines: &mut Vec<Line>) {
    reader.configuration(file, |reader, text| read_lines(reader, file, text, lines));
}

fn read_lines(reader: &mut Reader<'_>, file: &str, text: &str, lines: &mut Vec<Line>) {
    let dir = file.rsplit_once('/').map_or("", |(dir, _)| dir);
    let beside = |name: &str| if name.starts_with('/') { name.to_owned() } else { format!("{dir}/{name}") };
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.starts_with('#') {
            continue;
        }
        // The equals sign is optional.
        let end = line.find(|c: char| c.is_whitespace() || c == '=').unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        let value = value(rest.trim_start().trim_start_matches('=').trim_start());
        match name.to_ascii_lowercase().as_str() {
            "include" | "include_if_exists" => include(reader, &beside(&value), lines),
            "include_dir" => {
                let inner = beside(&value);
                for name in reader.names(&inner).into_iter().filter(|name| name.ends_with(".conf")) {
                    include(reader, &format!("{inner}/{name}"), lines);
                }
            }
            name if NAMES.contains(&name) => {
                lines.push(Line { name: name.to_owned(), by: assigned(file, line_number(index), &value) });
            }
            _ => {}
        }
    }
}

/// A value without its quotes and the comment after it.
fn value(text: &str) -> String {
    match text.strip_prefix('\'') {
        Some(quoted) => quoted.split('\'').next().unwrap_or_default().to_owned(),
        None => text.split(['#', ' ', '\t']).next().unwrap_or_default().to_owned(),
    }
}

/// `-c name=value`, `--name=value`, and `-F`, which is fsync=off.
fn of_command_line(process: &Process) -> Vec<Line> {
    let mut lines = Vec::new();
    let place = "the server's command line";
    for (at, word) in process.words.iter().enumerate().skip(1) {
        let pair = match word.as_str() {
            "-F" => Some(("fsync", "off")),
            "-c" => process.words.get(at + 1).and_then(|pair| pair.split_once('=')),
            word => word.strip_prefix("--").or(word.strip_prefix("-c")).and_then(|pair| pair.split_once('=')),
        };
        if let Some((name, value)) = pair {
            lines.push(Line { name: name.replace('-', "_"), by: assigned(place, 0, value) });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::{Inventory, SettingKind};

    use crate::fixture::{self, Fixture};

    const DEBIAN: &str = "PostgreSQL 16 (/etc/postgresql/16/main)";

    fn settings(fixture: Fixture) -> Inventory {
        fixture.machine().settings(Some(Path::new("/")))
    }

    fn debian() -> Fixture {
        fixture::virtio().file(
            "/etc/postgresql/16/main/postgresql.conf",
            "data_directory = '/data/pg'\t# use data in another directory\n#fsync = on\nFsync off\n\
             include_dir = 'conf.d'\n",
        )
    }

    #[test]
    fn later_files_and_the_command_line_override() {
        let value = |made: Fixture| {
            let inventory = settings(made);
            let setting = inventory.setting(SettingKind::Program, DEBIAN, "fsync").unwrap().clone();
            (setting.value, setting.place, setting.after_boot.overridden.len())
        };
        let of = |value: &str, place: &str, overridden| (value.to_owned(), place.to_owned(), overridden);
        assert_eq!(value(debian()), of("off", "/etc/postgresql/16/main/postgresql.conf", 0));
        let with_dir = || debian().file("/etc/postgresql/16/main/conf.d/a.conf", "fsync=on\n");
        assert_eq!(value(with_dir()), of("on", "/etc/postgresql/16/main/conf.d/a.conf", 1));
        let with_auto = || with_dir().file("/data/pg/postgresql.auto.conf", "fsync = 'off'\n");
        assert_eq!(value(with_auto()), of("off", "/data/pg/postgresql.auto.conf", 2));
        let running = with_auto().link("/proc/77/exe", "/usr/lib/postgresql/16/bin/postgres").file(
            "/proc/77/cmdline",
            "/usr/lib/postgresql/16/bin/postgres\0-D\0/data/pg\0-c\0config_file=/etc/postgresql/16/main/postgresql.conf\0\
             -c\0fsync=on\0",
        );
        assert_eq!(value(running), of("on", "the server's command line", 3));
    }

    #[test]
    fn the_disk_of_its_data_is_named() {
        let inventory = settings(debian());
        assert_eq!(inventory.setting(SettingKind::Program, DEBIAN, "data filesystem").unwrap().value, "ext4");
        assert_eq!(inventory.setting(SettingKind::Program, DEBIAN, "data disk"), None);
        assert_eq!(inventory.setting(SettingKind::Program, DEBIAN, "version").unwrap().value, "16");
    }
}
