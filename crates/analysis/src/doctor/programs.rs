//! Settings of PostgreSQL, MySQL and MariaDB, etcd, Redis and Valkey, as their files give them.
//!
//! Defaults are judged only where the version or the program leaves no doubt about them.

use qd1_model::Severity;
use qd1_model::setting::{Inventory, Setting, SettingKind};

use super::program_fix::{Then, next_to, program};
use super::{Found, Rule};

const PG_WAL: &str = "https://www.postgresql.org/docs/current/runtime-config-wal.html";
const PG_QUERY: &str = "https://www.postgresql.org/docs/current/runtime-config-query.html";
const PG_RESOURCE: &str = "https://www.postgresql.org/docs/current/runtime-config-resource.html";
const PG_ERROR: &str = "https://www.postgresql.org/docs/current/runtime-config-error-handling.html";
const INNODB: &str = "https://dev.mysql.com/doc/refman/8.4/en/innodb-parameters.html";
const BINLOG: &str = "https://dev.mysql.com/doc/refman/8.4/en/replication-options-binary-log.html";
const ETCD: &str = "https://etcd.io/docs/v3.5/op-guide/configuration/";
const ETCD_TUNING: &str = "https://etcd.io/docs/v3.5/tuning/";
const REDIS: &str = "https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/";
const REDIS_CONF: &str = "https://raw.githubusercontent.com/redis/redis/unstable/redis.conf";

const APP_POSTGRES: &str = "`qd1 app postgres PATH` with both values";
const APP_MYSQL: &str = "`qd1 app mysql PATH` with both values";

/// The rules.
pub(super) const RULES: &[Rule] = &[
    Rule {
        id: "postgresql.fsync",
        what: "fsync = off",
        severity: Severity::Critical,
        cost: "A crash of the machine can damage the database beyond recovery.",
        sources: &[PG_WAL],
        proof: APP_POSTGRES,
        find: |inventory| {
            postgres(inventory, "fsync", |value, _| {
                is_off(value).then_some("a crash of the machine can destroy the database")
            })
        },
    },
    Rule {
        id: "postgresql.full_page_writes",
        what: "full_page_writes = off, except on ZFS",
        severity: Severity::Critical,
        cost: "A page that was half written in a crash cannot be restored: data is corrupted, perhaps unnoticed.",
        sources: &[PG_WAL],
        proof: APP_POSTGRES,
        find: full_page_writes,
    },
    Rule {
        id: "postgresql.data_sync_retry",
        what: "data_sync_retry = on",
        severity: Severity::Critical,
        cost: "After an fsync that failed, PostgreSQL tries again. Linux may have dropped the data by then, so the \
               second success is a false one.",
        sources: &[PG_ERROR, "https://wiki.postgresql.org/wiki/Fsync_Errors"],
        proof: "no experiment: a disk has to fail for it",
        find: |inventory| {
            postgres(inventory, "data_sync_retry", |value, _| {
                is_on(value).then_some("a failed fsync counts as done after a retry")
            })
        },
    },
    Rule {
        id: "postgresql.synchronous_commit",
        what: "synchronous_commit = off",
        severity: Severity::Warning,
        cost: "A crash loses the transactions of the last moments (up to three times wal_writer_delay), though the \
               database stays consistent.",
        sources: &[PG_WAL],
        proof: APP_POSTGRES,
        find: |inventory| {
            postgres(inventory, "synchronous_commit", |value, _| {
                is_off(value).then_some("a crash loses the last transactions")
            })
        },
    },
    Rule {
        id: "postgresql.wal_sync_method",
        what: "wal_sync_method = fsync",
        severity: Severity::Info,
        cost: "Each commit may also write the WAL file's times, which fdatasync, the default on Linux, leaves out.",
        sources: &[PG_WAL],
        proof: "`qd1 sync PATH` measures all methods on this disk",
        find: |inventory| {
            postgres(inventory, "wal_sync_method", |value, _| {
                (value == "fsync").then_some("commits may also wait for metadata")
            })
        },
    },
    Rule {
        id: "postgresql.random_page_cost",
        what: "random_page_cost of 4 or more, with the data on a disk that does not rotate",
        severity: Severity::Info,
        cost: "The planner assumes that random reads are four times as expensive as sequential ones, and may choose \
               sequential scans where an index would be faster.",
        sources: &[PG_QUERY],
        proof: "`EXPLAIN (ANALYZE, BUFFERS)` of your own queries, with both values",
        find: random_page_cost,
    },
    Rule {
        id: "postgresql.effective_io_concurrency",
        what: "effective_io_concurrency of 0 or 1, with the data on a disk that does not rotate",
        severity: Severity::Info,
        cost: "Bitmap heap scans wait for one read after the other, though the disk could do many at once.",
        sources: &[PG_RESOURCE],
        proof: "`qd1 sweep PATH` shows how many reads at once this disk can use",
        find: effective_io_concurrency,
    },
    Rule {
        id: "mysql.flush_log_at_trx_commit",
        what: "innodb_flush_log_at_trx_commit = 0 or 2",
        severity: Severity::Warning,
        cost: "A crash loses about a second of committed transactions: with 2 only one of the machine, with 0 also \
               one of the server.",
        sources: &[INNODB],
        proof: APP_MYSQL,
        find: |inventory| {
            mysql(inventory, "innodb_flush_log_at_trx_commit", "1", |value| {
                matches!(value, "0" | "2").then_some("a crash loses about a second of commits")
            })
        },
    },
    Rule {
        id: "mysql.flush_method",
        what: "innodb_flush_method = nosync, littlesync",
        severity: Severity::Critical,
        cost: "Meant for tests of MySQL itself: data is not synced, or not all of it.",
        sources: &[INNODB],
        proof: APP_MYSQL,
        find: |inventory| {
            mysql(inventory, "innodb_flush_method", "O_DIRECT", |value| {
                matches!(value.to_ascii_lowercase().as_str(), "nosync" | "littlesync").then_some("data is not synced")
            })
        },
    },
    Rule {
        id: "mysql.buffered",
        what: "innodb_flush_method = fsync or O_DSYNC, except on ZFS",
        severity: Severity::Info,
        cost: "Data files go through the page cache, so pages are in memory twice. O_DIRECT is the default of \
               MySQL 8.4 and MariaDB 10.6.",
        sources: &[INNODB, "https://mariadb.com/kb/en/innodb-system-variables/#innodb_flush_method"],
        proof: APP_MYSQL,
        find: buffered,
    },
    Rule {
        id: "mysql.doublewrite",
        what: "innodb_doublewrite = 0 or OFF, except on ZFS",
        severity: Severity::Critical,
        cost: "A page that was half written in a crash cannot be restored, unless the storage writes whole pages of \
               InnoDB atomically.",
        sources: &["https://dev.mysql.com/doc/refman/8.4/en/innodb-doublewrite-buffer.html"],
        proof: APP_MYSQL,
        find: doublewrite,
    },
    Rule {
        id: "mysql.sync_binlog",
        what: "sync_binlog other than 1, with a binary log",
        severity: Severity::Warning,
        cost: "A crash can lose the last events of the binary log, so replicas and backups differ from the server.",
        sources: &[BINLOG],
        proof: APP_MYSQL,
        find: sync_binlog,
    },
    Rule {
        id: "mysql.io_capacity",
        what: "innodb_io_capacity of 200 or less, with the data on a disk that does not rotate",
        severity: Severity::Info,
        cost: "Modified pages are flushed in the background as slowly as a rotating disk would need it, so they \
               pile up until queries have to wait for them.",
        sources: &["https://dev.mysql.com/doc/refman/8.4/en/innodb-configuring-io-capacity.html"],
        proof: "`qd1 sweep PATH` shows how many writes a second this disk can do",
        find: io_capacity,
    },
    Rule {
        id: "etcd.unsafe_no_fsync",
        what: "--unsafe-no-fsync",
        severity: Severity::Critical,
        cost: "A crash of the machine can lose committed entries, and with them the cluster's consistency.",
        sources: &[ETCD],
        proof: "`qd1 check PATH` shows what etcd's commits cost on this disk",
        find: etcd_no_fsync,
    },
    Rule {
        id: "etcd.election_timeout",
        what: "an election timeout below five times the heartbeat interval",
        severity: Severity::Warning,
        cost: "etcd refuses to start: a single late heartbeat would begin an election.",
        sources: &[ETCD_TUNING, "https://github.com/etcd-io/etcd/blob/main/server/embed/config.go"],
        proof: "`qd1 check PATH` shows how long etcd's commits can take here, which heartbeats wait for",
        find: etcd_timeouts,
    },
    Rule {
        id: "redis.appendfsync",
        what: "appendonly yes with appendfsync no",
        severity: Severity::Warning,
        cost: "The kernel decides when the log is written: a crash of the machine loses about 30 s.",
        sources: &[REDIS],
        proof: "`qd1 sync PATH` shows what a sync costs here",
        find: |inventory| redis(inventory, "appendfsync", "no", "everysec", "a crash of the machine loses about 30 s"),
    },
    Rule {
        id: "redis.no_appendfsync_on_rewrite",
        what: "appendonly yes with no-appendfsync-on-rewrite yes",
        severity: Severity::Warning,
        cost: "While the log is rewritten, nothing is synced: a crash of the machine then loses up to 30 s.",
        sources: &[REDIS_CONF],
        proof: "`qd1 check --with-load PATH` shows how much longer syncs take while much is written",
        find: |inventory| {
            redis(inventory, "no-appendfsync-on-rewrite", "yes", "no", "nothing is synced during a rewrite")
        },
    },
];

const MYSQL: &str = "MySQL or MariaDB";
const RELOAD_POSTGRES: Then<'_> = Then::Run("sudo -u postgres psql -c 'SELECT pg_reload_conf()'");

/// PostgreSQL takes any unambiguous prefix of these words.
fn is_off(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "off" | "of" | "0") || is_prefix(&value, "false") || is_prefix(&value, "no")
}

fn is_on(value: &str) -> bool {
    let value = value.to_ascii_lowercase();
    matches!(value.as_str(), "on" | "1") || is_prefix(&value, "true") || is_prefix(&value, "yes")
}

fn is_prefix(value: &str, word: &str) -> bool {
    !value.is_empty() && word.starts_with(value)
}

fn of<'a>(inventory: &'a Inventory, program: &str, name: &str) -> Option<&'a Setting> {
    inventory.setting(SettingKind::Program, program, name)
}

/// A finding on a setting of a program; `better` is its value after the change.
fn on(inventory: &Inventory, setting: &Setting, why: &str, better: &str, then: Then<'_>) -> Found {
    let storage = of(inventory, &setting.subject, "data filesystem");
    Found {
        subject: setting.subject.clone(),
        title: format!("{}: {} = {}: {why}", setting.subject, setting.name, setting.value),
        fix: program(setting, better, then),
        setting: Some(setting.clone()),
        path: storage.map(|storage| storage.place.clone()).unwrap_or_default(),
        ..Found::default()
    }
}

/// PostgreSQL's clusters in which the judge has something against a setting.
fn postgres(inventory: &Inventory, name: &str, judge: fn(&str, &Inventory) -> Option<&'static str>) -> Vec<Found> {
    let all = inventory.all(SettingKind::Program, name).filter(|setting| setting.subject.starts_with("PostgreSQL"));
    let found = all.filter_map(|setting| {
        let why = judge(&setting.value, inventory)?;
        let better = match name {
            "data_sync_retry" => "off",
            "wal_sync_method" => "fdatasync",
            _ => "on",
        };
        let then = if name == "data_sync_retry" { Then::Do("restart PostgreSQL") } else { RELOAD_POSTGRES };
        Some(on(inventory, setting, why, better, then))
    });
    found.collect()
}

/// Whether a program's data is on a filesystem that never overwrites a page, so that none can be half written.
fn is_on_zfs(inventory: &Inventory, program: &str) -> bool {
    of(inventory, program, "data filesystem").is_some_and(|setting| setting.value == "zfs")
}

fn is_on_solid_disk(inventory: &Inventory, program: &str) -> bool {
    of(inventory, program, "data disk").is_some()
}

fn full_page_writes(inventory: &Inventory) -> Vec<Found> {
    let why = "a page half written in a crash is lost";
    let found = postgres(inventory, "full_page_writes", |value, _| is_off(value).then_some(""));
    let unsafe_ones = found.into_iter().filter(|found| !is_on_zfs(inventory, &found.subject));
    unsafe_ones.map(|found| Found { title: format!("{}{why}", found.title), ..found }).collect()
}

/// PostgreSQL's clusters with their versions; the version is read with the files.
fn clusters(inventory: &Inventory) -> impl Iterator<Item = (&str, u32)> {
    let all =
        inventory.all(SettingKind::Program, "version").filter(|setting| setting.subject.starts_with("PostgreSQL"));
    all.map(|setting| {
        let major = setting.value.split('.').next().and_then(|major| major.parse().ok()).unwrap_or(0);
        (setting.subject.as_str(), major)
    })
}

fn random_page_cost(inventory: &Inventory) -> Vec<Found> {
    let of_cluster = |(program, _): (&str, u32)| {
        let setting = planner(inventory, program, "random_page_cost", "4");
        let is_high = setting.value.parse::<f64>().is_ok_and(|cost| cost >= 4.0);
        let why = "random reads are taken for expensive, but the disk does not rotate";
        (is_high && is_on_solid_disk(inventory, program)).then(|| on(inventory, &setting, why, "1.1", RELOAD_POSTGRES))
    };
    clusters(inventory).filter_map(of_cluster).collect()
}

/// The default is 1 before PostgreSQL 18, and 16 since, which is what is recommended: more depends on the disk.
fn effective_io_concurrency(inventory: &Inventory) -> Vec<Found> {
    let of_cluster = |(program, major): (&str, u32)| {
        let default = if (9..18).contains(&major) { "1" } else { "16" };
        let setting = planner(inventory, program, "effective_io_concurrency", default);
        let is_low = setting.number().is_some_and(|count| count <= 1);
        let why = "bitmap scans read one page at a time, but the disk does not rotate";
        (is_low && is_on_solid_disk(inventory, program)).then(|| on(inventory, &setting, why, "16", RELOAD_POSTGRES))
    };
    clusters(inventory).filter_map(of_cluster).collect()
}

/// A setting as written, or its default in the main file.
fn planner(inventory: &Inventory, program: &str, name: &str, default: &str) -> Setting {
    let written = of(inventory, program, name).cloned();
    written.unwrap_or_else(|| {
        let place = of(inventory, program, "version").map(|setting| setting.place.clone()).unwrap_or_default();
        Setting { place, ..Setting::new(SettingKind::Program, program, name, default) }
    })
}

fn mysql(inventory: &Inventory, name: &str, better: &str, judge: fn(&str) -> Option<&'static str>) -> Vec<Found> {
    let Some(setting) = of(inventory, MYSQL, name) else { return Vec::new() };
    let found = judge(&setting.value).map(|why| on(inventory, setting, why, better, Then::Do("restart the server")));
    found.into_iter().collect()
}

/// ZFS before 2.3 has no direct I/O.
fn buffered(inventory: &Inventory) -> Vec<Found> {
    if is_on_zfs(inventory, MYSQL) {
        return Vec::new();
    }
    mysql(inventory, "innodb_flush_method", "O_DIRECT", |value| {
        matches!(value.to_ascii_lowercase().as_str(), "fsync" | "o_dsync").then_some("pages are cached twice")
    })
}

fn doublewrite(inventory: &Inventory) -> Vec<Found> {
    if is_on_zfs(inventory, MYSQL) {
        return Vec::new();
    }
    mysql(inventory, "innodb_doublewrite", "ON", |value| {
        is_off(value).then_some("a page half written in a crash is lost")
    })
}

fn sync_binlog(inventory: &Inventory) -> Vec<Found> {
    let has_log = of(inventory, MYSQL, "log_bin").is_some_and(|setting| !is_off(&setting.value));
    if !has_log {
        return Vec::new();
    }
    mysql(inventory, "sync_binlog", "1", |value| (value != "1").then_some("a crash can lose the end of the binary log"))
}

fn io_capacity(inventory: &Inventory) -> Vec<Found> {
    let Some(setting) = of(inventory, MYSQL, "innodb_io_capacity") else { return Vec::new() };
    let is_low = setting.number().is_some_and(|count| count <= 200);
    if !is_low || !is_on_solid_disk(inventory, MYSQL) {
        return Vec::new();
    }
    let why = "pages are flushed slowly, but the disk does not rotate";
    vec![on(inventory, setting, why, "1000", Then::Run("mysql -e 'SET GLOBAL innodb_io_capacity = 1000'"))]
}

fn etcd_no_fsync(inventory: &Inventory) -> Vec<Found> {
    let flag = of(inventory, "etcd", "unsafe-no-fsync").filter(|setting| setting.value == "true");
    let found = flag.map(|setting| {
        on(inventory, setting, "nothing is synced", "false", Then::Do("restart etcd, one member after the other"))
    });
    found.into_iter().collect()
}

/// Defaults: 100 and 1000 ms.
fn etcd_timeouts(inventory: &Inventory) -> Vec<Found> {
    let number = |name: &str, default| of(inventory, "etcd", name).map_or(Some(default), Setting::number);
    let (heartbeat, election) = (number("heartbeat-interval", 100), number("election-timeout", 1000));
    let Some((heartbeat, election)) = heartbeat.zip(election).filter(|(heartbeat, election)| election / 5 < *heartbeat)
    else {
        return Vec::new();
    };
    let written = ["election-timeout", "heartbeat-interval"].iter().find_map(|name| of(inventory, "etcd", name));
    let Some(setting) = written else { return Vec::new() };
    let better = (heartbeat * 10).to_string();
    let found = on(inventory, setting, "", &better, Then::Do("restart etcd, one member after the other"));
    let fix = match setting.name.as_str() {
        "election-timeout" => found.fix,
        _ => next_to(setting, "election-timeout", &better),
    };
    let title = format!("etcd: the election timeout of {election} ms is below five heartbeats of {heartbeat} ms");
    vec![Found { title, fix, ..found }]
}

fn redis(inventory: &Inventory, name: &str, bad: &str, better: &str, why: &str) -> Vec<Found> {
    let all = inventory.all(SettingKind::Program, name).filter(|setting| setting.value == bad);
    let logs = |setting: &&Setting| of(inventory, &setting.subject, "appendonly").is_some_and(|on| on.value == "yes");
    let found = all.filter(logs).map(|setting| {
        let command = format!("redis-cli CONFIG SET {name} {better}");
        on(inventory, setting, why, better, Then::Run(&command))
    });
    found.collect()
}
