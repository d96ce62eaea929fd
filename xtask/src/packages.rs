//! What the lab needs from Debian: a kernel with its modules, a static busybox, device mapper and LVM tools.
//!
//! The packages are unpacked next to the pinned tools and not installed, so that the machine's own kernel, udev rules
//! and LVM stay untouched. Root is not needed either.

use std::path::PathBuf;

use anyhow::{Context, Result};
use qd1_lab::cmd;
use qd1_lab::machine::{self, Unpacked};

use crate::debian::{self, Package};
use crate::tools::{make_once, tools_dir};

/// Unpacked next to the kernel. `lvm` needs the libraries, which not every machine has.
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

/// Other kernels of Debian, by version, with the release of Debian that has each.
pub(crate) const OTHER_KERNELS: [(&str, &str); 2] = [("5.10", "bullseye"), ("6.12", "trixie")];

/// The emulator that boots it.
pub(crate) const QEMU: Package = Package {
    program: machine::QEMU,
    name: "qemu-system-x86",
    purpose: "another kernel and other devices (lab, its test)",
};

fn dir() -> Result<PathBuf> {
    Ok(tools_dir()?.join("lab-debian"))
}

/// Fetches the packages if they are missing.
pub(crate) fn fetch() -> Result<()> {
    make_once(&dir()?, "Debian's kernel and tools for the lab", |root| {
        let kernel = kernel().or_else(|_| debian::update().and_then(|()| kernel()))?;
        debian::unpack(&[&[kernel.as_str()], PACKAGES].concat(), root)?;
        Unpacked::prepare(root, None)?;
        Ok(root.to_owned())
    })
}

/// Fetches the packages with another kernel, if they are missing.
pub(crate) fn with_kernel(version: &str) -> Result<Unpacked> {
    let known = OTHER_KERNELS.map(|(version, _)| version).join(", ");
    let found = OTHER_KERNELS.iter().find(|(known, _)| *known == version);
    let (_, release) = found.with_context(|| format!("there is no kernel {version}; choose from: {known}"))?;
    let dir = tools_dir()?.join(format!("lab-debian-{version}"));
    make_once(&dir, &format!("Debian's Linux {version} for the lab"), |root| {
        let kernel = |depends: &str| kernel_package(depends);
        debian::unpack_of(release, KERNEL, kernel, root)?;
        debian::unpack(PACKAGES, root)?;
        Unpacked::prepare(root, None)?;
        Ok(root.to_owned())
    })?;
    Unpacked::open(&dir)
}

/// The packages, if they have been fetched before.
pub(crate) fn found() -> Result<Option<Unpacked>> {
    let root = dir()?;
    root.is_dir().then(|| Unpacked::open(&root)).transpose()
}

/// The name of the current kernel's package.
fn kernel() -> Result<String> {
    kernel_package(&cmd::capture(cmd::command("apt-cache").args(["depends", KERNEL]))?)
}

/// The kernel that the package depends on, from the output of `apt-cache depends`.
fn kernel_package(depends: &str) -> Result<String> {
    let mut names = depends.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    let found = names.find(|name| name.starts_with("linux-image-"));
    found.map(str::to_owned).with_context(|| format!("apt does not know {KERNEL}; the lab needs Debian"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_what_the_package_depends_on() {
        let text = "linux-image-amd64\n  Depends: linux-image-6.1.0-56-amd64\n";
        assert_eq!(kernel_package(text).unwrap(), "linux-image-6.1.0-56-amd64");
        assert!(kernel_package("").unwrap_err().to_string().contains("needs Debian"));
    }
}
