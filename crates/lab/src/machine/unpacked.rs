//! Debian's packages of a guest, unpacked: a kernel with its modules, a static busybox, device mapper and LVM tools.
//!
//! `cargo xtask` fetches them. They are not installed, so that the machine's own kernel, udev rules and LVM stay
//! untouched.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cmd;

/// Parts of the kernel's modules that a disk, a filesystem or a console may need; the rest, 300 MB, is dropped.
const MODULES_KEPT: &[&str] = &[
    "arch",
    "block",
    "crypto",
    "fs",
    "lib",
    "drivers/block",
    "drivers/char",
    "drivers/dax",
    "drivers/md",
    "drivers/nvdimm",
    "drivers/nvme",
    "drivers/scsi",
    "drivers/virtio",
];

/// The unpacked packages.
pub struct Unpacked {
    root: PathBuf,
    /// The kernel's release, `6.1.0-56-amd64`.
    pub release: String,
}

impl Unpacked {
    /// Those in `root`, whose modules were prepared before.
    pub fn open(root: &Path) -> Result<Self> {
        let release = release(root).context("the lab's packages contain no kernel; remove them to fetch them again")?;
        Ok(Self { root: root.to_owned(), release })
    }

    /// Those that were just unpacked in `root`: keeps the modules that a guest may need, and prepares them for it.
    /// If they are for another architecture, whose programs cannot be run here, the tools of `own` are used.
    pub fn prepare(root: &Path, own: Option<&Self>) -> Result<Self> {
        let release = release(root)?;
        let modules = modules(root, &release)?;
        prune(&modules)?;
        // Newer ones are compressed, which busybox's modprobe may not know.
        cmd::capture(cmd::command("find").arg(&modules).args(["-name", "*.ko.xz", "-exec", "xz", "-dq", "{}", "+"]))?;
        depend(root, &release, &program(own.map_or(root, |own| &own.root), "busybox")?)?;
        Ok(Self { root: root.to_owned(), release })
    }

    /// Where they are.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The kernel.
    pub fn kernel(&self) -> PathBuf {
        self.root.join("boot").join(format!("vmlinuz-{}", self.release))
    }

    /// The directory of the kernel's modules.
    pub fn modules(&self) -> Result<PathBuf> {
        modules(&self.root, &self.release)
    }

    /// A program by name.
    pub fn program(&self, name: &str) -> Result<PathBuf> {
        program(&self.root, name)
    }

    /// Where the loader looks for their libraries before those of this machine.
    pub fn library_path(&self) -> String {
        let dirs = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|dir| self.root.join(dir));
        dirs.map(|dir| dir.to_string_lossy().into_owned()).join(":")
    }
}

fn program(root: &Path, name: &str) -> Result<PathBuf> {
    let places = ["bin", "sbin", "usr/bin", "usr/sbin"].map(|dir| root.join(dir).join(name));
    places.into_iter().find(|path| path.is_file()).with_context(|| format!("the packages do not contain {name}"))
}

/// busybox's own depmod, since the machine may have none. It expects the modules where they were before the /usr merge.
fn depend(root: &Path, release: &str, busybox: &Path) -> Result<()> {
    let (lib, modules) = (root.join("lib"), root.join("usr/lib/modules"));
    if !lib.join("modules").exists() && modules.is_dir() {
        fs::create_dir_all(&lib)?;
        std::os::unix::fs::symlink("../usr/lib/modules", lib.join("modules"))?;
    }
    cmd::capture(cmd::command(busybox).args(["depmod", "-b"]).arg(root).arg(release)).map(drop)
}

fn release(root: &Path) -> Result<String> {
    for entry in fs::read_dir(root.join("boot"))? {
        let name = entry?.file_name();
        if let Some(release) = name.to_str().and_then(|name| name.strip_prefix("vmlinuz-")) {
            return Ok(release.to_owned());
        }
    }
    bail!("there is no kernel in {}", root.display())
}

fn modules(root: &Path, release: &str) -> Result<PathBuf> {
    let places = ["lib/modules", "usr/lib/modules"].map(|dir| root.join(dir).join(release));
    places.into_iter().find(|dir| dir.is_dir()).context("the kernel's package has no modules")
}

/// Removes everything except what is kept and its parent directories.
fn prune(modules: &Path) -> Result<()> {
    let kernel = modules.join("kernel");
    for parent in [kernel.clone(), kernel.join("drivers")] {
        for entry in fs::read_dir(&parent)? {
            let path = entry?.path();
            let inside = path.strip_prefix(&kernel)?.to_owned();
            if !MODULES_KEPT.iter().any(|kept| Path::new(kept).starts_with(&inside)) {
                fs::remove_dir_all(&path)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_modules_of_disks_stay() {
        let dir = tempfile::tempdir().unwrap();
        for part in ["kernel/drivers/gpu/x", "kernel/drivers/nvme/host", "kernel/sound", "kernel/fs/ext4"] {
            fs::create_dir_all(dir.path().join(part)).unwrap();
        }
        prune(dir.path()).unwrap();
        let there = |part: &str| dir.path().join(part).exists();
        assert!(there("kernel/drivers/nvme/host") && there("kernel/fs/ext4"));
        assert!(!there("kernel/drivers/gpu") && !there("kernel/sound"));
    }
}
