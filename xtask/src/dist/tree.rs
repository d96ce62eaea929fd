//! What every package contains besides the binary: manual pages, completions, licences, a bill of materials.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use qd1_lab::cmd;

use super::sbom;

/// A file of a package: where it is now, where it goes below the root, and its mode.
pub(crate) struct Entry {
    pub(crate) from: PathBuf,
    pub(crate) to: String,
    pub(crate) mode: u32,
}

/// The shells, where each looks for completions, and under what name.
const SHELLS: [(&str, &str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions", "qd1"),
    ("zsh", "usr/share/zsh/vendor-completions", "_qd1"),
    ("fish", "usr/share/fish/vendor_completions.d", "qd1.fish"),
];
const DOC: &str = "usr/share/doc/qd1";

/// Makes the architecture-independent files in `dir`, with a binary that runs here.
pub(crate) fn common(binary: &Path, dir: &Path) -> Result<Vec<Entry>> {
    let mut entries = Vec::new();
    let man = dir.join("man");
    cmd::capture(cmd::command(binary).arg("man").arg(&man))?;
    let mut pages: Vec<PathBuf> =
        fs::read_dir(&man)?.map(|entry| entry.map(|entry| entry.path())).collect::<Result<_, _>>()?;
    pages.sort();
    for page in pages {
        cmd::capture(cmd::command("gzip").args(["-9", "-n", "-f"]).arg(&page))?;
        let name = page.file_name().context("a page has a name")?.to_string_lossy().into_owned();
        let from = page.with_file_name(format!("{name}.gz"));
        entries.push(Entry { from, to: format!("usr/share/man/man1/{name}.gz"), mode: 0o644 });
    }
    for (shell, place, name) in SHELLS {
        let script = cmd::capture(cmd::command(binary).args(["completions", shell]))?;
        let from = dir.join(format!("completions.{shell}"));
        fs::write(&from, script)?;
        entries.push(Entry { from, to: format!("{place}/{name}"), mode: 0o644 });
    }
    let root = cmd::root();
    for name in ["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"] {
        entries.push(Entry { from: root.join(name), to: format!("{DOC}/{name}"), mode: 0o644 });
    }
    let (bill, licences) = sbom::of_workspace()?;
    for (name, text) in [("qd1.cdx.json", bill), ("THIRD-PARTY.txt", licences)] {
        let from = dir.join(name);
        fs::write(&from, text)?;
        entries.push(Entry { from, to: format!("{DOC}/{name}"), mode: 0o644 });
    }
    Ok(entries)
}

/// Copies a package's files below `root`.
pub(crate) fn lay_out(entries: &[Entry], root: &Path) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    for entry in entries {
        let to = root.join(&entry.to);
        let parent = to.parent().context("a file lies in a directory")?;
        fs::create_dir_all(parent)?;
        fs::copy(&entry.from, &to).with_context(|| format!("cannot copy {}", entry.from.display()))?;
        fs::set_permissions(&to, fs::Permissions::from_mode(entry.mode))?;
    }
    // Whatever the umask.
    cmd::capture(cmd::command("find").arg(root).args(["-type", "d", "-exec", "chmod", "755", "{}", "+"])).map(drop)
}
