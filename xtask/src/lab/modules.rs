//! Kernel modules for the guest: those that scenarios name, with all that they need.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, bail};

use super::initramfs::Archive;
use crate::packages::Unpacked;

/// Loaded before any scenario: the bus of the virtual disks, the port that results go through, the driver of all SCSI
/// disks, and the checksum that ext4 asks for when it is mounted.
pub(super) const ALWAYS: &[&str] = &["virtio_pci", "virtio_console", "sd_mod", "crc32c_generic"];

/// `modules.dep`: the file of each module, and the files it needs.
struct Dependencies {
    /// By name, with `_` for `-` as the kernel has it.
    files: BTreeMap<String, String>,
    needs: BTreeMap<String, Vec<String>>,
}

/// Puts the modules into the archive, where `modprobe` looks for them.
pub(crate) fn pack(archive: &mut Archive, packages: &Unpacked, names: &BTreeSet<String>) -> Result<()> {
    let dir = packages.modules()?;
    let text = fs::read_to_string(dir.join("modules.dep")).context("the kernel's modules have no modules.dep")?;
    let all = Dependencies::parse(&text);
    let builtin = fs::read_to_string(dir.join("modules.builtin")).unwrap_or_default();
    let mut wanted = BTreeSet::new();
    for name in names {
        match all.files.get(&name.replace('-', "_")) {
            Some(file) => all.closure(file, &mut wanted),
            None if is_builtin(&builtin, name) => {}
            None => bail!("the kernel {} has no module {name}", packages.release),
        }
    }
    let inside = format!("lib/modules/{}", packages.release);
    let mut lines = String::new();
    for file in &wanted {
        let content = fs::read(dir.join(file)).with_context(|| format!("cannot read the module {file}"))?;
        archive.file(&format!("{inside}/{file}"), &content);
        let needs = all.needs.get(file).map(Vec::as_slice).unwrap_or_default();
        lines.push_str(&format!("{file}: {}\n", needs.join(" ")));
    }
    archive.file(&format!("{inside}/modules.dep"), lines.as_bytes());
    Ok(())
}

/// Whether the kernel has it inside; `/virtio_pci.ko` at the end of a line.
fn is_builtin(builtin: &str, name: &str) -> bool {
    let wanted = name.replace('-', "_");
    let names = builtin.lines().filter_map(|line| line.rsplit('/').next()?.strip_suffix(".ko"));
    names.into_iter().any(|name| name.replace('-', "_") == wanted)
}

impl Dependencies {
    fn parse(text: &str) -> Self {
        let mut this = Self { files: BTreeMap::new(), needs: BTreeMap::new() };
        for (file, needs) in text.lines().filter_map(|line| line.split_once(':')) {
            let name = file.rsplit('/').next().unwrap_or(file);
            let name = name.split(".ko").next().unwrap_or(name).replace('-', "_");
            this.files.insert(name, file.to_owned());
            this.needs.insert(file.to_owned(), needs.split_whitespace().map(str::to_owned).collect());
        }
        this
    }

    /// The file and all that it needs, at any remove.
    fn closure(&self, file: &str, into: &mut BTreeSet<String>) {
        if into.insert(file.to_owned()) {
            for needed in self.needs.get(file).map(Vec::as_slice).unwrap_or_default() {
                self.closure(needed, into);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEP: &str = "kernel/drivers/md/dm-delay.ko: kernel/drivers/md/dm-mod.ko\n\
                       kernel/drivers/md/dm-mod.ko: kernel/drivers/dax/dax.ko\n\
                       kernel/drivers/dax/dax.ko:\nkernel/fs/x.ko:\n";

    #[test]
    fn a_module_brings_what_it_needs_at_any_remove() {
        let all = Dependencies::parse(DEP);
        let mut wanted = BTreeSet::new();
        all.closure(&all.files["dm_delay"], &mut wanted);
        let names: Vec<_> = wanted.iter().map(|file| file.rsplit('/').next().unwrap()).collect();
        assert_eq!(names, ["dax.ko", "dm-delay.ko", "dm-mod.ko"]);
    }

    #[test]
    fn a_builtin_module_is_no_file() {
        assert!(is_builtin("kernel/drivers/virtio/virtio-pci.ko\n", "virtio_pci"));
        assert!(!is_builtin("kernel/drivers/virtio/virtio-pci.ko\n", "virtio"));
    }
}
