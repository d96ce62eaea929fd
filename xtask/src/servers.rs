//! The real programs that `qd1 app` runs, and zfs-fuse for `qd1 filesystems`, installed without any of their services: no
//! cluster is made, none is started.
//!
//! Debian's packages make a cluster and start their servers when they are installed. Tests want the programs alone, and a
//! developer's machine keeps quiet.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::cmd;

/// A program that shows that a package is there, and the Debian package.
const WANTED: &[(&str, &str)] = &[
    ("initdb", "postgresql"),
    ("etcd", "etcd-server"),
    ("etcdctl", "etcd-client"),
    ("sysbench", "sysbench"),
    ("db_bench", "rocksdb-tools"),
    ("zfs-fuse", "zfs-fuse"),
];

/// What says whether a service may be started (Debian policy, invoke-rc.d).
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// Whether installing PostgreSQL makes a cluster.
const CLUSTERS: &str = "/etc/postgresql-common/createcluster.conf";
const NO_CLUSTER: &str = "create_main_cluster = false";

/// Installs those that are missing. Without them their tests are skipped, aloud.
pub(crate) fn install() -> Result<()> {
    let missing: Vec<&str> =
        WANTED.iter().filter(|(program, _)| !is_there(program)).map(|(_, package)| *package).collect();
    if missing.is_empty() {
        return Ok(());
    }
    if !cmd::is_root() || cmd::find("apt-get").is_none() {
        bail!(
            "missing for tests of `qd1 app` and `qd1 filesystems`: {}. On Debian, as root: apt-get install them",
            missing.join(" ")
        );
    }
    println!("setup: apt-get install {} (no services)", missing.join(" "));
    cmd::capture(apt().args(["update", "-q"]))?;
    let policy = Kept::changed(POLICY, |_| "#!/bin/sh\nexit 101\n".to_owned())?;
    fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).with_context(|| POLICY.to_owned())?;
    let install = |packages: &[&str]| {
        cmd::capture(apt().args(["install", "-q", "-y", "--no-install-recommends"]).args(packages)).map(drop)
    };
    let mut clusters = None;
    if missing.contains(&"postgresql") {
        install(&["postgresql-common"])?;
        clusters = Some(Kept::changed(CLUSTERS, |old| format!("{}\n{NO_CLUSTER}\n", old.unwrap_or_default()))?);
    }
    let outcome = install(&missing);
    drop((policy, clusters));
    outcome
}

fn apt() -> std::process::Command {
    let mut apt = cmd::command("apt-get");
    apt.env("DEBIAN_FRONTEND", "noninteractive");
    apt
}

/// In PATH, or where Debian keeps each version of PostgreSQL.
fn is_there(program: &str) -> bool {
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    cmd::find(program).is_some()
        || versions.into_iter().any(|version| version.path().join("bin").join(program).is_file())
}

/// A file of the system that is otherwise for a while: as it was again when this is dropped.
struct Kept {
    path: &'static str,
    before: Option<String>,
}

impl Kept {
    fn changed(path: &'static str, change: impl FnOnce(Option<String>) -> String) -> Result<Self> {
        let before = fs::read_to_string(path).ok();
        let this = Self { path, before: before.clone() };
        if let Some(dir) = Path::new(path).parent() {
            fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
        }
        fs::write(path, change(before)).with_context(|| format!("cannot write {path}"))?;
        Ok(this)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let restored = match &self.before {
            Some(text) => fs::write(self.path, text),
            None => fs::remove_file(self.path),
        };
        if let Err(error) = restored {
            println!("setup: {} is not as it was: {error}", self.path);
        }
    }
}
