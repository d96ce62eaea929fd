//! The guest's whole world: an archive of files that the kernel unpacks into memory.
//!
//! The format is the kernel's own (Documentation/driver-api/early-userspace/buffer-format.rst): `newc`, a header of
//! hexadecimal numbers before each name and content. Writing it here spares a program, and root for device nodes.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::cmd;
use crate::packages::Unpacked;

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_644;
const PROGRAM: u32 = 0o100_755;
const LINK: u32 = 0o120_777;

/// An archive that grows.
#[derive(Default)]
pub(crate) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
    made: BTreeSet<PathBuf>,
}

impl Archive {
    /// An empty directory, and those above it.
    pub(crate) fn directory(&mut self, path: &str) {
        let path = Path::new(path);
        let mut all: Vec<&Path> = path.ancestors().filter(|part| !part.as_os_str().is_empty()).collect();
        all.reverse();
        for part in all {
            if self.made.insert(part.to_owned()) {
                self.entry(&part.to_string_lossy(), DIRECTORY, &[]);
            }
        }
    }

    /// A file that is read.
    pub(crate) fn file(&mut self, path: &str, content: &[u8]) {
        self.put(path, FILE, content);
    }

    /// A file that is run.
    pub(crate) fn program(&mut self, path: &str, content: &[u8]) {
        self.put(path, PROGRAM, content);
    }

    /// A symbolic link.
    pub(crate) fn link(&mut self, path: &str, to: &str) {
        self.put(path, LINK, to.as_bytes());
    }

    /// A program of this machine or of the packages, with the libraries it loads, each at the path where it looks for
    /// them.
    pub(crate) fn program_with_libraries(&mut self, path: &str, program: &Path, packages: &Unpacked) -> Result<()> {
        let content = fs::read(program).with_context(|| format!("cannot read {}", program.display()))?;
        if !cmd::is_static(program)? {
            let mut ldd = cmd::command("ldd");
            let said = cmd::capture(ldd.arg(program).env("LD_LIBRARY_PATH", packages.library_path()))?;
            for (name, file) in libraries(&said)? {
                let inside = format!("lib64/{name}");
                if !self.made.contains(Path::new(&inside)) {
                    let library = fs::read(&file).with_context(|| format!("cannot read {file}"))?;
                    self.program(&inside, &library);
                }
            }
        }
        self.program(path, &content);
        Ok(())
    }

    fn put(&mut self, path: &str, mode: u32, content: &[u8]) {
        if let Some(parent) = Path::new(path).parent().and_then(Path::to_str) {
            self.directory(parent);
        }
        if self.made.insert(PathBuf::from(path)) {
            self.entry(path, mode, content);
        }
    }

    fn entry(&mut self, path: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let content_length = u32::try_from(content.len()).unwrap_or(u32::MAX);
        let name_length = u32::try_from(path.len()).unwrap_or(u32::MAX) + 1;
        // Inode, mode, owner, group, links, time, length, device numbers of both kinds, length of the name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, content_length, 0, 0, 0, 0, name_length, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08x}").as_bytes());
        }
        self.bytes.extend_from_slice(path.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    /// Writes it to a file.
    pub(crate) fn write(mut self, to: &Path) -> Result<()> {
        self.entry("TRAILER!!!", 0, &[]);
        fs::write(to, &self.bytes).with_context(|| format!("cannot write {}", to.display()))?;
        fs::set_permissions(to, fs::Permissions::from_mode(0o600))?;
        Ok(())
    }
}

/// Name and file of each library in what `ldd` says; the loader itself is among them.
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
    fn a_file_comes_after_its_directories_and_is_padded() {
        let mut archive = Archive::default();
        archive.program("a/b/run", b"abc");
        archive.link("a/b/link", "run");
        let text = String::from_utf8_lossy(&archive.bytes).into_owned();
        let at = |part: &str| text.find(part).unwrap_or_else(|| panic!("{part} is missing"));
        assert!(at("a\0") < at("a/b\0") && at("a/b\0") < at("a/b/run\0") && at("a/b/run\0") < at("a/b/link\0"));
        assert_eq!(text.matches("070701").count(), 4);
        assert_eq!(archive.bytes.len() % 4, 0);
    }

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
