//! How to change a setting of a program where it is set, in the syntax of that place.
//!
//! A line to copy is only given for files of `name = value`. What an editor must not touch (`mysqld-auto.cnf`,
//! `postgresql.auto.conf`) is changed in SQL, and arguments, units and files of other syntax are described in words.

use qd1_model::doctor::Fix;
use qd1_model::setting::{Assignment, Setting};

/// What makes a program take a changed line.
#[derive(Clone, Copy)]
pub(super) enum Then<'a> {
    Run(&'a str),
    Do(&'a str),
}

/// How a place writes its settings.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Syntax {
    /// `name = value`, or `name value`.
    Line,
    /// Variables: `ETCD_ELECTION_TIMEOUT="5000"`.
    Environment,
    /// `election-timeout: 5000`.
    Yaml,
    /// Arguments in a manifest or unit, or of a process.
    Arguments,
    /// MySQL's JSON of `SET PERSIST`.
    Persisted,
    /// PostgreSQL's file of `ALTER SYSTEM`.
    AlterSystem,
    Unknown,
}

const VARIABLES: [&str; 4] = ["/etc/default/etcd", "/etc/etcd.env", "/etc/etcd/etcd.conf", "/etc/sysconfig/etcd"];
/// The variables of MySQL among those of the rules that a running server does not change.
const NOT_DYNAMIC: [&str; 2] = ["innodb_flush_method", "innodb_doublewrite"];

fn syntax_of(file: &str) -> Syntax {
    let name = file.rsplit('/').next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending);
    match (name, ending) {
        _ if !file.starts_with('/') => Syntax::Arguments,
        ("mysqld-auto.cnf", _) => Syntax::Persisted,
        ("postgresql.auto.conf", _) => Syntax::AlterSystem,
        (_, "env") => Syntax::Environment,
        _ if VARIABLES.contains(&file) => Syntax::Environment,
        (_, "service") => Syntax::Arguments,
        _ if file.contains(".service.d/") || file.contains("/manifests/") => Syntax::Arguments,
        (_, "yml" | "yaml") => Syntax::Yaml,
        (_, "conf" | "cnf") => Syntax::Line,
        _ => Syntax::Unknown,
    }
}

/// Changes a setting to a value where it is set, or adds it to the program's file.
pub(super) fn program(setting: &Setting, value: &str, then: Then<'_>) -> Fix {
    let Some(by) = &setting.after_boot.winner else {
        let fix = Fix { file: setting.place.clone(), new: assigned(setting, value), ..Fix::default() };
        return with(fix, then);
    };
    let syntax = syntax_of(&by.file);
    match syntax {
        Syntax::Line => with(
            Fix {
                file: by.file.clone(),
                line: by.line,
                old: assigned(setting, &by.value),
                new: assigned(setting, value),
                ..Fix::default()
            },
            then,
        ),
        Syntax::Persisted => persisted(setting, value),
        Syntax::AlterSystem => Fix {
            advice: format!(
                "connected to this server as a superuser: `ALTER SYSTEM SET {} = {value}`, then {}",
                setting.name,
                match then {
                    Then::Run(_) => "`SELECT pg_reload_conf()`",
                    Then::Do(what) => what,
                }
            ),
            ..Fix::default()
        },
        _ => {
            Fix { advice: format!("{}, then {}", in_words(setting, by, syntax, value), restart(by)), ..Fix::default() }
        }
    }
}

fn with(fix: Fix, then: Then<'_>) -> Fix {
    match then {
        Then::Run(command) => Fix { command: command.to_owned(), ..fix },
        Then::Do(advice) => Fix { advice: advice.to_owned(), ..fix },
    }
}

/// Adds a setting where another one of etcd is set.
pub(super) fn next_to(setting: &Setting, name: &str, value: &str) -> Fix {
    let other = Setting { name: name.to_owned(), ..setting.clone() };
    let Some(by) = &setting.after_boot.winner else {
        return Fix { advice: format!("set {name} to {value}, then restart it"), ..Fix::default() };
    };
    let what = spelled(&other, syntax_of(&by.file), value);
    Fix {
        advice: format!("add {what} in {}, where {} is set, then {}", place(by), setting.name, restart(by)),
        ..Fix::default()
    }
}

fn assigned(setting: &Setting, value: &str) -> String {
    let is_of_redis = ["Redis", "Valkey", "KeyDB"].iter().any(|program| setting.subject.starts_with(program));
    let between = if is_of_redis { " " } else { " = " };
    format!("{}{between}{value}", setting.name)
}

/// The setting as its place writes it.
fn spelled(setting: &Setting, syntax: Syntax, value: &str) -> String {
    let name = &setting.name;
    match syntax {
        Syntax::Environment => format!("{}=\"{value}\"", variable(name)),
        Syntax::Yaml => format!("`{name}: {value}`"),
        Syntax::Arguments if setting.subject.starts_with("PostgreSQL") => format!("-c {name}={value}"),
        Syntax::Arguments if setting.subject.starts_with("MySQL") => format!("--{}={value}", name.replace('_', "-")),
        Syntax::Arguments if setting.subject == "etcd" => format!("--{name}={value}"),
        Syntax::Arguments => format!("--{name} {value}"),
        _ => assigned(setting, value),
    }
}

fn variable(name: &str) -> String {
    format!("ETCD_{}", name.to_ascii_uppercase().replace('-', "_"))
}

fn place(by: &Assignment) -> String {
    match by.line {
        0 => by.file.clone(),
        line => format!("{}:{line}", by.file),
    }
}

fn in_words(setting: &Setting, by: &Assignment, syntax: Syntax, value: &str) -> String {
    let at = match by.file.starts_with('/') {
        true => format!("in {}", place(by)),
        false => "where the server is started (its systemd unit, container or script)".to_owned(),
    };
    let name = &setting.name;
    match syntax {
        Syntax::Arguments if value == "false" => format!("{at}, delete the argument --{name}"),
        Syntax::Arguments if setting.subject.starts_with("PostgreSQL") => {
            let short = if name == "fsync" { ", also written -F" } else { "" };
            format!("{at}, delete the argument -c {name}={} (or --{name}={0}{short})", by.value)
        }
        Syntax::Arguments => {
            let flag = spelled(setting, syntax, value);
            format!("{at}, change the argument --{} to {flag}", name.replace('_', "-"))
        }
        Syntax::Environment if value == "false" => format!("{at}, delete the line {}={}", variable(name), by.value),
        Syntax::Environment => {
            format!("{at}, change the line {}={} to {}", variable(name), by.value, spelled(setting, syntax, value))
        }
        Syntax::Yaml => {
            format!("{at}, change `{name}: {}` to {}", by.value, spelled(setting, syntax, value))
        }
        _ => format!("{at}, change {name} from {} to {value}", by.value),
    }
}

fn restart(by: &Assignment) -> &'static str {
    if by.file.contains("/manifests/") {
        "wait until kubelet has restarted it before you change the next member"
    } else if by.file.ends_with(".service") || by.file.contains(".service.d/") {
        "run `systemctl daemon-reload` and restart the unit, one machine after the other"
    } else {
        "restart it, one machine after the other"
    }
}

/// `SET PERSIST_ONLY` also takes what only a restart changes.
fn persisted(setting: &Setting, value: &str) -> Fix {
    let name = &setting.name;
    let advice = if NOT_DYNAMIC.contains(&name.as_str()) {
        format!(
            "as an administrator of MySQL: `SET PERSIST_ONLY {name} = '{value}'` (or `RESET PERSIST {name}`, after \
             which the option files decide), then restart the server"
        )
    } else {
        format!(
            "as an administrator of MySQL: `SET PERSIST {name} = {value}`, which also changes the running server \
             (or `RESET PERSIST {name}`, after which the option files decide from the next start)"
        )
    };
    Fix { advice, ..Fix::default() }
}

#[cfg(test)]
mod tests {
    use qd1_model::setting::{AfterBoot, SettingKind};

    use super::*;

    fn setting(program: &str, name: &str, file: &str, value: &str) -> Setting {
        let line = if file.starts_with('/') { 7 } else { 0 };
        let by = Assignment { file: file.to_owned(), line, value: value.to_owned() };
        let after_boot = AfterBoot::last_wins(vec![by]);
        Setting { after_boot, ..Setting::new(SettingKind::Program, program, name, value) }
    }

    #[test]
    fn each_place_is_changed_in_its_own_syntax() {
        let postgres = ["PostgreSQL 16 (/etc/postgresql/16/main)", "fsync", "off", "on"];
        let mysql = ["MySQL or MariaDB", "sync_binlog", "0", "1"];
        let method = ["MySQL or MariaDB", "innodb_flush_method", "nosync", "O_DIRECT"];
        let no_fsync = ["etcd", "unsafe-no-fsync", "true", "false"];
        let election = ["etcd", "election-timeout", "100", "5000"];
        let redis = ["Redis (/etc/redis.conf)", "appendfsync", "no", "everysec"];
        let command_line = "the server's command line";
        for (what, file, parts) in [
            (postgres, "/var/lib/pg/postgresql.auto.conf", &["`ALTER SYSTEM SET fsync = on`", "pg_reload_conf"][..]),
            (postgres, command_line, &["-c fsync=off", "-F", "restart it"]),
            (mysql, "/var/lib/mysql/mysqld-auto.cnf", &["`SET PERSIST sync_binlog = 1`", "RESET PERSIST"]),
            (method, "/data/mysqld-auto.cnf", &["PERSIST_ONLY innodb_flush_method = 'O_DIRECT'", "restart the server"]),
            (
                no_fsync,
                "/etc/kubernetes/manifests/etcd.yaml",
                &[":7, delete the argument --unsafe-no-fsync", "kubelet"],
            ),
            (election, "/etc/kubernetes/manifests/etcd.yaml", &["--election-timeout to --election-timeout=5000"]),
            (election, "/etc/systemd/system/etcd.service", &["--election-timeout=5000", "daemon-reload"]),
            (election, "/etc/systemd/system/etcd.service.d/a.conf", &["--election-timeout=5000", "daemon-reload"]),
            (no_fsync, "/etc/default/etcd", &["/etc/default/etcd:7, delete the line ETCD_UNSAFE_NO_FSYNC=true"]),
            (election, "/etc/etcd/etcd.conf", &["ETCD_ELECTION_TIMEOUT=100 to ETCD_ELECTION_TIMEOUT=\"5000\""]),
            (election, "/etc/etcd.conf.yml", &["`election-timeout: 100` to `election-timeout: 5000`"]),
            (no_fsync, command_line, &["systemd unit", "delete the argument --unsafe-no-fsync"]),
            (redis, command_line, &["--appendfsync to --appendfsync everysec"]),
            (postgres, "/etc/odd", &["in /etc/odd:7, change fsync from off to on"]),
        ] {
            let [program_name, name, old, new] = what;
            let fix = program(&setting(program_name, name, file, old), new, Then::Run("reload"));
            assert_eq!((fix.file.as_str(), fix.new.as_str(), fix.command.as_str()), ("", "", ""), "{file}");
            for part in parts {
                assert!(fix.advice.contains(part), "{part:?} is not in {:?}", fix.advice);
            }
        }
    }

    #[test]
    fn a_line_of_a_file_of_names_and_values_is_shown_as_it_is() {
        for (program_name, name, old, new) in [
            ("MySQL or MariaDB", "sync_binlog", "sync_binlog = 0", "sync_binlog = 1"),
            ("Redis (/etc/a.conf)", "sync_binlog", "sync_binlog 0", "sync_binlog 1"),
        ] {
            let fix = program(&setting(program_name, name, "/etc/a.conf", "0"), "1", Then::Do("restart"));
            assert_eq!((fix.line, fix.old.as_str(), fix.new.as_str(), fix.advice.as_str()), (7, old, new, "restart"));
        }
    }

    #[test]
    fn a_missing_setting_of_etcd_goes_next_to_the_other() {
        let of = |file: &str| next_to(&setting("etcd", "heartbeat-interval", file, "500"), "election-timeout", "5000");
        let fix = of("/etc/default/etcd");
        assert!(fix.advice.starts_with("add ETCD_ELECTION_TIMEOUT=\"5000\" in /etc/default/etcd:7"), "{}", fix.advice);
        let fix = of("/etc/kubernetes/manifests/etcd.yaml");
        assert!(fix.advice.starts_with("add --election-timeout=5000 in /etc/kubernetes"), "{}", fix.advice);
    }
}
