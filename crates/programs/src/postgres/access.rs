//! PostgreSQL's programs, and queries to a server with psql.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use anyhow::{Context as _, Result, bail};
use qd1_model::record::program::Setting;

use crate::find;
use qd1_model::{Problem, ProblemKind};
use qd1_system::child::Program;
use qd1_system::user::User;

/// The oldest version that is known to work.
const MAJOR_MIN: u32 = 12;
const PACKAGES: &str = "postgresql";

/// Settings that determine the cost of a commit.
const DECISIVE: &str = "'fsync','synchronous_commit','wal_sync_method','full_page_writes','shared_buffers',\
                        'max_wal_size','commit_delay','wal_level'";

/// Paths of PostgreSQL's programs.
#[derive(Clone, Debug)]
pub(crate) struct Tools {
    pub(crate) initdb: PathBuf,
    pub(crate) postgres: PathBuf,
    pub(crate) pgbench: PathBuf,
    pub(crate) psql: PathBuf,
    /// Version of the server's programs; 0 if only clients are needed.
    pub(crate) major: u32,
}

impl Tools {
    /// Searches the usual places; chooses the newest of several versions.
    ///
    /// # Errors
    /// When a program is missing; the message names it.
    pub(crate) fn find(bindir: Option<&Path>, server: bool) -> Result<Self> {
        let dirs = match bindir {
            Some(dir) => vec![dir.to_owned()],
            None => usual_dirs(),
        };
        let mut found: Vec<(u32, PathBuf)> = dirs
            .iter()
            .filter(|dir| find::among("initdb", std::slice::from_ref(dir)).is_some())
            .filter_map(|dir| Some((major_of(&find::among("postgres", std::slice::from_ref(dir))?)?, dir.clone())))
            .collect();
        found.sort();
        let newest = found.pop();
        if server && newest.as_ref().is_none_or(|(major, _)| *major < MAJOR_MIN) {
            let seen = match (&newest, bindir) {
                (Some((major, dir)), _) => format!("only version {major} in {}", dir.display()),
                (None, Some(dir)) => format!("no initdb and postgres in {}", dir.display()),
                (None, None) => "not found in PATH or in the usual places".to_owned(),
            };
            let message = format!(
                "PostgreSQL {MAJOR_MIN} or later is not installed ({seen}); on Debian and Ubuntu: apt-get install \
                 {PACKAGES}; elsewhere name its directory with --bindir"
            );
            return Err(Problem::new(ProblemKind::Capability, message).into());
        }
        let (major, dir) = newest.unwrap_or_default();
        // Its own clients first: a pgbench of another version works too, but is not what its users have.
        let clients: Vec<PathBuf> = [vec![dir.clone()], dirs].concat();
        Ok(Self {
            initdb: dir.join("initdb"),
            postgres: dir.join("postgres"),
            pgbench: find::needed("pgbench", &clients, PACKAGES)?,
            psql: find::needed("psql", &clients, "postgresql-client")?,
            major,
        })
    }
}

fn usual_dirs() -> Vec<PathBuf> {
    let mut dirs = find::path_dirs();
    dirs.extend(find::like("/usr/lib/postgresql", "", "bin"));
    dirs.extend(find::like("/usr", "pgsql-", "bin"));
    dirs.extend(find::like("/opt", "", "bin"));
    dirs.extend(find::like("/opt/postgresql", "", "bin"));
    dirs.extend(["/usr/local/pgsql/bin", "/usr/local/bin"].map(PathBuf::from));
    dirs
}

/// Reads the version from `postgres (PostgreSQL) 15.18 (Debian ...)`.
fn major_of(postgres: &Path) -> Option<u32> {
    let output = Command::new(postgres).arg("--version").output().ok()?;
    major_in(&String::from_utf8_lossy(&output.stdout))
}

fn major_in(text: &str) -> Option<u32> {
    let version = text.split_once("(PostgreSQL) ")?.1;
    version[..version.find(|c: char| !c.is_ascii_digit()).unwrap_or(version.len())].parse().ok()
}

/// How to connect to a server.
pub(crate) struct Access {
    pub(crate) tools: Tools,
    /// The connection string, which libpq accepts in place of a database name.
    pub(crate) conninfo: OsString,
    pub(crate) env: Vec<(&'static str, OsString)>,
    /// The user its clients run as.
    pub(crate) user: Option<User>,
}

impl Access {
    /// Returns a client of the server.
    pub(crate) fn client<'a>(&'a self, file: &'a Path, args: Vec<OsString>) -> Program<'a> {
        let mut program = Program::new(file, &[]).user(self.user.as_ref());
        program.args = args;
        program.env.clone_from(&self.env);
        program
    }

    /// Returns the rows of a query.
    ///
    /// # Errors
    /// When the query fails; the message is the server's.
    pub(crate) fn query(&self, sql: &str, cancel: &AtomicBool) -> Result<Vec<Vec<String>>> {
        let text = self.client(&self.tools.psql, self.args(sql)).output(cancel)?;
        Ok(text.lines().map(|line| line.split('\t').map(str::to_owned).collect()).collect())
    }

    /// Returns psql's arguments for one query.
    pub(crate) fn args(&self, sql: &str) -> Vec<OsString> {
        let fixed = ["-X", "-A", "-t", "-q", "-w", "-F", "\t", "-v", "ON_ERROR_STOP=1", "-c", sql, "-d"];
        fixed.into_iter().map(OsString::from).chain([self.conninfo.clone()]).collect()
    }

    /// Returns the server's version as a number: 150018 for 15.18.
    ///
    /// # Errors
    /// As [`Access::query`].
    pub(crate) fn version_number(&self, cancel: &AtomicBool) -> Result<u32> {
        let rows = self.query("show server_version_num", cancel)?;
        let number = rows.first().and_then(|row| row.first()).and_then(|text| text.parse().ok());
        number.context("the server does not report its version")
    }

    /// Returns the server's version as text.
    ///
    /// # Errors
    /// As [`Access::query`], and when the server is too old.
    pub(crate) fn version(&self, cancel: &AtomicBool) -> Result<String> {
        let number = self.version_number(cancel)?;
        if number / 10_000 < MAJOR_MIN {
            bail!("the server is PostgreSQL {}, but {MAJOR_MIN} or later is needed", number / 10_000);
        }
        Ok(format!("{}.{}", number / 10_000, number % 10_000))
    }

    /// Returns the settings that determine the cost of a commit and those `set` for this run, with the server's values.
    ///
    /// # Errors
    /// As [`Access::query`].
    pub(crate) fn settings(&self, set: &[String], cancel: &AtomicBool) -> Result<Vec<Setting>> {
        let plain = |name: &&str| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '.');
        let named = set.iter().filter_map(|set| set.split('=').next()).map(str::trim).filter(plain);
        let names: String = named.map(|name| format!(",'{name}'")).collect();
        let sql =
            format!("select name, current_setting(name) from pg_settings where name in ({DECISIVE}{names}) order by 1");
        let rows = self.query(&sql, cancel)?;
        let setting = |row: Vec<String>| {
            let mut fields = row.into_iter();
            Some(Setting { name: fields.next()?, value: fields.next()? })
        };
        Ok(rows.into_iter().filter_map(setting).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_of_all_kinds_of_builds_are_read() {
        assert_eq!(major_in("postgres (PostgreSQL) 15.18 (Debian 15.18-0+deb12u1)\n"), Some(15));
        assert_eq!(major_in("postgres (PostgreSQL) 17beta1\n"), Some(17));
        assert_eq!(major_in("postgres (PostgreSQL) 9.6.24\n"), Some(9));
        assert_eq!(major_in("something else"), None);
    }

    #[test]
    fn a_directory_without_postgresql_is_named_with_the_package() {
        let dir = tempfile::tempdir().unwrap();
        let error = Tools::find(Some(dir.path()), true).unwrap_err();
        assert_eq!(error.downcast_ref::<Problem>().unwrap().kind(), ProblemKind::Capability);
        let text = error.to_string();
        assert!(text.contains(dir.path().to_str().unwrap()) && text.contains("apt-get install postgresql"), "{text}");
    }
}
