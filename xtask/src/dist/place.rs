//! Where packages are tried: systems of Debian, made once by debootstrap and kept beside the pinned tools; and an empty
//! root for RPM's, whose own systems no registry that this project uses has.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use qd1_lab::cmd;

use crate::debian::Package;
use crate::tools::{make_once, tools_dir};

/// A system of Debian.
#[derive(Clone, Copy)]
pub(super) struct Debian {
    pub(super) name: &'static str,
    suite: &'static str,
    /// Debian's name of the machine.
    pub(super) arch: &'static str,
    /// What else is fetched for it.
    include: &'static str,
    /// Size of its kernel's pages, KiB.
    pub(super) page_kib: u32,
}

/// Those for other machines bring a kernel for one of them, each with pages of another size.
pub(super) const DEBIANS: [Debian; 4] = [
    Debian { name: "Debian 12, amd64", suite: "bookworm", arch: "amd64", include: "", page_kib: 4 },
    Debian { name: "Debian 13, amd64", suite: "trixie", arch: "amd64", include: "", page_kib: 4 },
    Debian {
        name: "Debian 12, arm64",
        suite: "bookworm",
        arch: "arm64",
        include: "busybox-static,linux-image-arm64",
        page_kib: 4,
    },
    Debian {
        name: "Debian 13, arm64, pages of 16 KiB",
        suite: "trixie",
        arch: "arm64",
        include: "busybox-static,linux-image-arm64-16k",
        page_kib: 16,
    },
];

const fn package(program: &'static str, name: &'static str, purpose: &'static str) -> Package {
    Package { program, name, purpose }
}

/// What makes these systems, and runs what is not for this machine.
pub(super) const PACKAGES: [Package; 3] = [
    package("debootstrap", "debootstrap", "systems to install in (dist --try)"),
    package("qemu-aarch64-static", "qemu-user-static", "programs for aarch64 (dist --try)"),
    package("qemu-system-aarch64", "qemu-system-arm", "a machine of aarch64 (dist --try)"),
];

impl Debian {
    /// Whether its programs need an emulator here.
    pub(super) fn is_foreign(&self) -> bool {
        self.arch != "amd64"
    }

    /// The directory of the system, fetched where it is missing. Only root can make one.
    pub(super) fn fetch(&self) -> Result<PathBuf> {
        let dir = tools_dir()?.join(format!("{}-{}", self.suite, self.arch));
        make_once(&dir, &format!("{} to install in", self.name), |fresh| {
            ensure!(cmd::is_root(), "debootstrap needs root");
            let root = fresh.join("root");
            let mut make = cmd::command("debootstrap");
            make.args(["--variant=minbase", "--arch", self.arch]);
            if self.is_foreign() {
                // Its packages are unpacked; what they would run needs that machine.
                make.arg("--foreign");
            }
            if !self.include.is_empty() {
                make.arg(format!("--include={}", self.include));
            }
            make.arg(self.suite).arg(&root).arg(mirror()?);
            cmd::capture(&mut make)?;
            Ok(root)
        })?;
        Ok(dir)
    }

    /// Unpacks the packages whose names begin so, as they were fetched, into `into`.
    pub(super) fn unpack(&self, starts: &[&str], into: &Path) -> Result<()> {
        for entry in fs::read_dir(self.fetch()?.join("var/cache/apt/archives"))? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if starts.iter().any(|start| name.starts_with(start)) {
                cmd::capture(cmd::command("dpkg-deb").arg("-x").arg(entry.path()).arg(into))?;
            }
        }
        Ok(())
    }
}

/// The mirror of Debian that this machine uses.
fn mirror() -> Result<String> {
    let sites = cmd::capture(cmd::command("apt-get").args(["indextargets", "--format", "$(SITE)"]))?;
    let debian = sites.lines().find(|site| site.trim_end_matches('/').ends_with("/debian"));
    debian.map(str::to_owned).context("apt knows no mirror of Debian here")
}

/// The emulator for programs of aarch64: a static one, since it is called inside other systems.
pub(super) fn emulator() -> Result<PathBuf> {
    let file = cmd::find("qemu-aarch64-static").context("qemu-aarch64-static is missing")?;
    ensure!(cmd::is_static(&file)?, "{} is not static", file.display());
    Ok(file)
}
