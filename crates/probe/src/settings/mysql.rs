//! MySQL and MariaDB: the option files and what they include, in their order; the last line wins (MySQL's manual,
//! 4.2.2.2, "Using Option Files"), and MySQL's `mysqld-auto.cnf` (`SET PERSIST`) overrides them.

use qd1_model::setting::Assignment;

use super::programs::{add, add_as, add_storage};
use super::{Reader, assigned, line_number};

/// What the rules look at.
const NAMES: [&str; 7] = [
    "innodb_flush_log_at_trx_commit",
    "innodb_flush_method",
    "innodb_io_capacity",
    "innodb_doublewrite",
    "sync_binlog",
    "log_bin",
    "datadir",
];
const FILES: [&str; 2] = ["/etc/my.cnf", "/etc/mysql/my.cnf"];

pub(super) fn read(reader: &mut Reader<'_>) {
    let mut lines: Vec<(String, Assignment)> = Vec::new();
    let mut seen = Vec::new();
    for file in FILES {
        include(reader, file, &mut lines, &mut seen);
    }
    let data = lines.iter().rfind(|(name, _)| name == "datadir").map(|(_, by)| by.value.clone());
    let data = data.unwrap_or_else(|| "/var/lib/mysql".to_owned());
    persisted(reader, &format!("{}/mysqld-auto.cnf", data.trim_end_matches('/')), &mut lines);
    if lines.is_empty() {
        return;
    }
    // The data dictionary, which only MySQL 8 and later have: the binary log is on there unless a line turns it off.
    if reader.machine.has(format!("{data}/mysql.ibd")) {
        lines.insert(0, ("log_bin".to_owned(), assigned("the default since MySQL 8", 0, "ON")));
    }
    for name in NAMES {
        let of_name = lines.iter().filter(|(known, _)| known == name).map(|(_, by)| by.clone()).collect();
        match name {
            "innodb_flush_method" => add_as(reader, "MySQL or MariaDB", name, of_name, flush_method),
            _ => add(reader, "MySQL or MariaDB", name, of_name),
        }
    }
    add_storage(reader, "MySQL or MariaDB", &data);
}

/// The numbers of the methods are those of their order (InnoDB's `srv_flush_t`).
fn flush_method(value: &str) -> String {
    let names = ["fsync", "O_DSYNC", "littlesync", "nosync", "O_DIRECT", "O_DIRECT_NO_FSYNC"];
    let by_number = value.parse().ok().and_then(|number: usize| names.get(number).copied());
    by_number.unwrap_or(value).to_owned()
}

/// An option without the words in front of it, and with the value that these mean: `skip-log-bin` turns `log_bin` off.
fn option(name: &str, value: &str) -> (String, String) {
    let name = name.trim().trim_start_matches('-').to_ascii_lowercase().replace('-', "_");
    let name = name.strip_prefix("loose_").unwrap_or(&name);
    match name.split_once('_') {
        Some(("skip" | "disable", rest)) => (rest.to_owned(), "OFF".to_owned()),
        Some(("enable", rest)) => (rest.to_owned(), "ON".to_owned()),
        _ => (name.to_owned(), value.to_owned()),
    }
}

/// Groups that the server reads; `mysqld-8.4` and `mariadb-11.4` are read by that version only.
fn is_of_server(group: &str) -> bool {
    let name = group.split('-').next().unwrap_or_default();
    matches!(name, "mysqld" | "server" | "mariadb" | "mariadbd" | "galera")
}

fn include(reader: &mut Reader<'_>, file: &str, lines: &mut Vec<(String, Assignment)>, seen: &mut Vec<String>) {
    // /etc/mysql/my.cnf and /etc/my.cnf may be links to the same file.
    let real = reader.machine.resolve(std::path::Path::new(file)).to_string_lossy().into_owned();
    if seen.contains(&real) {
        return;
    }
    seen.push(real);
    reader.configuration(file, |reader, text| read_lines(reader, file, text, lines, seen));
}

fn read_lines(
    reader: &mut Reader<'_>,
    file: &str,
    text: &str,
    lines: &mut Vec<(String, Assignment)>,
    seen: &mut Vec<String>,
) {
    let mut is_read = false;
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if let Some(dir) = line.strip_prefix("!includedir") {
            let dir = dir.trim().trim_end_matches('/').to_owned();
            for name in reader.names(&dir).into_iter().filter(|name| name.ends_with(".cnf")) {
                include(reader, &format!("{dir}/{name}"), lines, seen);
            }
        } else if let Some(named) = line.strip_prefix("!include") {
            include(reader, named.trim(), lines, seen);
        } else if let Some(group) = line.strip_prefix('[') {
            is_read = is_of_server(group.trim_end_matches(']'));
        } else if is_read && !line.is_empty() && !line.starts_with(['#', ';']) {
            let (name, value) = line.split_once('=').unwrap_or((line, ""));
            let value = value.split(" #").next().unwrap_or_default().trim().trim_matches(['"', '\'']);
            let (name, value) = option(name, value);
            if NAMES.contains(&name.as_str()) {
                lines.push((name, assigned(file, line_number(index), &value)));
            }
        }
    }
}

/// `"sync_binlog": { "Value": "0", ... }`.
fn persisted(reader: &mut Reader<'_>, file: &str, lines: &mut Vec<(String, Assignment)>) {
    let text = reader.text(file).unwrap_or_default();
    for name in NAMES {
        let Some((_, rest)) = text.split_once(&format!("\"{name}\"")) else { continue };
        let value = rest.split_once("\"Value\"").and_then(|(_, rest)| rest.split('"').nth(1));
        if let Some(value) = value {
            lines.push((name.to_owned(), assigned(file, 0, value)));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::SettingKind;

    use crate::fixture;

    fn value(lines: &str, name: &str) -> Option<String> {
        let made = fixture::virtio().file("/etc/my.cnf", lines);
        let inventory = made.machine().settings(Some(Path::new("/")));
        inventory.setting(SettingKind::Program, "MySQL or MariaDB", name).map(|setting| setting.value.clone())
    }

    #[test]
    fn options_have_several_forms() {
        for (line, name, expected) in [
            ("skip-innodb-doublewrite", "innodb_doublewrite", "OFF"),
            ("loose-skip-innodb_doublewrite", "innodb_doublewrite", "OFF"),
            ("disable-log-bin", "log_bin", "OFF"),
            ("innodb_doublewrite=DETECT_ONLY", "innodb_doublewrite", "DETECT_ONLY"),
            ("innodb_flush_method=0", "innodb_flush_method", "fsync"),
            ("innodb_flush_method=3", "innodb_flush_method", "nosync"),
            ("innodb_flush_method=5", "innodb_flush_method", "O_DIRECT_NO_FSYNC"),
            ("innodb_flush_method=O_DIRECT", "innodb_flush_method", "O_DIRECT"),
        ] {
            assert_eq!(value(&format!("[galera]\n{line}\n"), name).as_deref(), Some(expected), "{line}");
        }
    }

    #[test]
    fn the_binary_log_is_on_by_default_since_mysql_8() {
        let log = |lines: &str, data: &str| {
            let made = fixture::virtio().file("/etc/my.cnf", lines).file(data, "");
            let inventory = made.machine().settings(Some(Path::new("/")));
            inventory.setting(SettingKind::Program, "MySQL or MariaDB", "log_bin").map(|setting| setting.value.clone())
        };
        let ibd = "/var/lib/mysql/mysql.ibd";
        assert_eq!(log("[mysqld]\nsync_binlog=0\n", ibd).as_deref(), Some("ON"));
        assert_eq!(log("[mysqld]\nskip_log_bin\n", ibd).as_deref(), Some("OFF"));
        assert_eq!(log("[mysqld]\nsync_binlog=0\n", "/var/lib/mysql/aria_log_control"), None);
    }

    #[test]
    fn groups_of_the_server_are_read_in_order() {
        let made = fixture::virtio()
            .file("/etc/mysql/my.cnf", "[client]\nsync_binlog=7\n!includedir /etc/mysql/conf.d/\n")
            .file("/etc/mysql/conf.d/50.cnf", "[mariadbd]\nsync-binlog = 0 # comment\nlog_bin\n")
            .file("/etc/mysql/conf.d/60.cnf", "[mysqld]\nloose-innodb_flush_method=O_DIRECT\n")
            .file("/var/lib/mysql/mysqld-auto.cnf", "{\"mysql_static\": {\"sync_binlog\": {\"Value\": \"1\"}}}");
        let inventory = made.machine().settings(Some(Path::new("/")));
        let of = |name| inventory.setting(SettingKind::Program, "MySQL or MariaDB", name).unwrap();
        assert_eq!(of("sync_binlog").value, "1");
        assert_eq!(of("sync_binlog").after_boot.overridden[0].value, "0");
        assert_eq!(of("innodb_flush_method").place, "/etc/mysql/conf.d/60.cnf");
        assert_eq!(of("log_bin").value, "");
    }
}
