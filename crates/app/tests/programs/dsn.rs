//! `qd1 app postgres --dsn`: a server of somebody else's, in which nothing is touched and nothing is left.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};

use rustix::process::Signal;
use serde_json::Value;
use tempfile::TempDir;

use crate::common::apps::{Site, children, program};
use crate::common::{Running, find, int, is_root, or_skip, step, text, wait_until};

/// A server with its data in a directory of its own, that only its socket leads to.
struct Server {
    process: Child,
    dir: TempDir,
}

impl Server {
    fn start() -> Self {
        let dir = TempDir::new().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let data = dir.path().join("theirs");
        fs::create_dir(&data).unwrap();
        // Whoever owns nobody's directory: the server refuses root.
        let user = is_root().then_some((65_534, 65_534));
        if let Some((uid, gid)) = user {
            chown(&data, Some(uid), Some(gid)).unwrap();
        }
        let as_user = |name: &str| {
            let mut command = Command::new(program(name).unwrap());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command.current_dir("/").stdout(Stdio::null()).stderr(Stdio::null());
            command
        };
        let cluster = data.join("cluster");
        let made = as_user("initdb").args(["-A", "trust", "-U", "boss", "--no-sync", "-D"]).arg(&cluster).status();
        assert!(made.unwrap().success());
        let mut server = as_user("postgres");
        server.arg("-D").arg(&cluster).args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"]).arg(&data);
        let this = Self { process: server.spawn().unwrap(), dir };
        wait_until("their server answers", || this.ask("select 1").is_some());
        this
    }

    fn dsn(&self) -> String {
        format!("host={} user=boss dbname=postgres", self.dir.path().join("theirs").display())
    }

    /// What a query brings; `None` where it fails.
    fn ask(&self, sql: &str) -> Option<String> {
        let output = Command::new(program("psql").unwrap()).args(["-XAtq", "-d", &self.dsn(), "-c", sql]).output();
        let output = output.unwrap();
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    }

    fn schemas(&self) -> String {
        self.ask("select count(*) from pg_namespace where nspname like 'qd1%'").unwrap()
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("theirs/cluster")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = rustix::process::kill_process(rustix::process::Pid::from_child(&self.process), Signal::QUIT);
        let _ = self.process.wait();
    }
}

fn ready() -> Result<(Site, Server), String> {
    let site = Site::new(&["initdb", "postgres", "pgbench", "psql"])?;
    Ok((site, Server::start()))
}

fn run(site: &Site, server: &Server, args: &[&str]) -> Output {
    let brief = ["postgres", "--scale", "1", "--clients", "2", "--runtime", "1s", "--warmup", "0s", "--dsn"];
    site.command(&[&brief[..], &[&server.dsn(), "--json"], args].concat()).output().unwrap()
}

#[test]
fn a_server_of_others_is_measured_in_a_schema_of_its_own() {
    let (site, server) = or_skip!(ready());
    // Where its data is, it says itself, and only that disk is described.
    let output = run(&site, &server, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let counted = &find(&step(&report, "2 clients")["streams"], "class", "transaction")["lat"]["count"];
    assert!(int(counted) > 0);
    let there = fs::metadata(report["record"]["plan"]["target"]["path"].as_str().unwrap()).unwrap();
    assert_eq!(there.ino(), fs::metadata(server.data()).unwrap().ino());
    assert_eq!(server.schemas(), "0");
}

#[test]
fn tables_of_others_are_not_touched() {
    let (site, server) = or_skip!(ready());
    server.ask("create table pgbench_accounts (theirs int); insert into pgbench_accounts values (7)").unwrap();
    let output = run(&site, &server, &[]);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{said}");
    assert!(said.contains("public.pgbench_accounts"), "{said}");
    assert_eq!(server.ask("select theirs from pgbench_accounts").unwrap(), "7");
    assert_eq!(server.schemas(), "0");
}

#[test]
fn sigkill_leaves_no_schema_behind() {
    let (site, server) = or_skip!(ready());
    let dsn = server.dsn();
    let args = ["postgres", "-q", "--scale", "1", "--clients", "2", "--runtime", "60s", "--dsn", &dsn];
    let mut run = Running::start(site.command(&args));
    // pgbench makes it last.
    wait_until("its tables are there", || {
        run.assert_running();
        server.ask("select count(*) from pg_tables where tablename = 'pgbench_branches'").unwrap() == "1"
    });
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    wait_until("the schema is dropped", || server.schemas() == "0");
    site.assert_clean();
}

#[test]
fn a_server_that_is_not_there_is_an_error_without_the_password() {
    let site = or_skip!(Site::new(&["pgbench", "psql"]));
    let dsn = "host=/nonexistent dbname=x password=s3cret";
    let output = site.command(&["postgres", site.place.dir_str(), "--dsn", dsn]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("/nonexistent") && !said.contains("s3cret"), "{said}");
}

/// Starts a run that would take a minute, waits for its tables, and kills it with all its helpers.
fn killed_with_its_helpers(site: &Site, server: &Server) {
    let dsn = server.dsn();
    let args = ["postgres", "-q", "--scale", "1", "--clients", "2", "--runtime", "60s", "--dsn", &dsn];
    let mut run = Running::start(site.command(&args));
    wait_until("its tables are there", || {
        run.assert_running();
        server.ask("select count(*) from pg_tables where tablename = 'pgbench_branches'").unwrap() == "1"
    });
    let children = children(run.0.id());
    assert!(!children.is_empty(), "it has a helper");
    for child in children {
        let _ = rustix::process::kill_process(child, Signal::KILL);
    }
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert_eq!(server.schemas(), "1");
}

/// It stayed for ever, and the next run refused its own tables.
#[test]
fn a_schema_left_by_a_killed_run_is_dropped_by_restore() {
    let (site, server) = or_skip!(ready());
    killed_with_its_helpers(&site, &server);
    let said = text(site.place.qd1(&["restore"]));
    assert!(said.contains("dropped the schema qd1_"), "{said}");
    assert_eq!(server.schemas(), "0");
    assert_eq!(text(site.place.qd1(&["restore"])), "nothing to undo\n");
}

#[test]
fn a_schema_left_by_a_killed_run_is_dropped_by_the_next() {
    let (site, server) = or_skip!(ready());
    killed_with_its_helpers(&site, &server);
    let output = run(&site, &server, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.schemas(), "0");
    // Of another machine, whose journal is not here.
    let other = "create schema qd1_0123456789ab; comment on schema qd1_0123456789ab is 'made by qd1, run 0123456789ab'; \
                 create table qd1_0123456789ab.pgbench_accounts (x int)";
    server.ask(other).unwrap();
    let output = run(&site, &server, &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(server.schemas(), "1", "it is left to that machine");
}

#[test]
fn a_server_that_is_gone_keeps_its_schema_in_the_journal() {
    let (site, server) = or_skip!(ready());
    killed_with_its_helpers(&site, &server);
    drop(server);
    let output = site.place.command(&["restore"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("drop schema if exists qd1_") && said.contains("PGPASSWORD"), "{said}");
}

/// The run that had ended waited as long as somebody held a lock on its tables, and was not saved before.
#[test]
fn a_schema_that_somebody_holds_is_told_and_dropped_later() {
    let (site, server) = or_skip!(ready());
    killed_with_its_helpers(&site, &server);
    let schema = server.ask("select nspname from pg_namespace where nspname like 'qd1%'").unwrap();
    let hold = format!("begin; lock table {schema}.pgbench_branches in access share mode; select pg_sleep(600)");
    let mut holder = Command::new(program("psql").unwrap())
        .args(["-XAtq", "-d", &server.dsn(), "-c", &hold])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("it is held", || {
        let locks = "select count(*) from pg_locks where mode = 'AccessShareLock' and relation = \
                     (select oid from pg_class where relname = 'pgbench_branches')";
        server.ask(locks).unwrap() != "0"
    });
    let output = site.place.command(&["restore"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains("lock timeout"), "{said}");
    server.ask("select pg_terminate_backend(pid) from pg_stat_activity where query like '%pg_sleep(600)%'");
    holder.wait().unwrap();
    assert!(text(site.place.qd1(&["restore"])).contains("dropped the schema"));
    assert_eq!(server.schemas(), "0");
}

/// Everybody can read the command lines of psql and pgbench; the history and "run it again" are kept and shared.
#[test]
fn the_password_of_a_server_is_nowhere_to_be_seen() {
    let (site, server) = or_skip!(ready());
    let dsn = format!("{} password = 's3 cret'", server.dsn());
    let args = ["postgres", "--scale", "1", "--clients", "2", "--runtime", "2s", "--json", "--dsn", &dsn];
    // Into files: a full pipe would hold it up.
    let [out, err] = ["out", "err"].map(|name| site.place.beside(name));
    let streams = [&out, &err].map(|path| fs::File::create(path).unwrap());
    let [stdout, stderr] = streams;
    let mut command = site.command(&args);
    let mut run = Running(command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn().unwrap());
    let own = run.0.id();
    let mut seen = 0;
    let mut shown = Vec::new();
    while run.is_running() {
        for child in children(own) {
            let line = fs::read(format!("/proc/{}/cmdline", child.as_raw_nonzero())).unwrap_or_default();
            seen += usize::from(!line.is_empty());
            // A child begins as a copy of us, with our own command line.
            let is_copy = fs::read(format!("/proc/{own}/cmdline")).is_ok_and(|ours| ours == line);
            if !is_copy && String::from_utf8_lossy(&line).contains("cret") {
                shown.push(String::from_utf8_lossy(&line).into_owned());
            }
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    assert!(seen > 10 && shown.is_empty(), "{shown:?}");
    let said = [out, err].map(|path| fs::read_to_string(path).unwrap()).concat();
    assert!(said.contains("--dsn") && !said.contains("cret"), "{said}");
    let history = fs::read(site.place.history()).unwrap();
    assert!(!history.windows(4).any(|bytes| bytes == b"cret"));
}
