//! The guest's initramfs: all its files, which the kernel unpacks into memory. They are laid out in a directory, which
//! busybox packs in the kernel's own format.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use tempfile::TempDir;

use super::Unpacked;
use crate::cmd;

/// Files for a guest.
pub struct Archive(TempDir);

impl Archive {
    /// With the kernel's modules where `modprobe` looks for them, and the applets of this machine's busybox: one for
    /// another architecture cannot be run to list its own.
    pub fn new(guest: &Unpacked, own: &Unpacked) -> Result<Self> {
        let this = Self(tempfile::tempdir()?);
        let modules = this.place("lib/modules/x")?;
        cmd::capture(cmd::command("cp").arg("-r").arg(guest.modules()?).arg(modules.with_file_name(&guest.release)))?;
        for applet in cmd::capture(cmd::command(own.program("busybox")?).arg("--list"))?.lines() {
            symlink("busybox", this.place(&format!("bin/{applet}"))?)?;
        }
        this.program("bin/busybox", &fs::read(guest.program("busybox")?)?)?;
        // The kernel asks this one for modules.
        symlink("/bin/busybox", this.place("sbin/modprobe")?)?;
        Ok(this)
    }

    /// Where a path of the guest is; creates its directories.
    fn place(&self, path: &str) -> Result<PathBuf> {
        let place = self.0.path().join(path);
        fs::create_dir_all(place.parent().context("a file lies in a directory")?)?;
        Ok(place)
    }

    /// Adds a data file.
    pub fn file(&self, path: &str, content: &[u8]) -> Result<()> {
        let place = self.place(path)?;
        // The program itself replaces an applet's link.
        if place.is_symlink() {
            fs::remove_file(&place)?;
        }
        fs::write(&place, content).with_context(|| format!("cannot write {}", place.display()))
    }

    /// Adds an executable.
    pub fn program(&self, path: &str, content: &[u8]) -> Result<()> {
        self.file(path, content)?;
        Ok(fs::set_permissions(self.place(path)?, Permissions::from_mode(0o755))?)
    }

    /// Adds a program of this machine or of the packages, with the libraries that it loads, each at the path where it
    /// looks for them.
    pub fn program_with_libraries(&self, path: &str, program: &Path, packages: &Unpacked) -> Result<()> {
        if !cmd::is_static(program)? {
            let mut ldd = cmd::command("ldd");
            let said = cmd::capture(ldd.arg(program).env("LD_LIBRARY_PATH", packages.library_path()))?;
            for (name, file) in libraries(&said)? {
                let inside = format!("lib64/{name}");
                if !self.0.path().join(&inside).exists() {
                    self.program(&inside, &fs::read(&file).with_context(|| format!("cannot read {file}"))?)?;
                }
            }
        }
        self.program(path, &fs::read(program).with_context(|| format!("cannot read {}", program.display()))?)
    }

    /// Packs it into a file.
    pub fn write(&self, to: &Path, own: &Unpacked) -> Result<()> {
        let mut pack = cmd::command("sh");
        pack.args(["-c", "find . | \"$0\" cpio -o -H newc -R 0:0 -F \"$1\""]).arg(own.program("busybox")?).arg(to);
        cmd::capture(pack.current_dir(self.0.path())).map(drop)
    }
}

/// Name and file of each library in the output of `ldd`, including the loader itself.
fn libraries(ldd: &str) -> Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for line in ldd.lines().map(str::trim) {
        ensure!(!line.contains("not found"), "a library is missing: {line}");
        let file = line.split_once("=> ").map_or(line, |(_, file)| file);
        let file = file.split(" (").next().unwrap_or_default().trim();
        // The kernel's own library has no file.
        if file.starts_with('/') {
            let name = Path::new(line.split(' ').next().unwrap_or_default()).file_name();
            found.push((name.context("a library has a name")?.to_string_lossy().into_owned(), file.to_owned()));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_those_with_a_file() {
        let said =
            "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/x/libc.so.6 (0x2)\n\t/lib64/ld-linux-x86-64.so.2 (0x3)\n";
        let pair = |name: &str, file: &str| (name.to_owned(), file.to_owned());
        let found = libraries(said).unwrap();
        assert_eq!(
            found,
            [pair("libc.so.6", "/lib/x/libc.so.6"), pair("ld-linux-x86-64.so.2", "/lib64/ld-linux-x86-64.so.2")]
        );
        assert!(libraries("\tlibx.so => not found\n").is_err());
    }
}
