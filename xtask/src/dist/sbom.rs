//! What is in the binary, from cargo's own metadata: a bill of materials (CycloneDX 1.5) and the licences of each
//! crate, with their texts.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use qd1_lab::cmd;
use serde_json::{Value, json};

/// Parts of the binary that are not crates: name, version, licence, and its text in the sources.
const VENDORED: [(&str, &str, &str, &str); 2] = [
    ("uPlot", "1.6.32", "MIT", "crates/report/src/html/uPlot.LICENSE"),
    ("DejaVu Sans", "2.37", "Bitstream-Vera", "crates/report/src/plot/draw/font/LICENSE"),
];

/// Returns the bill of materials, and the licences of all crates in it.
pub(crate) fn of_workspace() -> Result<(String, String)> {
    let args = ["metadata", "--format-version", "1", "--locked", "--filter-platform", crate::setup::MUSL];
    let metadata = cmd::json(cmd::cargo().args(args))?;
    let inside = reachable(&metadata, "qd1")?;
    let packages = metadata["packages"].as_array().context("cargo has no packages")?;
    let mut crates: Vec<&Value> = packages.iter().filter(|package| inside.contains(text(&package["id"]))).collect();
    crates.sort_by_key(|package| (text(&package["name"]), text(&package["version"])));
    let component = |package: &&Value| {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:cargo/{name}@{version}"),
            "licenses": [{ "expression": text(&package["license"]) }],
        })
    };
    let vendored = |(name, version, licence, _): (&str, &str, &str, &str)| {
        json!({
            "type": "library",
            "name": name,
            "version": version,
            "purl": format!("pkg:npm/{}@{version}", name.to_lowercase()),
            "licenses": [{ "expression": licence }],
        })
    };
    let is_foreign = |package: &&&Value| !package["source"].is_null();
    let own = crates.iter().find(|package| text(&package["name"]) == "qd1").context("qd1 is not in its workspace")?;
    let bill = json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "qd1", "version": own["version"] } },
        "components": crates.iter().filter(is_foreign).map(component).chain(VENDORED.map(vendored)).collect::<Vec<_>>(),
    });
    let mut licences = String::new();
    for package in crates.iter().filter(is_foreign) {
        licences +=
            &format!("{} {}: {}\n", text(&package["name"]), text(&package["version"]), text(&package["license"]));
    }
    for (name, version, licence, _) in VENDORED {
        licences += &format!("{name} {version}: {licence}\n");
    }
    licences += &texts(&crates)?;
    Ok((serde_json::to_string_pretty(&bill)? + "\n", licences))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// The packages that a binary is built from: what `root` depends on, except for tests and build scripts.
fn reachable<'a>(metadata: &'a Value, root: &str) -> Result<BTreeSet<&'a str>> {
    let packages = metadata["packages"].as_array().context("cargo has no packages")?;
    let first = packages.iter().find(|package| text(&package["name"]) == root).context("no such package")?;
    let nodes = metadata["resolve"]["nodes"].as_array().context("cargo resolved nothing")?;
    let nodes: BTreeMap<&str, &Value> = nodes.iter().map(|node| (text(&node["id"]), node)).collect();
    let mut found = BTreeSet::new();
    let mut open = vec![text(&first["id"])];
    while let Some(id) = open.pop() {
        if !found.insert(id) {
            continue;
        }
        let deps = nodes.get(id).and_then(|node| node["deps"].as_array()).into_iter().flatten();
        let is_normal =
            |dep: &&Value| dep["dep_kinds"].as_array().into_iter().flatten().any(|kind| kind["kind"].is_null());
        open.extend(deps.filter(is_normal).map(|dep| text(&dep["pkg"])));
    }
    Ok(found)
}

/// The texts of the licences, each once, with the crates that it covers.
fn texts(crates: &[&Value]) -> Result<String> {
    let mut texts: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for package in crates {
        let dir = Path::new(text(&package["manifest_path"])).parent().context("a manifest lies in a directory")?;
        let mut files: Vec<_> = fs::read_dir(dir)?.flatten().map(|entry| entry.path()).collect();
        files.sort();
        for file in files {
            let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
            let is_licence = ["LICEN", "COPYING", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start));
            if is_licence
                && file.is_file()
                && let Ok(found) = fs::read_to_string(&file)
            {
                texts.entry(found.trim().to_owned()).or_default().push(text(&package["name"]).to_owned());
            }
        }
    }
    for (name, _, _, file) in VENDORED {
        let text = fs::read_to_string(cmd::root().join(file)).with_context(|| file.to_owned())?;
        texts.entry(text.trim().to_owned()).or_default().push(name.to_owned());
    }
    let mut all = String::new();
    for (text, mut of) in texts {
        of.dedup();
        all += &format!("\n{}\n{}\n\n{text}\n", "-".repeat(78), of.join(", "));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_enters_the_binary_is_listed() {
        let node = |id: &str, deps: &[(&str, Option<&str>)]| {
            let deps: Vec<Value> =
                deps.iter().map(|(pkg, kind)| json!({ "pkg": pkg, "dep_kinds": [{ "kind": kind }] })).collect();
            json!({ "id": id, "deps": deps })
        };
        let packages: Vec<Value> =
            ["qd1", "used", "deep", "test"].iter().map(|name| json!({ "name": name, "id": name })).collect();
        let nodes = [node("qd1", &[("used", None), ("test", Some("dev"))]), node("used", &[("deep", None)])];
        let metadata = json!({ "packages": packages, "resolve": { "nodes": nodes } });
        let found: Vec<&str> = reachable(&metadata, "qd1").unwrap().into_iter().collect();
        assert_eq!(found, ["deep", "qd1", "used"]);
    }
}
