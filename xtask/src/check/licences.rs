//! What may enter the binary, by `deny.toml`: licences, banned crates, and where crates come from.
//!
//! The file is cargo-deny's, so `cargo deny check` agrees with this check, which needs no tool that takes minutes to
//! build. A key or value that is not known here is refused, since it would be a rule that nobody keeps. Advisories are
//! not read: their database lies on the network, and a new entry must not turn an old commit red.

use std::collections::BTreeMap;
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_json::Value;
use spdx::{Expression, Licensee, ParseMode};

use super::Notes;
use crate::{cmd, metadata};

const RULES: &str = "deny.toml";
/// How cargo names the registry that everybody uses.
const CRATES_IO: &str = "rust-lang/crates.io-index";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    graph: Graph,
    licenses: Licenses,
    bans: Bans,
    #[serde(rename = "sources")]
    _sources: Sources,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Graph {
    targets: Vec<String>,
    #[serde(rename = "all-features")]
    _all_features: True,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Licenses {
    allow: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Bans {
    #[serde(rename = "multiple-versions")]
    _multiple_versions: Warn,
    #[serde(rename = "wildcards")]
    _wildcards: Deny,
    #[serde(rename = "allow-wildcard-paths")]
    _allow_wildcard_paths: True,
    deny: Vec<Ban>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Ban {
    #[serde(rename = "crate")]
    name: String,
    reason: Option<String>,
    use_instead: Option<String>,
    /// The crates that may bring it.
    #[serde(default)]
    wrappers: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct Sources {
    #[serde(rename = "unknown-registry")]
    _unknown_registry: Deny,
    #[serde(rename = "unknown-git")]
    _unknown_git: Deny,
}

/// The one value that this check implements.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Deny {
    Deny,
}

/// The one value that this check implements.
#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Warn {
    Warn,
}

/// The one value that this check implements.
#[derive(Deserialize)]
#[serde(try_from = "bool")]
struct True;

impl TryFrom<bool> for True {
    type Error = &'static str;

    fn try_from(value: bool) -> Result<Self, Self::Error> {
        if value { Ok(Self) } else { Err("only true is implemented") }
    }
}

pub(super) fn run() -> Result<Notes> {
    let text = fs::read_to_string(cmd::root().join(RULES)).with_context(|| format!("cannot read {RULES}"))?;
    let rules: Rules = toml::from_str(&text).with_context(|| format!("{RULES} says what this check does not know"))?;
    let graph = metadata::graph(&rules.graph.targets)?;
    let faults = faults(&rules, &graph)?;
    ensure!(faults.is_empty(), "{}\n`cargo tree --workspace --invert NAME` says who wants it", faults.join("\n"));
    Ok(doubles(&graph).into_iter().collect())
}

/// Each broken rule as a line.
fn faults(rules: &Rules, graph: &Value) -> Result<Vec<String>> {
    let allowed: Vec<Licensee> = rules.licenses.allow.iter().map(|text| licensee(text)).collect::<Result<_>>()?;
    let mut found = Vec::new();
    for package in packages(graph) {
        let name = format!("{} {}", text(package, "name"), text(package, "version"));
        found.extend(unlicensed(text(package, "license"), &allowed).map(|why| format!("{name}: {why}")));
        found.extend(strange_source(package["source"].as_str()).map(|why| format!("{name}: {why}")));
        let ban = rules.bans.deny.iter().find(|ban| ban.name == text(package, "name"));
        if let Some(ban) = ban.filter(|ban| !comes_by(graph, package, &ban.wrappers)) {
            let instead = ban.use_instead.as_ref().map(|other| format!("use {other}"));
            let why = ban.reason.clone().or(instead).unwrap_or_default();
            found.push(format!("{name} is banned: {why}"));
        }
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            if text(dependency, "req") == "*" && dependency["path"].is_null() {
                found.push(format!("{name} takes any version of {}", text(dependency, "name")));
            }
        }
    }
    Ok(found)
}

/// Whether all packages that depend on `package` are among `wrappers`.
fn comes_by(graph: &Value, package: &Value, wrappers: &[String]) -> bool {
    let nodes = graph["resolve"]["nodes"].as_array().into_iter().flatten();
    let wants = |node: &&Value| node["deps"].as_array().into_iter().flatten().any(|dep| dep["pkg"] == package["id"]);
    let name_of = |id: &Value| packages(graph).find(|other| other["id"] == *id).map(|other| text(other, "name"));
    let mut found = nodes.filter(wants).peekable();
    found.peek().is_some()
        && found.all(|node| name_of(&node["id"]).is_some_and(|name| wrappers.iter().any(|wrapper| wrapper == name)))
}

fn packages(graph: &Value) -> impl Iterator<Item = &Value> {
    graph["packages"].as_array().into_iter().flatten()
}

fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or_default()
}

fn licensee(text: &str) -> Result<Licensee> {
    Licensee::parse(text).with_context(|| format!("{RULES}: {text} is no licence of SPDX's list"))
}

/// What is wrong with a package's licence. Older crates write `MIT/Apache-2.0`.
fn unlicensed(expression: &str, allowed: &[Licensee]) -> Option<String> {
    if expression.is_empty() {
        return Some("it names no licence".to_owned());
    }
    match Expression::parse_mode(expression, ParseMode::LAX) {
        Ok(parsed) => {
            let holds = parsed.evaluate(|wanted| allowed.iter().any(|licensee| licensee.satisfies(wanted)));
            (!holds).then(|| format!("its licence {expression} is not allowed"))
        }
        Err(error) => Some(format!("its licence {expression:?} cannot be read: {}", error.reason)),
    }
}

/// What is wrong with where a package comes from. Those of the workspace have no source.
fn strange_source(source: Option<&str>) -> Option<String> {
    let source = source?;
    let usual = source.strip_prefix("registry+").is_some_and(|address| address.ends_with(CRATES_IO));
    (!usual).then(|| format!("it comes from {source}"))
}

/// Crates with two versions: they cost size and build time, but the fix lies with others.
fn doubles(graph: &Value) -> Option<String> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages(graph) {
        versions.entry(text(package, "name")).or_default().push(text(package, "version"));
    }
    let doubles: Vec<_> = versions.into_iter().filter(|(_, versions)| versions.len() > 1).collect();
    let shown = doubles.iter().map(|(name, versions)| format!("{name} {}", versions.join(" and ")));
    (!doubles.is_empty()).then(|| format!("in several versions: {}", shown.collect::<Vec<_>>().join(", ")))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn rules() -> Rules {
        toml::from_str(&fs::read_to_string(cmd::root().join(RULES)).unwrap()).unwrap()
    }

    /// A graph of one package, as `cargo metadata` prints it, with this changed.
    fn graph(change: &Value) -> Value {
        let mut package = json!({
            "name": "a", "version": "1.0.0", "license": "MIT OR Apache-2.0",
            "source": format!("registry+https://example.org/{CRATES_IO}"), "dependencies": [],
        });
        for (key, value) in change.as_object().unwrap() {
            package[key] = value.clone();
        }
        json!({ "packages": [package] })
    }

    /// The one fault of a graph.
    #[track_caller]
    fn fault(change: &Value) -> String {
        let mut found = faults(&rules(), &graph(change)).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        found.remove(0)
    }

    #[test]
    fn permissive_licences_pass_however_they_are_written() {
        for licence in
            ["MIT", "MIT/Apache-2.0", "Apache-2.0 WITH LLVM-exception", "(MIT OR GPL-2.0-only) AND Unicode-3.0"]
        {
            let found = faults(&rules(), &graph(&json!({ "license": licence }))).unwrap();
            assert_eq!(found, Vec::<String>::new(), "{licence}");
        }
    }

    #[test]
    fn a_copyleft_licence_or_none_is_found() {
        for licence in ["GPL-3.0-only", "MIT AND GPL-2.0-or-later", "LGPL-2.1-only", "MPL-2.0", "Apache-2.0 WITH X", ""]
        {
            assert!(fault(&json!({ "license": licence })).starts_with("a 1.0.0: it"), "{licence}");
        }
        assert!(fault(&json!({ "license": null })).contains("names no licence"));
    }

    #[test]
    fn a_banned_crate_may_come_by_its_wrappers_alone() {
        let mut graph = graph(&json!({ "name": "chrono", "id": "chrono 1" }));
        let wrapper = json!({ "name": "kuva", "id": "kuva 1", "license": "MIT", "version": "1.0.0" });
        graph["packages"].as_array_mut().unwrap().push(wrapper);
        graph["resolve"] = json!({ "nodes": [{ "id": "kuva 1", "deps": [{ "pkg": "chrono 1" }] }] });
        let package = graph["packages"][0].clone();
        assert!(comes_by(&graph, &package, &["kuva".to_owned()]));
        assert!(!comes_by(&graph, &package, &[]) && !comes_by(&graph, &package, &["other".to_owned()]));
    }

    #[test]
    fn a_banned_crate_is_found_with_the_reason() {
        assert_eq!(fault(&json!({ "name": "chrono" })), "chrono 1.0.0 is banned: use jiff");
        assert!(fault(&json!({ "name": "openssl-sys" })).ends_with("the static binary has no network and no TLS"));
    }

    #[test]
    fn a_source_other_than_the_usual_registry_is_found() {
        for source in
            ["git+https://example.org/a#1", "registry+https://example.org/index", "sparse+https://example.org/"]
        {
            assert_eq!(fault(&json!({ "source": source })), format!("a 1.0.0: it comes from {source}"));
        }
        assert_eq!(faults(&rules(), &graph(&json!({ "source": null }))).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn any_version_is_refused_but_for_a_path() {
        let on = |path: Value| json!({ "dependencies": [{ "name": "b", "req": "*", "path": path }] });
        assert_eq!(fault(&on(Value::Null)), "a 1.0.0 takes any version of b");
        assert_eq!(faults(&rules(), &graph(&on(json!("/b")))).unwrap(), Vec::<String>::new());
    }

    #[test]
    fn two_versions_of_a_crate_are_noted() {
        let package = |name: &str, version: &str| json!({ "name": name, "version": version });
        let graph = json!({ "packages": [package("syn", "2.0.1"), package("toml", "1.0.0"), package("syn", "3.0.9")] });
        assert_eq!(doubles(&graph).unwrap(), "in several versions: syn 2.0.1 and 3.0.9");
    }

    #[test]
    fn a_rule_that_this_check_does_not_keep_is_refused() {
        let text = fs::read_to_string(cmd::root().join(RULES)).unwrap();
        for (from, to) in [
            ("multiple-versions = \"warn\"", "multiple-versions = \"deny\""),
            ("unknown-git = \"deny\"", "unknown-git = \"warn\""),
            ("[licenses]", "[licenses]\nconfidence-threshold = 0.9"),
        ] {
            let changed = text.replace(from, to);
            assert_ne!(changed, text);
            assert!(toml::from_str::<Rules>(&changed).is_err(), "{to}");
        }
    }
}
