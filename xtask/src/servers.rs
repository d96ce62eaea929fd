//! The real programs that `qd1 app` runs, and zfs-fuse for `qd1 filesystems`, installed without any of their services:
//! no cluster is created or started.
//!
//! Debian's packages create a cluster and start their servers when they are installed. Tests need only the programs,
//! and a developer's machine should stay quiet.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use anyhow::{Context, Result};

use crate::debian::Package;

const POSTGRESQL: &str = "postgresql";
const PURPOSE: &str = "tests of `qd1 app` and `qd1 filesystems`";

/// Without them their tests are skipped with a message.
pub(crate) const PACKAGES: &[Package] = &[
    Package { program: "initdb", name: POSTGRESQL, purpose: PURPOSE },
    Package { program: "mariadbd", name: "mariadb-server-core", purpose: PURPOSE },
    // Called by its mariadb-install-db.
    Package { program: "my_print_defaults", name: "mariadb-client-core", purpose: PURPOSE },
    Package { program: "etcd", name: "etcd-server", purpose: PURPOSE },
    Package { program: "etcdctl", name: "etcd-client", purpose: PURPOSE },
    Package { program: "sysbench", name: "sysbench", purpose: PURPOSE },
    Package { program: "db_bench", name: "rocksdb-tools", purpose: PURPOSE },
    Package { program: "zfs-fuse", name: "zfs-fuse", purpose: PURPOSE },
];

/// The file that decides whether a service may be started (Debian policy, invoke-rc.d).
const POLICY: &str = "/usr/sbin/policy-rc.d";
/// The file that decides whether installing PostgreSQL creates a cluster.
const CLUSTERS: &str = "/etc/postgresql-common/createcluster.conf";
const NO_CLUSTER: &str = "create_main_cluster = false";

/// Installs packages with `install` so that no service is started and no cluster created.
pub(crate) fn without_services(names: &[&str], install: impl Fn(&[&str]) -> Result<()>) -> Result<()> {
    let policy = Kept::changed(POLICY, |_| "#!/bin/sh\nexit 101\n".to_owned())?;
    fs::set_permissions(POLICY, fs::Permissions::from_mode(0o755)).with_context(|| POLICY.to_owned())?;
    if !names.contains(&POSTGRESQL) {
        return install(names);
    }
    // The file that prevents it from creating a cluster is in a separate package, which is installed first with the
    // rest.
    let others: Vec<&str> = names.iter().filter(|name| **name != POSTGRESQL).copied().collect();
    install(&[&others[..], &["postgresql-common"]].concat())?;
    let clusters = Kept::changed(CLUSTERS, |old| format!("{}\n{NO_CLUSTER}\n", old.unwrap_or_default()))?;
    let outcome = install(&[POSTGRESQL]);
    drop((policy, clusters));
    outcome
}

/// A system file that is changed temporarily: restored when this is dropped.
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
            println!("setup: cannot restore {}: {error}", self.path);
        }
    }
}
