//! etcd: the command line of a running server, or a file that gives it its environment. Flags override variables; with
//! a configuration file, that file alone counts (etcd's documentation, "Configuration options").

use qd1_model::setting::Assignment;

use super::programs::{Process, add, add_as, owns};
use super::{Reader, assigned, line_number};

const NAMES: [&str; 3] = ["heartbeat-interval", "election-timeout", "unsafe-no-fsync"];
const ENVIRONMENTS: [&str; 4] = ["/etc/default/etcd", "/etc/etcd.env", "/etc/etcd/etcd.conf", "/etc/sysconfig/etcd"];
/// Configuration files, which count for a server that is not running.
const FILES: [&str; 2] = ["/etc/etcd/etcd.conf.yml", "/etc/etcd.conf.yml"];
/// The static pod of Kubernetes, whose lines are flags.
const MANIFEST: &str = "/etc/kubernetes/manifests/etcd.yaml";

type Lines = Vec<(&'static str, Assignment)>;

pub(super) fn read(reader: &mut Reader<'_>, processes: &[Process]) {
    let mut lines = Lines::new();
    let mut configuration = None;
    for file in ENVIRONMENTS {
        let text = reader.text(file).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim().trim_start_matches("export ");
            let Some((key, value)) = line.split_once('=') else { continue };
            let value = value.trim_matches(['"', '\'']);
            let name = NAMES.iter().find(|name| key == format!("ETCD_{}", name.to_ascii_uppercase().replace('-', "_")));
            lines.extend(name.map(|name| (*name, assigned(file, line_number(index), value))));
            if key == "ETCD_CONFIG_FILE" {
                configuration = Some(value.to_owned());
            }
        }
    }
    add_keys(reader, MANIFEST, &mut lines);
    let servers: Vec<&Process> = processes.iter().filter(|process| process.is(&["etcd"])).collect();
    for process in &servers {
        if let Some(file) = flag(process, "config-file").filter(|file| owns(reader, process, file)) {
            configuration = Some(file.to_owned());
        }
        for name in NAMES {
            let value = flag(process, name);
            lines.extend(value.map(|value| (name, assigned("the server's command line", 0, value))));
        }
    }
    if let Some(file) = configuration {
        lines.clear();
        add_keys(reader, &file, &mut lines);
    } else if servers.is_empty() {
        for file in FILES {
            add_keys(reader, file, &mut lines);
        }
    }
    for name in NAMES {
        let of_name = lines.iter().filter(|(known, _)| *known == name).map(|(_, by)| by.clone()).collect();
        match name {
            "unsafe-no-fsync" => add_as(reader, "etcd", name, of_name, boolean),
            _ => add(reader, "etcd", name, of_name),
        }
    }
}

/// The lines `name: value`, and those of a manifest: `- --name=value`.
fn add_keys(reader: &mut Reader<'_>, file: &str, lines: &mut Lines) {
    reader.configuration(file, |_, text| {
        for (index, line) in text.lines().enumerate() {
            let line = line.split(" #").next().unwrap_or_default().trim();
            let line = line.trim_start_matches("- ").trim_start_matches('-');
            let (name, value) = line.split_once([':', '=']).unwrap_or((line, "true"));
            let name = NAMES.into_iter().find(|known| *known == name.trim());
            let value = value.trim().trim_matches(['"', '\'']);
            lines.extend(name.map(|name| (name, assigned(file, line_number(index), value))));
        }
    });
}

/// The value of the last flag with a name, which begins with one hyphen or two; `true` for one without a value.
fn flag<'a>(process: &'a Process, name: &str) -> Option<&'a str> {
    let mut found = None;
    for (at, word) in process.words.iter().enumerate().skip(1) {
        let Some(word) = word.strip_prefix("--").or(word.strip_prefix('-')) else { continue };
        match word.split_once('=') {
            Some((known, value)) if known == name => found = Some(value),
            None if word == name => {
                let next = process.words.get(at + 1).map(String::as_str).unwrap_or_default();
                // Go takes the value of a boolean flag only after an equals sign.
                let is_alone = name == "unsafe-no-fsync" || next.is_empty() || next.starts_with('-');
                found = Some(if is_alone { "true" } else { next });
            }
            _ => {}
        }
    }
    found
}

/// What Go reads as a boolean (`strconv.ParseBool`).
fn boolean(value: &str) -> String {
    match value {
        "1" | "t" | "T" | "TRUE" | "True" => "true".to_owned(),
        "0" | "f" | "F" | "FALSE" | "False" => "false".to_owned(),
        _ => value.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use qd1_model::setting::SettingKind;

    use crate::fixture::Fixture;

    #[test]
    fn flags_override_variables() {
        let made = Fixture::new()
            .file("/etc/default/etcd", "# etcd\nETCD_HEARTBEAT_INTERVAL=\"100\"\n")
            .file("/etc/kubernetes/manifests/etcd.yaml", "    - --election-timeout=5000\n    - --unsafe-no-fsync\n")
            .link("/proc/9/exe", "/usr/bin/etcd")
            .file("/proc/9/cmdline", "/usr/bin/etcd\0--heartbeat-interval\x00250\0");
        let inventory = made.machine().settings(Some(Path::new("/")));
        let of = |name| inventory.setting(SettingKind::Program, "etcd", name).unwrap().value.clone();
        assert_eq!(of("heartbeat-interval"), "250");
        assert_eq!(of("election-timeout"), "5000");
        assert_eq!(of("unsafe-no-fsync"), "true");
    }

    fn value(command: &str, name: &str) -> Option<String> {
        let made = Fixture::new()
            .file("/etc/default/etcd", "ETCD_HEARTBEAT_INTERVAL=100\nETCD_UNSAFE_NO_FSYNC=T\n")
            .file("/etc/etcd/etcd.conf.yml", "heartbeat-interval: 300 # ms\n")
            .file("/srv/etcd.yml", "heartbeat-interval: 400\n")
            .link("/proc/9/exe", if command.is_empty() { "/bin/sh" } else { "/usr/bin/etcd" })
            .file("/proc/9/cmdline", &format!("etcd\0{}\0", command.replace(' ', "\0")));
        let inventory = made.machine().settings(Some(Path::new("/")));
        inventory.setting(SettingKind::Program, "etcd", name).map(|setting| setting.value.clone())
    }

    #[test]
    fn with_a_configuration_file_nothing_else_counts() {
        let command = "--heartbeat-interval=200 --config-file /srv/etcd.yml --unsafe-no-fsync";
        assert_eq!(value(command, "heartbeat-interval").as_deref(), Some("400"));
        assert_eq!(value(command, "unsafe-no-fsync"), None);
        // A server that runs without one does not read it.
        assert_eq!(value("-heartbeat-interval=200", "heartbeat-interval").as_deref(), Some("200"));
        assert_eq!(value("--name=x", "heartbeat-interval").as_deref(), Some("100"));
        assert_eq!(value("", "heartbeat-interval").as_deref(), Some("300"));
    }

    #[test]
    fn booleans_are_those_of_go() {
        for (command, expected) in [
            ("--name=x", "true"),
            ("--unsafe-no-fsync=1", "true"),
            ("--unsafe-no-fsync --name x", "true"),
            ("--unsafe-no-fsync=True", "true"),
            ("--unsafe-no-fsync=F", "false"),
        ] {
            assert_eq!(value(command, "unsafe-no-fsync").as_deref(), Some(expected), "{command}");
        }
    }
}
