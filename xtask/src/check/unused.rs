//! Dependencies that nobody uses, or only tests.
//!
//! A dependency counts as used where a path in the package's sources begins with its name and does not lead to
//! something of the crate's own. One that only switches features on is named in `IGNORED` with the reason.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::{Notes, modules, paths};
use crate::setup::MUSL;
use crate::{cmd, metadata};

/// Packages with dependencies that no source names, and why they are there.
const IGNORED: &[(&str, &str)] = &[];

/// What a package's sources name.
#[derive(Default)]
struct Named {
    /// In its libraries and programs, without their tests.
    shipped: BTreeSet<String>,
    /// In its build script.
    building: BTreeSet<String>,
    /// All of its sources, each with its path.
    sources: Vec<(PathBuf, String)>,
}

pub(super) fn run() -> Result<Notes> {
    let metadata = metadata::graph(&[MUSL.to_owned()])?;
    let members = metadata["workspace_members"].as_array().context("cargo metadata names no members")?;
    let mut found = Vec::new();
    let mut manifests = Vec::new();
    for package in metadata["packages"].as_array().into_iter().flatten().filter(|it| members.contains(&it["id"])) {
        let path = package["manifest_path"].as_str().context("a package has no manifest")?;
        found.extend(faults(package, &libraries(&metadata, package), &Named::read(package, Path::new(path))?)?);
        manifests.push(fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?);
    }
    let root = fs::read_to_string(cmd::root().join("Cargo.toml")).context("cannot read Cargo.toml")?;
    found.extend(unshared(&root, &manifests)?);
    ensure!(found.is_empty(), "{}", found.join("\n"));
    Ok(Vec::new())
}

/// By what name a package's sources know each of its dependencies, where that is not the package's own.
fn libraries<'a>(metadata: &'a Value, package: &Value) -> BTreeMap<&'a str, &'a str> {
    let each = |value: &'a Value| value.as_array().into_iter().flatten();
    let names: BTreeMap<&str, &str> =
        each(&metadata["packages"]).filter_map(|it| Some((it["id"].as_str()?, it["name"].as_str()?))).collect();
    let node = each(&metadata["resolve"]["nodes"]).find(|node| node["id"] == package["id"]);
    let dependencies = node.into_iter().flat_map(|node| each(&node["deps"]));
    dependencies.filter_map(|on| Some((*names.get(on["pkg"].as_str()?)?, on["name"].as_str()?))).collect()
}

/// Each dependency of a package that its sources do not name where they should.
fn faults(package: &Value, libraries: &BTreeMap<&str, &str>, named: &Named) -> Result<Vec<String>> {
    let name = package["name"].as_str().unwrap_or_default();
    let mut found = Vec::new();
    for dependency in package["dependencies"].as_array().into_iter().flatten() {
        let on = dependency["name"].as_str().unwrap_or_default();
        // A package may name itself, to switch features on for its own tests.
        if on == name || IGNORED.contains(&(name, on)) {
            continue;
        }
        let renamed = dependency["rename"].as_str().or(libraries.get(on).copied());
        let word = renamed.unwrap_or(on).replace('-', "_");
        let (is_used, section) = match dependency["kind"].as_str() {
            None => (named.shipped.contains(&word), "[dependencies]"),
            Some("build") => (named.building.contains(&word), "[build-dependencies]"),
            Some(_) => (named.anywhere(&word)?, "[dev-dependencies]"),
        };
        if !is_used {
            let how = if named.anywhere(&word)? { "but only other parts use it" } else { "but nothing uses it" };
            found.push(format!("{name}: {on} is in {section}, {how}"));
        }
    }
    Ok(found)
}

impl Named {
    fn read(package: &Value, manifest: &Path) -> Result<Self> {
        let mut named = Self::default();
        let read = |file: &Path| fs::read_to_string(file).ok();
        for target in package["targets"].as_array().into_iter().flatten() {
            let root = PathBuf::from(target["src_path"].as_str().context("a target has no source")?);
            let kinds: Vec<&str> = target["kind"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            if kinds.contains(&"custom-build") {
                named.building.extend(modules::outside(&root, &read)?);
            } else if kinds.contains(&"lib") || kinds.contains(&"bin") {
                named.shipped.extend(modules::outside(&root, &read)?);
            }
        }
        let dir = manifest.parent().context("a manifest lies in a directory")?;
        let mut files = vec![dir.join("build.rs")];
        ["src", "tests", "examples", "benches"].iter().try_for_each(|name| rust_files(&dir.join(name), &mut files))?;
        for file in files.into_iter().filter(|file| file.is_file()) {
            let source = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            named.sources.push((file, source));
        }
        Ok(named)
    }

    /// Whether any source, a test's too, names it. Only those that hold the word are parsed.
    fn anywhere(&self, word: &str) -> Result<bool> {
        for (file, source) in self.sources.iter().filter(|(_, source)| source.contains(word)) {
            let words = paths::first_words(source).with_context(|| format!("cannot parse {}", file.display()))?;
            if words.contains(word) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Adds the Rust files below a directory, if there is one.
fn rust_files(dir: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(dir).into_iter().flatten() {
        let path = entry.with_context(|| format!("cannot read {}", dir.display()))?.path();
        if path.is_dir() {
            rust_files(&path, found)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    Ok(())
}

/// Entries of `[workspace.dependencies]` that no package shares.
fn unshared(root: &str, manifests: &[String]) -> Result<Vec<String>> {
    let root: toml::Table = toml::from_str(root).context("cannot parse Cargo.toml")?;
    let mut shared = BTreeSet::new();
    for manifest in manifests {
        let manifest: toml::Table = toml::from_str(manifest).context("cannot parse a manifest")?;
        for kind in ["dependencies", "dev-dependencies", "build-dependencies"] {
            shared.extend(
                manifest.get(kind).and_then(toml::Value::as_table).into_iter().flat_map(toml::Table::keys).cloned(),
            );
        }
    }
    let entries = root.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    let names = entries.into_iter().flat_map(toml::Table::keys);
    let unshared = names.filter(|name| !shared.contains(*name));
    Ok(unshared
        .map(|name| format!("Cargo.toml: {name} is in [workspace.dependencies], but no package has it"))
        .collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The faults of a package of these files, with `used` in all three kinds of dependencies.
    fn found(files: &[(&str, &str)], dependencies: &[(&str, Option<&str>)]) -> Vec<String> {
        let dir = tempfile::tempdir().unwrap();
        let mut targets = Vec::new();
        for (name, source) in files {
            let path = dir.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, source).unwrap();
            let kind = match *name {
                "src/lib.rs" => "lib",
                "build.rs" => "custom-build",
                name if name.starts_with("tests/") => "test",
                _ => continue,
            };
            targets.push(json!({ "kind": [kind], "src_path": path }));
        }
        let dependencies: Vec<_> =
            dependencies.iter().map(|(name, kind)| json!({ "name": name, "kind": kind, "rename": null })).collect();
        let package = json!({ "name": "p", "targets": targets, "dependencies": dependencies });
        let libraries = BTreeMap::from([("md-5", "md5")]);
        faults(&package, &libraries, &Named::read(&package, &dir.path().join("Cargo.toml")).unwrap()).unwrap()
    }

    #[test]
    fn a_dependency_that_no_source_names_is_found() {
        let source =
            "//! serde is named here alone, and in \"serde::Text\".\npub fn f() { serde_json::to_string(&1); }";
        let found = found(&[("src/lib.rs", source)], &[("serde", None), ("serde-json", None), ("md-5", Some("dev"))]);
        let unused = ["p: serde is in [dependencies], but nothing", "p: md-5 is in [dev-dependencies], but nothing"];
        assert_eq!(found, unused.map(|text| format!("{text} uses it")));
    }

    #[test]
    fn what_only_tests_use_belongs_to_them() {
        let files = [
            ("src/lib.rs", "mod a; #[cfg(test)] mod tests { use proptest::prelude::*; }"),
            ("src/a.rs", "use md5::Digest; #[derive(Debug, thiserror::Error)] enum E {}"),
            ("tests/t.rs", "fn t() { assert!(tempfile::tempdir().is_ok()) }"),
            ("build.rs", "fn main() { cc::Build::new(); }"),
        ];
        let right = [
            ("md-5", None),
            ("proptest", Some("dev")),
            ("thiserror", None),
            ("tempfile", Some("dev")),
            ("cc", Some("build")),
        ];
        assert_eq!(found(&files, &right), Vec::<String>::new());
        let wrong = [("proptest", None), ("tempfile", None), ("thiserror", Some("build")), ("cc", None)];
        let found = found(&files, &wrong);
        assert_eq!(found.len(), 4, "{found:?}");
        assert!(found.iter().all(|line| line.ends_with("but only other parts use it")), "{found:?}");
    }

    #[test]
    fn a_module_of_the_same_name_does_not_hide_it() {
        let files = [("src/lib.rs", "mod toml; fn f() { toml::read() }"), ("src/toml.rs", "pub fn read() {}")];
        assert_eq!(found(&files, &[("toml", None)]).len(), 1);
        let with =
            [("src/lib.rs", "mod toml; fn f() { toml::read() }"), ("src/toml.rs", "pub fn read() { ::toml::x() }")];
        assert_eq!(found(&with, &[("toml", None)]), Vec::<String>::new());
    }

    #[test]
    fn an_entry_of_the_workspace_that_nobody_shares_is_found() {
        let root = "[workspace.dependencies]\na = \"1\"\nb = { version = \"1\" }\n";
        let found = unshared(root, &["[dev-dependencies]\na.workspace = true\n".to_owned()]).unwrap();
        assert_eq!(found, ["Cargo.toml: b is in [workspace.dependencies], but no package has it"]);
    }
}
