//! Where packages are tried: Debian systems, made once by debootstrap and kept next to the pinned tools; and an empty
//! root for RPM, since no registry that this project uses offers an RPM-based system.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use qd1_lab::cmd;

use crate::debian::Package;
use crate::tools::{make_once, tools_dir};

/// A Debian system.
#[derive(Clone, Copy)]
pub(super) struct Debian {
    pub(super) name: &'static str,
    suite: &'static str,
    /// Debian's name of the architecture.
    pub(super) arch: &'static str,
    /// Additional packages fetched for it.
    include: &'static str,
    /// Size of its kernel's pages, KiB.
    pub(super) page_kib: u32,
}

/// Those for another architecture include a kernel for it, each with a different page size.
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
        name: "Debian 13, arm64, 16 KiB pages",
        suite: "trixie",
        arch: "arm64",
        include: "busybox-static,linux-image-arm64-16k",
        page_kib: 16,
    },
];

const fn package(program: &'static str, name: &'static str, purpose: &'static str) -> Package {
    Package { program, name, purpose }
}

/// The programs that make these systems, and that run programs of other architectures.
pub(super) const PACKAGES: [Package; 3] = [
    package("debootstrap", "debootstrap", "root filesystems to test the installation in (dist --try)"),
    package("qemu-aarch64-static", "qemu-user-static", "programs for aarch64 (dist --try)"),
    package("qemu-system-aarch64", "qemu-system-arm", "an aarch64 machine (dist --try)"),
];

impl Debian {
    /// Whether its programs need an emulator here.
    pub(super) fn is_foreign(&self) -> bool {
        self.arch != "amd64"
    }

    /// The directory of the system, fetched if missing. Only root can make one.
    pub(super) fn fetch(&self) -> Result<PathBuf> {
        let dir = tools_dir()?.join(format!("{}-{}", self.suite, self.arch));
        make_once(&dir, &format!("{} to install in", self.name), |fresh| {
            ensure!(cmd::is_root(), "debootstrap needs root");
            let root = fresh.join("root");
            let mut make = cmd::command("debootstrap");
            make.args(["--variant=minbase", "--arch", self.arch]);
            if self.is_foreign() {
                // Its packages are only unpacked; their scripts would need that architecture.
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

    /// Unpacks the fetched packages whose names have this prefix into `into`.
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

/// The Debian mirror that this machine uses.
fn mirror() -> Result<String> {
    let sites = cmd::capture(cmd::command("apt-get").args(["indextargets", "--format", "$(SITE)"]))?;
    let debian = sites.lines().find(|site| site.trim_end_matches('/').ends_with("/debian"));
    debian.map(str::to_owned).context("apt has no Debian mirror here")
}

/// The emulator for aarch64 programs: a static one, since it is called inside other systems.
pub(super) fn emulator() -> Result<PathBuf> {
    let file = cmd::find("qemu-aarch64-static").context("qemu-aarch64-static is missing")?;
    ensure!(cmd::is_static(&file)?, "{} is not static", file.display());
    Ok(file)
}
