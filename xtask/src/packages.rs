//! What the lab needs from Debian: a kernel with its modules, a static busybox, device mapper and LVM tools.
//!
//! The packages are unpacked beside the pinned tools and not installed: the machine's own kernel, its udev rules and
//! its LVM are none of the lab's business. Neither is root needed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::cmd;
use crate::debian::{self, Package};
use crate::tools::{make_once, tools_dir};

/// Unpacked beside the kernel. `lvm` needs the libraries, which not every machine has.
const PACKAGES: &[&str] = &[
    "busybox-static",
    "dmsetup",
    "lvm2",
    "libbsd0",
    "libdevmapper-event1.02.1",
    "libdevmapper1.02.1",
    "libedit2",
    "libmd0",
];

/// The package that depends on Debian's current kernel.
const KERNEL: &str = "linux-image-amd64";

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

/// What boots it.
pub(crate) const QEMU: Package = Package {
    program: "qemu-system-x86_64",
    name: "qemu-system-x86",
    purpose: "another kernel and other devices (lab, its test)",
};

/// The unpacked packages.
pub(crate) struct Unpacked {
    root: PathBuf,
    /// The kernel's release, `6.1.0-56-amd64`.
    pub(crate) release: String,
}

impl Unpacked {
    /// What was fetched before, if it was.
    pub(crate) fn found() -> Result<Option<Self>> {
        let root = dir()?;
        if !root.is_dir() {
            return Ok(None);
        }
        let release = release(&root).context("the lab's packages hold no kernel; remove them, and they come anew")?;
        Ok(Some(Self { root, release }))
    }

    /// Those that lie unpacked in `root`; their modules are made ready for a guest.
    pub(crate) fn of(root: &Path) -> Result<Self> {
        let release = release(root)?;
        let modules = modules(root, &release)?;
        prune(&modules)?;
        // Newer ones are compressed, which busybox's modprobe may not know.
        cmd::capture(cmd::command("find").arg(&modules).args(["-name", "*.ko.xz", "-exec", "xz", "-dq", "{}", "+"]))?;
        depend(root, &release, &program(&dir()?, "busybox")?)?;
        Ok(Self { root: root.to_owned(), release })
    }

    /// The kernel.
    pub(crate) fn kernel(&self) -> PathBuf {
        self.root.join("boot").join(format!("vmlinuz-{}", self.release))
    }

    /// The directory of the kernel's modules.
    pub(crate) fn modules(&self) -> Result<PathBuf> {
        modules(&self.root, &self.release)
    }

    /// A program by name.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        program(&self.root, name)
    }

    /// Where the loader looks for their libraries, before those of this machine.
    pub(crate) fn library_path(&self) -> String {
        let dirs = ["lib/x86_64-linux-gnu", "usr/lib/x86_64-linux-gnu"].map(|dir| self.root.join(dir));
        dirs.map(|dir| dir.to_string_lossy().into_owned()).join(":")
    }
}

fn program(root: &Path, name: &str) -> Result<PathBuf> {
    let places = ["bin", "sbin", "usr/bin", "usr/sbin"].map(|dir| root.join(dir).join(name));
    places.into_iter().find(|path| path.is_file()).with_context(|| format!("the packages have no {name}"))
}

/// busybox's own depmod, since the machine may have none. It wants the modules where they were before /usr took all.
fn depend(root: &Path, release: &str, busybox: &Path) -> Result<()> {
    let (lib, modules) = (root.join("lib"), root.join("usr/lib/modules"));
    if !lib.join("modules").exists() && modules.is_dir() {
        fs::create_dir_all(&lib)?;
        std::os::unix::fs::symlink("../usr/lib/modules", lib.join("modules"))?;
    }
    cmd::capture(cmd::command(busybox).args(["depmod", "-b"]).arg(root).arg(release)).map(drop)
}

fn dir() -> Result<PathBuf> {
    Ok(tools_dir()?.join("lab-debian"))
}

/// Fetches the packages if they are missing.
pub(crate) fn fetch() -> Result<()> {
    make_once(&dir()?, "Debian's kernel and tools for the lab", |root| {
        let kernel = kernel().or_else(|_| debian::update().and_then(|()| kernel()))?;
        debian::unpack(&[&[kernel.as_str()], PACKAGES].concat(), root)?;
        let release = release(root)?;
        prune(&modules(root, &release)?)?;
        depend(root, &release, &program(root, "busybox")?)?;
        Ok(root.to_owned())
    })
}

/// The name of the current kernel's package.
fn kernel() -> Result<String> {
    kernel_package(&cmd::capture(cmd::command("apt-cache").args(["depends", KERNEL]))?)
}

/// The kernel that the package depends on, from what `apt-cache depends` says.
fn kernel_package(depends: &str) -> Result<String> {
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let found = names.find(|name| name.starts_with("linux-image-"));
    found.map(str::to_owned).with_context(|| format!("{KERNEL} is not known here: this is not Debian"))
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

/// Removes what is neither kept nor on the way to it.
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
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(kernel_package(text).unwrap(), "linux-image-6.1.0-56-amd64");
        assert!(kernel_package("").unwrap_err().to_string().contains("not Debian"));
    }

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
